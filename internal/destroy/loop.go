package destroy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/backoff"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// removal removes a VM of ours until nothing of it is left: the roll-back of a create, and the destroy of a VM in
// state. Each pass looks at the server, decides by the table in decide.go and acts through the guard. Only memory
// survives a pass.
type removal struct {
	Target
	policy
	memory
	d    *Destroyer
	view view   // of the last look
	how  ending // the gravest end of our tasks, as of this pass
	// unused: nothing has shown that a user works with our VM, while it had this snapshot at last.
	unused bool
	parent string
	notes  []Note
	// leftFrom are nodes that the VM was moved away from meanwhile.
	leftFrom []string
}

// policy is what the caller of a removal allows. The zero policy is that of a roll-back.
type policy struct {
	// committed: the VM belongs to its user and was shut down before. Its protection counts, and only force stops it hard.
	committed, force bool
	holder           bool // it holds a disk for others (Request.Holder)
	keep             bool // its entries in jobs and in HA stay
	alone            bool // no guest has had the VMID since: what is set for it by now is not the VM's
	// of a committed VM: the VM that reserves its VMID bears it, so that state recognizes it
	identity guest.Identity
	// of a committed VM: refuses a configuration that has changed since its guest was shut down; nil: takes any
	refuse func(ctx context.Context, node string, config pve.PendingConfig) error
	// of a committed VM: its detached volumes that have the name of a known one, and are another by now; nil: none is
	reused func(ctx context.Context, node string, config map[string]string) ([]string, error)
}

// memory is what a removal knows from earlier passes.
type memory struct {
	seen     lastSeen
	askedAt  time.Time // when the last look began
	known    string    // digest of the configuration whose volumes and snapshots the baseline knows
	off      bool      // the guest is known to be off
	tasks    endings   // of our tasks
	deleted  deletion  // our last destroy that ended well
	left     []string  // volumes of ours that are there
	unproven []string  // new volumes of which nothing shows that they are ours
	volumes  map[string]*volumeMemory
	ha       haEntry
	taken    bool           // a third party has the VMID
	lifted   bool           // the protection was switched off
	use      *volumeuse.Use // as last read for this removal
	fresh    bool           // nothing was done since
	tries    struct{ alone, reclaim, attach, letGo int }
}

// lastSeen is the identity of our VM as it was last seen. It survives a change of the description, and a commit.
type lastSeen struct {
	identity guest.Identity
	at       time.Time // when that was asked for, and proved by something else
}

// volumeMemory is what is known of a volume.
type volumeMemory struct {
	volume       pve.Volume // as last listed
	tried        int        // how often it was to go with the VM
	why          string     // why it did not
	own          bool       // it is ours, though it is an unused disk of the VM
	copied       bool       // a killed migration has made it: one of that name is also on the VM's node
	letGo        bool       // PVE had adopted it, and it was taken out of the configuration
	snapshotOnly bool       // only a snapshot of a committed VM has it, and it is not known to be the VM's
}

// of is what is known of a volume, to be read and changed.
func (m *memory) of(volume string) *volumeMemory {
	if m.volumes[volume] == nil {
		m.volumes[volume] = &volumeMemory{}
	}
	return m.volumes[volume]
}

// remember keeps why volumes stayed when PVE removed their VM.
func (m *memory) remember(stayed map[string]string) {
	for volume, why := range stayed {
		m.of(volume).why = why
	}
}

// haEntry is what is known of the HA entry that our create made.
type haEntry struct {
	entry bool // there may be one
	fails int  // attempts to remove it
	purge bool // it is to go with the VM, since it cannot be removed by itself
}

// deletion is a destroy of ours that ended well.
type deletion struct {
	asked     map[string]string // the configuration that PVE was asked to destroy last
	task      pve.UPID
	config    map[string]string // that it destroyed
	gone      bool              // and nothing of ours took its place
	explained pve.UPID          // the destroy whose log was read for leftovers
	sorted    pve.UPID          // the destroy whose volumes are sorted into those that went and those that stayed
	went      map[string]bool   // volumes that went with it, or with an earlier one
	reborn    []string          // those of them whose names are there again
	strays    []stray           // disks that stayed on another node than the baseline's
}

// forNext is what the removal of the same VM by another baseline knows of the destroy: the VM that it finds is our
// empty one, and a name that went may be another's. The rest is known of volumes of this baseline's node.
func (d deletion) forNext() deletion {
	return deletion{asked: d.asked, task: d.task, config: d.config, gone: d.gone, strays: d.strays}
}

// final marks an error that no further pass can change.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// passes bounds a removal. A lost answer, a failed task or a third party in between costs a further pass.
const passes = 16

// away is how long a roll-back waits for a node that does not answer: no later run takes back what was made there.
const away = 2 * time.Minute

// Remove removes a VM of ours. A leftover that it could not remove is in a *saga.LeftError.
func (d *Destroyer) Remove(ctx context.Context, t Target) error {
	return d.newRemoval(t, policy{}).run(ctx)
}

// RemoveAll removes a VM of ours whose volumes may be on two nodes, in the order given: the first target has the
// configuration. notes are for people, also where nothing is left.
func (d *Destroyer) RemoveAll(ctx context.Context, targets []Target) (notes []Note, err error) {
	var left []saga.Residue
	var failed, vague error
	var before deletion
	for _, t := range targets {
		r := d.newRemoval(t, policy{})
		r.deleted = before.forNext()
		err := remove(ctx, r)
		before = r.deleted
		for _, n := range r.notes { // of one VM, each target may say the same
			if !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
		var named *saga.LeftError
		switch {
		case err == nil: // the VM is gone, also where an earlier target could not remove it, and nothing is on this node
			left = slices.DeleteFunc(left, func(l saga.Residue) bool {
				return l.Kind == "guest" || l.Node == t.Baseline.Node
			})
		case errors.As(err, &named):
			left, failed = merge(left, named.Left), errors.Join(failed, named.Err)
		default:
			vague = errors.Join(vague, err)
		}
	}
	if len(left) > 0 {
		vague = &saga.LeftError{Left: left, Err: errors.Join(failed, vague)}
	}
	return notes, withStrays(ctx, d, before.strays, vague)
}

func (d *Destroyer) newRemoval(t Target, p policy) *removal {
	return &removal{Target: t, policy: p, d: d, memory: memory{volumes: map[string]*volumeMemory{},
		ha: haEntry{entry: t.Managed}, tasks: endings{tasks: t.Tasks, halfMade: t.HalfMade, ended: map[pve.UPID]ending{}}}}
}

// run removes the VM, and returns what is left of it as an error.
func (r *removal) run(ctx context.Context) error {
	err := remove(ctx, r)
	return withStrays(ctx, r.d, r.deleted.strays, err)
}

// remove is run without the disks that stayed on another node.
func remove(ctx context.Context, r *removal) error {
	r.awaitLost(ctx)
	r.checkVisible(ctx)
	err := r.loop(ctx)
	for _, text := range r.Baseline.Notes() {
		r.notes = append(r.notes, Note{Text: text, Doubt: true})
	}
	tellLetGo(r)
	tellSnapshotOnly(r)
	if reborn := r.deleted.reborn; len(reborn) > 0 {
		r.notes = append(r.notes, rebornNote(r.VMID, r.Baseline.Node, reborn))
	}
	if r.view.inUse != "" {
		r.notes = append(r.notes, inUseNote(r.VMID, r.view))
	}
	if len(r.unproven) > 0 {
		r.notes = append(r.notes, unprovenNote(r.VMID, r.Baseline.Node, r.unproven))
	}
	return err
}

func (r *removal) loop(ctx context.Context) error {
	var failed error
	q := r.d.jobs.Queue(r.Baseline.Node, r.VMID)
	q.Reason = backoff.ForLockToDestroy
	began := r.d.clock.Now()
	for attempt, failures, absences := 0, 0, 0; attempt < passes && failures < 5; attempt++ {
		clean, err := r.pass(ctx)
		if clean {
			return nil
		}
		failed = err
		if err == nil {
			continue
		}
		var last final
		if errors.As(err, &last) {
			break
		}
		if pve.IsKind(err, pve.Locked) { // the holder of the lock will have done some time
			q.Node = cmp.Or(r.view.at(), q.Node)
			if failed = q.Wait(ctx, err); failed == nil {
				attempt--
				continue
			}
			break
		}
		isAway := pve.IsKind(err, pve.Unavailable) || pve.IsKind(err, pve.Ambiguous)
		if isAway && !r.committed && r.d.clock.Now().Sub(began) < away {
			attempt--
			absences++ // which leave the node that is back all its tries
		} else {
			failures++
		}
		if r.d.jobs.Pause(ctx, failures+min(absences, 4)) != nil {
			break
		}
	}
	return r.lastLook(ctx, failed)
}

// pass looks, and then decides and acts until something was done after which it must look again. It is clean when
// nothing of ours is there any more.
func (r *removal) pass(ctx context.Context) (clean bool, err error) {
	if r.how, err = r.tasks.end(ctx, r.d.api); err != nil {
		return false, err
	}
	if done := r.tasks.done; done != "" && done != r.deleted.task && r.deleted.asked != nil {
		r.rememberDestroy(ctx, r.deleted.asked, pve.TaskResult{}) // its end was not seen when it was waited for
	}
	f, err := r.look(ctx)
	if err != nil {
		return false, err
	}
	r.tasks.justKilled = false
	for {
		rule := decide(f, r.memory, r.policy)
		next, err := rule.do(r, ctx, &f)
		if err != nil || next != decideAgain {
			return next == finished, err
		}
	}
}

// prove makes evidence for an act of this removal. The next act has the other guests read again.
func (r *removal) prove(ctx context.Context, c guard.Claim) (guard.Evidence, error) {
	c.VMID, c.Own, c.Tasks = r.VMID, !r.holder && !r.alone, r.Tasks.UPIDs
	if r.fresh {
		c.Use = r.use
	}
	r.fresh = false
	e, err := r.d.Prove(ctx, c)
	if e.Use() != nil {
		r.use = e.Use()
	}
	return e, err
}

// ours claims our VM, whose configuration was found on a node.
func (r *removal) ours(node string) guard.Claim {
	return guard.Claim{Node: node, Guest: func(config pve.GuestConfig) error {
		v, err := r.recognize(node, config, r.how)
		if v.standing() {
			r.view = v
		}
		if err == nil && (v.owner != guest.Ours || r.InUse != nil && !r.unused) {
			err = guard.ErrNotOurs
		}
		return err
	}}
}
