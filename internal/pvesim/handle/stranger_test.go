package handle

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/stranger"
)

// strangersRig has one VM of the client's, 100, with two disks and a cloud-init drive; all else is strangers'.
func strangersRig(t *testing.T) *rig {
	t.Helper()
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) { w.MarkStrangers() })
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&name=ours&scsi0=local-lvm:1&scsi1=local-lvm:2&ide2=local-lvm:cloudinit&description=mark", "OK"}})
	return g
}

func (g *rig) visit(o stranger.Order) stranger.Deed {
	g.t.Helper()
	d, err := g.s.Visit(o)
	if err != nil {
		g.t.Fatal(err)
	}
	return d
}

func (g *rig) export() (doc []byte) {
	g.s.Do(func(w *state.World) { doc = w.StrangersExport() })
	return doc
}

// TestStrangersActs: every act does what it says, once PVE would allow it; what it makes is the stranger's, and what it does not
// touch stays as it is.
func TestStrangersActs(t *testing.T) {
	conf := func(id int, k string) func(*state.World) string {
		return func(w *state.World) string {
			if w.Guests[id] == nil {
				return "no guest"
			}
			return w.Guests[id].Config[k]
		}
	}
	const his = strangersFirstID
	for _, c := range []struct {
		first []stranger.Act // done before, as far as it goes
		order stranger.Order
		look  func(*state.World) string
		want  string
		why   string // it cannot be done
		ours  bool   // nothing of the stranger's is new
	}{
		{order: stranger.Order{Act: stranger.TakeID, VMID: 101}, look: conf(101, "name"), want: "rival"},
		{order: stranger.Order{Act: stranger.TakeID, VMID: 100}, why: "File exists"},
		{order: stranger.Order{Act: stranger.MakeID, VMID: 101}, look: conf(101, "lock"), want: "create"},
		{order: stranger.Order{Act: stranger.TakeName}, look: conf(his, "name"), want: "ours"},
		{order: stranger.Order{Act: stranger.Attach}, look: conf(his, "scsi7"), want: "local-lvm:vm-100-disk-0,size=1G"},
		{order: stranger.Order{Act: stranger.AttachContainer}, look: conf(his, "mp0"), want: "local-lvm:vm-100-disk-0,mp=/srv,size=1G"},
		{order: stranger.Order{Act: stranger.Plant}, look: volumeData("local-lvm:vm-100-disk-2"), want: "the stranger's data"},
		{order: stranger.Order{Act: stranger.Plant, VMID: 300}, look: volumeData("local:300/vm-300-disk-0.raw"), want: "the stranger's data"},
		{order: stranger.Order{Act: stranger.Lock}, look: conf(100, "lock"), want: "backup", ours: true},
		{order: stranger.Order{Act: stranger.StaleLock, Lock: "clone"}, look: conf(100, "lock"), want: "clone", ours: true},
		{first: []stranger.Act{stranger.Lock}, order: stranger.Order{Act: stranger.StaleLock}, why: "VM is locked (backup)"},
		{first: []stranger.Act{stranger.StaleLock}, order: stranger.Order{Act: stranger.Unlock}, look: conf(100, "lock"), want: "", ours: true},
		{order: stranger.Order{Act: stranger.Unlock}, why: "has no lock"},
		{order: stranger.Order{Act: stranger.Snapshot}, look: conf(100, "parent"), want: "stranger1", ours: true},
		{order: stranger.Order{Act: stranger.Rollback}, why: "has no snapshot"},
		{first: []stranger.Act{stranger.Snapshot, stranger.Rename}, order: stranger.Order{Act: stranger.Rollback}, look: conf(100, "name"), want: "ours", ours: true},
		{order: stranger.Order{Act: stranger.Backup}, look: volumes("backup"), want: "1 of 100"},
		{order: stranger.Order{Act: stranger.Restore}, why: "no backup of 100"},
		{first: []stranger.Act{stranger.Backup, stranger.Rename}, order: stranger.Order{Act: stranger.Restore}, look: conf(100, "name"), want: "ours", ours: true},
		{first: []stranger.Act{stranger.Backup, stranger.Delete}, order: stranger.Order{Act: stranger.Restore, VMID: 100}, look: conf(100, "description"), want: "mark", ours: true},
		{order: stranger.Order{Act: stranger.RestoreHis}, look: conf(100, "name"), want: "rival"},
		{first: []stranger.Act{stranger.Backup}, order: stranger.Order{Act: stranger.RestoreAside}, look: conf(his, "description"), want: "mark"},
		{order: stranger.Order{Act: stranger.Clone}, look: conf(his, "description"), want: "mark"},
		{order: stranger.Order{Act: stranger.Rename, Name: "other"}, look: conf(100, "name"), want: "other", ours: true},
		{order: stranger.Order{Act: stranger.Describe}, look: conf(100, "description"), want: "a stranger looks after this one", ours: true},
		{order: stranger.Order{Act: stranger.Migrate}, look: func(w *state.World) string { return w.Guests[100].Node }, want: "pve2", ours: true},
		{order: stranger.Order{Act: stranger.Migrate, Node: "pve1"}, why: "local node"},
		{order: stranger.Order{Act: stranger.Resize}, look: conf(100, "scsi0"), want: "local-lvm:vm-100-disk-0,size=2G", ours: true},
		{order: stranger.Order{Act: stranger.Detach}, look: conf(100, "unused0"), want: "local-lvm:vm-100-disk-0", ours: true},
		{order: stranger.Order{Act: stranger.Start}, look: running(100), want: "true", ours: true},
		{first: []stranger.Act{stranger.Start}, order: stranger.Order{Act: stranger.Stop}, look: running(100), want: "false", ours: true},
		{first: []stranger.Act{stranger.Start}, order: stranger.Order{Act: stranger.Delete, VMID: 100}, look: conf(100, "name"), want: "no guest", ours: true},
		{order: stranger.Order{Act: stranger.AddHA}, look: func(w *state.World) string { return w.HA["vm:100"].State }, want: "started", ours: true},
		{order: stranger.Order{Act: stranger.AddPool}, look: func(w *state.World) string { return w.PoolOf(100) }, want: "strangers"},
		{order: stranger.Order{Act: stranger.Fill}, look: full("local-lvm"), want: "no room"},
		{order: stranger.Order{Act: stranger.Fill, Storage: "local-zfs"}, look: full("local-zfs"), want: "no room"},
		{order: stranger.Order{Act: stranger.StorageOffline}, look: func(w *state.World) string { return fmt.Sprint(w.Storages["local-lvm"].Offline) }, want: "true", ours: true},
		{order: stranger.Order{Act: stranger.NodeOffline}, look: func(w *state.World) string { return fmt.Sprint(w.Nodes["pve1"].Online) }, want: "false", ours: true},
		{first: []stranger.Act{stranger.Start}, order: stranger.Order{Act: stranger.NodeCrash}, look: running(100), want: "false", ours: true},
	} {
		t.Run(fmt.Sprintf("%s %d", c.order.Act, c.order.VMID), func(t *testing.T) {
			g := strangersRig(t)
			for _, act := range c.first {
				if d := g.visit(stranger.Order{Act: act}); !d.Done {
					t.Fatalf("%s: %s", act, d.Why)
				}
			}
			before := g.export()
			d := g.visit(c.order)
			if c.why != "" {
				if d.Done || !strings.Contains(d.Why, c.why) || !bytes.Equal(before, g.export()) {
					t.Fatalf("done %v, why %q", d.Done, d.Why)
				}
				return
			}
			if !d.Done {
				t.Fatalf("not done: %s", d.Why)
			}
			if got := c.look(g.w); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if c.ours != bytes.Equal(d.Was, d.Is) {
				t.Errorf("strangers' things changed: %v\n%s\n%s", !c.ours, d.Was, d.Is)
			}
			if c.ours {
				return
			}
			for _, op := range []string{"PUT /config?name=mine&delete=scsi1,unused0", "DELETE ?destroy-unreferenced-disks=0"} {
				verb, rest, _ := strings.Cut(op, " ")
				g.do("root@pam!tf", verb, "/nodes/pve1/qemu/100"+strings.Split(rest, "?")[0], strings.Split(rest, "?")[1])
			}
			changed := !bytes.Equal(d.Is, g.export())
			if hurts := strings.Contains("attach attach_container restore_his", string(c.order.Act)); changed != hurts {
				t.Errorf("destroying the client's VM changed something of the stranger's: %v\n%s\n%s", changed, d.Is, g.export())
			}
		})
	}
}

func volumeData(volid string) func(*state.World) string {
	return func(w *state.World) string {
		if v := w.Volume("pve1", volid); v != nil {
			return v.Data
		}
		return "no volume"
	}
}

func volumes(content string) func(*state.World) string {
	return func(w *state.World) string {
		var list []string
		for _, v := range w.Volumes {
			if v.Content == content {
				list = append(list, fmt.Sprintf("1 of %d", v.VMID))
			}
		}
		return strings.Join(list, ", ")
	}
}

func running(id int) func(*state.World) string {
	return func(w *state.World) string { return fmt.Sprint(w.Guests[id].Running != nil) }
}

func full(storage string) func(*state.World) string {
	return func(w *state.World) string {
		if _, err := w.Alloc("pve1", storage, 100, "", "", 1<<30); err != nil {
			return "no room"
		}
		return "room"
	}
}

// TestStrangersComeBetween: orders are carried out before the operations that they name, once each, the same way every time.
func TestStrangersComeBetween(t *testing.T) {
	var runs []string
	for range 2 {
		g := strangersRig(t)
		g.s.ResetOps()
		if err := g.s.Strangers().Put([]stranger.Order{
			{Act: stranger.TakeName, Before: fault.Match{Seq: 1}},
			{Act: stranger.TakeID, Before: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu", Nth: 2}},
			{Act: stranger.Describe, Before: fault.Match{Method: "PUT"}},
			{Act: stranger.Delete, Before: fault.Match{Method: "PUT"}},
			{Act: stranger.Rename, Before: fault.Match{Seq: 99}},
		}); err != nil {
			t.Fatal(err)
		}
		g.steps([]step{
			{"", "POST", "/qemu", "vmid=200", "OK"},
			{"", "POST", "/qemu", "vmid=201", "unable to create VM 201 - VM 201 already exists on node 'pve1'"},
			{"", "PUT", "/qemu/200/config", "cores=2", "Configuration file 'nodes/pve1/qemu-server/200.conf' does not exist"},
		})
		var got []string
		for _, d := range g.s.Strangers().Deeds() {
			got = append(got, fmt.Sprintf("%d %s about %d made %d: %v", d.Seq, d.Act, d.About, d.Made, d.Done))
		}
		want := "1 take_name about 100 made 990001: true, 2 take_id about 100 made 201: true, 3 describe about 200 made 0: true, 3 delete about 200 made 0: true"
		if strings.Join(got, ", ") != want {
			t.Errorf("deeds:\n%s\nwant\n%s", strings.Join(got, ", "), want)
		}
		runs = append(runs, string(g.export()))
	}
	if runs[0] != runs[1] {
		t.Errorf("two runs differ:\n%s\n%s", runs[0], runs[1])
	}
}

// TestStrangersLocks: who takes away a lock that a stranger's task holds, or ends that task, is found out, and the end of the task
// is no such thing.
func TestStrangersLocks(t *testing.T) {
	for name, c := range map[string]struct {
		do     func(g *rig)
		broken bool
	}{
		"ends by itself": {do: func(g *rig) { g.pass(2 * time.Minute) }},
		"taken away":     {do: func(g *rig) { g.s.Do(func(w *state.World) { w.Guests[100].SetLock("", "") }) }, broken: true},
		"taken away, and the task has ended since": {do: func(g *rig) {
			g.s.Do(func(w *state.World) { w.Guests[100].SetLock("", "") })
			g.pass(2 * time.Minute)
		}, broken: true},
		"destroyed": {do: func(g *rig) { g.s.Do(func(w *state.World) { delete(w.Guests, 100) }) }, broken: true},
		"task stopped": {do: func(g *rig) {
			list := g.do("root@pam!tf", "GET", "/nodes/pve1/tasks", "source=active").list()
			g.do("root@pam!tf", "DELETE", "/nodes/pve1/tasks/"+list[0]["upid"].(string), "")
		}, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := strangersRig(t)
			d := g.visit(stranger.Order{Act: stranger.Lock, ForMS: 60_000})
			c.do(g)
			if same := bytes.Equal(d.Is, g.export()); same == c.broken {
				t.Errorf("same: %v\n%s", same, g.export())
			}
		})
	}
}

func TestStrangersOrdersAreChecked(t *testing.T) {
	var s stranger.Set
	for _, o := range []stranger.Order{{}, {Act: "juggle"}, {Act: stranger.Lock, ForMS: -1}, {Act: stranger.Lock, VMID: -1}} {
		if s.Put([]stranger.Order{o}) == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	for _, act := range stranger.Acts() {
		if acts()[act] == nil {
			t.Errorf("nobody can do %s", act)
		}
	}
	if len(acts()) != len(stranger.Acts()) {
		t.Errorf("%d acts, %d names", len(acts()), len(stranger.Acts()))
	}
}
