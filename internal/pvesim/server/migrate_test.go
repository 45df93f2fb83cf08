package server

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// log is the log of the last task of a type, without its times.
func (g *rig) log(typ string) string {
	var last *state.Task
	g.s.Do(func(w *state.World) {
		for _, t := range w.Tasks {
			if t.Type == typ && (last == nil || t.UPID > last.UPID) {
				last = t
			}
		}
	})
	if last == nil {
		return ""
	}
	return strings.Join(last.Log, "\n")
}

// on are the volumes of a guest on a node, sorted.
func (g *rig) on(node string, vmid int) []string {
	var list []string
	g.s.Do(func(w *state.World) {
		for _, v := range w.Volumes {
			if v.VMID == vmid && v.Node == node {
				list = append(list, v.Volid())
			}
		}
	})
	slices.Sort(list)
	return list
}

func TestMigrateRefusals(t *testing.T) {
	base := func(options string) func(g *rig) {
		return func(g *rig) { g.steps([]step{{"root", "POST", "/qemu", "vmid=100&" + options, "OK"}}) }
	}
	running := func(options string) func(g *rig) {
		return base(options + "&start=1")
	}
	world := func(f func(w *state.World)) func(g *rig) {
		return func(g *rig) { base("scsi0=local-zfs:1")(g); g.s.Do(f) }
	}
	for _, c := range []struct{ name, params, want, log string }{
		{"node of the ISO", "", "migration aborted", "can't migrate local disk 'local:iso/debian.iso': local cdrom image"},
		{"disks of a running one", "online=1", "migration aborted",
			"can't live migrate attached local disks without with-local-disks option"},
		{"device", "", "migration aborted", "can't migrate VM which uses local devices: usb0"},
		{"device, forced", "force=1", "Only root", ""},
		{"mapping nowhere", "", "migration aborted", "can't migrate to 'pve2': missing mapped devices hostpci0"},
		{"clipboard", "online=1&with-local-disks=1", "migration aborted",
			"VMs with 'clipboard' set to 'vnc' are not live migratable!"},
		{"target off", "", "migration aborted", "Can't connect to destination address using public key"},
		{"storage not there", "", "storage 'local-zfs' is not available on node 'pve2'", ""},
		{"storage not there, mapped", "targetstorage=local-lvm", "OK", ""},
		{"mapped where no images are", "targetstorage=iso", "storage 'iso' does not support vm images", ""},
		{"mapped twice", "targetstorage=local-zfs:local2,local-zfs:local",
			"targetstorage: failed to parse storage map: duplicate mapping for source 'local-zfs'", ""},
		{"identity and more", "targetstorage=1,local2",
			"targetstorage: failed to parse storage map: identity mapping cannot be combined with other mappings", ""},
		{"linked clone", "", "migration aborted",
			"can't migrate 'local-zfs:base-9000-disk-0/vm-100-disk-0' as it's a clone of 'base-9000-disk-0'"},
		{"another VM's disk", "", "migration aborted",
			"can't migrate local disk 'local-zfs:base-9000-disk-0': owned by other VM (owner = VM 9000)"},
		{"qcow2 to LVM", "targetstorage=local-lvm", "migration aborted",
			"storage migration for 'local2:100/vm-100-disk-0.qcow2' to storage 'local-lvm' failed - cannot migrate from " +
				"storage type 'dir' to 'lvmthin'"},
		{"snapshot, running", "online=1&with-local-disks=1", "migration aborted",
			"online storage migration not possible if non-replicated snapshot exists"},
		{"bridge not there", "online=1&with-local-disks=1", "migration problems",
			"online migrate failure - remote command failed with exit code 255"},
		{"replicated elsewhere", "online=1&with-local-disks=1",
			"Cannot live-migrate replicated VM to node 'pve2' - not a replication target. Use 'force' to override.", ""},
	} {
		prepare := map[string]func(g *rig){
			"node of the ISO":        base("ide2=local:iso/debian.iso,media%3Dcdrom"),
			"disks of a running one": running("scsi0=local-zfs:1"),
			"device":                 base("usb0=host%3D1234:5678"), "device, forced": base("usb0=host%3D1234:5678"),
			"mapping nowhere":           base("hostpci0=mapping%3Dgpu"),
			"clipboard":                 running("vga=std,clipboard%3Dvnc"),
			"target off":                world(func(w *state.World) { w.Nodes["pve2"].Online = false }),
			"storage not there":         world(func(w *state.World) { w.Storages["local-zfs"].Nodes = []string{"pve1"} }),
			"storage not there, mapped": world(func(w *state.World) { w.Storages["local-zfs"].Nodes = []string{"pve1"} }),
			"mapped where no images are": world(func(w *state.World) {
				w.Storages["iso"] = &state.Storage{ID: "iso", Type: "dir", Path: "/iso", Content: []string{"iso"}}
			}),
			"mapped twice": base("scsi0=local-zfs:1"), "identity and more": base("scsi0=local-zfs:1"),
			"linked clone": func(g *rig) {
				g.steps([]step{{"", "POST", "/qemu/9000/clone", "newid=100", "OK"}})
			},
			"another VM's disk": base("scsi3=local-zfs:base-9000-disk-0"), "qcow2 to LVM": base("scsi0=local2:1,format%3Dqcow2"),
			"snapshot, running": func(g *rig) {
				running("scsi0=local-zfs:1")(g)
				g.steps([]step{{"", "POST", "/qemu/100/snapshot", "snapname=before", "OK"}})
			},
			"bridge not there": func(g *rig) {
				running("scsi0=local-zfs:1&net0=virtio,bridge%3Dvmbr1")(g)
				g.s.Do(func(w *state.World) { w.Nodes["pve2"].Bridges = []string{"vmbr0"} })
			},
			"replicated elsewhere": func(g *rig) {
				running("scsi0=local-zfs:1")(g)
				g.s.Do(func(w *state.World) {
					w.Replication["100-0"] = &state.ReplicationJob{ID: "100-0", Guest: 100, Target: "pve3"}
				})
			},
		}[c.name]
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, nil)
			prepare(g)
			before := g.on("pve1", 100)
			if c.want == "Only root" {
				g.steps([]step{{"", "POST", "/qemu/100/migrate", "target=pve2&" + c.params,
					"force: Only root may use this option."},
					{"root", "POST", "/qemu/100/migrate", "target=pve2&" + c.params, "OK"}})
				return
			}
			g.steps([]step{{"", "POST", "/qemu/100/migrate", "target=pve2&" + c.params, c.want}})
			if !strings.Contains(g.log("qmigrate"), c.log) {
				t.Errorf("log:\n%s", g.log("qmigrate"))
			}
			if c.want == "OK" {
				return
			}
			g.s.Do(func(w *state.World) {
				if v := w.Guests[100]; v.Node != "pve1" || v.Lock() != "" {
					t.Errorf("the guest is on %s, lock %q", v.Node, v.Lock())
				}
			})
			if d := cmp.Diff(before, g.on("pve1", 100)); d != "" || len(g.on("pve2", 100)) > 0 {
				t.Errorf("volumes here: %s; there: %v", d, g.on("pve2", 100))
			}
			g.wantPowers()
		})
	}
}

// TestMigrateKeeps: a guest keeps its properties: identity, addresses, pending changes, snapshots, firewall, pool.
func TestMigrateKeeps(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{
		{"root", "POST", "/qemu", "vmid=100&name=a&pool=web&scsi0=local-zfs:1&scsi1=local2:1,format%3Dqcow2&" +
			"efidisk0=local-zfs:1,efitype%3D4m&bios=ovmf&" +
			"tpmstate0=local-zfs:1,version%3Dv2.0&ide2=local-lvm:cloudinit&net0=virtio,bridge%3Dvmbr0&agent=1", "OK"},
		{"", "PUT", "/qemu/100/config", "scsi2=local-zfs:1", "OK"},
		{"", "PUT", "/qemu/100/config", "delete=scsi2", "OK"},
		{"", "POST", "/qemu/100/snapshot", "snapname=before", "OK"},
		{"", "POST", "/qemu/100/firewall/rules", "type=in&action=ACCEPT", "OK"},
	})
	var config, snap map[string]string
	g.s.Do(func(w *state.World) {
		v := w.Guests[100]
		v.Pending = map[string]string{"cores": "4"}
		config, snap = maps.Clone(v.Config), maps.Clone(v.Snaps["before"])
		for _, volume := range w.Volumes {
			if volume.VMID == 100 {
				volume.Data = volume.Volid()
			}
		}
	})
	volumes := g.on("pve1", 100)
	g.steps([]step{{"", "POST", "/qemu/100/migrate", "target=pve2", "OK"}})
	g.s.Do(func(w *state.World) {
		v := w.Guests[100]
		if d := cmp.Diff(config, v.Config); d != "" || v.Node != "pve2" {
			t.Errorf("on %s: %s", v.Node, d)
		}
		if d := cmp.Diff(snap, v.Snaps["before"]); d != "" || v.Pending["cores"] != "4" {
			t.Errorf("snapshot: %s; pending %v", d, v.Pending)
		}
		if len(w.Firewall[100].Rules) != 1 || w.PoolOf(100) != "web" {
			t.Error("firewall or pool is gone")
		}
		for _, volume := range w.Volumes {
			if volume.VMID == 100 && (volume.Data != volume.Volid() || volume.Name == "vm-100-disk-1" &&
				!slices.Equal(volume.Snaps, []string{"before"})) {
				t.Errorf("volume %+v", volume)
			}
		}
	})
	if d := cmp.Diff(volumes, g.on("pve2", 100)); d != "" || len(g.on("pve1", 100)) > 0 {
		t.Errorf("volumes: %s; left: %v", d, g.on("pve1", 100))
	}
	r := g.do("root@pam!tf", "POST", "/nodes/pve2/qemu/9000/migrate", "target=pve1")
	if r.status != 500 {
		t.Error("a guest that is elsewhere migrates")
	}
}

// TestMigrateTemplate: a template moves with its base images unless linked clones hang on them.
func TestMigrateTemplate(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu/9000/migrate", "target=pve2", "OK"}})
	if got := strings.Join(g.on("pve2", 9000), " "); !strings.Contains(got, "local-zfs:base-9000-disk-0") {
		t.Error(got)
	}
	g = newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu/9000/clone", "newid=100", "OK"},
		{"", "POST", "/qemu/9000/migrate", "target=pve2", "migration aborted"}})
	if !strings.Contains(g.log("qmigrate"), "referenced by linked clone(s)") {
		t.Error(g.log("qmigrate"))
	}
}

func TestMigratePreconditions(t *testing.T) {
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) {
		w.Mappings = []*state.Mapping{{Kind: "pci", ID: "gpu", Nodes: []string{"pve1"}},
			{Kind: "usb", ID: "key", Nodes: []string{"pve1", "pve2"}}}
		w.Nodes["pve3"] = &state.Node{Name: "pve3", Address: "192.0.2.13", Bridges: []string{"vmbr0"}, Memory: 64 << 30}
		w.Storages["local-lvm"].Nodes = []string{"pve1", "pve2"}
	})
	g.steps([]step{{"root", "POST", "/qemu",
		"vmid=100&scsi0=local-zfs:1&ide2=local-lvm:cloudinit&hostpci0=mapping%3Dgpu&usb0=mapping%3Dkey&serial0=socket",
		"OK"}})
	c := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/100/migrate", "").object(t)
	disks, _ := c["local_disks"].([]any)
	if len(disks) != 2 {
		t.Fatalf("disks %v", disks)
	}
	delete(c, "local_disks")
	want := map[string]any{
		"running": 0.0, "local_resources": []any{"usb0"}, "mapped-resources": []any{"hostpci0",
			"usb0"}, "allowed_nodes": []any{},
		"mapped-resource-info": map[string]any{"hostpci0": map[string]any{"name": "gpu"},
			"usb0": map[string]any{"name": "key"}},
		"not_allowed_nodes": map[string]any{
			"pve2": map[string]any{"unavailable-resources": []any{"hostpci0"}},
			"pve3": map[string]any{"unavailable-resources": []any{"hostpci0", "usb0"},
				"unavailable_storages": []any{"local-lvm"}},
		},
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
	g.s.Do(func(w *state.World) { w.Mappings[0].Nodes = []string{"pve1", "pve2"} })
	c = g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/100/migrate", "").object(t)
	if d := cmp.Diff([]any{"pve2"}, c["allowed_nodes"]); d != "" {
		t.Error(d)
	}
	g.steps([]step{{"", "POST", "/qemu/100/migrate", "target=pve2", "OK"}})
}

// TestMigrationFails: a worker that fails takes its copies away; one that is killed leaves them, and the lock.
func TestMigrationFails(t *testing.T) {
	for _, c := range []struct {
		phase        fault.Phase
		params, want string
		lock         string
		copies       int
	}{
		{fault.Task, "", "migration aborted", "", 0},
		{fault.Task, "online=1&with-local-disks=1", "migration problems", "", 0},
		{fault.KillTask, "", "unexpected status", "migrate", 1},
		{fault.KillTask, "online=1&with-local-disks=1", "unexpected status", "migrate", 1},
		{fault.Partial, "", "migration aborted", "", 1},
	} {
		g := newRig(t, nil)
		start := map[bool]string{true: "&start=1"}[c.params != ""]
		g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1" + start, "OK"}})
		g.faults(fault.Rule{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/migrate"}, Phase: c.phase})
		g.steps([]step{{"", "POST", "/qemu/100/migrate", "target=pve2&" + c.params, c.want}})
		g.s.Do(func(w *state.World) {
			v := w.Guests[100]
			if v.Node != "pve1" || v.Lock() != c.lock || (v.Running != nil) != (start != "") {
				t.Errorf("%s %s: on %s, lock %q, runs %v", c.phase, c.params, v.Node, v.Lock(), v.Running != nil)
			}
		})
		if here, there := g.on("pve1", 100), g.on("pve2", 100); len(here) != 1 || len(there) != c.copies {
			t.Errorf("%s %s: volumes %v and %v", c.phase, c.params, here, there)
		}
		g.wantPowers()
	}
}

// TestMigrationLeavesACopy: what cannot be freed at the source stays, and the guest has arrived all the same.
func TestMigrationLeavesACopy(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1", "OK"}})
	g.s.Do(func(w *state.World) { w.Storages["local-zfs"].BusyFrees = 1 })
	g.steps([]step{{"", "POST", "/qemu/100/migrate", "target=pve2", "migration problems"}})
	if len(g.on("pve1", 100)) != 1 || len(g.on("pve2", 100)) != 1 {
		t.Errorf("volumes %v and %v", g.on("pve1", 100), g.on("pve2", 100))
	}
	if !strings.Contains(g.log("qmigrate"),
		"removing local copy of 'local-zfs:vm-100-disk-0' failed - zfs error: cannot destroy 'rpool/data/vm-100-disk-0': "+
			"dataset is busy") {
		t.Error(g.log("qmigrate"))
	}
}

// TestMigrationOfADiskInAWaitingSlot: a disk that a third party has put into a second slot, where it waits for the
// guest's stop, travels with the guest, and its size is written into the slot that has it.
func TestMigrationOfADiskInAWaitingSlot(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1&start=1", "OK"}})
	g.s.Do(func(w *state.World) {
		v := w.Guests[100]
		v.Config["scsi0"] = "local-zfs:vm-100-disk-0,size=3G"
		v.Pending = map[string]string{"sata1": "local-zfs:vm-100-disk-0,size=3G"}
	})
	g.steps([]step{{"", "POST", "/qemu/100/migrate", "target=pve2&online=1&with-local-disks=1", "OK"}})
	g.s.Do(func(w *state.World) {
		v := w.Guests[100]
		if v.Node != "pve2" || !strings.HasSuffix(v.Config["scsi0"], ",size=1G") || v.Config["sata1"] != "" ||
			!strings.HasPrefix(v.Pending["sata1"], "local-zfs:") {
			t.Errorf("on %s: %v, and %v waits", v.Node, v.Config, v.Pending)
		}
	})
}
