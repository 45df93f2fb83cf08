package destroy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const recoveredVM = `resource "proxmox_vm" "a" {
  vmid        = 400
  power_state = "stopped"
  %s
  disks       = { scsi0 = { storage = "local-zfs", size = "1G" } }
}
`

const onAny = `nodes = ["pve1", "pve2"]`

// recovered makes a VM with a local disk and has HA recover it from its fenced node: its configuration alone moves.
// theirs is the size in GiB of another's volume of its name on the other node; 0: none.
func recovered(t *testing.T, id rig.Identity, theirs int64, node string) (*rig.World, *terraformtest.Session) {
	t.Helper()
	w := rig.NewWorld(t)
	s := w.Session(t, id, fmt.Sprintf(recoveredVM, node))
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) {
		world.Guests[400].Node = "pve2"
		world.HA["vm:400"] = &state.HAResource{SID: "vm:400", State: "ignored"}
		if theirs > 0 {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve2", Name: "vm-400-disk-0", VMID: 400, Content: "images",
				Format: "raw", Size: theirs << 30, Data: "theirs"})
		}
	})
	return w, s
}

// disksOn tells the nodes of the volumes of the name, those of others apart.
func disksOn(w *rig.World) (own, theirs string) {
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			switch {
			case v.VMID != 400:
			case v.Data == "theirs":
				theirs += v.Node
			default:
				own += v.Node
			}
		}
	})
	return own, theirs
}

// TestRecoveryByHASparesDisksOfOthers: the refresh after the recovery warns once, and no destroy takes another's volume, whatever
// its size, and whether the former node is back or not. Where the VM is brought back all is as before.
func TestRecoveryByHASparesDisksOfOthers(t *testing.T) {
	t.Parallel()
	for _, theirs := range []int64{1, 5} {
		for _, off := range []bool{false, true} {
			for _, refreshed := range []bool{false, true} {
				w, s := recovered(t, rig.RootTicket, theirs, onAny)
				w.Change(func(world *state.World) { world.Nodes["pve1"].Online = !off })
				about := fmt.Sprintf("theirs %d GiB, node off %t, refreshed %t", theirs, off, refreshed)
				if refreshed {
					rig.Must(t, s.Refresh(t.Context()))
					mustName(t, about, s.Diagnostics().String(), "local-zfs:vm-400-disk-0", "pve1", "pve2", "pvesm list local-zfs --vmid 400")
					rig.Must(t, s.Refresh(t.Context()))
					if said := s.Diagnostics().String(); strings.Contains(said, "may not have its disks") {
						t.Errorf("%s: warned twice: %s", about, said)
					}
				}
				pl, err := s.Plan(t.Context(), terraformtest.ToDestroy(), terraformtest.WithoutRefresh())
				rig.Must(t, err)
				err = s.Apply(t.Context(), pl)
				if err == nil || len(s.Addresses()) != 1 {
					t.Fatalf("%s: the destroy says %v", about, err)
				}
				mustName(t, about, err.Error(), "local-zfs:vm-400-disk-0", "pve1", "pve2", "pvesm list local-zfs --vmid 400")
				if own, others := disksOn(w); own != "pve1" || others != "pve2" {
					t.Errorf("%s: the VM's disk is on %q, another's on %q", about, own, others)
				}
				w.Change(func(world *state.World) { world.Nodes["pve1"].Online, world.Guests[400].Node = true, "pve1" })
				rig.Must(t, s.Destroy(t.Context()))
				if own, others := disksOn(w); own != "" || others != "pve2" {
					t.Errorf("%s: after the way back the VM's disk is on %q, another's on %q", about, own, others)
				}
			}
		}
	}
}

func mustName(t *testing.T, about, said string, names ...string) {
	t.Helper()
	for _, name := range names {
		if !strings.Contains(said, name) {
			t.Errorf("%s: nothing says %q: %s", about, name, said)
		}
	}
}

// TestRecoveryByHANamesTheDiskLeft: nothing has the disk's name on the other node. The VM goes, and its disk on the former
// node is named, after a refresh too, and where that node is off.
func TestRecoveryByHANamesTheDiskLeft(t *testing.T) {
	t.Parallel()
	for _, off := range []bool{false, true} {
		for _, refreshed := range []bool{false, true} {
			w, s := recovered(t, rig.RootTicket, 0, onAny)
			w.Change(func(world *state.World) { world.Nodes["pve1"].Online = !off })
			if refreshed {
				rig.Must(t, s.Refresh(t.Context()))
			}
			pl, err := s.Plan(t.Context(), terraformtest.ToDestroy(), terraformtest.WithoutRefresh())
			rig.Must(t, err)
			rig.Must(t, s.Apply(t.Context(), pl))
			about := fmt.Sprintf("node off %t, refreshed %t", off, refreshed)
			mustName(t, about, s.Diagnostics().String(), "local-zfs:vm-400-disk-0", "on node pve1")
			if own, _ := disksOn(w); own != "pve1" {
				t.Errorf("%s: the VM's disk is on %q", about, own)
			}
		}
	}
}

// TestRecoveryByHAIsNotMigrated: PVE would take another's volume along, and free it where it was.
func TestRecoveryByHAIsNotMigrated(t *testing.T) {
	t.Parallel()
	w, s := recovered(t, rig.RootTicket, 5, `node = "pve1"`)
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	err = s.Apply(t.Context(), pl)
	if err == nil || !strings.Contains(err.Error(), "may have disks of others") {
		t.Errorf("the apply says %v", err)
	}
	if own, others := disksOn(w); own != "pve1" || others != "pve2" {
		t.Errorf("the VM's disk is on %q, another's on %q", own, others)
	}
}

// TestRecoveryByHAKeepsDisksInTheirPlace: a disk that changes its storage, or that is to be destroyed, may be another's.
func TestRecoveryByHAKeepsDisksInTheirPlace(t *testing.T) {
	t.Parallel()
	for name, disks := range map[string]string{
		"moved":     `disks       = { scsi0 = { storage = "local-lvm", size = "1G" } }`,
		"destroyed": `removed_disks = "destroy"`,
	} {
		w, s := recovered(t, rig.RootTicket, 1, onAny)
		before := fmt.Sprintf(recoveredVM, onAny)
		at := strings.Index(before, "disks       =")
		w.Reconfigure(t, s, rig.RootTicket, before[:at]+disks+"\n}\n")
		err := s.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "may have disks of others") {
			t.Errorf("%s: the apply says %v", name, err)
		}
		if own, others := disksOn(w); own != "pve1" || others != "pve2" {
			t.Errorf("%s: the VM's disk is on %q, another's on %q", name, own, others)
		}
	}
}

// TestMigrationBroughtTheDisksAlong: nothing is said of a VM that was migrated by any user, by an identity that does not see
// the tasks of others. Nor is of a recovered one whose disk a replication job has copied.
func TestMigrationBroughtTheDisksAlong(t *testing.T) {
	t.Parallel()
	for _, id := range []rig.Identity{rig.TokenNoSSH, rig.TokenNoAllocate} {
		for name, move := range map[string]func(w *rig.World){
			"by hand": func(w *rig.World) { rig.MigrateByHand(t, w, 400, "pve2") },
			"by hand, to and fro": func(w *rig.World) {
				for _, to := range []string{"pve2", "pve1", "pve2"} {
					rig.MigrateByHand(t, w, 400, to)
				}
			},
			"by hand, and the node goes off": func(w *rig.World) {
				rig.MigrateByHand(t, w, 400, "pve2")
				w.Change(func(world *state.World) { world.Nodes["pve1"].Online = false })
			},
			"HA, to the node of a replica": func(w *rig.World) {
				w.Change(func(world *state.World) {
					world.Replication["400-0"] = &state.ReplicationJob{ID: "400-0", Guest: 400, Target: "pve2"}
					world.Nodes["pve1"].Online, world.Guests[400].Node = false, "pve2"
					world.Put(&state.Volume{Storage: "local-zfs", Node: "pve2", Name: "vm-400-disk-0", VMID: 400, Content: "images",
						Format: "raw", Size: 1 << 30})
				})
			},
		} {
			w := rig.NewWorld(t)
			s := w.Session(t, id, fmt.Sprintf(recoveredVM, onAny))
			rig.Must(t, s.Converge(t.Context()))
			move(w)
			rig.Must(t, s.Refresh(t.Context()))
			if said := s.Diagnostics().String(); said != "" {
				t.Errorf("%s, %s: the refresh says %s", id, name, said)
			}
			rig.Must(t, s.Destroy(t.Context()))
		}
	}
}

// TestRecoveryByHAIsKeptInMindWithoutHA: the former node stays off, and the VM leaves HA. That proves nothing of the disk: neither
// its removal from the configuration nor a destroy takes another's volume.
func TestRecoveryByHAIsKeptInMindWithoutHA(t *testing.T) {
	t.Parallel()
	for _, destroyed := range []bool{false, true} {
		w, s := recovered(t, rig.RootTicket, 1, onAny)
		w.Change(func(world *state.World) { world.Nodes["pve1"].Online = false })
		rig.Must(t, s.Refresh(t.Context()))
		w.Change(func(world *state.World) { delete(world.HA, "vm:400") })
		rig.Must(t, s.Refresh(t.Context()))
		var err error
		if destroyed {
			err = s.Destroy(t.Context())
		} else {
			w.Reconfigure(t, s, rig.RootTicket, strings.Replace(fmt.Sprintf(recoveredVM, onAny), "disks ", "removed_disks = \"destroy\" #", 1))
			err = s.Run(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), "may have disks of others") {
			t.Errorf("destroyed %t: the apply says %v", destroyed, err)
		}
		if own, others := disksOn(w); own != "pve1" || others != "pve2" {
			t.Errorf("destroyed %t: the VM's disk is on %q, another's on %q", destroyed, own, others)
		}
	}
}

// TestRecoveryByHAIsNotChanged: while a disk may be another's, the guest is not started on it, and it neither grows nor gets
// another slot.
func TestRecoveryByHAIsNotChanged(t *testing.T) {
	t.Parallel()
	base := fmt.Sprintf(recoveredVM, onAny)
	for name, config := range map[string]string{
		"grown":         strings.Replace(base, `"1G"`, `"2G"`, 1),
		"started":       strings.Replace(base, `"stopped"`, `"running"`, 1),
		"started by HA": strings.Replace(base, `power_state = "stopped"`, `ha = { state = "started" }`, 1),
		"template":      strings.Replace(base, "vmid        = 400", "vmid = 400\n template = true", 1),
		"in another slot": strings.Replace(strings.Replace(base, "scsi0", "scsi1", 1), `size = "1G"`,
			`size = "1G", imported_disk = { volume = "local-zfs:vm-400-disk-0" }`, 1),
	} {
		w, s := recovered(t, rig.RootTicket, 1, onAny)
		look := func() (seen string) {
			w.Change(func(world *state.World) {
				volume := world.Volume("pve2", "local-zfs:vm-400-disk-0")
				g := world.Guests[400]
				seen = fmt.Sprint(volume.Size, g.Running != nil, g.Config["scsi0"], g.Config["template"])
			})
			return seen
		}
		before := look()
		w.Reconfigure(t, s, rig.RootTicket, config)
		err := s.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "may have disks of others") || look() != before {
			t.Errorf("%s: %s became %s: %v", name, before, look(), err)
		}
	}
	w, s := recovered(t, rig.RootTicket, 1, onAny)
	w.Reconfigure(t, s, rig.RootTicket, strings.Replace(base, "vmid        = 400", "vmid = 400\n tags = [\"db\"]", 1))
	if err := s.Run(t.Context()); err != nil {
		t.Errorf("tags: %v", err)
	}
}

// TestRecoveryByHAIsNotWorkedWith: other objects that work with the VM's disks are refused by the plan, and nothing is sent. A
// description of a snapshot is none.
func TestRecoveryByHAIsNotWorkedWith(t *testing.T) {
	t.Parallel()
	const snapshot = `resource "proxmox_vm_snapshot" "s" {
  vmid        = proxmox_vm.a.vmid
  name        = "first"
  description = "%s"
}
`
	base := fmt.Sprintf(recoveredVM, onAny)
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, base+fmt.Sprintf(snapshot, "one"))
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) {
		world.Guests[400].Node = "pve2"
		world.HA["vm:400"] = &state.HAResource{SID: "vm:400", State: "ignored"}
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve2", Name: "vm-400-disk-0", VMID: 400, Content: "images",
			Format: "raw", Size: 1 << 30, Data: "theirs"})
	})
	refused := func(name string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "may have disks of others") {
			t.Errorf("%s: %v", name, err)
		}
		w.Change(func(world *state.World) {
			if g := world.Guests[400]; g.Running != nil || len(g.Snaps) != 1 || world.Guests[401] != nil {
				t.Errorf("%s was done", name)
			}
		})
	}
	for name, more := range map[string]string{
		"another snapshot": fmt.Sprintf(snapshot, "one") + strings.NewReplacer(`"s"`, `"t"`, "first", "second").Replace(fmt.Sprintf(snapshot, "two")),
		"one replaced":     strings.Replace(fmt.Sprintf(snapshot, "one"), "first", "third", 1),
		"one removed":      "",
		"a clone":          fmt.Sprintf(snapshot, "one") + "resource \"proxmox_vm\" \"c\" {\n vmid = 401\n clone = { vmid = proxmox_vm.a.vmid }\n}\n",
	} {
		w.Reconfigure(t, s, rig.RootTicket, base+more)
		_, err := s.Plan(t.Context())
		refused(name, err)
	}
	w.Reconfigure(t, s, rig.RootTicket, base+fmt.Sprintf(snapshot, "two"))
	rig.Must(t, s.Run(t.Context()))
}
