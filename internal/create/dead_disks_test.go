package create

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// theirs is a third party's disk, with the id of VM 150.
const theirs = "local-lvm:vm-150-disk-77"

// give puts that disk into a slot of VM 150.
func (b bench) give(slot string, size int64) {
	b.change(func(w *state.World) {
		g := w.Guests[150]
		g.Config[slot] = fmt.Sprintf("%s,size=%dG", theirs, size)
		w.Put(&state.Volume{Storage: "local-lvm", Node: g.Node, Name: "vm-150-disk-77", VMID: 150, Content: "images",
			Format: "raw", Size: size << 30, Data: "theirs"})
	})
}

// left is the uuid of VM 150, "" if it is gone or locked, and whether the third party's disk is there.
func (b bench) left() (uuid string, kept bool) {
	b.change(func(w *state.World) {
		if g := w.Guests[150]; g != nil && g.Config["lock"] == "" {
			uuid = g.Config["smbios1"]
		}
		v := w.Volume("pve1", theirs)
		kept = v != nil && v.Data == "theirs"
	})
	return uuid, kept
}

// hasTheirsOn reports whether a node has a third party's volume of the name of the VM's first disk.
func (b bench) hasTheirsOn(node string) (is bool) {
	b.change(func(w *state.World) {
		v := w.Volume(node, "local-zfs:vm-150-disk-0")
		is = v != nil && v.Data == "theirs"
	})
	return is
}

// eachDeadVM kills a run of a create before each of its requests. It hands on the clusters in which the create's VM is
// left, with its uuid.
func eachDeadVM(t *testing.T, r Request, then func(t *testing.T, b bench, n int, was string)) {
	t.Helper()
	for n, died := 1, true; died; n++ {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			if died = b.kill(t, deadProcess(t, b.Creator), r, n); !died {
				return
			}
			if was, _ := b.left(); was != "" {
				then(t, b, n, was)
			}
		})
	}
}

// startedVM is the request of a VM on ZFS that is started.
func startedVM() Request {
	r := onZFS()
	r.VMID, r.Start, r.Spec.Name = 150, true, to("web")
	return r
}

// TestBystandersLock: a backup or another task of a third party has a dead run's VM. That says nothing of how far the
// create came: the next apply waits for its end, and completes that very VM. With a disk of others it stays.
func TestBystandersLock(t *testing.T) {
	waited := 0
	for lock, by := range map[string]string{"backup": "root@pam", "snapshot": "terraform@pve!prov",
		"migrate": "terraform@pve!prov"} {
		for _, given := range []bool{false, true} {
			eachDeadVM(t, startedVM(), func(t *testing.T, b bench, n int, was string) {
				if given {
					b.give("scsi5", 1)
				}
				b.sim.HoldLock(150, lock, 3*time.Minute, by)
				time.Sleep(startUp)
				waited++
				_, err := creatorOf(t, b.sim, token).Create(t.Context(), startedVM())
				is, kept := b.left()
				if is != was || kept != given || (err != nil) != given || given && !strings.Contains(err.Error(), theirs) {
					t.Errorf("%s, killed before %d, with a disk of others %t: it is the same VM %t, theirs is there %t: %v", lock, n,
						given, is == was, kept, err)
				}
			})
		}
	}
	if waited < 6 {
		t.Errorf("%d VMs were locked", waited)
	}
}

// TestBystandersLockThatStays: the lock has no end in time. The VM stays as it is, and the lock is named.
func TestBystandersLockThatStays(t *testing.T) {
	for _, lock := range []string{"backup", "suspended"} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			b.kill(t, deadProcess(t, b.Creator), startedVM(), 7)
			was, _ := b.left()
			b.sim.StaleLock(150, lock, "")
			time.Sleep(startUp)
			_, err := creatorOf(t, b.sim, token).Create(t.Context(), startedVM())
			b.change(func(w *state.World) { delete(w.Guests[150].Config, "lock") })
			if is, _ := b.left(); was == "" || is != was || err == nil || !strings.Contains(err.Error(), map[string]string{
				"backup": "VM is locked (backup)", "suspended": "it is suspended to disk"}[lock]) {
				t.Errorf("%s: it was %q, and is %q: %v", lock, was, is, err)
			}
		})
	}
}

// TestRollBackThatWasBegun: the roll-back of a run has failed, and the run is over. The next apply ends it and makes the
// VM, but not if a third party has given the VM a disk since, which would go with it.
func TestRollBackThatWasBegun(t *testing.T) {
	for _, slot := range []string{"", "scsi5", "unused0"} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			doomed := creatorOf(t, b.sim, token)
			doomed.guests.Process = deadProcess(t, b.Creator)
			b.sim.SetFaults([]fault.Rule{
				{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Before,
					Status: 500, Reason: "no", Times: -1},
				{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Task, Times: -1}})
			_, err := doomed.Create(t.Context(), startedVM())
			b.sim.SetFaults(nil)
			was, _ := b.left()
			if err == nil || was == "" {
				t.Fatalf("the create has not failed, or left nothing: %v", err)
			}
			if slot != "" {
				b.give(slot, 1)
			}
			time.Sleep(startUp)
			_, err = creatorOf(t, b.sim, token).Create(t.Context(), startedVM())
			is, kept := b.left()
			given := slot != ""
			if is == "" || (is == was) != given || kept != given || (err != nil) != given ||
				given && !strings.Contains(err.Error(), theirs) {
				t.Errorf("%q: the VM is the same %t, theirs is there %t: %v", slot, is == was, kept, err)
			}
		})
	}
}

// TestDiskInASlotToCome: a clone is to get a disk that its source does not have, and a third party has put one there
// since the run died. It is neither moved nor grown, and no failure takes it. Without it the next apply completes the VM.
func TestDiskInASlotToCome(t *testing.T) {
	for _, size := range []int64{0, 1, 8, 10} {
		given, completed := 0, 0
		for n, died := 1, true; died; n++ {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				r := func() Request {
					r := Request{Node: "pve1", VMID: 150, Start: true, Clone: &guest.Clone{VMID: 9000, Full: to(true)}}
					r.Spec.Name, r.Spec.Disks = to("web"), map[string]vm.Disk{"scsi1": {Storage: "local-zfs", Size: to(int64(8 << 30))}}
					return r
				}
				if died = b.kill(t, deadProcess(t, b.Creator), r(), n); !died {
					return
				}
				was, _ := b.left()
				gives := was != "" && size > 0 && b.vms()[150]["scsi1"] == ""
				if gives {
					b.give("scsi1", size)
					given++
				}
				time.Sleep(startUp)
				made, err := creatorOf(t, b.sim, token).Create(t.Context(), r())
				is, kept := b.left()
				if kept != gives || (err != nil) != gives || gives && (is != was || !strings.Contains(err.Error(), theirs)) {
					t.Errorf("%d GiB, killed before %d: theirs is there %t, the same VM %t: %v", size, n, kept, is == was, err)
				}
				if was != "" && is == was && made.Guest.VMID == 150 && strings.HasPrefix(b.vms()[150]["scsi1"], "local-zfs:vm-150-") {
					completed++
				}
			})
		}
		if completed < 2 || size > 0 && given == 0 {
			t.Errorf("%d GiB: %d were given, %d VMs completed", size, given, completed)
		}
	}
}

// TestProtectedByAThirdParty: an administrator protects the VM of a dead run. The next apply completes it; where that
// fails the VM stays, and its guest is not stopped. The protection that a clone has from its source is no such sign.
func TestProtectedByAThirdParty(t *testing.T) {
	for _, c := range []struct{ clone, fails, stays bool }{{}, {fails: true, stays: true}, {clone: true, fails: true}} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			r := startedVM
			if c.clone {
				b.change(func(w *state.World) { w.Guests[9000].Config["protection"] = "1" })
				r = func() Request {
					return Request{Node: "pve1", VMID: 150, Start: true, Clone: &guest.Clone{VMID: 9000, Full: to(true)}}
				}
			}
			for n := 4; b.vms()[150]["smbios1"] == "" || b.vms()[150]["lock"] != ""; n++ {
				b.kill(t, deadProcess(t, b.Creator), r(), n)
			}
			b.change(func(w *state.World) { w.Guests[150].Config["protection"] = "1" })
			if c.fails {
				b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost,
					Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Before, Status: 500, Reason: "no", Times: -1}})
			}
			time.Sleep(startUp)
			made, err := creatorOf(t, b.sim, token).Create(t.Context(), r())
			is := b.vms()[150] != nil
			if (err != nil) != c.fails || is != (c.stays || !c.fails) || is && b.vms()[150]["protection"] != "1" ||
				c.stays && (len(made.Left) != 1 || made.Left[0].Command != "" || !strings.Contains(made.Left[0].Reason, "is protected")) {
				t.Errorf("%+v: the VM is there %t, left %+v: %v", c, is, made.Left, err)
			}
		})
	}
}

// TestBorrowedDiskThatWasMoved: a dead run's VM holds the disk of a proxmox_disk. A user has moved it to another storage,
// so that the VM has its data under its own id, whether the source is still there or not. The next apply leaves the VM.
func TestBorrowedDiskThatWasMoved(t *testing.T) {
	const lent = "local-zfs:vm-300-disk-0"
	request := func() Request {
		r := startedVM()
		r.Spec.Disks["scsi1"] = vm.Disk{Storage: "local-zfs", Volume: lent}
		return r
	}
	for _, freed := range []bool{false, true} {
		moved := 0
		for n, died := 1, true; died; n++ {
			synctest.Test(t, func(t *testing.T) {
				b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
				b.change(func(w *state.World) {
					w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-0", VMID: 300, Content: "images",
						Format: "raw", Size: 1 << 30})
					w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"protection": "1",
						"description": vm.HolderDescription(""), "scsi0": lent + ",backup=0,size=1G"}}
				})
				if died = b.kill(t, deadProcess(t, b.Creator), request(), n); !died {
					return
				}
				was, _ := b.left()
				if was == "" || b.vms()[150]["scsi1"] == "" {
					return
				}
				moved++
				b.give("scsi1", 1)
				if freed {
					b.change(func(w *state.World) {
						delete(w.Guests[300].Config, "scsi0")
						maps.DeleteFunc(w.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.Volid() == lent })
					})
				}
				time.Sleep(startUp)
				_, err := creatorOf(t, b.sim, token).Create(t.Context(), request())
				if is, kept := b.left(); !kept || is != was || err == nil || !strings.Contains(err.Error(), theirs) {
					t.Errorf("killed before %d: the data is there %t, the same VM %t: %v", n, kept, is == was, err)
				}
			})
		}
		if moved < 2 {
			t.Errorf("the disk was moved %d times", moved)
		}
	}
}

// TestDiskOfADeadVMThatWasGrown: a create is killed while its guest runs, and a user grows its disk, also with the
// identity of the provider. The next apply neither completes the VM nor removes it.
func TestDiskOfADeadVMThatWasGrown(t *testing.T) {
	clone := Request{Node: "pve1", VMID: 150, Start: true, Clone: &guest.Clone{VMID: 9000, Full: to(true)}}
	clone.Spec.Disks = map[string]vm.Disk{"scsi0": {Size: to(int64(8 << 30))}}
	inherited := clone
	inherited.Spec.Disks = nil
	for name, r := range map[string]Request{"scratch": startedVM(), "clone": clone, "a disk of the template": inherited} {
		grown := 0
		eachDeadVM(t, r, func(t *testing.T, b bench, n int, _ string) {
			user := creatorOf(t, b.sim, token)
			task, err := user.api.QEMU("pve1", 150).ResizeDisk(t.Context(), "scsi0", "20G", "")
			if err == nil && task != "" {
				_, err = user.api.Tasks().Wait(t.Context(), task)
			}
			if err != nil {
				t.Fatal(err)
			}
			grown++
			was := b.vms()[150]
			time.Sleep(startUp)
			_, err = creatorOf(t, b.sim, token).Create(t.Context(), r)
			if diff := cmp.Diff(was, b.vms()[150]); diff != "" || err == nil || !strings.Contains(err.Error(), "scsi0 has 20G by now") {
				t.Errorf("%s, killed before %d: %v\n%s", name, n, err, diff)
			}
		})
		if grown < 2 {
			t.Errorf("%s: %d disks were grown", name, grown)
		}
	}
}

// TestDiskExchangedInADeadVM: an administrator has taken the disk of a dead run's VM out of its slot, and put one with
// data there, by a command that leaves no task. The next apply leaves the VM.
func TestDiskExchangedInADeadVM(t *testing.T) {
	for _, size := range []int64{1, 50} {
		given := 0
		eachDeadVM(t, startedVM(), func(t *testing.T, b bench, n int, was string) {
			given++
			b.give("scsi0", size)
			time.Sleep(startUp)
			_, err := creatorOf(t, b.sim, token).Create(t.Context(), startedVM())
			if is, kept := b.left(); !kept || is != was || err == nil {
				t.Errorf("%d GiB, killed before %d: theirs is there %t, the same VM %t: %v", size, n, kept, is == was, err)
			}
		})
		if given < 2 {
			t.Errorf("%d GiB: %d disks were exchanged", size, given)
		}
	}
}

// TestDeadVMThatHARecovered: HA brings a dead run's VM to another node without its local disk, whose name is another's
// there. No further run completes or removes it.
func TestDeadVMThatHARecovered(t *testing.T) {
	met := 0
	eachDeadVM(t, startedVM(), func(t *testing.T, b bench, n int, was string) {
		b.change(func(w *state.World) {
			w.Guests[150].Node, w.Guests[150].Running = "pve2", nil
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve2", Name: "vm-150-disk-0", VMID: 150, Content: "images", Format: "raw",
				Size: 1 << 30, Data: "theirs"})
		})
		time.Sleep(startUp)
		met++
		_, err := creatorOf(t, b.sim, token).Create(t.Context(), startedVM())
		if is, _ := b.left(); err == nil || is != was || !b.hasTheirsOn("pve2") {
			t.Errorf("killed before %d: the VM stands %t, another's volume %t: %v", n, is == was, b.hasTheirsOn("pve2"), err)
		}
	})
	if met < 2 {
		t.Errorf("%d VMs were left", met)
	}
}
