package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty/act"
)

// thirdPartyRig has one VM of the client's, 100, with two disks and a cloud-init drive; all else is third parties'.
func thirdPartyRig(t *testing.T) *rig {
	t.Helper()
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) { w.MarkThirdParties() })
	g.steps([]step{{"", "POST", "/qemu",
		"vmid=100&name=ours&scsi0=local-lvm:1&scsi1=local-lvm:2&ide2=local-lvm:cloudinit&description=mark", "OK"}})
	return g
}

func (g *rig) visit(o thirdparty.Order) thirdparty.Report {
	g.t.Helper()
	d, err := g.s.Act(o)
	if err != nil {
		g.t.Fatal(err)
	}
	return d
}

func (g *rig) export() (doc []byte) {
	g.s.Do(func(w *state.World) { doc = w.ExportThirdParties() })
	return doc
}

// configOf is an option of a guest.
func configOf(id int, k string) func(*state.World) string {
	return func(w *state.World) string {
		if w.Guests[id] == nil {
			return "no guest"
		}
		return w.Guests[id].Config[k]
	}
}

// actCase is an act with its effect.
type actCase struct {
	first []thirdparty.Act // done before, as far as it goes
	order thirdparty.Order
	look  func(*state.World) string
	want  string
	why   string // it cannot be done
	ours  bool   // nothing of the third party's is new
}

// clusterActCases are those of the cluster's jobs and daemons.
func clusterActCases() []actCase {
	conf := configOf
	const his = act.FirstID
	return []actCase{
		{order: thirdparty.Order{Act: thirdparty.Rescan}, why: "no volume to be found"},
		{first: []thirdparty.Act{thirdparty.Plant}, order: thirdparty.Order{Act: thirdparty.Rescan},
			look: conf(100, "unused0"), want: "local-lvm:vm-100-disk-2", ours: true},
		{order: thirdparty.Order{Act: thirdparty.BackupRun}, look: running(100), want: "true", ours: true},
		{first: []thirdparty.Act{thirdparty.Start}, order: thirdparty.Order{Act: thirdparty.BackupRun},
			why: "not started for a backup"},
		{order: thirdparty.Order{Act: thirdparty.HAMove}, why: "no such resource 'vm:100'"},
		{first: []thirdparty.Act{thirdparty.AddHA}, order: thirdparty.Order{Act: thirdparty.HAMove},
			look: func(w *state.World) string { return w.HA["vm:100"].Command.Node }, want: "pve2", ours: true},
		{order: thirdparty.Order{Act: thirdparty.Imitate}, look: conf(his, "description"), want: "mark"},
		{order: thirdparty.Order{Act: thirdparty.RotateLogs},
			look: func(w *state.World) string { return fmt.Sprint(len(w.Tasks)) }, want: "0", ours: true},
	}
}

// TestThirdPartyActs: every act does what it says, once PVE would allow it. Its products are the third party's;
// everything else stays as it is.
func TestThirdPartyActs(t *testing.T) {
	conf := configOf
	const his = act.FirstID
	for _, c := range append(clusterActCases(), []actCase{
		{order: thirdparty.Order{Act: thirdparty.TakeID, VMID: 101}, look: conf(101, "name"), want: "rival"},
		{order: thirdparty.Order{Act: thirdparty.TakeID, VMID: 100}, why: "File exists"},
		{order: thirdparty.Order{Act: thirdparty.MakeID, VMID: 101}, look: conf(101, "lock"), want: "create"},
		{order: thirdparty.Order{Act: thirdparty.TakeName}, look: conf(his, "name"), want: "ours"},
		{order: thirdparty.Order{Act: thirdparty.Attach}, look: conf(his, "scsi7"), want: "local-lvm:vm-100-disk-0,size=1G"},
		{order: thirdparty.Order{Act: thirdparty.AttachContainer}, look: conf(his, "mp0"),
			want: "local-lvm:vm-100-disk-0,mp=/srv,size=1G"},
		{order: thirdparty.Order{Act: thirdparty.Plant}, look: volumeData("local-lvm:vm-100-disk-2"),
			want: "the third party's data"},
		{order: thirdparty.Order{Act: thirdparty.Plant, VMID: 300}, look: volumeData("local:300/vm-300-disk-0.raw"),
			want: "the third party's data"},
		{order: thirdparty.Order{Act: thirdparty.GiveDisk}, look: volumeData("local-lvm:vm-100-disk-2"),
			want: "the third party's data"},
		{order: thirdparty.Order{Act: thirdparty.GiveDisk, Storage: "local-zfs"}, look: conf(100, "scsi29"),
			want: "local-zfs:vm-100-disk-0,size=1G"},
		{order: thirdparty.Order{Act: thirdparty.Lock}, look: conf(100, "lock"), want: "backup", ours: true},
		{order: thirdparty.Order{Act: thirdparty.StaleLock, Lock: "clone"}, look: conf(100, "lock"), want: "clone",
			ours: true},
		{first: []thirdparty.Act{thirdparty.Lock}, order: thirdparty.Order{Act: thirdparty.StaleLock},
			why: "VM is locked (backup)"},
		{first: []thirdparty.Act{thirdparty.StaleLock}, order: thirdparty.Order{Act: thirdparty.Unlock},
			look: conf(100, "lock"), want: "", ours: true},
		{order: thirdparty.Order{Act: thirdparty.Unlock}, why: "has no lock"},
		{order: thirdparty.Order{Act: thirdparty.Snapshot}, look: conf(100, "parent"), want: "thirdparty1", ours: true},
		{order: thirdparty.Order{Act: thirdparty.Rollback}, why: "has no snapshot"},
		{first: []thirdparty.Act{thirdparty.Snapshot, thirdparty.Rename}, order: thirdparty.Order{Act: thirdparty.Rollback},
			look: conf(100, "name"), want: "ours", ours: true},
		{order: thirdparty.Order{Act: thirdparty.Backup}, look: volumes("backup"), want: "1 of 100"},
		{order: thirdparty.Order{Act: thirdparty.Restore}, why: "no backup of 100"},
		{first: []thirdparty.Act{thirdparty.Backup, thirdparty.Rename}, order: thirdparty.Order{Act: thirdparty.Restore},
			look: conf(100, "name"), want: "ours", ours: true},
		{first: []thirdparty.Act{thirdparty.Backup, thirdparty.Delete},
			order: thirdparty.Order{Act: thirdparty.Restore, VMID: 100}, look: conf(100,
				"description"), want: "mark", ours: true},
		{order: thirdparty.Order{Act: thirdparty.RestoreHis}, look: conf(100, "name"), want: "rival"},
		{first: []thirdparty.Act{thirdparty.Backup}, order: thirdparty.Order{Act: thirdparty.RestoreAside},
			look: conf(his, "description"), want: "mark"},
		{order: thirdparty.Order{Act: thirdparty.Clone}, look: conf(his, "description"), want: "mark"},
		{order: thirdparty.Order{Act: thirdparty.Rename, Name: "other"}, look: conf(100, "name"), want: "other", ours: true},
		{order: thirdparty.Order{Act: thirdparty.Describe}, look: conf(100, "description"),
			want: "a third party looks after this one", ours: true},
		{order: thirdparty.Order{Act: thirdparty.Migrate}, look: func(w *state.World) string { return w.Guests[100].Node },
			want: "pve2", ours: true},
		{order: thirdparty.Order{Act: thirdparty.Migrate, Node: "pve1"}, why: "local node"},
		{order: thirdparty.Order{Act: thirdparty.Resize}, look: conf(100, "scsi0"), want: "local-lvm:vm-100-disk-0,size=2G",
			ours: true},
		{order: thirdparty.Order{Act: thirdparty.Detach}, look: conf(100, "unused0"), want: "local-lvm:vm-100-disk-0",
			ours: true},
		{order: thirdparty.Order{Act: thirdparty.Start}, look: running(100), want: "true", ours: true},
		{first: []thirdparty.Act{thirdparty.Start}, order: thirdparty.Order{Act: thirdparty.Stop}, look: running(100),
			want: "false", ours: true},
		{first: []thirdparty.Act{thirdparty.Start}, order: thirdparty.Order{Act: thirdparty.Delete, VMID: 100},
			look: conf(100, "name"), want: "no guest", ours: true},
		{order: thirdparty.Order{Act: thirdparty.AddHA}, look: func(w *state.World) string { return w.HA["vm:100"].State },
			want: "started", ours: true},
		{order: thirdparty.Order{Act: thirdparty.AddPool}, look: func(w *state.World) string { return w.PoolOf(100) },
			want: "third-parties"},
		{order: thirdparty.Order{Act: thirdparty.Fill}, look: full("local-lvm"), want: "no room"},
		{order: thirdparty.Order{Act: thirdparty.Fill, Storage: "local-zfs"}, look: full("local-zfs"), want: "no room"},
		{order: thirdparty.Order{Act: thirdparty.StorageOffline},
			look: func(w *state.World) string { return fmt.Sprint(w.Storages["local-lvm"].Offline) }, want: "true", ours: true},
		{order: thirdparty.Order{Act: thirdparty.NodeOffline},
			look: func(w *state.World) string { return fmt.Sprint(w.Nodes["pve1"].Online) }, want: "false", ours: true},
		{first: []thirdparty.Act{thirdparty.Start}, order: thirdparty.Order{Act: thirdparty.NodeCrash}, look: running(100),
			want: "false", ours: true},
	}...) {
		t.Run(fmt.Sprintf("%s %d", c.order.Act, c.order.VMID), func(t *testing.T) {
			g := thirdPartyRig(t)
			for _, act := range c.first {
				if d := g.visit(thirdparty.Order{Act: act}); !d.Done {
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
				t.Errorf("things of third parties changed: %v\n%s\n%s", !c.ours, d.Was, d.Is)
			}
			if c.ours {
				return
			}
			for _, op := range []string{"PUT /config?name=mine&delete=scsi1,unused0", "DELETE ?destroy-unreferenced-disks=0"} {
				verb, rest, _ := strings.Cut(op, " ")
				g.do("root@pam!tf", verb, "/nodes/pve1/qemu/100"+strings.Split(rest, "?")[0], strings.Split(rest, "?")[1])
			}
			changed := !bytes.Equal(d.Is, g.export())
			if hurts := strings.Contains("attach attach_container give_disk restore_his", string(c.order.Act)); changed != hurts {
				t.Errorf("destroying the client's VM changed something of the third party's: %v\n%s\n%s", changed, d.Is, g.export())
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

// TestOrdersAreCarriedOutOnce: orders are carried out before the operations that they name, once each, the same way
// every time.
func TestOrdersAreCarriedOutOnce(t *testing.T) {
	var runs []string
	for range 2 {
		g := thirdPartyRig(t)
		g.s.ResetOps()
		if err := g.s.ThirdParties().Put([]thirdparty.Order{
			{Act: thirdparty.TakeName, Before: fault.Match{Seq: 1}},
			{Act: thirdparty.TakeID, Before: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu", Nth: 2}},
			{Act: thirdparty.Describe, Before: fault.Match{Method: "PUT"}},
			{Act: thirdparty.Delete, Before: fault.Match{Method: "PUT"}},
			{Act: thirdparty.Rename, Before: fault.Match{Seq: 99}},
		}); err != nil {
			t.Fatal(err)
		}
		g.steps([]step{
			{"", "POST", "/qemu", "vmid=200", "OK"},
			{"", "POST", "/qemu", "vmid=201", "unable to create VM 201 - VM 201 already exists on node 'pve1'"},
			{"", "PUT", "/qemu/200/config", "cores=2", "Configuration file 'nodes/pve1/qemu-server/200.conf' does not exist"},
		})
		var got []string
		for _, d := range g.s.ThirdParties().Reports() {
			got = append(got, fmt.Sprintf("%d %s about %d made %d: %v", d.Seq, d.Act, d.About, d.Made, d.Done))
		}
		want := "1 take_name about 100 made 990001: true, 2 take_id about 100 made 201: true, 3 describe about 200 made " +
			"0: true, 3 delete about 200 made 0: true"
		if strings.Join(got, ", ") != want {
			t.Errorf("reports:\n%s\nwant\n%s", strings.Join(got, ", "), want)
		}
		runs = append(runs, string(g.export()))
	}
	if runs[0] != runs[1] {
		t.Errorf("two runs differ:\n%s\n%s", runs[0], runs[1])
	}
}

// TestThirdPartyLocks: it is found out that a third party's lock was taken away or its task ended. The regular end of
// the task is no such thing.
func TestThirdPartyLocks(t *testing.T) {
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
			g := thirdPartyRig(t)
			d := g.visit(thirdparty.Order{Act: thirdparty.Lock, ForMS: 60_000})
			c.do(g)
			if same := bytes.Equal(d.Is, g.export()); same == c.broken {
				t.Errorf("same: %v\n%s", same, g.export())
			}
		})
	}
}

func TestOrdersAreChecked(t *testing.T) {
	var s thirdparty.Set
	for _, o := range []thirdparty.Order{{}, {Act: "juggle"}, {Act: thirdparty.Lock, ForMS: -1},
		{Act: thirdparty.Lock, VMID: -1}} {
		if s.Put([]thirdparty.Order{o}) == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	for _, name := range thirdparty.Acts() {
		if act.Table()[name] == nil {
			t.Errorf("act %s is not implemented", name)
		}
	}
	if len(act.Table()) != len(thirdparty.Acts()) {
		t.Errorf("%d acts, %d names", len(act.Table()), len(thirdparty.Acts()))
	}
}
