package guest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestIsPlaceholder: a VM with disks or network devices is none, whatever its description says.
func TestIsPlaceholder(t *testing.T) {
	mark := NewMark("pve1", 100, time.Unix(0, 0)).String()
	for name, c := range map[string]struct {
		config map[string]string
		want   bool
	}{
		"empty":           {map[string]string{"description": mark, "smbios1": "uuid=a", "meta": "ctime=1"}, true},
		"with a leftover": {map[string]string{"description": mark, "unused0": "local-zfs:vm-100-disk-0"}, true},
		"with a disk":     {map[string]string{"description": mark, "scsi0": "local-zfs:vm-100-disk-0,size=1G"}, false},
		"with a network":  {map[string]string{"description": mark, "net0": "virtio=BC:24:11:00:00:01"}, false},
		"of another id":   {map[string]string{"description": NewMark("pve1", 101, time.Unix(0, 0)).String()}, false},
		"of its user":     {map[string]string{"description": "web"}, false},
	} {
		if got := isPlaceholder(100, c.config); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// done records a task of another user that ended so long ago, on a node where the VM is not.
func (w *world) done(typ, id string, ago time.Duration) {
	w.change(func(all *state.World) {
		at := all.Clock.Now().Add(-ago)
		upid := fmt.Sprintf("UPID:pve2:00001000:00002000:%08X:%s:%s:other@pve:", at.Unix(), typ, id)
		all.Tasks[upid] = &state.Task{UPID: upid, Node: "pve2", Type: typ, ID: id, User: "other@pve", Start: at, End: at, ExitStatus: "OK"}
	})
}

// TestWhyComplete: a mark is no proof that a VM is anybody's leftover.
func TestWhyComplete(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*world)
		lease   time.Duration // what is left of it
		noDisk  bool
		why     string // "": nothing speaks against it
	}{
		"as its create left it":        {happens: func(w *world) { w.done("qmcreate", "400", time.Hour) }},
		"a clone, which names another": {happens: func(w *world) { w.done("qmclone", "9000", time.Hour) }},
		"a clone that came later":      {happens: func(w *world) { w.done("qmclone", "9000", time.Second) }, why: "no task is known"},
		"from long ago":                {why: "no task is known any more that made it"},
		"from long ago, and empty":     {noDisk: true},
		"with snapshots": {happens: func(w *world) {
			w.done("qmcreate", "400", time.Hour)
			w.vm(func(g *state.Guest) { g.Snaps = map[string]map[string]string{"before": {"snaptime": "1"}} })
		}, why: "it has snapshots"},
		"restored since": {happens: func(w *world) {
			w.done("qmcreate", "400", time.Hour)
			w.done("qmrestore", "400", time.Minute)
		}, why: "task qmrestore of other@pve"},
		"rolled back since, and the snapshot deleted": {happens: func(w *world) {
			w.done("qmcreate", "400", time.Hour)
			w.done("qmrollback", "400", 2*time.Minute)
			w.done("qmdelsnapshot", "400", time.Minute)
		}, why: "task qmrollback of other@pve"},
		"made again since": {happens: func(w *world) {
			w.done("qmrestore", "400", time.Hour)
			w.done("qmcreate", "400", time.Minute)
		}},
		"of another id": {happens: func(w *world) { w.done("qmrestore", "4000", time.Minute); w.done("qmcreate", "400", time.Hour) }},
		"running for a moment": {happens: func(w *world) {
			w.done("qmcreate", "400", time.Hour)
			w.run(time.Minute)
		}, lease: 10 * time.Minute},
		"running longer than its create": {happens: func(w *world) {
			w.done("qmcreate", "400", 2*time.Hour)
			w.run(2 * time.Hour)
		}, lease: -time.Hour, why: "it runs since"},
		"started when the create was over": {happens: func(w *world) {
			w.done("qmcreate", "400", 2*time.Hour)
			w.run(time.Minute)
		}, lease: -time.Hour, why: "it runs since"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := map[string]string{"scsi0": "local-zfs:vm-400-disk-0,size=1G"}
			if c.noDisk {
				config = nil
			}
			w := newWorld(t, config)
			if c.happens != nil {
				c.happens(w)
			}
			if c.lease == 0 {
				c.lease = -10 * time.Minute
			}
			mark := NewMark("pve1,pve2", theVM, w.s.Now().Add(c.lease))
			why, err := w.s.WhyComplete(t.Context(), w.resources(), "pve1", mark, config)
			if err != nil || !strings.HasPrefix(why, c.why) || (why != "") != (c.why != "") {
				t.Errorf("%q, %v", why, err)
			}
		})
	}
}

// TestLeftoverInUseIsNone: a VM that a third party has started, changed or replaced is no leftover any more, although
// it bears the mark.
func TestLeftoverInUseIsNone(t *testing.T) {
	const begun = 5 * time.Minute
	for name, c := range map[string]struct {
		typ, id string
		ago     time.Duration
		user    string
		why     string
	}{
		"started":                {"qmstart", "400", time.Minute, "terraform@pve", "since then other@pve has begun qmstart on VM 400"},
		"changed":                {"qmconfig", "400", time.Minute, "terraform@pve", "since then other@pve has begun qmconfig on VM 400"},
		"removed, and another":   {"qmdestroy", "400", time.Minute, "terraform@pve", "since then other@pve has begun qmdestroy on VM 400"},
		"by the create's own":    {"qmstart", "400", time.Minute, "other@pve", ""},
		"by an unknown user":     {"qmstart", "400", time.Minute, "", ""},
		"another VM":             {"qmstart", "4000", time.Minute, "terraform@pve", ""},
		"before there was this":  {"qmdestroy", "400", begun + time.Minute, "terraform@pve", ""},
		"backed up":              {"vzdump", "400", time.Minute, "terraform@pve", ""},
		"looked at, the console": {"vncproxy", "400", time.Minute, "terraform@pve", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.done("qmclone", "9000", begun)
			w.done(c.typ, c.id, c.ago)
			mark := NewMark("pve1,pve2", theVM, w.s.Now().Add(Lease-begun))
			mark.Leased, mark.User = true, c.user
			why, err := w.s.WhyComplete(t.Context(), w.resources(), "pve1", mark, map[string]string{"scsi0": "local-zfs:vm-400-disk-0,size=1G"})
			if err != nil || !strings.HasPrefix(why, c.why) || (why == "") != (c.why == "") {
				t.Errorf("%q, %v", why, err)
			}
		})
	}
}

// TestWhyCompleteMayNotBeSeen: an identity that does not see the tasks of others cannot tell that none was a restore.
func TestWhyCompleteMayNotBeSeen(t *testing.T) {
	w := newWorld(t, nil)
	less := state.ACLEntry{Path: "/nodes", Subject: "terraform@pve!prov", Role: "PVEVMAdmin", Propagate: true}
	w.change(func(all *state.World) { all.ACL = append(all.ACL, less) })
	config := map[string]string{"scsi0": "local-zfs:vm-400-disk-0,size=1G"}
	_, err := w.s.WhyComplete(t.Context(), w.resources(), "pve1", NewMark("pve1,pve2", theVM, w.s.Now()), config)
	mustSay(t, "without Sys.Audit", err, "whether VM 400 was restored from a backup cannot be seen without Sys.Audit on /nodes/pve")
}

// TestUnfinished: the mark of this cluster, for this id, on a virtual machine that can be read.
func TestUnfinished(t *testing.T) {
	w := newWorld(t, map[string]string{"description": NewMark("pve1,pve2", theVM, time.Unix(1e9, 0)).String()})
	resources := w.resources()
	ours, _ := resources.Guest(theVM)
	if mark, config, ok := w.s.Unfinished(t.Context(), resources, ours); !ok || mark.VMID != theVM || config.Values["name"] != "web" {
		t.Errorf("%+v, %v, %t", mark, config, ok)
	}
	for vmid, what := range map[int]string{8000: "without a mark", 8100: "a container"} {
		other, _ := resources.Guest(vmid)
		if _, _, ok := w.s.Unfinished(t.Context(), resources, other); ok {
			t.Errorf("%s", what)
		}
	}
	if _, _, ok := w.s.Unfinished(t.Context(), resources[:0], ours); ok {
		t.Error("of another cluster")
	}
	ours.Node = "pve2"
	if _, _, ok := w.s.Unfinished(t.Context(), resources, ours); ok {
		t.Error("what cannot be read")
	}
}

// TestNow: no run is taken for dead because one clock is ahead.
func TestNow(t *testing.T) {
	w := newWorld(t, nil)
	here := w.s.clock.Now()
	if got := w.s.Now(); got.Before(here) {
		t.Errorf("before an answer: %s, want %s", got, here)
	}
	w.resources()
	w.s.Runs.clock = &steps{now: here.Add(time.Hour)}
	if got := w.s.Now(); got.After(here.Add(time.Minute)) {
		t.Errorf("a clock that is ahead here: %s", got)
	}
	w.s.Runs.clock = &steps{now: here.Add(-time.Hour)}
	if got := w.s.Now(); !got.Equal(here.Add(-time.Hour)) {
		t.Errorf("a clock that is behind here: %s", got)
	}
	if got := w.s.Deadline(0).Sub(w.s.Now()); got != lease {
		t.Errorf("a create may take %s", got)
	}
	if got := w.s.Deadline(time.Minute).Sub(w.s.Now()); got != time.Minute {
		t.Errorf("a create may take %s", got)
	}
}

// TestLifeOf: this process lives; one that has its id and another start is dead; of others nothing is known.
func TestLifeOf(t *testing.T) {
	s := &Guests{Runs: &Runs{Process: thisProcess()}}
	if s.Process == "" {
		t.Skip("this system does not tell its processes apart, so there is nothing to be told")
	}
	own := strings.Fields(s.Process)
	alter := func(at int, value string) string {
		fields := append([]string{}, own...)
		fields[at] = value
		return strings.Join(fields, " ")
	}
	for name, c := range map[string]struct {
		process string
		want    Life
	}{
		"this one":             {s.Process, Alive},
		"its id, used again":   {alter(4, "1"), Dead},
		"an id that none has":  {alter(3, "4194400"), Dead},
		"before a boot":        {alter(1, "00000000-0000-0000-0000-000000000000"), Unsure},
		"in another container": {alter(2, "pid:[1]"), Unsure},
		"under another name":   {alter(0, "elsewhere"), Alive}, // a host may be renamed; its boot decides
		"not a number":         {alter(3, "x"), Unsure},
		"everybody":            {alter(3, "-1"), Unsure},
		"unknown":              {"", Unsure},
	} {
		if got := s.LifeOf(Mark{Process: c.process}); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if _, err := startOf(os.Getpid()); err != nil {
		t.Error(err)
	}
	if s.Process = ""; s.LifeOf(Mark{Process: strings.Join(own, " ")}) != Unsure {
		t.Error("a run that does not know its own process knows no other")
	}
}
