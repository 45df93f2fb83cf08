package orphan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// judgeGuests looks at every guest that was read.
func (l *look) judgeGuests(ctx context.Context) error {
	var empty []volumeuse.Reading
	for _, s := range l.surveys {
		if s.err != nil {
			continue // noted when it was made
		}
		for _, g := range s.Resources.Guests() {
			r, ok := s.Of(g.VMID)
			if !ok {
				continue
			}
			if l.only == nil || l.only.is(g.VMID) {
				if err := l.judgeGuest(ctx, r); err != nil {
					l.miss(fmt.Sprintf("%s on node %s", guest.Named(g), g.Node), err)
				}
			}
			if l.isEmpty(r) {
				empty = append(empty, r)
			}
		}
	}
	return l.judgeEmpty(ctx, empty)
}

// judgeGuest judges what was begun and not ended: a guest's lock, and the mark of a create.
func (l *look) judgeGuest(ctx context.Context, r volumeuse.Reading) error {
	config := r.Config.Current()
	mark, marked := ownership.Parse(config["description"])
	marked = marked && r.Guest.Type == "qemu" && mark.VMID == r.Guest.VMID && mark.Cluster == guest.ClusterName(l.before)
	lock := config["lock"]
	if lock == request.Suspended {
		lock = ""
	}
	i := Item{ID: fmt.Sprint(r.Guest.VMID), VMID: r.Guest.VMID, Name: nameOf(config), Node: r.Guest.Node,
		found: foundOf(r)}
	i.Size, _ = l.sizeOf(i.VMID)
	var first []string
	if lock != "" {
		how, dead, err := l.lockOf(ctx, r, lock)
		i.found.dead = dead.UPID
		if err != nil || how == atWork {
			return err
		}
		if !marked {
			i = l.lockedItem(i, r, lock, how, dead)
			if lock == "clone" && i.Certainty == Certain {
				i, err = l.doubtClone(ctx, i, r)
			}
			l.add(i)
			return err
		}
		if how != deadTask || !guest.IsOwnLock(lock) {
			i.Kind, i.Certainty, i.Since = ExpiredCreate, Unknown, dead.StartTime
			i.Reason = fmt.Sprintf("it has the mark of a create of this provider, and is locked (%s); no task that died over "+
				"it is known", lock)
			l.add(i)
			return nil
		}
		first = append(first, shell.VM("qm unlock {vmid}", i.VMID))
	}
	if marked {
		i.found.mark = mark
		return l.judgeMark(ctx, i, mark, config, first)
	}
	return nil
}

// lockedItem is a guest whose lock no task holds.
func (l *look) lockedItem(i Item, r volumeuse.Reading, lock string, how held, dead pve.Task) Item {
	config := r.Config.Current()
	i.Kind, i.Certainty, i.Since = DeadLock, Unknown, dead.StartTime
	i.Reason = fmt.Sprintf("it is locked (%s), and no task holds the lock; none that died over it is known, so a "+
		"program outside PVE may have set it, or a person", lock)
	if how == deadTask {
		i.Certainty = Certain
		ended := "was killed"
		if dead.Status != fault.KilledStatus {
			ended = fmt.Sprintf("has failed (%s)", dead.Status)
		}
		i.Reason = fmt.Sprintf("it is locked (%s), and task %s of %s (%s), which took the lock, %s", lock, dead.UPID.Type(),
			dead.UPID.User(), dead.UPID, ended)
		i.Command = shell.VM("qm unlock {vmid}", i.VMID)
		switch lock { // which the lock's end does not mend
		case "rollback":
			i.Reason += "; its disks may be rolled back or not"
		case "import":
			i.Reason += "; its disks may not be complete"
		}
	}
	if r.Guest.Type != "qemu" || !guest.IsOwnLock(lock) {
		return i
	}
	destroy := destroyOf(i.Node, i.VMID, config, i.Command)
	switch {
	case guest.IsHalfDestroyed(config):
		i.Kind, i.Command = HalfDestroyed, destroy
	case lock == "destroyed": // PVE writes the lock alone (qemu-server API2/Qemu.pm destroy_vm): this is a third party's
		i.Certainty = Unknown
	case lock == "clone", isBare(config):
		i.Kind, i.Command = HalfMade, destroy
	default: // a create writes its options when it is done, so this was a VM before: a restore over it died
		i.Kind, i.Certainty = HalfMade, Unknown
		i.Reason += "; it was a VM before that, and its disks may be the old ones, new ones or none"
	}
	if err := l.shared(i.VMID, config); err != nil {
		i.Certainty = Unknown
		i.Reason += "; " + err.Error()
	}
	return i
}

// isBare reports whether a locked configuration says nothing of a VM: a create of PVE has written the lock alone, and a
// restore the memory, too (qemu-server QemuServer.pm restore_proxmox_backup_archive). One without a uuid and a time of
// creation may be whole all the same: PVE has not always written these, and an administrator can delete them.
func isBare(config map[string]string) bool {
	for option := range config {
		if !slices.Contains([]string{"lock", "memory", "digest"}, option) {
			return false
		}
	}
	return true
}

// doubtClone looks whether a VM that is locked like a clone has ever been more than that. The task of a clone names
// its source only, so the one that was killed may have made another VM. A user may also have set this lock.
func (l *look) doubtClone(ctx context.Context, i Item, r volumeuse.Reading) (Item, error) {
	tasks, err := l.api.Tasks().List(ctx, i.Node, pve.TaskFilter{VMID: i.VMID})
	lived := slices.ContainsFunc(tasks, func(t pve.Task) bool { return t.UPID.Type() != "qmdestroy" })
	if err != nil || lived || len(r.Snapshots) > 0 {
		i.Certainty = Unknown
		i.Reason += "; but it may be another VM's, since this one has snapshots, or tasks of its own"
	}
	return i, err
}

// judgeMark judges a VM with the mark of a create of this provider. The mark of a live run is that run's alone
// business, and so is what a failed create was told to keep.
func (l *look) judgeMark(ctx context.Context, i Item, mark ownership.Mark, config map[string]string,
	first []string) error {
	life := l.guests.LifeOf(mark)
	if life == guest.Alive || mark.Kept {
		return nil
	}
	v := l.guests.Judge(ctx, l.before, i.Node, mark, config)
	if v.Maker.Running {
		return nil
	}
	if v.Maker.Start != 0 {
		i.Since = time.Unix(v.Maker.Start, 0)
	}
	i.Kind, i.Certainty = ExpiredCreate, Unknown
	i.Reason = fmt.Sprintf("it bears the mark of a create of this provider (transaction %s)", mark.Saga)
	shared, adopted := l.shared(i.VMID, config), destroy.Adopted(i.VMID, config)
	var unmade []string
	if v.Owner == ownership.Ours {
		var err error
		if unmade, err = destroy.Unmade(ctx, l.api, v.Work, i.VMID, config); err != nil {
			return err
		}
		astray, err := guest.MadeElsewhere(ctx, l.guests, v.Work, i.Node, i.VMID, config)
		if err != nil {
			return err
		}
		unmade = append(unmade, astray...)
	}
	switch {
	case v.Owner != ownership.Ours:
		i.Reason += ", but " + v.Reason
	case len(adopted) > 0: // a create attaches no volume as an unused disk
		i.Reason += fmt.Sprintf(", but it has unused disks that the create has not made (%s): a rescan may have put them "+
			"there", strings.Join(adopted, ", "))
	case len(unmade) > 0:
		i.Reason += fmt.Sprintf(", but it has disks of which no task of its create says that it has made them (%s): a third "+
			"party may have put them there", strings.Join(unmade, ", "))
	case config["protection"] == "1" && !destroy.InheritsProtection(ctx, l.api, l.before, mark):
		i.Reason += ", but it is protected, and neither its create nor its source, as that is now, accounts for it: a " +
			"user may keep it"
	case shared != nil:
		i.Reason += ", but " + shared.Error()
	case life == guest.Dead:
		i.Certainty, i.Reason = Certain, i.Reason+", and the process of that run is gone"
	default:
		i.Certainty = Likely
		i.Reason += fmt.Sprintf("; whether that run lives is only seen by watching it for %s, as proxmox_orphan_delete does",
			guest.Lease)
	}
	status, err := l.api.QEMU(i.Node, i.VMID).Status(ctx)
	if err != nil {
		return err
	}
	i = doubtStarted(i, v, status)
	if status.IsRunning() {
		first = append(first, shell.VM("qm stop {vmid}", i.VMID))
	}
	if own := guest.OwnVolumes(i.VMID, config); len(own) > 0 && i.Certainty != Unknown {
		i.Reason += fmt.Sprintf(". A destroy takes its volumes along: %s", strings.Join(own, ", "))
	}
	i.Command = destroyOf(i.Node, i.VMID, config, first...)
	l.add(i)
	return nil
}

// doubtStarted says of a guest that runs, or was started, that a user may work with it: its run was killed when little
// more than the commit was missing.
func doubtStarted(i Item, v ownership.Verdict, status pve.GuestStatus) Item {
	if i.Certainty == Unknown || !status.IsRunning() && !v.Started() {
		return i
	}
	i.Certainty = Likely
	if status.IsRunning() {
		i.Reason += fmt.Sprintf("; its guest has run for %s, and a user may work in it",
			time.Duration(status.Uptime)*time.Second)
		return i
	}
	i.Reason += fmt.Sprintf("; its guest was started (%s) and is off, and a user may work with its disks",
		strings.Join(v.Starts, ", "))
	return i
}

// destroyOf is the command that destroys a VM after the commands first, and only as long as the VM of the id is the
// one that was seen. A clone has inherited its template's protection.
func destroyOf(node string, vmid int, config map[string]string, first ...string) string {
	var all []string
	if uuid := vm.UUID(config); uuid != "" {
		all = append(all, shell.IfMarked(uuid, node, vmid))
	}
	all = append(all, first...)
	if config["protection"] == "1" {
		all = append(all, shell.VM("qm set {vmid} --protection 0", vmid))
	}
	return strings.Join(append(all, shell.VM("qm destroy {vmid} --purge", vmid)), " && ")
}
