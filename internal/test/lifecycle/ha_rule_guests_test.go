package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestHARuleOfNewGuests: a rule is planned before its guests have ids, and made after they are under HA.
func TestHARuleOfNewGuests(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"9.0", "9.2"} {
		w := haWorld(t, profile)
		unnumbered := strings.NewReplacer("  vmid = 400\n", "", "  vmid = 401\n", "")
		s := w.Session(t, rig.RootTicket, unnumbered.Replace(apart("")))
		rig.Must(t, s.Converge(t.Context()))
		want := []string{}
		for _, vm := range []string{"proxmox_vm.v400", "proxmox_vm.v401"} {
			want = append(want, "vm:"+terraformtest.ShowValue(s.Attr(vm, "vmid")))
		}
		if got := ruleOf(w, "apart")["resources"]; got != want[0]+","+want[1] && got != want[1]+","+want[0] {
			t.Errorf("%s: the rule is about %s, want %v", profile, got, want)
		}
		rig.Must(t, s.Destroy(t.Context()))
		w.MustBeClean(t)
	}
}

// TestHARuleOfLeavingGuests: PVE takes a VM that is destroyed out of its rules, and removes a rule without any other. An
// apply that destroys VMs and changes the rule comes to its end in one go, whichever comes first.
func TestHARuleOfLeavingGuests(t *testing.T) {
	t.Parallel()
	node := func(lines string) string {
		return ruleBlock("rule = \"where\"\ntype = \"node-affinity\"\nnodes = { pve1 = 1 }\n" + lines)
	}
	named := func(vmids string) string { return "resources = [" + vmids + "]\n" }
	for name, c := range map[string]struct{ before, after, want string }{
		"one of three":  {placed(400, 401, 402) + node(members(400, 401, 402)), placed(400, 401) + node(members(400, 401)), "vm:400,vm:401"},
		"the only one":  {placed(400, 401) + node(members(400)), placed(401) + node(members(401)), "vm:401"},
		"by name":       {placed(400, 401) + node(named(`"vm:400"`)), placed(401) + node(named(`"vm:401"`)), "vm:401"},
		"with the rule": {placed(400, 401) + node(named(`"vm:400"`)), placed(401), ""},
		"all":           {placed(400, 401) + node(named(`"vm:400", "vm:401"`)), "", ""},
	} {
		for _, profile := range []string{"9.0", "9.2"} {
			for _, parallelism := range []int{1, 10} {
				w := haWorld(t, profile)
				if c.before == "" {
					t.Fatal("nothing to begin with")
				}
				before := c.before
				if strings.Contains(before, `"vm:4`) { // HA has to know the guests first
					before = strings.Replace(before, "\"where\"\n", "\"where\"\ndepends_on = [proxmox_vm.v400, proxmox_vm.v401]\n", 1)
				}
				s := w.Session(t, rig.RootTicket, before)
				s.Parallelism = parallelism
				rig.Must(t, s.Converge(t.Context()))
				w.Reconfigure(t, s, rig.RootTicket, c.after)
				if err := s.Run(t.Context()); err != nil {
					t.Fatalf("%s on %s: %v", name, profile, err)
				}
				if plan, err := s.Plan(t.Context()); err != nil || !plan.Empty() {
					t.Errorf("%s on %s: the plan afterwards: %v\n%v", name, profile, err, plan)
				}
				if got := ruleOf(w, "where")["resources"]; got != c.want {
					t.Errorf("%s on %s: the rule is about %q, want %q", name, profile, got, c.want)
				}
			}
		}
	}
}

// TestHARuleOfAReplacedGuest: a VM that is replaced under its id is missing in the rule, which the next plan shows and the
// next apply mends.
func TestHARuleOfAReplacedGuest(t *testing.T) {
	t.Parallel()
	w := haWorld(t, "9.2")
	three := placed(400, 401, 402) + ruleBlock("rule = \"apart\"\ntype = \"resource-affinity\"\naffinity = \"positive\"\n"+
		members(400, 401, 402))
	s := w.Session(t, rig.RootTicket, three)
	rig.Must(t, s.Converge(t.Context()))
	s.Taint("proxmox_vm.v400", true)
	rig.Must(t, s.Run(t.Context()))
	if got := ruleOf(w, "apart")["resources"]; got != "vm:401,vm:402" {
		t.Errorf("the rule is about %s", got)
	}
	rig.Must(t, s.Converge(t.Context()))
	if got := ruleOf(w, "apart")["resources"]; got != "vm:400,vm:401,vm:402" {
		t.Errorf("in the end the rule is about %s", got)
	}
}

// TestHARuleThatIsNotFollowed: a rule that HA passes over is a warning at each refresh, in PVE's words.
func TestHARuleThatIsNotFollowed(t *testing.T) {
	t.Parallel()
	w := haWorld(t, "9.2")
	s := w.Session(t, rig.RootTicket, apart(""))
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) {
		world.HARules["theirs"] = maps.Clone(world.HARules["apart"])
		world.HARules["theirs"]["affinity"] = "positive"
	})
	rig.Must(t, s.Refresh(t.Context()))
	found := false
	for _, d := range s.Diagnostics() {
		found = found || strings.Contains(d.String(), "HA does not follow rule apart") &&
			strings.Contains(d.String(), "rule shares two or more resources with a positive resource affinity rule")
	}
	if !found {
		t.Errorf("the refresh says %v", s.Diagnostics())
	}
}

// TestHARuleUnknownValues: a value that the plan does not know may become any in the apply, for a new rule and for one that
// exists: another, the same, or null. The plan after it is empty, and a value that makes no rule is refused in the apply.
func TestHARuleUnknownValues(t *testing.T) {
	t.Parallel()
	const where, apart = "type = \"node-affinity\"\n", "type = \"resource-affinity\"\n"
	const both, nodes, id = "resources = [\"vm:400\", \"vm:401\"]\n", "nodes = { pve1 = 1 }\n", "rule = \"xx\"\n"
	text, node := cty.StringVal, func(name string) cty.Value { return cty.MapVal(map[string]cty.Value{name: cty.NumberIntVal(1)}) }
	resources := func(all ...string) cty.Value {
		var values []cty.Value
		for _, sid := range all {
			values = append(values, text(sid))
		}
		return cty.SetVal(values)
	}
	rows := 0
	for attribute, c := range map[string]struct {
		beside string
		values []cty.Value // the first is there before
		null   string      // what is said to none; "": it is a value
	}{
		"rule":      {where + both + nodes, []cty.Value{text("xx"), text("yy")}, "rule"},
		"nodes":     {id + where + both, []cty.Value{node("pve1"), node("pve2")}, "needs nodes"},
		"strict":    {id + where + both + nodes, []cty.Value{cty.True, cty.False}, ""},
		"disable":   {id + where + both + nodes, []cty.Value{cty.True, cty.False}, ""},
		"comment":   {id + where + both + nodes, []cty.Value{text("one"), text("two")}, ""},
		"resources": {id + where + nodes, []cty.Value{resources("vm:400"), resources("vm:400", "vm:401")}, "resources"},
		"affinity":  {id + apart + both, []cty.Value{text("negative"), text("positive")}, "needs affinity"},
	} {
		for _, exists := range []bool{false, true} {
			for _, becomes := range append(c.values, cty.NullVal(c.values[0].Type())) {
				rows++
				w := haWorld(t, "9.2")
				w.Change(func(world *state.World) {
					for _, sid := range []string{"vm:400", "vm:401"} {
						world.HA[sid] = &state.HAResource{SID: sid, State: "ignored"}
					}
				})
				s := w.Session(t, rig.RootTicket, "variable \"x\" {}\n"+ruleBlock(c.beside+attribute+" = var.x"))
				if exists {
					s.SetVariable("x", c.values[0])
					rig.Must(t, s.Converge(t.Context()))
				}
				s.SetVariable("x", cty.UnknownVal(becomes.Type()))
				plan, err := s.Plan(t.Context())
				if err != nil {
					t.Fatalf("%s, exists %t: the plan: %v", attribute, exists, err)
				}
				s.SetVariable("x", becomes)
				err = s.Apply(t.Context(), plan)
				if becomes.IsNull() && c.null != "" {
					rig.MustRefuse(t, err, []string{c.null})
					continue
				}
				if err != nil {
					t.Fatalf("%s, exists %t, becomes %#v: %v", attribute, exists, becomes, err)
				}
				if plan, err = s.Plan(t.Context()); err != nil || !plan.Empty() {
					t.Errorf("%s, exists %t, becomes %#v: the plan afterwards: %v\n%v", attribute, exists, becomes, err, plan)
				}
			}
		}
	}
	t.Logf("%d rows", rows)
}

// movesAlong is the warning about guests that move along, at an attribute.
func movesAlong(s *terraformtest.Session, at string) string {
	for _, d := range s.Diagnostics() {
		if strings.HasPrefix(d.Summary, "HA moves other guests to node pve2 with VM 400") && d.Attribute == at {
			return d.Detail
		}
	}
	return ""
}

// TestMigrationNamesGuestsThatMoveAlong: a third party's rule keeps other guests together with a VM under HA, which an apply
// migrates. The plan names those that HA moves too, stopped ones and containers as well, and so does the apply where the
// rule came after the plan. Without such a rule, and for guests that are there already, nothing is said.
func TestMigrationNamesGuestsThatMoveAlong(t *testing.T) {
	t.Parallel()
	const told, container = "VM 401", "Container 8100"
	where := map[string]string{"node": `node = "pve1"`, "nodes": `nodes = ["pve1"]`}
	for name, c := range map[string]struct {
		by, rule     string
		there, since bool // the other VM is on the target; the rule comes after the plan
		want         []string
	}{
		"a VM":             {by: "node", rule: "vm:400,vm:401", want: []string{told}},
		"nodes":            {by: "nodes", rule: "vm:400,vm:401", want: []string{told}},
		"all":              {by: "node", rule: "vm:400,vm:401,ct:8100", want: []string{told, container, "shuts down"}},
		"since the plan":   {by: "node", rule: "vm:400,vm:401", since: true, want: []string{told}},
		"there already":    {by: "node", rule: "vm:400,vm:401", there: true},
		"of other guests":  {by: "node", rule: "vm:401,ct:8100"},
		"without any rule": {by: "node"},
	} {
		for _, profile := range []string{"9.0", "9.2"} {
			t.Run(name+", "+profile, func(t *testing.T) {
				t.Parallel()
				w := haWorld(t, profile)
				w.ExpectPowerOffs(state.PowerShutdown)
				theirs, mine := w.Session(t, rig.RootTicket, placed(401)), strings.Replace(placed(400), `node = "pve1"`, where[c.by], 1)
				rig.Must(t, theirs.Converge(t.Context()))
				s := w.Session(t, rig.RootTicket, mine)
				rig.Must(t, s.Converge(t.Context()))
				rules := func() {
					w.Change(func(world *state.World) {
						world.HA["ct:8100"] = &state.HAResource{SID: "ct:8100", State: "started"}
						world.Guests[8100].Running = &state.Running{}
						if c.rule != "" {
							world.HARules = map[string]map[string]string{"theirs": {"type": "resource-affinity", "affinity": "positive", "resources": c.rule}}
						}
					})
				}
				w.Change(func(world *state.World) { world.HARound = -1 })
				if c.there {
					rig.MigrateByHand(t, w, 401, "pve2")
					w.Sim.Advance(time.Minute)
				}
				if !c.since {
					rules()
				}
				w.Reconfigure(t, s, rig.RootTicket, strings.Replace(mine, "pve1", "pve2", 1))
				saved, err := s.Plan(t.Context())
				rig.Must(t, err)
				said := movesAlong(s, c.by)
				if c.since {
					rules()
				}
				rig.Must(t, s.Apply(t.Context(), saved))
				if again := movesAlong(s, c.by); c.since {
					said = again
				} else if again != said {
					t.Errorf("the plan said %q, the apply %q", said, again)
				}
				for _, want := range c.want {
					if !strings.Contains(said, want) {
						t.Errorf("want %q, got %q", want, said)
					}
				}
				if len(c.want) == 0 && said != "" {
					t.Errorf("said %q", said)
				}
				w.Sim.Advance(time.Minute)
				at := map[string]string{}
				w.Change(func(world *state.World) {
					for id, kind := range map[int]string{400: "vm", 401: "vm", 8100: "ct"} {
						at[fmt.Sprintf("%s:%d", kind, id)] = world.Guests[id].Node
					}
					if world.Guests[8100].Running == nil {
						t.Error("the container is off")
					}
				})
				for sid, node := range at {
					if moves := sid == "vm:400" || strings.Contains(c.rule, sid) && strings.Contains(c.rule, "vm:400") || c.there && sid == "vm:401"; moves != (node == "pve2") {
						t.Errorf("%s is on node %s", sid, node)
					}
				}
			})
		}
	}
}

// TestPlanTellsThatHAKeepsAVMOffANode: a rule of negative affinity keeps a VM under HA apart from another one on the node
// that it is to migrate to. The plan names that one. The apply fails, unless the rule goes first.
func TestPlanTellsThatHAKeepsAVMOffANode(t *testing.T) {
	for _, goes := range []bool{false, true} {
		w := haWorld(t, "9.2")
		w.ExpectPowerOffs(state.PowerShutdown)
		theirs, mine := w.Session(t, rig.RootTicket, strings.Replace(placed(401), `"pve1"`, `"pve2"`, 1)), placed(400)
		rig.Must(t, theirs.Converge(t.Context()))
		s := w.Session(t, rig.RootTicket, mine)
		rig.Must(t, s.Converge(t.Context()))
		w.Change(func(world *state.World) {
			world.HARound = -1
			world.HARules = map[string]map[string]string{"apart": {"type": "resource-affinity", "affinity": "negative", "resources": "vm:400,vm:401"}}
		})
		w.Reconfigure(t, s, rig.RootTicket, strings.Replace(mine, `"pve1"`, `"pve2"`, 1))
		plan, err := s.Plan(t.Context())
		rig.Must(t, err)
		told := slices.ContainsFunc(s.Diagnostics(), func(d terraformtest.Diagnostic) bool {
			return d.Attribute == "node" && d.Summary == "HA keeps VM 400 off node pve2" && strings.Contains(d.Detail, "vm:401")
		})
		if goes {
			w.Change(func(world *state.World) { world.HARules = nil })
		}
		err = s.Apply(t.Context(), plan)
		if !told || (err == nil) != goes {
			t.Errorf("the rule goes %t: told %t, the apply ended with %v\n%v", goes, told, err, s.Diagnostics())
		}
	}
}
