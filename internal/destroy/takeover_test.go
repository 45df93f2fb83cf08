package destroy

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// deadRun makes VM 300 one that a run of another machine has left, and says how it was judged.
func (r *rig) deadRun() guard.Unowned {
	r.t.Helper()
	r.vm(300)
	mark := r.s.guests.NewMark("pve1,pve2", 300)
	mark.Process, mark.Key, mark.Renewed = "elsewhere 0123456789abcdef pid:[1] 1 1", strings.Repeat("ab", 16), 7
	mark.UUID, mark.Task = uuidOf(300), "UPID:pve1:0010C1F5:0A2B3C4D:65A1B2C3:qmcreate:300:terraform@pve!prov:"
	mark = r.s.guests.Sign(mark)
	r.option("description", mark.String())
	return r.seen(mark)
}

// seen is VM 300 as it is now.
func (r *rig) seen(mark ownership.Mark) guard.Unowned {
	r.t.Helper()
	resources, err := r.s.api.Cluster().Resources(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	config, err := r.s.api.QEMU("pve1", 300).Config(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	listed, _ := resources.Guest(300)
	listed.VMID, listed.Node, listed.Type = 300, "pve1", "qemu"
	return guard.Unowned{Listed: listed, Resources: resources, Config: config.Values, Digest: config.Digest, Mark: mark}
}

// mark is the mark that VM 300 bears now.
func (r *rig) mark() (mark ownership.Mark, ok bool) {
	r.change(func(w *state.World) {
		if g := w.Guests[300]; g != nil {
			mark, ok = ownership.Parse(g.Config["description"])
		}
	})
	return mark, ok
}

// TestTakeOver: of several runs one takes the VM of a dead run, and only as it was judged. A run that is not dead after
// all, or a user, is not disturbed. How wrong this machine's clock is does not matter.
func TestTakeOver(t *testing.T) {
	const put, held = time.Minute, 20 * time.Second
	for name, c := range map[string]struct {
		gone    bool // the process is seen to have ended
		happens func(r *rig, u guard.Unowned)
		taken   bool
		waits   bool
	}{
		"as it was judged":                {taken: true},
		"as it was judged, process ended": {gone: true, taken: true},
		"its run renews its mark": {happens: func(r *rig, u guard.Unowned) {
			r.option("description", r.s.guests.Renewed(u.Mark).String())
		}},
		"its run commits": {happens: func(r *rig, _ guard.Unowned) { r.option("description", "web") }},
		"another run takes it first": {happens: func(r *rig, u guard.Unowned) {
			if _, err := r.s.TakeOver(r.t.Context(), u); err != nil {
				r.t.Error(err)
			}
		}},
		"a user changes it": {happens: func(r *rig, _ guard.Unowned) { r.option("memory", "1024") }},
		"it moves":          {happens: func(r *rig, _ guard.Unowned) { r.change(func(w *state.World) { w.Guests[300].Node = "pve2" }) }},
		"it is removed":     {happens: func(r *rig, _ guard.Unowned) { r.forgetVM(300) }},
		"another VM has its VMID": {gone: true, happens: func(r *rig, _ guard.Unowned) {
			r.vm(300)
			r.option("smbios1", "uuid="+uuidOf(1))
		}},
		"a task locks it": {happens: func(r *rig, _ guard.Unowned) { r.sim.HoldLock(300, "backup", held, "root@pam") }},
		"a task locks it, process ended": {gone: true, // PVE compares the digest first
			happens: func(r *rig, _ guard.Unowned) { r.sim.HoldLock(300, "backup", held, "root@pam") }},
		"its run holds the file over SSH": {happens: func(r *rig, _ guard.Unowned) { r.sim.HoldGuestFile(300, put) }},
		"the file is held, process ended": {gone: true, taken: true, waits: true,
			happens: func(r *rig, _ guard.Unowned) { r.sim.HoldGuestFile(300, held) }},
		"the answer is lost": {taken: true, happens: func(r *rig, _ guard.Unowned) {
			r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: theGuest + "/config"}, Phase: fault.After}})
		}},
		"the answer is lost, and a user comes": {happens: func(r *rig, _ guard.Unowned) {
			r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: theGuest + "/config"}, Phase: fault.After}})
			r.answered = func(method, _ string) {
				if method == http.MethodPut {
					r.option("description", "web")
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, behind := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour} {
				r := newRig(t, asToken)
				r.behind = behind
				u := r.deadRun()
				if u.Gone = c.gone; c.happens != nil {
					c.happens(r, u)
				}
				was, _ := r.mark()
				began := r.sim.World().Clock.Now()
				mark, err := r.s.TakeOver(t.Context(), u)
				took := r.sim.World().Clock.Now().Sub(began)
				now, marked := r.mark()
				if !c.taken {
					if !errors.Is(err, guard.ErrChanged) || marked && now != was {
						t.Errorf("behind by %s: %v, and the mark is %+v", behind, err, now)
					}
					continue
				}
				want := u.Mark
				want.Saga, want.Process, want.Renewed = mark.Saga, r.s.guests.Process, 0
				if want = r.s.guests.Sign(want); err != nil || !marked || now != mark || mark != want || mark.Saga == u.Mark.Saga {
					t.Errorf("behind by %s: %v, and the mark is %+v, want %+v", behind, err, now, want)
				}
				if c.waits != (took > held/2) {
					t.Errorf("behind by %s: it took %s", behind, took)
				}
			}
		})
	}
}

// cloned makes VM 300 a clone of VM 301 by its mark.
func (r *rig) cloned() {
	r.vm(301)
	mark, _ := r.mark()
	mark.By, mark.Source, mark.Task = "qmclone", 301, ""
	r.option("description", r.s.guests.Sign(mark).String())
}

// TestRemoveDead: what a dead run has left goes with the volumes that it names, unless a user or the run itself shows
// that it is needed.
func TestRemoveDead(t *testing.T) {
	const planted = "local-zfs:vm-300-disk-7"
	plant := func(r *rig, _ guard.Unowned) {
		r.change(func(w *state.World) {
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-7", VMID: 300, Content: "images", Format: "raw", Size: 1})
		})
	}
	onPut := func(do func()) func(string, string) {
		return func(method, _ string) {
			if method == http.MethodPut {
				do()
			}
		}
	}
	for name, c := range map[string]struct {
		before  func(r *rig) // it is judged
		happens func(r *rig, u guard.Unowned)
		removed bool
		taken   bool
		stays   bool // the volume that has come since
		says    string
	}{
		"as it was judged":     {removed: true},
		"that runs":            {removed: true, happens: func(r *rig, _ guard.Unowned) { r.running(); r.sim.Advance(20 * time.Second) }},
		"that a user protects": {before: func(r *rig) { r.option("protection", "1") }, says: "is protected, and its create has not"},
		"a clone that a user protects": {says: "is protected, and its create has not", before: func(r *rig) {
			r.cloned()
			r.option("protection", "1")
		}},
		"a clone of a protected VM": {removed: true, before: func(r *rig) {
			r.cloned()
			r.option("protection", "1")
			r.change(func(w *state.World) { w.Guests[301].Config["protection"] = "1" })
		}},
		"beside a user's volume":     {removed: true, before: func(r *rig) { plant(r, guard.Unowned{}) }},
		"with volumes from a rescan": {before: func(r *rig) { plant(r, guard.Unowned{}); r.option("unused0", planted) }, says: planted},
		"a disk is another VM's too": {before: func(r *rig) { r.change(holders()["a mount point"]) }, says: "also used by"},
		"its run renews its mark": {says: "it was not touched", happens: func(r *rig, u guard.Unowned) {
			r.option("description", r.s.guests.Renewed(u.Mark).String())
		}},
		"its run commits": {says: "it was not touched", happens: func(r *rig, _ guard.Unowned) { r.option("description", "web") }},
		"a user makes a volume meanwhile": {removed: true, stays: true, happens: func(r *rig, u guard.Unowned) {
			r.answered = onPut(func() { plant(r, u) })
		}},
		"a user gives it a disk meanwhile": {says: planted, stays: true, happens: func(r *rig, u guard.Unowned) {
			r.answered = onPut(func() { plant(r, u); r.option("scsi5", planted+",size=1G") })
		}},
		"its run commits late": {taken: true, happens: func(r *rig, _ guard.Unowned) {
			r.answered = func(method, _ string) {
				if method == http.MethodPut {
					r.option("description", "web")
					r.option("smbios1", "uuid="+uuidOf(1))
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, asToken)
			u := r.deadRun()
			if c.before != nil {
				c.before(r)
				mark, _ := r.mark()
				u = r.seen(mark)
			}
			_, foreign := r.has(300, planted)
			if c.happens != nil {
				c.happens(r, u)
			}
			taken, err := r.s.RemoveDead(t.Context(), u)
			is, kept := r.has(300, contested)
			if is == c.removed || kept == c.removed || taken != c.taken || (err != nil) != (c.says != "") {
				t.Errorf("VM %t, disk %t, taken %t: %v", is, kept, taken, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q is not said in: %v", c.says, err)
			}
			if _, still := r.has(300, planted); still != (foreign || c.stays) {
				t.Error("a volume that the VM did not name was touched")
			}
		})
	}
}

// TestRemoveDeadOfAKilledTask: a locked VM is removed under the mark of the dead run, since PVE changes nothing of it.
// Where the lock cannot be taken away it stays with the disks that it names.
func TestRemoveDeadOfAKilledTask(t *testing.T) {
	for _, ssh := range []bool{true, false} {
		r := newRig(t, asToken)
		shell := &shellRecord{r: r}
		if ssh {
			r.useShell(shell)
		}
		u := r.deadRun()
		r.sim.StaleLock(300, "clone", "terraform@pve!prov")
		u = r.seen(u.Mark)
		_, err := r.s.RemoveDead(t.Context(), u)
		is, kept := r.has(300, contested)
		if now, _ := r.mark(); is == ssh || kept == ssh || (err == nil) != ssh || slices.Contains(shell.calls, "unlock") != ssh || is && now != u.Mark {
			t.Errorf("SSH %t: VM %t, disk %t, sent %v: %v", ssh, is, kept, shell.calls, err)
		}
	}
}

// TestOwnershipOfADeadRunsVMWithASnapshot: a user takes a snapshot of a dead run's VM right after another run has put
// its mark there. The removal reads it, and leaves the VM.
func TestOwnershipOfADeadRunsVMWithASnapshot(t *testing.T) {
	r := newRig(t, asToken)
	u, did := r.deadRun(), false
	r.answered = func(method, _ string) {
		if method == http.MethodPut && !did {
			did = r.sim.ThirdParty(thirdparty.Order{Act: thirdparty.Snapshot, VMID: 300}).Done
		}
	}
	taken, err := r.s.RemoveDead(t.Context(), u)
	if is, kept := r.has(300, contested); !did || !is || !kept || taken || err == nil || !strings.Contains(err.Error(), ownership.HasSnapshots) {
		t.Errorf("did %t, is there %t, its disk %t, taken %t: %v", did, is, kept, taken, err)
	}
}
