package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDevicesAfterARefusedUpdate: the plan takes devices over that a third party has added, and its apply is refused
// before anything is written. They do not come into the state: with the configuration of before, nothing becomes of
// them.
func TestDevicesAfterARefusedUpdate(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	before := madeVM + "removed_disks = \"destroy\"\n"
	s := w.Session(t, rig.RootTicket, rig.VMBlock(before))
	rig.Must(t, s.Converge(t.Context()))
	theirs := ""
	w.Change(func(world *state.World) {
		g := world.Guests[400]
		theirs = putDisk(world, g, "scsi1")
		g.Config["scsi1"] = theirs + ",size=50G"
		g.Config["net1"] = "virtio=BC:24:11:99:99:99,bridge=vmbr0"
	})
	taking := strings.Replace(before, "scsi0 = {", "scsi1 = { storage = \"local-zfs\", size = \"2G\" }, scsi0 = {", 1) +
		"networks = { net1 = { bridge = \"vmbr0\", mtu = 1400 } }\n"
	w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(taking))
	rig.MustSay(t, s.Run(t.Context()), "cannot be shrunk")
	w.Reconfigure(t, s, rig.RootTicket, rig.VMBlock(before))
	rig.Must(t, s.Converge(t.Context()))
	if is := rig.GuestOf(w, 400).Config; !strings.HasPrefix(is["scsi1"], theirs) || is["net1"] == "" {
		t.Errorf("the VM is %v", is)
	}
}
