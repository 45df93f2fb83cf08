package guest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// task puts a task into the list of pve2, with its begin and its end before now; one that has not ended runs.
func (w *world) task(typ, id string, began, ended time.Duration) {
	w.change(func(all *state.World) {
		now := all.Clock.Now()
		at := now.Add(-began)
		upid := fmt.Sprintf("UPID:pve2:00001000:00002000:%08X:%s:%s:other@pve:", at.Unix(), typ, id)
		all.Tasks[upid] = &state.Task{UPID: upid, Node: "pve2", Type: typ, ID: id, User: "other@pve", Start: at, End: now.Add(-ended), ExitStatus: "OK",
			Running: ended < 0}
	})
}

// TestJudge: a run of which only the server can tell is dead two minutes after the last that was seen of it, and not
// before.
func TestJudge(t *testing.T) {
	const running = -1
	for name, c := range map[string]struct {
		life    Life
		left    time.Duration // of the lease
		old     bool          // a mark of an earlier release
		lock    string
		happens func(*world)
		dead    bool
		seen    string
	}{
		"a process that lives":          {life: Alive, left: -time.Hour, seen: "is at work on this host"},
		"a process that is gone":        {life: Dead, left: time.Minute, dead: true, seen: "process is gone"},
		"lease":                         {left: time.Second, seen: "was last seen at"},
		"no lease":                      {left: -time.Second, dead: true, seen: "nothing has been seen of it since"},
		"an earlier release":            {left: time.Second, old: true},
		"an earlier release, over":      {left: -time.Second, old: true, dead: true},
		"kept":                          {life: Dead, left: 290 * 365 * 24 * time.Hour, old: true, seen: "to keep it, and has failed or was killed"},
		"kept, but at work":             {life: Alive, left: 290 * 365 * 24 * time.Hour, old: true, seen: "is at work on this host"},
		"its task runs":                 {left: -time.Minute, happens: func(w *world) { w.task("qmstart", "400", time.Hour, running) }, seen: "is running"},
		"its task has just ended":       {left: -time.Minute, happens: func(w *world) { w.task("resize", "400", time.Hour, time.Minute) }, seen: "ended at"},
		"its task ended":                {left: -time.Minute, happens: func(w *world) { w.task("resize", "400", time.Hour, 3*time.Minute) }, dead: true},
		"its clone has just ended":      {left: -time.Hour, happens: func(w *world) { w.task("qmclone", "9000", time.Hour+2*time.Minute, time.Minute) }, seen: "qmclone"},
		"another clone has just ended":  {left: -time.Hour, happens: func(w *world) { w.task("qmclone", "9000", 10*time.Minute, time.Minute) }, dead: true},
		"another's task runs":           {left: -time.Minute, happens: func(w *world) { w.task("qmstart", "4000", time.Hour, running) }, dead: true},
		"another user sees its console": {left: -time.Minute, happens: func(w *world) { w.task("vncproxy", "400", time.Hour, running) }, dead: true},
		"a backup of many runs":         {left: -time.Minute, happens: func(w *world) { w.task("vzdump", "", time.Hour, running) }, seen: "vzdump"},
		"locked":                        {left: -time.Minute, lock: "backup", seen: "locked (backup)"},
		"locked for long":               {left: -time.Hour, lock: "backup", dead: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			if c.happens != nil {
				c.happens(w)
			}
			resources := w.resources()
			mark := NewMark("pve1,pve2", theVM, w.s.api.ServerTime().Add(c.left))
			mark.Leased = !c.old
			v, err := w.s.JudgeRun(t.Context(), resources, c.life, mark, map[string]string{"lock": c.lock})
			if err != nil || v.Dead != c.dead || !strings.Contains(v.Seen, c.seen) || v.Kept != (name == "kept") {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// TestJudgeMayNotSee: an identity that does not see the tasks of others cannot tell that none is another identity's.
func TestJudgeMayNotSee(t *testing.T) {
	w := newWorld(t, nil)
	less := state.ACLEntry{Path: "/nodes", Subject: "terraform@pve!prov", Role: "PVEVMAdmin", Propagate: true}
	w.change(func(all *state.World) { all.ACL = append(all.ACL, less) })
	resources := w.resources()
	mark := NewMark("pve1,pve2", theVM, w.s.api.ServerTime().Add(-time.Hour))
	mark.Leased, mark.User = true, "other@pve"
	v, err := w.s.JudgeRun(t.Context(), resources, Unsure, mark, nil)
	mustSay(t, "without Sys.Audit", err, "whether a task of VM 400 runs cannot be seen without Sys.Audit on /nodes/pve")
	mark.User = "terraform@pve"
	if own, err := w.s.JudgeRun(t.Context(), resources, Unsure, mark, nil); v.Dead || err != nil || !own.Dead {
		t.Errorf("of another %+v; its own: %+v, %v", v, own, err)
	}
}

// TestMarkOfARun: the mark of a run tells whose it is, and its lease can be renewed.
func TestMarkOfARun(t *testing.T) {
	w := newWorld(t, nil)
	w.resources()
	mark := w.s.NewMark("pve1,pve2", theVM)
	if !mark.Leased || !w.s.IsOurs(mark) || mark.User != "terraform@pve" || w.s.IsToRenew(mark) || mark.Process != w.s.Process {
		t.Errorf("%+v", mark)
	}
	mark.Deadline = mark.Deadline.Add(-Lease/2 - time.Second)
	if !w.s.IsToRenew(mark) || w.s.IsToRenew(w.s.Renewed(mark)) {
		t.Errorf("a lease that ends soon is not renewed: %+v", mark)
	}
	if back, ok := ParseMark(mark.String()); !ok || back != mark {
		t.Errorf("%q reads back as %+v", mark, back)
	}
}
