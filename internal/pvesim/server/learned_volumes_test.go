package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// lastLog is the log of the task that was started last.
func (g *rig) lastLog() string {
	g.t.Helper()
	var last *state.Task
	g.s.Do(func(w *state.World) {
		for _, task := range w.Tasks {
			if last == nil || task.Start.After(last.Start) || task.Start.Equal(last.Start) && task.UPID > last.UPID {
				last = task
			}
		}
	})
	if last == nil {
		g.t.Fatal("there is no task")
	}
	lines := []string{}
	for _, line := range g.do("root@pam!tf", "GET", "/nodes/pve1/tasks/"+last.UPID+"/log", "limit=500").list() {
		lines = append(lines, fmt.Sprint(line["t"]))
	}
	return strings.Join(lines, "\n")
}

// logs wants a line of the last task's log.
func (g *rig) logs(want string) {
	g.t.Helper()
	if got := g.lastLog(); !strings.Contains(got, want) {
		g.t.Errorf("the log has no %q:\n%s", want, got)
	}
}

// TestDiskNumbersOfADirectory: a storage of files counts disk numbers over all formats, also btrfs (pve-storage
// Plugin.pm, get_next_vm_diskname).
func TestDiskNumbersOfADirectory(t *testing.T) {
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) {
		w.Storages["local-btrfs"] = &state.Storage{ID: "local-btrfs", Type: "btrfs", Path: "/mnt/b", Total: 100 << 30,
			Content: []string{"images"}}
	})
	for _, storage := range []string{"local2", "local-btrfs"} {
		g.steps([]step{
			{"", "POST", "/qemu", "vmid=100&scsi0=" + storage + ":1,format%3Draw&scsi1=" + storage + ":1,format%3Dqcow2", "OK"},
			{"", "PUT", "/qemu/100/config", "scsi2=" + storage + ":1,format%3Dvmdk", "OK"},
			{"", "POST", "/qemu/100/move_disk", "disk=scsi0&storage=" + storage + "&format=qcow2&delete=1", "OK"},
		})
		c := g.config("100")
		for slot, want := range map[string]string{"scsi0": "vm-100-disk-3.qcow2", "scsi1": "vm-100-disk-1.qcow2",
			"scsi2": "vm-100-disk-2.vmdk"} {
			if got := fmt.Sprint(c[slot]); !strings.HasPrefix(got, storage+":100/"+want+",") {
				t.Errorf("%s of %s is %s, want %s", slot, storage, got, want)
			}
		}
		g.steps([]step{{"", "DELETE", "/qemu/100", "", "OK"}})
	}
}

// TestDriveByThePathOfAFile: PVE makes the id of a volume out of it, but for a raw image of btrfs (qemu-server
// QemuServer.pm cleanup_drive_path).
func TestDriveByThePathOfAFile(t *testing.T) {
	const images = "/mnt/fast/images/100/"
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) {
		w.Storages["fast"] = &state.Storage{ID: "fast", Type: "btrfs", Path: "/mnt/fast", Total: 1 << 40, Content: []string{"images"}}
		orphan(w, "fast", "100/vm-100-disk-7.raw", 100, 1<<30)
		orphan(w, "fast", "100/vm-100-disk-8.qcow2", 100, 1<<30)
	})
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100", "OK"},
		{"", "PUT", "/qemu/100/config", "scsi0=" + images + "vm-100-disk-8.qcow2", "OK"},
		{"", "PUT", "/qemu/100/config", "scsi1=" + images + "vm-100-disk-7/disk.raw",
			"scsi1: unable to associate path '" + images + "vm-100-disk-7/disk.raw' to any storage"},
		{"", "PUT", "/qemu/100/config", "scsi1=" + images + "vm-100-disk-7.raw",
			"scsi1: unable to associate path '" + images + "vm-100-disk-7.raw' to any storage"},
	})
	if got := fmt.Sprint(g.config("100")["scsi0"]); !strings.HasPrefix(got, "fast:100/vm-100-disk-8.qcow2,") {
		t.Errorf("scsi0 is %s", got)
	}
}

// TestContentOfContainers: the guest that a volume's name says decides what it is listed as, not the guest that mounts
// it
// (pve-storage Plugin.pm, list_volumes); who mounts it is in the container's configuration.
func TestContentOfContainers(t *testing.T) {
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) {
		orphan(w, "local-lvm", "vm-8100-disk-7", 8100, 1<<30)
		orphan(w, "local-lvm", "vm-700-disk-0", 700, 1<<30)
		ct := w.Guests[8100]
		ct.Config["mp0"] = "local-lvm:vm-700-disk-0,mp=/data,size=1G"
		ct.Config["unused0"] = "local-lvm:vm-8100-disk-7"
		ct.Snaps = map[string]map[string]string{"before": {"mp1": "local-lvm:vm-700-disk-0,mp=/old",
			"snaptime": "1767225600"}}
	})
	content := func(params string) []string {
		var volids []string
		for _, row := range g.do("root@pam!tf", "GET", "/nodes/pve1/storage/local-lvm/content", params).list() {
			volids = append(volids, fmt.Sprint(row["volid"]))
		}
		return volids
	}
	if got := content("content=images&vmid=8100"); len(got) != 0 {
		t.Errorf("images of a living container: %v", got)
	}
	if got := content("content=rootdir&vmid=8100"); !slices.Contains(got, "local-lvm:vm-8100-disk-7") {
		t.Errorf("rootdir of a living container: %v", got)
	}
	if got := content("content=images&vmid=700"); !slices.Equal(got, []string{"local-lvm:vm-700-disk-0"}) {
		t.Errorf("images of an id that is free: %v", got)
	}
	const lxc = "/nodes/pve1/lxc/8100"
	c := g.do("root@pam!tf", "GET", lxc+"/config", "").object(t)
	if c["mp0"] != "local-lvm:vm-700-disk-0,mp=/data,size=1G" || c["unused0"] != "local-lvm:vm-8100-disk-7" ||
		c["rootfs"] == nil || c["digest"] == nil {
		t.Errorf("configuration of the container: %v", c)
	}
	if c := g.do("root@pam!tf", "GET", lxc+"/snapshot/before/config",
		"").object(t); c["mp1"] != "local-lvm:vm-700-disk-0,mp=/old" {
		t.Errorf("configuration of its snapshot: %v", c)
	}
	g.steps([]step{
		{"", "GET", "/lxc/8000/config", "", "Configuration file 'nodes/pve1/lxc/8000.conf' does not exist"},
		{"lite@pve!prov", "GET", "/lxc/8100/config", "", "OK"}, // VM.Audit is enough
		{"root@pam!sep", "GET", "/lxc/8100/config", "", "Permission check failed (/vms/8100, VM.Audit)"},
	})
}

// TestTextsOfVolumeManagers are those of lvm, zfs and the file system.
func TestTextsOfVolumeManagers(t *testing.T) {
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) {
		w.Storages["thick"] = &state.Storage{ID: "thick", Type: "lvm", Path: "vg", Total: 10 << 30,
			Content: []string{"images"}}
	})
	const content = "/storage/local/content/local:"
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&scsi0=thick:100", `unable to create VM 100 - lvcreate 'vg/vm-100-disk-0' error:   ` +
			`Volume group "vg" has insufficient free space (2560 extents): 25600 required.`},
		{"", "GET", "/storage/thick/content/thick:vm-100-disk-0", "",
			`can't get size of '/dev/vg/vm-100-disk-0':   Failed to find logical volume "vg/vm-100-disk-0"`},
		{"", "GET", "/storage/local-zfs/content/local-zfs:vm-100-disk-7", "",
			"zfs error: cannot open 'rpool/data/vm-100-disk-7': dataset does not exist"},
		{"", "POST", "/qemu", "vmid=100&scsi0=local-lvm:1", "OK"},
		{"", "DELETE", "/storage/local-lvm/content/local-lvm:vm-100-disk-0", "", "OK"},
		{"", "POST", "/qemu/100/status/start", "", "no such logical volume pve/vm-100-disk-0"},
		{"", "DELETE", content + "iso/missing.iso", "", "OK"},
	})
	g.logs("disk image '/var/lib/vz/template/iso/missing.iso' does not exist")
	g.steps([]step{
		{"", "DELETE", content + "snippets/missing.yaml", "", "OK"},
		{"", "DELETE", content + "import/missing.qcow2", "", "OK"},
	})
	g.logs("disk image '/var/lib/vz/import/missing.qcow2' does not exist")
	g.s.Do(func(w *state.World) { orphan(w, "local-lvm", "vm-701-disk-0", 701, 1<<30) })
	for _, row := range g.do("root@pam!tf", "GET", "/nodes/pve1/storage/local-lvm/content", "vmid=701").list() {
		if _, text := row["ctime"].(string); !text {
			t.Errorf("ctime of a thin volume is %T", row["ctime"])
		}
	}
}

// TestWhereMemoryIsSaved: the volume for the memory of a guest (qemu-server QemuServer.pm, find_vmstate_storage).
func TestWhereMemoryIsSaved(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{"scsi0=local-zfs:1&scsi1=local-lvm:1", "local-zfs:"},
		{"scsi0=local-lvm:1&scsi1=local2:1,format%3Dqcow2", "local2:"},
		{"scsi0=local2:1,format%3Dqcow2&scsi1=local-zfs:1", "local2:"},
		{"scsi0=local-zfs:1&scsi1=ceph:1", "ceph:"},
		{"scsi0=local-zfs:1&vmstatestorage=local-lvm", "local-lvm:"},
		{"ide2=none,media%3Dcdrom", "local:"},
	} {
		g := newRig(t, nil)
		g.s.Do(func(w *state.World) {
			w.Storages["ceph"] = &state.Storage{ID: "ceph", Type: "rbd", Path: "rbd", Shared: true, Total: 100 << 30,
				Content: []string{"images"}}
		})
		g.steps([]step{
			{"", "POST", "/qemu", "vmid=100&" + c.params, "OK"},
			{"", "POST", "/qemu/100/status/start", "", "OK"},
			{"", "POST", "/qemu/100/snapshot", "snapname=one&vmstate=1", "OK"},
		})
		snap := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/100/snapshot/one/config", "").object(t)
		if got := fmt.Sprint(snap["vmstate"]); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: the memory is in %s, want %s", c.params, got, c.want)
		}
	}
}

// TestMoveRefusals are those of move_disk before it forks (qemu-server API2/Qemu.pm, load_and_check_move and
// move_vm_disk).
func TestMoveRefusals(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1&scsi1=local2:1,format%3Draw&ide2=local-zfs:cloudinit", "OK"},
		{"", "POST", "/qemu/100/move_disk", "disk=scsi0&storage=nosuch", "storage 'nosuch' does not exist"},
		{"", "POST", "/qemu/100/move_disk", "disk=scsi0&storage=local-zfs&format=qcow2",
			"you can't move to the same storage with same format"},
		{"", "POST", "/qemu/100/move_disk", "disk=scsi1&storage=local2",
			"you can't move to the same storage with same format"},
		{"", "POST", "/qemu/100/move_disk", "disk=scsi5&storage=local2", "disk 'scsi5' does not exist"},
		{"", "POST", "/qemu/100/move_disk", "disk=scsi1&storage=local2&format=qcow2&delete=1", "OK"},
	})
	r := g.do("root@pam!tf", "POST", "/nodes/pve1/qemu/100/move_disk", "disk=scsi0")
	const text = "both 'storage' and 'target-vmid' missing, either needs to be set"
	if r.status != 400 || r.body.Errors["storage"] != text || r.body.Errors["target-vmid"] != text {
		t.Errorf("neither storage nor target: %d %v", r.status, r.body.Errors)
	}
	tasks := len(g.do("root@pam!tf", "GET", "/nodes/pve1/tasks", "typefilter=qmmove").list())
	if tasks != 1 {
		t.Errorf("%d tasks of moves, want that of the one that was not refused", tasks)
	}
}

// TestVolumeInUseUnderAnotherName: PVE frees no volume that the VM has in another slot, or a snapshot, by its path. Two mounts of
// one export have two paths, and a pending change is not asked.
func TestVolumeInUseUnderAnotherName(t *testing.T) {
	const own = "vm-100-disk-0.raw"
	const refused = "unable to delete 'shared-nfs:100/vm-100-disk-0.raw' - volume is still in use (snapshot?)"
	for name, c := range map[string]struct {
		storage string
		use     func(g *state.Guest, drive string)
		want    string
	}{
		"one path":                {"second", func(g *state.Guest, drive string) { g.Config["scsi1"] = drive }, refused},
		"the path itself":         {"second", func(g *state.Guest, _ string) { g.Config["scsi1"] = "/mnt/pve/shared-nfs/images/100/" + own }, refused},
		"one path, in a snapshot": {"second", func(g *state.Guest, drive string) { g.Snaps = map[string]map[string]string{"a": {"scsi0": drive}} }, refused},
		"one path, pending":       {"second", func(g *state.Guest, drive string) { g.Pending = map[string]string{"scsi1": drive} }, "OK"},
		"two mounts":              {"mounted", func(g *state.Guest, drive string) { g.Config["scsi1"] = drive }, "OK"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			g.steps([]step{
				{"", "POST", "/qemu", "vmid=100&scsi0=shared-nfs:1,format=raw", "OK"},
				{"", "PUT", "/qemu/100/config", "delete=scsi0", "OK"},
			})
			g.s.Do(func(w *state.World) {
				twin := *w.Storages["shared-nfs"]
				if twin.ID, twin.Same = c.storage, "shared-nfs"; c.storage == "mounted" {
					twin.Path = "/mnt/pve/mounted"
				}
				w.Storages[twin.ID] = &twin
				c.use(w.Guests[100], c.storage+":100/"+own)
			})
			g.steps([]step{{"", "PUT", "/qemu/100/config", "delete=unused0", c.want}})
		})
	}
}
