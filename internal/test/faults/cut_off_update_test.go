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

// TestHalfCopyOfADeadMoveIsNamed: a run and PVE's worker die in a move, and PVE frees nothing. The apply that moves the disk again names
// each volume that stays, with a command; without one it says nothing.
func TestHalfCopyOfADeadMoveIsNamed(t *testing.T) {
	t.Parallel()
	const power = "power_state = \"stopped\"\n"
	const firmware = "machine = \"q35\"\nbios = \"ovmf\"\n" + power
	for name, c := range map[string]struct{ before, after string }{
		"disks": {power + "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, scsi1 = { storage = \"local-zfs\", size = \"2G\" } }\n",
			power + "disks = { scsi0 = { storage = \"local-lvm\", size = \"3G\" }, scsi1 = { storage = \"local\", size = \"4G\" } }\n"},
		"firmware": {firmware + "efi_disk = { storage = \"local-zfs\", type = \"4m\" }\ntpm_state = { storage = \"local-zfs\", version = \"v2.0\" }\n",
			firmware + "efi_disk = { storage = \"local-lvm\", type = \"4m\" }\ntpm_state = { storage = \"local-lvm\", version = \"v2.0\" }\n"},
	} {
		again, told := rig.NewVM(t, c.before).Again(), 0
		for _, phase := range []fault.Phase{fault.KillTask, fault.Partial} {
			for n, died := 1, true; died && n < 70; n++ {
				l := again(t)
				if died = cutOff(t, l, c.after, n, phase); !died {
					break
				}
				rig.Must(t, l.Session.Run(t.Context()))
				said, loose := l.Session.Diagnostics().String(), 0
				l.World.Change(func(w *state.World) {
					named := fmt.Sprint(w.Guests[400].Config)
					for _, v := range w.Volumes {
						if v.VMID != 400 || strings.Contains(named, v.Volid()) {
							continue
						}
						if loose++; !strings.Contains(said, v.Volid()) || !strings.Contains(said, "pvesm free") {
							t.Errorf("%s, %s of request %d: %s stays, and the apply says %s", name, phase, n, v.Volid(), said)
						}
					}
				})
				if told += loose; loose == 0 && strings.Contains(said, "left over") {
					t.Errorf("%s, %s of request %d: nothing stays, and the apply says %s", name, phase, n, said)
				}
			}
		}
		if told == 0 {
			t.Errorf("%s: nothing was left", name)
		}
	}
}
