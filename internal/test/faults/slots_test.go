package faults_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestSlotsUnderFaults: whichever request of a change of slots fails, before it takes effect, after it, or in its task, the next
// apply ends where an undisturbed one does: every disk in its slot with its content, none lost, none twice, none left over.
func TestSlotsUnderFaults(t *testing.T) {
	t.Parallel()
	cases, number := map[fault.Phase]int{}, 0
	for name, c := range map[string]struct{ before, after string }{
		"swap": {rig.ThreeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { imported_disk = { volume = <scsi2> }, size = "4G" }, scsi2 = { imported_disk = { volume = <scsi1> } } }
`},
		"move, add, remove": {rig.ThreeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "2G" }, scsi5 = { imported_disk = { volume = <scsi1> } }, scsi6 = { storage = "local", size = "1G" } }
removed_disks = "destroy"
`},
		"remove": {rig.ThreeDisks, `disks = { scsi0 = { storage = "local-lvm", size = "1G" } }
removed_disks = "destroy"
`},
	} {
		for _, power := range []string{"", rig.Stopped} {
			if power != "" && name == "remove" { // no other requests than those of the running guest
				continue
			}
			begin := rig.NewVM(t, power+c.before).Again()
			l := begin(t)
			after := power + l.Named(c.after)
			l.To(after)
			want := l.Contents()
			l = begin(t)
			l.Configure(after)
			pl, err := l.Session.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.World.ResetCalls()
			if err := l.Session.Apply(t.Context(), pl); err != nil {
				t.Fatal(err)
			}
			for n, at := range operations(l.World.Sim.Ops()) {
				for _, phase := range []fault.Phase{fault.Before, fault.After, fault.Task} {
					if phase != fault.Before && at.Method == http.MethodGet { // one way to get no answer is enough
						continue
					}
					if number++; !engine.IsDrawn(number, 0) {
						continue
					}
					l := begin(t)
					l.Configure(after)
					pl, err := l.Session.Plan(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					l.World.ResetCalls()
					l.World.Sim.SetFaults([]fault.Rule{{Match: at, Phase: phase}})
					failed := l.Session.Apply(t.Context(), pl)
					fired := l.World.Sim.FaultsFired()
					l.World.Sim.SetFaults(nil)
					if fired == 0 {
						continue
					}
					cases[phase]++
					l.WantDistinctVolumes()
					if err := l.Session.Converge(t.Context()); err != nil {
						t.Errorf("%s%s, operation %d %s (%v): the next apply: %v", power, name, n, phase, failed, err)
						continue
					}
					if diff := cmp.Diff(want, l.Contents()); diff != "" {
						t.Errorf("%s%s, operation %d %s (%v): contents of the slots: %s", power, name, n, phase, failed, diff)
					}
					l.WantNoOrphans()
				}
			}
		}
	}
	t.Logf("effective cases: %v", cases)
	if cases[fault.Before] < engine.Enough(160) || cases[fault.After] < engine.Enough(16) || cases[fault.Task] < engine.Enough(11) {
		t.Errorf("too few effective cases: %v", cases)
	}
}

// operations matches each of some operations by its request, and by how many of that kind came before it: looks that go out together change
// their order, and a few are spared where an earlier apply has asked.
func operations(ops []pvesim.Op) (all []fault.Match) {
	count := map[fault.Match]int{}
	for _, op := range ops {
		at := fault.Match{Method: op.Method, Path: op.Path}
		count[at]++
		all = append(all, fault.Match{Method: op.Method, Path: op.Path, Nth: count[at]})
	}
	return all
}
