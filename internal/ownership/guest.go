package ownership

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Owner says whose an object is.
type Owner int

// Owners. The zero value is the one that allows nothing.
const (
	Unknown Owner = iota
	Ours
	ThirdParty
	Unowned // a volume that no guest and no other program has
)

// Verdict is a judgement with its reason.
type Verdict struct {
	Owner Owner
	// Reason completes the sentence "the VM was not touched, since …", or says why it is ours.
	Reason string
	// Whole: the task that made a guest of ours ended well, and no destroy of it was begun. Of a volume: it is certain.
	Whole bool
	// Maker is the task that made a guest of ours.
	Maker Task
	// Remade: the VM that a guest of ours was cloned of is another one by now.
	Remade bool
	// Work are the UPIDs of the tasks by which our create may have made the disks of a guest of ours: the maker, and those
	// of ours that name the guest and began since.
	Work []string
	// Starts are the UPIDs of the tasks of ours that have started a guest of ours since it was made, or are about to.
	Starts []string
}

// Started reports whether a task of ours has started a guest of ours since it was made, or is about to.
func (v Verdict) Started() bool { return len(v.Starts) > 0 }

// Task is a task that PVE's task lists show.
type Task struct {
	UPID string
	Type string // qmcreate
	ID   string // the VMID that it names
	User string // with the token
	Node string
	// Start is when it began, in seconds on its node's own clock. Starts of two nodes are never compared.
	Start   int64
	End     int64 // likewise; 0 while it runs
	Running bool
	Well    bool // it ended without an error
	Died    bool // its worker was killed, or PVE cannot tell: it may have cleaned nothing up
}

// HasSnapshots is the reason of a guest that has some.
const HasSnapshots = "it has snapshots, which no create takes: a user works with it"

// MaxAge is how old the making of a guest may be for its mark to count.
const MaxAge = 24 * time.Hour

// Guest is what is known of a guest whose description may be a mark.
type Guest struct {
	VMID    int
	Cluster string
	// Identity is ours, with the token.
	Identity string
	// Mark is the mark in the description, if Marked. Genuine: it bears the signature of our secret.
	Mark    Mark
	Marked  bool
	Genuine bool
	UUID    string
	// Live: the run that has made the mark asks. It knows when that was.
	Live bool
	// HA: by the create's own entry HA acts on the guest. Its tasks are no use of it by others.
	HA bool
	// Snapshots: a user has taken some, or rolled the guest back.
	Snapshots bool
	// Tasks are those of all nodes that name the guest, or the source of a clone, and backup jobs. Unseen says which tasks
	// of other users could not be seen, "" for none.
	Tasks  []Task
	Unseen string
	// Clocks are the times of the nodes, in seconds on their own clocks. A node that does not tell its time is missing.
	Clocks map[string]int64
}

// bystanders are tasks that neither make nor change a guest: a backup, a look at its console.
var bystanders = []string{"vzdump", "vncproxy", "spiceproxy", "vncshell", "termproxy"}

// makers are the tasks that make a guest what it is, and name it. A guest that is there after a destroy that ended well
// is another one.
var makers = []string{"qmcreate", "qmrestore", "qmrollback", "vzcreate", "vzrestore"}

func (t Task) makes() bool { return slices.Contains(makers, t.Type) || t.destroyed() }

// destroyed reports whether a task has destroyed the guest with its id. One that is there is another, and the task no
// use of it.
func (t Task) destroyed() bool { return (t.Type == "qmdestroy" || t.Type == "vzdestroy") && t.Well }

// Judge says whether a guest is the work of an uncommitted create of this identity.
func Judge(g Guest) Verdict {
	switch m := g.Mark; {
	case !g.Marked:
		return Verdict{Owner: ThirdParty, Reason: "it bears no ownership mark of this provider"}
	case m.VMID != g.VMID:
		return Verdict{Owner: ThirdParty, Reason: fmt.Sprintf("its mark was copied from VM %d", m.VMID)}
	case m.Cluster != g.Cluster:
		return Verdict{Owner: ThirdParty, Reason: fmt.Sprintf("its mark was copied from another cluster, of the nodes %s",
			m.Cluster)}
	case m.User != g.Identity:
		return Verdict{Owner: Unknown, Reason: fmt.Sprintf("its mark is of %s, and only that identity can tell whether it "+
			"is genuine", m.User)}
	case !g.Genuine:
		return Verdict{Owner: Unknown, Reason: fmt.Sprintf("its mark is not signed with the secret of %s: anybody who may "+
			"edit a description can write one",
			g.Identity)}
	case m.UUID != "" && !strings.EqualFold(m.UUID, g.UUID):
		return Verdict{Owner: ThirdParty, Reason: fmt.Sprintf("its mark is of a VM with the uuid %s, and it has the uuid %s",
			m.UUID, g.UUID)}
	case g.Snapshots:
		return Verdict{Owner: Unknown, Reason: HasSnapshots}
	case g.Unseen != "":
		return Verdict{Owner: Unknown, Reason: fmt.Sprintf("another user may have made it: %s", g.Unseen)}
	}
	maker, found := g.maker()
	switch {
	case !found:
		return Verdict{Owner: Unknown, Reason: "the task that made it is not in PVE's task lists any more"}
	case maker.User != g.Identity:
		return Verdict{Owner: ThirdParty, Reason: fmt.Sprintf("task %s of %s has made it", maker.UPID, maker.User)}
	case maker.Type != g.Mark.By:
		return Verdict{Owner: Unknown, Reason: fmt.Sprintf("its mark is of a %s, and task %s has made it what it is: a "+
			"backup brings back descriptions, too",
			g.Mark.By, maker.UPID)}
	case g.Mark.Task != "" && g.Mark.Task != maker.UPID:
		return Verdict{Owner: Unknown, Reason: fmt.Sprintf("its mark names task %s, and task %s has made it what it is",
			g.Mark.Task, maker.UPID)}
	}
	if old := g.tooOld(maker); old != "" {
		return Verdict{Owner: Unknown, Reason: old}
	}
	first := g.earliest(maker)
	if other, used := g.usedByOthers(first); used {
		return Verdict{Owner: Unknown, Reason: fmt.Sprintf("%s has begun %s on it since (%s)", other.User, other.Type,
			other.UPID)}
	}
	work, starts := g.work(maker)
	whole, why := g.isWhole(first, len(starts) > 0)
	if why != "" {
		return Verdict{Owner: Unknown, Reason: why}
	}
	return Verdict{Owner: Ours, Maker: maker, Work: work, Starts: starts, Remade: g.remadeSince(maker),
		Whole:  whole,
		Reason: fmt.Sprintf("its mark is signed, and task %s of %s has made it", maker.UPID, maker.User)}
}

// tooOld says why the mark counts no more, "" if it does. That of a run which is under way has no age.
func (g Guest) tooOld(maker Task) string {
	if g.isClonedAtLast() && g.Mark.Begun > 0 { // the maker may be a later clone, and its own gone from the lists
		maker.Start = min(maker.Start, int64(g.Mark.Begun))
	}
	switch age, told := g.age(maker); {
	case g.Live:
		return ""
	case !told:
		return fmt.Sprintf("node %s does not tell its time, so the age of the mark is not known", maker.Node)
	case age > MaxAge:
		return fmt.Sprintf("it was made %s ago; a mark counts for %s", age.Round(time.Minute), MaxAge)
	}
	return ""
}

// maker is the task that made the guest what it is: the last one that names it, or else the clone that the mark names,
// which PVE lists under its source. A clone that is not known by its UPID is the last one of the source.
func (g Guest) maker() (Task, bool) {
	last := g.lastNamed()
	if g.Mark.By != "qmclone" {
		return last, last.UPID != ""
	}
	var clone Task
	for _, t := range g.Tasks {
		if t.Type != "qmclone" || t.ID != strconv.Itoa(g.Mark.Source) || g.Mark.Task != "" && t.UPID != g.Mark.Task {
			continue
		}
		if t.User == g.Identity && g.isLater(t, clone) {
			clone = t
		}
	}
	if last.UPID != "" && (clone.UPID == "" || g.isLater(last, clone)) {
		return last, true
	}
	return clone, clone.UPID != ""
}

// lastNamed is the last task that names the guest and made it what it is.
func (g Guest) lastNamed() (last Task) {
	for _, t := range g.Tasks {
		if t.ID == strconv.Itoa(g.VMID) && t.makes() && g.isLater(t, last) {
			last = t
		}
	}
	return last
}

// allocators are tasks that make disks of a guest that is there.
var allocators = []string{"qmconfig", "qmmove"}

// work is Verdict.Work and Verdict.Starts. Where the maker is a clone that is not known by its UPID, it may be the
// later clone of another guest: then all since an earlier guest with the VMID counts.
func (g Guest) work(maker Task) (all, starts []string) {
	all, since := []string{maker.UPID}, maker
	if g.isClonedAtLast() {
		since = g.lastNamed()
	}
	for _, t := range g.Tasks {
		if !g.isOursSince(t, since) {
			continue
		}
		if t.Type == "qmstart" && (t.Well || t.Running) {
			starts = append(starts, t.UPID)
		}
		if slices.Contains(allocators, t.Type) {
			all = append(all, t.UPID)
		}
	}
	return all, starts
}

// isOursSince reports whether a task of this identity names the guest, and did not begin before another one.
func (g Guest) isOursSince(t, since Task) bool {
	return t.ID == strconv.Itoa(g.VMID) && t.User == g.Identity && g.isSince(t, since)
}

// sameTime is within what the clocks of two nodes tell no order: each tells whole seconds.
const sameTime = 2 * time.Second

// isSince reports whether a task may have begun after another one. One of the same time counts.
func (g Guest) isSince(t, than Task) bool {
	if t.Node == than.Node {
		return t.Start >= than.Start
	}
	age, told := g.age(t)
	old, alsoTold := g.age(than)
	return !told || !alsoTold || age <= old+sameTime
}

// isLater reports whether a task began after another one. Of two nodes the ages are compared, each by its own clock.
func (g Guest) isLater(t, than Task) bool {
	if than.UPID == "" || t.Node == than.Node {
		return than.UPID == "" || t.Start > than.Start
	}
	age, told := g.age(t)
	old, alsoTold := g.age(than)
	return !told || !alsoTold || age < old
}

// isWhole is Verdict.Whole, or why that cannot be said of a guest that was started.
func (g Guest) isWhole(maker Task, started bool) (whole bool, why string) {
	if start, broke := g.startedBroken(maker); start.UPID != "" {
		return false, fmt.Sprintf("task %s did not end well, and task %s has started it since, as no create does: a user "+
			"may work with it", broke.UPID, start.UPID)
	}
	if !g.isClonedAtLast() {
		return maker.Well && !g.destroyedSince(maker), ""
	}
	dead, died := g.deadClone()
	if died && started {
		return false, fmt.Sprintf("it may be a copy that is not complete, since the worker of task %s died, and it was "+
			"started all the same: a user may work with it", dead.UPID)
	}
	return !died && !g.destroyedSince(maker), ""
}

// startedBroken finds a start by this identity that came after a task which leaves a guest that is not whole: the maker
// that did not end well, or a destroy that was begun. No create starts its guest after either. PVE shows an action of
// this provider as it shows a create's start.
func (g Guest) startedBroken(maker Task) (start, broke Task) {
	for _, t := range g.Tasks {
		isMaker := t.UPID == maker.UPID && !t.Well && !t.Running && !g.isClonedAtLast()
		if !isMaker && !g.isDestroySince(t, maker) {
			continue
		}
		for _, s := range g.Tasks {
			if s.Type == "qmstart" && (s.Well || s.Running) && g.isOursSince(s, maker) && g.isLater(s, t) {
				return s, t
			}
		}
	}
	return Task{}, Task{}
}

// destroyedSince reports whether a destroy of the guest was begun since it was made, and did not come to its end.
func (g Guest) destroyedSince(maker Task) bool {
	return slices.ContainsFunc(g.Tasks, func(t Task) bool { return g.isDestroySince(t, maker) })
}

func (g Guest) isDestroySince(t, maker Task) bool {
	return t.ID == strconv.Itoa(g.VMID) && t.Type == "qmdestroy" && g.isLater(t, maker)
}

// remadeSince reports whether the source of a clone was destroyed, made or restored since. One that was rolled back is
// the same.
func (g Guest) remadeSince(maker Task) bool {
	return maker.Type == "qmclone" && slices.ContainsFunc(g.Tasks, func(t Task) bool {
		return t.ID == strconv.Itoa(g.Mark.Source) && t.makes() && t.Type != "qmrollback" && g.isLater(t, maker)
	})
}

// age is the time since a task began, by the clock of its node; false if the node does not tell.
func (g Guest) age(t Task) (time.Duration, bool) {
	now, told := g.Clocks[t.Node]
	return time.Duration(max(0, now-t.Start)) * time.Second, told
}
