package create

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestInterruptedCloneOfARunningVM: Ctrl-C comes while PVE clones a running VM, whose guest stands still for the last
// moment. The task is stopped while it is far from that, else it is awaited; the source goes on, and no clone is left.
func TestInterruptedCloneOfARunningVM(t *testing.T) {
	early := 0
	for seconds := 5; seconds < 120; seconds += 10 {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			upid, err := b.api.QEMU("pve1", 8000).Start(t.Context(), pve.Params{})
			if err == nil {
				_, err = b.api.Tasks().Wait(t.Context(), upid)
			}
			if err != nil {
				t.Fatal(err)
			}
			b.sim.SetTaskTime(2 * time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
			defer cancel()
			began := time.Now()
			r := Request{Node: "pve1", VMID: 150, Clone: &guest.Clone{VMID: 8000, Full: to(true)}}
			r.Spec.Name = to("web")
			_, err = b.Create(ctx, r)
			if time.Since(began) < time.Duration(seconds+60)*time.Second {
				early++
			}
			b.change(func(w *state.World) {
				if g := w.Guests[8000]; g.Running == nil || g.Running.QMPStatus != "running" || g.Config["lock"] != "" {
					t.Errorf("interrupted after %d s: the source is %+v, lock %q: %v", seconds, g.Running, g.Config["lock"], err)
				}
			})
			left, made := b.volumesOf(150), b.vms()[150] != nil // it may have been over
			if made != (err == nil) || made != (len(left) > 0) {
				t.Errorf("interrupted after %d s: there are %v and %v: %v", seconds, b.vms()[150], left, err)
			}
		})
	}
	t.Logf("%d of 12 clones were stopped early", early)
	if early == 0 || early == 12 {
		t.Errorf("%d of 12 clones were stopped early", early)
	}
}

// commitRefused has PVE refuse the values of each commit.
var commitRefused = fault.Rule{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"},
	Phase: fault.Before, Status: 400, Reason: "no", Times: -1}

// cloneElsewhere is a clone of a template on the share to pve2, whose task PVE lists on pve1, under the source. If earlier, another
// user had a VM of its id on pve2 five days ago.
func (b bench) cloneElsewhere(t *testing.T, user *Creator, earlier bool) Request {
	t.Helper()
	ctx := t.Context()
	ends := func(upid pve.UPID, err error) {
		t.Helper()
		if err == nil {
			_, err = user.api.Tasks().Wait(ctx, upid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if earlier {
		ends(user.api.Node("pve2").CreateVM(ctx, pve.Params{"vmid": "150", "name": "old"}))
		ends(user.api.QEMU("pve2", 150).Start(ctx, pve.Params{}))
		ends(user.api.QEMU("pve2", 150).HardStop(ctx, pve.Params{}))
		ends(user.api.QEMU("pve2", 150).Destroy(ctx, false))
		time.Sleep(5 * 24 * time.Hour)
	}
	ends(user.api.QEMU("pve1", 9000).MoveDiskAndFree(ctx, pve.Params{"disk": "scsi0", "storage": "shared-nfs"}))
	b.change(func(w *state.World) {
		delete(w.Guests[9000].Config, "ide2")
		delete(w.Guests[9000].Config, "protection")
	})
	r := ofTemplate()
	r.Node, r.VMID, r.Start = "pve2", 150, true
	return r
}

// TestEarlierVMOfTheIDIsNoUse: the tasks of a VM that had the id before are no work with a clone that a failed create has left, although
// they are on another node than the task that made it. Where that node does not tell its time, they may be.
func TestEarlierVMOfTheIDIsNoUse(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			r := b.cloneElsewhere(t, creatorOf(t, b.sim, ticket), true)
			r.OnFailure = Keep
			b.sim.SetFaults([]fault.Rule{commitRefused})
			created, err := b.Create(t.Context(), r)
			if created.Proof == nil {
				t.Fatal(err)
			}
			b.sim.SetFaults(nil)
			if away {
				b.sim.SetNode("pve1", false)
			}
			tasks, err := creatorOf(t, b.sim, token).guests.UsesOf(t.Context(), created.Proof, "pve2")
			if err != nil || (len(tasks) > 0) != away {
				t.Errorf("the node is away %t: %s %v", away, guest.NameUses(tasks), err)
			}
		})
	}
}

// TestUndoOfACloneElsewhereNamesItsUseOnce: PVE refuses the commit of such a clone after a wait for its guest. It is taken back where
// no user but that of the earlier VM came. Where another user has stopped its guest it stays, and one warning says why.
func TestUndoOfACloneElsewhereNamesItsUseOnce(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			user := creatorOf(t, b.sim, ticket)
			r := b.cloneElsewhere(t, user, true)
			r.Spec.Agent.Enabled = to(true)
			r.Wait = &guest.Wait{Agent: true, Timeout: 20*time.Minute + 5*time.Second, Warn: true}
			run := bench{Creator: creatorOf(t, b.sim, token), sim: b.sim}
			created, err := run.await(t, r, func(func()) {
				if stopped {
					upid, err := user.api.QEMU("pve2", 150).HardStop(t.Context(), pve.Params{})
					if err != nil {
						t.Fatal(err)
					}
					_, _ = user.api.Tasks().Wait(t.Context(), upid)
				}
				b.sim.SetFaults([]fault.Rule{commitRefused})
			})
			there, named := b.vms()[150] != nil, strings.Count(fmt.Sprint(created.Warnings), "has begun qmstop on it since")
			if err == nil || there != stopped || (named == 1) != stopped {
				t.Errorf("stopped %t: there %t, named %d times: %v; %v", stopped, there, named, err, created.Warnings)
			}
		})
	}
}

// grownSource is a bench whose VM 8000 has had its disk grown since its snapshot was taken, and a clone of the snapshot.
func grownSource(t *testing.T) (bench, func() Request) {
	t.Helper()
	b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
	b.change(withSnapshot)
	b.change(func(w *state.World) {
		g, v := w.Guests[8000], w.Volume("pve1", "local-lvm:vm-8000-disk-0")
		v.Size *= 2
		g.Config["scsi0"] = vm.Resized(g.Config["scsi0"], v.Size)
	})
	return b, func() Request {
		r := Request{Clone: &guest.Clone{VMID: 8000, Full: to(true), Snapshot: "old"}}
		r.Node, r.VMID, r.Start, r.Spec.Name = "pve1", 150, true, to("web")
		return r
	}
}

// TestResumeOfACloneOfASnapshot: the source's disk was grown since its snapshot. PVE makes the copy as large as the disk
// is now, and the run after a killed one does not take that for the work of a user.
func TestResumeOfACloneOfASnapshot(t *testing.T) {
	resumed := 0
	for n := 1; n < 20; n++ {
		synctest.Test(t, func(t *testing.T) {
			b, wanted := grownSource(t)
			died := b.killBy(t, deadProcess(t, b.Creator), wanted(), n, nil)
			if was, _ := b.left(); !died || was == "" {
				return
			}
			time.Sleep(startUp)
			if _, err := creatorOf(t, b.sim, token).Create(t.Context(), wanted()); err != nil {
				t.Errorf("killed before %d: %v", n, err)
			}
			resumed++
		})
	}
	if resumed == 0 {
		t.Error("no run was resumed")
	}
}

// TestSlowCloneOfASnapshotIsTakenBack: the clone takes three minutes, and the start is refused. The copy is larger than
// its snapshot says, also where the source does not have the volume in a slot any more. No user has grown it.
func TestSlowCloneOfASnapshotIsTakenBack(t *testing.T) {
	for name, change := range map[string]func(g *state.Guest){"grown": func(*state.Guest) {},
		"grown and taken out": func(g *state.Guest) {
			g.Config["unused0"] = guest.VolumeOf(g.Config["scsi0"])
			delete(g.Config, "scsi0")
		}} {
		synctest.Test(t, func(t *testing.T) {
			b, wanted := grownSource(t)
			b.change(func(w *state.World) { change(w.Guests[8000]) })
			b.sim.SetTaskTime(3 * time.Minute)
			b.sim.SetFaults([]fault.Rule{startRefused})
			created, err := b.Create(t.Context(), wanted())
			if err == nil || b.vms()[150] != nil || len(created.Warnings) > 0 {
				t.Errorf("%s: there is %t: %v; %v", name, b.vms()[150] != nil, err, created.Warnings)
			}
		})
	}
}

// TestSlowCloneToLargeExtentsIsTakenBack: a volume group with extents of 32 MiB rounds the copy up.
func TestSlowCloneToLargeExtentsIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
		b.change(func(w *state.World) {
			g := w.Guests[9000]
			delete(g.Config, "protection")
			g.Config["scsi0"] = vm.Resized(g.Config["scsi0"], 2252<<20)
			w.Volume("pve1", guest.VolumeOf(g.Config["scsi0"])).Size = 2272 << 20 // as the copy's, after lvcreate
		})
		r := ofTemplate()
		r.VMID, r.Start = 150, true
		r.Clone.Full, r.Clone.Storage = to(true), "local-lvm"
		b.sim.SetTaskTime(3 * time.Minute)
		b.sim.SetFaults([]fault.Rule{startRefused})
		created, err := b.Create(t.Context(), r)
		if err == nil || b.vms()[150] != nil || len(created.Warnings) > 0 {
			t.Errorf("there is %t: %v; %v", b.vms()[150] != nil, err, created.Warnings)
		}
	})
}

// TestCloneOfAMissingSnapshotIsRefusedAtOnce: PVE has read the source's configuration and finds no such snapshot in it. No wait brings that.
func TestCloneOfAMissingSnapshotIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, wanted := grownSource(t)
		r, began := wanted(), time.Now()
		r.Clone.Snapshot = "gone"
		_, err := b.Create(t.Context(), r)
		if err == nil || !strings.Contains(err.Error(), `VM 8000 has no snapshot "gone"`) || b.vms()[150] != nil {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
