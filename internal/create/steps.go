package create

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// steps is the whole create. Only the first write has an undo: it removes the VM, and with it the effects of all later
// steps.
func (a *attempt) steps() []saga.Step {
	first, firstName := a.makeVM, fmt.Sprintf("create VM %d on node %s", a.vmid, a.node)
	if a.from != nil {
		firstName = fmt.Sprintf("%s to VM %d on node %s", a.from.what, a.vmid, a.node)
		if first = a.clone; a.r.Restore != nil {
			first = a.restore
		}
	}
	if a.resumed {
		first, firstName = resumption{a}.resume, fmt.Sprintf("go on with VM %d on node %s", a.vmid, a.view.Node())
	}
	name := func(format string) string { return fmt.Sprintf(format, a.vmid) }
	borrow, isTemplate := &borrowing{attempt: a}, a.r.Spec.Template != nil && *a.r.Spec.Template
	steps := []saga.Step{
		{Name: name("look whether HA knows VM %d"), Do: a.refuseForeignHA, Skip: a.r.HA == nil || a.resumed,
			Why: "an entry that an earlier VM left would block the last steps and the undo"},
		{Name: a.borrowStep(), Do: borrow.lookWho, Skip: len(a.borrows()) == 0,
			Why: "a disk that another guest uses is refused before anything is made"},
		{Name: firstName, Do: first, Undo: a.undo, Regardless: a.resumed,
			Why: "the first write claims the VMID and puts the ownership mark on the VM"},
		{Name: name("migrate VM %d to node ") + a.node, Do: a.migrate, Skip: a.view.Node() == a.node,
			Why: "before its options, since storages and bridges are those of the node that it goes to"},
		{Name: name("configure VM %d"), Do: a.configure, Skip: a.from == nil && !a.resumed,
			Why: "a copy has the options of its source until now"},
		{Name: name("import disks of VM %d as root on node ") + a.node, Do: rootImport{a}.importDisks,
			Skip: len(a.late.Set) == 0,
			Why:  "only root may name files by their paths, so the first write leaves them out"},
		{Name: a.borrowStep() + ", now that it has them", Do: borrow.lookWho, Skip: len(a.borrows()) == 0,
			Why: "another operation may have looked before the disks were attached here"},
		{Name: name("place and grow the disks of VM %d"), Do: a.shape,
			Why: "an import takes no size, and a copy has the sizes of its source"},
		{Name: name("set the firewall of VM %d"), Do: a.setFirewall, Skip: a.r.Firewall == nil,
			Why: "before the guest is started"},
		{Name: name("convert VM %d to a template"), Do: a.convert, Skip: !isTemplate,
			Why: "a template takes no change of its disks"},
		{Name: name("start VM %d"), Do: borrow.start, Skip: isTemplate || !a.r.Start,
			Why: "with everything in force"},
		{Name: name("put VM %d under HA"), Do: borrow.addToHA, Skip: a.r.HA == nil,
			Why: "HA starts and stops guests by itself, so all else comes first"},
		{Name: name("wait for the guest of VM %d"), Do: a.wait, Skip: a.r.Wait == nil,
			Why: "a run that is killed while it waits is continued by the next apply"},
		{Name: name("commit VM %d"), Do: a.commit, Regardless: a.r.Wait != nil,
			Why: "the last write: before it the VM is ours to remove, after it, it is the user's"},
	}
	made := slices.IndexFunc(steps, func(s saga.Step) bool { return s.Undo != nil })
	if a.resumed { // the VM is there, and bears our mark: each failure from here on is undone
		steps = slices.Concat(steps[made:made+1], steps[:made], steps[made+1:])
		made = 0
	}
	for i := range steps[made+1:] {
		steps[made+1+i].Do = pursuit{a}.following(steps[made+1+i].Do)
	}
	return steps
}

// undo removes the VM, unless it was never ours or is to be kept. It goes by baseline: the volumes of a clone to
// another node can be on two nodes.
func (a *attempt) undo(ctx context.Context) error {
	if !a.first.sent {
		return nil
	}
	identity := a.view.Identity()
	var targets []destroy.Target
	for _, baseline := range a.baselines {
		targets = append(targets, destroy.Target{VMID: a.vmid, Nodes: a.nodes(), Baseline: baseline, Pool: a.r.Pool,
			Tasks: &a.view.Tasks, Stood: a.resumed, HalfMade: a.halfMade, Mark: a.mark, Lost: a.first.lost, Owns: a.owns,
			Managed: !a.beside.ha.IsZero(), Made: a.made, Unmarked: a.unmarked, InUse: inUse(a), Protected: isProtector(a)})
	}
	if a.stays != "" {
		return nil
	}
	if a.r.OnFailure == Keep && !a.first.bare {
		a.creator.destroyer.RecordHalfMade(ctx, targets[0])
		return nil
	}
	if !identity.IsZero() { // the clone has arrived on its own node
		slices.Reverse(targets)
	}
	before := ahead(ctx, a)
	notes, err := a.creator.destroyer.RemoveAll(ctx, targets)
	if a.notes = notes; a.stays != "" { // it is in state, which the notes do not know
		a.notes = nil
	}
	noteAhead(a, before)
	if left := leftFirewall(ctx, a); err == nil && left != "" {
		a.notes = append(a.notes, destroy.Note{Text: left, Doubt: true})
	}
	return err
}

// leftFirewall names the firewall file that this attempt left if a third party removed the VM before the undo did. PVE
// removes the file with the VM. One that was there before the first request about the firewall is an earlier VM's.
func leftFirewall(ctx context.Context, a *attempt) string {
	if !a.beside.firewall {
		return ""
	}
	return guest.NameLeftFirewall(ctx, a.creator.guests, a.node, a.vmid)
}

// owns reports whether a configuration without our mark is ours, by its uuid: the commit may have taken effect, or a
// third party has edited the description. The uuid proves nothing once another run may have taken this one for dead:
// that run completes this very VM, and takes the mark away. Nor does it after an edit that long ago: a user may have
// taken the VM by it, and have changed it since.
func (a *attempt) owns(config map[string]string) bool { return a.knows(config) && !a.mayBeOvertaken() }

// knows reports whether the uuid says that a VM without our mark is the one that was made, whosever it is by now.
func (a *attempt) knows(config map[string]string) bool {
	known := !a.mark.IsOvertaken(config) &&
		(a.view.Identity().Proves(config) || guest.Identity{UUID: a.first.uuid}.Proves(config))
	if known {
		noteAlone(a, config)
	}
	return known
}

// unmarked reports whether a VM without our mark may be the one that was made, or another's.
func (a *attempt) unmarked(config map[string]string) bool {
	noUUID := a.view.Identity().IsZero() && a.first.uuid == ""
	return a.first.done && (noUUID || a.mayBeOvertaken() && a.knows(config))
}

// noteAlone notes that our VM is without a mark. Another run takes a mark away only after one lease in which this run
// has not renewed it. So within that lease it was our commit, or a third party that edited the description. Either way
// no other run continues the VM from then on.
func noteAlone(a *attempt, config map[string]string) {
	inTime := pve.Elapsed(a.renewed, a.creator.jobs.Clock.Now()) < guest.Lease
	a.alone = a.alone || inTime && !ownership.IsMark(config["description"])
}

// mayBeOvertaken reports whether this run has not seen its mark for so long that another run may have taken the VM
// over, or a user who has edited its description.
func (a *attempt) mayBeOvertaken() bool {
	last := a.renewed
	if read := a.view.ReadAt; read.After(last) {
		last = read
	}
	return pve.Elapsed(last, a.creator.jobs.Clock.Now()) >= guest.Lease
}

// noteGap notes that this run has not seen its VM for a lease, as on a machine that has slept. Until its next look a
// user may have found the VM, whole and unlocked, and have begun to work with it. The mark stays then.
func noteGap(a *attempt) {
	if a.mayBeOvertaken() {
		a.unwatched = a.creator.jobs.Clock.Now()
	}
}

// inUse says why the undo leaves a VM that still bears our mark: a user works with it. A snapshot is seen in the
// configuration (qemu-server API2/Qemu.pm, vm_config). The rest is asked, as for a dead run's VM, where the VM was not
// watched, or where its guest runs and this run has not started it. No user works with a half-made one.
func inUse(a *attempt) func(ctx context.Context, node string, config map[string]string, runs bool) (string, error) {
	return func(ctx context.Context, node string, config map[string]string, runs bool) (string, error) {
		return whyInUse(ctx, a, node, config, runs)
	}
}

func whyInUse(ctx context.Context, a *attempt, node string, config map[string]string, runs bool) (string, error) {
	mark, marked := ownership.Parse(config["description"])
	noteGap(a)
	start := startedAt(a)
	isOthers := a.beside.started.byOthers || runs && start.IsZero()
	isAsked, isOld := !a.unwatched.IsZero() || isOthers, isOldStart(start, a.creator.jobs.Clock.Now())
	switch {
	case config["parent"] != "":
		return ownership.HasSnapshots, nil
	case !isAsked && !isOld || !marked || guest.IsOwnLock(config["lock"]):
		return "", nil
	case !isAsked: // the guest has run while it was waited for, and others may have shut it down to work on its disks
		tasks, err := a.creator.guests.UsesOf(ctx, a.proof(), node)
		return guest.NameUses(tasks), err
	case config["lock"] == "backup": // it starts a guest (PVE/VZDump/QemuServer.pm enforce_vm_running_for_backup)
		return "", request.LockedBy(config["lock"], fmt.Sprintf("destroy VM %d on node %s", a.vmid, node))
	}
	c, ha := a.creator, !a.beside.ha.IsZero() && !a.r.HA.Ignores()
	v, err := guest.JudgeLive(ctx, c.guests.Runs, a.baselines[0].Resources, append(a.nodes(), node), mark, config, ha)
	if err != nil || v.Owner != ownership.Ours {
		return v.Reason, err
	}
	if why, err := whyStarted(ctx, a, node, v.Starts, isOthers); why != "" || err != nil {
		return why, err
	}
	if err := a.made.Correct(ctx, c.api.Reader(), a.view.Tasks.UPIDs); err != nil {
		return "", err
	}
	return worksWith(a.plan, config, a.made), nil
}

// whyStarted says why the undo leaves a VM that was started, by tasks that the verdict has found: by another user
// (isOthers: its guest runs, and this run has started none), or by this run, which was held up since.
func whyStarted(ctx context.Context, a *attempt, node string, found []string, isOthers bool) (string, error) {
	isOthers = isOthers || hasOtherStarts(a, found)
	if !isOthers { // a start of another user may not be seen
		status, err := a.creator.api.QEMU(node, a.vmid).Status(ctx)
		if err != nil {
			return "", err
		}
		start, now := startedAt(a), a.creator.jobs.Clock.Now()
		isOwn, heldUp := mayBeStart(start, status.Uptime, now), a.unwatched.After(start)
		if !status.IsRunning() && heldUp && isOldStart(start, now) && hasShutDown(a, found) {
			a.stays = fmt.Sprintf("The guest of VM %d was started, and shut down while this run was held up. A user may work "+
				"with its disks, so nothing was taken back", a.vmid)
			return a.stays, nil
		}
		if status.IsRunning() && isOwn && heldUp && status.Uptime >= int64(guest.Lease/time.Second) {
			a.stays = fmt.Sprintf("The guest of VM %d has run for %s, in which this run was held up, and may be in use. So "+
				"nothing was taken back", a.vmid, time.Duration(status.Uptime)*time.Second)
			return a.stays, nil
		}
		isOthers = status.IsRunning() && !isOwn
	}
	if isOthers {
		return "it was started, and not by this run: a user works with it", nil
	}
	return "", nil
}

// note notes an answer to a request that starts the guest, and that was sent at that time.
func (s *starting) note(at time.Time, err error) {
	lost := pve.IsKind(err, pve.Ambiguous)
	if s.sent.IsZero() && (err == nil || lost) {
		s.sent = at
	}
	s.unanswered = s.unanswered || lost
}

// startedAt is when this run began to start the guest: by its own request, or by an HA entry with which HA starts it.
// Zero: it has not. HA leaves a guest alone that it is to ignore, and starts none that it is to keep off.
func startedAt(a *attempt) time.Time {
	at := a.beside.started.sent
	if at.IsZero() && a.r.HA.Starts() {
		at = a.beside.ha
	}
	return at
}

// mayBeStart reports whether a guest that has run for so many seconds may have been started by this run. How its task
// ended tells nothing: its worker may have been killed when the guest ran.
func mayBeStart(at time.Time, uptime int64, now time.Time) bool {
	const blur = 2 * time.Second // whole seconds
	return !at.IsZero() && time.Duration(uptime)*time.Second <= pve.Elapsed(at, now)+blur
}

// isOldStart reports whether this run's start is so long ago that a user may have worked with the guest since.
func isOldStart(at, now time.Time) bool { return !at.IsZero() && pve.Elapsed(at, now) >= guest.Lease }

// hasShutDown reports whether a guest that is off was started well by this run, and not stopped by it.
func hasShutDown(a *attempt, found []string) bool {
	isStop := func(upid pve.UPID) bool { return upid.Type() == "qmstop" }
	isStart := func(upid pve.UPID) bool { return slices.Contains(found, string(upid)) }
	return slices.ContainsFunc(a.view.Tasks.UPIDs, isStart) && !slices.ContainsFunc(a.view.Tasks.UPIDs, isStop)
}

// hasOtherStarts reports whether tasks of this identity that have started the guest are another run's or a user's. One
// that is not known is this run's where the answer was lost, and no search has found its task.
func hasOtherStarts(a *attempt, found []string) bool {
	unknown, lost := 0, a.beside.started.unanswered
	for _, upid := range a.view.Tasks.UPIDs {
		lost = lost && !(upid.Type() == "qmstart" && a.view.Tasks.Guessed[upid])
	}
	for _, upid := range found {
		if !slices.Contains(a.view.Tasks.UPIDs, pve.UPID(upid)) {
			unknown++
		}
	}
	return unknown > 1 || unknown == 1 && !lost
}

// nodes are those that the configuration can be on: a clone to another node is at its source until the very end.
func (p plan) nodes() []string {
	nodes := []string{p.node}
	for _, b := range p.baselines {
		if !slices.Contains(nodes, b.Node) {
			nodes = append(nodes, b.Node)
		}
	}
	return nodes
}
