package act

import (
	"fmt"
	"maps"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// clusterActs are what jobs and daemons of the cluster do with guests.
func clusterActs() map[thirdparty.Act]func(*action) error {
	return map[thirdparty.Act]func(*action) error{
		thirdparty.Rescan: rescan, thirdparty.BackupRun: backupRun, thirdparty.HAMove: haMove,
		thirdparty.Imitate: imitate, thirdparty.RotateLogs: rotateLogs,
	}
}

// unlocked is the guest, if no lock is on it.
func unlocked(v *action) (*state.Guest, error) {
	g, err := v.guest()
	if err != nil {
		return nil, err
	}
	return g, guest.CheckLock(g)
}

func rescan(v *action) error {
	g, err := unlocked(v)
	if err != nil {
		return err
	}
	before := g.Digest()
	config.Rescan(engine.Process{Request: &engine.Request{W: v.w, Engine: v.s, Auth: auth.Root()}}, g)
	if g.Digest() == before {
		return perl.Die("VM %d has no volume to be found", g.VMID)
	}
	return nil
}

// backupRun starts a stopped guest without letting its processors run, as a backup does that needs a QEMU, and stops it
// at the end (qemu-server VZDump/QemuServer.pm, enforce_vm_running_for_backup).
func backupRun(v *action) error {
	g, err := unlocked(v)
	switch {
	case err != nil:
		return err
	case g.Running != nil || g.IsTemplate():
		return perl.Die("VM %d is not started for a backup", g.VMID)
	}
	v.s.Forks++
	run := &state.Running{QMPStatus: "prelaunch", PID: v.s.Forks, StartedAt: v.w.Clock.Now(), Booted: maps.Clone(g.Config)}
	g.Running, g.StatusAt = run, v.w.Clock.Now()
	if v.order.ForMS == 0 {
		v.order.ForMS = int(time.Minute / time.Millisecond)
	}
	v.hold(g, "backup", func() {
		if g.Running == run {
			v.w.PowerLoss(g, state.PowerStop, v.w.Tasks[g.LockCause])
			g.Running, g.StatusAt = nil, v.w.Clock.Now()
		}
	})
	return nil
}

// haMove is ha-manager migrate. The manager acts on it a round later.
func haMove(v *action) error {
	g, err := v.guest()
	if err != nil {
		return err
	}
	sid := fmt.Sprintf("vm:%d", g.VMID)
	if v.w.HA[sid] == nil {
		return perl.Die("no such resource '%s'", sid)
	}
	target := v.order.Node
	for _, name := range engine.NodeNames(v.w) {
		if target == "" && name != g.Node && v.w.Nodes[name].Online {
			target = name
		}
	}
	if target == "" {
		return perl.Die("there is no other node")
	}
	return v.call("POST /cluster/ha/resources/{sid}/migrate", map[string]string{"sid": sid, "node": target})
}

// imitate copies what anybody may copy: a name and a description.
func imitate(v *action) error {
	g, err := v.guest()
	if err != nil {
		return err
	}
	params := map[string]string{"description": g.Config["description"]}
	if params["description"] == "" {
		return perl.Die("VM %d has no description", g.VMID)
	}
	if name := g.Config["name"]; name != "" {
		params["name"] = name
	}
	return v.on(v.his(g.Node, "qemu"), "PUT /config", params)
}

// rotateLogs drops what has ended from the index of tasks, as its rotation does on a node with thousands of them
// (pve-common RESTEnvironment.pm; pve-manager bin/pveupdate, cleanup_tasks). A lock outlives the task that left it.
func rotateLogs(v *action) error {
	dropped := 0
	for upid, t := range v.w.Tasks {
		if t.Running {
			continue
		}
		for _, g := range v.w.Guests {
			if g.LockCause == upid {
				g.LockCause = "state"
			}
		}
		delete(v.w.Tasks, upid)
		dropped++
	}
	if dropped == 0 {
		return perl.Die("no task has ended")
	}
	return nil
}
