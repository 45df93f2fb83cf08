package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const (
	withoutFirmware = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\nbios = \"ovmf\"\nmachine = \"q35\"\n"
	withFirmware    = "efi_disk = { storage = \"local-zfs\" }\ntpm_state = { storage = \"local-zfs\" }\n" + withoutFirmware
	neverRestart    = "reboot_policy = \"never\"\n"
)

// firmwareSlots are the slots of an EFI disk and the state of a TPM, with their attributes.
func firmwareSlots() map[string]string {
	return map[string]string{"efidisk0": "efi_disk", "tpmstate0": "tpm_state"}
}

// TestFirmwareThatWaitsToLeaveIsKept: the EFI disk and the state of the TPM of a running guest wait to leave, by an administrator or by an earlier
// configuration, and are wanted. They stay, with the keys in them, and the plan says so. Nothing is restarted.
func TestFirmwareThatWaitsToLeaveIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy string
		byHand bool
	}{
		"by hand": {"", true}, "by hand, without a restart": {neverRestart, true}, "by the configuration": {neverRestart, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, c.policy+withFirmware)
			had := map[string]string{}
			for slot := range firmwareSlots() {
				had[slot] = l.Volume(slot)
			}
			if c.byHand {
				l.Guest(func(_ *state.World, g *state.Guest) { g.Deletes = map[string]int{"efidisk0": 1, "tpmstate0": 1} })
			} else {
				l.To(c.policy + withoutFirmware)
			}
			pl := l.Plan(c.policy + withFirmware)
			for slot, attribute := range firmwareSlots() {
				l.Warned(attribute, slot+" of VM 400 on pve1 keeps its disk", had[slot])
			}
			if said := pl.Diagnostics.String(); strings.Contains(said, "will be restarted") || strings.Contains(said, "keeps running") {
				t.Errorf("the plan speaks of a restart: %s", said)
			}
			rig.Must(t, l.Session.Apply(t.Context(), pl))
			l.WantWaiting()
			for slot := range firmwareSlots() {
				if is := l.Volume(slot); is != had[slot] {
					t.Errorf("%s has %s, had %s", slot, is, had[slot])
				}
			}
			rig.Must(t, l.Session.Converge(t.Context()))
		})
	}
}

// TestDetachedFirmwareIsNamed: the EFI disk or the state of the TPM of a VM was detached, by hand or by an earlier configuration, and the plan makes
// a new, empty one. It names the old one, which has the keys, and the attribute that makes a copy of it.
func TestDetachedFirmwareIsNamed(t *testing.T) {
	t.Parallel()
	for slot, attribute := range firmwareSlots() {
		for name, byHand := range map[string]bool{"by hand": true, "by the configuration": false} {
			t.Run(slot+" "+name, func(t *testing.T) {
				t.Parallel()
				l := rig.NewVM(t, rig.Stopped+withFirmware)
				volume := l.Volume(slot)
				if byHand {
					l.Guest(func(_ *state.World, g *state.Guest) {
						delete(g.Config, slot)
						g.Config["unused0"] = volume
					})
				} else {
					l.To(rig.Stopped + withoutFirmware)
				}
				l.Plan(rig.Stopped + withFirmware)
				l.Warned(attribute, slot+" of VM 400 on pve1 will be new and empty", fmt.Sprintf("%s.import_from = %q", attribute, volume))
			})
		}
	}
}

// TestFirmwareOfAnotherTypeIsNotReplaced: the state of the TPM that waits to leave has another version than the configuration now says. PVE changes
// none, so the plan says that the apply will be refused. No empty one takes its place.
func TestFirmwareOfAnotherTypeIsNotReplaced(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, withFirmware)
	had := l.Volume("tpmstate0")
	l.Guest(func(_ *state.World, g *state.Guest) { g.Deletes = map[string]int{"tpmstate0": 1} })
	pl := l.Plan(strings.Replace(withFirmware, "tpm_state = {", "tpm_state = { version = \"v2.0\",", 1))
	l.Warned("tpm_state", "tpmstate0 of VM 400 on pve1 cannot be as planned", had, "another type", "`qm set 400 --revert tpmstate0`")
	rig.MustRefuse(t, l.Session.Apply(t.Context(), pl), []string{"tpmstate0 of VM 400 has another disk than the plan", had, "tpm_state"})
	l.WantWaiting("tpmstate0")
}

// TestDestroyBesideFirmwareThatWaitsToLeave: an administrator, or the configuration, has removed the EFI disk or the state of the TPM of a guest that
// still runs. One plan, which names it, and its apply destroy the VM with it.
func TestDestroyBesideFirmwareThatWaitsToLeave(t *testing.T) {
	t.Parallel()
	for slot := range firmwareSlots() {
		for _, byHand := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, by hand: %t", slot, byHand), func(t *testing.T) {
				t.Parallel()
				l := rig.NewVM(t, neverRestart+withFirmware)
				volume := l.Volume(slot)
				if byHand {
					l.Guest(func(_ *state.World, g *state.Guest) { g.Deletes = map[string]int{slot: 1} })
				} else {
					l.To(neverRestart + withoutFirmware)
				}
				pl, err := l.Session.Plan(t.Context(), terraformtest.ToDestroy())
				rig.Must(t, err)
				if said := pl.Diagnostics.String(); !strings.Contains(said, volume) {
					t.Errorf("the plan says: %s", said)
				}
				rig.Must(t, l.Session.Apply(t.Context(), pl))
				l.GuestIsGone()
				l.World.Change(func(w *state.World) {
					if w.Volume("pve1", volume) != nil {
						t.Errorf("%s is left", volume)
					}
				})
			})
		}
	}
}

// TestRemovedFirmwareGoesWithTheVM: the plan that removes an EFI disk, the state of a TPM or a disk says that it is destroyed with the VM. So it is
// where the guest was stopped by hand since.
func TestRemovedFirmwareGoesWithTheVM(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, neverRestart+strings.Replace(withFirmware, "disks = {", "disks = { sata1 = { storage = \"local-zfs\", size = \"1G\" },", 1))
	l.World.ExpectPowerOffs(state.PowerStop)
	var volumes []string
	pl := l.Plan(neverRestart + withoutFirmware)
	for _, slot := range []string{"efidisk0", "tpmstate0", "sata1"} {
		volumes = append(volumes, l.Volume(slot))
		if said := pl.Diagnostics.String(); !strings.Contains(said, "Its volume "+l.Volume(slot)) || !strings.Contains(said, "destroyed with the VM") {
			t.Fatalf("the plan says of %s: %s", slot, said)
		}
	}
	rig.Must(t, l.Session.Apply(t.Context(), pl))
	rig.RunTask(t, l.World, "/nodes/pve1/qemu/400/status/stop", "")
	rig.Must(t, l.Session.Refresh(t.Context()))
	rig.Must(t, l.Session.Destroy(t.Context()))
	l.World.Change(func(w *state.World) {
		volumes = slices.DeleteFunc(volumes, func(volume string) bool { return w.Volume("pve1", volume) == nil })
	})
	if len(volumes) > 0 {
		t.Errorf("%v are left", volumes)
	}
}

// TestRemovedFirmwareComesBackAsACopy: the line by which the plan that removes an EFI disk or the state of a TPM gets it back is one that works. It
// makes a copy with the content.
func TestRemovedFirmwareComesBackAsACopy(t *testing.T) {
	t.Parallel()
	for slot, attribute := range firmwareSlots() {
		t.Run(slot, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, rig.Stopped+withFirmware)
			l.Guest(func(world *state.World, g *state.Guest) { world.Volume("pve1", l.File(g, slot)).Data = "keys" })
			pl := l.Plan(rig.Stopped + withoutFirmware)
			_, line, _ := strings.Cut(pl.Diagnostics.String(), "copy of it again: "+attribute)
			line, _, _ = strings.Cut(line, ". removed_disks")
			if !strings.Contains(line, l.Volume(slot)) {
				t.Fatalf("the plan says: %s", pl.Diagnostics)
			}
			rig.Must(t, l.Session.Apply(t.Context(), pl))
			l.To(rig.Stopped + withoutFirmware + attribute + line + "\n")
			l.Guest(func(world *state.World, g *state.Guest) {
				if is := world.Volume("pve1", l.File(g, slot)).Data; is != "keys" {
					t.Errorf("%s has %q", slot, is)
				}
			})
		})
	}
}

// TestGuestThatBecomesWindowsHasItsMachinePinned: PVE pins the machine of a guest whose ostype becomes a Windows one. A
// plan that does not configure the machine leaves it open then, and else promises it.
func TestGuestThatBecomesWindowsHasItsMachinePinned(t *testing.T) {
	t.Parallel()
	const disk = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	for name, c := range map[string]struct {
		was, is string
		isOpen  bool
	}{
		"from Linux":          {"ostype = \"l26\"\n", "ostype = \"win11\"\n", true},
		"from none":           {"", "ostype = \"win10\"\n", true},
		"with a machine":      {"ostype = \"l26\"\n", "ostype = \"win11\"\nmachine = \"q35\"\n", false},
		"with that machine":   {"ostype = \"l26\"\nmachine = \"q35\"\n", "ostype = \"win11\"\nmachine = \"q35\"\n", false},
		"to another Linux":    {"ostype = \"l26\"\n", "ostype = \"l24\"\n", false},
		"back from a Windows": {"ostype = \"win11\"\n", "ostype = \"l26\"\n", false},
	} {
		for _, power := range []string{"running", "stopped"} {
			for _, version := range []string{"8.4", "9.2"} {
				t.Run(name+" "+power+" "+version, func(t *testing.T) {
					t.Parallel()
					w := rig.NewWorld(t, pvesim.Options{Profile: version})
					w.ExpectPowerOffs(state.PowerReboot, state.PowerShutdown)
					block := func(os string) string { return rig.NodeVMBlock("power_state = \"" + power + "\"\n" + disk + os) }
					s := w.Session(t, rig.TokenNoSSH, block(c.was))
					rig.Must(t, s.Converge(t.Context()))
					w.Reconfigure(t, s, rig.TokenNoSSH, block(c.is))
					pl, err := s.Plan(t.Context())
					rig.Must(t, err)
					planned := terraformtest.At(pl.Change(rig.VMAddress).Planned, "machine")
					if planned.IsKnown() == c.isOpen {
						t.Errorf("planned machine %#v", planned)
					}
					rig.Must(t, s.Apply(t.Context(), pl))
					made := s.Attr(rig.VMAddress, "machine")
					rig.Must(t, s.Converge(t.Context()))
					if is := s.Attr(rig.VMAddress, "machine"); !is.RawEquals(made) {
						t.Errorf("the refresh finds machine %#v, the apply said %#v", is, made)
					}
				})
			}
		}
	}
}

// TestFirmwareKeepsTheOptionsItWasMadeWith: PVE changes neither the type and the keys of an EFI disk nor the version of a
// TPM. Where they leave the configuration the plan keeps them, alone and beside a move.
func TestFirmwareKeepsTheOptionsItWasMadeWith(t *testing.T) {
	t.Parallel()
	const head = "power_state = \"stopped\"\n" + withoutFirmware
	firmware := func(storage, efi, tpm string) string {
		return fmt.Sprintf("%sefi_disk = { storage = %q%s }\ntpm_state = { storage = %q%s }\n", head, storage, efi, storage, tpm)
	}
	for name, to := range map[string]string{"alone": "local-zfs", "with a move": "local-lvm"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, firmware("local-zfs", ", pre_enrolled_keys = true, type = \"4m\"", ", version = \"v2.0\""))
			pl := l.Plan(firmware(to, "", ""))
			if pl.Empty() != (to == "local-zfs") {
				t.Errorf("planned %s", pl)
			}
			rig.Must(t, l.Session.Apply(t.Context(), pl))
			rig.Must(t, l.Session.Converge(t.Context()))
			for at, want := range map[string]string{"efi_disk.type": `"4m"`, "efi_disk.pre_enrolled_keys": "true", "tpm_state.version": `"v2.0"`} {
				if is := terraformtest.ShowValue(l.Session.Attr(rig.VMAddress, at)); is != want {
					t.Errorf("%s is %s", at, is)
				}
			}
		})
	}
}

// TestBootOrderThatLeavesBecomesPVEsDefault: PVE has a default order at a create only, and a VM without an order boots from no
// disk. So the plan shows the order that the VM would be made with, and the guest boots from its disk after the restart.
func TestBootOrderThatLeavesBecomesPVEsDefault(t *testing.T) {
	t.Parallel()
	const disk, nic = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n", "networks = { net0 = { bridge = \"vmbr0\" } }\n"
	const drive = "cdroms = { ide0 = { file = \"none\" } }\n"
	for name, c := range map[string]struct{ before, after, want string }{
		"the disk alone":      {disk + nic + "boot_order = [\"scsi0\"]\n", disk + nic, "scsi0;net0"},
		"the network":         {disk + nic + "boot_order = [\"net0\"]\n", disk + nic, "scsi0;net0"},
		"nothing":             {disk + nic + "boot_order = []\n", disk + nic, "scsi0;net0"},
		"the default itself":  {disk + nic + "boot_order = [\"scsi0\", \"net0\"]\n", disk + nic, "scsi0;net0"},
		"with a new drive":    {disk + nic + "boot_order = [\"scsi0\", \"net0\"]\n", disk + nic + drive, "scsi0;ide0;net0"},
		"without the drive":   {disk + drive + "boot_order = [\"ide0\", \"scsi0\"]\n", disk, "scsi0"},
		"of a clone":          {"clone = { vmid = 9000, full = true }\nboot_order = [\"scsi0\"]\n", "clone = { vmid = 9000, full = true }\n", "scsi0;ide2;net0"},
		"with cloud-init":     {disk + "boot_order = [\"scsi0\"]\n", disk + "cloud_init = { storage = \"local-zfs\" }\n", "scsi0;ide2"},
		"a lower disk is new": {disk + "boot_order = [\"scsi0\"]\n", strings.Replace(disk, "{ scsi0", "{ ide1 = { storage = \"local-zfs\", size = \"1G\" }, scsi0", 1), "ide1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, c.before)
			l.World.ExpectPowerOffs(state.PowerReboot)
			pl := l.Plan(c.after)
			want := strings.Split(c.want, ";")
			if is := terraformtest.ShowValue(terraformtest.At(pl.Change(rig.VMAddress).Planned, "boot_order")); is != "[\""+strings.Join(want, "\",\"")+"\"]" {
				t.Errorf("planned %s, want %s", is, want)
			}
			rig.Must(t, l.Session.Apply(t.Context(), pl))
			l.Guest(func(_ *state.World, g *state.Guest) {
				if g.Config["boot"] != "order="+c.want || !slices.Contains(g.Running.BootsFrom, want[0]) {
					t.Errorf("boot is %q, and the guest boots from %v", g.Config["boot"], g.Running.BootsFrom)
				}
			})
			rig.Must(t, l.Session.Converge(t.Context()))
			later := strings.Replace(c.after, "disks = {", "disks = { ide1 = { storage = \"local-zfs\", size = \"1G\" },", 1)
			if strings.Contains(c.after, "ide1") || later == c.after {
				return
			}
			l.To(later)
			l.Guest(func(_ *state.World, g *state.Guest) {
				if g.Config["boot"] != "order="+c.want {
					t.Errorf("a disk that comes later makes it %q", g.Config["boot"])
				}
			})
		})
	}
}

// TestFirstDiskThatIsNotBooted: PVE puts no disk that comes later into the boot order, so the plan says that the VM does not
// boot from its first one.
func TestFirstDiskThatIsNotBooted(t *testing.T) {
	t.Parallel()
	const nic, disk = "power_state = \"stopped\"\nnetworks = { net0 = { bridge = \"vmbr0\" } }\n", "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	l := rig.NewVM(t, nic)
	l.To(nic + disk)
	if boot := l.Config()["boot"]; boot != "order=net0" {
		t.Errorf("boot is %q: the warning is not true", boot)
	}
	l = rig.NewVM(t, nic)
	l.Plan(nic + disk)
	l.Warned(`disks["scsi0"]`, "does not boot from its first disk", `boot_order = ["scsi0"]`)
}

// TestPlanTellsOfResetsAndNewKeys: the plan names the values of PVE's own that a guest may not start with, and that BitLocker
// asks for its recovery key once PVE has enrolled other certificates.
func TestPlanTellsOfResetsAndNewKeys(t *testing.T) {
	t.Parallel()
	keys := func(certificates string) string {
		return withoutFirmware + "ostype = \"win11\"\ntpm_state = { storage = \"local-zfs\", version = \"v2.0\" }\n" +
			"efi_disk = { storage = \"local-zfs\", type = \"4m\", pre_enrolled_keys = true, ms_cert = \"" + certificates + "\" }\n"
	}
	for name, c := range map[string]struct {
		before, after, at string
		says              []string
	}{
		"certificates": {keys("2011"), keys("2023k"), "efi_disk.ms_cert", []string{"BitLocker asks for its recovery key", "manage-bde -protectors -disable"}},
		"a CPU":        {rig.OneDisk + "\ncpu = { type = \"host\" }\n", rig.OneDisk, "cpu", []string{"kvm64", "Write cpu.type = \"host\" to keep it"}},
		"a Windows":    {rig.OneDisk + "\nostype = \"win10\"\n", rig.OneDisk, "ostype", []string{"Hyper-V", "Write ostype = \"win10\" to keep it"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, c.before)
			l.Plan(c.after)
			l.Warned(c.at, c.says...)
		})
	}
}
