package update

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// rules are firewall rules for ports: "22" accepts, "" with DROP refuses all.
func rules(ports ...string) []firewall.Rule {
	var all []firewall.Rule
	for _, port := range ports {
		rule := firewall.Rule{Type: new("in"), Action: new("ACCEPT"), Enabled: new(true), Proto: new("tcp"),
			DPort: new(port)}
		if port == "" {
			rule = firewall.Rule{Type: new("in"), Action: new("DROP"), Enabled: new(true)}
		}
		all = append(all, rule)
	}
	return all
}

// ports are the rules that the server has.
func (w *world) ports() []string {
	all := w.sim.World()
	all.Lock()
	defer all.Unlock()
	var ports []string
	if f := all.Firewall[theVM]; f != nil {
		for _, r := range f.Rules {
			ports = append(ports, r["dport"])
		}
	}
	return ports
}

// guarded is a VM with a firewall that is on, and a request that changes its rules.
func guarded(t *testing.T, from, to []firewall.Rule) (*world, Request) {
	t.Helper()
	w := newWorld(t, nil)
	r := w.request()
	r.Firewall = &firewall.Settings{Enabled: new(true), Rules: from}
	if _, _, err := w.update(r); err != nil {
		t.Fatal(err)
	}
	w.sim.ResetOps()
	r.PriorFirewall, r.Firewall, r.Ref.Firewall = r.Firewall, &firewall.Settings{Enabled: new(true), Rules: to}, true
	return w, r
}

// TestFirewallRulesComeBack: where a rule is refused, the rules that there were come back, whichever request it is.
func TestFirewallRulesComeBack(t *testing.T) {
	before := rules("22", "80", "")
	for nth := 1; nth <= 5; nth++ {
		w, r := guarded(t, before, rules("443", "22", "8006", "25", ""))
		path, method := "/nodes/{node}/qemu/{vmid}/firewall/rules", "POST"
		if nth > 2 {
			path, method = path+"/{pos}", "PUT"
		}
		w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: method, Path: path, Nth: (nth-1)%2 + 1},
			Phase: fault.Before, Status: 400, Reason: "no such thing"}})
		_, _, err := w.update(r)
		if w.sim.FaultsFired() == 0 {
			continue
		}
		if err == nil || !slices.Equal(w.ports(), []string{"22", "80", ""}) {
			t.Errorf("%s %d: %v, and the rules are %q", method, nth, err, w.ports())
		}
		if said := detailOf(err); !strings.Contains(said, "Cannot") || strings.Contains(said, "Not all") &&
			len(w.writes()) > 1 {
			t.Errorf("%s %d: says %q", method, nth, said)
		}
	}
}

// TestFirewallRulesOfAThirdPartyStay: a list that a third party changes meanwhile is left alone, also when it is to be
// put back.
func TestFirewallRulesOfAThirdPartyStay(t *testing.T) {
	w, r := guarded(t, rules("22", ""), rules("443", "22", "80", ""))
	w.alterRules(func(all []map[string]string) []map[string]string {
		return append(all, map[string]string{"type": "out", "action": "DROP", "enable": "1", "comment": "a third party's"})
	})
	_, _, err := w.update(r)
	if err == nil || !strings.Contains(detailOf(err), "another user") || len(w.ports()) != 3 || len(w.writes()) != 0 {
		t.Errorf("%v, the rules are %q, sent %v", err, w.ports(), w.writes())
	}
}

func (w *world) alterRules(f func([]map[string]string) []map[string]string) {
	all := w.sim.World()
	all.Lock()
	defer all.Unlock()
	file := all.Firewall[theVM]
	all.Firewall[theVM] = &state.FirewallFile{Options: maps.Clone(file.Options), Rules: f(slices.Clone(file.Rules))}
}

// TestFirewallOnAfterItsRules: a firewall that is switched on has its rules by then.
func TestFirewallOnAfterItsRules(t *testing.T) {
	w := newWorld(t, nil)
	r := w.request()
	r.Firewall = &firewall.Settings{Enabled: new(true), Rules: rules("22", "")}
	if _, _, err := w.update(r); err != nil {
		t.Fatal(err)
	}
	const path = "/nodes/{node}/qemu/{vmid}/firewall"
	want := []string{"POST " + path + "/rules", "POST " + path + "/rules", "PUT " + path + "/options"}
	if got := w.writes(); !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
}
