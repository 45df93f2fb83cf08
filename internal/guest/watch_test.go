package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// refuse has the server refuse a look, so often; -1: always.
func (w *world) refuse(path string, times ...int) {
	n := -1
	if len(times) > 0 {
		n = times[0]
	}
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", Path: path}, Phase: fault.Before, Status: 500, Reason: "no", Times: n}})
}

// task has a task of another user run on pve1 for so long.
func (w *world) task(typ string, id int, takes time.Duration) {
	const key = "UPID:pve1:00001000:00002000:"
	upid := fmt.Sprintf("%s%08X:%s:%d:other@pve:", key, time.Now().Unix(), typ, id)
	w.change(func(all *state.World) {
		all.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: typ, ID: fmt.Sprint(id), User: "other@pve", Start: all.Clock.Now(), Running: true}
	})
	go func() {
		time.Sleep(takes)
		w.change(func(all *state.World) {
			task := all.Tasks[upid]
			task.Running, task.End, task.ExitStatus = false, all.Clock.Now(), "OK"
		})
	}()
}

// TestWatch: a run of which only the server can tell is dead one lease after the watch began, unless it shows a sign of
// life. It does not matter which time it is anywhere.
func TestWatch(t *testing.T) {
	const pause = 10 * time.Second
	for name, c := range map[string]struct {
		life    Life
		by      string // of the mark, with the VMID 9000 as its source
		user    string // of the mark
		task    string
		happens func(w *world, mark ownership.Mark)
		want    Life
		from    time.Duration // it takes at least that, and at most a pause more
		says    string
		fails   pve.Kind
	}{
		"a process that lives":      {life: Alive, want: Alive},
		"a process that has ended":  {life: Dead, want: Dead},
		"quiet":                     {want: Dead, from: Lease},
		"it renews its mark":        {want: Alive, from: 65 * time.Second, happens: later(65*time.Second, func(g *state.Guest, m ownership.Mark) { m.Renewed++; g.Config["description"] = m.String() })},
		"it renews it at the end":   {want: Alive, from: Lease - time.Second, happens: later(Lease-time.Second, func(g *state.Guest, m ownership.Mark) { m.Renewed++; g.Config["description"] = m.String() })},
		"it commits":                {want: Alive, from: 30 * time.Second, happens: later(30*time.Second, func(g *state.Guest, _ ownership.Mark) { g.Config["description"] = "web" })},
		"it commits without a text": {want: Alive, from: 30 * time.Second, happens: later(30*time.Second, func(g *state.Guest, _ ownership.Mark) { delete(g.Config, "description") })},
		"another run takes it over": {want: Alive, from: 30 * time.Second, happens: later(30*time.Second, func(g *state.Guest, m ownership.Mark) {
			m.Saga = "fedcba9876543210"
			g.Config["description"] = m.String()
		})},
		"its options change":       {want: Dead, from: Lease, happens: later(30*time.Second, func(g *state.Guest, _ ownership.Mark) { g.Config["memory"] = "1024" })},
		"it moves to another node": {from: 30 * time.Second, fails: pve.NotFound, happens: later(30*time.Second, func(g *state.Guest, _ ownership.Mark) { g.Node = "pve2" })},
		"it is removed": {from: 30 * time.Second, fails: pve.NotFound, happens: func(w *world, _ ownership.Mark) {
			w.after(30*time.Second, func(all *state.World) { delete(all.Guests, theVM) })
		}},
		"its task runs":                  {want: Dead, from: 3 * Lease, happens: func(w *world, _ ownership.Mark) { w.task("qmstart", theVM, 2*Lease+time.Second) }},
		"its task has ended":             {want: Dead, from: Lease, happens: func(w *world, _ ownership.Mark) { w.task("resize", theVM, Lease/2) }},
		"a console is open":              {want: Dead, from: Lease, happens: func(w *world, _ ownership.Mark) { w.task("vncproxy", theVM, time.Hour) }},
		"another VM's task runs":         {want: Dead, from: Lease, happens: func(w *world, _ ownership.Mark) { w.task("qmstart", 4000, time.Hour) }},
		"its clone may run":              {by: "qmclone", want: Dead, from: 2 * Lease, happens: func(w *world, _ ownership.Mark) { w.task("qmclone", 9000, Lease+time.Second) }},
		"its clone has ended, as known":  {by: "qmclone", task: "UPID:x", want: Dead, from: Lease, happens: func(w *world, _ ownership.Mark) { w.task("qmclone", 9000, time.Hour) }},
		"a clone of another source runs": {by: "qmclone", want: Dead, from: Lease, happens: func(w *world, _ ownership.Mark) { w.task("qmclone", 9001, time.Hour) }},
		"a clone runs, of a VM made":     {want: Dead, from: Lease, happens: func(w *world, _ ownership.Mark) { w.task("qmclone", 9000, time.Hour) }},
		"three looks fail":               {want: Dead, from: Lease, happens: func(w *world, _ ownership.Mark) { w.refuse("/nodes/{node}/qemu/{vmid}/config", 3) }},
		"no look succeeds":               {from: Lease, says: "no", happens: func(w *world, _ ownership.Mark) { w.refuse("/nodes/{node}/qemu/{vmid}/config") }},
		"another identity's":             {user: "other@pve", want: Dead, from: Lease},
		"its own, without Sys.Audit":     {want: Dead, from: Lease, happens: func(w *world, _ ownership.Mark) { w.withoutSysAudit() }},
		"another identity's, whose tasks are not seen": {user: "other@pve", from: Lease,
			says: "the tasks of other users on node pve1 cannot be seen without Sys.Audit on /nodes/pve1", happens: func(w *world, _ ownership.Mark) { w.withoutSysAudit() }},
		"tasks cannot be listed": {from: Lease, says: "no", happens: func(w *world, _ ownership.Mark) { w.refuse("/nodes/{node}/tasks") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, nil)
				mark := aMark()
				mark.User = cmp.Or(c.user, mark.User)
				if mark.Task = c.task; c.by != "" {
					mark.By, mark.Source = c.by, 9000
				}
				w.describe(mark)
				if c.happens != nil {
					c.happens(w, mark)
				}
				began := time.Now()
				life, err := w.s.Watch(t.Context(), pve.Resource{Node: "pve1", VMID: theVM}, mark, c.life)
				took := time.Since(began)
				if life != c.want || (err != nil) != (c.fails != 0 || c.says != "") || c.fails != 0 && !pve.IsKind(err, c.fails) {
					t.Errorf("%d, %v", life, err)
				}
				mustSay(t, name, err, c.says)
				if took < c.from || took > c.from+2*pause {
					t.Errorf("it took %s, want %s", took, c.from)
				}
				if c.life != Unsure && len(w.asked()) > 0 {
					t.Errorf("it asks %q", w.asked())
				}
				time.Sleep(2 * time.Hour) // until all that happens has happened
			})
		})
	}
}

// after changes the cluster in a while.
func (w *world) after(d time.Duration, f func(*state.World)) {
	go func() {
		time.Sleep(d)
		w.change(f)
	}()
}

// later changes the VM in a while.
func later(d time.Duration, f func(*state.Guest, ownership.Mark)) func(*world, ownership.Mark) {
	return func(w *world, mark ownership.Mark) {
		w.after(d, func(all *state.World) { f(all.Guests[theVM], mark) })
	}
}

// TestWatchEndsWithItsContext: a user who interrupts Terraform does not wait for the lease.
func TestWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, nil)
		w.describe(aMark())
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		began := time.Now()
		life, err := w.s.Watch(ctx, pve.Resource{Node: "pve1", VMID: theVM}, aMark(), Unsure)
		if life != Unsure || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 25*time.Second {
			t.Errorf("%d, %v, after %s", life, err, time.Since(began))
		}
	})
}

// TestAdoptWatches: an import of a VM that a run elsewhere is making sees that it lives.
func TestAdoptWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, nil)
		w.describe(aMark())
		later(time.Minute, func(g *state.Guest, m ownership.Mark) { m.Renewed++; g.Config["description"] = m.String() })(w, aMark())
		_, err := w.s.Adopt(t.Context(), "", theVM)
		mustSay(t, "a run that lives", err, "VM 400 on node pve1 is not complete: transaction 0123456789abcdef of this provider is creating it")
		began := time.Now()
		if g, err := w.s.Adopt(t.Context(), "", theVM); err != nil || !g.IsUnfinished() || time.Since(began) < Lease {
			t.Errorf("after its death: %+v, %v, after %s", g, err, time.Since(began))
		}
		w.refuse("/nodes/{node}/tasks")
		_, err = w.s.Adopt(t.Context(), "", theVM)
		mustSay(t, "a run of which nothing is known", err, "is not complete", "list the tasks of node pve1")
	})
}
