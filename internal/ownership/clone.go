package ownership

import (
	"slices"
	"strconv"
)

// isClonedAtLast reports whether it is not known which of several clones of one source made the guest. PVE takes the
// lock away when everything is copied (qemu-server API2/Qemu.pm, clone_vm), but so does `qm unlock`.
func (g Guest) isClonedAtLast() bool { return g.Mark.By == "qmclone" && g.Mark.Task == "" }

// earliest is the first clone that may have made the guest, where the mark does not name it: a later one of the same
// source, for another VM, ends no use of this one. Its own may be gone from the task lists: then the begin of its run
// counts, if no other guest had the VMID since.
func (g Guest) earliest(maker Task) Task {
	if !g.isClonedAtLast() {
		return maker
	}
	last, begun := g.lastNamed(), maker
	if begun.Start = int64(g.Mark.Begun); begun.Start > 0 && g.isLater(maker, begun) && g.isLater(begun, last) {
		maker = begun
	}
	for _, t := range g.Tasks {
		if t.Type == "qmclone" && t.ID == strconv.Itoa(g.Mark.Source) && t.User == g.Identity && g.isLater(t, last) &&
			g.isLater(maker, t) {
			maker = t
		}
	}
	return maker
}

// deadClone is a clone that may be the guest's, and whose worker was killed: the guest then has the disks that were
// copied by then. A clone that fails by itself leaves no guest (clone_vm). One that began after the guest was changed
// or started is another's.
func (g Guest) deadClone() (Task, bool) {
	last := g.lastNamed()
	isLate := func(clone Task) bool {
		return slices.ContainsFunc(g.Tasks, func(t Task) bool {
			isUse := t.Type == "qmstart" || slices.Contains(allocators, t.Type)
			return isUse && g.isOursSince(t, last) && g.isLater(clone, t)
		})
	}
	for _, t := range g.Tasks {
		isClone := t.Type == "qmclone" && t.ID == strconv.Itoa(g.Mark.Source) && t.User == g.Identity
		if isClone && t.Died && g.isLater(t, last) && !isLate(t) {
			return t, true
		}
	}
	return Task{}, false
}
