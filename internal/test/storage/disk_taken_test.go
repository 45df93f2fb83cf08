package storage_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const (
	today = "of the database, today"
	taken = "shared-nfs:400/vm-400-disk-0.qcow2"
)

// takes has an administrator move the disk of VM 300 to another storage within VM 400, which writes to it from then on.
func takes(t *testing.T, d *rig.DataDisk, del string) {
	t.Helper()
	rig.RunTask(t, d.World, "/nodes/pve1/qemu/400/move_disk", "disk=scsi1&storage=shared-nfs&format=qcow2&delete="+del)
	d.World.Change(func(world *state.World) {
		file, _, _ := strings.Cut(world.Guests[400].Config["scsi1"], ",")
		if file != taken {
			t.Fatalf("VM 400 has %s", file)
		}
		world.Volume("pve1", file).Data = today
	})
}

// holdsData is the volume that has the data of today, with the guest and the slot that name it; "": they are gone.
func holdsData(w *rig.World) (volume, where string) {
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.Data == today {
				volume = v.Volid()
			}
		}
		for id, guest := range world.Guests {
			for option, value := range guest.Config {
				if file, _, _ := strings.Cut(value, ","); file == volume && volume != "" {
					where += map[int]string{300: "holder ", 400: "VM "}[id] + option
				}
			}
		}
	})
	return volume, where
}

// TestDataTakenByAVM: the data of a proxmox_disk that were moved within the VM that has it carry the id of that VM. They
// are neither destroyed with it nor exchanged for the old copy, whether the plan or only the apply finds them so.
func TestDataTakenByAVM(t *testing.T) {
	t.Parallel()
	disk, vm := rig.DiskBlock(rig.SmallDisk), rig.DiskAttached("a", 400, rig.DiskVolume)
	for name, c := range map[string]struct {
		hcl     string
		options []terraformtest.PlanOption
		tainted bool
		before  string // the configuration that is applied first
	}{
		"destroyed":         {hcl: disk},
		"replaced":          {hcl: disk + vm, options: []terraformtest.PlanOption{terraformtest.Replacing("proxmox_vm.a")}},
		"tainted":           {hcl: disk + vm, tainted: true},
		"of another id":     {hcl: disk + strings.Replace(vm, "vmid = 400", "vmid = 401", 1)},
		"kept and replaced": {hcl: disk + keeping(`vmid = 401`)},
		"removed with its slot": {before: disk + rig.DiskAttached("a", 400, rig.DiskVolume, `removed_disks = "destroy"`),
			hcl: disk + rig.DiskReleased("a", 400, `removed_disks = "destroy"`)},
	} {
		for _, del := range []string{"0", "1"} {
			for _, late := range []bool{false, true} {
				t.Run(name+", delete="+del+map[bool]string{true: ", since the plan"}[late], func(t *testing.T) {
					t.Parallel()
					before := c.before
					if before == "" {
						before = disk + vm
					}
					d := newDataDisk(t, before)
					if !late {
						takes(t, d, del)
						rig.Must(t, d.Session.Refresh(t.Context())) // a destroy is planned by the state
					}
					d.Configure(c.hcl)
					if c.tainted {
						d.Session.Taint("proxmox_vm.a", true)
					}
					planned, err := d.Session.Plan(t.Context(), c.options...)
					if late {
						rig.Must(t, err)
						takes(t, d, del)
					} else if err == nil && !c.tainted { // the plan of a tainted VM knows no state
						t.Errorf("the plan refuses nothing")
					}
					if err == nil {
						err = d.Session.Apply(t.Context(), planned)
					}
					if !(late && c.before != "") { // the slot is emptied, and the disk stays
						rig.MustRefuse(t, err, []string{"scsi1 of VM 400 has the data of a disk that VM 300 holds",
							"local-zfs:vm-300-disk-0", taken, "`qm disk move 400 unusedN --target-vmid 300`", "`qm set 300 --scsi0 VOLUME,backup=0`"})
					}
					if volume, where := holdsData(d.World); where != "VM scsi1" && !(late && c.before != "" && strings.HasPrefix(where, "VM unused")) {
						t.Errorf("the data are in %q of %q", volume, where)
					}
				})
			}
		}
	}
}

// keeping is VM 400 which keeps the data of the disk that it had as a disk of its own.
func keeping(vmid string) string {
	own := strings.Replace(rig.DiskReleased("a", 400), "disks = { ", `disks = { scsi1 = { storage = "shared-nfs", size = "1G" }, `, 1)
	return strings.Replace(own, "vmid = 400", vmid, 1)
}

// TestTakenDataAreNotExchanged: an apply of the unchanged configuration, or of any other that names another volume,
// leaves the slot as it is.
func TestTakenDataAreNotExchanged(t *testing.T) {
	t.Parallel()
	disk := rig.DiskBlock(rig.SmallDisk)
	for name, hcl := range map[string]string{
		"unchanged": rig.DiskAttached("a", 400, rig.DiskVolume),
		"changed":   rig.DiskAttached("a", 400, rig.DiskVolume, `description = "new"`),
		"by name":   rig.DiskAttached("a", 400, volumeOf300),
	} {
		for _, del := range []string{"0", "1"} {
			t.Run(name+", delete="+del, func(t *testing.T) {
				t.Parallel()
				d := newDataDisk(t, disk+rig.DiskAttached("a", 400, rig.DiskVolume))
				takes(t, d, del)
				d.Configure(disk + hcl)
				rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"neither is put in the place of the other", taken})
				if volume, where := holdsData(d.World); where != "VM scsi1" {
					t.Errorf("the data are in %q of %q", volume, where)
				}
			})
		}
	}
}

// TestTakenDataOutliveAnOldPlan: nor does the apply of a plan that knows nothing of the move.
func TestTakenDataOutliveAnOldPlan(t *testing.T) {
	t.Parallel()
	disk, vm := rig.DiskBlock(rig.SmallDisk), rig.DiskAttached("a", 400, rig.DiskVolume)
	for name, next := range map[string]string{
		"of the VM":    disk + rig.DiskAttached("a", 400, rig.DiskVolume, `description = "new"`),
		"of the slot":  disk + strings.Replace(vm, "scsi1 = {", `scsi1 = { serial = "data",`, 1),
		"of the disk":  rig.DiskBlock(`storage = "local-zfs"`, `size = "1G"`, `description = "new"`) + vm,
		"of its size":  rig.DiskBlock(`storage = "local-zfs"`, `size = "2G"`) + vm,
		"of its place": rig.DiskBlock(`storage = "local2"`, `size = "1G"`) + rig.DiskReleased("a", 400),
	} {
		for _, del := range []string{"0", "1"} {
			t.Run(name+", delete="+del, func(t *testing.T) {
				t.Parallel()
				d := newDataDisk(t, disk+vm)
				d.Configure(next)
				planned, err := d.Session.Plan(t.Context())
				if name == "of its place" { // while a VM has it, no plan moves it
					rig.MustRefuse(t, err, []string{"The disk of VM 300 is in use", "VM 400"})
					return
				}
				rig.Must(t, err)
				takes(t, d, del)
				_ = d.Session.Apply(t.Context(), planned) // refused or not
				if volume, where := holdsData(d.World); volume != taken || where != "VM scsi1" {
					t.Errorf("the data are in %q of %q", volume, where)
				}
			})
		}
	}
}

// TestTakenDataFindTheirWay: each way out of the error ends with a configuration that converges.
func TestTakenDataFindTheirWay(t *testing.T) {
	t.Parallel()
	disk, vm := rig.DiskBlock(rig.SmallDisk), rig.DiskAttached("a", 400, rig.DiskVolume)
	moved := rig.DiskBlock(`storage = "shared-nfs"`, `size = "1G"`)
	for _, del := range []string{"0", "1"} {
		for name, next := range map[string]string{"back, and followed": moved + vm, "back, and moved back": disk + vm,
			"kept": disk + keeping("vmid = 400")} {
			t.Run(name+", delete="+del, func(t *testing.T) {
				t.Parallel()
				d := newDataDisk(t, disk+vm)
				takes(t, d, del)
				drop := map[string]string{"0": "`qm set 400 --delete unused0`"}[del]
				rig.MustRefuse(t, d.Session.Run(t.Context()), []string{drop})
				d.Configure(next)
				if name != "kept" {
					giveBack(t, d, del)
					d.Converge()
					if volume, _ := holdsData(d.World); volume != d.Attr("volume") ||
						!strings.HasPrefix(rig.GuestOf(d.World, 400).Config["scsi1"], volume+",") {
						t.Errorf("the data are in %s, VM 300 %v, VM 400 %v", volume, rig.GuestOf(d.World, 300), rig.GuestOf(d.World, 400))
					}
					d.To(strings.Split(next, "resource \"proxmox_vm\"")[0]) // the VM goes, and the disk stays
					if _, where := holdsData(d.World); where != "holder scsi0" {
						t.Errorf("the data are in %q", where)
					}
					return
				}
				d.Converge()
				if _, where := holdsData(d.World); where != "VM scsi1" {
					t.Errorf("the data are in %q", where)
				}
				d.To(disk)
				if volume, _ := holdsData(d.World); volume != "" {
					t.Errorf("%s is left of the VM", volume)
				}
			})
		}
	}
}

// giveBack does with VM 400 as the error says.
func giveBack(t *testing.T, d *rig.DataDisk, del string) {
	t.Helper()
	d.World.ExpectPowerOffs(state.PowerStop)
	rig.RunTask(t, d.World, "/nodes/pve1/qemu/400/status/stop", "")
	rig.RunTask(t, d.World, "/nodes/pve1/qemu/400/config", "delete=scsi1")
	entry := "unused0"
	if del == "0" {
		entry = "unused1"
	}
	rig.RunTask(t, d.World, "/nodes/pve1/qemu/400/move_disk", "disk="+entry+"&target-vmid=300")
	volume, _, _ := strings.Cut(rig.GuestOf(d.World, 300).Config[entry], ",")
	rig.RunTask(t, d.World, "/nodes/pve1/qemu/300/config", "scsi0="+volume+"%2Cbackup%3D0")
	if del == "0" {
		rig.RunTask(t, d.World, "/nodes/pve1/qemu/400/config", "delete=unused0")
	}
}

// TestDetachedTakenData: detached, the data stay when the VM is destroyed: it lets go of them.
func TestDetachedTakenData(t *testing.T) {
	t.Parallel()
	disk, vm := rig.DiskBlock(rig.SmallDisk), rig.DiskAttached("a", 400, rig.DiskVolume)
	for _, seen := range []bool{false, true} {
		for _, del := range []string{"0", "1"} {
			d := newDataDisk(t, disk+vm)
			takes(t, d, del)
			if seen {
				rig.Must(t, d.Session.Refresh(t.Context()))
			}
			rig.RunTask(t, d.World, "/nodes/pve1/qemu/400/config", "delete=scsi1")
			rig.Must(t, d.Session.Refresh(t.Context()))
			d.To(disk)
			if volume, _ := holdsData(d.World); volume != taken {
				t.Errorf("delete=%s, seen before: %t: the data are in %q", del, seen, volume)
			}
		}
	}
}

// TestExchangedDiskIsTheVMs: a disk of the VM's own that a failed apply has put into the place of another VM's is not
// taken for that one's data.
func TestExchangedDiskIsTheVMs(t *testing.T) {
	t.Parallel()
	disk, vm := rig.DiskBlock(rig.SmallDisk), rig.DiskAttached("a", 400, rig.DiskVolume)
	spare := strings.Replace(rig.DiskReleased("a", 400), "disks = { ", `disks = { scsi2 = { storage = "local-zfs", size = "1G" }, `, 1)
	d := newDataDisk(t, disk+spare)
	d.To(disk + vm)
	d.Configure(disk + rig.DiskAttached("a", 400, `"local-zfs:vm-400-disk-1"`, `pool = "web"`))
	d.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/pools"}, Times: -1, Phase: fault.Before, Status: 403}})
	rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"Failed step: change the pool of VM 400"})
	d.World.Sim.SetFaults(nil)
	d.To(disk)
	d.Survives()
}

// TestKilledExchangeWithADiskOfItsOwn: an apply is killed after it has exchanged the disk of another VM with one of the VM's own. The disk that
// is in the first slot now is not taken for that one's data: that one is in the other slot.
func TestKilledExchangeWithADiskOfItsOwn(t *testing.T) {
	t.Parallel()
	disk := rig.DiskBlock(rig.SmallDisk)
	vm := func(one, two string) string {
		return disk + strings.Replace(rig.DiskReleased("a", 400), "disks = { ", "disks = { scsi1 = { "+one+" }, scsi2 = { "+two+" }, ", 1)
	}
	const held, own = "imported_disk = { volume = proxmox_disk.data.volume }", `storage = "local-zfs", size = "1G"`
	d := newDataDisk(t, vm(held, own))
	var volume string
	d.World.Change(func(world *state.World) { volume, _, _ = strings.Cut(world.Guests[400].Config["scsi2"], ",") })
	d.Configure(vm(own+`, imported_disk = { volume = "`+volume+`" }`, held))
	before := d.Session.SaveState()
	rig.Must(t, d.Session.Run(t.Context()))
	d.Session.RestoreState(before) // the apply has sent all, and was killed before its answer
	d.Converge()
	d.World.Change(func(world *state.World) {
		if config := world.Guests[400].Config; !strings.HasPrefix(config["scsi1"], volume) || !strings.Contains(config["scsi2"], "vm-300-") {
			t.Errorf("scsi1 is %s, scsi2 %s", config["scsi1"], config["scsi2"])
		}
	})
	d.To(disk)
	d.Survives()
}

// TestDiskOfACopyIsTheVMs: neither is a disk that a clone has brought, where its create fails before it attaches the
// other one.
func TestDiskOfACopyIsTheVMs(t *testing.T) {
	t.Parallel()
	disk := rig.DiskBlock(rig.SmallDisk)
	for _, untainted := range []bool{false, true} {
		d := newDataDisk(t, disk)
		d.World.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
		d.Configure(disk + `resource "proxmox_vm" "a" {
  node = "pve1"
  vmid = 400
  name = "a"
  clone = { vmid = 9000, full = true }
  protection = false
  on_failure = "keep"
  disks = { scsi0 = { imported_disk = { volume = proxmox_disk.data.volume } } }
}
`)
		const config = "/nodes/{node}/qemu/{vmid}/config"
		d.World.Sim.SetFaults([]fault.Rule{
			{Match: fault.Match{Path: config, Method: http.MethodPut}, Times: -1, Phase: fault.Before, Status: 403},
			{Match: fault.Match{Path: config, Method: http.MethodPost}, Times: -1, Phase: fault.Before, Status: 403}})
		rig.MustRefuse(t, d.Session.Run(t.Context()), nil)
		d.World.Sim.SetFaults(nil)
		if untainted {
			d.Session.Taint("proxmox_vm.a", false)
			d.Converge()
		}
		d.To(disk)
		d.Survives()
	}
}

// TestDiskThatWaitsIsTheVMs: neither is a disk of the VM's own that waits for its next stop to leave its slot for that of
// another VM.
func TestDiskThatWaitsIsTheVMs(t *testing.T) {
	t.Parallel()
	more := []string{`hotplug = []`, `reboot_policy = "never"`}
	disk := rig.DiskBlock(rig.SmallDisk)
	own := strings.Replace(rig.DiskReleased("a", 400, more...), "disks = { ", `disks = { scsi1 = { storage = "local-zfs", size = "1G" }, `, 1)
	d := newDataDisk(t, disk+own)
	d.To(disk + rig.DiskAttached("a", 400, rig.DiskVolume, more...))
	if g := rig.GuestOf(d.World, 400); !strings.HasPrefix(g.Config["scsi1"], "local-zfs:vm-400-disk-1,") {
		t.Fatalf("VM 400 has %s", g.Config["scsi1"])
	}
	d.To(disk)
	d.Survives()
}
