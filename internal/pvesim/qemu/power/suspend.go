package power

import (
	"cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// Suspend pauses a guest, or saves it to disk and ends it (todisk=1).
func Suspend(r *engine.Request) (any, error) {
	if !r.Flag("todisk") {
		return onRunning(r, "qmpause", func(_ *engine.Worker, g *state.Guest) error {
			g.Running.QMPStatus = "paused"
			return nil
		})
	}
	skiplock, err := guest.SkipLock(r)
	if err != nil {
		return nil, err
	}
	if err := CheckRunning(r); err != nil {
		return nil, err
	}
	if Managed(r) != nil {
		return nil, perl.Die("Cannot suspend HA managed VM to disk")
	}
	if err := r.Check("/vms/"+r.Params["vmid"], "VM.Config.Disk"); err != nil {
		return nil, err
	}
	for opt := range r.W.Guests[r.VMID()].Config {
		if drive.HasIndex(opt, "hostpci") {
			return nil, perl.Die("cannot suspend VM to disk due to passed-through PCI device(s), which lack the possibility " +
				"to save/restore their internal state")
		}
	}
	storage := cmp.Or(r.Params["statestorage"], config.StateStorage(engine.Process{Request: r, Worker: nil},
		r.W.Guests[r.VMID()]))
	if err := r.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil { // qemu-server API2/Qemu.pm vm_suspend
		return nil, err
	}
	return guest.ForkLocked(r, "qmsuspend", func(w *engine.Worker, g *state.Guest) error {
		switch {
		case g.Lock() == "backup":
			return perl.Die("cannot suspend to disk during backup")
		case g.Lock() != "" && !skiplock:
			return guest.CheckLock(g)
		case g.Running == nil:
			return perl.Die("VM %d not running", g.VMID)
		}
		return saveToDisk(engine.Process{Request: r, Worker: w}, g)
	}), nil
}

// saveToDisk is vm_suspend with the state: the lock is suspending until the memory is on disk, and stays if that fails.
func saveToDisk(p engine.Process, g *state.Guest) error {
	v, err := config.StateVolume(p, g, "suspend-"+p.W.Clock.Now().UTC().Format("2006-01-02"), p.Params["statestorage"])
	if err != nil {
		return err
	}
	g.Config["vmstate"] = v.Volid()
	g.Config["runningmachine"] = config.RunningMachine(p.Engine, p.W, g)
	g.SetLock("suspending", p.Worker.Task.UPID)
	if err := p.Worker.Checkpoint(); err != nil {
		volume.CleanUp(p, g.Node, []string{v.Volid()})
		delete(g.Config, "vmstate")
		delete(g.Config, "runningmachine")
		g.LockCause = "failure"
		return err
	}
	p.Logf("State saved, quitting")
	g.SetLock("suspended", p.Worker.Task.UPID)
	p.Engine.Lose(g, state.PowerSuspend, p.Worker.Task)
	return nil
}
