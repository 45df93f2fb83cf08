// Package guest finds and locks the virtual machine that a request is about, and forks tasks for it.
package guest

import (
	"strconv"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Load reads the configuration of the VM that the path names (guest-common AbstractConfig.pm load_config).
func Load(r *engine.Request) (*state.Guest, error) { return LoadOn(r.W, r.Node(), r.VMID()) }

// LoadOn finds a virtual machine on a node. The error reads as that of a missing configuration file.
func LoadOn(w *state.World, node string, vmid int) (*state.Guest, error) {
	g := w.Guests[vmid]
	if g == nil || g.Type != "qemu" || g.Node != node {
		return nil, perl.Die("Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", node, vmid)
	}
	return g, nil
}

// Find is the other way to miss a VM: the check whether it runs (PVE::QemuServer::check_running) finds no file.
func Find(w *state.World, node string, vmid int) (*state.Guest, error) {
	g, err := LoadOn(w, node, vmid)
	if err != nil {
		return nil, perl.Die("unable to find configuration file for VM %d on node '%s'", vmid, node)
	}
	return g, nil
}

// CheckLock is AbstractConfig.pm's check_lock.
func CheckLock(g *state.Guest) error {
	if lock := g.Lock(); lock != "" {
		return perl.Die("VM is locked (%s)", lock)
	}
	return nil
}

// SkipLock answers whether locks are to be ignored, which only the user root@pam with a ticket may ask for.
func SkipLock(r *engine.Request) (bool, error) {
	if r.Flag("skiplock") && !r.Auth.IsRoot() {
		return false, perl.Invalid("skiplock", "Only root may use this option.")
	}
	return r.Flag("skiplock"), nil
}

// Lock takes the lock of a VM's configuration file.
func Lock(r *engine.Request, timeout time.Duration) (release func(), err error) {
	return r.Engine.Flock(r.W, r.Node(), engine.GuestLock(r.VMID()), false, timeout)
}

// LockInTask takes the lock of a VM's configuration file and logs the wait for it, if there is one (pve-common
// Tools.pm, lock_file_full: only where the first flock with LOCK_NB fails).
func LockInTask(w *engine.Worker, vmid int, shared bool, timeout time.Duration) (release func(), err error) {
	release, blocked, err := w.Engine.TakeFlock(w.Task.Node, engine.GuestLock(vmid), shared, timeout)
	switch {
	case err != nil:
		w.Logf("trying to acquire lock...")
	case blocked:
		w.Logf("trying to acquire lock... OK")
	}
	return release, err
}

// Fork forks a worker for the VM of the path.
func Fork(r *engine.Request, typ string, work func(w *engine.Worker) error) string {
	return ForkFor(r, typ, strconv.Itoa(r.VMID()), work)
}

// ForkFor forks a worker. An error other than a plain die carries its status in the task's text, as a stringified
// PVE::Exception does.
func ForkFor(r *engine.Request, typ, id string, work func(w *engine.Worker) error) string {
	return r.Fork(r.Node(), typ, id, func(w *engine.Worker) error { return perl.Stringify(work(w)) })
}

// QemuIndex lists the paths below a virtual machine.
func QemuIndex(*engine.Request) (any, error) {
	return engine.Subdirs("config", "cloudinit", "pending", "status", "unlink", "vncproxy", "termproxy", "migrate",
			"resize", "move",
			"rrd", "rrddata", "monitor", "agent", "snapshot", "spiceproxy", "sendkey", "firewall", "mtunnel", "remote_migrate"),
		nil
}

// Index lists the paths below status.
func Index(*engine.Request) (any, error) {
	return engine.Subdirs("current", "start", "stop", "reset", "shutdown", "suspend", "reboot"), nil
}

// Progress lets a share of the task time pass without being a place where faults strike.
func Progress(w *engine.Worker) {
	share := w.Left / 4
	w.Left -= share
	if share > 0 {
		w.Wait(share)
	}
}

// ForkLocked forks a task that holds the guest's lock.
func ForkLocked(r *engine.Request, typ string, do func(w *engine.Worker, g *state.Guest) error) string {
	return Fork(r, typ, func(w *engine.Worker) error { return locked(r, w, do) })
}

// ForkMigrationLocked forks a task that holds the guest's migration lock, and its lock (guest-common GuestHelpers.pm
// guest_migration_lock). failed, if set, is the whole error of a task that does not get it.
func ForkMigrationLocked(r *engine.Request, typ, failed string,
	do func(w *engine.Worker, g *state.Guest) error) string {
	return Fork(r, typ, func(w *engine.Worker) error {
		release, err := r.Engine.Flock(r.W, r.Node(), engine.MigrationLock(r.VMID()), false, engine.LockTimeout)
		if err != nil && failed != "" {
			return perl.Die("%s", failed)
		}
		if err != nil {
			return err
		}
		defer release()
		return locked(r, w, do)
	})
}

func locked(r *engine.Request, w *engine.Worker, do func(w *engine.Worker, g *state.Guest) error) error {
	release, err := LockInTask(w, r.VMID(), false, engine.LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	g, err := Load(r)
	if err != nil {
		return err
	}
	return do(w, g)
}
