package destroy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

const (
	theGuest     = "/nodes/{node}/qemu/{vmid}"
	shutdownPath = theGuest + "/status/shutdown"
)

// comes has third parties do something about VM 300 before the nth request of a kind.
func (r *rig) comes(method, path string, nth int, acts ...thirdparty.Act) {
	r.sim.MarkThirdParties(300)
	var orders []thirdparty.Order
	for _, act := range acts {
		orders = append(orders, thirdparty.Order{Act: act, VMID: 300, Before: fault.Match{Method: method, Path: path, Nth: nth}})
	}
	r.sim.SetThirdParties(orders)
}

// came makes sure that they have.
func (r *rig) came() {
	r.t.Helper()
	reports := r.sim.Reports()
	if len(reports) == 0 {
		r.t.Fatal("no third party came")
	}
	for _, d := range reports {
		if !d.Done && !d.Ends {
			r.t.Fatalf("%s was refused: %s", d.Act, d.Why)
		}
	}
}

// uncommitted makes VM 300 one that a create has not committed, and says what the create knows of it.
func (r *rig) uncommitted() Target {
	r.vm(300)
	mark := r.s.guests.NewMark("pve1,pve2", 300)
	r.option("description", mark.String())
	return Target{VMID: 300, Nodes: []string{"pve1"}, Baseline: guest.OwnBaseline("pve1", 300, []string{contested}), Tasks: &request.Tasks{}, Mark: mark,
		HalfMade: NewHalfMade("", nil)}
}

// TestVolumeUseIsReadAfterTheShutdown: while the guest shuts down a third party attaches its disk to another VM.
func TestVolumeUseIsReadAfterTheShutdown(t *testing.T) {
	for _, act := range []thirdparty.Act{thirdparty.Attach, thirdparty.AttachContainer} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.running()
		r.sim.Advance(20 * time.Second)
		r.comes("POST", shutdownPath, 1, act)
		_, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
		r.came()
		if is, kept := r.has(300, contested); !is || !kept || err == nil || !strings.Contains(err.Error(), contested+" is also used by") {
			t.Errorf("%s: VM %t, disk %t: %v", act, is, kept, err)
		}
	}
}

// TestDiskHandedOnWhileTheGuestsAreRead: a third party attaches the disk to a guest that was read already, and detaches it here before
// the VM is read. Only a snapshot names it then, and PVE would free it with the VM (qemu-server QemuServer.pm destroy_vm).
func TestDiskHandedOnWhileTheGuestsAreRead(t *testing.T) {
	for _, act := range []thirdparty.Act{thirdparty.Attach, thirdparty.AttachContainer} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.change(func(w *state.World) {
			w.Guests[300].Snaps = map[string]map[string]string{"before": {"scsi0": contested + ",size=1G", "snaptime": "1"}}
		})
		r.sim.Advance(20 * time.Second)
		r.comes("GET", theGuest+"/pending", 1, act, thirdparty.Detach)
		_, _, err := r.s.Delete(t.Context(), Request{Ref: ref, Disks: Disks{Known: []string{contested}}})
		r.came()
		if is, kept := r.has(300, contested); !is || !kept || err == nil || !strings.Contains(err.Error(), contested+" is also used by") {
			t.Errorf("%s: VM %t, disk %t: %v", act, is, kept, err)
		}
	}
}

// TestDiskHandedOnAfterTheVMIsRead: so it does where the VM was read already, too. The last reading shows that it has changed.
func TestDiskHandedOnAfterTheVMIsRead(t *testing.T) {
	for _, act := range []thirdparty.Act{thirdparty.Attach, thirdparty.AttachContainer} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.sim.Advance(20 * time.Second)
		r.comes("GET", theGuest+"/config", 1, act, thirdparty.Detach)
		_, _, err := r.s.Delete(t.Context(), Request{Ref: ref, Disks: Disks{Known: []string{contested}, Slots: map[string]string{"scsi0": contested}}})
		r.came()
		if is, kept := r.has(300, contested); !is || !kept || err == nil {
			t.Errorf("%s: VM %t, disk %t: %v", act, is, kept, err)
		}
	}
}

// TestDeafGuestThatOthersWorkWith: while a guest does not obey, a third party gives its VM a disk, or its disk to another VM. The destroy is
// refused, and does not cut the guest off before.
func TestDeafGuestThatOthersWorkWith(t *testing.T) {
	for act, says := range map[thirdparty.Act]string{thirdparty.GiveDisk: "has got another disk", thirdparty.Attach: "is also used by"} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.running("shutdown")
		r.sim.Advance(20 * time.Second)
		r.comes("POST", shutdownPath, 2, act)
		_, _, err := r.s.Delete(t.Context(), Request{Ref: ref, StopTimeout: 20 * time.Second,
			Disks: Disks{Known: []string{contested}, Slots: map[string]string{"scsi0": contested}}})
		r.came()
		if is, kept := r.has(300, contested); !is || !kept || len(r.sim.PowerOffs()) > 0 || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: VM %t, disk %t, cut off %v: %v", act, is, kept, r.sim.PowerOffs(), err)
		}
	}
}

// TestDiskGivenWhileTheLookTakesItsTime: a third party gives the VM a disk after it was read. The look before has become old by the time the guest
// is to be shut down, and the VM is read again.
func TestDiskGivenWhileTheLookTakesItsTime(t *testing.T) {
	for _, runs := range []bool{true, false} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		if runs {
			r.running()
		}
		r.sim.Advance(20 * time.Second)
		r.comes("GET", "/cluster/backup", 1, thirdparty.GiveDisk)
		r.answered = func(_, path string) {
			if strings.HasSuffix(path, "/cluster/backup") {
				r.sim.Advance(3 * time.Second)
			}
		}
		_, _, err := r.s.Delete(t.Context(), Request{Ref: ref, Disks: Disks{Known: []string{contested}, Slots: map[string]string{"scsi0": contested}}})
		r.came()
		if is, kept := r.has(300, contested); !is || !kept || len(r.sim.PowerOffs()) > 0 || !strings.Contains(fmt.Sprint(err), "has got another disk") {
			t.Errorf("runs %t: VM %t, disk %t, off %v: %v", runs, is, kept, r.sim.PowerOffs(), err)
		}
	}
}

// TestLockedVMIsLookedAtAgain: while a lock is waited for the VM is replaced, or its disk attached elsewhere. Nothing
// planned for it is done to a third party's.
func TestLockedVMIsLookedAtAgain(t *testing.T) {
	replaced := func(w *state.World) {
		w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "theirs", "memory": "512",
			"scsi0": contested + ",size=1G", "smbios1": "uuid=" + uuidOf(1), "meta": "creation-qemu=9.2.0,ctime=2"}}
	}
	for _, at := range []struct{ method, path, end string }{{"DELETE", theGuest, "/300"}, {"POST", shutdownPath, "/300/status/shutdown"}} {
		for what, meanwhile := range map[string]func(*state.World){"replaced": replaced, "attached": holders()["a mount point"]} {
			r := newRig(t, asToken)
			ref := r.vm(300)
			r.running()
			r.sim.Advance(20 * time.Second)
			r.comes(at.method, at.path, 1, thirdparty.StaleLock)
			refused := false
			r.answered = func(method, path string) {
				if refused || method != at.method || !strings.HasSuffix(path, at.end) {
					return
				}
				refused = true
				r.change(func(w *state.World) {
					w.Guests[300].SetLock("", "")
					meanwhile(w)
				})
				r.running()
				r.sim.ResetPowerOffs()
			}
			_, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
			r.came()
			is, kept := r.has(300, contested)
			if !refused || !is || !kept || what == "replaced" && len(r.sim.PowerOffs()) > 0 {
				t.Errorf("%s while %s waits: VM %t, disk %t, switched off %v: %v", what, at.path, is, kept, r.sim.PowerOffs(), err)
			}
		}
	}
}

// TestReplicasOfAVMThatWasMoved: its replication has left copies where it was before, and PVE drops the job but not
// them.
func TestReplicasOfAVMThatWasMoved(t *testing.T) {
	for _, at := range []struct{ method, path string }{{"GET", theGuest + "/config"}, {"DELETE", theGuest}} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.running()
		r.change(func(w *state.World) {
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve2", Name: "vm-300-disk-0", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
			w.Replication["300-0"] = &state.ReplicationJob{ID: "300-0", Guest: 300, Target: "pve2"}
		})
		r.sim.Advance(20 * time.Second)
		r.comes(at.method, at.path, 1, thirdparty.Migrate)
		left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
		r.came()
		is, kept := r.has(300, contested)
		if said := fmt.Sprint(warnings); err != nil || len(left) > 0 || is || kept && !strings.Contains(said, contested+" on node pve1") {
			t.Errorf("before %s: VM %t, volume %t, left %v, said %s: %v", at.path, is, kept, left, said, err)
		}
	}
}

// TestNoCommandForAThirdPartysVolume: a volume that a third party has attached is named, with its user, and no
// command takes it away.
func TestNoCommandForAThirdPartysVolume(t *testing.T) {
	for name, use := range holders() {
		for _, late := range []bool{false, true} { // he comes when the VM stays for another reason
			r := newRig(t, asToken)
			target := r.uncommitted()
			if late {
				r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "DELETE", Path: theGuest}, Phase: fault.Before, Times: -1, Reason: "no"}})
				r.answered = func(method, _ string) {
					if method == "DELETE" {
						r.change(use)
					}
				}
			} else {
				r.change(use)
			}
			err := r.s.Remove(t.Context(), target)
			var left *saga.LeftError
			if !errors.As(err, &left) {
				t.Fatalf("%s, late %t: %v", name, late, err)
			}
			for _, l := range left.Left {
				if l.Command != "" || !strings.Contains(l.Reason, " 600 ") || !strings.Contains(l.Reason, "detach it there first") {
					t.Errorf("%s, late %t: %+v", name, late, l)
				}
			}
			if is, kept := r.has(300, contested); !is || !kept {
				t.Errorf("%s, late %t: VM %t, volume %t", name, late, is, kept)
			}
		}
	}
}

// TestARollbackPurgesNothingOfOthers: HA, replication and backup jobs may name the id before the VM is there. Only an
// entry that the create has made goes.
func TestARollbackPurgesNothingOfOthers(t *testing.T) {
	for _, c := range []struct{ ours, running, stays bool }{{true, true, false}, {false, false, true}, {false, true, true}} {
		r := newRig(t, asRoot)
		target := r.uncommitted()
		target.Managed = c.ours
		if c.running {
			r.running()
		}
		r.change(func(w *state.World) {
			w.HA["vm:300"] = &state.HAResource{SID: "vm:300", State: "started"}
			w.Backups["all"] = &state.BackupJob{ID: "all", VMIDs: []int{300}, Storage: "local"}
		})
		err := r.s.Remove(t.Context(), target)
		is, _ := r.has(300, contested)
		var entry *state.HAResource
		var job *state.BackupJob
		r.change(func(w *state.World) { entry, job = w.HA["vm:300"], w.Backups["all"] })
		if is != c.stays || (entry != nil) != c.stays || job == nil || (err != nil) != c.stays {
			t.Errorf("%+v: VM %t, HA %v, backup job %v: %v", c, is, entry, job, err)
		}
		var left *saga.LeftError
		switch {
		case !c.stays:
		case !errors.As(err, &left) || !strings.Contains(left.Left[0].Reason, "HA") || strings.Contains(left.Left[0].Command, "--purge"):
			t.Errorf("%+v: %v", c, err)
		case entry == nil || entry.State != "started" || len(r.sim.PowerOffs()) > 0:
			t.Errorf("%+v: the entry is %+v, and it was switched off %d times", c, entry, len(r.sim.PowerOffs()))
		}
	}
}

// TestOptionsAreSetOnTheVMThatWasSeen: a third party takes the id between the look and the request that switches the
// protection off.
func TestOptionsAreSetOnTheVMThatWasSeen(t *testing.T) {
	r := newRig(t, asToken)
	target := r.uncommitted()
	r.option("protection", "1")
	r.answered = func(method, path string) {
		if method == "GET" && strings.HasSuffix(path, "/300/status/current") {
			r.change(func(w *state.World) {
				w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "theirs", "memory": "512",
					"protection": "1", "smbios1": "uuid=" + uuidOf(1), "meta": "creation-qemu=9.2.0,ctime=2"}}
			})
		}
	}
	err := r.s.Remove(t.Context(), target)
	r.change(func(w *state.World) {
		if g := w.Guests[300]; g == nil || g.Config["protection"] != "1" {
			t.Errorf("a third party's VM is not protected any more: %+v, %v", g, err)
		}
	})
}
