package create

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// sourcesFirewall is that of the template and of the backup.
func sourcesFirewall() *state.FirewallFile {
	return &state.FirewallFile{Options: map[string]string{"log_level_in": "info"},
		Rules: []map[string]string{{"type": "in", "action": "ACCEPT", "dport": "53", "enable": "1"}}}
}

// firewalled has the template and the backup have that firewall.
func (b bench) firewalled() {
	b.backedUp(nil)
	b.change(func(w *state.World) {
		delete(w.Guests[9000].Config, "protection")
		w.Firewall[9000] = sourcesFirewall()
		for _, v := range w.Volumes {
			if v.Backup != nil && v.Backup.VMID == 700 {
				v.Backup.Firewall = sourcesFirewall()
			}
		}
	})
}

// administer has an administrator set an option and a rule of the firewall of VM 150.
func (b bench) administer() {
	b.change(func(w *state.World) {
		if w.Firewall[150] == nil {
			w.Firewall[150] = &state.FirewallFile{Options: map[string]string{}}
		}
		f := w.Firewall[150]
		f.Options["policy_in"] = "REJECT"
		f.Rules = append(f.Rules, map[string]string{"type": "in", "action": "ACCEPT", "dport": "22", "enable": "1"})
	})
}

// resumedBeneath is a way of a create whose VM has a firewall before the create sets one.
type resumedBeneath struct {
	request func() Request
	blind   bool // the source's cannot be read
	names   bool // the source's is named, too
	source  int  // rules
}

// TestResumeKeepsTheFirewallOfOthers: a run is killed, and an administrator sets an option and a rule of the VM's
// firewall before the next apply completes it. Both stay where the configuration says nothing of them, and are named.
// Configured rules are all rules: then his goes, and that is said. Without him nothing is said, unless the firewall of a
// copy's source is not known.
func TestResumeKeepsTheFirewallOfOthers(t *testing.T) {
	own := []firewall.Rule{{Type: to("in"), Action: to("DROP"), DPort: to("80"), Proto: to("tcp")},
		{Type: to("in"), Action: to("ACCEPT"), DPort: to("443"), Proto: to("tcp")}}
	copied := func(r Request) Request { r.VMID, r.Start, r.Spec.Name = 150, true, to("web"); return r }
	clone := func() Request { return copied(ofTemplate()) }
	for way, by := range map[string]resumedBeneath{"scratch": {startedVM, false, false, 0}, "clone": {clone, false, false, 1},
		"clone of a source that is not seen": {clone, true, true, 1}, "restore": {func() Request { return copied(aRestore()) }, false, true, 1}} {
		for name, c := range map[string]struct {
			want firewall.Settings
			sets bool
			says []string
			left int // rules, but for the source's
		}{
			"no rules configured": {firewall.Settings{Enabled: to(true)}, true, []string{"leaves them:\n  policy_in: REJECT\n  in ACCEPT dport=22"}, 1},
			"rules configured":    {firewall.Settings{Enabled: to(true), Rules: own}, true, []string{"leaves them:\n  policy_in: REJECT", "are replaced:\n  in ACCEPT dport=22"}, 2},
			"policy configured":   {firewall.Settings{PolicyIn: to("DROP")}, true, []string{"are replaced:\n  policy_in: REJECT, becomes DROP"}, 1},
			"without him":         {firewall.Settings{Enabled: to(true), PolicyIn: to("DROP"), Rules: own}, false, nil, 2},
		} {
			request := func() Request { r := by.request(); r.Firewall = &c.want; return r }
			resumed := 0
			for n, died := 1, true; died; n += share.Of(3) {
				synctest.Test(t, func(t *testing.T) {
					b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
					b.firewalled()
					if died = b.kill(t, deadProcess(t, b.Creator), request(), n); !died {
						return
					}
					time.Sleep(startUp)
					if g := b.vms()[150]; g == nil || g["lock"] != "" {
						return
					}
					if c.sets {
						b.administer()
					}
					if by.blind {
						b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/qemu/{vmid}/firewall/options",
							VMID: 9000}, Phase: fault.Before, Status: 403, Reason: "Permission check failed", Times: -1}})
					}
					created, err := creatorOf(t, b.sim, token).Create(t.Context(), request())
					has, said := &state.FirewallFile{}, fmt.Sprint(created.Warnings)
					b.change(func(w *state.World) { has = w.Firewall[150].Clone() })
					policy, left := "REJECT", c.left
					if c.want.PolicyIn != nil {
						policy = *c.want.PolicyIn
					}
					if c.want.Rules == nil {
						left += by.source
					}
					what := fmt.Sprintf("%s, %s, killed before %d", way, name, n)
					if err != nil || len(has.Rules) != left || has.Options["policy_in"] != policy {
						t.Errorf("%s: it is %+v: %v", what, has, err)
					}
					his := strings.NewReplacer("\n  log_level_in: info", "", "\n  in ACCEPT dport=53", "").Replace(said)
					for _, words := range c.says {
						if !strings.Contains(his, words) {
							t.Errorf("%s: %q is not said in %s", what, words, said)
						}
					}
					if named := strings.Contains(said, "log_level_in: info"); named != by.names {
						t.Errorf("%s: the source's firewall is named %t: %s", what, named, said)
					}
					if strings.Contains(said, "Firewall of VM 150") != (c.sets || by.names) {
						t.Errorf("%s: said %s", what, said)
					}
					resumed++
				})
			}
			if resumed < 2 {
				t.Errorf("%s, %s: only %d were resumed", way, name, resumed)
			}
		}
	}
}
