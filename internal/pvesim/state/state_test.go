package state

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type still struct{}

func (still) Now() time.Time      { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }
func (still) Sleep(time.Duration) {}

func world() *World {
	w := Default([]string{"pve1", "pve2"})
	w.Clock = still{}
	return w
}

func TestDefaultWorld(t *testing.T) {
	w := world()
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	if again := world(); !bytes.Equal(w.Snapshot(), again.Snapshot()) ||
		w.Tokens["root@pam!tf"].Secret != again.Tokens["root@pam!tf"].Secret {
		t.Error("the same nodes must give the same world")
	}
	for id, want := range map[int]string{9000: "qemu", 8000: "qemu", 8100: "lxc"} {
		if g := w.Guests[id]; g == nil || g.Type != want || g.Node != "pve1" {
			t.Errorf("guest %d: %+v", id, g)
		}
	}
}

func TestSnapshotAndLoadAreAPair(t *testing.T) {
	w := world()
	w.Guests[100] = &Guest{VMID: 100, Type: "qemu", Node: "pve2", Running: &Running{QMPStatus: "paused"},
		Ignores: []string{"unplug"},
		Config: map[string]string{"lock": "backup",
			"scsi0": "local-zfs:vm-100-disk-0,size=1G"}, Pending: map[string]string{"cores": "2"},
		Deletes: map[string]int{"onboot": 1}, Snaps: map[string]map[string]string{"a": {"snaptime": "1"}}, LockCause: "state",
		Agent: &Agent{Silent: true}}
	w.Put(&Volume{Storage: "local-zfs", Node: "pve2", Name: "vm-100-disk-0", Content: "images", VMID: 100, Format: "raw",
		Size: 1 << 30, Busy: "dataset is busy", Snaps: []string{"a"}})
	w.Put(&Volume{Storage: "shared-nfs", Name: "300/vm-300-disk-0.qcow2", Content: "images", VMID: 300, Format: "qcow2",
		Size: 1 << 30})
	w.Firewall[100] = &FirewallFile{Options: map[string]string{"enable": "1"}, Rules: []map[string]string{{"type": "in"}}}
	w.HA["vm:100"] = &HAResource{SID: "vm:100", State: "started"}
	w.Pools["web"].Guests = []int{8000, 100}
	w.Nodes["pve2"].Online = false
	w.Storages["local2"].Disabled = true
	first := w.Snapshot()
	other := Default([]string{"x"})
	other.Clock = still{}
	if err := other.Load(first); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(first), string(other.Snapshot())); diff != "" {
		t.Errorf("post and get differ: %s", diff)
	}
	if g := other.Guests[100]; g.Running.Booted["scsi0"] == "" || g.LockCause != "state" {
		t.Errorf("loaded guest: %+v", g)
	}
}

func TestLoadLeavesOutAndRefuses(t *testing.T) {
	w := world()
	before := string(w.Snapshot())
	if err := w.Load([]byte(`{"pools":[]}`)); err != nil || len(w.Pools) != 0 || len(w.Guests) != 3 {
		t.Errorf("a document with one section: %v, %d pools, %d guests", err, len(w.Pools), len(w.Guests))
	}
	w = world()
	for document, want := range map[string]string{
		`{"guest":[]}`: `unknown field "guest"`,
		`{"guests":[{"vmid":1,"node":"nowhere"}]}`:                                                                                                              `node "nowhere" does not exist`,
		`{"volumes":[{"storage":"none","name":"x"}]}`:                                                                                                           "storage does not exist",
		`{"guests":[{"vmid":1,"node":"pve1"},{"vmid":1,"node":"pve1"}]}`:                                                                                        "1 stands twice",
		`{"volumes":[{"storage":"local-zfs","node":"pve1","name":"foo/bar/baz"}]}`:                                                                              "unable to parse zfs volume name 'foo/bar/baz'",
		`{"volumes":[{"storage":"local-zfs","node":"pve1","name":"vm-1-disk-0","vmid":2,"content":"images"}]}`:                                                  "owner 2, but the name says 1",
		`{"volumes":[{"storage":"local-zfs","node":"pve1","name":"base-9000-disk-0/vm-100-disk-0","vmid":100,"content":"images","parent":"base-9000-disk-0"}]}`: "linked clone without its base",
	} {
		if err := w.Load([]byte(document)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", document, err)
		}
	}
	if diff := cmp.Diff(before, string(w.Snapshot())); diff != "" {
		t.Errorf("a refused document changed the world: %s", diff)
	}
}

func TestAllocate(t *testing.T) {
	w := world()
	alloc := func(storage, name, format string, size int64) string {
		v, err := w.Alloc("pve1", storage, 100, name, format, size)
		if err != nil {
			return err.Error()
		}
		if err := w.Check(); err != nil {
			t.Error(err)
		}
		return v.Volid()
	}
	w.Storages["thick"] = &Storage{ID: "thick", Type: "lvm", Path: "vg0", Content: []string{"images"}, Total: 1 << 30}
	for _, row := range []struct {
		storage, name, format string
		size                  int64
		want                  string
	}{
		{"local-zfs", "", "", gib, "local-zfs:vm-100-disk-0"},
		{"local-zfs", "", "raw", gib, "local-zfs:vm-100-disk-1"},
		{"local-zfs", "vm-100-cloudinit", "raw", 1, "local-zfs:vm-100-cloudinit"},
		{"local-zfs", "vm-100-cloudinit", "raw", 1,
			"zfs error: cannot create 'rpool/data/vm-100-cloudinit': dataset already exists"},
		{"local-zfs", "", "qcow2", 1,
			"unsupported format 'qcow2' at /usr/share/perl5/PVE/Storage/ZFSPoolPlugin.pm line 240."},
		{"local-zfs", "vm-101-disk-0", "raw", 1, "illegal name 'vm-101-disk-0' - should be 'vm-100-*'"},
		{"local2", "", "qcow2", gib, "local2:100/vm-100-disk-0.qcow2"},
		{"local2", "", "raw", gib, "local2:100/vm-100-disk-1.raw"},
		{"local2", "vm-100-cloudinit.qcow2", "qcow2", 1, "local2:100/vm-100-cloudinit.qcow2"},
		{"local2", "vm-100-cloudinit.qcow2", "qcow2", 1,
			"disk image '/var/lib/vz2/images/100/vm-100-cloudinit.qcow2' already exists"},
		{"local-lvm", "vm-100-cloudinit", "raw", 1, "local-lvm:vm-100-cloudinit"},
		{"local-lvm", "vm-100-cloudinit", "raw", 1,
			`lvcreate 'pve/vm-100-cloudinit' error:   Logical Volume "vm-100-cloudinit" already exists in volume group "pve"`},
		{"thick", "", "raw", 2 * gib,
			`lvcreate 'vg0/vm-100-disk-0' error:   Volume group "vg0" has insufficient free space (256 extents): 512 required.`},
		{"nostore", "", "raw", 1, "storage 'nostore' does not exist"},
	} {
		if got := alloc(row.storage, row.name, row.format, row.size); got != row.want {
			t.Errorf("%s %s %s: %q, want %q", row.storage, row.name, row.format, got, row.want)
		}
	}
}

func TestFree(t *testing.T) {
	w := world()
	base := w.Volume("pve1", "local-zfs:base-9000-disk-0")
	if _, err := LinkedClone(w, "pve1", base, 100); err != nil {
		t.Fatal(err)
	}
	if w.Volume("pve1", "local-zfs:base-9000-disk-0/vm-100-disk-0") == nil {
		t.Fatal("no linked clone")
	}
	w.Guests[8000].Running = &Running{Booted: w.Guests[8000].Config}
	for _, row := range []struct{ storage, name, warning, err string }{
		{"local-zfs", "base-9000-disk-0", "", "base volume 'base-9000-disk-0' is still in use by linked clones"},
		{"local-zfs", "base-9000-disk-0/vm-100-disk-0", "", ""},
		{"local-zfs", "base-9000-disk-0", "", ""},
		{"local-zfs", "vm-1-disk-0", "", ""},
		{"local2", "1/vm-1-disk-0.raw", "disk image '/var/lib/vz2/images/1/vm-1-disk-0.raw' does not exist", ""},
		{"local-lvm", "vm-8000-disk-0", "",
			"lvremove 'pve/vm-8000-disk-0' error:   Logical volume pve/vm-8000-disk-0 in use."},
	} {
		warning, err := w.Free("pve1", row.storage, row.name)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if warning != row.warning || text != row.err {
			t.Errorf("%s:%s: %q %q", row.storage, row.name, warning, text)
		}
	}
	if err := w.Check(); err != nil {
		t.Error(err)
	}
}

func TestCheckFindsFaults(t *testing.T) {
	for want, spoil := range map[string]func(w *World){
		"lock create, and nothing says why":  func(w *World) { w.Guests[8000].Config["lock"] = "create" },
		"lock clone of a task that does not": func(w *World) { w.Guests[8000].SetLock("clone", "UPID:x") },
		"a template runs":                    func(w *World) { w.Guests[9000].Running = &Running{} },
		"is filed under 1":                   func(w *World) { w.Guests[1] = w.Guests[8000] },
		`node "pve1", but shared is true`: func(w *World) {
			w.Storages["local2"].Shared = true
			w.Put(&Volume{Storage: "local2", Node: "pve1", Name: "iso/a.iso"})
		},
		`which ended "OK"`: func(w *World) {
			w.Tasks["UPID:y"] = &Task{UPID: "UPID:y", ExitStatus: "OK"}
			w.Guests[8000].SetLock("clone", "UPID:y")
		},
	} {
		w := world()
		spoil(w)
		if err := w.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
