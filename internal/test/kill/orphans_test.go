package kill_test

import (
	"net/http"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestVolumeBesideADeadRunsVM: the roll-back of a create fails, and the run dies before Terraform writes its state. A
// third party puts a volume beside the VM. The next apply removes the VM and begins again. It leaves the volume, which no
// plan has named, though orphaned volumes are to be destroyed.
func TestVolumeBesideADeadRunsVM(t *testing.T) {
	t.Parallel()
	const config = "resource \"proxmox_vm\" \"x\" {\n  vmid = 200\n  node = \"pve1\"\n  name = \"x\"\n  power_state = \"running\"\n" +
		"  on_orphaned_volumes = \"destroy\"\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n}\n"
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, config)
	w.Sim.SetFaults([]fault.Rule{
		{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Before,
			Status: 500, Reason: "no", Times: -1},
		{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Task, Times: -1}})
	rig.MustRefuse(t, s.Run(t.Context()), []string{"start"})
	w.Sim.SetFaults(nil)
	cred := w.Sim.Credentials()
	w.Change(func(world *state.World) {
		guest := world.Guests[200]
		guest.Config["description"] = rig.Resign(cred, guest.Config["description"], rig.OfADeadProcess)
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-200-disk-7", Content: "images", VMID: 200, Format: "raw",
			Size: 3 << 30, Data: "theirs"})
	})
	s = w.Session(t, rig.TokenNoSSH, config)
	rig.Must(t, s.Run(t.Context()))
	if data := rig.DataOf(w, "vm-200-disk-7"); data != "theirs" {
		t.Errorf("the volume has %q: %v", data, s.Diagnostics())
	}
	if rig.GuestOf(w, 200).Running == nil {
		t.Error("the VM is not there, or is off")
	}
}
