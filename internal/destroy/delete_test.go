package destroy

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// counted returns the number of requests of a rig by the method and the last part of the path.
func (r *rig) counted() map[string]int {
	counts := map[string]int{}
	for _, op := range r.sim.Ops() {
		counts[op.Method+" "+op.Path[strings.LastIndex(op.Path, "/")+1:]]++
	}
	return counts
}

// TestRequestsOfADestroy: each is in the table of docs/design/destroy.md, and several destroys share what they can.
// The guests are read twice, before anything is done and after the shutdown.
func TestRequestsOfADestroy(t *testing.T) {
	for count, want := range map[int]map[string]int{
		1: {"GET resources": 3, "GET storage": 2, "GET replication": 1, "GET permissions": 4, "GET pending": 8, "POST shutdown": 1, "GET config": 1,
			"DELETE {vmid}": 1, "GET content": 1},
		10: {"GET storage": 11, "GET replication": 10, "GET permissions": 12, "POST shutdown": 10, "GET config": 10, "DELETE {vmid}": 10, "GET content": 10},
	} {
		synctest.Test(t, func(t *testing.T) { // time passes for all at once, so nothing gets old between two requests
			r := newRigWith(t, asToken, pvesim.Options{Clock: clock.Real{}, Latency: -1})
			var refs []guest.Ref
			for i := range count {
				refs = append(refs, r.vm(300+i))
				r.change(func(w *state.World) {
					w.Guests[300+i].Running = &state.Running{QMPStatus: "running", PID: 4711, StartedAt: w.Clock.Now(), Booted: map[string]string{}}
				})
			}
			time.Sleep(20 * time.Second) // the listing knows that they run
			r.sim.ResetOps()
			var group sync.WaitGroup
			for _, ref := range refs {
				group.Go(func() {
					if _, _, err := r.s.Delete(t.Context(), Request{Ref: ref}); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			got := r.counted()
			for what, n := range want {
				if got[what] > n {
					t.Errorf("%d destroys: %d times %s, want %d", count, got[what], what, n)
				}
			}
			if got["GET current"] > 0 || got["GET nextid"] > 0 || got["GET snapshot"] > 0 {
				t.Errorf("%d destroys: %v", count, got)
			}
		})
	}
}

// TestRefusals: what speaks against a destroy is found before anything is touched.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*rig, *Request)
		want    string
	}{
		"protected":    {func(r *rig, _ *Request) { r.option("protection", "1") }, "VM 300 is protected"},
		"another's":    {func(r *rig, _ *Request) { r.option("smbios1", "uuid="+uuidOf(1)) }, "is not the VM in state"},
		"without uuid": {func(_ *rig, q *Request) { q.Ref.Identity = guest.Identity{} }, "no uuid"},
		"storage away": {func(r *rig, _ *Request) { r.change(func(w *state.World) { w.Storages["local-zfs"].Offline = true }) }, "storage local-zfs"},
		"half destroyed": {func(r *rig, _ *Request) {
			r.change(func(w *state.World) {
				w.Guests[300].Config = map[string]string{}
				w.Guests[300].SetLock("destroyed", "state")
			})
		}, "half destroyed"},
		"under HA, kept": {func(r *rig, q *Request) {
			r.change(func(w *state.World) { w.HA["vm:300"] = &state.HAResource{SID: "vm:300", State: "started"} })
			q.KeepReferences = true
		}, "HA resource vm:300"},
		"linked clones": {func(r *rig, _ *Request) {
			r.change(func(w *state.World) {
				w.Guests[300].Config["template"], w.Guests[300].Config["scsi0"] = "1", "local-zfs:base-300-disk-0,size=1G"
				w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "base-300-disk-0", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
				w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-301-disk-0", Parent: "base-300-disk-0", VMID: 301, Content: "images", Format: "raw", Size: 1 << 30})
			})
		}, "Template 300 has linked clones"},
		"paused": {func(r *rig, _ *Request) {
			r.running()
			r.change(func(w *state.World) { w.Guests[300].Running.QMPStatus = "paused" })
		}, "VM 300 is paused"},
		"the listing is refused": {func(r *rig, _ *Request) {
			r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", Path: "/cluster/resources"}, Phase: fault.Before, Status: 403, Times: -1}})
		}, "list the cluster's guests"},
		"the storages are refused": {func(r *rig, _ *Request) {
			r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", Path: "/nodes/{node}/storage"}, Phase: fault.Before, Status: 403, Times: -1}})
		}, "it was not touched"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asToken)
			q := Request{Ref: r.vm(300)}
			c.happens(r, &q)
			before := string(r.sim.Snapshot())
			_, _, err := r.s.Delete(t.Context(), q)
			said := fmt.Sprint(err)
			var field *guest.FieldError
			if errors.As(err, &field) {
				said += field.Summary + field.Detail
			}
			if err == nil || !strings.Contains(said, c.want) {
				t.Errorf("want %q, got %s", c.want, said)
			}
			if string(r.sim.Snapshot()) != before {
				t.Error("something was changed")
			}
		})
	}
}

// option sets one of VM 300.
func (r *rig) option(name, value string) {
	r.change(func(w *state.World) { w.Guests[300].Config[name] = value })
}

// TestDestroyFromHA: the guest leaves HA before it is shut down, and comes back to it where it does not obey.
func TestDestroyFromHA(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		r := newRig(t, asRoot)
		ref := r.vm(300)
		var ignores []string
		if deaf {
			ignores = []string{"shutdown"}
		}
		r.running(ignores...)
		r.change(func(w *state.World) { w.HA["vm:300"] = &state.HAResource{SID: "vm:300", State: "started"} })
		_, _, err := r.s.Delete(t.Context(), Request{Ref: ref, GracefulOnly: true, StopTimeout: 10 * time.Second})
		is, _ := r.has(300, contested)
		managed := false
		r.change(func(w *state.World) { managed = w.HA["vm:300"] != nil })
		if is != deaf || managed != deaf || (err != nil) != deaf {
			t.Errorf("deaf %t: there %t, in HA %t, %v", deaf, is, managed, err)
		}
	}
}

// TestVolumesThatStay: PVE says that all is well, and a volume is still there. It is removed while that is possible,
// else it is named with PVE's reason, and the next destroy removes it.
func TestVolumesThatStay(t *testing.T) {
	for _, who := range []string{"token", "root"} {
		for _, busy := range []int{2, -1} {
			auth := asToken
			if who == "root" {
				auth = asRoot
			}
			r := newRig(t, auth)
			ref := r.vm(300)
			frees := func(n int) { r.change(func(w *state.World) { w.Storages["local-zfs"].BusyFrees = n }) }
			frees(busy)
			left, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
			if is, kept := r.has(300, contested); is || kept != (busy < 0) {
				t.Errorf("%s, %d: VM %t, volume %t", who, busy, is, kept)
			}
			if busy > 0 {
				if err != nil || len(left) > 0 {
					t.Errorf("%s: left %v, %v", who, left, err)
				}
				continue
			}
			var named *saga.LeftError
			if !errors.As(err, &named) || len(left) != 1 || left[0].ID != contested || !strings.Contains(left[0].Reason, "busy") ||
				left[0].Command != "pvesm free "+contested {
				t.Errorf("%s: left %+v, %v", who, left, err)
			}
			frees(0)
			if left, _, err = r.s.Delete(t.Context(), Request{Ref: ref, Left: left}); err != nil || len(left) > 0 {
				t.Errorf("%s, again: left %v, %v", who, left, err)
			}
			if _, kept := r.has(300, contested); kept {
				t.Errorf("%s: still there", who)
			}
		}
	}
}

// TestSnapshotsGoToo: a known disk that only a snapshot names goes with the VM, and so does one of the pending changes.
func TestSnapshotsGoToo(t *testing.T) {
	r := newRig(t, asToken)
	ref := r.vm(300)
	r.change(func(w *state.World) {
		for _, name := range []string{"vm-300-disk-1", "vm-300-disk-2"} {
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
		}
		w.Guests[300].Snaps = map[string]map[string]string{"one": {"scsi1": "local-zfs:vm-300-disk-1,size=1G", "snaptime": "1"}}
		w.Guests[300].Pending = map[string]string{"scsi2": "local-zfs:vm-300-disk-2,size=1G"}
	})
	request := Request{Ref: ref, Disks: Disks{Known: []string{contested, "local-zfs:vm-300-disk-1"}}}
	if left, _, err := r.s.Delete(t.Context(), request); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	for _, volume := range []string{contested, "local-zfs:vm-300-disk-1", "local-zfs:vm-300-disk-2"} {
		if _, kept := r.has(300, volume); kept {
			t.Errorf("%s is still there", volume)
		}
	}
}

// TestADeletionIsTheLastWord: whatever happens to the VM between the shutdown and the last look at it is seen.
func TestADeletionIsTheLastWord(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*state.Guest)
		stays   bool
		want    string // in the error, "" for none
	}{
		"protected":   {func(g *state.Guest) { g.Config["protection"] = "1" }, true, "is protected since a moment ago"},
		"started":     {func(g *state.Guest) { g.Running = &state.Running{QMPStatus: "running"} }, true, "runs again after it was shut down"},
		"replaced":    {func(g *state.Guest) { g.Config["smbios1"] = "uuid=" + uuidOf(1) }, true, ""},
		"snapshotted": {func(g *state.Guest) { g.Snaps = map[string]map[string]string{"one": {"snaptime": "1"}} }, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asToken)
			ref := r.vm(300)
			r.running()
			r.sim.Advance(20 * time.Second)
			r.answered = func(method, path string) {
				if method == http.MethodGet && strings.Contains(path, ":qmshutdown:300:") && strings.HasSuffix(path, "/status") {
					r.change(func(w *state.World) { c.happens(w.Guests[300]) })
				}
			}
			_, _, err := r.s.Delete(t.Context(), Request{Ref: ref})
			is, _ := r.has(300, contested)
			if (c.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), c.want)) || is != c.stays {
				t.Errorf("there %t: %v", is, err)
			}
		})
	}
}

// TestGoneFromThePool: an identity with privileges in a pool alone gets 403 for a VM that is gone, since it has left
// the pool. The free id proves that it is gone.
func TestGoneFromThePool(t *testing.T) {
	r := newRig(t, asToken)
	ref := r.vm(300)
	id, _, _ := strings.Cut(r.sim.Credentials().Token, "=")
	user, _, _ := strings.Cut(id, "!")
	r.change(func(w *state.World) {
		for i := range w.ACL {
			if w.ACL[i].Subject == id || w.ACL[i].Subject == user {
				w.ACL[i].Path = "/pool/web"
			}
		}
	})
	if _, _, err := r.s.Delete(t.Context(), Request{Ref: ref}); err == nil {
		t.Error("what may not be seen was taken for gone")
	}
	r.change(func(w *state.World) { delete(w.Guests, 300) })
	if _, seen, err := r.s.guests.Read(t.Context(), ref); seen != guest.Gone || err != nil {
		t.Errorf("a refresh sees %d, %v", seen, err)
	}
	if left, _, err := r.s.Delete(t.Context(), Request{Ref: ref}); len(left) > 0 || err != nil {
		t.Errorf("its destroy: %v, %v", left, err)
	}
}

// TestDestroyNamesVolumesOfEarlierMoves: a cloud-init drive that was moved while the guest ran has left its old
// volume on a block storage, which no configuration names. Any other change that left a volume where the VM's disks
// are has done the same; of a disk elsewhere nothing is said. If another user has the id by then they may be theirs, and are not named.
func TestDestroyNamesVolumesOfEarlierMoves(t *testing.T) {
	for _, taken := range []bool{false, true} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		put := func(w *state.World, storage, name string) {
			w.Put(&state.Volume{Storage: storage, Node: "pve1", Name: name, VMID: 300, Content: "images", Format: "raw", Size: 4 << 20})
		}
		r.change(func(w *state.World) {
			put(w, "local-zfs", "vm-300-cloudinit")
			put(w, "local-lvm", "vm-300-cloudinit")
			put(w, "local-zfs", "vm-300-disk-7")
			put(w, "local-lvm", "vm-300-disk-8")
			w.Guests[300].Config["ide2"] = "local-zfs:vm-300-cloudinit,media=cdrom"
		})
		r.answered = func(method, path string) {
			if is, _ := r.has(300, contested); taken && !is && method == http.MethodGet && strings.Contains(path, ":qmdestroy:300:") {
				r.change(func(w *state.World) {
					w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "theirs", "memory": "512",
						"smbios1": "uuid=" + uuidOf(1), "meta": "creation-qemu=9.2.0,ctime=2"}}
				})
			}
		}
		left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
		if err != nil || len(left) > 0 {
			t.Errorf("taken %t: left %v, %v", taken, left, err)
		}
		said := fmt.Sprint(warnings)
		for _, volume := range []string{"local-lvm:vm-300-cloudinit", "local-zfs:vm-300-disk-7"} {
			if is, kept := r.has(300, volume); is != taken || !kept {
				t.Errorf("taken %t: VM 300 is there %t, %s %t", taken, is, volume, kept)
			}
			if strings.Contains(said, volume) == taken {
				t.Errorf("taken %t: said of %s: %s", taken, volume, said)
			}
		}
		if strings.Contains(said, "vm-300-cloudinit on node pve1 (") == taken || strings.Contains(said, "local-zfs:vm-300-cloudinit") ||
			strings.Contains(said, "disk-8") {
			t.Errorf("taken %t: said %s", taken, said)
		}
	}
}

// TestDestroyedIDIsTakenAtOnce: another user gets the id of a destroyed VM from PVE as soon as it is free, and makes
// a VM whose disk has the name that ours had. The destroy is a success, and no warning says to free that disk.
func TestDestroyedIDIsTakenAtOnce(t *testing.T) {
	for _, locked := range []bool{true, false} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		taken := false
		r.answered = func(method, path string) {
			if taken || method != "GET" || !strings.Contains(path, ":qmdestroy:300:") {
				return
			}
			if is, _ := r.has(300, contested); is {
				return
			}
			taken = true
			r.change(func(w *state.World) {
				w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-0", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30, Data: "theirs"})
				g := &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "theirs", "memory": "512",
					"scsi0": contested + ",size=1G", "smbios1": "uuid=" + uuidOf(1), "meta": "creation-qemu=9.2.0,ctime=2"}}
				if locked { // it is being made, and names no disk yet
					g.Config, g.LockCause = map[string]string{"lock": "create"}, "state"
				}
				w.Guests[300] = g
			})
		}
		left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
		if !taken {
			t.Fatal("the id was not taken")
		}
		if err != nil || len(left) > 0 || strings.Contains(fmt.Sprint(warnings), "pvesm free") {
			t.Errorf("locked %t: left %+v, said %v: %v", locked, left, warnings, err)
		}
		if is, kept := r.has(300, contested); !is || !kept {
			t.Errorf("locked %t: the third party's VM is there %t, its disk %t", locked, is, kept)
		}
	}
}
