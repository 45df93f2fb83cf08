package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// what is all that snapshots leave in a cluster: sections, locks, and volumes with memory.
func (r *rig) what() (all []string) {
	r.change(func(w *state.World) {
		for vmid, g := range w.Guests {
			if lock := g.Config["lock"]; lock != "" {
				all = append(all, fmt.Sprintf("lock %s of %d", lock, vmid))
			}
			for name, s := range g.Snaps {
				all = append(all, fmt.Sprintf("snapshot %d/%s %q %s", vmid, name, s["description"], s["snapstate"]))
			}
		}
		for _, v := range w.Volumes {
			if strings.Contains(v.Name, "-state-") {
				all = append(all, "volume "+v.Volid())
			}
			for _, name := range v.Snaps {
				all = append(all, fmt.Sprintf("snapshot of %s: %s", v.Volid(), name))
			}
		}
	})
	slices.Sort(all)
	return all
}

func (r *rig) reset() {
	r.t.Helper()
	r.sim.SetFaults(nil)
	if err := r.sim.Load(r.base); err != nil {
		r.t.Fatal(err)
	}
	r.sim.ResetOps()
}

var phases = []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial, fault.Offline}

// TestSnapshotSweep fails every operation of taking a snapshot in every way, with and without memory, as a token and
// as root. Then it is there as it was wanted, or nothing of it is, or the leftover is named.
func TestSnapshotSweep(t *testing.T) {
	effective, named, whole := 0, 0, 0
	for _, root := range []bool{false, true} {
		for _, memory := range []bool{false, true} {
			r := newRig(t, root)
			want := Wanted{VMID: ours, Name: "before", Description: "before the upgrade", Memory: memory}
			r.startGuest()
			r.reset()
			if _, err := r.s.Take(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			good, ops := r.what(), r.operations()
			for _, op := range ops {
				for _, phase := range phases {
					r.reset()
					r.connect(root)
					r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Seq: op.Seq}, Phase: phase, AwayMS: awayFor(phase)}})
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					_, err := r.s.Take(ctx, want)
					cancel()
					if r.sim.FaultsFired() == 0 {
						continue
					}
					effective++
					at := fmt.Sprintf("root %t, memory %t, %s at #%d %s %s", root, memory, phase, op.Seq, op.Method, op.Path)
					switch left, failed := leftovers(err); {
					case err == nil && !slices.Equal(r.what(), good):
						t.Errorf("%s: it is there, and the cluster has %q", at, r.what())
					case err == nil:
						whole++
					case failed == nil && len(r.what()) > 0:
						t.Errorf("%s: %v, and the cluster has %q", at, err, r.what())
					case failed != nil && len(left) > 0:
						named++
						if !strings.Contains(left[0].Reason, "could not be looked at") &&
							!slices.ContainsFunc(r.what(), func(thing string) bool { return strings.Contains(thing, "before") }) {
							t.Errorf("%s: %v is named, and the cluster has %q", at, left, r.what())
						}
					case failed != nil && len(failed.Undo) == 0 && len(r.what()) > 0:
						t.Errorf("%s: nothing is said to be left (%v), and the cluster has %q", at, err, r.what())
					}
				}
			}
		}
	}
	t.Logf("%d effective faults: %d times the snapshot came all the same, %d times something was left and named",
		effective, whole, named)
	if effective < 100 || named == 0 || whole == 0 {
		t.Error("that is not what the sweep is to show")
	}
}

func awayFor(phase fault.Phase) int {
	if phase == fault.Offline {
		return 30_000
	}
	return 0
}

func leftovers(err error) ([]saga.Residue, *saga.Error) {
	var failed *saga.Error
	if !errors.As(err, &failed) {
		return nil, nil
	}
	return failed.Left, failed
}

func (r *rig) operations() []pvesim.Op {
	return slices.DeleteFunc(r.sim.Ops(), func(op pvesim.Op) bool { return strings.Contains(op.Path, "/tasks/") })
}

// startGuest has VM 300 run.
func (r *rig) startGuest() {
	r.t.Helper()
	if _, err := r.s.api.QEMU("pve1", ours).Start(r.t.Context(), nil); err != nil {
		r.t.Fatal(err)
	}
	r.sim.Advance(time.Minute)
	r.base = r.sim.Snapshot()
}
