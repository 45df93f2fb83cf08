package faults_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// cutOff applies a configuration in a run that dies at its n-th request: nothing that it sends later arrives. The request itself fails
// in a phase. It reports whether the run came so far, and leaves the state as it was.
func cutOff(t *testing.T, l *rig.VM, config string, n int, phase fault.Phase) bool {
	t.Helper()
	before := l.Session.SaveState()
	l.Configure(config)
	pl, err := l.Session.Plan(t.Context())
	rig.Must(t, err)
	l.World.ResetCalls()
	rules := []fault.Rule{{Match: fault.Match{Nth: n}, Phase: phase}}
	for k := range 80 {
		rules = append(rules, fault.Rule{Match: fault.Match{Nth: n + 1 + k}, Phase: fault.Before})
	}
	l.World.Sim.SetFaults(rules)
	err = l.Session.Apply(t.Context(), pl)
	l.World.Sim.SetFaults(nil)
	l.Session.RestoreState(before)
	l.Configure(config)
	return err != nil
}

// TestDiskThatADeadRunWasToDestroyIsNamed: a run with removed_disks = "destroy" dies after it has detached the disk. The next plan names
// it, with the command, once; that of a run which has destroyed it says nothing.
func TestDiskThatADeadRunWasToDestroyIsNamed(t *testing.T) {
	t.Parallel()
	disks := func(removed string) string {
		return "removed_disks = \"destroy\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, " + removed + " }\n"
	}
	for _, power := range []string{"", "power_state = \"stopped\"\n"} {
		first := rig.NewVM(t, power+disks(`scsi1 = { storage = "local-zfs", size = "2G" }`))
		var volume string
		first.World.Change(func(w *state.World) { volume, _, _ = strings.Cut(w.Guests[400].Config["scsi1"], ",") })
		again, told := first.Again(), 0
		for _, phase := range []fault.Phase{fault.Before, fault.Task} {
			for n, died := 1, true; died && n < 70; n++ {
				l := again(t)
				if died = cutOff(t, l, power+disks(`scsi2 = { storage = "local-lvm", size = "4G" }`), n, phase); !died {
					break
				}
				is := ""
				l.World.Change(func(w *state.World) {
					for option, value := range w.Guests[400].Config {
						if file, _, _ := strings.Cut(value, ","); file == volume {
							is = option
						}
					}
					if _, leaves := w.Guests[400].Deletes[is]; leaves {
						is = "leaves"
					}
				})
				what := fmt.Sprintf("%q, %s of request %d: the disk is %s", power, phase, n, is)
				pl, err := l.Session.Plan(t.Context())
				rig.Must(t, err)
				says := strings.Contains(pl.Diagnostics.String(), "is detached and not destroyed")
				if detached := is == "leaves" || strings.HasPrefix(is, "unused"); says != detached {
					t.Errorf("%s: the plan says %s", what, pl.Diagnostics)
				} else if detached {
					told++
					rig.MustSayAll(t, pl.Diagnostics.String(), volume, "qm unlink 400 --idlist unused")
				}
				rig.Must(t, l.Session.Run(t.Context()))
				if pl, err = l.Session.Plan(t.Context()); err != nil || strings.Contains(pl.Diagnostics.String(), "is detached and not destroyed") {
					t.Errorf("%s: a second time: %s %v", what, pl.Diagnostics, err)
				}
			}
		}
		if told == 0 {
			t.Errorf("%q: no run was cut off between the two", power)
		}
	}
}
