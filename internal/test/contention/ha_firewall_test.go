package contention_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// TestFirewallChangedMeanwhile: a third party adds a rule between the look and the request, or between two requests. Positions
// shift, so nothing may be sent blindly: the change is reported, and their rule stays.
func TestFirewallChangedMeanwhile(t *testing.T) {
	t.Parallel()
	rule := func(action string) firewall.Rule {
		return firewall.Rule{Type: rig.Pointer("in"), Action: rig.Pointer(action)}
	}
	for name, at := range map[string]struct{ method, path string }{
		"before the look": {"GET", "/pending"}, "between look and request": {"GET", "/firewall/rules"}, "after a request": {"POST", "/firewall/rules"},
	} {
		t.Run(name, func(t *testing.T) {
			h := engine.NewHookedBench(t, engine.FaultIdentities()[0])
			ref := h.Existing(t, create.Request{VMID: 300, Node: "pve1", Spec: vm.Spec{Options: vm.Options{Name: rig.Pointer("x")}}})
			h.Once(at.method, at.path, func() {
				h.Change(func(w *state.World) {
					f := w.Firewall[300]
					if f == nil {
						f = &state.FirewallFile{}
						w.Firewall[300] = f
					}
					f.Rules = append([]map[string]string{{"type": "out", "action": "DROP", "enable": "1", "comment": "his"}}, f.Rules...)
				})
			})
			_, _, err := h.Service.Update(t.Context(), update.Request{Ref: ref, PriorFirewall: &firewall.Settings{}, Firewall: &firewall.Settings{Rules: []firewall.Rule{rule("ACCEPT"), rule("DROP")}}})
			if err == nil || !strings.Contains(err.Error(), "changed by") && !strings.Contains(err.Error(), "detected modified configuration") {
				t.Errorf("want a conflict, got %v", err)
			}
			h.Change(func(w *state.World) {
				rules := w.Firewall[300].Rules
				if !slices.ContainsFunc(rules, func(r map[string]string) bool { return r["comment"] == "his" }) {
					t.Errorf("the third party's rule is gone: %v", rules)
				}
			})
		})
	}
}

// TestHAChangedMeanwhile: the digest is that of all entries, so another VM's change is none of ours; a change of our own entry
// is reported.
func TestHAChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ sid, conflict string }{
		"another VM's entry": {sid: "vm:8000"}, "our entry": {sid: "vm:300", conflict: "detected modified configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			h := engine.NewHookedBench(t, engine.FaultIdentities()[0])
			before := &guest.HA{State: rig.Pointer("ignored"), Comment: rig.Pointer("a")}
			ref := h.Existing(t, create.Request{VMID: 300, Node: "pve1", Spec: vm.Spec{Options: vm.Options{Name: rig.Pointer("x")}}, HA: before})
			ref.HA = true
			h.Once("GET", "/ha/resources/vm:300", func() {
				h.Change(func(w *state.World) { w.HA[tt.sid].Options = map[string]string{"comment": "changed by him"} })
			})
			guest, _, err := h.Service.Update(t.Context(), update.Request{Ref: ref, PriorHA: before, HA: &guest.HA{State: rig.Pointer("ignored"), Comment: rig.Pointer("b")}})
			want := "b"
			if tt.conflict != "" {
				want = "changed by him"
			}
			if (err != nil) != (tt.conflict != "") || err != nil && !strings.Contains(err.Error(), tt.conflict) {
				t.Errorf("got %v, want %q", err, tt.conflict)
			}
			if guest.HA == nil || guest.HA.Comment == nil || *guest.HA.Comment != want {
				t.Errorf("HA is %+v, want the comment %q", guest.HA, want)
			}
		})
	}
}
