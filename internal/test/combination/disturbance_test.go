package combination_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// playSeeds plays the seeds from 1 to last, or the ones that a variable names ("17", "17-40"), and prints what became of them.
func playSeeds(t *testing.T, what, variable string, last int, play func(*testing.T, uint64, *tally)) *tally {
	t.Helper()
	started, first := time.Now(), 1
	if text := os.Getenv(variable); text != "" {
		if n, _ := fmt.Sscanf(text, "%d-%d", &first, &last); n == 0 {
			t.Fatalf("%s is %q, neither a number nor two", variable, text)
		} else if n == 1 {
			last = first
		}
	}
	sum := &tally{counts: map[string]int{}}
	t.Run(what, func(t *testing.T) {
		for seed := first; seed <= last; seed++ {
			t.Run(strconv.Itoa(seed), func(t *testing.T) {
				t.Parallel()
				play(t, uint64(seed), sum)
			})
		}
	})
	t.Logf("%s %d to %d: %s; %s", what, first, last, sum, time.Since(started).Round(time.Second))
	return sum
}

// disturbance is one thing that comes between.
type disturbance struct {
	kind   string
	at     pvesim.Op
	match  fault.Match // that operation
	phase  fault.Phase
	status int // of a refusal
	act    thirdparty.Act
	on     int // the guest that the act is about
	// failing is a request that fails besides, wherever its moment comes.
	failing []fault.Rule
	cancel  bool
	kill    bool
	deaf    string // the requests that QEMU refuses
}

func (d disturbance) String() string {
	text := fmt.Sprintf("%s at %s %s (#%d, VM %d)", d.kind, d.at.Method, d.at.Path, d.at.Seq, d.on)
	for _, f := range d.failing {
		text += fmt.Sprintf(", and fault %s at %s %s", f.Phase, f.Match.Method, f.Match.Path)
	}
	return text
}

// arm has it come: the end of the provider or of its operation, an act on a guest, or a fault.
func (d disturbance) arm(w *rig.World, vmid int, end func()) {
	switch {
	case d.cancel || d.kill:
		seen := 0
		w.Change(func(world *state.World) {
			world.Served = func(seq int, method, path string) {
				if d.match.Seq != 0 && seq != d.match.Seq || d.match.Seq == 0 && (method != d.match.Method || path != d.match.Path) {
					return
				}
				if seen++; seen >= d.match.Nth {
					end()
				}
			}
		})
	case d.act != "":
		w.Sim.SetThirdParties([]thirdparty.Order{{Act: d.act, VMID: vmid, Before: d.match, ForMS: 20000}})
		w.Sim.SetFaults(d.failing)
	default:
		w.Sim.SetFaults([]fault.Rule{{Match: d.match, Phase: d.phase, Status: d.status}})
	}
}
