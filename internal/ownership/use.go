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
	return t.ID == strconv.Itoa(g.VMID) && isOthers && !isHA && !t.destroyed() && g.isSince(t, since)
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
