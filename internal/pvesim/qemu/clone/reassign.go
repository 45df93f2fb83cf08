package clone

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// reassign gives a drive to another VM of the node: its volume is renamed.
func reassign(r *engine.Request) (any, error) {
	target := perl.Number(r.Params["target-vmid"])
	if err := drive.CheckVM(r, target, "", "VM.Config.Disk"); err != nil && !r.Auth.IsRoot() {
		return nil, err
	}
	if target == r.VMID() {
		return nil, perl.Invalid("target-vmid", "must be different than source VMID to reassign disk")
	}
	to := r.Params["target-disk"]
	if to == "" {
		to = r.Params["disk"]
	}
	_, _, d, err := reassignChecks(r, target, to)
	if err != nil {
		return nil, err
	}
	storage, _, _ := state.SplitVolid(d.File())
	if err := r.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%d-%s>%d-%s", r.VMID(), r.Params["disk"], target, to)
	return guest.ForkFor(r, "qmmove", id, func(w *engine.Worker) error { return reassignWorker(r, w, target, to) }), nil
}

// reassignChecks is load_and_check_reassign_configs.
func reassignChecks(r *engine.Request, target int, to string) (source, dest *state.Guest, d drive.Drive, err error) {
	source, dest = r.W.Guests[r.VMID()], r.W.Guests[target]
	switch {
	case source == nil:
		return nil, nil, nil, perl.Die("could not find VM %d", r.VMID())
	case dest == nil:
		return nil, nil, nil, perl.Die("could not find target VM %d", target)
	case source.Node != dest.Node:
		return nil, nil, nil, perl.Die("Both VMs need to be on the same node (%s != %s)", source.Node, dest.Node)
	}
	for _, id := range []int{r.VMID(), target} {
		g, err := guest.LoadOn(r.W, r.Node(), id)
		if err == nil {
			err = guest.CheckLock(g)
		}
		if err != nil {
			return nil, nil, nil, err
		}
	}
	if source.IsTemplate() || dest.IsTemplate() {
		return nil, nil, nil, perl.Die("Can't move disks from or to template VMs")
	}
	const modified = "VM %d: detected modified configuration - file changed by other user? Try again."
	if want := r.Params["digest"]; want != "" && want != source.Digest() {
		return nil, nil, nil, perl.Die(modified, source.VMID)
	}
	if want := r.Params["target-digest"]; want != "" && want != dest.Digest() {
		return nil, nil, nil, perl.Die(modified, dest.VMID)
	}
	d, err = reassignedDrive(r, source, dest, to)
	return source, dest, d, err
}

func reassignedDrive(r *engine.Request, source, dest *state.Guest, to string) (drive.Drive, error) {
	opt := r.Params["disk"]
	switch {
	case source.Config[opt] == "":
		return nil, perl.Die("Disk '%s' for VM '%d' does not exist", opt, source.VMID)
	case dest.Config[to] != "":
		return nil, perl.Die("Target disk key '%s' is already in use for VM '%d'", to, dest.VMID)
	}
	d := parseVolume(r.Engine, opt, source.Config[opt])
	if d == nil {
		return nil, perl.Die("failed to parse source disk - ")
	}
	if d.IsMedia() {
		return nil, perl.Die("CD drive contents can't be moved to another VM")
	}
	if _, _, ok := state.SplitVolid(d.File()); !ok {
		return nil, perl.Die("Volume '%s' not managed by PVE", d.File())
	}
	if drive.Used(r, source, opt, d.File()) {
		return nil, perl.Die("Can't move disk used by a snapshot to another VM")
	}
	if !drive.VolumeHas(r, "rename", d.File(), "") {
		return nil, perl.Die("Storage does not support moving of this disk to another VM")
	}
	if source.Running != nil && !drive.HasIndex(opt, "unused") {
		return nil, perl.Die("Cannot move disk to another VM while the source VM is running - detach first")
	}
	return d, nil
}

func reassignWorker(r *engine.Request, w *engine.Worker, target int, to string) error {
	release, err := guest.LockInTask(w, r.VMID(), false, engine.LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	releaseTarget, err := guest.LockInTask(w, target, false, engine.LockTimeout)
	if err != nil {
		return err
	}
	defer releaseTarget()
	source, dest, d, err := reassignChecks(r, target, to)
	if err != nil {
		return err
	}
	opt := r.Params["disk"]
	w.Logf("moving disk '%s' from VM '%d' to '%d'", opt, source.VMID, target)
	v := r.W.Volume(source.Node, d.File())
	if v == nil {
		return perl.Die("volume '%s' does not exist", d.File())
	}
	if err := r.LockStorage(source.Node, v.Storage); err != nil {
		return err
	}
	if err := r.W.Rename(v, target); err != nil {
		return err
	}
	d["file"] = v.Volid()
	if order := drive.BootOrder(source.Config["boot"]); slices.Contains(order, opt) {
		w.Logf("removing disk '%s' from boot order config", opt)
		source.Config["boot"] = drive.PrintOrder(perl.Without(order, opt))
	}
	delete(source.Config, opt)
	w.Logf("removing disk '%s' from VM '%d' config", opt, source.VMID)
	config.Write(r.Engine, source)
	if err := w.Checkpoint(); err != nil {
		return err
	}
	if drive.HasIndex(to, "unused") {
		dest.Config[to] = v.Volid()
		config.Write(r.Engine, dest)
		return nil
	}
	return attachReassigned(r, w, target, to, drive.Print(r.Engine, to, d))
}

// attachReassigned is the update of the target's configuration, in the same task.
func attachReassigned(r *engine.Request, w *engine.Worker, target int, to, value string) error {
	inner := r.On(r.Node(), target)
	inner.Params[to] = value
	u, err := config.NewUpdate(inner)
	if err != nil {
		return err
	}
	if err := u.Check(); err != nil {
		return err
	}
	w.Logf("update VM %d: -%s %s", target, to, value)
	err = u.Run(w)
	if e := (*perl.Error)(nil); errors.As(err, &e) && e.Status == 400 {
		return errors.New(strconv.Itoa(e.Status) + " " + e.Message)
	}
	return err
}
