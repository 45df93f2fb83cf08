package ownership

import (
	"slices"
	"strconv"
)

// uses are tasks that no create begins on its guest. They count for a run that is under way: its undo destroys. The
// resume of a dead run completes the guest, and takes nothing from it.
var uses = []string{"qmsnapshot", "qmdelsnapshot", "qmclone"}

// byHA are the tasks that HA begins on its guests, in the name of root (pve-ha-manager PVE/HA/Resources/PVEVM.pm).
var byHA = []string{"qmstart", "qmstop", "qmshutdown", "qmigrate"}

// downByBackup and upByBackup are the tasks by which a backup in mode "stop" or "suspend" takes a guest down, and
// brings it up again, in the name of root (qemu-server VZDump/QemuServer.pm stop_vm, start_vm, suspend_vm, resume_vm;
// through HA where that manages the guest).
var (
	downByBackup = []string{"qmshutdown", "qmpause", "hastop"}
	upByBackup   = []string{"qmstart", "qmresume", "hastart"}
)

// MayBeBackups reports whether a task may be one of those of a backup.
func (t Task) MayBeBackups() bool {
	return t.User == "root@pam" && (slices.Contains(downByBackup, t.Type) || slices.Contains(upByBackup, t.Type))
}

// isBackups reports whether a backup of the guest, or a job of several, began a task of root. A backup brings up only
// the guest that it has taken down.
func (g Guest) isBackups(t Task) bool {
	within := func(dump, t Task) bool {
		return t.Node == dump.Node && t.Start >= dump.Start && (dump.Running || t.Start <= dump.End)
	}
	return t.MayBeBackups() && slices.ContainsFunc(g.Tasks, func(dump Task) bool {
		if dump.Type != "vzdump" || dump.ID != "" && dump.ID != t.ID || !within(dump, t) {
			return false
		}
		return slices.Contains(downByBackup, t.Type) || slices.ContainsFunc(g.Tasks, func(down Task) bool {
			isDown := slices.Contains(downByBackup, down.Type) && down.User == t.User && down.ID == t.ID
			return isDown && within(dump, down) && down.Start <= t.Start
		})
	})
}

// usedByOthers finds a task that has worked with the guest since it was made: one of another identity, or one of this
// identity that no create begins.
func (g Guest) usedByOthers(maker Task) (Task, bool) {
	for _, t := range g.Tasks {
		if g.isUse(t, maker) {
			return t, true
		}
	}
	return Task{}, false
}

func (g Guest) isUse(t, since Task) bool {
	isOthers := t.User != g.Identity && !slices.Contains(bystanders, t.Type) || g.Live && slices.Contains(uses, t.Type)
	isHA := g.HA && t.User == "root@pam" && slices.Contains(byHA, t.Type)
	return t.ID == strconv.Itoa(g.VMID) && isOthers && !isHA && !t.destroyed() && g.isSince(t, since) &&
		!g.isBackups(t)
}

// Uses are the tasks by which others have worked with the guest of a failed create since that began its first task. A
// first task without a UPID is not known: then it is since the guest was made, if the lists tell that. A start by
// root@pam counts also where a boot of the node brought it for onboot: an administrator's bulk start is the same task
// startall (pve-manager API2/Nodes.pm).
func Uses(g Guest, first Task) (all []Task) {
	if first.UPID == "" {
		maker, found := g.maker()
		if !found {
			return nil
		}
		first = g.earliest(maker)
	}
	for _, t := range g.Tasks {
		if t.UPID != first.UPID && g.isUse(t, first) {
			all = append(all, t)
		}
	}
	return all
}
