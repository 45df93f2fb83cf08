package ha

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// servicesOn is a cluster of three nodes whose services run where they are said to.
func servicesOn(version string, nodes map[string]string) *engine.Engine {
	w := state.Default([]string{"pve1", "pve2", "pve3"})
	w.Profile = version
	id := 200
	for _, sid := range []string{"a", "b", "c"} {
		id++
		g := &state.Guest{VMID: id, Type: "qemu", Node: nodes[sid], Config: map[string]string{}}
		if g.Node == "" {
			g.Node = "pve1"
		} else {
			g.Running = &state.Running{QMPStatus: "running"}
		}
		w.Guests[id] = g
		w.HA[named(sid)] = &state.HAResource{SID: named(sid), State: "started"}
	}
	return &engine.Engine{World: w}
}

// named is the service id of a letter.
func named(letter string) string {
	return map[string]string{"a": "vm:201", "b": "vm:202", "c": "vm:203"}[letter]
}

// ruleOf reads "nodes a pve1:2,pve2", "strict a pve1", "positive a,b" and "negative a,b".
func ruleOf(text string) map[string]string {
	kind, rest, _ := strings.Cut(text, " ")
	letters, nodes, _ := strings.Cut(rest, " ")
	var sids []string
	for _, letter := range strings.Split(letters, ",") {
		sids = append(sids, named(letter))
	}
	rule := map[string]string{"resources": strings.Join(sids, ","), "type": "resource-affinity", "affinity": kind}
	if nodes != "" {
		rule = map[string]string{"resources": strings.Join(sids, ","), "type": "node-affinity", "nodes": nodes}
	}
	if kind == "strict" {
		rule["strict"] = "1"
	}
	return rule
}

// TestRulesPlaceServices: where the manager wants a running service, and where it recovers one, by the rules of 9.x
// (pve-ha-manager HA/Manager.pm, select_service_node).
func TestRulesPlaceServices(t *testing.T) {
	for _, c := range []struct {
		name      string
		nodes     map[string]string
		rules     []string
		failback  string
		want      string // where service a is wanted, which runs on pve1
		recovered string // where it is recovered if pve1 is gone
	}{
		{"no rule", nil, nil, "", "pve1", "pve2"},
		{"the highest priority wins", nil, []string{"nodes a pve1:1,pve3:2"}, "", "pve3", "pve3"},
		{"without failback it stays where it may be", nil, []string{"nodes a pve1:1,pve3:2"}, "0", "pve1", "pve3"},
		{"without failback it still leaves a node that it may not be on", nil, []string{"nodes a pve3"}, "0", "pve3", "pve3"},
		{"a rule that is not strict allows the others at need", nil, []string{"nodes a pve1"}, "", "pve1", "pve2"},
		{"a strict rule does not", nil, []string{"strict a pve1"}, "", "pve1", ""},
		{"together", map[string]string{"b": "pve2"}, []string{"positive a,b"}, "", "pve2", "pve2"},
		{"together with the most", map[string]string{"b": "pve3", "c": "pve3"}, []string{"positive a,b,c"}, "", "pve3", "pve3"},
		{"apart", map[string]string{"b": "pve1"}, []string{"negative a,b"}, "", "pve2", "pve2"},
		{"apart from a friend's enemy", map[string]string{"b": "pve3", "c": "pve1"},
			[]string{"positive a,b", "negative b,c"}, "", "pve3", "pve3"},
		{"a friend's nodes", nil, []string{"positive a,b", "strict b pve2"}, "", "pve2", "pve2"},
		{"the fewest services", map[string]string{"b": "pve2"}, []string{"nodes a pve2,pve3"}, "", "pve3", "pve3"},
		{"a rule that cannot be followed is dropped", map[string]string{"b": "pve2"},
			[]string{"positive a,b", "negative a,b"}, "", "pve1", "pve3"},
	} {
		where := map[string]string{"a": "pve1"}
		for k, v := range c.nodes {
			where[k] = v
		}
		e := servicesOn("9.2", where)
		e.World.HARules = map[string]map[string]string{}
		for i, text := range c.rules {
			e.World.HARules["r"+string(rune('0'+i))] = ruleOf(text)
		}
		h := e.World.HA[named("a")]
		if c.failback != "" {
			h.Options = map[string]string{"failback": c.failback}
		}
		if got := serviceNode(e, h, "pve1"); got != c.want {
			t.Errorf("%s: wanted on %q, want %q", c.name, got, c.want)
		}
		e.World.Nodes["pve1"].Online = false
		if got := recoveryNode(e, h, nil); got != c.recovered {
			t.Errorf("%s: recovered on %q, want %q", c.name, got, c.recovered)
		}
	}
}

// TestGroupsPlaceServices: the groups of 8.x have priorities, too.
func TestGroupsPlaceServices(t *testing.T) {
	for _, c := range []struct {
		name  string
		group state.HAGroup
		want  string
	}{
		{"the highest priority wins", state.HAGroup{Nodes: []string{"pve1:1", "pve2:2"}}, "pve2"},
		{"without failback it stays", state.HAGroup{Nodes: []string{"pve1:1", "pve2:2"}, NoFailback: true}, "pve1"},
		{"outside of its group it moves, failback or not", state.HAGroup{Nodes: []string{"pve2"}, NoFailback: true}, "pve2"},
		{"equal priorities", state.HAGroup{Nodes: []string{"pve1", "pve2"}}, "pve1"},
	} {
		e := servicesOn("8.4", map[string]string{"a": "pve1"})
		c.group.ID = "g"
		e.World.HAGroups = map[string]*state.HAGroup{"g": &c.group}
		e.World.HA[named("a")].Group = "g"
		if got := serviceNode(e, e.World.HA[named("a")], "pve1"); got != c.want {
			t.Errorf("%s: wanted on %q, want %q", c.name, got, c.want)
		}
	}
}

// TestRulesThatCannotBeFollowed: each of PVE's checks refuses a rule in its words (HA/Rules.pm, check_feasibility).
func TestRulesThatCannotBeFollowed(t *testing.T) {
	for _, c := range []struct{ before, rule, want string }{
		{"", "positive a", "rule is ineffective as there are less than two resources"},
		{"", "negative a,b", ""},
		{"nodes a pve1", "nodes a pve2", "resource 'vm:201' is already used in another node affinity rule"},
		{"positive a,b", "negative a,b", "rule shares two or more resources with a positive resource affinity rule"},
		{"negative a,b", "positive a,b,c", "rule shares two or more resources with a negative resource affinity rule"},
		{"nodes a pve1:1,pve2:2", "positive a,b", "resources are in node affinity rules with multiple priorities"},
		{"negative a,b", "strict a,b pve1", "at least one resource is in a negative resource affinity rule and this rule would " +
			"restrict these to less nodes than available to the resources"},
		{"positive a,b", "negative a,c", ""},
	} {
		e := servicesOn("9.2", nil)
		rules := map[string]map[string]string{"new": ruleOf(c.rule)}
		if c.before != "" {
			rules["old"] = ruleOf(c.before)
		}
		if got := strings.Join(infeasible(e.World, rules)["new"], ", "); got != c.want {
			t.Errorf("%q after %q: %q, want %q", c.rule, c.before, got, c.want)
		}
	}
}
