package destroy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDestroyTakesDetachedDisksAndNoneOfARescan: a disk that left the configuration goes with the VM, and so does one that an
// administrator has detached. A volume of an earlier VM of the id, which `qm rescan` has made an unused disk of this one, stays,
// although a refresh has shown it in unused_volumes.
func TestDestroyTakesDetachedDisksAndNoneOfARescan(t *testing.T) {
	t.Parallel()
	const theirs = "local-lvm:vm-400-disk-77"
	const body = "vmid = 400\nnode = \"pve1\"\n"
	w, s := rig.Applied(t, rig.TokenNoSSH, rig.VMBlock(body+`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, `+
		`scsi1 = { storage = "local-zfs", size = "2G" }, scsi2 = { storage = "local-zfs", size = "3G" } }`))
	w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(body+`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, `+
		`scsi2 = { storage = "local-zfs", size = "3G" } }`))
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		g := world.Guests[400]
		g.Config["unused3"] = strings.Split(g.Config["scsi2"], ",")[0]
		delete(g.Config, "scsi2")
		g.Config["unused7"] = theirs // as update_disk_config of QemuServer.pm does
		world.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-400-disk-77", VMID: 400, Content: "images", Format: "raw",
			Size: 1 << 30, Data: "theirs"})
	})
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said := fmt.Sprint(s.Diagnostics()); !strings.Contains(said, theirs) || strings.Contains(said, "local-zfs") {
		t.Errorf("it says %s", said)
	}
	left := []string{}
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.VMID == 400 {
				left = append(left, v.Volid())
			}
		}
	})
	if len(left) != 1 || left[0] != theirs {
		t.Errorf("left: %v", left)
	}
}

// TestDestroyOfAVMThatCannotBeSeen: the node leaves the network before a request of a destroy. By the time that it is back, the VM may
// be another one, or a rescan may have attached another party's volumes to it: no command that would destroy it is printed.
func TestDestroyOfAVMThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	unseen := 0
	for n := 1; n <= 40; n += 3 {
		w, s := rig.Applied(t, rig.TokenNoSSH, rig.VMBlock("vmid = 400\nnode = \"pve1\"\n"+
			`disks = { scsi0 = { storage = "local-zfs", size = "1G" } }`))
		w.Sim.ResetOps()
		w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Seq: n}, Phase: fault.Offline}})
		said := fmt.Sprint(s.Destroy(t.Context()), s.Diagnostics())
		if !strings.Contains(said, "could not be looked at") {
			continue
		}
		unseen++
		if strings.Contains(said, "qm destroy 400") {
			t.Errorf("before request %d: %s", n, said)
		}
	}
	if unseen == 0 {
		t.Error("the VM was seen each time")
	}
}
