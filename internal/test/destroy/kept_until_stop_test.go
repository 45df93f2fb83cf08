package destroy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// unrestarted is the body of a VM whose guest no apply restarts, with more disks.
func unrestarted(more string) string {
	return "reboot_policy = \"never\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }\n" + more + "}\n"
}

const (
	destroyRemoved, withoutDisks = "removed_disks = \"destroy\"\n", "hotplug = [\"network\"]\n"
	secondDisk                   = "sata1 = { storage = \"local-zfs\", size = \"2G\" }"
)

// exists reports whether a volume is there.
func exists(l *rig.VM, volume string) (there bool) {
	l.Guest(func(world *state.World, _ *state.Guest) { there = world.Volume("pve1", volume) != nil })
	return there
}

// TestPlanNamesTheDestructionOfADiskThatWaits: a disk with data waits for its place in a slot of a running guest, which is not restarted. PVE notes
// it as unused at once when its slot leaves the configuration, so removed_disks = "destroy" destroys it in the apply, and the plan says so. It said
// that the disk is not destroyed.
func TestPlanNamesTheDestructionOfADiskThatWaits(t *testing.T) {
	t.Parallel()
	const beside = secondDisk + "\n"
	for name, c := range map[string]struct{ hotplug, stays string }{
		"in a free slot":         {"", ""},
		"in the place of a disk": {withoutDisks, beside},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, rig.Stopped+c.hotplug+unrestarted(c.stays+"scsi2 = { storage = \"local-zfs\", size = \"2G\" }"))
			volume := l.Volume("scsi2")
			l.To(rig.Stopped + c.hotplug + unrestarted(c.stays))
			on := "power_state = \"running\"\n" + c.hotplug
			l.To(on + unrestarted(c.stays))
			l.To(on + unrestarted(fmt.Sprintf("sata1 = { imported_disk = { volume = %q } }", volume)))
			l.WantWaiting("sata1")
			pl := l.Plan(destroyRemoved + on + unrestarted(""))
			l.Warned(`disks["sata1"]`, "sata1 of VM 400 on pve1 is destroyed with its data", volume, "for good")
			if said := pl.Diagnostics.String(); strings.Contains(said, "is not destroyed") {
				t.Errorf("the plan says: %s", said)
			}
			rig.Must(t, l.Session.Apply(t.Context(), pl))
			if exists(l, volume) {
				t.Errorf("%s is still there", volume)
			}
		})
	}
}

// TestDiskOfAGuestThatStoppedSinceThePlanIsKept: the plan says that a disk is not destroyed, since the running guest keeps it until its stop. The
// operator of a VM with reboot_policy = "never" stops the guest by hand, and applies that plan. The disk is detached, and is not destroyed.
func TestDiskOfAGuestThatStoppedSinceThePlanIsKept(t *testing.T) {
	t.Parallel()
	const tpm = "tpm_state = { storage = \"local-zfs\" }\n"
	with, without := unrestarted(secondDisk), unrestarted("")
	for name, c := range map[string]struct{ slot, at, from, to string }{
		"SATA":            {"sata1", `disks["sata1"]`, with, without},
		"TPM":             {"tpmstate0", "tpm_state", without + tpm, without},
		"without hotplug": {"scsi1", `disks["scsi1"]`, withoutDisks + strings.ReplaceAll(with, "sata1", "scsi1"), withoutDisks + without},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, c.from)
			l.World.ExpectPowerOffs(state.PowerStop)
			volume := l.Volume(c.slot)
			pl := l.Plan(destroyRemoved + c.to)
			l.Warned(c.at, "is not destroyed", volume)
			l.World.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Stop, VMID: 400})
			rig.Must(t, l.Session.Apply(t.Context(), pl))
			if !exists(l, volume) || l.Volume("unused0") != volume {
				t.Errorf("%s is not kept: %v", volume, l.Config())
			}
			l.Warned("", volume, "was not destroyed", "`qm unlink 400 --idlist unused0`")
			rig.Must(t, l.Session.Converge(t.Context()))
		})
	}
}

// TestPlanTellsThatANewDiskWhichWaitsCannotBeShaped: a new disk waits for its place in an empty slot of a running guest, and no restart comes. PVE
// neither grows nor moves a disk that a guest does not have, so the apply refuses both, and the plan says so. The error names no other disk.
func TestPlanTellsThatANewDiskWhichWaitsCannotBeShaped(t *testing.T) {
	t.Parallel()
	for shaped, change := range map[string][2]string{"grown": {"2G", "3G"}, "moved": {"local-zfs", "local-lvm"}} {
		t.Run(shaped, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, unrestarted(""))
			l.To(unrestarted(secondDisk))
			l.WantWaiting("sata1")
			pl := l.Plan(unrestarted(strings.Replace(secondDisk, change[0], change[1], 1)))
			l.Warned(`disks["sata1"]`, "cannot be "+shaped+" yet", "the apply will be refused")
			err := l.Session.Apply(t.Context(), pl)
			rig.MustSay(t, err, "sata1 of VM 400 cannot be "+shaped+" yet", "It was not touched")
			l.WantWaiting("sata1")
		})
	}
}

// TestNoNewDiskForOneThatHasLeftSinceThePlan: a disk of the running guest waits to leave its slot, and the plan says that the apply takes that back,
// makes no new disk, and goes on with this one and its content. The guest stops before the apply, so that the disk leaves. No empty one takes its
// place without a word: the apply changes nothing, and the next plan names the disk.
func TestNoNewDiskForOneThatHasLeftSinceThePlan(t *testing.T) {
	t.Parallel()
	with := "bios = \"ovmf\"\n" + unrestarted(secondDisk) + "efi_disk = { storage = \"local-zfs\", type = \"4m\" }\n" +
		"tpm_state = { storage = \"local-zfs\", version = \"v2.0\" }\n"
	for _, c := range []struct {
		slot, at string
		removal  int
	}{
		{"sata1", `disks["sata1"]`, 1},
		{"sata1", `disks["sata1"]`, 2}, // destroyed at the stop
		{"scsi0", `disks["scsi0"]`, 1}, // PVE: "can't unplug bootdisk"
		{"efidisk0", "efi_disk", 1},
		{"tpmstate0", "tpm_state", 1},
	} {
		t.Run(fmt.Sprintf("%s, %d", c.slot, c.removal), func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, with)
			l.World.ExpectPowerOffs(state.PowerStop)
			volume := l.Volume(c.slot)
			l.Guest(func(_ *state.World, g *state.Guest) { g.Deletes = map[string]int{c.slot: c.removal} })
			pl := l.Plan("description = \"x\"\n" + with)
			l.Warned(c.at, "keeps its disk", volume, "makes no new disk")
			l.World.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Stop, VMID: 400})
			rig.MustRefuse(t, l.Session.Apply(t.Context(), pl), []string{c.slot + " of VM 400 has lost its disk since the plan", volume,
				"Nothing was changed", c.at})
			if has := l.Config(); has[c.slot] != "" || has["description"] != "" {
				t.Errorf("the VM was changed: %v", has)
			}
			if c.removal == 1 {
				l.Plan("description = \"x\"\n" + with)
				l.Warned(c.at, "empty", volume)
			}
			rig.Must(t, l.Session.Converge(t.Context()))
		})
	}
}

// TestNoNewDiskForOneThatWasTakenOutSinceThePlan: a third party has put a disk into a slot that the configuration names now, and the plan says that
// the apply makes no new disk, but takes this one over with its content. It is taken out before the apply, which makes no empty one in its place.
func TestNoNewDiskForOneThatWasTakenOutSinceThePlan(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, rig.Stopped+unrestarted(""))
	const theirs = "local-zfs:vm-400-disk-7"
	l.Guest(func(world *state.World, _ *state.Guest) { addSATA(world) })
	pl := l.Plan(rig.Stopped + unrestarted("sata0 = { storage = \"local-zfs\", size = \"1G\" }"))
	l.Warned(`disks["sata0"]`, "sata0 of VM 400 on pve1 is not empty", theirs, "makes no new disk")
	l.Guest(func(_ *state.World, g *state.Guest) {
		delete(g.Config, "sata0")
		g.Config["unused0"] = theirs
	})
	rig.MustRefuse(t, l.Session.Apply(t.Context(), pl), []string{"sata0 of VM 400 has lost its disk since the plan", theirs, `disks["sata0"]`})
	if has := l.Config()["sata0"]; has != "" {
		t.Errorf("sata0 has %s", has)
	}
	rig.Must(t, l.Session.Converge(t.Context()))
}
