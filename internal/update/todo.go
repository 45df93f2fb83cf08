package update

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// todo is the part of the update that is still to be done.
type todo struct {
	prior, planned vm.Spec   // what state knows and what is wanted; a drive that has moved since is as the server has it
	base           vm.Spec   // what the change begins with
	change         vm.Change // what turns the one into the other
	convert        bool      // to a template, by a request of its own
	loose          map[string]bool
	read           pve.PendingConfig      // that the change was worked out from
	emptied        []string               // options that were deleted for the change since
	dropped        map[string]removedDisk // disks of the state that waited in slots which the change empties
}

// compare works out what to send, from the server's present configuration, after each wait again.
func compare(u *update, config pve.PendingConfig, prior, planned vm.Spec, loose map[string]bool) (todo, error) {
	vmid, server := u.vmid, vm.Decode(config.Merged())
	if err := checkFilled(u.r, config); err != nil {
		return todo{}, err
	}
	if err := notTakenOver(vmid, server, prior); err != nil {
		return todo{}, err
	}
	if err := checkVolumes(u, config, server, prior, planned, loose); err != nil {
		return todo{}, err
	}
	base, target := addToServer(server, withoutOthers(prior, u.r.Notes.Others), planned)
	base, target = vm.Rebase(server, base, target)
	t := todo{prior: prior, planned: planned, loose: loose, base: base, read: config,
		change: vm.Diff(vm.WithRest(base, server), target)}
	if len(t.change.Problems) > 0 {
		return todo{}, request.Problems("change", vmid, t.change)
	}
	if err := checkSlots(vmid, config, prior, planned, t.change); err != nil {
		return todo{}, err
	}
	if !u.r.Protect { // of a holder the state has less than its VM
		if err := checkScalars(vmid, config, prior, t.change); err != nil {
			return todo{}, err
		}
	}
	t.change = remakeWaitingCloudInit(t.change, config)
	_, t.convert = t.change.Set["template"]
	delete(t.change.Set, "template")
	return t, nil
}

// withoutOthers is a known VM without the disks that only a refresh has seen: it knows none of their options, so each
// configured one is a change of what the server has.
func withoutOthers(prior vm.Spec, others map[string]string) vm.Spec {
	prior.Disks = maps.Clone(prior.Disks)
	maps.DeleteFunc(prior.Disks, func(slot string, _ vm.Disk) bool { return others[slot] != "" })
	return prior
}

// stillLeft refuses to change the leftover of a failed create, which its user has untainted, if it is that no more: a
// create of an equal configuration completes it, and takes the mark away. The uuid stays.
func stillLeft(r Request, config pve.PendingConfig) error {
	if r.Leftover == nil || r.Leftover.Owner(config.Current()) != guest.ThirdParty {
		return nil
	}
	return &guest.FieldError{Path: "description", Summary: fmt.Sprintf("VM %d has changed since the plan", r.Ref.VMID),
		Detail: "The plan is about the leftover of a failed create, and the mark of that create is not in its description " +
			"any more: a create of an equal configuration, of another state, has completed the VM or is about to, or a third " +
			"party has changed the description. Its configuration was not changed. Make a new plan: its refresh takes the VM " +
			"out of this state"}
}

// notTakenOver refuses to change an untainted VM whose mark is that of another create than the plan has seen.
func notTakenOver(vmid int, server, prior vm.Spec) error {
	was, is := prior.Description, server.Description
	if was == nil || is == nil || *was == *is || !ownership.IsMark(*was) || !ownership.IsMark(*is) {
		return nil
	}
	return &guest.FieldError{Path: "description", Summary: fmt.Sprintf("VM %d is being made by another run", vmid),
		Detail: "Its description is the ownership mark of a create that the plan has not seen: a create of an equal " +
			"configuration, of another state, has taken the VM for its own. Its options were not changed. Give that " +
			"configuration a VM of its own (another name or vmid), and plan again when its create is over"}
}

// recompare compares again after a step has changed drives: the rest of the change begins with where they are now.
func recompare(ctx context.Context, u *update, t todo, changed func(slot string) bool) (todo, error) {
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return t, err
	}
	noteOthers(u, config, changed)
	planned := withoutOldNames(t.prior, t.planned)
	known := withKnownSizes(withMoved(t.prior, vm.Decode(config.Merged()), changed), t.prior, planned)
	next, err := compare(u, config, known, planned, t.loose)
	if err != nil {
		return t, err
	}
	return next, nil
}

// withKnownSizes is the known VM where disks have moved, with the sizes that the plan leaves as they were: a disk that
// a third party has grown since is no difference then, as where nothing has moved.
func withKnownSizes(moved, prior, planned vm.Spec) vm.Spec {
	moved.Disks = maps.Clone(moved.Disks)
	for slot, disk := range moved.Disks {
		was, wanted := prior.Disks[slot], planned.Disks[slot]
		if was.Size != nil && wanted.Size != nil && *was.Size == *wanted.Size {
			disk.Size = was.Size
			moved.Disks[slot] = disk
		}
	}
	return moved
}

// addToServer is vm.WithServerDevices, with what PVE needs for new devices.
func addToServer(server, prior, planned vm.Spec) (before, after vm.Spec) {
	before, after = vm.WithServerDevices(server, prior, planned)
	for slot, disk := range after.Disks {
		_, taken := server.Disks[slot]
		// it brings its options
		if from := vm.SlotOf(server.Disks, disk.Volume); from != "" && !taken && !hasDisk(prior.Disks, slot) {
			after.Disks[slot] = vm.FitDisk(slot, vm.MergeDisk(server.Disks[from], disk))
		}
	}
	vm.Complete(&after)
	return before, after
}

func hasDisk(disks map[string]vm.Disk, slot string) bool {
	_, ok := disks[slot]
	return ok
}

// withoutOldNames removes the volumes from the plan that are those of the prior state. They may have other names by
// now, and to name the old one would be to attach it again.
func withoutOldNames(prior, planned vm.Spec) vm.Spec {
	planned.Disks = maps.Clone(planned.Disks)
	for slot, disk := range planned.Disks {
		if was, ok := prior.Disks[slot]; ok && disk.Volume == was.Volume {
			disk.Volume = ""
			planned.Disks[slot] = disk
		}
	}
	if was, is := prior.EFIDisk, planned.EFIDisk; was != nil && is != nil && is.Volume == was.Volume {
		disk := *is
		disk.Volume, planned.EFIDisk = "", &disk
	}
	if was, is := prior.TPMState, planned.TPMState; was != nil && is != nil && is.Volume == was.Volume {
		disk := *is
		disk.Volume, planned.TPMState = "", &disk
	}
	if planned.CloudInit.Volume == prior.CloudInit.Volume {
		planned.CloudInit.Volume = ""
	}
	return planned
}

// withMoved is the known VM, with the changed drives where the server has them now. Their options are compared as they
// are known.
func withMoved(prior, server vm.Spec, changed func(slot string) bool) vm.Spec {
	prior.Disks = maps.Clone(prior.Disks)
	for slot, was := range prior.Disks {
		if is, ok := server.Disks[slot]; ok && changed(slot) {
			was.Storage, was.Volume, was.Format, was.Size = is.Storage, is.Volume, is.Format, is.Size
			prior.Disks[slot] = was
		}
	}
	if prior.EFIDisk != nil && server.EFIDisk != nil && changed("efidisk0") {
		prior.EFIDisk = server.EFIDisk
	}
	if prior.TPMState != nil && server.TPMState != nil && changed("tpmstate0") {
		prior.TPMState = server.TPMState
	}
	if now := server.CloudInit; prior.CloudInit.Slot != "" && prior.CloudInit.Slot == now.Slot && changed(now.Slot) {
		prior.CloudInit.Storage, prior.CloudInit.Volume, prior.CloudInit.Format = now.Storage, now.Volume, now.Format
	}
	return prior
}

// stillHolds refuses the change if a third party has changed what it is about since it was worked out: PVE would put
// the older values in the place of theirs. It compares nothing but the digest (qemu-server API2/Qemu.pm
// update_vm_api), and a configuration that was read again has a new one.
func (t todo) stillHolds(vmid int, now pve.PendingConfig) error {
	if now.Digest == t.read.Digest {
		return nil
	}
	c := t.change
	c.DeleteFirst = t.emptied
	next := map[string]string{"delete": strings.Join(c.Delete, ",")}
	maps.Copy(next, c.Set)
	return guest.CheckUndisturbed(vmid, t.read, now, c, next)
}

// attached are the disks of a change that get an existing volume, by slot.
func (t todo) attached() map[string]string {
	all := map[string]string{}
	for slot, disk := range vm.Decode(t.change.Set).Disks {
		if disk.Volume != "" && disk.Volume != t.base.Disks[slot].Volume {
			all[slot] = disk.Volume
		}
	}
	return all
}

// given are those of the attached disks that the VM had in no slot when the change was worked out. The others only
// change their slot: whether another guest has them, too, is as it was.
func (t todo) given() map[string]string {
	all, held := t.attached(), guest.HoldingsOf(t.read)
	maps.DeleteFunc(all, func(_, volume string) bool { return held.SlotOf(volume) != "" })
	return all
}

// sends reports whether an option is part of a change.
func sends(c vm.Change, option string) bool {
	_, set := c.Set[option]
	return set || slices.Contains(c.Delete, option) || slices.Contains(c.DeleteFirst, option)
}

// isEmpty reports whether the configuration stays as it is.
func (t todo) isEmpty() bool {
	return t.change.Empty()
}
