package terraformtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// verdict is all that a command says and does, in terms that a CLI and a Session share.
type verdict struct {
	Failed  bool
	Said    []string // diagnostics, sorted
	Plan    map[string]change
	State   map[string]kept
	Outputs map[string]string
	Calls   map[string][]string // by resource: what the provider was asked, in order
}

type change struct {
	Action  string
	Replace []string
	Planned map[string]string
}

type kept struct {
	Attributes map[string]string
	Private    string
	Tainted    bool
	Version    int64
}

func (v *verdict) said(lines ...string) {
	v.Said = append(v.Said, lines...)
	slices.Sort(v.Said)
}

// step is one command of a story.
type step struct {
	name, config string
	orders       map[string]string // by resource
	planOnly     bool
	destroy      bool
	refresh      bool
	taint        []string // these addresses first
	replace      []string // these addresses, although nothing forces that
	unordered    bool     // Terraform asks about the parts of a resource in any order
	ordered      bool     // and no other order of all applies is possible
	importing    string   // terraform import ADDRESS ID
	id           string
}

// TestCalibrate plays the same stories on the driver and on each real CLI that is to be had: the same sample provider, the same
// configurations. Everything that is planned, said, kept in state, and asked of the provider must be the same.
func TestCalibrate(t *testing.T) {
	t.Setenv("TF_LOG_SDK", "off") // else the plugin library logs each call, and no one reads it
	if testing.Short() {
		t.Skip("runs a CLI")
	}
	found := binaries(t)
	if len(found) == 0 {
		t.Skip("neither terraform nor tofu on PATH, and TF_CLI names none: the driver is not compared with a real one")
	}
	for _, binary := range found {
		opentofu := strings.Contains(filepath.Base(binary), "tofu")
		for n, story := range stories(opentofu) {
			if !share.Plays(n, 4, story.name) {
				continue
			}
			t.Run(filepath.Base(binary)+"/"+story.name, func(t *testing.T) {
				t.Parallel()
				real, played := newCommand(t, binary), newPlayed(t)
				facts := 0
				for _, s := range story.steps {
					theirs := real.step(s)
					mine := played.step(s)
					if s.ordered {
						theirs.Calls["all"], mine.Calls["all"] = real.sample.applies, played.sample.applies
					}
					if opentofu {
						mine.asOpenTofu()
					}
					if s.unordered {
						theirs.sort()
						mine.sort()
					}
					said := theirs.facts()
					facts += len(said)
					if diff := differences(said, mine.facts()); len(diff) > 0 {
						t.Errorf("%s: %s says, and the driver:\n%s", s.name, filepath.Base(binary), strings.Join(diff, "\n"))
					}
				}
				t.Logf("%s: %d cases, %d commands, %d facts compared", filepath.Base(binary), story.cases, len(story.steps), facts)
				if facts < story.cases {
					t.Error("that is too little to say anything")
				}
			})
		}
	}
}

// asOpenTofu makes a verdict OpenTofu's: what is no longer in the configuration it reads before it plans the end of it, Terraform and the
// driver the other way round; and it has its own words.
func (v *verdict) asOpenTofu() {
	words := strings.NewReplacer("by Terraform", "by OpenTofu", "error: Instance cannot", "error: Resource instance cannot")
	for i, said := range v.Said {
		v.Said[i] = words.Replace(said)
	}
	for _, calls := range v.Calls {
		for i := 1; i < len(calls); i++ {
			if strings.HasPrefix(calls[i-1], "Plan") && strings.HasPrefix(calls[i], "Read") {
				calls[i-1], calls[i] = calls[i], calls[i-1]
			}
		}
	}
}

// sort takes the order out of the requests.
func (v *verdict) sort() {
	for _, calls := range v.Calls {
		slices.Sort(calls)
	}
}

// facts are a verdict as a table.
func (v verdict) facts() map[string]string {
	all := map[string]string{"it failed": fmt.Sprint(v.Failed)}
	for i, line := range v.Said {
		all[fmt.Sprintf("said: %s #%d", line, i-slices.Index(v.Said, line))] = "yes"
	}
	for address, c := range v.Plan {
		all[address+": action"], all[address+": replace because of"] = c.Action, fmt.Sprint(c.Replace)
		for path, value := range c.Planned {
			all[address+": planned"+path] = value
		}
	}
	for address, i := range v.State {
		all[address+": private"], all[address+": tainted"], all[address+": version"] = i.Private, fmt.Sprint(i.Tainted), fmt.Sprint(i.Version)
		for path, value := range i.Attributes {
			all[address+": state"+path] = value
		}
	}
	for name, value := range v.Outputs {
		all["output "+name] = value
	}
	for name, calls := range v.Calls {
		var rpcs []string
		for i, call := range calls {
			rpc, content, _ := strings.Cut(call, " ")
			rpcs = append(rpcs, rpc)
			all[fmt.Sprintf("%s: request %d", name, i)] = content
		}
		all[name+": asked"] = strings.Join(rpcs, ", ")
	}
	return all
}

// differences lists what two tables do not agree on. Where they disagree on which requests there were, their contents are not
// compared.
func differences(a, b map[string]string) (all []string) {
	// Of the plan of a destroy Terraform does not say whose it was.
	for fact := range a {
		if text, ok := strings.CutPrefix(fact, "said:  "); ok {
			for mine := range b {
				if a[mine] == "" && strings.HasPrefix(mine, "said: ") && strings.HasSuffix(mine, " "+text) {
					delete(a, fact)
					delete(b, mine)
					break
				}
			}
		}
	}
	both := maps.Clone(a)
	maps.Copy(both, b)
	for _, fact := range slices.Sorted(maps.Keys(both)) {
		name, _, request := strings.Cut(fact, ": request ")
		if request && a[name+": asked"] != b[name+": asked"] || a[fact] == b[fact] {
			continue
		}
		all = append(all, fmt.Sprintf("  %s\n    %s\n    %s", fact, a[fact], b[fact]))
	}
	return all
}

// played is the driver's side.
type played struct {
	t      *testing.T
	sample *wireProvider
	s      *Session
}

func newWireProvider() *wireProvider {
	return &wireProvider{orders: map[string]string{}, calls: map[string][]string{}}
}

func newPlayed(t *testing.T) *played {
	t.Helper()
	sample := newWireProvider()
	return &played{t: t, sample: sample, s: NewSession(func() (tfprotov6.ProviderServer, error) { return sample, nil })}
}

// expect takes new orders and forgets what was heard.
func (g *wireProvider) expect(orders map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.orders, g.calls, g.applies = maps.Clone(orders), map[string][]string{}, nil
}

func (g *wireProvider) heard() map[string][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.Sort(g.calls[""]) // of data sources, which are read in any order
	return maps.Clone(g.calls)
}

// step does a step with the driver.
func (p *played) step(s step) verdict {
	p.sample.expect(s.orders)
	v := verdict{Plan: map[string]change{}}
	ctx := p.t.Context()
	err := p.s.Configure(requirements + s.config)
	must(p.t, err)
	switch {
	case s.importing != "":
		err = p.s.Import(ctx, s.importing, s.id)
		for _, d := range p.s.Diagnostics() {
			v.said(kind(d) + ": " + d.Summary)
		}
	case s.refresh:
		err = p.s.Refresh(ctx)
		v.said(spoken(p.s.Diagnostics())...)
	default:
		for _, address := range s.taint {
			p.s.Taint(address, true)
		}
		var opts []PlanOption
		if s.destroy {
			opts = append(opts, ToDestroy())
		}
		opts = append(opts, Replacing(s.replace...))
		var pl *Plan
		pl, err = p.s.Plan(ctx, opts...)
		v.said(spoken(p.s.Diagnostics())...)
		if err != nil {
			break
		}
		for _, c := range pl.Changes {
			v.Plan[c.Address] = changeOf(c)
		}
		if !s.planOnly {
			err = p.s.Apply(ctx, pl)
			v.said(spoken(p.s.Diagnostics())...)
		}
	}
	v.Failed = err != nil
	v.State, v.Outputs = p.state()
	v.Calls = p.sample.heard()
	return v
}

func kind(d Diagnostic) string {
	if d.Error {
		return "error"
	}
	return "warning"
}

func spoken(ds Diagnostics) (all []string) {
	for _, d := range ds {
		if d.RPC == "configuration" {
			d.Address = "" // Terraform names the place in the file
		}
		all = append(all, fmt.Sprintf("%s %s: %s", d.Address, kind(d), d.Summary))
	}
	return all
}

func changeOf(c *Change) change {
	replace := slices.Clone(c.RequiresReplace)
	for i, path := range replace {
		replace[i] = "." + strings.NewReplacer(`["`, ".", `"]`, "", "[", ".", "]", "").Replace(path)
	}
	slices.Sort(replace)
	planned := map[string]string{}
	if c.Action == Delete {
		planned[""] = "null"
	} else {
		flattenValue(planned, c.Planned, "")
	}
	return change{Action: string(c.Action), Replace: replace, Planned: planned}
}

// flattenValue gives the leaves of a value by path.
func flattenValue(into map[string]string, v cty.Value, path string) {
	if !v.IsKnown() || v.IsNull() || v.Type().IsPrimitiveType() || v.LengthInt() == 0 {
		into[path] = objchange.ShowValue(v)
		return
	}
	i := 0
	for it := v.ElementIterator(); it.Next(); i++ {
		k, part := it.Element()
		if k.Type() == cty.String && !v.Type().IsSetType() {
			flattenValue(into, part, path+"."+k.AsString())
			continue
		}
		flattenValue(into, part, fmt.Sprintf("%s.%d", path, i))
	}
}

func (p *played) state() (resources map[string]kept, outputs map[string]string) {
	resources, outputs = map[string]kept{}, map[string]string{}
	for address, i := range p.s.state {
		var attributes any
		must(p.t, json.Unmarshal(i.json, &attributes))
		resources[address] = kept{Attributes: flatten(attributes, ""), Private: string(i.private), Tainted: i.tainted, Version: i.version}
	}
	for _, name := range p.s.Outputs() {
		var v any
		must(p.t, json.Unmarshal([]byte(objchange.ShowValue(p.s.Output(name))), &v))
		outputs[name] = fmt.Sprint(flatten(v, ""))
	}
	return resources, outputs
}
