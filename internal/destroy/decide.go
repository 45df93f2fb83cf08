package destroy

import (
	"context"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// suspended is the lock of a guest that was suspended to disk: a state, and no work under way.
const suspended = request.Suspended

// outcome is how a pass goes on after an act that went well.
type outcome int

const (
	decideAgain outcome = iota // what the pass has seen still holds
	nextPass                   // look first
	finished                   // nothing of ours is there any more
)

// rule is a row of the decision table.
type rule struct {
	name string
	why  string // why it stands where it stands
	when func(f facts, m memory, p policy) bool
	do   func(r *removal, ctx context.Context, f *facts) (outcome, error)
}

// decide returns what a removal does next: the first rule that applies. It asks nothing and changes nothing.
func decide(f facts, m memory, p policy) rule {
	all := rules()
	for _, r := range all {
		if r.when(f, m, p) {
			return r
		}
	}
	return all[len(all)-1]
}

// rules is the decision table of every removal, the roll-back of a create and the destroy of a VM in state alike. One
// pass goes down the table as far as goes well without a new look.
func rules() []rule {
	return []rule{
		{"leave a VM that a user works with", "its volumes are in use with it, in its snapshots too",
			func(f facts, _ memory, _ policy) bool { return f.inUse != "" }, leaveAll()},
		{"leave the VMID to a third party", "its VM is never touched; volumes that were ours before it came still are",
			func(f facts, _ memory, _ policy) bool { return f.owner == guest.ThirdParty }, (*removal).leaveToThirdParty},
		{"end", "neither a configuration nor a volume of ours is there",
			func(f facts, _ memory, _ policy) bool { return f.isGone() && len(f.left) == 0 },
			func(*removal, context.Context, *facts) (outcome, error) { return finished, nil }},
		{"read why volumes outlived the VM", "the log of the destroy says it, and the error names it; read once",
			func(f facts, m memory, _ policy) bool {
				return f.isGone() && f.lastDestroy != "" && f.lastDestroy != m.deleted.explained
			}, (*removal).explain},
		{"give up volumes that outlived the VM", "a busy volume may come free, but not for ever",
			func(f facts, m memory, _ policy) bool { return f.isGone() && m.tries.reclaim == maxReclaims },
			func(*removal, context.Context, *facts) (outcome, error) {
				return nextPass, final{fmt.Errorf("%d attempts did not remove it", maxReclaims+1)}
			}},
		{"free volumes of a free VMID", "what others have set for the VMID would go with any VM of it",
			goAlone, func(r *removal, ctx context.Context, f *facts) (outcome, error) { return freeAlone(ctx, r, f) }},
		{"take the VMID again", "an empty VM of ours takes the volumes with it, and keeps their names from third parties",
			func(f facts, _ memory, _ policy) bool { return f.isGone() }, (*removal).reclaim},

		// From here on the VM is ours.
		{"check adopted volumes", "a destroy would take volumes of others that PVE has attached to a restored VM (rescan)",
			func(f facts, _ memory, p policy) bool { return len(f.adopted) > 0 && !p.committed }, (*removal).checkAdopted},
		{"leave a VM that a third party protects", "its create has not, so its guest is not even stopped",
			func(f facts, _ memory, _ policy) bool { return f.spared },
			func(r *removal, _ context.Context, f *facts) (outcome, error) { return spare(r, f) }},
		{"take the VM out of HA", "HA would start again a guest that is stopped",
			func(_ facts, m memory, _ policy) bool { return m.ha.entry }, (*removal).leaveHA},
		{"ask whether the guest runs", "the destroy of a guest that runs is refused",
			func(f facts, m memory, _ policy) bool { return !m.off && f.power == nil }, (*removal).askPower},
		{"refuse a VM under HA of others", "its manager would start the guest again, and note that it is to be off",
			func(f facts, m memory, p policy) bool {
				return f.power != nil && f.power.HAManaged && !p.committed && !m.ha.purge
			},
			func(r *removal, _ context.Context, _ *facts) (outcome, error) {
				return nextPass, final{managedByOthers(r.VMID, r.Baseline.Node, nil)}
			}},
		{"refuse a VM that runs again", "its user shut it down for this destroy; a third party has started it",
			func(f facts, _ memory, p policy) bool { return f.runs() && p.committed && !p.force },
			func(r *removal, _ context.Context, f *facts) (outcome, error) {
				return nextPass, final{fmt.Errorf("VM %d on node %s runs again after it was shut down: another user or HA "+
					"started it",
					r.VMID, f.node)}
			}},
		{"stop the guest", "it was never committed, or may be stopped hard",
			func(f facts, _ memory, _ policy) bool { return f.runs() }, (*removal).stop},
		{"refuse a protected VM", "its user protects it; the look at the beginning has not seen that",
			func(f facts, _ memory, p policy) bool { return f.isProtected() && p.committed && !p.holder },
			func(r *removal, _ context.Context, f *facts) (outcome, error) {
				return nextPass, final{fmt.Errorf("VM %d on node %s is protected since a moment ago; its protection was left alone",
					r.VMID, f.node)}
			}},
		{"wait for the lock of a committed VM", "a task of its user's is at work; nothing of ours locks it before the " +
			"destroy",
			func(f facts, _ memory, p policy) bool {
				return f.lock() != "" && p.committed && !guest.IsHalfDestroyed(f.config.Values)
			}, (*removal).awaitUnlocked},
		{"wait for a lock of others", "only a task of ours that makes, moves or destroys the VM may have left a lock",
			func(f facts, m memory, _ policy) bool { return f.lock() != "" && !m.tasks.mayHaveLeft(f.lock()) },
			func(r *removal, _ context.Context, f *facts) (outcome, error) {
				return nextPass, request.LockedBy(f.lock(), fmt.Sprintf("destroy VM %d on node %s", r.VMID, f.node))
			}},
		{"unlock", "PVE changes and destroys nothing that is locked, and the task behind this lock is dead",
			func(f facts, _ memory, _ policy) bool { return f.lock() != "" }, (*removal).unlock},
		{"let go of volumes that PVE has adopted", "a destroy would take them, and nothing shows that they are the VM's; " +
			"PVE refuses the change while a lock is there",
			func(f facts, _ memory, p policy) bool { return len(f.adopted) > 0 && p.committed }, (*removal).letGo},
		{"lift the protection of a holder", "it is ours, and is lifted only once nothing speaks against the destroy",
			func(f facts, _ memory, p policy) bool { return f.isProtected() && p.holder }, (*removal).liftProtection},
		{"switch off the protection", "its create has it from its source, or has set it",
			func(f facts, _ memory, _ policy) bool { return f.isProtected() }, (*removal).switchOffProtection},
		{"attach volumes that the VM does not name", "PVE destroys with a VM what its configuration names",
			func(f facts, _ memory, _ policy) bool { return len(f.left) > 0 && !f.attached }, (*removal).attach},
		{"destroy the VM", "nothing speaks against it any more",
			func(facts, memory, policy) bool { return true }, (*removal).destroy},
	}
}

// isGone reports whether no guest has the VMID.
func (f facts) isGone() bool { return f.owner == guest.NoGuest }

func (f facts) runs() bool { return f.power != nil && f.power.Status == string(guest.Running) }

// goAlone reports whether volumes are to be freed by themselves.
func goAlone(f facts, m memory, p policy) bool {
	return f.isGone() && p.alone && m.tries.alone < maxAlone
}

// leaveAll leaves a VM that a user works with, with all its volumes: a snapshot may need any of them.
func leaveAll() func(*removal, context.Context, *facts) (outcome, error) {
	return func(r *removal, _ context.Context, _ *facts) (outcome, error) {
		r.view.beside = slices.DeleteFunc(r.left, func(v string) bool { return guest.Uses(r.view.config.Values, v) })
		r.left, r.unproven = nil, nil
		return finished, nil
	}
}

// LinkedClone is a VM that has a volume based on one of a template.
type LinkedClone struct {
	VMID int
	Text string // names it and the volume
}

func texts(clones []LinkedClone) (all []string) {
	for _, c := range clones {
		all = append(all, c.Text)
	}
	slices.Sort(all)
	return all
}

// LinkedClones are those of a template with some volumes on a node, as the storages tell: its destroy is refused while
// there is one.
func (d *Destroyer) LinkedClones(ctx context.Context, node string, bases []string) ([]LinkedClone, error) {
	resources, err := d.api.Listing().Shared(ctx)
	if err != nil {
		return nil, err
	}
	return d.linkedClones(ctx, resources, node, bases)
}

func (d *Destroyer) linkedClones(ctx context.Context, resources pve.Resources, node string, bases []string) (
	all []LinkedClone, err error) {
	for _, base := range bases {
		volumes, err := d.api.Storage(node, volid.Storage(base)).Content(ctx, "images", 0)
		if err != nil {
			return nil, fmt.Errorf("look whether %s has linked clones: %w", base, err)
		}
		for _, v := range volumes {
			if guard.IsBasedOn(v, base, true) {
				all = append(all, LinkedClone{v.VMID, fmt.Sprintf("%s (%s)", guestName(resources, v.VMID), v.ID)})
			}
		}
	}
	return all, nil
}

// BackupLost is why no VM should be replaced by one of a backup, as its storage lists that; "" if it may be. Destroys
// within some seconds share a listing.
func (d *Destroyer) BackupLost(ctx context.Context, node, archive string) string {
	all, err := d.archives.Get(ctx, d.clock, node+" "+volid.Storage(archive),
		func(ctx context.Context) ([]pve.Volume, error) {
			return guest.Backups(ctx, d.api.Reader(), node, archive)
		})
	switch at := slices.IndexFunc(all, func(v pve.Volume) bool { return v.ID == archive }); {
	case err != nil:
	case at < 0:
		return "The storage does not list that backup any more."
	case all[at].Verified.State == "failed":
		return fmt.Sprintf("The backup server could not verify that backup (its task %s), so its data are damaged or "+
			"incomplete. Have it verified once more, name another backup, or let the VM of this one be made first, under "+
			"another address.", all[at].Verified.UPID)
	}
	return ""
}
