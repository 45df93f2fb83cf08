package update

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// mountTwice gives the export of a storage a second id.
func mountTwice(all *state.World) {
	twin := *all.Storages["shared-nfs"]
	all.Storages["shared-nfs"].Export, twin.Export = "/srv/vms", "/srv/vms"
	twin.ID, twin.Same, twin.Path = "nfs-new", "shared-nfs", "/mnt/pve/nfs-new"
	all.Storages[twin.ID] = &twin
}

// TestOwnDiskUnderAnotherName: a VM gets no volume that it has under another name, wherever it has that, whichever id it
// carries, and no volume twice. The update refuses it before it changes anything.
func TestOwnDiskUnderAnotherName(t *testing.T) {
	const own, held = "400/vm-400-disk-7.raw", "300/vm-300-disk-0.raw"
	for name, c := range map[string]struct {
		name           string
		config, waits  map[string]string
		running, plans bool
	}{
		"in a slot":         {name: own, config: map[string]string{"scsi1": "shared-nfs:" + own + ",size=1G"}},
		"by its path":       {name: own, config: map[string]string{"scsi1": "/mnt/pve/shared-nfs/images/" + own}},
		"detached":          {name: own, config: map[string]string{"unused0": "shared-nfs:" + own}},
		"to come":           {name: own, waits: map[string]string{"sata1": "shared-nfs:" + own + ",size=1G"}, running: true},
		"to come into scsi": {name: own, config: map[string]string{"sata1": "local-zfs:vm-400-disk-0"}, waits: map[string]string{"sata1": "shared-nfs:" + own + ",size=1G"}, running: true},
		"for another slot":  {name: own, plans: true},
		"held by another":   {name: held, config: map[string]string{"scsi1": "shared-nfs:" + held + ",size=1G"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			inWorld(w, mountTwice)
			w.task(w.api.Node("pve1").CreateVM(t.Context(), pve.Params{"vmid": "300", vm.HolderSlot: "shared-nfs:1",
				"description": vm.HolderDescription(""), "protection": "1"}))
			if c.running {
				w.start()
			}
			inWorld(w, func(all *state.World) {
				all.Put(&state.Volume{Storage: "shared-nfs", Name: own, Content: "images", VMID: theVM, Format: "raw", Size: 1 << 30})
				for option, value := range c.config {
					all.Guests[theVM].Config[option] = value
				}
				all.Guests[theVM].Pending = c.waits
			})
			r := w.request()
			r.Planned.Disks = map[string]vm.Disk{"scsi3": {Volume: "nfs-new:" + c.name}}
			for slot, disk := range r.Prior.Disks {
				r.Planned.Disks[slot] = disk
			}
			if c.plans {
				r.Planned.Disks["scsi2"] = vm.Disk{Volume: "shared-nfs:" + own}
			}
			_, _, err := w.update(r)
			if err == nil || !strings.Contains(err.Error(), "nfs-new:"+c.name+" cannot be attached") ||
				!strings.Contains(err.Error(), c.name+", which VM 400 has") {
				t.Error(err)
			}
			if sent := w.writes(); len(sent) > 0 {
				t.Errorf("%v", sent)
			}
		})
	}
}

// TestOwnDiskThatIsAttachedOnceMore: a disk is detached to be destroyed, and a third party attaches it to the same VM
// under another name, before that or when it has failed. It is neither destroyed nor put into a second slot.
func TestOwnDiskThatIsAttachedOnceMore(t *testing.T) {
	for _, fails := range []bool{false, true} {
		w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "shared-nfs:2"})
		inWorld(w, mountTwice)
		r := w.request()
		volume := r.Prior.Disks["scsi1"].Volume
		delete(r.Planned.Disks, "scsi1")
		r.DestroyRemoved = true
		if fails {
			w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/config"},
				Phase: fault.Before, Status: 500, Reason: "dataset is busy"}})
		}
		came := false
		w.answered = func() {
			detached := false
			inWorld(w, func(all *state.World) { detached = unusedEntry(all.Guests[theVM].Config, volume) != "" })
			if came || !detached || fails && w.sim.FaultsFired() == 0 {
				return
			}
			came = true
			w.must(w.api.QEMU("pve1", theVM).UpdateConfig(t.Context(),
				pve.Params{"scsi5": strings.Replace(volume, "shared-nfs", "nfs-new", 1)}))
		}
		_, _, err := w.update(r)
		for _, want := range []string{"It stays detached, as unused0", "VM 400 itself has volume " + volume + " in scsi5, as nfs-new:",
			"take the line unused0 out of /etc/pve/qemu-server/400.conf"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q, he came: %t; %v", want, came, err)
			}
		}
		if config := w.config(); guest.VolumeOf(config["scsi1"]) == volume || unusedEntry(config, volume) == "" {
			t.Errorf("the disk is in its slot again: %v", config)
		}
		inWorld(w, func(all *state.World) {
			if all.Volume("pve1", volume) == nil {
				t.Error("the disk in scsi5 was destroyed")
			}
		})
	}
}

// TestDiskOfTwoNames: the VM has a disk under another name, too, as after `qm disk rescan` where an export has two
// storages. A move takes the disk along whose other name is detached: no guest reads or writes that. Otherwise the error
// says which line is to go by hand, and that is not the slot that stays.
func TestDiskOfTwoNames(t *testing.T) {
	for name, c := range map[string]struct {
		other string // the option with the other name, or "pending" or "snapshot" and which
		plan  func(*Request)
		says  string // "": it is done
	}{
		"moved, detached": {"unused0", toLVM, ""},
		"moved, in a slot": {"scsi4", toLVM, "in scsi4, as nfs-new:400/vm-400-disk-0.raw. Stop the VM, and take the line of " +
			"the slot that is not wanted out of /etc/pve/qemu-server/400.conf"},
		"moved, pending": {"pending sata4", toLVM, "VM 400 itself has volume shared-nfs:400/vm-400-disk-0.raw in sata4"},
		"moved, in a snapshot": {"snapshot before", toLVM, "snapshot before of VM 400 needs its volume, as " +
			"nfs-new:400/vm-400-disk-0.raw. Remove the snapshot"},
		"removed, detached":  {"unused0", destroySCSI1, "take the line unused0 out of /etc/pve/qemu-server/400.conf"},
		"removed, in a slot": {"scsi4", destroySCSI1, "take the line scsi1 out of /etc/pve/qemu-server/400.conf"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "shared-nfs:1", "scsihw": "virtio-scsi-pci"})
			inWorld(w, mountTwice)
			w.alter(func(g *state.Guest) {
				const name = "nfs-new:400/vm-400-disk-0.raw"
				switch kind, of, _ := strings.Cut(c.other, " "); kind {
				case "pending":
					g.Pending = map[string]string{of: name}
					g.Running = &state.Running{QMPStatus: "running", PID: 99, Booted: maps.Clone(g.Config)}
				case "snapshot":
					g.Snaps = map[string]map[string]string{of: {"snaptime": "1767225600", "scsi1": name}}
					g.Config["parent"] = of
				default:
					g.Config[kind] = name
				}
			})
			r := w.request()
			c.plan(&r)
			_, warnings, err := w.update(r)
			config := w.config()
			switch moved := guest.VolumeOf(config["scsi1"]) == "local-lvm:vm-400-disk-0"; {
			case c.says == "" && (err != nil || len(warnings) > 0 || !moved):
				t.Errorf("%v, %v: %v", err, warnings, config)
			case c.says != "" && (len(w.writes()) > 0 || !strings.Contains(fmt.Sprint(err)+detailOf(err), c.says)):
				t.Errorf("%v after %v", err, w.writes())
			}
		})
	}
}

func toLVM(r *Request) {
	with(r, "scsi1", func(d *vm.Disk) { d.Storage, d.Volume, d.Format = "local-lvm", "", nil })
}

func destroySCSI1(r *Request) {
	r.DestroyRemoved = true
	delete(r.Planned.Disks, "scsi1")
}
