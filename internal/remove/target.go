package remove

import (
	"context"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove/usage"
)

// Target is a VM of ours that is to go, and what proves that it is.
type Target struct {
	VMID int
	// Nodes are where its configuration can be.
	Nodes []string
	// Fence is what was there before us.
	Fence *guest.Fence
	// Tasks are the tasks that were begun for it.
	Tasks *job.Tasks
	Stamp guest.Stamp
	// Owns reports whether a configuration without our stamp is ours (identity of a VM in state, or of one whose commit
	// may have taken effect); nil: the stamp decides.
	Owns func(config map[string]string) bool
	// Exactly says that Owns and the stamp alone decide: who has changed anything else has taken it on.
	Exactly bool
	// Pool is the one that it is in, "" for none: what holds its id must be in it too, for an identity that may do nothing
	// elsewhere.
	Pool string
	// Lost is our create when its answer was lost and no task of it was found: a half-made VM may be ours.
	Lost *job.Lost
	// Managed says that HA may have an entry for the VM, made by our create.
	Managed bool
	// Stub is what killed tasks of ours have left.
	Stub *Stub
	// Unmarked says that our VM was made, and that nothing but the stamp would show that it is ours: whoever changes the description makes
	// it look like somebody else's.
	Unmarked bool
	// Made tells the volumes of a create from others that are new; nil: whatever the fence calls ours is.
	Made *Made
}

// Stub is what a killed task of ours has left of a configuration, which nothing marks: it is ours only while it is as it was seen
// right after the kill. Whoever removes it and makes a VM of his own under the id has one that looks just like it at first.
type Stub struct {
	// Digest is that of the configuration then; "" if it was not seen.
	Digest string
	// kills are the tasks whose end was known before, or has been looked after.
	kills map[pve.UPID]bool
}

// NewStub makes the Stub of a removal. Those of an earlier run have a digest, or not, and tasks that ended then.
func NewStub(digest string, ended []pve.UPID) *Stub {
	s := &Stub{Digest: digest, kills: map[pve.UPID]bool{}}
	for _, upid := range ended {
		s.kills[upid] = true
	}
	return s
}

// ending is how a task of ours ended, from harmless to grave.
type ending int

const (
	cleanedUp  ending = iota // well, or with PVE's own clean-up
	unknownEnd               // PVE does not know any more, since its log is lost or cannot be read, or does not say whether it cleaned up
	killed                   // without clean-up
)

func endingOf(upid pve.UPID, exitStatus string) ending {
	ended := &pve.TaskError{UPID: upid, ExitStatus: exitStatus}
	switch {
	case ended.Killed() || ended.LeavesHalf():
		return killed
	case exitStatus == "" || !ended.CleansUp():
		return unknownEnd
	}
	return cleanedUp
}

// removal takes a VM of ours away until nothing of it is left: the undo of a create, and the destroy of a VM in state.
// It never acts on what an earlier pass saw.
type removal struct {
	Target
	s *Remover
	// committed says that the VM is its user's, and was shut down before: its protection counts, and it is not stopped
	// hard unless force says so.
	committed, force bool
	holder           bool           // it holds a disk for others (Request.Holder)
	lifted           bool           // its protection was switched off
	keep             bool           // its entries in jobs and in HA stay
	identity         guest.Identity // of a committed VM: what holds its id bears it, so that state knows it again
	off              bool           // its guest is known to be off
	seen             guest.Identity // of our VM, as it was seen last: whoever describes it anew leaves that, and so does a commit
	known            string         // the digest of the configuration whose volumes and snapshots the fence knows
	others           *usage.Survey  // the last one that was made for this removal
	unspent          *usage.Survey  // the same, while nothing has been done since
	leftFrom         []string       // nodes that the VM was moved away from meanwhile

	ended       map[pve.UPID]ending // tasks of ours that have ended, and how
	tried       map[string]int      // volumes that were to go with the VM, and how often
	why         map[string]string   // why they did not
	users       map[string]string   // of what is left, who else uses it
	unsurveyed  bool                // that could not be looked at
	purge       bool                // an HA entry of ours is to go with the VM, since it cannot be removed by itself
	reclaims    int                 // times the id was taken again to remove them
	attachFails int                 // attempts to attach them that failed
	haFails     int                 // times the HA entry could not be removed

	how        ending            // the gravest end of our tasks
	justKilled bool              // a task of ours was found killed a moment ago: what is there now is what it left
	blocked    error             // why the guest cannot be removed by us
	looked     bool              // the last look at the configuration was answered
	unseen     bool              // somebody has the id, and may not be seen: its volumes may be his
	taken      bool              // somebody else has the id
	at         string            // node where our configuration was last seen, "" when it is gone
	has        map[string]string // that configuration
	ambiguous  bool              // it is half made, and not as our killed task left it
	restoring  bool              // a restore of ours got as far as its volumes, for which it has written memory into the configuration
	othersWork bool              // a task that is not ours may hold its lock
	partly     bool              // the last look was not answered in full
	destroyed  pve.UPID          // our destroy that ended well
	had        map[string]string // the configuration that it destroyed
	gone       bool              // and we have made nothing in its place
	explained  pve.UPID          // the destroy whose log was read for what is left
	left       []string          // volumes of ours that are there
	unproven   []string          // volumes that are new, and of which nothing shows that they are ours
	notes      []Note
}

// sighting is a configuration that has the id, and whose it is.
type sighting struct {
	node   string
	config pve.GuestConfig
	owner  guest.Owner
}

// judge says whose a configuration is: ours by stamp or identity; half made without a stamp, ours only if a task of ours was
// killed, since one that ended in any other way has removed its own already, and as it was then.
func (r *removal) judge(node string, config pve.GuestConfig, how ending) (sighting, error) {
	values := config.Values
	_, stamped := guest.ParseStamp(values["description"])
	half := !stamped && guest.HalfMade(values) && !r.gone && (!r.restoring || values["memory"] != "")
	mine := r.Stamp.Proves(r.VMID, values) || r.isKnown(values) || half && how == killed && r.isOurStub(config.Digest)
	unsure := !mine && half && (how != cleanedUp || r.Lost != nil)
	r.ambiguous = unsure && how == killed
	if mine || unsure {
		r.at, r.has = node, values
	}
	if unsure {
		return sighting{}, r.doubt(node, values["lock"])
	}
	r.looked = true
	if !mine {
		return sighting{node, config, guest.Stranger}, nil
	}
	if stamped {
		r.forgetStub()
	}
	r.seen = guest.IdentityOf(values)
	named := ownVolumes(r.VMID, values)
	if !r.Stamp.Restore.IsZero() {
		adopted := Adopted(r.VMID, values)
		named = slices.DeleteFunc(named, func(volume string) bool { return slices.Contains(adopted, volume) })
	}
	r.Made.addNamed(named)
	return sighting{node, config, guest.Ours}, nil
}

// forgetStub is for when ours bears our mark: a half-made VM without one is another's from then on, also one that looks the same.
func (r *removal) forgetStub() {
	r.justKilled = false
	if r.Stub != nil {
		r.Stub.Digest = ""
	}
}

// doubt is the error for a half-made VM of which it cannot be told whose it is.
func (r *removal) doubt(node, lock string) error {
	switch {
	case r.ambiguous && lock != "" && !guest.IsOwnLock(lock): // without it the VM may be as it was
		return job.LockedBy(lock, fmt.Sprintf("tell whether VM %d on node %s is what our task has left", r.VMID, node))
	case r.ambiguous:
		return fmt.Errorf("VM %d on node %s is half made (lock %q), but not as it was right after our task had died: somebody may "+
			"have removed what that left, and be making a VM of his own. It was not touched. Look at the node's task list before removing it",
			r.VMID, node, lock)
	}
	return fmt.Errorf("VM %d on node %s is half made (lock %q), and whether our request made it cannot be told: "+
		"its answer or the log of its task was lost. Look at the node's task list before removing it", r.VMID, node, lock)
}

// isKnown tells a VM of ours without a mark by its identity: as the target knows it, or as this removal has seen it.
func (r *removal) isKnown(config map[string]string) bool {
	return r.Owns != nil && (r.Owns(config) || !r.Exactly && r.seen.Proves(config))
}

// isOurStub compares a half-made configuration with what was seen right after the kill, which may be now.
func (r *removal) isOurStub(digest string) bool {
	if r.Stub == nil || digest == "" {
		return false
	}
	if r.justKilled {
		r.Stub.Digest = digest
	}
	return r.Stub.Digest == digest
}

// find reads the configuration afresh and says whose it is.
func (r *removal) find(ctx context.Context, how ending) (sighting, error) {
	r.looked, r.at, r.has, r.unseen = false, "", nil, false
	if !r.gone || !r.seesAll() { // else the listing tells that it is gone, for all who ask
		for _, node := range r.Nodes {
			config, err := r.s.api.CurrentConfig(ctx, node, r.VMID)
			if pve.IsKind(err, pve.NotFound) || pve.IsKind(err, pve.Denied) { // who may not read a VM is refused before PVE looks for it
				continue
			}
			if err != nil {
				return sighting{}, err
			}
			return r.judge(node, config, how)
		}
		free, err := r.s.api.IsFreeID(ctx, r.VMID)
		if err != nil || free {
			r.looked = err == nil
			return sighting{}, err
		}
	}
	return r.findListed(ctx, how)
}

// seesAll reports whether this identity has just been able to see all guests.
func (r *removal) seesAll() bool { return r.others != nil && r.others.Unseen == nil }

// findListed looks for the id where we did not put it: the VM may have been migrated meanwhile, and a stranger may have
// taken the id on another node, whose volumes on shared storages look like ours.
func (r *removal) findListed(ctx context.Context, how ending) (sighting, error) {
	resources, err := r.s.surveyor.Listing(ctx, r.s.surveyor.Ask())
	if err != nil {
		return sighting{}, err
	}
	listed, ok := resources.Guest(r.VMID)
	switch {
	case !ok && r.gone && r.seesAll():
		r.looked = true
		return sighting{}, nil
	case !ok:
		r.unseen = true
		return sighting{}, fmt.Errorf("somebody has VM %d, but this identity may not see where (VM.Audit)", r.VMID)
	case listed.Type != "qemu":
		r.looked = true
		return sighting{node: listed.Node, owner: guest.Stranger}, nil
	}
	config, err := r.s.api.CurrentConfig(ctx, listed.Node, r.VMID)
	if err != nil {
		return sighting{}, err
	}
	return r.judge(listed.Node, config, how)
}

// ours is the claim on our VM, whose configuration was found on a node.
func (r *removal) ours(node string) claim {
	return claim{node: node, guest: func(config pve.GuestConfig) error {
		found, err := r.judge(node, config, r.how)
		if err == nil && found.owner != guest.Ours {
			err = errNotOurs
		}
		return err
	}}
}

// prove makes evidence for a claim of this removal, upon which something is done: for the next claim the other guests are read again.
func (r *removal) prove(ctx context.Context, c claim) (Evidence, error) {
	c.vmid, c.own, c.tasks, c.others = r.VMID, !r.holder, r.Tasks.UPIDs, r.unspent
	r.unspent = nil
	e, err := r.s.prove(ctx, c)
	if e.others != nil {
		r.others = e.others
	}
	return e, err
}
