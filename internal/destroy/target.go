package destroy

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Target is a VM of ours that is to be removed, with the proof that it is ours.
type Target struct {
	VMID int
	// Nodes are the nodes on which its configuration can be.
	Nodes []string
	// Baseline is the state of the storages before our first write.
	Baseline *guest.Baseline
	// Tasks are the tasks that were begun for the VM.
	Tasks *request.Tasks
	Mark  ownership.Mark
	// Owns reports whether a configuration without our mark is ours, by the identity of a VM in state or of one whose
	// commit may have taken effect. Nil: only the mark decides.
	Owns func(config map[string]string) bool
	// MayOwn reports whether a configuration without our mark may be ours, or that of another run which has completed the
	// VM; nil: none may.
	MayOwn func(config map[string]string) bool
	// Exactly: only Owns and the mark decide. A third party that has changed anything else has taken the VM over.
	Exactly bool
	// Pool is the pool of the VM, "" for none. A VM that reserves its VMID must be in it too, for an identity that has no
	// privileges elsewhere.
	Pool string
	// Lost is our create if its answer was lost and no task of it was found: a half-made VM may be ours.
	Lost *request.Lost
	// Stood: the VM was seen by the run that this one goes on with, and no task that is known has made it.
	Stood bool
	// Managed: HA may have an entry for the VM, made by our create.
	Managed bool
	// Protected: the protection that an uncommitted VM may have is its create's, by its source or by the commit. Any other
	// is a third party's, who keeps the VM.
	Protected bool
	// HalfMade is the unmarked configuration that killed tasks of ours have left.
	HalfMade *HalfMade
	// Unmarked reports whether a VM that is not proved to be ours may be: nothing but the mark, which a third party may
	// have edited away, would prove it. Nil: none may.
	Unmarked func(config map[string]string) bool
	// InUse says why a VM that is ours by its mark is left all the same: a user works with it. "" where nothing shows
	// that. runs: its guest is known to run. Nil: it is not asked.
	InUse func(ctx context.Context, node string, config map[string]string, runs bool) (why string, err error)
	// Made tells the volumes of a create from other new volumes. Nil: every volume outside the baseline is ours.
	Made *Made
	// InState is what state knows of an uncommitted VM, if it has seen its disks: another one in a slot is a third
	// party's. Nil: what is in the slots is the create's.
	InState *Disks
}

// HalfMade is a configuration that a killed task of ours has left, and that nothing marks. It is ours only while it
// is unchanged since right after the kill. A third party that removes it and begins a VM of its own under the VMID
// has one that looks the same at first.
type HalfMade struct {
	// Digest is that of the configuration right after the kill; "" if it was not seen.
	Digest string
	// kills are the tasks whose end was known before, or has been handled.
	kills map[pve.UPID]bool
}

// NewHalfMade makes the HalfMade of a removal. digest may be "". ended are the tasks of an earlier run, which ended
// then.
func NewHalfMade(digest string, ended []pve.UPID) *HalfMade {
	h := &HalfMade{Digest: digest, kills: map[pve.UPID]bool{}}
	for _, upid := range ended {
		h.kills[upid] = true
	}
	return h
}

// forget is called once our configuration bears our mark, or is gone: from then on a half-made VM without a mark is
// another's, even if it looks the same.
func (h *HalfMade) forget() {
	if h != nil {
		h.Digest = ""
	}
}

// verdict is the judgement of a configuration that has the VMID.
type verdict struct {
	owner guest.Owner
	// unsure: it may be ours, and nothing proves it. owner is NoGuest then.
	unsure bool
	// ambiguous: it is half made, and not as our killed task has left it.
	ambiguous bool
	// marked: its description is an ownership mark, of whichever run.
	marked bool
	// inUse is why it is left, although it is ours by its mark. owner is ThirdParty then.
	inUse string
	// complete: it is whole, and whether our commit or another run has completed it is not known.
	complete bool
}

// judge says whose a configuration is: ours by mark or identity. Half made and unmarked, it is ours only if a task of
// ours was killed, and if it is as it was right after that; a task that ended in any other way has removed its own
// already. how is the gravest end of our tasks, m what earlier passes have learned.
func (t *Target) judge(config pve.GuestConfig, how ending, m *memory) verdict {
	values := config.Values
	_, marked := ownership.Parse(values["description"])
	half := !marked && guest.HalfMade(values) && !m.deleted.gone && (!m.tasks.restoring || values["memory"] != "")
	destroyed := m.deleted.config != nil // ours is gone: one of its identity was restored since, if it is not our empty VM
	mine := t.Mark.Proves(t.VMID, values) || !destroyed && t.isKnown(values, m.seen.identity) ||
		half && how == killed && t.isOurHalfMade(config.Digest, m.tasks.justKilled)
	switch {
	case mine:
		return verdict{owner: guest.Ours, marked: marked}
	case t.MayOwn != nil && t.MayOwn(values):
		return verdict{unsure: true, ambiguous: true, complete: true}
	case half && (how > volumesStay || t.Lost != nil):
		return verdict{unsure: true, ambiguous: how == killed}
	}
	return verdict{owner: guest.ThirdParty, marked: marked}
}

// noteGap has the next look ask whether a user works with our VM: it was not seen for a lease, or has a new snapshot.
func noteGap(r *removal, config map[string]string) {
	isLate := !r.seen.at.IsZero() && pve.Elapsed(r.seen.at, r.d.clock.Now()) >= guest.Lease
	r.unused = r.unused && !isLate && config["parent"] == r.parent
}

// leaveInUse makes a VM of ours that a user works with a third party's. It is asked once, and again when the guest is
// seen to run.
func leaveInUse(ctx context.Context, r *removal, runs bool) error {
	if r.view.owner != guest.Ours || r.InUse == nil || r.unused && !runs {
		return nil
	}
	why, err := r.InUse(ctx, r.view.node, r.view.config.Values, runs)
	r.unused, r.parent = why == "" && err == nil, r.view.config.Values["parent"]
	switch {
	case err != nil: // as if it was not seen: no command that destroys it is printed
		r.view = view{}
	case why != "":
		r.view.verdict = verdict{owner: guest.ThirdParty, marked: r.view.marked, inUse: why}
	}
	return err
}

// snapshotSince spares a VM that had no snapshot when it was judged: a removal may wait long for the lock of a task.
func snapshotSince(_ context.Context, _ string, config map[string]string, _ bool) (why string, err error) {
	if config["parent"] != "" {
		why = ownership.HasSnapshots
	}
	return why, nil
}

// useSince finds the use of a failed create's VM that no plan has named. Its destroy leaves the VM then.
type useSince struct {
	d    *Destroyer
	r    Request
	left []saga.Residue // the VM, where it was left
}

func (u *useSince) why(ctx context.Context, node string, config map[string]string, _ bool) (string, error) {
	if guest.IsOwnLock(config["lock"]) {
		return "", nil
	}
	if why, err := u.ofNode(ctx, node, config); err != nil || why != "" {
		return why, err
	}
	why, err := u.ofTasks(ctx, node)
	if why == "" && err == nil {
		why, err = u.ofSnapshots(ctx, node)
	}
	if err != nil || why == "" {
		return "", err
	}
	u.leave(node, why+", which no plan has named. The VM was not touched. A new plan names that, and its apply destroys "+
		"the VM")
	return why, nil
}

// leave notes that the VM was left.
func (u *useSince) leave(node, reason string) {
	u.left = []saga.Residue{{Kind: "guest", Node: node, ID: fmt.Sprint(u.r.Ref.VMID),
		What: fmt.Sprintf("VM %d on node %s", u.r.Ref.VMID, node), Command: shell.VM("qm config {vmid}", u.r.Ref.VMID),
		Reason: reason}}
}

// ofNode is what speaks against a VM on a node to which its create has not brought it: it may have disks of others.
func (u *useSince) ofNode(ctx context.Context, node string, config map[string]string) (string, error) {
	if slices.Contains(u.r.Ref.Proof.Nodes, node) {
		return "", nil
	}
	astray, err := guest.Strays(ctx, u.d.guests, u.r.Ref, node, config)
	if err != nil || len(astray.Volumes) == 0 {
		return "", err
	}
	there, err := astray.IsOn(ctx, u.d.guests, node, u.r.Ref.VMID)
	if err != nil || len(there) == 0 {
		return "", err
	}
	astray.Volumes = there
	u.leave(node, astray.Detail(u.r.Ref.VMID, node, "The VM was not touched"))
	return "it may have disks of others", nil
}

// ofTasks is the use that tasks show. The disk of a holder is looked after by itself.
func (u *useSince) ofTasks(ctx context.Context, node string) (string, error) {
	if u.r.Holder {
		return "", nil
	}
	tasks, err := u.d.guests.UsesOf(ctx, u.r.Ref.Proof, node)
	return guest.NameUses(tasks), err
}

// ofSnapshots is the use that snapshots show, also to an identity that does not see the tasks of others, and where
// PVE's task lists have lost them.
func (u *useSince) ofSnapshots(ctx context.Context, node string) (string, error) {
	taken, err := u.d.takenAt(ctx, node, u.r.Ref.VMID)
	return u.r.Ref.Proof.NewSnapshots(taken), err
}

// isKnown recognizes a VM of ours without a mark by its identity: as the target knows it, or as this removal has seen
// it.
func (t *Target) isKnown(config map[string]string, seen guest.Identity) bool {
	return t.Owns != nil && (t.Owns(config) || !t.Exactly && !t.Mark.IsOvertaken(config) && seen.Proves(config))
}

// isOurHalfMade compares a half-made configuration with the one right after the kill. If a task was killed a moment
// ago, this is the one.
func (t *Target) isOurHalfMade(digest string, justKilled bool) bool {
	if t.HalfMade == nil || digest == "" {
		return false
	}
	if justKilled {
		t.HalfMade.Digest = digest
	}
	return t.HalfMade.Digest == digest
}

// doubt is the error for a half-made VM whose owner is unknown.
func (t *Target) doubt(v verdict, node, lock string) error {
	switch {
	case v.complete:
		return fmt.Errorf("VM %d on node %s is complete. The answer to the last request of its create was lost, so either "+
			"that request has completed it, or another run of the same create, which took it over; then it may be in that "+
			"run's state. It was not touched. Look whether another state has it. If none has, \"terraform state rm\" and an "+
			"import keep it; otherwise \"terraform state rm\" makes this state forget it", t.VMID, node)
	case v.ambiguous && lock != "" && !guest.IsOwnLock(lock): // without it the VM may be as it was
		return request.LockedBy(lock, fmt.Sprintf("tell whether VM %d on node %s is what our task has left", t.VMID, node))
	case v.ambiguous:
		return fmt.Errorf("VM %d on node %s is half made (lock %q), and it has changed since our task died: another user "+
			"may have removed our VM and be making a new one. It was not removed. Look at the node's tasks before removing it",
			t.VMID, node, lock)
	}
	return fmt.Errorf("VM %d on node %s is half made (lock %q), and whether our request made it cannot be told: "+
		"its answer or the log of its task was lost. Look at the node's task list before removing it", t.VMID, node, lock)
}

// Wanted is a volume that a task of a create is to make.
type Wanted struct {
	By      string // the type of the task; root's commands go on with what that of the VM makes
	Storage string
	Name    string // "" = PVE chooses
	Base    string // the volume that it is a linked clone of
	Size    int64  // bytes; 0 = not known
	Format  string // "" = the storage's
}

// specificity ranks by how much is known of the volume: its name, its base, its size. A larger one fits less often,
// since storages round up.
func (w Wanted) specificity() int64 {
	if w.Name != "" || w.Base != "" {
		return math.MaxInt64
	}
	return w.Size
}

func (w Wanted) fits(v pve.Volume) bool {
	name, _, _ := strings.Cut(v.ID[strings.LastIndexAny(v.ID, ":/")+1:], ".")
	return volid.Storage(v.ID) == w.Storage && (w.Format == "" || v.Format == "" || w.Format == v.Format) &&
		(w.Name == "" || w.Name == name) && (w.Base == "" || strings.HasPrefix(v.ID, w.Base+"/")) &&
		hasSize(v, w.Size)
}

// addUnderWay adds the volume that a killed task was just making, once: later that volume may be gone, and another's
// in its place. Those of tasks that were not killed may have grown since, and fit nothing then.
func (m *Made) addUnderWay(b *guest.Baseline, found []pve.Volume) {
	isOpen := func(w Wanted) bool { return slices.Contains(m.died, w.By) }
	if !slices.ContainsFunc(m.wanted, isOpen) {
		return
	}
	open := slices.Clone(m.wanted) // the most specific first, so that no volume takes the place of another
	slices.SortStableFunc(open, func(a, b Wanted) int { return cmp.Compare(b.specificity(), a.specificity()) })
	m.wanted = nil
	fit := func(v pve.Volume) int { return slices.IndexFunc(open, func(w Wanted) bool { return w.fits(v) }) }
	for _, v := range found {
		if n := fit(v); n >= 0 && m.isKnown(b, v.ID) {
			open = slices.Delete(open, n, n+1)
		}
	}
	open = slices.DeleteFunc(open, func(w Wanted) bool { return !isOpen(w) })
	rest := slices.DeleteFunc(m.rest(b, found), func(v pve.Volume) bool { return fit(v) < 0 })
	if len(rest) == 1 {
		m.add(b.Node, byGuess, rest[0].ID)
	}
}

// hasSize reports whether a listed volume can be the one of a former size, or one that was asked for, in bytes; 0: it
// is not known, and any will do. Of an inactive qcow2 volume on LVM only its logical volume is known, which has room
// for the tables too: for each cluster, 8 bytes in 64 KiB, 16 in 128 KiB with subclusters, and as much for its
// reference counts at the most (pve-storage LVMPlugin.pm calculate_lvm_size).
func hasSize(v pve.Volume, was int64) bool {
	if v.Size == 0 && v.Approximate > 0 {
		return v.Approximate >= was && vm.FitsSize(max(was, v.Approximate-was/4096-1<<20), was)
	}
	return was == 0 || v.Size != 0 && vm.FitsSize(v.Size, was)
}
