package server

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// names lists the volumes of a VMID, sorted.
func (g *rig) names(vmid int) []string {
	list := []string{}
	g.s.Do(func(w *state.World) {
		for _, id := range []string{"local", "local-lvm", "local-zfs", "local2"} {
			for _, v := range w.VolumesOn("pve1", w.Storages[id]) {
				if v.VMID == vmid {
					list = append(list, v.Volid())
				}
			}
		}
	})
	return list
}

func (g *rig) lock(vmid int) (lock string) {
	g.s.Do(func(w *state.World) {
		lock = "gone"
		if guest := w.Guests[vmid]; guest != nil {
			lock = guest.Lock()
			if guest.Config["name"] == "rival" {
				lock = "rival"
			}
		}
	})
	return lock
}

const (
	createLine = "vmid=100&name=a&scsi0=local-lvm:1&virtio0=local-zfs:1&ide2=local-zfs:cloudinit&efidisk0=local-zfs:1,efitype%3D4m"
	cloneLine  = "newid=100&full=1"
)

func TestFaultsOfRealTasks(t *testing.T) {
	created := []string{"local-lvm:vm-100-disk-0", "local-zfs:vm-100-cloudinit", "local-zfs:vm-100-disk-0",
		"local-zfs:vm-100-disk-1"}
	cloned := []string{"local-zfs:vm-100-cloudinit", "local-zfs:vm-100-disk-0"}
	none := []string{}
	for _, row := range []struct {
		what    string
		phase   fault.Phase
		exit    string
		lock    string
		volumes []string
	}{
		{"create", fault.Task, "unable to create VM 100 - boom", "gone", none},
		{"create", fault.KillTask, "unexpected status", "create", created},
		{"create", fault.Partial, "unable to create VM 100 - boom", "gone", created},
		{"create", fault.Rival, "unable to create VM 100 - boom", "rival", []string{"local:100/vm-100-disk-0.raw"}},
		{"clone", fault.Task, "clone failed: boom", "gone", none},
		{"clone", fault.KillTask, "unexpected status", "clone", cloned},
		{"clone", fault.Partial, "clone failed: boom", "gone", cloned},
		{"clone", fault.Rival, "clone failed: boom", "rival", []string{"local:100/vm-100-disk-0.raw"}},
		{"destroy", fault.Task, "boom", "", created[:2]},
		{"destroy", fault.KillTask, "unexpected status", "", created[:2]},
		{"destroy", fault.Rival, "OK", "rival", []string{"local:100/vm-100-disk-0.raw"}},
	} {
		t.Run(row.what+" "+string(row.phase), func(t *testing.T) {
			g := newRig(t, nil)
			method, path, params := "POST", "/nodes/pve1/qemu", createLine
			switch row.what {
			case "clone":
				path, params = "/nodes/pve1/qemu/9000/clone", cloneLine
			case "destroy":
				g.task(method, path, params)
				method, path, params = "DELETE", "/nodes/pve1/qemu/100", ""
			}
			before := string(g.s.Snapshot())
			g.faults(fault.Rule{Match: fault.Match{VMID: 100}, Phase: row.phase, Reason: "boom"})
			if exit, log := g.task(method, path, params); exit != row.exit {
				t.Errorf("exit %q, want %q; log:\n%s", exit, row.exit, log)
			}
			g.check()
			if lock := g.lock(100); lock != row.lock {
				t.Errorf("lock %q, want %q", lock, row.lock)
			}
			volumes := g.names(100)
			if row.what == "destroy" && len(row.volumes) > 1 {
				if len(volumes) != 3 { // the first of four is gone
					t.Errorf("volumes: %v", volumes)
				}
			} else if diff := cmp.Diff(row.volumes, volumes); diff != "" {
				t.Errorf("volumes: %s", diff)
			}
			if g.s.Faults().Effective() != 1 {
				t.Error("the fault had no effect")
			}
			if row.phase == fault.Task && row.what != "destroy" {
				if diff := cmp.Diff(before, string(g.s.Snapshot())); diff != "" {
					t.Errorf("a failed task left something: %s", diff)
				}
			}
		})
	}
}

// TestKilledCreate is the way out of a killed create as root, and the trap of a cloud-init volume left behind.
func TestKilledCreate(t *testing.T) {
	g := newRig(t, nil)
	before := string(g.s.Snapshot())
	g.faults(fault.Rule{Phase: fault.KillTask})
	g.task("POST", "/nodes/pve1/qemu", createLine)
	if r := g.do("root@pam!tf", "POST", "/nodes/pve1/qemu",
		createLine); r.reason != "unable to create VM 100 - VM 100 already exists on node 'pve1'" {
		t.Error(r.reason)
	}
	if exit, _ := g.task("DELETE", "/nodes/pve1/qemu/100", ""); exit != "VM is locked (create)" {
		t.Error(exit)
	}
	if r := g.do("root@pam!tf", "DELETE", "/nodes/pve1/qemu/100",
		"skiplock=1"); r.body.Errors["skiplock"] != "Only root may use this option." {
		t.Error(r.text)
	}
	if r := g.do("root", "DELETE", "/nodes/pve1/qemu/100", "skiplock=1"); r.status != 200 {
		t.Error(r.text)
	}
	if len(g.names(100)) != 4 {
		t.Error(g.names(100))
	}
	if exit, _ := g.task("POST", "/nodes/pve1/qemu",
		createLine); exit != "unable to create VM 100 - zfs error: cannot create 'rpool/data/vm-100-cloudinit': dataset "+
		"already exists" {
		t.Error(exit)
	}
	for _, volid := range g.names(100) {
		storage, _, _ := strings.Cut(volid, ":")
		if exit, log := g.task("DELETE", "/nodes/pve1/storage/"+storage+"/content/"+volid, ""); exit != "OK" ||
			!strings.Contains(log, "Removed volume") {
			t.Error(exit, log)
		}
	}
	g.check()
	if diff := cmp.Diff(before, string(g.s.Snapshot())); diff != "" {
		t.Error(diff)
	}
}

// slow is a rig whose tasks take a minute and whose clock moves only when it is told to.
func slow(t *testing.T) *rig {
	return newRig(t, func(c *engine.Config) {
		c.World.Clock = clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		c.TaskTime = time.Minute
	})
}

// later sends a request and moves the clock until it is answered.
func (g *rig) later(as, method, path, params string) reply {
	g.t.Helper()
	done, before := make(chan reply, 1), g.s.LastOp()
	q := g.request(as, method, path, nil)
	if params != "" {
		q = g.request(as, method, path, mustQuery(g.t, params))
	}
	go func() {
		r, err := g.try(q)
		if err != nil {
			r.text = err.Error()
		}
		done <- r
	}()
	var op engine.Op
	for op.Seq <= before { // until it has come
		runtime.Gosched()
		for _, last := range g.s.OpsAfter(before) {
			op = last
		}
	}
	for range 400 {
		if g.clock.Advance(engine.PollStep); !g.s.OpsAfter(op.Seq - 1)[0].Left.IsZero() {
			return <-done
		}
	}
	g.t.Fatalf("%s %s was not answered", method, path)
	return reply{}
}

func TestWhileCloning(t *testing.T) {
	g := slow(t)
	config := func(id int) map[string]any {
		return g.do("root@pam!tf", "GET", fmt.Sprintf("/nodes/pve1/qemu/%d/config", id), "").object(t)
	}
	r := g.do("root@pam!tf", "POST", "/nodes/pve1/qemu/9000/clone", cloneLine+"&description=mine")
	upid, _ := r.body.Data.(string)
	g.clock.Advance(16 * time.Second)
	got := config(100)
	delete(got, "digest")
	if diff := cmp.Diff(map[string]any{"lock": "clone", "description": " qmclone temporary file"}, got); diff != "" {
		t.Errorf("at first: %s", diff)
	}
	if r := g.later("root@pam!tf", "PUT", "/nodes/pve1/qemu/100/config",
		"memory=96"); r.reason != "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout" {
		t.Errorf("PUT: %s", r.reason)
	}
	if r := g.later("root@pam!tf", "POST", "/nodes/pve1/qemu",
		"vmid=100"); r.reason != "unable to create VM 100 - can't lock file '/var/lock/qemu-server/lock-100.conf' - got "+
		"timeout" {
		t.Errorf("POST: %s", r.reason)
	}
	g.clock.Advance(10 * time.Second)
	if c := config(100); c["ide2"] != "local-zfs:vm-100-cloudinit,media=cdrom,size=4M" || c["scsi0"] != nil ||
		c["lock"] != "clone" || c["description"] != "mine" {
		t.Errorf("after the first drive: %v", c)
	}
	if c := config(9000); c["lock"] != nil {
		t.Errorf("source: %v", c)
	}
	g.check()
	g.clock.Advance(time.Minute)
	if c := config(100); c["lock"] != nil || c["scsi0"] != "local-zfs:vm-100-disk-0,size=2G" || c["protection"] != 1.0 ||
		c["tags"] != "golden" {
		t.Errorf("at the end: %v", c)
	}
	g.s.Do(func(w *state.World) {
		if w.Tasks[upid].ExitStatus != "OK" {
			t.Error(w.Tasks[upid].ExitStatus)
		}
	})
	g.check()
}

func TestStopClone(t *testing.T) {
	g := slow(t)
	before := string(g.s.Snapshot())
	upid, _ := g.do("root@pam!tf", "POST", "/nodes/pve1/qemu/9000/clone", cloneLine).body.Data.(string)
	g.clock.Advance(20 * time.Second)
	g.later("root@pam!tf", "DELETE", "/nodes/pve1/tasks/"+upid, "")
	g.clock.Advance(time.Minute)
	g.s.Do(func(w *state.World) {
		if s := w.Tasks[upid].ExitStatus; !strings.HasPrefix(s, "clone failed: ") {
			t.Error(s)
		}
	})
	if diff := cmp.Diff(before, string(g.s.Snapshot())); diff != "" {
		t.Error(diff)
	}
}
