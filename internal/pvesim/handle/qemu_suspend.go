package handle

import (
	"cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// qemuSuspend pauses a guest, or saves it to disk and ends it (todisk=1).
func qemuSuspend(r *Request) (any, error) {
	if !r.flag("todisk") {
		return r.onRunning("qmpause", func(_ *Worker, g *state.Guest) error {
			g.Running.QMPStatus = "paused"
			return nil
		})
	}
	skiplock, err := r.skiplock()
	if err != nil {
		return nil, err
	}
	if err := r.running(); err != nil {
		return nil, err
	}
	if r.managed() != nil {
		return nil, Die("Cannot suspend HA managed VM to disk")
	}
	if err := r.Check("/vms/"+r.Params["vmid"], "VM.Config.Disk"); err != nil {
		return nil, err
	}
	for opt := range r.W.Guests[r.vmid()].Config {
		if hasIndex(opt, "hostpci") {
			return nil, Die("cannot suspend VM to disk due to passed-through PCI device(s), which lack the possibility to save/restore their " +
				"internal state")
		}
	}
	storage := cmp.Or(r.Params["statestorage"], process{r, nil}.stateStorage(r.W.Guests[r.vmid()]))
	if err := r.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil { // qemu-server API2/Qemu.pm vm_suspend
		return nil, err
	}
	return r.onGuest("qmsuspend", func(w *Worker, g *state.Guest) error {
		switch {
		case g.Lock() == "backup":
			return Die("cannot suspend to disk during backup")
		case g.Lock() != "" && !skiplock:
			return checkLock(g)
		case g.Running == nil:
			return Die("VM %d not running", g.VMID)
		}
		return process{r, w}.saveToDisk(g)
	}), nil
}

// saveToDisk is vm_suspend with the state: the lock is suspending until the memory is on disk, and stays if that fails.
func (p process) saveToDisk(g *state.Guest) error {
	v, err := p.stateVolume(g, "suspend-"+p.W.Clock.Now().UTC().Format("2006-01-02"), p.Params["statestorage"])
	if err != nil {
		return err
	}
	g.Config["vmstate"] = v.Volid()
	g.Config["runningmachine"] = p.Server.runningMachine(p.W, g)
	g.SetLock("suspending", p.worker.Task.UPID)
	if err := p.worker.Checkpoint(); err != nil {
		p.cleanUp(g.Node, []string{v.Volid()})
		delete(g.Config, "vmstate")
		delete(g.Config, "runningmachine")
		g.LockCause = "failure"
		return err
	}
	p.logf("State saved, quitting")
	g.SetLock("suspended", p.worker.Task.UPID)
	p.Server.lose(g, state.PowerSuspend, p.worker.Task)
	return nil
}
