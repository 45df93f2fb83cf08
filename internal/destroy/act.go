package destroy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// This file has the acts of the decision table that concern the VM; those on volumes are in volumes.go.

// leaveHA removes the HA entry that our create made. An entry that cannot be removed by itself goes with the VM,
// whose removal then purges it. No other removal of an uncommitted VM purges anything: entries for its VMID in HA,
// replication and backup jobs belong to others.
func (r *removal) leaveHA(ctx context.Context, f *facts) (outcome, error) {
	var unproven error
	err := r.d.LeaveHA(ctx, r.VMID, func(ctx context.Context) (e guard.Evidence, err error) {
		e, unproven = r.prove(ctx, r.ours(f.node))
		return e, unproven
	})
	if unproven != nil {
		return nextPass, unproven
	}
	if r.ha.fails++; err == nil || pve.IsKind(err, pve.Denied) || r.ha.fails > 1 {
		r.ha.entry, r.ha.purge = false, err != nil
		return decideAgain, nil
	}
	return nextPass, fmt.Errorf("take VM %d out of HA: %w", r.VMID, err)
}

func (r *removal) askPower(ctx context.Context, f *facts) (outcome, error) {
	status, err := r.d.api.QEMU(f.node, r.VMID).Status(ctx)
	if f.power = &status; err == nil && f.runs() && !status.HAManaged {
		err = leaveInUse(ctx, r, true)
		f.view = r.view
	}
	return decideAgain, err
}

// stop stops a running guest hard. With a ticket of root@pam a lock is skipped. A guest of a create that is taken back
// is not asked before, although a disk that survives it loses its unwritten data, too: it has run for minutes at most,
// and an undo that waits for a guest would leave the VM where that does not obey.
func (r *removal) stop(ctx context.Context, f *facts) (outcome, error) {
	params := pve.Params{}
	if f.power.Lock != "" && r.d.api.Identity().IsRootTicket() {
		params["skiplock"] = "1"
	}
	e, err := r.prove(ctx, r.ours(f.node))
	if err == nil {
		err = r.d.CutOff(ctx, r.Tasks, e, params)
	}
	f.power = &pve.GuestStatus{Status: string(guest.Stopped)}
	return decideAgain, err
}

// unlock takes away the lock of a dead task of ours: with a ticket of root@pam over the API, since PVE lets no other
// identity skip a lock, not even a token of root; else over SSH. Where neither is there, the volumes are freed one by
// one.
func (r *removal) unlock(ctx context.Context, f *facts) (outcome, error) {
	c := r.ours(f.node)
	c.Lock = true
	e, err := r.prove(ctx, c)
	if err == nil {
		err = r.d.TakeLock(ctx, e, markOn(r, f.config.Values))
	}
	root, lost := r.d.api.Identity().IsRootTicket(), pve.IsKind(err, pve.Ambiguous)
	if root && lost {
		return nextPass, nil // the next look tells
	}
	var unseen *guard.UnseenTasksError
	var atWork *guard.AtWorkError
	r.tasks.othersWork = errors.As(err, &atWork)
	switch {
	case err == nil && root: // which has marked it
		r.forgetHalfMade()
	case err == nil || lost:
		err = r.rememberUnlocked(ctx, f)
	case errors.Is(err, guard.ErrCannotUnlock):
		err = final{fmt.Errorf("VM %d is locked (%s) by a worker that died; %w", r.VMID, f.lock(), err)}
		r.freeAll(ctx, f.node)
	case errors.As(err, &unseen):
		err = final{err}
	}
	return nextPass, err
}

// rememberUnlocked sees what a half-made VM of ours, which bears no mark, looks like without its lock. One that has a
// lock now is another's, unless its configuration is as it was: then a command whose answer was lost has done nothing.
func (r *removal) rememberUnlocked(ctx context.Context, f *facts) error {
	config, err := r.d.api.QEMU(f.node, r.VMID).Config(ctx)
	if err == nil && config.Digest == f.config.Digest {
		return nil
	}
	if err == nil || pve.IsKind(err, pve.NotFound) {
		r.forgetHalfMade()
	}
	if err != nil {
		return err
	}
	if r.HalfMade != nil && guest.HalfMade(config.Values) && config.Values["lock"] == "" {
		r.HalfMade.Digest = config.Digest
	}
	return nil
}

func (r *removal) switchOffProtection(ctx context.Context, f *facts) (outcome, error) {
	return nextPass, r.change(ctx, f, pve.Params{"protection": "0"})
}

// change sets options of the configuration that was seen, and of none that has taken its place since. An uncommitted
// VM also gets the mark, which a half-made one lacks. The next look tells the effect of a lost answer.
func (r *removal) change(ctx context.Context, f *facts, params pve.Params) error {
	if !r.committed && guest.HalfMade(f.config.Values) {
		params["description"] = markOn(r, f.config.Values)
	}
	r.fresh, params["digest"] = false, f.config.Digest
	err := r.d.api.QEMU(f.node, r.VMID).UpdateConfig(ctx, params)
	if err == nil && params["description"] != "" {
		r.forgetHalfMade()
	}
	return err
}

// markOn is the mark for our VM as it is. A half-made one may have no uuid: PVE writes smbios1 at the end (qemu-server
// API2/Qemu.pm, create_vm). With a uuid in its mark it would be another VM to the next run, if this one is killed.
func markOn(r *removal, config map[string]string) string {
	mark := r.Mark
	if mark.UUID != "" && vm.UUID(config) == "" {
		mark.UUID = ""
		mark = r.d.guests.Sign(mark)
	}
	return mark.String()
}

// whole claims our VM with all its volumes.
func (r *removal) whole(node string) guard.Claim {
	c := r.ours(node)
	c.Whole = true // they are where the VM is, on whichever node the baseline has looked
	ours := c.Guest
	c.Guest = func(config pve.GuestConfig) error {
		if found := adopted(r, config.Values); len(found) > 0 { // the next pass looks whose they are
			return fmt.Errorf("VM %d has got unused disks %s meanwhile", r.VMID, strings.Join(found, ", "))
		}
		return ours(config)
	}
	if r.Baseline.Named != nil {
		c.Volumes = slices.Sorted(maps.Keys(r.Baseline.Named))
	}
	return c
}

// destroy has PVE destroy the VM with all volumes that it names.
func (r *removal) destroy(ctx context.Context, f *facts) (outcome, error) {
	c := r.whole(f.node)
	asked, err := refuseWaiting(ctx, r, f.node)
	if err != nil {
		return nextPass, err
	}
	if r.off && !asked && !hasUnnamed(r.Baseline, f.config.Values) { // nothing was asked since the look
		c.Seen, c.SeenAt = &f.config, r.askedAt
	}
	e, err := r.prove(ctx, c)
	if err != nil {
		return nextPass, refusal(r.VMID, err)
	}
	judged := guest.OwnVolumes(r.VMID, f.config.Values)
	isNew := func(volume string) bool { return !slices.Contains(judged, volume) }
	// a disk or a snapshot has come since, or a disk that waits, and is to be judged by a further pass
	if r.committed && e.Digest() != r.known || slices.ContainsFunc(guest.OwnVolumes(r.VMID, e.Config()), isNew) {
		return nextPass, fmt.Errorf("VM %d changes while it is looked at", r.VMID)
	}
	r.deleted.asked = e.Config()
	result, err := r.d.RemoveVM(ctx, r.Tasks, e, r.committed && !r.keep || r.ha.purge)
	if pve.IsKind(err, pve.NotFound) {
		return nextPass, nil
	}
	if err != nil {
		r.off = false // a guest that runs is refused
		if refused := r.refused(ctx, err); refused != nil {
			return nextPass, final{refused}
		}
		return nextPass, err
	}
	r.rememberDestroy(ctx, r.deleted.asked, result)
	return nextPass, nil
}

// rememberDestroy keeps what is known after a destroy that ended well.
func (r *removal) rememberDestroy(ctx context.Context, config map[string]string, result pve.TaskResult) {
	task := r.tasks.lastDestroy()
	r.deleted.task, r.deleted.config, r.deleted.gone = task, config, true
	r.HalfMade.forget() // a half-made VM that looks the same is another's now
	if task != "" {
		r.tasks.ended[task] = cleanedUp
	}
	endCopies(ctx, r, task, config)
	noteStrays(ctx, r, task, config)
	stayed := notRemoved(result.Log)
	noteFleecing(r, task, stayed)
	r.remember(stayed)
	if result.Warnings > len(stayed) {
		r.notes = append(r.notes, Note{Text: "PVE removed it with warnings:\n" + strings.Join(result.Log, "\n")})
	}
	// the log tells what this identity may not see
	if len(r.Baseline.Unlisted) > 0 && r.Baseline.Named != nil && task != "" {
		if log, err := r.d.api.Tasks().Log(ctx, task, logLines); err == nil {
			r.Baseline.Unremoved, r.Baseline.HasLog = notRemoved(log), true
			r.remember(r.Baseline.Unremoved)
		}
	}
}

// explain reads why volumes outlived the VM, once for each destroy.
func (r *removal) explain(ctx context.Context, f *facts) (outcome, error) {
	r.deleted.explained = f.lastDestroy
	if log, err := r.d.api.Tasks().Log(ctx, f.lastDestroy, logLines); err == nil {
		r.remember(notRemoved(log))
	}
	return decideAgain, nil
}

// refusal makes final what no further pass can change: another guest uses a volume of ours. A guest that is gone is
// what was wanted.
func refusal(vmid int, err error) error {
	var used *guard.InUseError
	switch {
	case errors.As(err, &used):
		return final{fmt.Errorf("VM %d was not removed: %w", vmid, err)}
	case pve.IsKind(err, pve.NotFound):
		return nil
	}
	return err
}
