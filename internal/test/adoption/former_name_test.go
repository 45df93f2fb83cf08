package adoption_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// disksOf is a VM 200 with such disks beside its first one.
func disksOf(disks string) string {
	return "resource \"proxmox_vm\" \"x\" {\n  node = \"pve1\"\n  vmid = 200\n  name = \"x\"\n  power_state = \"stopped\"\n" +
		"  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, " + disks + " }\n  networks = { net0 = { bridge = \"vmbr0\" } }\n}\n"
}

// inSlot is the volume in a slot of VM 200.
func inSlot(w *rig.World, slot string) string {
	volume, _, _ := strings.Cut(rig.GuestOf(w, 200).Config[slot], ",")
	return volume
}

// TestFormerNameOfADisk: imported_disk says where a disk was when it was attached. An administrator moves the disk to
// another storage, and PVE leaves the source with the VM unless told otherwise, or its name goes to another disk. An
// unchanged configuration leaves the disk in its slot.
func TestFormerNameOfADisk(t *testing.T) {
	t.Parallel()
	const named = `scsi1 = { imported_disk = { volume = "local-zfs:vm-200-disk-5" } }`
	for name, c := range map[string]struct {
		disks, slot, move string
		also              func(*state.World)
		warns             bool
	}{
		"source kept":     {disks: named, slot: "scsi1", move: "delete=0", warns: true},
		"source deleted":  {disks: named, slot: "scsi1", move: "delete=1"},
		"and the storage": {disks: strings.Replace(named, "{ imported", `{ storage = "local-zfs", size = "4G", imported`, 1), slot: "scsi1", move: "delete=0", warns: true},
		"source not freed": {disks: named, slot: "scsi1", move: "delete=1", warns: true, also: func(w *state.World) {
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-200-disk-5", Content: "images", VMID: 200, Format: "raw", Size: 4 << 30})
		}},
		"its name given to another disk": {disks: named, slot: "scsi1", move: "delete=1", warns: true, also: func(w *state.World) {
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-200-disk-5", Content: "images", VMID: 200, Format: "raw", Size: 5 << 30})
			w.Guests[200].Config["scsi2"] = "local-zfs:vm-200-disk-5,size=5G"
		}},
	} {
		w := rig.DisksWithoutVM(t, "vm-200-disk-5")
		s := w.Session(t, rig.RootTicket, disksOf(c.disks))
		rig.Must(t, s.Converge(t.Context()))
		rig.RunTask(t, w, "/nodes/pve1/qemu/200/move_disk", "disk="+c.slot+"&storage=shared-nfs&format=qcow2&"+c.move)
		if c.also != nil {
			w.Change(c.also)
		}
		live := inSlot(w, c.slot)
		_, err := s.Plan(t.Context())
		rig.Must(t, err)
		if warned := says(s, "has another volume than the one that it is named by"); warned != c.warns {
			t.Errorf("%s: the plan says %v", name, s.Diagnostics())
		}
		rig.Must(t, s.Run(t.Context()))
		wants := map[bool]string{true: "local-zfs:", false: live}[name == "and the storage"] // there the move is taken back
		if is := inSlot(w, c.slot); !strings.HasPrefix(is, wants) || is == "local-zfs:vm-200-disk-5" && name != "and the storage" {
			t.Errorf("%s: %s has %s, had %s", name, c.slot, is, live)
		}
	}
}

// TestFormerNameAfterAnImport: the state of an import does not know what a disk was made of, so nothing is exchanged.
func TestFormerNameAfterAnImport(t *testing.T) {
	t.Parallel()
	const named = `scsi1 = { imported_disk = { volume = "local-zfs:vm-200-disk-5" } }`
	w := rig.DisksWithoutVM(t, "vm-200-disk-5")
	s := w.Session(t, rig.RootTicket, disksOf(named))
	rig.Must(t, s.Converge(t.Context()))
	rig.RunTask(t, w, "/nodes/pve1/qemu/200/move_disk", "disk=scsi1&storage=shared-nfs&format=qcow2&delete=0")
	live := inSlot(w, "scsi1")
	s.Forget(rig.VMAddress)
	rig.Must(t, s.Import(t.Context(), rig.VMAddress, "200"))
	rig.MustRefuse(t, s.Run(t.Context()), []string{"nothing shows whether that was made of local-zfs:vm-200-disk-5"})
	w.Reconfigure(t, s, rig.RootTicket, disksOf(`scsi1 = { storage = "shared-nfs", size = "4G" }`))
	rig.Must(t, s.Converge(t.Context()))
	if is := inSlot(w, "scsi1"); is != live {
		t.Errorf("scsi1 has %s, had %s", is, live)
	}
}

// TestReplacedVMWhoseDiskHasAFormerName: the disk was moved, and PVE could not free the source, which is in no
// configuration. A replacement would destroy the disk with the VM, and take the old copy for it.
func TestReplacedVMWhoseDiskHasAFormerName(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"tainted", "-replace"} {
		w := rig.DisksWithoutVM(t, "vm-200-disk-5")
		s := w.Session(t, rig.RootTicket, disksOf(`scsi1 = { imported_disk = { volume = "local-zfs:vm-200-disk-5" } }`))
		rig.Must(t, s.Converge(t.Context()))
		rig.RunTask(t, w, "/nodes/pve1/qemu/200/move_disk", "disk=scsi1&storage=shared-nfs&format=qcow2&delete=0")
		w.Change(func(world *state.World) { delete(world.Guests[200].Config, "unused0") })
		var options []terraformtest.PlanOption
		if s.Taint(rig.VMAddress, how == "tainted"); how == "-replace" {
			options = append(options, terraformtest.Replacing(rig.VMAddress))
		}
		_, err := s.Plan(t.Context(), options...)
		rig.MustRefuse(t, err, []string{"was given local-zfs:vm-200-disk-5, and has another volume by now"})
	}
}

// TestSlotOfADiskWithAFormerName: the disk was moved, and the user gives it another slot by the name of before. That is
// refused with its present name, which does it; so is the name of a disk that stays in its slot.
func TestSlotOfADiskWithAFormerName(t *testing.T) {
	t.Parallel()
	named := func(slot, volume string) string {
		return fmt.Sprintf("%s = { imported_disk = { volume = %q } }", slot, volume)
	}
	const former = "local-zfs:vm-200-disk-5"
	w := rig.DisksWithoutVM(t, "vm-200-disk-5")
	s := w.Session(t, rig.RootTicket, disksOf(named("scsi1", former)))
	rig.Must(t, s.Converge(t.Context()))
	rig.RunTask(t, w, "/nodes/pve1/qemu/200/move_disk", "disk=scsi1&storage=shared-nfs&format=qcow2&delete=0")
	live := inSlot(w, "scsi1")
	w.Reconfigure(t, s, rig.RootTicket, disksOf(named("virtio1", former)))
	rig.MustRefuse(t, s.Run(t.Context()), []string{"The disk in scsi1 was given " + former, "has " + live, "Name that volume"})
	w.Reconfigure(t, s, rig.RootTicket, disksOf(named("scsi1", former)+", "+named("virtio1", live)))
	rig.MustRefuse(t, s.Run(t.Context()), []string{live + " is in scsi1, which keeps it"})
	w.Reconfigure(t, s, rig.RootTicket, disksOf(named("virtio1", live)))
	rig.Must(t, s.Converge(t.Context()))
	if is := inSlot(w, "virtio1"); is != live {
		t.Errorf("virtio1 has %s, want %s", is, live)
	}
}

// TestNameThatIsNotThere: a slot of the VM is to get a volume that is not there. The plan refuses, so the state never has
// a name that the disk was not given, and the volume is attached once it is there.
func TestNameThatIsNotThere(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, disksOf(`scsi1 = { storage = "local-zfs", size = "2G" }`))
	rig.Must(t, s.Converge(t.Context()))
	w.Reconfigure(t, s, rig.RootTicket, disksOf(`scsi1 = { imported_disk = { volume = "local-zfs:vm-200-disk-5" } }`))
	rig.MustRefuse(t, s.Run(t.Context()), []string{"The VM has no volume local-zfs:vm-200-disk-5"})
	w.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-200-disk-5", Content: "images", VMID: 200, Format: "raw", Size: 2 << 30})
	})
	rig.Must(t, s.Converge(t.Context()))
	if is := inSlot(w, "scsi1"); is != "local-zfs:vm-200-disk-5" {
		t.Errorf("scsi1 has %s", is)
	}
}

// TestExchangeAfterAnImport: the error names a way that works.
func TestExchangeAfterAnImport(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, disksOf(`scsi1 = { storage = "local-zfs", size = "2G" }`))
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-200-disk-5", Content: "images", VMID: 200, Format: "raw", Size: 2 << 30})
		world.Guests[200].Config["unused0"] = "local-zfs:vm-200-disk-5"
	})
	s.Forget(rig.VMAddress)
	rig.Must(t, s.Import(t.Context(), rig.VMAddress, "200"))
	rig.Must(t, s.Converge(t.Context()))
	const wanted = `scsi1 = { imported_disk = { volume = "local-zfs:vm-200-disk-5" } }`
	w.Reconfigure(t, s, rig.RootTicket, disksOf(wanted))
	rig.MustRefuse(t, s.Run(t.Context()), []string{"detach local-zfs:vm-200-disk-1 first"})
	w.Change(func(world *state.World) {
		c := world.Guests[200].Config
		delete(c, "scsi1")
		c["unused1"] = "local-zfs:vm-200-disk-1"
	})
	err := s.Converge(t.Context())
	if is := inSlot(w, "scsi1"); is != "local-zfs:vm-200-disk-5" {
		t.Errorf("scsi1 has %s: %v", is, err)
	}
}

// TestExchangedNamesAfterARestore: two disks once changed their slots. A restore gives the disks new names in the order
// of their slots, which are the names of before. The configuration, which still says where they were, exchanges nothing.
func TestExchangedNamesAfterARestore(t *testing.T) {
	t.Parallel()
	const one, other = "local-zfs:vm-200-disk-1", "local-zfs:vm-200-disk-2"
	swapped := disksOf(fmt.Sprintf("scsi1 = { imported_disk = { volume = %q } }, scsi2 = { imported_disk = { volume = %q } }", other, one))
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, disksOf(`scsi1 = { storage = "local-zfs", size = "2G" }, scsi2 = { storage = "local-zfs", size = "2G" }`))
	rig.Must(t, s.Converge(t.Context()))
	w.Reconfigure(t, s, rig.RootTicket, swapped)
	rig.Must(t, s.Converge(t.Context()))
	if inSlot(w, "scsi1") != other || inSlot(w, "scsi2") != one {
		t.Fatalf("nothing was exchanged: %v", rig.GuestOf(w, 200).Config)
	}
	w.Change(func(world *state.World) {
		c := world.Guests[200].Config
		c["scsi1"], c["scsi2"] = strings.Replace(c["scsi1"], other, one, 1), strings.Replace(c["scsi2"], one, other, 1)
	})
	rig.Must(t, s.Run(t.Context()))
	if inSlot(w, "scsi1") != one || inSlot(w, "scsi2") != other {
		t.Errorf("the disks were exchanged: %v", rig.GuestOf(w, 200).Config)
	}
}

// TestExchangeThatFailedIsTriedAgain: an exchange that the apply could not carry out is no former name.
func TestExchangeThatFailedIsTriedAgain(t *testing.T) {
	t.Parallel()
	const one, other = "local-zfs:vm-200-disk-1", "local-zfs:vm-200-disk-2"
	for _, method := range []string{http.MethodPut, http.MethodPost} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.RootTicket, disksOf(`scsi1 = { storage = "local-zfs", size = "2G" }, scsi2 = { storage = "local-zfs", size = "3G" }`))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.RootTicket,
			disksOf(fmt.Sprintf("scsi1 = { imported_disk = { volume = %q } }, scsi2 = { imported_disk = { volume = %q } }", other, one)))
		w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: method, Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Before,
			Status: 500, Reason: "no", Times: -1}})
		err := s.Run(t.Context())
		w.Sim.SetFaults(nil)
		if err == nil && method == http.MethodPost {
			continue // the update sends none
		}
		rig.MustRefuse(t, err, []string{"no"})
		rig.Must(t, s.Converge(t.Context()))
		if inSlot(w, "scsi1") != other || inSlot(w, "scsi2") != one {
			t.Errorf("%s: %v", method, rig.GuestOf(w, 200).Config)
		}
	}
}
