package server

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestDestroyPurgesJobs: a replication job is in the way of a destroy without purge, a backup job is not; with purge
// both go.
func TestDestroyPurgesJobs(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu", "vmid=100", "OK"}, {"", "POST", "/qemu", "vmid=101", "OK"}})
	g.s.Do(func(w *state.World) {
		w.Replication["100-0"] = &state.ReplicationJob{ID: "100-0", Guest: 100, Target: "pve2", Schedule: "*/15"}
		w.Backups["only"] = &state.BackupJob{ID: "only", VMIDs: []int{100}}
		w.Backups["some"] = &state.BackupJob{ID: "some", VMIDs: []int{100, 101}}
		w.Backups["most"] = &state.BackupJob{ID: "most", All: true, Exclude: []int{100, 8000}}
	})
	if c := g.do("root@pam!tf", "GET", "/cluster/replication", "").list(); len(c) != 1 || c[0]["guest"] != 100.0 ||
		c[0]["source"] != "pve1" {
		t.Errorf("replication %v", c)
	}
	g.steps([]step{
		{"", "DELETE", "/qemu/100", "", "There is a replication job '100-0' for guest '100' - Please remove that first."},
		{"", "DELETE", "/qemu/101", "", "OK"},
	})
	if c := g.do("root@pam!tf", "GET", "/cluster/backup/some", "").object(t); c["vmid"] != "100,101" {
		t.Errorf("without purge: %v", c)
	}
	g.steps([]step{{"", "DELETE", "/qemu/100?purge=1", "", "OK"}})
	g.s.Do(func(w *state.World) {
		if len(w.Replication) != 0 || w.Backups["only"] != nil || !slices.Equal(w.Backups["some"].VMIDs, []int{101}) ||
			!slices.Equal(w.Backups["most"].Exclude, []int{8000}) {
			t.Errorf("jobs: %v, %v", w.Replication, w.Backups)
		}
	})
}

// TestDestroyThatLeavesVolumes: what cannot be freed stays; before 9.2 the task is OK all the same.
func TestDestroyThatLeavesVolumes(t *testing.T) {
	for profile, want := range map[string]string{"8.4": "OK", "9.2": "WARNINGS: 1"} {
		g := newRig(t, func(c *engine.Config) { c.World.Profile, c.Schema = profile, schema.LoadVersion(profile) })
		g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1&scsi1=local-zfs:1", "OK"}})
		g.s.Do(func(w *state.World) { w.Storages["local-zfs"].BusyFrees = 1 })
		g.steps([]step{{"", "DELETE", "/qemu/100", "", want}})
		if got := strings.Join(g.on("pve1", 100), " "); got != "local-zfs:vm-100-disk-0" || g.where(100) != "" {
			t.Errorf("%s: left %s, guest %s", profile, got, g.where(100))
		}
		g.steps([]step{{"", "DELETE", "/storage/local-zfs/content/local-zfs:vm-100-disk-0", "", "OK"}})
	}
}

// TestDestroyOnARemovedStorage: since 9.2 PVE warns of its volumes and goes on; before, the task fails and the VM stays,
// without the volumes that were freed until then (qemu-server QemuServer.pm destroy_vm, 2e85e6d7).
func TestDestroyOnARemovedStorage(t *testing.T) {
	for profile, want := range map[string]string{"8.4": "storage 'local2' does not exist", "9.2": "WARNINGS: 1"} {
		g := newRig(t, func(c *engine.Config) { c.World.Profile, c.Schema = profile, schema.LoadVersion(profile) })
		g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1&scsi1=local2:1", "OK"}})
		g.s.Do(func(w *state.World) {
			maps.DeleteFunc(w.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.Storage == "local2" })
			delete(w.Storages, "local2")
		})
		g.steps([]step{{"", "DELETE", "/qemu/100", "", want}})
		if is := g.where(100) != ""; is != (profile == "8.4") || len(g.on("pve1", 100)) > 0 {
			t.Errorf("%s: the VM is there %t, with %v", profile, is, g.on("pve1", 100))
		}
	}
}

// TestStoragesOfANode: one that other nodes alone have, or that is disabled, is listed as not enabled, and not at all
// for a content (pve-storage Storage.pm storage_info; API2/Storage/Status.pm index).
func TestStoragesOfANode(t *testing.T) {
	g := newRig(t, nil)
	g.s.Do(func(w *state.World) {
		w.Storages["local2"].Nodes, w.Storages["local-lvm"].Disabled = []string{"pve2"}, true
	})
	for query, want := range map[string]string{"": "local-lvm=0 local2=0", "?enabled=1": "local2=0", "?content=images": ""} {
		var off []string
		for _, storage := range g.do("root@pam!tf", "GET", "/nodes/pve1/storage"+query, "").list() {
			if storage["enabled"] != 1.0 {
				off = append(off, fmt.Sprintf("%v=%v", storage["storage"], storage["enabled"]))
			}
		}
		if got := strings.Join(off, " "); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
}

// TestNodeGoesAway: the node of a destroy crashes in the middle and is back a minute later, with its remaining
// volumes.
func TestNodeGoesAway(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1&scsi1=local-zfs:1", "OK"},
		{"", "POST", "/qemu", "vmid=101&start=1&onboot=1", "OK"}})
	g.faults(fault.Rule{Match: fault.Match{Method: "DELETE", VMID: 100}, Phase: fault.Offline, AwayMS: 60_000})
	g.steps([]step{{"", "DELETE", "/qemu/100", "", "unexpected status"}})
	if r := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/100/config", ""); r.status != 595 {
		t.Errorf("the node answers %d", r.status)
	}
	if r := g.do("root@pam!tf", "GET", "/nodes/pve2/qemu", ""); r.status != 200 {
		t.Errorf("the other node answers %d", r.status)
	}
	g.wantPowers("node hard")
	g.pass(time.Minute)
	if got := strings.Join(g.on("pve1", 100), " "); got != "local-zfs:vm-100-disk-1" || g.where(100) != "pve1" ||
		g.where(101) != "pve1+" {
		t.Errorf("afterwards: volumes %s, guests %s, %s", got, g.where(100), g.where(101))
	}
	g.steps([]step{{"", "DELETE", "/qemu/100", "", "OK"}})

	g.faults(fault.Rule{Match: fault.Match{Method: "PUT", Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Offline,
		AwayMS: 1000})
	if _, err := g.try(g.request("root@pam!tf", "PUT", "/nodes/pve1/qemu/101/config",
		url.Values{"name": {"b"}})); err == nil {
		t.Error("the answer came although the node crashed")
	}
	if g.s.Faults().Effective() != 1 {
		t.Error("the fault had no effect")
	}
}

// TestSuspendingFails: a saved guest is stopped and locked; a failure to save leaves the lock that tells.
func TestSuspendingFails(t *testing.T) {
	g := newRig(t, nil)
	g.steps([]step{{"", "POST", "/qemu", "vmid=100&scsi0=local-zfs:1&start=1", "OK"}})
	g.faults(fault.Rule{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/status/suspend"}, Phase: fault.Task})
	g.steps([]step{
		{"", "POST", "/qemu/100/status/suspend", "todisk=1", "injected failure"},
		{"", "POST", "/qemu/100/status/shutdown", "", "VM is locked (suspending)"},
		{"root", "PUT", "/qemu/100/config", "delete=lock&skiplock=1", "OK"},
		{"", "POST", "/qemu/100/status/suspend", "todisk=1", "OK"},
		{"", "PUT", "/qemu/100/config", "cores=2", "VM is locked (suspended)"},
		{"", "POST", "/qemu/100/status/start", "", "OK"},
		{"", "POST", "/qemu/100/status/suspend", "todisk=1", "OK"},
		{"", "DELETE", "/qemu/100", "", "OK"},
	})
	if len(g.on("pve1", 100)) != 0 {
		t.Errorf("left: %v", g.on("pve1", 100))
	}
}
