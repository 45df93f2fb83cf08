package create

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// migrate takes a clone that was made beside its source to its own node, with its disks; also the VM of a dead run that
// is on another node by now.
func (a *attempt) migrate(ctx context.Context) error {
	if a.moved { // a third party has
		return nil
	}
	params, from := pve.Params{"target": a.node, "with-local-disks": "1"}, a.view.Node()
	if running, err := (resumption{a}).isRunning(ctx); err != nil {
		return err
	} else if running { // its dead run has started it (qemu-server API2/Qemu.pm migrate_vm)
		params["online"] = "1"
	}
	result, err := a.perform(ctx, request.Request{Type: "qmigrate",
		Send: func(ctx context.Context) (pve.UPID, error) {
			return a.creator.api.QEMU(from, a.vmid).Migrate(ctx, params)
		},
		Done: func(ctx context.Context) (bool, error) {
			there, err := a.creator.api.QEMU(a.node, a.vmid).Config(ctx)
			return err == nil && a.mark.Proves(a.vmid, there.Values), err
		}}, func(ctx context.Context) error { return mayMigrate(ctx, a) })
	a.view.Moved(a.node)
	isMigration := func(task pve.UPID) bool { return task.Type() == "qmigrate" }
	if err == nil || slices.ContainsFunc(a.view.Tasks.UPIDs, isMigration) {
		a.made.Migrated(from, err == nil)
	}
	a.warn(fmt.Sprintf("Migration of VM %d ended with warnings", a.vmid), result)
	return err
}

// mayMigrate makes sure that no other guest has got a disk of the VM, if there was the time for that, such as while a
// lock was waited for. PVE frees local disks where they were, and does not ask the other guests (qemu-server
// QemuMigrate.pm phase3_cleanup).
func mayMigrate(ctx context.Context, a *attempt) error {
	if err := guard.CheckMade(ctx, a.creator.destroyer.Guard, a.view.Node(), a.mark, a.first.alone); err != nil {
		return &guest.FieldError{Path: "node", Summary: fmt.Sprintf("VM %d was not migrated to node %s", a.vmid, a.node),
			Detail: "PVE frees local disks on the node that they leave, and another guest that uses one would lose it", Err: err}
	}
	return nil
}

// start starts the VM. The commit uses the look that comes before the start; if there was none, the VM is read while it
// starts. A start with a cloud-init drive changes the configuration (qemu-server Cloudinit.pm, apply_cloudinit_config),
// so then the commit reads it.
func (a *borrowing) start(ctx context.Context) error {
	if running, err := (resumption{a.attempt}).isRunning(ctx); err != nil || running {
		a.status = string(guest.Running)
		return err
	}
	var reading sync.WaitGroup
	result, _, err := a.creator.guests.StartBy(ctx, func(ctx context.Context, r request.Request) (pve.TaskResult, error) {
		send := r.Send
		r.Send = func(ctx context.Context) (pve.UPID, error) {
			now := a.creator.jobs.Clock.Now()
			upid, err := send(ctx)
			a.beside.started.note(now, err)
			if err == nil && !a.cloudInit && !a.view.IsFresh() {
				reading.Go(func() { _, _ = a.view.Fresh(ctx) }) // if it fails the commit reads, and reports the error
			}
			return upid, err
		}
		result, err := a.view.Act(ctx, r, func(ctx context.Context) error {
			if err := a.lookWhoAgain(ctx); err != nil {
				return err
			}
			return a.lookUnlessSeen(ctx)
		})
		if pve.IsKind(err, pve.Busy) && !a.beside.started.unanswered { // it ran already: others have started it
			a.beside.started = starting{byOthers: true}
		}
		return result, err
	}, a.node, a.vmid)
	reading.Wait()
	if a.cloudInit {
		a.view.Forget()
	}
	a.warn(fmt.Sprintf("Start of VM %d ended with warnings", a.vmid), result)
	if err == nil {
		a.status = string(guest.Running)
	}
	return err
}

// setFirewall enforces the configured firewall. A clone keeps what its template has beside it. A VM made from scratch
// may find the file of an earlier VM of its VMID, or one set ahead of it: nothing of that stays, and it is named where
// the id is configured. If another run has made the VM, an administrator may have set more since: that is named.
func (a *attempt) setFirewall(ctx context.Context) error {
	want, clean := *a.r.Firewall, a.from == nil && !a.resumed
	switch {
	case clean:
		if want.Rules == nil {
			want.Rules = []firewall.Rule{}
		}
		nameReplaced(ctx, a)
	case a.resumed:
		nameFirewall(ctx, a)
	}
	defer a.view.NoteSeen(false)
	a.beside.firewall = true
	return a.creator.guests.SetFirewall(ctx, a.node, a.vmid, nil, &want, clean, a.look)
}

// nameFirewall names what a resumed VM has in its firewall that this create does not set. Rules that are configured are
// all rules. A clone has got its source's (pve-firewall Helpers.pm clone_vmfw_conf), which are not named if they can be
// read. Those of an archive cannot.
func nameFirewall(ctx context.Context, a *attempt) {
	has, err := a.creator.guests.ReadFirewall(ctx, a.node, a.vmid)
	if err != nil { // nor will it be set
		return
	}
	or := "for an earlier VM of the id"
	switch {
	case a.r.Restore != nil:
		or = "are those of the backup, or of an earlier VM of the id"
	case a.from != nil:
		or = "are those that the source had when it was cloned"
		if of, err := a.creator.guests.ReadFirewall(ctx, a.from.node, a.from.vmid); err == nil {
			has = firewall.Beyond(has, of)
		}
	}
	stays, goes := firewall.OtherOptions(has, a.r.Firewall), firewall.UnknownRules(has, a.r.Firewall.Rules)
	if a.r.Firewall.Rules == nil {
		stays, goes = append(stays, goes...), nil
	}
	goes = append(goes, firewall.ChangedOptions(has, a.r.Firewall)...)
	var text []string
	if len(stays) > 0 {
		text = append(text, "This create does not set these, and leaves them:\n  "+strings.Join(stays, "\n  "))
	}
	if len(goes) > 0 {
		text = append(text, "The configuration has these otherwise, and they are replaced:\n  "+strings.Join(goes, "\n  "))
	}
	if len(text) > 0 {
		text = append(text, "They were set since the run that began the VM has ended, or "+or)
		a.warnings = append(a.warnings, guest.Warning{Summary: fmt.Sprintf("Firewall of VM %d", a.vmid),
			Detail: strings.Join(text, "\n")})
	}
}

// addToHA puts a new VM under HA. It notes before the request that there may be an entry, which the undo then removes.
// An entry that was there before is not ours.
func (a *borrowing) addToHA(ctx context.Context) error {
	lost := false
	return a.creator.jobs.Retry(ctx, request.LostAnswer(), func(ctx context.Context) error {
		if lost {
			if there, err := a.creator.guests.ReadHA(ctx, a.vmid); err != nil || there != nil {
				return err
			}
		}
		err := a.creator.guests.EnterHA(ctx, a.vmid, a.r.HA.Options(), func(ctx context.Context) error {
			err := error(nil)
			if a.r.HA.Starts() && !a.r.Start {
				err = a.lookWhoAgain(ctx)
			}
			if err == nil {
				err = a.look(ctx)
			}
			a.view.NoteSeen(false)
			if err == nil && a.beside.ha.IsZero() {
				a.beside.ha = a.creator.jobs.Clock.Now()
			}
			return err
		})
		switch {
		case (lost || a.resumed) && pve.IsKind(err, pve.Exists): // none was there before the first write
			return nil
		case pve.IsKind(err, pve.Exists):
			a.beside.ha = time.Time{}
			return hasHA(a.vmid, err)
		case pve.IsKind(err, pve.Denied) && !lost:
			a.beside.ha = time.Time{}
		}
		lost = lost || pve.IsKind(err, pve.Ambiguous)
		return guest.RefusedHA(a.vmid, err)
	})
}

// wait waits for what wait_for asks for. The VM is complete: neither a timeout nor an interrupt takes it back, and a
// read that fails taints nothing.
func (a *attempt) wait(ctx context.Context) error {
	a.awaited.begun = true
	_, _ = a.view.Known(ctx) // the commit needs it, too; if it fails, it is read back
	made, err := a.readBack(ctx)
	if err != nil {
		a.warnings = append(a.warnings, guest.Warning{
			Summary: fmt.Sprintf("The guest of VM %d was not waited for", a.vmid),
			Detail:  "The VM could not be read before the wait: " + err.Error()})
		return nil //nolint:nilerr // the VM is complete: a warning says it
	}
	a.awaited.guest = made
	want := *a.r.Wait
	look := pursuit{a}.following(a.look)
	want.Each = func(ctx context.Context) {
		if a.isToRenew() {
			_ = look(ctx) // another run learns that this one lives; the commit proves whose VM it is
		}
	}
	warnings, err := a.creator.guests.Await(ctx, &a.awaited.guest, &want, a.r.Start)
	a.warnings, a.awaited.failed = append(a.warnings, warnings...), err
	return nil
}

// commit is the last write: it replaces the mark by the wanted description, and sets the protection. Before it the VM
// is ours to remove; after it, it is the user's. It bears the digest of the last reading, so PVE changes this very
// configuration, with the mark in it, and its result is known without another read. A VM that was waited for is in use
// by now: it stays, unless PVE refuses the values, or the VM is proved gone or another's.
func (a *attempt) commit(ctx context.Context) error {
	if !a.awaited.begun {
		return tryCommit(ctx, a)
	}
	err := pursuit{a}.persist(ctx, func(ctx context.Context) error { return tryCommit(ctx, a) })
	isAway := request.Kinds(pve.Unavailable, pve.Ambiguous) // which tells nothing of the VM, nor does a look after that
	if err == nil || pve.IsKind(err, pve.Invalid) || !isAway(err) && (pursuit{a}).isLost(ctx) {
		return err
	}
	a.stays = uncommitted(a)
	return err
}

func tryCommit(ctx context.Context, a *attempt) error {
	final := a.finalOptions()
	return a.view.Try(ctx, func(ctx context.Context, read pve.PendingConfig) error {
		before := a.committing
		a.committing = true
		exact, err := a.view.Write(ctx, final, read)
		if exact && err != nil { // PVE has answered, and refused it
			a.committing = before
		}
		if exact && len(read.Waiting()) == 0 { // else options that wait may have been applied with ours
			a.view.Expect(read.With(final.Set, final.Delete))
		}
		return err
	})
}

// uncommitted says of a VM that its commit alone is missing. No later apply sets what the commit would have taken from
// the source: no configuration says it.
func uncommitted(a *attempt) string {
	text := fmt.Sprintf("VM %d is complete but for its description and protection, which the last request sets", a.vmid)
	if a.committing {
		text = fmt.Sprintf("VM %d is complete. Whether the last request has set its description and protection is not known",
			a.vmid)
	}
	var lost []string
	if a.r.Spec.Description == nil && len(a.finalOptions().Set["description"]) > 0 {
		lost = append(lost, "description")
	}
	if a.r.Spec.Protection == nil && a.unprotected {
		lost = append(lost, "protection")
	}
	if len(lost) > 0 {
		text += fmt.Sprintf(". Its source has some (%s): configure that if the VM is to have it", strings.Join(lost, ", "))
	}
	return text
}

// finalOptions are those that only the commit may set. PVE puts them in force at once, on a running guest too
// (qemu-server QemuServer.pm, fast_plug_option). A description of white space alone is deleted: PVE writes no line of
// one of line breaks into its file, and the old one stays (QemuServer.pm write_vm_config).
func (a *attempt) finalOptions() vm.Change {
	final := vm.Change{Set: map[string]string{}}
	description := a.r.Spec.Description
	if description == nil && a.from != nil && a.from.description != "" {
		description = &a.from.description
	}
	if description == nil || property.TrimDescription(*description) == "" { // PVE would keep the mark
		final.Delete = []string{"description"}
	} else {
		final.Set["description"] = *description
	}
	if a.unprotected {
		final.Set["protection"] = "1"
	}
	if p := a.r.Spec.Protection; p != nil {
		final.Set["protection"] = "0"
		if *p {
			final.Set["protection"] = "1"
		}
	}
	return final
}

// isProtector reports whether the protection that the VM may have is this create's: a copy inherits it, and the commit
// sets it.
func isProtector(a *attempt) bool {
	inherited := a.from != nil && a.copied()["protection"] == "1"
	return inherited || a.committing && a.finalOptions().Set["protection"] == "1"
}

// readBack returns the committed VM. It is read, even after an interrupt, if the result of the commit is not certain.
// The identity that proves it ours is known even if that fails.
func (a *attempt) readBack(ctx context.Context) (guest.Guest, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var made guest.Guest
	var err error
	if !a.view.IsKnown() {
		made, err = a.creator.guests.ReadBack(ctx, a.node, a.vmid)
	} else {
		made = guest.FromConfig(a.view.Last(), a.node, a.vmid)
		made.Status = a.status
		if a.r.HA != nil { // HA starts and stops guests by itself
			var status pve.GuestStatus
			status, err = a.view.Status(ctx)
			made.Status = status.Status
		}
	}
	if err == nil {
		err = a.creator.guests.ReadFirewallAndHA(ctx, &made, a.r.Firewall != nil, a.r.HA != nil)
	}
	if made.Identity.IsZero() {
		made.Identity = a.view.Identity()
	}
	return made, err
}
