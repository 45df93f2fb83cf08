package acctest_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestSlotsUnderFaults: whichever request of a change of slots fails, before it takes effect, after it, or in its task, the next
// apply ends where an undisturbed one does: every disk in its slot with its content, none lost, none twice, none left over.
func TestSlotsUnderFaults(t *testing.T) {
	t.Parallel()
	cases := map[fault.Phase]int{}
	for name, c := range map[string]struct{ before, after string }{
		"swap": {threeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { imported_disk = { volume = <scsi2> }, size = "4G" }, scsi2 = { imported_disk = { volume = <scsi1> } } }
`},
		"move, add, remove": {threeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "2G" }, scsi5 = { imported_disk = { volume = <scsi1> } }, scsi6 = { storage = "local", size = "1G" } }
removed_disks = "destroy"
`},
		"remove": {threeDisks, `disks = { scsi0 = { storage = "local-lvm", size = "1G" } }
removed_disks = "destroy"
`},
	} {
		for _, power := range []string{"", stopped} {
			if power != "" && name == "remove" { // no other requests than those of the running guest
				continue
			}
			begin := newLife(t, power+c.before).again()
			l := begin(t)
			after := power + l.named(c.after)
			l.to(after)
			want := l.contents()
			l = begin(t)
			l.configure(after)
			pl, err := l.s.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.w.ResetCalls()
			if err := l.s.Apply(t.Context(), pl); err != nil {
				t.Fatal(err)
			}
			var methods []string
			for _, op := range l.w.Sim.Ops() {
				methods = append(methods, op.Method)
			}
			for n := 1; n <= len(methods); n++ {
				for _, phase := range []fault.Phase{fault.Before, fault.After, fault.Task} {
					if phase != fault.Before && methods[n-1] == http.MethodGet { // one way to get no answer is enough
						continue
					}
					l := begin(t)
					l.configure(after)
					pl, err := l.s.Plan(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					l.w.ResetCalls()
					l.w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Seq: n}, Phase: phase}})
					failed := l.s.Apply(t.Context(), pl)
					fired := l.w.Sim.FaultsFired()
					l.w.Sim.SetFaults(nil)
					if fired == 0 {
						continue
					}
					cases[phase]++
					l.twice()
					if err := l.s.Converge(t.Context()); err != nil {
						t.Errorf("%s%s, operation %d %s (%v): the next apply: %v", power, name, n, phase, failed, err)
						continue
					}
					if diff := cmp.Diff(want, l.contents()); diff != "" {
						t.Errorf("%s%s, operation %d %s (%v): contents of the slots: %s", power, name, n, phase, failed, diff)
					}
					l.whole()
				}
			}
		}
	}
	t.Logf("effective cases: %v", cases)
	if cases[fault.Before] < 50 || cases[fault.After] < 10 || cases[fault.Task] < 7 {
		t.Errorf("too few effective cases: %v", cases)
	}
}

// twice wants no volume in two slots, whatever has failed.
func (l *life) twice() {
	l.Helper()
	l.guest(func(world *state.World, g *state.Guest) {
		used := map[string]string{}
		for slot := range g.Config {
			file := l.file(g, slot)
			if other := used[file]; other != "" && world.Volume(g.Node, file) != nil {
				l.Errorf("%s is in %s and in %s", file, slot, other)
			}
			used[file] = slot
		}
	})
}
