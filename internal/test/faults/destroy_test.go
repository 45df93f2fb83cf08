package faults_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// TestDestroySweep fails each operation of a destroy in each way. Whatever is left then is in state and named, no third party
// is touched, no guest is cut off, and the next destroy ends well, or, where a lock is left that this identity cannot take
// away, says the command. The whole sweeps every identity.
func TestDestroySweep(t *testing.T) {
	t.Parallel()
	identities := []rig.Identity{rig.TokenSSH, rig.TokenNoAllocate}
	if share.IsWhole() { // make test-full
		identities = rig.Identities()
	}
	for n, who := range identities {
		t.Run(string(who), func(t *testing.T) {
			t.Parallel()
			sw := newDestroySweep(t, who)
			for seq := sw.from; seq <= sw.to; seq++ {
				for p, phase := range []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Offline} {
					if (seq+p+n)%destroyShare == 0 || share.IsWhole() {
						sw.run(seq, phase)
					}
				}
			}
			if sw.effective < (sw.to-sw.from)/destroyShare {
				t.Errorf("only %d faults had an effect", sw.effective)
			}
			t.Logf("%d operations of a destroy, %d faults with an effect: %d destroyed all the same, %d at the next try, %d told the command",
				sw.to-sw.from+1, sw.effective, sw.atOnce, sw.later, sw.told)
		})
	}
}

// destroyShare is the part of the faults of a destroy that `make test` plays: one in so many.
const destroyShare = 8

// destroySweep is a world with a VM to be destroyed, and what became of it.
type destroySweep struct {
	t     *testing.T
	who   rig.Identity
	w     *rig.World
	s     *terraformtest.Session
	world []byte
	saved terraformtest.SavedState

	from, to                       int // the operations of a destroy without fault, less those of its plan
	effective, atOnce, later, told int
}

func newDestroySweep(t *testing.T, who rig.Identity) *destroySweep {
	t.Helper()
	w, s := rig.Applied(t, who, rig.DestroyBlock("")) // worlds are compared with the one before that
	w.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-state-one", VMID: 400, Content: "images", Format: "raw", Size: 1 << 20})
		world.Guests[400].Snaps = map[string]map[string]string{"one": {"vmstate": "local-zfs:vm-400-state-one", "snaptime": "1"}}
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-777-disk-0", VMID: 777, Content: "images", Format: "raw", Size: 1 << 20, Data: "a third party's"})
	})
	w.Reconfigure(t, s, who, "") // cheaper than a destroy, which plans the VM as well
	sw := &destroySweep{t: t, who: who, w: w, s: s, world: w.Sim.Snapshot(), saved: s.SaveState()}
	sw.reset(nil)
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Mark() // nothing but the third parties' is left
	ops := w.Sim.Ops()
	sw.to = len(ops)
	sw.from = 1 + slices.IndexFunc(ops, func(op pvesim.Op) bool {
		return strings.HasSuffix(op.Path, "/snapshot") || op.Method == http.MethodPost && strings.HasSuffix(op.Path, "/shutdown")
	})
	sw.from = max(1, sw.from-6) // and the looks before
	return sw
}

// reset goes back to the VM as it was, and sets a fault.
func (sw *destroySweep) reset(rules []fault.Rule) {
	sw.t.Helper()
	sw.w.Sim.SetFaults(nil)
	if err := sw.w.Sim.Load(sw.world); err != nil {
		sw.t.Fatal(err)
	}
	sw.s.RestoreState(sw.saved)
	sw.w.Sim.ResetOps()
	sw.w.Sim.ResetPowerOffs()
	sw.w.Sim.SetFaults(rules)
}

func (sw *destroySweep) run(seq int, phase fault.Phase) {
	t, w := sw.t, sw.w
	t.Helper()
	sw.reset([]fault.Rule{{Match: fault.Match{Seq: seq}, Phase: phase}})
	err := sw.s.Run(t.Context())
	what := fmt.Sprintf("operation %d %s", seq, phase)
	if ops := w.Sim.Ops(); len(ops) >= seq {
		what += fmt.Sprintf(" (%s %s)", ops[seq-1].Method, ops[seq-1].Path)
	}
	if w.Sim.FaultsFired() == 0 {
		return
	}
	sw.effective++
	left, kept := rig.TracesOf(w, 400), len(sw.s.Addresses()) == 1
	if !kept && (err != nil || len(left) > 0) {
		t.Errorf("%s: dropped from state, left %v: %v", what, left, err)
	}
	if err != nil && !strings.Contains(err.Error(), "400") {
		t.Errorf("%s: the error does not say which VM: %v", what, err)
	}
	for _, off := range w.Sim.PowerOffs() {
		if off.Kind != state.PowerShutdown && off.Kind != state.PowerNode {
			t.Errorf("%s: cut off: %+v", what, off)
		}
	}
	sw.settle()
	if err != nil {
		sw.again(what, err)
		return
	}
	sw.atOnce++
	for _, line := range w.Leaks() {
		t.Errorf("%s: %s", what, line)
	}
}

// settle ends what went wrong.
func (sw *destroySweep) settle() {
	sw.w.Sim.SetFaults(nil)
	for _, node := range []string{"pve1", "pve2"} {
		sw.w.Sim.SetNode(node, true)
	}
	sw.w.Sim.Advance(30 * time.Second)
}

// again destroys once more, when nothing goes wrong any longer.
func (sw *destroySweep) again(what string, first error) {
	t, w := sw.t, sw.w
	t.Helper()
	err := sw.s.Run(t.Context())
	switch {
	case err == nil:
		sw.later++
		for _, line := range w.Leaks() {
			t.Errorf("%s, then destroyed again: %s\nat first: %v", what, line, first)
		}
	case strings.Contains(err.Error(), "qm unlock 400") && (sw.who == rig.TokenNoSSH || sw.who == rig.TokenNoAllocate):
		sw.told++
	default:
		t.Errorf("%s: the next destroy says %v\nat first: %v", what, err, first)
	}
}
