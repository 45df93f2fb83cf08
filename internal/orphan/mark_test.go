package orphan

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// where is the process that a mark names.
type where int

const (
	overHere  where = iota // it ended on this host
	elsewhere              // it is on another host
	isAtWork               // it is this one
)

// marked has PVE make VM 300 as a create of such a process does, and says which mark it bears.
func (r *rig) marked(w where, change func(*ownership.Mark)) ownership.Mark {
	r.t.Helper()
	mark := r.s.guests.NewMark("pve1,pve2", 300)
	fields := strings.Fields(mark.Process)
	if len(fields) != 5 {
		r.t.Skipf("this system does not tell its processes apart: %q", mark.Process)
	}
	switch w {
	case overHere:
		fields[4] = "1" // its id, used again
	case elsewhere:
		fields[0] = "elsewhere"
	}
	mark.Process = strings.Join(fields, " ")
	if change != nil {
		change(&mark)
	}
	mark = r.s.guests.Sign(mark)
	r.make(pve.Params{"vmid": "300", "name": "x", "scsi0": "local-zfs:1", "description": mark.String()})
	return mark
}

// describe puts a mark into VM 300 behind everybody's back.
func (r *rig) describe(mark ownership.Mark) {
	r.change(func(w *state.World) { w.Guests[300].Config["description"] = mark.String() })
}

// act lets a third party do something with VM 300.
func (r *rig) act(act thirdparty.Act) {
	r.t.Helper()
	if report := r.sim.ThirdParty(thirdparty.Order{Act: act, VMID: 300}); !report.Done {
		r.t.Fatalf("%s was refused: %s", act, report.Why)
	}
}

// markedRow is one VM with the mark of a create.
type markedRow struct {
	where   where
	mark    func(*ownership.Mark)
	happens func(r *rig, mark ownership.Mark)
	want    string // what is found; "" for nothing
	says    string
	misses  []string
}

func markedRows() map[string]markedRow {
	const certain, likely, unknown = "expired_create 300 certain ", "expired_create 300 likely ", "expired_create 300 unknown"
	const destroy = "qm destroy 300 --purge"
	option := func(name, value string) func(*rig, ownership.Mark) {
		return func(r *rig, _ ownership.Mark) {
			r.change(func(w *state.World) { w.Guests[300].Config[name] = value })
		}
	}
	act := func(act thirdparty.Act) func(*rig, ownership.Mark) {
		return func(r *rig, _ ownership.Mark) { r.later(5 * time.Second); r.act(act) }
	}
	runs := func(r *rig, _ ownership.Mark) {
		r.change(func(w *state.World) {
			g := w.Guests[300]
			g.Running = &state.Running{QMPStatus: "running", StartedAt: w.Clock.Now(), Booted: maps.Clone(g.Config), PID: 4000}
		})
	}
	starts := func(r *rig, _ ownership.Mark) {
		upid, err := r.api.QEMU("pve1", 300).Start(r.t.Context(), pve.Params{})
		r.ended(upid, err)
		r.later(20 * time.Hour)
	}
	startsAndStops := func(r *rig, _ ownership.Mark) { r.startAndStop(300) }
	dies := func(r *rig, _ ownership.Mark) { // the task that made the disk
		r.sim.StaleLock(300, "create", "terraform@pve!prov")
		r.change(func(w *state.World) {
			for _, t := range w.Tasks {
				if t.Type == "qmcreate" {
					t.Log = []string{"scsi0: successfully created disk 'local-zfs:vm-300-disk-0,size=1G'"}
				}
			}
		})
	}
	adds := func(r *rig, _ ownership.Mark) { r.sets(pve.Params{"scsi1": "local-zfs:1"}) }
	converted := func(r *rig, _ ownership.Mark) {
		upid, err := r.api.QEMU("pve1", 300).ConvertToTemplate(r.t.Context())
		r.ended(upid, err)
	}
	used := func(r *rig, _ ownership.Mark) {
		guestThat(600, "qemu", map[string]string{"unused0": "local-zfs:vm-300-disk-0"})(r)
	}
	return map[string]markedRow{
		"its process has ended":               {want: certain + destroy, says: "the process of that run is gone"},
		"its run is elsewhere":                {where: elsewhere, want: likely + destroy, says: "is only seen by watching it for 2m0s"},
		"its process is not told":             {mark: func(m *ownership.Mark) { m.Process = "" }, want: likely + destroy, says: "is only seen by watching it"},
		"its process is at work":              {where: isAtWork},
		"it is to be kept":                    {mark: func(m *ownership.Mark) { m.Kept = true }},
		"it is to be kept, elsewhere":         {where: elsewhere, mark: func(m *ownership.Mark) { m.Kept = true }},
		"of another VM":                       {mark: func(m *ownership.Mark) { m.VMID = 301 }},
		"of another cluster":                  {mark: func(m *ownership.Mark) { m.Cluster = "pve9" }},
		"of an earlier release":               {happens: option("description", "Terraform is creating this VM. Do not touch it.\n\ncluster: pve1,pve2\nvmid: 300\ntransaction: 0123456789abcdef\nlease: 2026-01-01T00:00:00Z")},
		"it is protected":                     {happens: option("protection", "1"), want: unknown, says: "it is protected, and neither its create nor its source"},
		"it runs":                             {happens: runs, want: likely + "qm stop 300 && " + destroy, says: "its guest has run for "},
		"it runs, elsewhere":                  {where: elsewhere, happens: runs, want: likely + "qm stop 300 && " + destroy, says: "only seen by watching it"},
		"its run has started it":              {happens: starts, want: likely + "qm stop 300 && " + destroy, says: "its guest has run for 20h0m"},
		"and it is off by then":               {happens: startsAndStops, want: likely + destroy, says: "is off, and a user may work with its disks"},
		"its disk is another guest's":         {happens: used, want: unknown, says: "also used by VM 600"},
		"its disk is another's, elsewhere":    {where: elsewhere, happens: used, want: unknown, says: "also used by VM 600"},
		"with a disk of a rescan":             {happens: option("unused0", "local-lvm:vm-300-disk-77"), want: unknown, says: "has not made (local-lvm:vm-300-disk-77)"},
		"with a disk of a third party":        {happens: option("scsi5", "local-lvm:vm-300-disk-77,size=1G"), want: unknown, says: "no task of its create says that it has made them (local-lvm:vm-300-disk-77)"},
		"with a disk from elsewhere":          {where: elsewhere, happens: option("scsi5", "local-lvm:vm-300-disk-77,size=1G"), want: unknown, says: "no task of its create"},
		"with a disk that its run added":      {happens: adds, want: certain + destroy, says: "takes its volumes along: local-zfs:vm-300-disk-0, local-zfs:vm-300-disk-1"},
		"converted to a template":             {happens: converted, want: certain + destroy},
		"with snapshots":                      {happens: act(thirdparty.Snapshot), want: unknown, says: "it has snapshots"},
		"started by a user":                   {happens: act(thirdparty.Start), want: unknown, says: "thirdparty@pve has begun qmstart on it since"},
		"restored by a user":                  {happens: func(r *rig, m ownership.Mark) { act(thirdparty.Backup)(r, m); act(thirdparty.Restore)(r, m) }, want: unknown, says: "of thirdparty@pve has made it"},
		"forged":                              {happens: func(r *rig, m ownership.Mark) { r.describe(m.Sign([]byte("guessed"))) }, want: unknown, says: "not signed with the secret"},
		"unsigned, elsewhere":                 {where: elsewhere, happens: func(r *rig, m ownership.Mark) { m.Renewed++; r.describe(m) }, want: unknown, says: "not signed with the secret"},
		"read by another identity":            {happens: func(r *rig, _ ownership.Mark) { r.as(r.sim.Credentials().RootToken) }, want: unknown, says: "its mark is of terraform@pve!prov"},
		"another VM with its description":     {mark: func(m *ownership.Mark) { m.UUID = "11111111-2222-3333-4444-000000000300" }, want: unknown, says: "and it has the uuid"},
		"made the day before yesterday":       {happens: func(r *rig, _ ownership.Mark) { r.later(48 * time.Hour) }, want: unknown, says: "it was made 48h"},
		"whose task is in no list":            {happens: func(r *rig, _ ownership.Mark) { r.change(func(w *state.World) { clear(w.Tasks) }) }, want: unknown, says: "not in PVE's task lists"},
		"locked by a task that died":          {happens: dies, want: certain + "qm unlock 300 && " + destroy},
		"locked, elsewhere":                   {where: elsewhere, happens: dies, want: likely + "qm unlock 300 && " + destroy},
		"locked by an unknown task":           {happens: func(r *rig, _ ownership.Mark) { r.sim.StaleLock(300, "create", "") }, want: unknown, says: "no task that died over it is known"},
		"locked by a backup that died":        {happens: func(r *rig, _ ownership.Mark) { r.sim.StaleLock(300, "backup", "root@pam") }, want: unknown, says: "is locked (backup)"},
		"a task is at work on it":             {happens: func(r *rig, _ ownership.Mark) { r.sim.HoldLock(300, "create", time.Hour, "terraform@pve!prov") }},
		"whose tasks cannot be seen":          {happens: func(r *rig, _ ownership.Mark) { r.without("Sys.Audit") }, want: unknown, says: "without Sys.Audit on /nodes/pve1", misses: []string{"HA", "permissions", "pools", "guests that are not listed"}},
		"while a node is away":                {happens: func(r *rig, _ ownership.Mark) { r.sim.SetNode("pve2", false); r.later(time.Minute) }, want: unknown, says: "another user may have made it", misses: []string{"node pve2: it is not online"}},
		"damaged, which may be a user's text": {happens: func(r *rig, m ownership.Mark) { m.Key = "x"; r.describe(m) }},
	}
}

// TestOrphansWithTheMarkOfACreate: it is certain that a VM with the mark of a create is left over if its process has
// ended here, and likely if its run is elsewhere; without all of the evidence that this identity has made it, and that no
// user needs it, it is unknown.
func TestOrphansWithTheMarkOfACreate(t *testing.T) {
	t.Parallel()
	for name, c := range markedRows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			mark := r.marked(c.where, c.mark)
			if c.happens != nil {
				c.happens(r, mark)
			}
			report := r.find()
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			r.mustFind(name, report, want...)
			r.mustMiss(name, report, c.misses...)
			if len(report.Items) > 0 && (!strings.Contains(report.Items[0].Reason, c.says) || report.Items[0].Size < 1<<30) {
				t.Errorf("%+v", report.Items[0])
			}
		})
	}
}

// TestOrphanDeleteWatches: an orphan whose run is elsewhere is watched for a lease before it is removed. A sign of life of
// the run, or a user who comes meanwhile, spares it.
func TestOrphanDeleteWatches(t *testing.T) {
	in := func(d time.Duration, f func(*rig, ownership.Mark)) func(*rig, ownership.Mark) {
		return func(r *rig, mark ownership.Mark) {
			go func() {
				time.Sleep(d)
				f(r, mark)
			}()
		}
	}
	runs := func(r *rig, _ ownership.Mark) {
		upid, err := r.api.QEMU("pve1", 300).Start(r.t.Context(), pve.Params{})
		r.ended(upid, err)
		time.Sleep(20 * time.Hour)
	}
	renews := func(r *rig, mark ownership.Mark) { r.describe(r.s.guests.Renewed(mark)) }
	for name, c := range map[string]struct {
		where   where
		accept  Certainty
		happens func(*rig, ownership.Mark)
		takes   time.Duration
		says    string // in the error; "" if it is removed
	}{
		"its process has ended":            {accept: Certain},
		"its run is elsewhere":             {where: elsewhere, accept: Likely, takes: guest.Lease},
		"its guest runs":                   {accept: Certain, happens: runs, says: "its guest has run for 20h0m"},
		"its guest runs, and likely goes":  {accept: Likely, happens: runs},
		"elsewhere, and likely is refused": {where: elsewhere, accept: Certain, says: "It is not certain that nothing needs it"},
		"it renews its mark":               {where: elsewhere, accept: Likely, takes: time.Minute, happens: in(time.Minute, renews), says: "lives: it has shown so while it was watched"},
		"it commits": {where: elsewhere, accept: Likely, takes: time.Minute, says: "lives: it has shown so",
			happens: in(time.Minute, func(r *rig, _ ownership.Mark) {
				r.change(func(w *state.World) { w.Guests[300].Config["description"] = "web" })
			})},
		"a user starts it": {where: elsewhere, accept: Likely, takes: guest.Lease, says: "has begun qmstart on it since",
			happens: in(time.Minute, func(r *rig, _ ownership.Mark) { r.act(thirdparty.Start) })},
		"a user takes a snapshot of it": {where: elsewhere, accept: Likely, takes: guest.Lease, says: "it has snapshots",
			happens: in(time.Minute, func(r *rig, _ ownership.Mark) { r.act(thirdparty.Snapshot) })},
		"a user attaches its disk": {where: elsewhere, accept: Likely, takes: guest.Lease, says: "also used by",
			happens: in(time.Minute, func(r *rig, _ ownership.Mark) { r.act(thirdparty.Attach) })},
		"it moves": {where: elsewhere, accept: Likely, takes: time.Minute, says: "VM 300",
			happens: in(time.Minute, func(r *rig, _ ownership.Mark) { r.act(thirdparty.Migrate) })},
		"forged": {accept: Likely, says: "It may be in use",
			happens: func(r *rig, m ownership.Mark) { r.describe(m.Sign([]byte("guessed"))) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRigOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1})
				mark := r.marked(c.where, nil)
				time.Sleep(time.Minute)
				if c.happens != nil {
					c.happens(r, mark)
				}
				began := time.Now()
				d := NewDeleter(r.s, destroy.New(r.s.jobs, r.s.guests, nil))
				done, err := d.Delete(t.Context(), Named{Kind: ExpiredCreate, ID: "300"}, c.accept, Options{})
				if took := time.Since(began); took < c.takes || took > c.takes+30*time.Second {
					t.Errorf("it took %s, want %s", took, c.takes)
				}
				is, disk := false, false
				r.change(func(w *state.World) {
					is = w.Guests[300] != nil
					for _, v := range w.Volumes {
						disk = disk || v.VMID == 300
					}
				})
				if kept := c.says != ""; is != kept || disk != kept || (err != nil) != kept || !strings.Contains(fmt.Sprint(err), c.says) && kept {
					t.Errorf("VM %t, disk %t: %q, %v", is, disk, done, err)
				}
			})
		})
	}
}
