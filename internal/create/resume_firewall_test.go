package create

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestResumeKeepsTheFirewallOfOthers: a run is killed, and an administrator sets an option and a rule of the VM's
// firewall before the next apply completes it. Both stay where the configuration says nothing of them, and are named.
// Configured rules are all rules: then his goes, and that is said. Without him nothing is said.
func TestResumeKeepsTheFirewallOfOthers(t *testing.T) {
	own := []guest.FirewallRule{{Type: to("in"), Action: to("DROP"), DPort: to("80"), Proto: to("tcp")},
		{Type: to("in"), Action: to("ACCEPT"), DPort: to("443"), Proto: to("tcp")}}
	for name, c := range map[string]struct {
		want guest.Firewall
		sets bool
		says []string
		left int // rules
	}{
		"no rules configured": {guest.Firewall{Enabled: to(true)}, true, []string{"leaves them:\n  policy_in: REJECT\n  in ACCEPT dport=22"}, 1},
		"rules configured":    {guest.Firewall{Enabled: to(true), Rules: own}, true, []string{"leaves them:\n  policy_in: REJECT", "are replaced:\n  in ACCEPT dport=22"}, 2},
		"policy configured":   {guest.Firewall{PolicyIn: to("DROP")}, true, []string{"are replaced:\n  policy_in: REJECT, becomes DROP"}, 1},
		"without him":         {guest.Firewall{Enabled: to(true), PolicyIn: to("DROP"), Rules: own}, false, nil, 2},
	} {
		request := func() Request { r := startedVM(); r.Firewall = &c.want; return r }
		resumed := 0
		for n, died := 1, true; died; n++ {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				if died = b.kill(t, deadProcess(t, b.Creator), request(), n); !died {
					return
				}
				time.Sleep(startUp)
				if g := b.vms()[150]; g == nil || g["lock"] != "" {
					return
				}
				b.change(func(w *state.World) {
					if !c.sets {
						return
					}
					if w.Firewall[150] == nil {
						w.Firewall[150] = &state.FirewallFile{Options: map[string]string{}}
					}
					f := w.Firewall[150]
					f.Options["policy_in"] = "REJECT"
					f.Rules = append(f.Rules, map[string]string{"type": "in", "action": "ACCEPT", "dport": "22", "enable": "1"})
				})
				created, err := creatorOf(t, b.sim, token).Create(t.Context(), request())
				has, said := &state.FirewallFile{}, fmt.Sprint(created.Warnings)
				b.change(func(w *state.World) { has = w.Firewall[150].Clone() })
				policy := "REJECT"
				if c.want.PolicyIn != nil {
					policy = *c.want.PolicyIn
				}
				if err != nil || len(has.Rules) != c.left || has.Options["policy_in"] != policy {
					t.Errorf("%s, killed before %d: it is %+v: %v", name, n, has, err)
				}
				for _, words := range c.says {
					if !strings.Contains(said, words) {
						t.Errorf("%s, killed before %d: %q is not said in %s", name, n, words, said)
					}
				}
				if strings.Contains(said, "Firewall of VM 150") != c.sets {
					t.Errorf("%s, killed before %d: said %s", name, n, said)
				}
				resumed++
			})
		}
		if resumed < 4 {
			t.Errorf("%s: only %d were resumed", name, resumed)
		}
	}
}
