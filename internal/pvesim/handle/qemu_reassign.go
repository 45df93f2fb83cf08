package handle

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// reassign gives a drive to another VM of the node: its volume is renamed.
func (r *Request) reassign() (any, error) {
	target := number(r.Params["target-vmid"])
	if err := r.checkVM(target, "", "VM.Config.Disk"); err != nil && !r.Auth.IsRoot() {
		return nil, err
	}
	if target == r.vmid() {
		return nil, Invalid("target-vmid", "must be different than source VMID to reassign disk")
	}
	to := r.Params["target-disk"]
	if to == "" {
		to = r.Params["disk"]
	}
	_, _, d, err := r.reassignChecks(target, to)
	if err != nil {
		return nil, err
	}
	storage, _, _ := state.SplitVolid(d.file())
	if err := r.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%d-%s>%d-%s", r.vmid(), r.Params["disk"], target, to)
	return r.taskFor("qmmove", id, func(w *Worker) error { return r.reassignWorker(w, target, to) }), nil
}

// reassignChecks is load_and_check_reassign_configs.
func (r *Request) reassignChecks(target int, to string) (source, dest *state.Guest, d drive, err error) {
	source, dest = r.W.Guests[r.vmid()], r.W.Guests[target]
	switch {
	case source == nil:
		return nil, nil, nil, Die("could not find VM %d", r.vmid())
	case dest == nil:
		return nil, nil, nil, Die("could not find target VM %d", target)
	case source.Node != dest.Node:
		return nil, nil, nil, Die("Both VMs need to be on the same node (%s != %s)", source.Node, dest.Node)
	}
	for _, id := range []int{r.vmid(), target} {
		g, err := loadGuest(r.W, r.node(), id)
		if err == nil {
			err = checkLock(g)
		}
		if err != nil {
			return nil, nil, nil, err
		}
	}
	if source.IsTemplate() || dest.IsTemplate() {
		return nil, nil, nil, Die("Can't move disks from or to template VMs")
	}
	const modified = "VM %d: detected modified configuration - file changed by other user? Try again."
	if want := r.Params["digest"]; want != "" && want != source.Digest() {
		return nil, nil, nil, Die(modified, source.VMID)
	}
	if want := r.Params["target-digest"]; want != "" && want != dest.Digest() {
		return nil, nil, nil, Die(modified, dest.VMID)
	}
	d, err = r.reassignedDrive(source, dest, to)
	return source, dest, d, err
}

func (r *Request) reassignedDrive(source, dest *state.Guest, to string) (drive, error) {
	opt := r.Params["disk"]
	switch {
	case source.Config[opt] == "":
		return nil, Die("Disk '%s' for VM '%d' does not exist", opt, source.VMID)
	case dest.Config[to] != "":
		return nil, Die("Target disk key '%s' is already in use for VM '%d'", to, dest.VMID)
	}
	d := r.Server.parseVolume(opt, source.Config[opt])
	if d == nil {
		return nil, Die("failed to parse source disk - ")
	}
	if d.isMedia() {
		return nil, Die("CD drive contents can't be moved to another VM")
	}
	if _, _, ok := state.SplitVolid(d.file()); !ok {
		return nil, Die("Volume '%s' not managed by PVE", d.file())
	}
	if r.Server.used(source, opt, d.file()) {
		return nil, Die("Can't move disk used by a snapshot to another VM")
	}
	if !r.volumeHas("rename", d.file(), "") {
		return nil, Die("Storage does not support moving of this disk to another VM")
	}
	if source.Running != nil && !hasIndex(opt, "unused") {
		return nil, Die("Cannot move disk to another VM while the source VM is running - detach first")
	}
	return d, nil
}

func (r *Request) reassignWorker(w *Worker, target int, to string) error {
	release, err := w.lockGuest(r.vmid(), false, LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	releaseTarget, err := w.lockGuest(target, false, LockTimeout)
	if err != nil {
		return err
	}
	defer releaseTarget()
	source, dest, d, err := r.reassignChecks(target, to)
	if err != nil {
		return err
	}
	opt := r.Params["disk"]
	w.Logf("moving disk '%s' from VM '%d' to '%d'", opt, source.VMID, target)
	v := r.W.Volume(source.Node, d.file())
	if v == nil {
		return Die("volume '%s' does not exist", d.file())
	}
	if err := r.lockStorage(source.Node, v.Storage); err != nil {
		return err
	}
	if err := r.W.Rename(v, target); err != nil {
		return err
	}
	d["file"] = v.Volid()
	if order := bootOrder(source.Config["boot"]); slices.Contains(order, opt) {
		w.Logf("removing disk '%s' from boot order config", opt)
		source.Config["boot"] = printOrder(without(order, opt))
	}
	delete(source.Config, opt)
	w.Logf("removing disk '%s' from VM '%d' config", opt, source.VMID)
	r.Server.writeConfig(source)
	if err := w.Checkpoint(); err != nil {
		return err
	}
	if hasIndex(to, "unused") {
		dest.Config[to] = v.Volid()
		r.Server.writeConfig(dest)
		return nil
	}
	return r.attachReassigned(w, target, to, r.Server.printDrive(to, d))
}

// attachReassigned is the update of the target's configuration, in the same task.
func (r *Request) attachReassigned(w *Worker, target int, to, value string) error {
	inner := r.on(r.node(), target)
	inner.Params[to] = value
	u, err := inner.newUpdate()
	if err != nil {
		return err
	}
	if err := u.check(); err != nil {
		return err
	}
	w.Logf("update VM %d: -%s %s", target, to, value)
	err = u.run(w)
	if e := (*Error)(nil); errors.As(err, &e) && e.Status == 400 {
		return errors.New(strconv.Itoa(e.Status) + " " + e.Message)
	}
	return err
}
