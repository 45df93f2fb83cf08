package storage_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const (
	inUse = "of the running VM"
	from  = "local-zfs:vm-300-disk-0"
)

// astray are the ways in which an administrator moves a disk from under VM 400, which runs and keeps what it has.
func astray() map[string]func(*testing.T, *rig.DataDisk) {
	move := func(params string) func(*testing.T, *rig.DataDisk) {
		return func(t *testing.T, d *rig.DataDisk) {
			rig.RunTask(t, d.World, "/nodes/pve1/qemu/300/move_disk", "disk=scsi0&storage=local2&format=qcow2&"+params)
			d.World.Change(func(world *state.World) {
				for _, v := range world.Volumes {
					if v.Volid() == from {
						v.Data = inUse
					}
				}
			})
		}
	}
	return map[string]func(*testing.T, *rig.DataDisk){
		"bulk migration of the node": func(t *testing.T, d *rig.DataDisk) {
			migrateHolder(t, d, "pve1", "pve2")
			d.World.Change(func(world *state.World) { // which could not be freed
				for i, v := range world.Volumes {
					if v.Volid() == from && v.Node == "pve1" {
						delete(world.Volumes, i)
					}
				}
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-0", Content: "images", VMID: 300,
					Format: "raw", Size: 1 << 30, Data: inUse})
			})
		},
		"moved, the source kept": move("delete=0"),
		"moved, the source busy": move("delete=1"),
	}
}

func migrateHolder(t *testing.T, d *rig.DataDisk, from, to string) {
	t.Helper()
	api := rig.APIClient(t, d.World)
	upid, err := api.QEMU(from, 300).Migrate(t.Context(), map[string]string{"target": to})
	rig.Must(t, err)
	_, _ = api.Tasks().Wait(t.Context(), upid) // "migration problems" where the source cannot be freed
}

// TestDiskMovedFromUnderAVM: a disk that an administrator moves while a VM runs on it is not followed: the copy comes
// into no VM and is not destroyed as if it were the disk, whatever the configuration says now.
func TestDiskMovedFromUnderAVM(t *testing.T) {
	t.Parallel()
	for name, move := range astray() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, vm := rig.DiskBlock(rig.SmallDisk), rig.DiskAttached("a", 400, rig.DiskVolume)
			d := newDataDisk(t, disk+vm)
			move(t, d)
			rig.Must(t, d.Session.Refresh(t.Context()))
			rig.Must(t, d.Session.Refresh(t.Context())) // the state has the new place now
			literal := rig.DiskAttached("a", 400, volumeOf300)
			followed := strings.NewReplacer(`"local-zfs"`, `"`+d.Attr("storage")+`"`, `"pve1"`, `"`+d.Attr("node")+`"`).Replace(disk)
			for _, hcl := range []string{disk + vm, followed + vm, disk + vm + "# again", literal} {
				d.Configure(hcl)
				rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"VM 300 does not hold the disk that is in use", "VM 400 (a)",
					"`qm set 300 --scsi0 local-zfs:vm-300-disk-0,backup=0` on node pve1"})
				has := rig.GuestOf(d.World, 400)
				if has.Config["scsi1"] != from+",size=1G" || has.Running == nil || len(rig.GuestOf(d.World, 300).Config) == 0 {
					t.Errorf("VM 400 has %s, VM 300 %v", has.Config["scsi1"], rig.GuestOf(d.World, 300))
				}
			}
		})
	}
}

// TestDiskComesBackToItsVM: both ways out of that end with a configuration that converges: the holder gets the disk of
// the VM back, or the VM lets go of it and gets the copy.
func TestDiskComesBackToItsVM(t *testing.T) {
	t.Parallel()
	for name, move := range astray() {
		for _, keep := range []string{inUse, "of the database"} {
			t.Run(name+", keep what is "+keep, func(t *testing.T) {
				t.Parallel()
				disk, vm := rig.DiskBlock(rig.SmallDisk), rig.DiskAttached("a", 400, rig.DiskVolume)
				d := newDataDisk(t, disk+vm)
				move(t, d)
				rig.Must(t, d.Session.Refresh(t.Context()))
				if keep == inUse {
					if node := rig.GuestOf(d.World, 300).Node; node != "pve1" {
						migrateHolder(t, d, node, "pve1")
					}
					rig.RunTask(t, d.World, "/nodes/pve1/qemu/300/config", "scsi0="+from+"%2Cbackup%3D0")
				} else {
					rig.RunTask(t, d.World, "/nodes/pve1/qemu/400/config", "delete=scsi1")
				}
				d.Converge()
				has, _, _ := strings.Cut(rig.GuestOf(d.World, 400).Config["scsi1"], ",")
				d.World.Change(func(world *state.World) {
					for _, v := range world.Volumes {
						if v.Volid() == has && v.Node == "pve1" && v.Data != keep {
							t.Errorf("VM 400 has %s %s", v.Volid(), v.Data)
						}
					}
				})
				if has != d.Attr("volume") {
					t.Errorf("VM 400 has %s, and the disk is %s", has, d.Attr("volume"))
				}
			})
		}
	}
}

// TestDiskMovedWhileFree: a disk that no guest has is followed, or moved back, without a word.
func TestDiskMovedWhileFree(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"local-zfs", "shared-nfs"} {
		d := newDataDisk(t, rig.DiskBlock(`storage = "`+storage+`"`, `size = "1G"`)+rig.DiskReleased("a", 400))
		migrateHolder(t, d, "pve1", "pve2")
		d.Converge()
		d.Survives()
		if node := rig.GuestOf(d.World, 300).Node; node != "pve1" {
			t.Errorf("VM 300 is on %s", node)
		}
	}
}

// TestVMKeepsTheDiskThatItHas: a VM whose disk is in another state is not given another disk of its holder.
func TestVMKeepsTheDiskThatItHas(t *testing.T) {
	t.Parallel()
	vm := func(volume string) string { return rig.DiskAttached("a", 400, `"`+volume+`"`) }
	d := newDataDisk(t, rig.DiskBlock(rig.SmallDisk))
	other := d.World.Session(t, rig.TokenNoSSH, vm(from))
	rig.Must(t, other.Converge(t.Context()))
	astray()["moved, the source busy"](t, d)
	const copied = "local2:300/vm-300-disk-0.qcow2"
	d.World.Reconfigure(t, other, rig.TokenNoSSH, vm(copied))
	rig.MustRefuse(t, other.Run(t.Context()), []string{copied + " may be an old copy", "not exchanged"})
	if has := rig.GuestOf(d.World, 400).Config["scsi1"]; has != from+",size=1G" {
		t.Errorf("VM 400 has %s", has)
	}
	d.World.Reconfigure(t, other, rig.TokenNoSSH, rig.DiskReleased("a", 400))
	rig.Must(t, other.Converge(t.Context()))
	d.World.Reconfigure(t, other, rig.TokenNoSSH, vm(copied))
	rig.Must(t, other.Converge(t.Context()))
	if has := rig.GuestOf(d.World, 400).Config["scsi1"]; !strings.HasPrefix(has, copied) {
		t.Errorf("VM 400 has %s", has)
	}
}

// TestDestroyOfADiskAstray: the disk is not destroyed either where no refresh has seen it move: it was imported later, or
// moved after the plan.
func TestDestroyOfADiskAstray(t *testing.T) {
	t.Parallel()
	for name, move := range astray() {
		for _, when := range []string{"before an import", "after the plan"} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				disk := rig.DiskBlock(rig.SmallDisk)
				d := newDataDisk(t, disk+rig.DiskAttached("a", 400, rig.DiskVolume))
				d.Session.Forget("proxmox_vm.a")
				says := []string{"VM 300 does not hold the disk that is in use", "VM 400 (a)", "`qm set 300 --scsi0 " + from}
				if when == "before an import" {
					d.Session.Forget(rig.DiskAddress)
					move(t, d)
					rig.Must(t, d.Session.Import(t.Context(), rig.DiskAddress, "300"))
					d.Configure(disk)
					rig.MustRefuse(t, d.Session.Run(t.Context()), says)
					d.Configure("")
					rig.MustRefuse(t, d.Session.Run(t.Context()), says)
				} else {
					d.Configure("")
					plan, err := d.Session.Plan(t.Context())
					rig.Must(t, err)
					move(t, d)
					if err := d.Session.Apply(t.Context(), plan); err == nil || name == "bulk migration of the node" {
						rig.MustRefuse(t, err, says)
					}
				}
				if holder := rig.GuestOf(d.World, 300); len(holder.Config) == 0 || holder.Config["protection"] != "1" {
					t.Errorf("VM 300 is %v", holder)
				}
				if !slices.Contains(slices.Collect(maps.Values(dataOf300(d.World))), inUse) {
					t.Errorf("the disks are %v", dataOf300(d.World))
				}
			})
		}
	}
}
