package create

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// configure enforces the configuration on a copy, and leaves the rest as the source has it. It changes what it has
// read, and starts again if a third party has changed that meanwhile.
func (a *attempt) configure(ctx context.Context) error {
	return a.view.Try(ctx, a.configureRead)
}

func (a *attempt) configureRead(ctx context.Context, config pve.PendingConfig) error {
	if err := checkSlots(ctx, a); err != nil {
		return err
	}
	has := vm.Decode(config.Current())
	want := vm.Merge(has, a.spec)
	want.Description, want.Protection, want.Template = has.Description, has.Protection, has.Template
	vm.Complete(&want)
	a.cloudInit = want.CloudInit.Slot != ""
	a.change = vm.Diff(has, want)
	a.change.ImportStorage = a.r.ImportStorage
	displaced, _ := vm.Displaced(has, a.spec)
	a.change.Problems = append(a.change.Problems, displaced...)
	if a.resumed {
		var err error
		if a.change, err = (resumption{a}).missing(ctx, a.change); err != nil {
			return err
		}
	}
	if len(a.change.Problems) > 0 {
		return request.Problems("configure", a.vmid, a.change)
	}
	a.moving = targets(a.change.Moves, has)
	if len(a.change.DeleteFirst) > 0 && has.Protection != nil && *has.Protection { // inherited; the commit sets it again
		err := a.view.Set(ctx, pve.Params{"protection": "0"})
		if err != nil {
			return err
		}
		a.unprotected = true
		if config, err = a.view.Fresh(ctx); err != nil {
			return err
		}
		return a.configureRead(ctx, config)
	}
	config, err := a.growFirst(ctx, config)
	if err != nil {
		return err
	}
	change := a.change
	if len(change.Set) > 0 || a.isToRenew() {
		change.Set = withMark(a, change.Set)
	}
	if err := guard.CheckCopies(ctx, a.creator.destroyer.Guard, a.node, change.Copies()); err != nil {
		return err
	}
	began := a.creator.jobs.Clock.Now()
	if _, err := a.view.Write(ctx, change, config); err != nil {
		return withDrive(ctx, a, err)
	}
	if noteGap(a); change.Set["description"] != "" {
		a.renewed = began
	}
	if order := a.r.Spec.BootOrder; order != nil && request.AppendsToBootOrder(a.change, has.BootOrder) {
		boot := vm.Encode(vm.Spec{Options: vm.Options{BootOrder: order}})["boot"]
		if config, err = a.view.Fresh(ctx); err == nil {
			_, err = a.view.Write(ctx, vm.Change{Set: map[string]string{"boot": boot}}, config)
		}
	}
	return err
}

// withMark is the options with the mark renewed: what is known of the copy by now binds the mark to it.
func withMark(a *attempt, options map[string]string) map[string]string {
	a.mark.UUID = a.view.Identity().UUID
	if _, changes := options["smbios1"]; changes { // the uuid may be another one with this write
		a.mark.UUID = vm.UUID(options)
	}
	if maker := makerOf(&a.view.Tasks, a.mark.By); maker != "" {
		a.mark.Task = string(maker)
	}
	a.mark = a.creator.guests.Renewed(a.mark)
	marked := map[string]string{}
	maps.Copy(marked, options)
	marked["description"] = a.mark.String()
	return marked
}

// checkSlots refuses a VM that was read with disks which a third party has put into its slots since it was made: those
// of other guests, and in a configured slot also one that this create has not made. To go on would take such a disk for
// the configured one, grow it, or start the guest with it.
func checkSlots(ctx context.Context, a *attempt) error {
	config := a.view.Last().Current()
	made, err := a.made.Others(ctx, a.creator.api.Reader(), a.view.Tasks.UPIDs, a.view.Node(), a.vmid, config,
		vm.Encode(a.spec))
	if err != nil {
		return err
	}
	others := append(a.foreign(a.vmid, config), made...)
	if len(others) == 0 {
		return nil
	}
	return &guest.FieldError{Path: "disks",
		Summary: fmt.Sprintf("VM %d has got disks that its create has not put there", a.vmid),
		Detail: fmt.Sprintf("A third party has attached them while the VM was being made: %s. They were not changed",
			strings.Join(others, ", "))}
}

// makerOf is the task of an attempt that made its VM, "" if it is not known. One that is resumed has none: the task was
// the dead run's, and the first task of this one may be a migration.
func makerOf(tasks *request.Tasks, by string) pve.UPID {
	if len(tasks.UPIDs) == 0 || tasks.Guessed[tasks.UPIDs[0]] || tasks.UPIDs[0].Type() != by {
		return ""
	}
	return tasks.UPIDs[0]
}

// growFirst grows disks before the options are set, and returns the configuration that the VM has then. PVE changes one
// line of the file for that (API2/Qemu.pm resize_vm), so the new digest is known beforehand and binds the setting of
// the options. That proves whose VM it is right before the start, without a read after the growth. If the digest cannot
// be known, or no options are to be set, the disks are grown afterwards.
func (a *attempt) growFirst(ctx context.Context, config pve.PendingConfig) (pve.PendingConfig, error) {
	if len(a.change.Moves)+len(a.change.DeleteFirst) > 0 || len(a.change.Set) == 0 || a.change.Allocates() {
		return config, nil
	}
	digests := []string{config.Digest}
	last := pve.GuestConfig{Values: config.Current(), Digest: config.Digest}
	for _, g := range a.change.Grow {
		if _, set := a.change.Set[g.Slot]; set {
			return config, nil
		}
		if last = last.Foretell(g.Slot, vm.Resized(last.Values[g.Slot], g.Size)); last.Digest == "" {
			return config, nil
		}
		digests = append(digests, last.Digest)
	}
	for i, g := range a.change.Grow {
		a.view.NoteSeen(true)
		if err := a.grow(ctx, g, digests[i]); err != nil {
			return config, err
		}
	}
	a.change.Grow, config.Digest = nil, digests[len(digests)-1]
	return config, nil
}

// grow grows a disk of the configuration with this digest. If a look comes before it, the disk is that of the
// configuration that the look has shown.
func (a *attempt) grow(ctx context.Context, g vm.Growth, digest string) error {
	size := property.FormatSize(g.Size)
	a.made.Grows(g.Slot, g.Size)
	look := func(ctx context.Context) error {
		return guest.GuardUnlessSeen(ctx, a.view, a.renew, func(ctx context.Context) error {
			digest = a.view.Last().Digest
			return checkSlots(ctx, a)
		})
	}
	err := a.creator.jobs.Retry(ctx, request.Conflict(), func(ctx context.Context) error {
		_, err := a.view.Perform(ctx, request.Request{Type: "resize", Send: func(ctx context.Context) (pve.UPID, error) {
			return a.creator.api.QEMU(a.node, a.vmid).ResizeDisk(ctx, g.Slot, size, digest)
		}}, look)
		return err
	})
	if err != nil {
		return fmt.Errorf("grow %s to %s: %w", g.Slot, size, err)
	}
	return nil
}

// shape moves and grows disks.
func (a *attempt) shape(ctx context.Context) error {
	if a.moved { // in the middle of it, maybe
		config, err := a.view.Fresh(ctx)
		if err != nil {
			return err
		}
		has := vm.Decode(config.Current())
		rest := vm.Diff(has, vm.Merge(has, a.spec))
		a.change.Moves, a.change.Grow, a.moving = rest.Moves, rest.Grow, targets(rest.Moves, has)
	}
	if len(a.change.Moves) > 0 {
		a.made.Want(a.moving)
		read, err := a.view.Known(ctx)
		if err == nil {
			err = checkSlots(ctx, a)
		}
		if err != nil {
			return err
		}
		a.view.NoteSeen(false)
		for _, m := range a.change.Moves {
			a.view.Forget()
			moved := guard.Moved{Move: m, Volume: guest.VolumeOf(read.Current()[m.Slot])}
			err := a.creator.destroyer.MoveUncommitted(ctx, &a.view.Tasks, a.node, a.mark, moved, a.first.alone)
			if err != nil {
				return err
			}
			now, err := a.view.Fresh(ctx)
			if err != nil {
				return err
			}
			if volid.Storage(guest.VolumeOf(now.Current()[m.Slot])) == m.Storage { // else it is a third party's
				a.made.Moved(a.view.Node(), m.Slot, moved.Volume)
				a.made.Saw(a.view.Node(), a.vmid, now.Current())
			}
		}
	}
	for _, g := range a.change.Grow {
		if err := a.grow(ctx, g, ""); err != nil {
			return err
		}
	}
	return nil
}

// withDrive adds the cloud-init drive that is in the way to the error of a request that was to make one, with the
// command that removes it: a task has died before the configuration named it. No roll-back knows of it.
func withDrive(ctx context.Context, a *attempt, failed error) error {
	storage := a.spec.CloudInit.Storage
	if !pve.IsKind(failed, pve.Leftover) || storage == "" {
		return failed
	}
	all, err := a.creator.guests.Volumes(ctx, a.view.Node(), storage, a.vmid)
	if err != nil {
		return failed
	}
	var volumes []string
	for _, v := range all {
		if !guest.Uses(a.view.Last().Current(), v.ID) {
			volumes = append(volumes, v.ID)
		}
	}
	return fmt.Errorf("%w%s", failed, guest.FreeDrives(a.view.Node(), volumes))
}
