package destroy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// dozing is a clock whose machine falls asleep in a pause.
type dozing struct {
	pve.Clock
	doze func()
}

func (d dozing) Sleep(ctx context.Context, pause time.Duration) error {
	d.doze()
	return d.Clock.Sleep(ctx, pause)
}

// TestLateRequestTouchesNothingOfOthers: a laptop is closed. Its network goes first, so a request that destroys finds no
// connection and is to be tried again, or waits for one. Then the machine sleeps for an hour, and meanwhile a third party
// makes a VM of its own under the id. The request is not sent when the machine wakes up.
func TestLateRequestTouchesNothingOfOthers(t *testing.T) {
	for name, inDial := range map[string]bool{"before another try": false, "while it connects": true} {
		for what, act := range map[string]func(*rig, guard.Evidence) error{
			"destroy": func(r *rig, e guard.Evidence) error {
				_, err := r.s.RemoveVM(r.t.Context(), &request.Tasks{}, e, true)
				return err
			},
			"free": func(r *rig, e guard.Evidence) error {
				return r.s.Free(r.t.Context(), &request.Tasks{}, e, contested)
			},
			"stop": func(r *rig, e guard.Evidence) error {
				return r.s.CutOff(r.t.Context(), &request.Tasks{}, e, pve.Params{})
			},
		} {
			var r *rig
			armed, slept := false, false
			doze := func() {
				if !armed || slept {
					return
				}
				slept, r.slept = true, time.Hour
				r.change(func(w *state.World) {
					w.Guests[300].Config["smbios1"], w.Guests[300].Config["name"] = "uuid=99999999-2222-3333-4444-000000000300", "his"
				})
			}
			r = newRig(t, func(c *pve.Config, cred pvesim.Credentials) {
				asToken(c, cred)
				dial := c.DialTLSContext
				c.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if armed && !slept && !inDial {
						return nil, syscall.ENETUNREACH
					}
					if inDial {
						doze()
					}
					return dial(ctx, network, addr)
				}
				c.Clock = dozing{c.Clock, doze}
			})
			r.parting = true
			r.vm(300)
			r.change(func(w *state.World) {
				if what == "stop" {
					w.Guests[300].Running = &state.Running{QMPStatus: "running", PID: 4711, StartedAt: w.Clock.Now(), Booted: map[string]string{}}
				}
			})
			e, err := r.s.Prove(t.Context(), guard.Claim{Node: "pve1", VMID: 300, Whole: true, Own: true,
				Guest: func(pve.GuestConfig) error { return nil }})
			if err != nil {
				t.Fatal(err)
			}
			r.sim.ResetOps()
			armed = true
			err = act(r, e)
			if !slept {
				t.Fatalf("%s, %s: the machine did not sleep: %v", what, name, err)
			}
			for _, op := range r.sim.Ops() {
				if op.Method != http.MethodGet {
					t.Errorf("%s, %s: sent %s %s", what, name, op.Method, op.Path)
				}
			}
			if !errors.Is(err, guest.ErrLate) {
				t.Errorf("%s, %s: %v", what, name, err)
			}
		}
	}
}
