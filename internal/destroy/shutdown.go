package destroy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// recent is the greatest age of the look at a guest that is shut down: that of the first look, which has read others
// at the same time.
const recent = 2 * time.Second

// shutdown is the part of a destroy that takes the guest down.
type shutdown struct{ *destruction }

// shutDown shuts the guest down for good. It looks at the VM once more before, unless it has just done so: reading
// many other guests takes its time.
func (d shutdown) shutDown(ctx context.Context) error {
	if pve.Elapsed(d.seenAt, d.d.clock.Now()) > recent {
		before := d.config.Digest
		if err := d.lookAgain(ctx); err != nil || d.gone {
			return err
		}
		if d.status = nil; d.config.Digest != before {
			if err := refusals(d).refuse(ctx); err != nil {
				return err
			}
		}
	}
	listed, _ := d.resources.Guest(d.r.Ref.VMID)
	managed := listed.HAState != ""
	if !d.seemsToRun() {
		if d.status == nil {
			if err := d.askStatus(ctx); err != nil {
				return err
			}
		}
		if d.off = !d.status.IsRunning(); d.off {
			return nil
		}
		if isPaused(*d.status) && !d.r.ForceStop {
			return pausedError(d.r.Ref.VMID, d.node, nil)
		}
		managed = d.status.HAManaged
	}
	if managed {
		return d.shutDownFromHA(ctx)
	}
	return d.powerOff(ctx)
}

// pausedError is the error for a guest that receives no request.
func pausedError(vmid int, node string, err error) error {
	return &guest.FieldError{Path: "on_destroy.power_off", Summary: fmt.Sprintf("VM %d is paused", vmid), Err: err,
		Detail: fmt.Sprintf("A paused guest hears no request to shut down. It was not touched. Resume it (the action "+
			"proxmox_vm_power, or `qm resume %d` on node %s), or set on_destroy.power_off = \"force\" and apply to have it "+
			"cut off, then destroy", vmid, node)}
}

// isPaused reports whether PVE refuses a shutdown (qemu-server QemuServer.pm vm_is_paused).
func isPaused(status pve.GuestStatus) bool {
	return status.QMPStatus == "paused" || status.QMPStatus == "prelaunch"
}

// shutDownFromHA has HA ignore the guest, which it would start again, and shuts it down. An identity that may not
// change HA can only ask its manager for the stop. That one stops the guest hard when its time is over (pve-ha-manager
// HA/Resources/PVEVM.pm shutdown, forceStop), so it takes a policy that allows this.
func (d shutdown) shutDownFromHA(ctx context.Context) error {
	vmid := d.r.Ref.VMID
	err := d.inHA.ignore(ctx, d.destruction)
	switch {
	case err == nil, pve.IsKind(err, pve.NotFound), pve.IsKind(err, pve.Denied) && d.r.ForceStop:
		return d.powerOff(ctx)
	case pve.IsKind(err, pve.Denied):
		return &guest.FieldError{Path: "on_destroy.power_off",
			Summary: fmt.Sprintf("VM %d is under HA, and this identity may not take it out", vmid),
			Detail: "HA would start again what is shut down behind its back, and its own stop cuts the guest off when its " +
				"time is over. Nothing was touched. Grant Sys.Console and Sys.Audit on /, or set on_destroy.power_off = " +
				"\"force\" and apply, then destroy", Err: err}
	}
	return fmt.Errorf("have HA ignore VM %d: %w", vmid, err)
}

// asks is how often a guest is asked to shut down within its time: one that is still booting misses the first
// request.
const asks = 2

// powerOff asks the guest to shut down, and stops it hard afterwards unless the policy forbids that, or one of its
// disks survives it: the others are about to go.
func (d shutdown) powerOff(ctx context.Context) error {
	d.acted, d.sizedAt = true, time.Time{} // and others go on while the guest shuts down
	timeout, times := guest.StopTimeout(d.r.StopTimeout), asks
	if d.r.ForceStop {
		times = 1
	}
	var err error
	for range times {
		err = d.askOnce(ctx, timeout/time.Duration(times))
		if err == nil || !pve.IsKind(err, pve.Busy) || ctx.Err() != nil {
			return err
		}
		if status, lookErr := d.d.api.QEMU(d.node, d.r.Ref.VMID).Status(ctx); lookErr == nil && isPaused(status) &&
			!d.r.ForceStop {
			return pausedError(d.r.Ref.VMID, d.node, err)
		}
	}
	if d.r.ForceStop || d.r.GracefulOnly {
		return disobedientError(d.r.Ref.VMID, timeout, nil, err)
	}
	return d.cutOff(ctx, timeout, err)
}

// askOnce asks the guest to shut down, and waits until it has, or until its time is over.
func (d shutdown) askOnce(ctx context.Context, timeout time.Duration) error {
	vmid := d.r.Ref.VMID
	result, err := d.askToShutDown(ctx, timeout)
	if result.Warnings > 0 {
		d.warnings = append(d.warnings, guest.Warning{Summary: fmt.Sprintf("Shutdown of VM %d ended with warnings", vmid),
			Detail: strings.Join(result.Log, "\n")})
	}
	if err == nil && lastType(d.tasks.UPIDs) == "qmshutdown" { // its task ends when the guest has
		d.off = true
		return nil
	}
	if err == nil {
		return d.d.guests.AwaitStop(ctx, d.node, vmid, timeout)
	}
	if stopped, lookErr := d.d.guests.IsStopped(d.node, vmid)(ctx); lookErr == nil && stopped {
		return nil
	}
	// A hard stop has PVE end the shutdown first (qemu-server API2/Qemu.pm vm_stop, overrule-shutdown).
	var ended *pve.TaskError
	if errors.As(err, &ended) && !pve.IsKind(err, pve.Busy) && ctx.Err() == nil &&
		d.d.guests.AwaitStop(ctx, d.node, vmid, 10*time.Second) == nil {
		return nil
	}
	return err
}

// lastType is the type of the last task that PVE named. HA's own task only files the request.
func lastType(tasks []pve.UPID) string {
	if len(tasks) == 0 {
		return ""
	}
	return tasks[len(tasks)-1].Type()
}

// cutOff stops a guest hard that has not obeyed, with a warning. It looks at the VM once more before: the wait was
// long.
func (d shutdown) cutOff(ctx context.Context, timeout time.Duration, disobeyed error) error {
	if err := d.lookAgain(ctx); err != nil || d.gone {
		return err
	}
	if err := refusals(d).refuse(ctx); err != nil { // before the guest is cut off in vain
		return err
	}
	if stays := surviving(d.r.Ref.VMID, d.config.Current()); len(stays) > 0 {
		return disobedientError(d.r.Ref.VMID, timeout, stays, disobeyed)
	}
	prove := func(ctx context.Context) (guard.Evidence, error) { return d.proveSelf(ctx, false) }
	if err := d.d.StopHard(ctx, &d.tasks, d.node, d.r.Ref.VMID, prove); err != nil {
		return fmt.Errorf("VM %d did not shut down within %s, and was not cut off either: %w", d.r.Ref.VMID, timeout, err)
	}
	d.warnings = append(d.warnings, guest.Warning{Summary: fmt.Sprintf("VM %d was cut off", d.r.Ref.VMID),
		Detail: fmt.Sprintf("It was asked %d times to shut down and did not within %s. Its disks are destroyed now. "+
			"on_destroy.power_off = \"graceful_only\" fails instead, and on_destroy.timeout gives a guest more time", asks,
			timeout)})
	return nil
}

// askToShutDown asks once, or again while a third party's lock proves that the guest was not asked. Unless the VM was
// looked at just now, it is looked at before each try: another guest may have the VMID by then.
func (d shutdown) askToShutDown(ctx context.Context, timeout time.Duration) (result pve.TaskResult, err error) {
	looked := pve.Elapsed(d.seenAt, d.d.clock.Now()) <= recent && !d.r.ForceStop
	since := d.seenAt
	d.seenAt = time.Time{}
	err = d.d.jobs.Contend(ctx, d.node, d.r.Ref.VMID, func(ctx context.Context) error {
		var e guard.Evidence
		if !looked {
			since = d.d.clock.Now()
			if e, err = d.proveSelf(ctx, false); err == nil {
				err = d.d.CheckFresh(e)
			}
			if err != nil {
				return err
			}
		}
		looked = false
		if d.r.ForceStop {
			result, err = d.d.ShutDownOrStop(ctx, &d.tasks, e, timeout)
		} else {
			result, err = d.d.jobs.Once(ctx, &d.tasks, d.request(timeout, since))
		}
		return err
	})
	return result, err
}

// request asks the guest to shut down, and no more. The VM was looked at at that time.
func (d shutdown) request(timeout time.Duration, since time.Time) request.Request {
	node, vmid := d.node, d.r.Ref.VMID
	return request.Request{Node: node, Type: "qmshutdown", ID: vmid, Done: d.d.guests.IsStopped(node, vmid),
		Send: func(ctx context.Context) (pve.UPID, error) {
			return d.d.api.QEMU(node, vmid).Shutdown(guest.Soon(ctx, d.d.clock, since), guest.Within(timeout))
		}}
}

// disobedientError is the error for a guest that did not shut down: nothing is lost, and there are two ways out. stays
// are the disks that alone keep it from being cut off.
func disobedientError(vmid int, timeout time.Duration, stays []string, err error) error {
	why, policies := "", "\"graceful\" or \"force\""
	if len(stays) > 0 {
		why = fmt.Sprintf(". %s not destroyed with the VM, and a cut-off would lose the data that the guest has not "+
			"written there yet", are(stays))
		policies = "\"force\""
	}
	return &guest.FieldError{Path: "on_destroy.power_off", Summary: fmt.Sprintf("VM %d did not shut down within %s", vmid,
		timeout),
		Detail: fmt.Sprintf("The guest did not obey ACPI or its agent. It runs on, and nothing of it was removed%s. Shut it "+
			"down from inside, or give it more time with on_destroy.timeout, and destroy again; or set on_destroy.power_off = "+
			"%s and apply to have it cut off", why, policies), Err: err}
}

// findKnown finds the guest, also on another node, until a configuration of a committed VM is one whose volumes are
// known. So that reading is the last one before a deletion: a change that comes between two readings, such as a rescan,
// is not missed.
func (r *removal) findKnown(ctx context.Context, find func(context.Context) error) error {
	for range changes {
		if err := find(ctx); err != nil || !r.committed || r.view.owner != guest.Ours {
			return err
		}
		if node := r.view.node; r.Baseline.Node != node {
			r.leftFrom, r.known = append(r.leftFrom, r.Baseline.Node), ""
			r.Baseline.MoveTo(node)
		}
		if digest := r.view.config.Digest; digest != "" && digest == r.known {
			return nil
		}
		if err := r.follow(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("VM %d changes while it is looked at", r.VMID)
}

// changes bounds the readings of a VM that its user changes while it is looked at.
const changes = 4

// follow keeps up with the volumes of a committed VM, which its user could still change a moment ago.
func (r *removal) follow(ctx context.Context) error {
	node := r.view.node
	storages := len(r.Baseline.Storages)
	config, err := r.d.api.QEMU(node, r.VMID).Pending(ctx)
	if err != nil {
		return err
	}
	// by now; the next look tells. What is left of a half-destroyed VM has no identity
	if r.Owns != nil && !r.Owns(config.Current()) && config.Digest != r.view.config.Digest {
		return nil
	}
	if r.refuse != nil {
		if err := r.refuse(ctx, node, config); err != nil {
			return final{err}
		}
	}
	snapshots, err := r.d.use.Snapshots(ctx, pve.Resource{Type: "qemu", Node: node, VMID: r.VMID}, config)
	if err != nil {
		return err
	}
	r.known, r.fresh = config.Digest, false // a disk may have been given to another guest since that one was read
	goes, snapshotOnly := volumesToGo(r.VMID, r.Baseline.HasNamed, snapshots, r.view.config.Values, config.Current(),
		config.Merged())
	r.noteSnapshotOnly(snapshotOnly)
	r.Baseline.Own(goes)
	if len(r.Baseline.Storages) != storages {
		r.checkVisible(ctx)
	}
	return nil
}

// hasUnnamed reports whether volumes of ours may be there that a configuration does not name.
func hasUnnamed(b *guest.Baseline, config map[string]string) bool {
	if b.Named == nil {
		return true
	}
	for volume := range b.Named {
		if !guest.Uses(config, volume) {
			return true
		}
	}
	return false
}

// isDetached reports whether a disk that goes with the VM is in none of its slots, but unused or in a snapshot: a third
// party may have given it to another guest, after that one was read, and detached it here.
func isDetached(d *destruction, volumes []string) bool {
	var attached []string
	for _, config := range []map[string]string{d.config.Current(), d.config.Merged()} {
		for option, volume := range guest.Volumes(config) {
			if !vm.IsUnused(option) {
				attached = append(attached, volume)
			}
		}
	}
	for _, snapshot := range d.snapshots {
		attached = append(attached, guest.VolumeOf(snapshot["vmstate"]))
	}
	return slices.ContainsFunc(volumes, func(volume string) bool { return !slices.Contains(attached, volume) })
}
