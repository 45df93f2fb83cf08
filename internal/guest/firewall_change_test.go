package guest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// once lets something happen right after the first answer to a request whose path ends so.
func (w *world) once(method, path string, f func()) {
	w.t.Helper()
	done := false
	api, err := pve.New(pve.Config{Endpoint: w.sim.Endpoint(), CACertificate: w.sim.CAPEM(), DialTLSContext: w.sim.DialTLSContext, Clock: w.s.clock,
		APIToken: w.sim.Credentials().Token, Trace: func(_ context.Context, message string, fields map[string]string) {
			if message == "PVE request" && !done && fields["method"] == method && strings.HasSuffix(fields["path"], path) {
				done = true
				f()
			}
		}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(api.Close)
	w.s = New(request.New(api, w.s.clock))
}

// rules are those of the VM's firewall: "ACCEPT 22".
func (w *world) rules() []string {
	var all []string
	w.change(func(world *state.World) {
		if f := world.Firewall[theVM]; f != nil {
			for _, r := range f.Rules {
				all = append(all, strings.TrimSpace(r["action"]+" "+r["dport"]))
			}
		}
	})
	return all
}

func accepting(ports ...string) []firewall.Rule {
	var all []firewall.Rule
	for _, port := range ports {
		all = append(all, firewall.Rule{Type: to("in"), Action: to("ACCEPT"), Proto: to("tcp"), DPort: to(port)})
	}
	return all
}

// TestSetFirewall: options and rules become what is planned; what is so already costs no request, and an answer that
// was lost is looked at before anything is sent again.
func TestSetFirewall(t *testing.T) {
	w := newWorld(t, nil)
	set := func(prior, want *firewall.Settings, writes ...string) {
		t.Helper()
		w.sim.ResetOps()
		if err := w.s.SetFirewall(t.Context(), "pve1", theVM, prior, want, false, stillOurs); err != nil {
			t.Error(err)
		}
		var has []string
		for _, op := range w.sim.Ops() {
			if op.Method != http.MethodGet {
				has = append(has, op.Method+" "+strings.TrimPrefix(op.Path, "/nodes/{node}/qemu/{vmid}/firewall"))
			}
		}
		if diff := cmp.Diff(writes, has); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		read := Guest{VMID: theVM, Node: "pve1"}
		if err := w.s.ReadFirewallAndHA(t.Context(), &read, true, false); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Options(), read.Firewall.Options()); diff != "" {
			t.Errorf("options (-want +got)\n%s", diff)
		}
		if !firewall.SameRules(firewall.List(want.Rules), firewall.List(read.Firewall.Rules)) {
			t.Errorf("rules %+v, want %+v", read.Firewall.Rules, want.Rules)
		}
	}
	closed := &firewall.Settings{Enabled: to(true), PolicyIn: to("DROP"), Rules: accepting("22", "80")}
	set(nil, closed, "POST /rules", "POST /rules", "PUT /options") // what is let through is there before the rest is stopped
	set(closed, closed)
	open := &firewall.Settings{Enabled: to(true), PolicyIn: to("ACCEPT"), Rules: accepting("80")}
	set(closed, open, "PUT /options", "DELETE /rules/{pos}") // and the other way round
	more := &firewall.Settings{Enabled: to(true), PolicyIn: to("ACCEPT"), Rules: accepting("443", "80")}
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST"}, Phase: fault.After}})
	set(open, more, "POST /rules")
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: fault.Before, Status: 596, Reason: "timeout"}})
	set(more, &firewall.Settings{Enabled: to(false), Rules: more.Rules}, "PUT /options", "PUT /options")
}

// TestSetFirewallLeavesOthersAlone: a third party's rule that comes at any moment stays, and the change is reported;
// one that PVE refuses leads back to the earlier rules.
func TestSetFirewallLeavesOthersAlone(t *testing.T) {
	for name, at := range map[string]struct{ method, path string }{
		"between look and request": {"GET", "/firewall/rules"}, "after a request": {"POST", "/firewall/rules"},
	} {
		w := newWorld(t, nil)
		w.once(at.method, at.path, func() {
			w.change(func(world *state.World) {
				f := world.Firewall[theVM]
				if f == nil {
					f = &state.FirewallFile{}
					world.Firewall[theVM] = f
				}
				f.Rules = slices.Insert(f.Rules, 0, map[string]string{"type": "out", "action": "DROP",
					"enable": "1", "dport": "theirs"})
			})
		})
		err := w.s.SetFirewall(t.Context(), "pve1", theVM, &firewall.Settings{}, &firewall.Settings{Rules: accepting("22", "80")}, false,
			stillOurs)
		var field *FieldError
		if !errors.As(err, &field) || field.Path != "firewall.rules" || !slices.Contains(w.rules(), "DROP theirs") {
			t.Errorf("%s: %v, and left are %q", name, err, w.rules())
		}
	}
	w := newWorld(t, nil)
	prior := &firewall.Settings{Rules: accepting("22")}
	if err := w.s.SetFirewall(t.Context(), "pve1", theVM, nil, prior, false, stillOurs); err != nil {
		t.Fatal(err)
	}
	second := fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/firewall/rules", Nth: 2}
	w.sim.SetFaults([]fault.Rule{{Match: second, Phase: fault.Before, Status: 400, Reason: "no such macro"}})
	err := w.s.SetFirewall(t.Context(), "pve1", theVM, prior, &firewall.Settings{Rules: accepting("443", "80", "22")}, false,
		stillOurs)
	mustSay(t, "a rule that PVE refuses", err, "Cannot add rule 1 of the firewall of VM 400", "Its rules are as they were before",
		"no such macro")
	if diff := cmp.Diff([]string{"ACCEPT 22"}, w.rules()); diff != "" {
		t.Errorf("left (-want +got)\n%s", diff)
	}
}

// stillOurs is a guard that finds the VM unchanged.
func stillOurs(context.Context) error { return nil }

// TestFirewallIsGuarded: once the guard sees another user's VM nothing is sent, be it the first request or the one
// that puts the rules back after a refusal.
func TestFirewallIsGuarded(t *testing.T) {
	theirs := errors.New("another user's")
	w := newWorld(t, nil)
	prior := &firewall.Settings{Enabled: new(true), Rules: accepting("22")}
	if err := w.s.SetFirewall(t.Context(), "pve1", theVM, nil, prior, false, stillOurs); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]*firewall.Settings{"rules": {Enabled: new(true), Rules: accepting("80")}, "options": {DHCP: new(true), Rules: prior.Rules}} {
		w.sim.ResetOps()
		err := w.s.SetFirewall(t.Context(), "pve1", theVM, prior, want, false, func(context.Context) error { return theirs })
		if !errors.Is(err, theirs) {
			t.Errorf("%s: %v", name, err)
		}
		for _, op := range w.sim.Ops() {
			if op.Method != http.MethodGet {
				t.Errorf("%s: sent %s %s", name, op.Method, op.Path)
			}
		}
	}
}

// TestFirewallIsGuardedOnTheWay: a rule that is added bears no digest, and another VM may have the same rules. When
// the guard sees another user's VM nothing more is sent, nor put back.
func TestFirewallIsGuardedOnTheWay(t *testing.T) {
	busy := fault.Rule{Match: fault.Match{Method: "DELETE", Nth: 1}, Phase: fault.Before, Status: 500,
		Reason: "cfs-lock 'firewall-vm-400' error: got lock request timeout"}
	for name, c := range map[string]struct {
		faults      []fault.Rule
		prior, want []string
		sent        []string
	}{
		"a second rule to go": {prior: []string{"22", "80", "443"}, sent: []string{"DELETE"}},
		"a second rule":       {want: []string{"22", "80"}, sent: []string{"POST"}},
		"a lock in between":   {faults: []fault.Rule{busy}, prior: []string{"22", "80"}, sent: []string{"DELETE"}},
	} {
		w := newWorld(t, nil)
		prior := &firewall.Settings{Rules: accepting(c.prior...)}
		if err := w.s.SetFirewall(t.Context(), "pve1", theVM, nil, prior, false, stillOurs); err != nil {
			t.Fatal(err)
		}
		w.sim.SetFaults(c.faults)
		w.sim.ResetOps()
		theirs, looks := errors.New("another user's"), 0
		err := w.s.SetFirewall(t.Context(), "pve1", theVM, prior, &firewall.Settings{Rules: accepting(c.want...)}, false, func(context.Context) error {
			if looks++; looks == 2 {
				return theirs
			}
			return nil
		})
		var sent []string
		for _, op := range w.sim.Ops() {
			if op.Method != http.MethodGet {
				sent = append(sent, op.Method)
			}
		}
		if diff := cmp.Diff(c.sent, sent); diff != "" || !errors.Is(err, theirs) {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}

// TestFirewallRulesThatComeBackSpareOthers: the digest refuses a request after a third party's change (pve-firewall
// API2/Firewall/Rules.pm update_rule, delete_rule). The rules that there were do not come back then: that list lacks
// the third party's rule.
func TestFirewallRulesThatComeBackSpareOthers(t *testing.T) {
	for name, want := range map[string][]string{"to go": {}, "to change": {"8443", "8080", "222"}} {
		w := newWorld(t, nil)
		prior := &firewall.Settings{Rules: accepting("22", "80", "443")}
		if err := w.s.SetFirewall(t.Context(), "pve1", theVM, nil, prior, false, stillOurs); err != nil {
			t.Fatal(err)
		}
		looks := 0
		err := w.s.SetFirewall(t.Context(), "pve1", theVM, prior, &firewall.Settings{Rules: accepting(want...)}, false,
			func(context.Context) error {
				if looks++; looks == 2 { // between the look after the first request and the second request
					w.change(func(world *state.World) {
						f := world.Firewall[theVM]
						f.Rules = slices.Insert(f.Rules, 0, map[string]string{"type": "in", "action": "DROP", "enable": "1",
							"dport": "theirs"})
					})
				}
				return nil
			})
		mustSay(t, name, err, "changed by another user meanwhile")
		if !slices.Contains(w.rules(), "DROP theirs") {
			t.Errorf("%s: the third party's rule is gone, and left are %q", name, w.rules())
		}
	}
}

// TestFirewallInForceIsChangedSafely: how a firewall is changed follows from the server's own options, also where the
// state knows none. Rules of an update that was killed are no reason to stop.
func TestFirewallInForceIsChangedSafely(t *testing.T) {
	open := &firewall.Settings{Enabled: to(true), PolicyIn: to("ACCEPT")}
	half := accepting("443")
	half[0].Enabled = to(false)
	rest := append(accepting("22", "443"), firewall.Rule{Type: to("in"), Action: to("DROP")})
	for name, tt := range map[string]struct {
		has, prior, want *firewall.Settings
		writes           string
	}{
		"a policy that stops more comes last": {open, open, &firewall.Settings{Enabled: to(true), PolicyIn: to("DROP"), Rules: accepting("22")},
			"POST /rules, PUT /options"},
		"switched on since the state was read": {&firewall.Settings{Enabled: to(true), Rules: accepting("22")},
			&firewall.Settings{Rules: accepting("22")}, &firewall.Settings{Rules: rest},
			"POST /rules, PUT /rules/{pos}, PUT /rules/{pos}, POST /rules, PUT /rules/{pos}, PUT /rules/{pos}"},
		"the half of a killed update": {&firewall.Settings{Enabled: to(true), Rules: half}, nil,
			&firewall.Settings{Rules: accepting("443")}, "PUT /rules/{pos}"},
	} {
		w := newWorld(t, nil)
		if err := w.s.SetFirewall(t.Context(), "pve1", theVM, nil, tt.has, false, stillOurs); err != nil {
			t.Fatal(err)
		}
		w.sim.ResetOps()
		set := func() error { return TakeFirewall(t.Context(), w.s, "pve1", theVM, tt.want, stillOurs) }
		if tt.prior != nil {
			set = func() error { return w.s.SetFirewall(t.Context(), "pve1", theVM, tt.prior, tt.want, false, stillOurs) }
		}
		if err := set(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var writes []string
		for _, op := range w.sim.Ops() {
			if op.Method != http.MethodGet {
				writes = append(writes, op.Method+" "+strings.TrimPrefix(op.Path, "/nodes/{node}/qemu/{vmid}/firewall"))
			}
		}
		if got := strings.Join(writes, ", "); got != tt.writes {
			t.Errorf("%s: %s, want %s", name, got, tt.writes)
		}
	}
}

// TestCleanFirewallKeepsAThirdPartysOptions: a VM made from scratch keeps no option of a file that was left of an earlier VM. An
// option that a third party sets while the rules are sent, or while the answer is lost, is none of that file, and stays.
func TestCleanFirewallKeepsAThirdPartysOptions(t *testing.T) {
	want := &firewall.Settings{Enabled: to(true), Rules: accepting("22")}
	for name, c := range map[string]struct {
		at     string
		faults []fault.Rule
	}{
		"while rules are sent": {"POST /firewall/rules", nil},
		"a lost request": {"PUT /firewall/options", []fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: fault.Before, Status: 596,
			Reason: "timeout"}}},
		"a lost answer": {"PUT /firewall/options", []fault.Rule{{Match: fault.Match{Method: "PUT"}, Phase: fault.After}}},
	} {
		w := newWorld(t, nil)
		var has map[string]string
		w.change(func(all *state.World) {
			all.Firewall[theVM] = &state.FirewallFile{Options: map[string]string{"dhcp": "0", "macfilter": "0", "ndp": "1"}}
		})
		method, path, _ := strings.Cut(c.at, " ")
		w.once(method, path, func() {
			w.change(func(all *state.World) {
				all.Firewall[theVM].Options["radv"], all.Firewall[theVM].Options["dhcp"] = "1", "1"
			})
		})
		w.sim.SetFaults(c.faults)
		err := w.s.SetFirewall(t.Context(), "pve1", theVM, nil, want, true, stillOurs)
		w.change(func(all *state.World) { has = all.Firewall[theVM].Options })
		if diff := cmp.Diff(map[string]string{"enable": "1", "radv": "1", "dhcp": "1"}, has); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}
