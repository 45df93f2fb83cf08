package server

import (
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// haRules gives a rig two HA resources and the rules about them.
func haRules(g *rig) {
	g.s.Do(func(w *state.World) {
		for _, sid := range []string{"vm:8000", "vm:9000"} {
			w.HA[sid] = &state.HAResource{SID: sid, State: "stopped"}
		}
		w.HARules = map[string]map[string]string{
			"licence": {"type": "node-affinity", "resources": "vm:8000", "nodes": "pve1", "strict": "1"},
			"apart":   {"type": "resource-affinity", "resources": "vm:8000,vm:9000", "affinity": "negative"},
		}
	})
}

// members are the rules of a rig with their resources.
func members(g *rig) map[string]string {
	found := map[string]string{}
	g.s.Do(func(w *state.World) {
		for id, rule := range w.HARules {
			found[id] = rule["resources"]
		}
	})
	return found
}

// TestHARulesArePurged: since pve-ha-manager 5.0.7 a resource that leaves HA leaves its rules, unless purge=0 is sent;
// before there was no such parameter, and no rule changed (c952c63, 8102199).
func TestHARulesArePurged(t *testing.T) {
	all := map[string]string{"licence": "vm:8000", "apart": "vm:8000,vm:9000"}
	left := map[string]string{"apart": "vm:9000"}
	for _, c := range []struct {
		version, request string
		status           int
		want             map[string]string
	}{
		{"9.0", "DELETE /cluster/ha/resources/vm:8000", 200, all},
		{"9.0", "DELETE /cluster/ha/resources/vm:8000?purge=0", 400, all},
		{"9.0", "DELETE /nodes/pve1/qemu/8000?purge=1", 200, all},
		{"9.2", "DELETE /cluster/ha/resources/vm:8000", 200, left},
		{"9.2", "DELETE /cluster/ha/resources/vm:8000?purge=1", 200, left},
		{"9.2", "DELETE /cluster/ha/resources/vm:8000?purge=0", 200, all},
		{"9.2", "DELETE /nodes/pve1/qemu/8000?purge=1", 200, left},
	} {
		g := releaseRig(t, c.version)
		haRules(g)
		method, path, _ := strings.Cut(c.request, " ")
		path, params, _ := strings.Cut(path, "?")
		if r := g.do("root", method, path, params); r.status != c.status {
			t.Errorf("%s: %s: %d %s", c.version, c.request, r.status, r.reason)
		}
		if c.status == 400 {
			continue
		}
		if got := members(g); !maps.Equal(got, c.want) {
			t.Errorf("%s: %s leaves the rules %v, want %v", c.version, c.request, got, c.want)
		}
	}
}

// TestIgnoredEntryIsForgottenLater: until its manager comes round, HA starts a guest again that it is told to ignore
// and that goes off; afterwards it leaves the guest alone. The listing tells which it is.
func TestIgnoredEntryIsForgottenLater(t *testing.T) {
	g := newRig(t, nil)
	ok := func(method, path, params string) reply {
		t.Helper()
		r := g.do("root", method, path, params)
		if r.status != 200 {
			t.Fatalf("%s %s: %d %s", method, path, r.status, r.reason)
		}
		return r
	}
	listed := func(want string) {
		t.Helper()
		for _, row := range ok("GET", "/cluster/resources", "type=vm").list() {
			if row["vmid"] == 8000.0 && row["hastate"] != want {
				t.Errorf("listed as %v, want %q", row["hastate"], want)
			}
		}
	}
	off := func() { g.s.Do(func(w *state.World) { g.s.Engine.Lose(w.Guests[8000], state.PowerShutdown, nil) }) }
	ok("POST", "/cluster/ha/resources", "sid=vm:8000")
	g.pass(round)
	ok("PUT", "/cluster/ha/resources/vm:8000", "state=ignored")
	listed("started")
	off()
	g.pass(round)
	g.wantWhere(8000, "pve1+")
	listed("ignored")
	off()
	g.pass(2 * round)
	g.wantWhere(8000, "pve1")
}

// TestHARuleChanges: a change is bound to the digest of all rules, disable=0 does not switch a rule on again, and an option
// is either set or deleted (pve-ha-manager API2/HA/Rules.pm update_rule, pve-common SectionConfig.pm delete_from_config).
func TestHARuleChanges(t *testing.T) {
	g := releaseRig(t, "9.2")
	haRules(g)
	const licence = "/cluster/ha/rules/licence"
	digest := func() string { return g.do("root", "GET", licence, "").object(t)["digest"].(string) }
	before := digest()
	for _, c := range []struct {
		params string
		status int
		reason string
	}{
		{"type=node-affinity&disable=1&digest=" + before, 200, ""},
		{"type=node-affinity&comment=x&digest=" + before, 500, "detected modified configuration"},
		{"type=node-affinity&disable=0", 200, ""},
		{"type=node-affinity&delete=affinity", 500, "no such option 'affinity'"},
		{"type=node-affinity&delete=nodes", 500, "unable to delete required option 'nodes'"},
		{"type=node-affinity&comment=x&delete=comment", 500, "cannot set and delete property 'comment' at the same time!"},
	} {
		if r := g.do("root", "PUT", licence, c.params); r.status != c.status || !strings.Contains(r.reason, c.reason) {
			t.Errorf("%s: %d %s", c.params, r.status, r.reason)
		}
	}
	rule := g.do("root", "GET", licence, "").object(t)
	if rule["disable"] != 1.0 {
		t.Errorf("disable=0 has changed the rule to %v", rule)
	}
	if r := g.do("root", "PUT", licence, "type=node-affinity&delete=disable&nodes=pve2:0,pve1:0"); r.status != 200 {
		t.Errorf("%d %s", r.status, r.reason)
	}
	rule = g.do("root", "GET", licence, "").object(t)
	if rule["disable"] != nil || rule["nodes"] != "pve1,pve2" {
		t.Errorf("the rule is %v", rule)
	}
}
