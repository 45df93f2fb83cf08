package lifecycle_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// rulePath is the path of one HA rule, as operations are matched.
const rulePath = "/cluster/ha/rules/{rule}"

// placed are VMs under HA, with these ids, named after their ids.
func placed(vmids ...int) (text string) {
	for _, id := range vmids {
		text += fmt.Sprintf("resource \"proxmox_vm\" \"v%d\" {\n  vmid = %[1]d\n  node = \"pve1\"\n  power_state = \"stopped\"\n"+
			"  ha = { state = \"stopped\" }\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n}\n", id)
	}
	return text
}

// ruleBlock is the configuration of a rule.
func ruleBlock(lines string) string {
	return "resource \"proxmox_ha_rule\" \"r\" {\n" + lines + "\n}\n"
}

// members are the resources of a rule that refers to VMs.
func members(vmids ...int) string {
	var sids []string
	for _, id := range vmids {
		sids = append(sids, fmt.Sprintf("\"vm:${proxmox_vm.v%d.vmid}\"", id))
	}
	return "resources = [" + strings.Join(sids, ", ") + "]\n"
}

// apart is a rule that keeps two VMs apart, and both.
func apart(more string) string {
	return placed(400, 401) + ruleBlock("rule = \"apart\"\ntype = \"resource-affinity\"\naffinity = \"negative\"\n"+members(400, 401)+more)
}

// haWorld is a cluster of a version, without a mark of the rules that it had.
func haWorld(t *testing.T, profile string) *rig.World {
	t.Helper()
	w := rig.NewWorld(t, pvesim.Options{Profile: profile})
	w.Mark()
	return w
}

// ruleOf is a rule as the server has it.
func ruleOf(w *rig.World, id string) (rule map[string]string) {
	w.Change(func(world *state.World) { rule = maps.Clone(world.HARules[id]) })
	return rule
}

// wantRule compares a rule of the server.
func wantRule(t *testing.T, w *rig.World, id string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, ruleOf(w, id)); diff != "" {
		t.Errorf("rule %s (-want +got):\n%s", id, diff)
	}
}

// TestHARuleLife makes, changes, imports and removes rules of both types. Each plan after an apply is empty.
func TestHARuleLife(t *testing.T) {
	t.Parallel()
	on := func(lines string) string {
		return placed(400, 401) + ruleBlock("rule = \"where\"\ntype = \"node-affinity\"\n"+lines)
	}
	const id, affine = "where", "node-affinity"
	for _, profile := range []string{"9.0", "9.2"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			w := haWorld(t, profile)
			s := w.Session(t, rig.RootTicket, on("nodes = { pve2 = 2, pve1 = 0 }\n"+members(400)))
			rig.Must(t, s.Converge(t.Context()))
			wantRule(t, w, id, map[string]string{"type": affine, "resources": "vm:400", "nodes": "pve1:0,pve2:2"})
			for _, step := range []struct {
				lines string
				want  map[string]string
			}{
				{"nodes = { pve2 = 1 }\nstrict = true\ndisable = true\ncomment = \"licence: 5 % of pve2\"\n" + members(400, 401),
					map[string]string{"type": affine, "resources": "vm:400,vm:401", "nodes": "pve2:1", "strict": "1", "disable": "1",
						"comment": "licence: 5 % of pve2"}},
				{"nodes = { pve1 = 1 }\n" + members(401), map[string]string{"type": affine, "resources": "vm:401", "nodes": "pve1:1"}},
			} {
				w.Reconfigure(t, s, rig.RootTicket, on(step.lines))
				rig.Must(t, s.Converge(t.Context()))
				wantRule(t, w, id, step.want)
			}
			s.Forget("proxmox_ha_rule.r")
			rig.Must(t, s.Import(t.Context(), "proxmox_ha_rule.r", id))
			if plan, err := s.Plan(t.Context()); err != nil || !plan.Empty() {
				t.Errorf("the plan after the import: %v\n%v", err, plan)
			}
			w.Reconfigure(t, s, rig.RootTicket, on("nodes = { pve1 = 1 }\ncomment = \"ours\"\n"+members(401))) // what was just imported is not replaced
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.RootTicket, strings.ReplaceAll(apart("comment = \"x\"\n"), `"apart"`, `"where"`))
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			if text := pl.Diagnostics.String(); !strings.Contains(text, "is removed before it is made with the other type") {
				t.Errorf("the plan of another type says: %s", text)
			}
			rig.Must(t, s.Converge(t.Context()))
			wantRule(t, w, id, map[string]string{"type": "resource-affinity", "resources": "vm:400,vm:401", "affinity": "negative", "comment": "x"})
			rig.Must(t, s.Destroy(t.Context()))
			w.MustBeClean(t)
		})
	}
}

// TestHARuleNeedsNine: a cluster of version 8 has groups, and the plan says what to do there.
func TestHARuleNeedsNine(t *testing.T) {
	t.Parallel()
	for _, id := range rig.Identities() {
		w := haWorld(t, "8.4")
		s := w.Session(t, id, ruleBlock("rule = \"xx\"\ntype = \"node-affinity\"\nresources = [\"vm:8000\"]\nnodes = { nowhere = 1 }"))
		_, err := s.Plan(t.Context())
		rig.MustRefuse(t, err, []string{"HA rules need Proxmox VE 9.0 or later", "runs Proxmox VE 8.4", "ha.group"})
		if n := len(s.Diagnostics()); n != 1 {
			t.Errorf("%s: %d diagnostics, want one: %v", id, n, s.Diagnostics())
		}
		w.MustBeClean(t)
	}
}

// TestHARuleRefusals: what no server accepts, and what this one would refuse, is an error in the plan on its attribute,
// and nothing is sent.
func TestHARuleRefusals(t *testing.T) {
	t.Parallel()
	const nodes, both = "nodes = { pve1 = 1 }\n", "resources = [\"vm:8000\", \"vm:9000\"]\n"
	const node, apart = "rule = \"xx\"\ntype = \"node-affinity\"\n", "rule = \"xx\"\ntype = \"resource-affinity\"\n"
	for name, c := range map[string]struct{ lines, want, at string }{
		"type":            {"rule = \"x2\"\ntype = \"location\"\n" + both, "value must be one of", "type"},
		"id":              {"rule = \"2x\"\ntype = \"node-affinity\"\n" + both + nodes, "must be the id of an HA rule", "rule"},
		"one resource":    {apart + "affinity = \"negative\"\nresources = [\"vm:8000\"]", "two guests or more", "resources"},
		"no resource":     {node + nodes + "resources = []", "at least 1 elements", "resources"},
		"no service":      {node + nodes + "resources = [\"100\"]", "HA's name of a guest", "resources"},
		"null":            {node + nodes + "resources = [null]", "null", "resources"},
		"no nodes":        {node + both, "needs nodes", "type"},
		"affinity":        {node + both + nodes + "affinity = \"positive\"", "has no affinity", "affinity"},
		"no affinity":     {apart + both, "needs affinity", "type"},
		"nodes":           {apart + both + nodes + "affinity = \"negative\"", "has no nodes", "nodes"},
		"strict":          {apart + both + "strict = true\naffinity = \"negative\"", "has no strict", "strict"},
		"priority":        {node + both + "nodes = { pve1 = -1 }", "at least 0", "nodes"},
		"no priority":     {node + both + "nodes = { pve1 = null }", "null", "nodes"},
		"node's name":     {node + both + "nodes = { \"pve1:2\" = 1 }", "name of a node", "nodes"},
		"comment's blank": {node + both + nodes + "comment = \" x\"", "PVE drops the blanks", "comment"},
		"unknown node":    {node + both + "nodes = { pve1 = 1, pve7 = 1 }", "Unknown node \"pve7\"", "nodes"},
		"taken": {"rule = \"theirs\"\ntype = \"node-affinity\"\n" + both + nodes,
			"a rule of node-affinity of vm:8000 on pve2. This configuration has not made it, so it was left alone", "rule"},
	} {
		w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
		w.Change(func(world *state.World) {
			world.HARules = map[string]map[string]string{"theirs": {"type": "node-affinity", "resources": "vm:8000", "nodes": "pve2"}}
		})
		w.Mark()
		s := w.Session(t, rig.RootTicket, ruleBlock(c.lines))
		_, err := s.Plan(t.Context())
		rig.MustRefuse(t, err, []string{c.want})
		for _, d := range s.Diagnostics() {
			if !strings.HasPrefix(d.Attribute, c.at) {
				t.Errorf("%s: on %q, want %q: %v", name, d.Attribute, c.at, d)
			}
		}
		rig.OnlyReads(t, w.Sim.Ops())
		w.MustBeClean(t)
	}
}

// TestHARuleInfeasible: a rule that contradicts another is refused in PVE's words, on the attribute that they are about. A
// guest that is not under HA likewise.
func TestHARuleInfeasible(t *testing.T) {
	t.Parallel()
	for want, lines := range map[string]string{
		"rule shares two or more resources with a positive resource affinity rule": members(400, 401),
		"cannot use unmanaged resource(s) vm:8000":                                 `resources = ["vm:400", "vm:8000"]`,
	} {
		w := haWorld(t, "9.2")
		s := w.Session(t, rig.RootTicket, placed(400, 401))
		rig.Must(t, s.Converge(t.Context()))
		w.Change(func(world *state.World) {
			world.HARules = map[string]map[string]string{"together": {"type": "resource-affinity", "resources": "vm:400,vm:401", "affinity": "positive"}}
		})
		w.Reconfigure(t, s, rig.RootTicket, placed(400, 401)+ruleBlock("rule = \"apart\"\ntype = \"resource-affinity\"\naffinity = \"negative\"\n"+lines))
		rig.MustRefuse(t, s.Run(t.Context()), []string{want, "create the HA rule apart"})
		if ruleOf(w, "apart") != nil || ruleOf(w, "together") == nil {
			t.Errorf("%s: the rules are %v", want, rulesOf(w))
		}
	}
}

// TestHARuleOfAnother: a rule that a third party makes under the id between plan and apply is not taken, and the error
// has the command that imports it.
func TestHARuleOfAnother(t *testing.T) {
	t.Parallel()
	theirs := map[string]string{"type": "resource-affinity", "resources": "vm:400,vm:401", "affinity": "negative"} // even the same
	for nth := range 2 {                                                                                           // before the look, and after it
		w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
		keys := &engine.Interrupter{World: w, At: fault.Match{Method: "GET", Path: rulePath, Nth: nth + 1}}
		w.LogTo(keys)
		s := w.Session(t, rig.RootTicket, placed(400, 401))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.RootTicket, apart(""))
		plan, err := s.Plan(t.Context())
		rig.Must(t, err)
		w.Sim.ResetOps()
		plant := func() {
			w.Change(func(world *state.World) { world.HARules = map[string]map[string]string{"apart": maps.Clone(theirs)} })
		}
		var once sync.Once
		if nth == 0 {
			plant()
		} else {
			keys.At.Nth, keys.Press = 1, func() { once.Do(plant) }
		}
		rig.MustRefuse(t, s.Apply(t.Context(), plan), []string{"There is an HA rule apart already", "terraform import ADDRESS apart"})
		wantRule(t, w, "apart", theirs)
		if terraformtest.ShowValue(s.Attr("proxmox_ha_rule.r", "rule")) == `"apart"` {
			t.Error("the third party's rule is in state")
		}
	}
}

// TestHARuleDrift: a third party's change is a difference of the next plan, and its removal too.
func TestHARuleDrift(t *testing.T) {
	t.Parallel()
	w := haWorld(t, "9.2")
	s := w.Session(t, rig.RootTicket, apart(""))
	rig.Must(t, s.Converge(t.Context()))
	want := ruleOf(w, "apart")
	for name, change := range map[string]func(rule map[string]string){
		"comment":   func(rule map[string]string) { rule["comment"] = "theirs" },
		"disable":   func(rule map[string]string) { rule["disable"] = "1" },
		"affinity":  func(rule map[string]string) { rule["affinity"] = "positive" },
		"resources": func(rule map[string]string) { rule["resources"] = "vm:400,vm:401,vm:8000" },
		"gone":      func(rule map[string]string) { clear(rule) },
	} {
		w.Change(func(world *state.World) {
			world.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored"}
			if change(world.HARules["apart"]); name == "gone" {
				delete(world.HARules, "apart")
			}
		})
		if plan, err := s.Plan(t.Context()); err != nil || plan.Empty() {
			t.Errorf("%s: the plan: %v\n%v", name, err, plan)
		}
		rig.Must(t, s.Converge(t.Context()))
		wantRule(t, w, "apart", want)
	}
}

// TestHARuleChangedMeanwhile: what a third party changes in the rule between plan and apply is not overwritten and not
// removed. A change of another rule, which moves the digest that all have, does no harm.
func TestHARuleChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after string // the configuration of the plan
		nth   int    // after which look at the rule; 0: before the apply
		other bool   // another rule is changed
	}{
		"update": {apart("comment = \"ours\"\n"), 0, false}, "update, late": {apart("comment = \"ours\"\n"), 1, false},
		"removal": {placed(400, 401), 0, false}, "update beside another": {apart("comment = \"ours\"\n"), 1, true},
	} {
		w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
		keys := &engine.Interrupter{World: w, At: fault.Match{Method: "GET", Path: rulePath, Nth: c.nth}}
		w.LogTo(keys)
		s := w.Session(t, rig.RootTicket, apart(""))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.RootTicket, c.after)
		plan, err := s.Plan(t.Context())
		rig.Must(t, err)
		w.Sim.ResetOps()
		change := func() {
			w.Change(func(world *state.World) {
				if c.other {
					world.HARules["other"] = map[string]string{"type": "node-affinity", "resources": "vm:8000", "nodes": "pve1"}
				} else {
					world.HARules["apart"]["comment"] = "theirs"
				}
			})
		}
		var once sync.Once
		if keys.Press = func() { once.Do(change) }; c.nth == 0 {
			once.Do(change)
		}
		err = s.Apply(t.Context(), plan)
		if c.other {
			if err != nil || ruleOf(w, "apart")["comment"] != "ours" || ruleOf(w, "other") == nil {
				t.Errorf("%s: %v, the rules are %v", name, err, rulesOf(w))
			}
			continue
		}
		rig.MustRefuse(t, err, []string{"a third party has changed HA rule apart since it was read", "plan again"})
		if rule := ruleOf(w, "apart"); rule["comment"] != "theirs" {
			t.Errorf("%s: the rule is %v", name, rule)
		}
	}
}

// TestGroupNeedsEight: a node of version 9 may be one of a cluster in the middle of its upgrade, in which no rule can be made yet.
func TestGroupNeedsEight(t *testing.T) {
	t.Parallel()
	s := haWorld(t, "9.2").Session(t, rig.RootTicket, rig.VMBlock("name = \"x\"\nnode = \"pve1\"\nha = { group = \"prefer\" }\n"))
	_, err := s.Plan(t.Context())
	rig.MustRefuse(t, err, []string{"has no ha.group any more", "proxmox_ha_rule", "makes none while the cluster has groups", "once all its nodes are upgraded"})
}
