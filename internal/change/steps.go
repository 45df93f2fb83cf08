package change

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// step is one thing that an update does, in its place in the order.
type step struct {
	name string // what the user is told when it fails; %d is the VMID
	why  string // why it stands where it stands
	do   func(context.Context) error
}

// results is what the steps have found and done. A step gets what it needs and returns what it has done; the table in steps
// says which is whose.
type results struct {
	todo      todo // what is left to be done
	shaped    shaped
	unplugged map[string]string // drives that were taken out of their slots to go to others
	sent      sent
	late      []vm.Growth // disks that grow once the guest has them
	pool      string      // that the VM is in by now
	started   bool        // the guest was started
	restarted bool        // and that anew
}

// steps is the order of an update. There is no undo: what was done stays, and the state says so. A step that has nothing to do
// makes no request.
func (u *update) steps(r *results) []step {
	return []step{
		{"see which volumes of VM %d its snapshots need", "a snapshot that needs a volume which is to be destroyed is an error " +
			"before anything changes",
			func(ctx context.Context) error { return u.checkSnapshots(ctx, r.todo) }},
		{"take VM %d out of HA", "HA would start a guest again that is shut down", u.leaveHA},
		{"shut down VM %d", "a stopped guest takes every change at once", u.shutDown},
		{"migrate VM %d", "before its options, since storages and bridges are those of the node that it is going to",
			func(ctx context.Context) (err error) { r.todo, err = u.migrate(ctx, r.todo); return err }},
		{"keep disks of VM %d that were about to leave", "a disk whose removal waits for a stop, and that is wanted again, is still there",
			func(ctx context.Context) (err error) { r.todo, err = u.keepPendingDisks(ctx, r.todo); return err }},
		{"move and grow disks of VM %d", "a move writes what runs only; what waits beside it would bring the old volume back",
			func(ctx context.Context) (err error) {
				r.todo, r.shaped, err = u.shapeDisks(ctx, r.todo)
				return err
			}},
		{"empty slots of VM %d", "no volume is to be in two slots of a running guest, and PVE takes one cloud-init drive only",
			func(ctx context.Context) (err error) {
				r.todo, r.unplugged, err = u.emptySlots(ctx, r.todo)
				return err
			}},
		{"change options of VM %d", "one request, bound to the configuration that the change was worked out from",
			func(ctx context.Context) (err error) {
				r.sent, r.unplugged, err = u.setOptions(ctx, r.todo, r.unplugged)
				return err
			}},
		{"look who else has the disks that VM %d was given", "who looked before may have attached one at the same time",
			func(ctx context.Context) error { return u.keepBorrowed(ctx, r.sent.attached) }},
		{"keep the boot order of VM %d", "PVE adds a new optical drive to it by itself",
			func(ctx context.Context) error { return u.keepBootOrder(ctx, r.sent) }},
		{"grow new disks of VM %d", "an import takes no size, and the size of an attached volume shows in its slot",
			func(ctx context.Context) (err error) {
				r.late, err = u.growNewDisks(ctx, r.todo, r.sent.attached)
				return err
			}},
		{"change the pool of VM %d", "it needs nothing of the above",
			func(ctx context.Context) (err error) { r.pool, err = u.changePool(ctx); return err }},
		{"set the firewall of VM %d", "before the guest is started", u.setFirewall},
		{"start VM %d", "with everything in force", func(ctx context.Context) (err error) { r.started, err = u.start(ctx); return err }},
		{"restart VM %d", "for what PVE leaves to the next start",
			func(ctx context.Context) (err error) { r.restarted, err = u.restart(ctx, r.sent.options); return err }},
		{"destroy removed disks of VM %d", "after the restart, since a slot without hotplug lets go only then",
			func(ctx context.Context) error { return u.destroyRemoved(ctx, r.takeRemoved()) }},
		{"move and grow disks of VM %d that waited", "what a slot without hotplug takes, and another aio, are there after the restart only",
			func(ctx context.Context) error {
				moved, err := u.shapeLateDisks(ctx, r.shaped.late, r.late)
				r.noteMoved(moved)
				return err
			}},
		{"regenerate the cloud-init drive of VM %d", "PVE takes the options of a running guest at once, and the drive keeps the old data",
			func(ctx context.Context) error { return u.regenerateCloudInit(ctx, r.hasOldCloudInit(u.r.NewSnippets)) }},
		{"free what disks of VM %d have moved from", "the guest has let go of an old cloud-init drive when the new one is " +
			"generated, or when it was restarted",
			func(ctx context.Context) error { u.freeMoved(ctx, r.takeMoved(), u.isLeft); return nil }},
		{"put VM %d under HA", "when everything else is as planned", u.enterHA},
		{"convert VM %d to a template", "last: a template takes no other change",
			func(ctx context.Context) error { return u.convertToTemplate(ctx, r.todo) }},
	}
}

// takeRemoved are the volumes that are to be destroyed, once.
func (r *results) takeRemoved() map[string]removedDisk {
	removed := r.sent.removed
	r.sent.removed = nil
	return removed
}

// hasOldCloudInit tells whether the cloud-init drive has old data: what it is made of has changed, and no start has made it anew.
func (r *results) hasOldCloudInit(newSnippets bool) bool {
	return !r.started && !r.restarted && (newSnippets || r.shaped.redrawn || slices.ContainsFunc(r.sent.options, vm.IsCloudInit))
}

// noteMoved adds volumes that disks have moved from.
func (r *results) noteMoved(moved map[string]string) {
	if r.shaped.moved == nil {
		r.shaped.moved = map[string]string{}
	}
	maps.Copy(r.shaped.moved, moved)
}

// takeMoved are the volumes that disks have moved from, once.
func (r *results) takeMoved() map[string]string {
	moved := r.shaped.moved
	r.shaped.moved = nil
	return moved
}

// run does the steps, and what is owed after one that failed.
func (u *update) run(ctx context.Context, r *results) error {
	loose, err := u.adoptable(ctx)
	if err != nil {
		return err
	}
	todo, err := compare(u.vmid, u.before, u.r.Prior, u.r.Planned, loose)
	if err == nil {
		err = u.notSuspended(todo)
	}
	if err != nil {
		return err
	}
	r.todo = todo
	for _, step := range u.steps(r) {
		name := fmt.Sprintf(step.name, u.vmid)
		u.view.current = name
		within, ended := account.Step(ctx, name)
		err := step.do(within)
		ended(err)
		if err != nil { // what is looked at then is another step
			return &tx.StepError{Step: name, Err: u.afterFailure(ctx, r, err)}
		}
	}
	return nil
}

// afterFailure ends an update whose step has failed: disks that were to change their slots go back, what the failed task left
// is named, and volumes that are to go with their drives go all the same. Those drives are gone from the state by then, so the
// plan's word is kept now, or never: only an interrupted apply leaves the volumes, detached.
func (u *update) afterFailure(ctx context.Context, r *results, cause error) error {
	cause = u.putBack(ctx, r.unplugged, cause)
	late, cancel := u.s.jobs.LookAfter(ctx)
	defer cancel()
	u.freeMoved(late, r.takeMoved(), u.isLeft)
	u.nameLeftovers(ctx, r.todo, cause)
	removed := r.takeRemoved()
	if ctx.Err() == nil {
		return errors.Join(cause, u.destroyRemoved(ctx, removed))
	}
	for slot, d := range removed {
		u.warn(fmt.Sprintf("Volume %s of VM %d was not destroyed", d.volume, u.vmid),
			fmt.Sprintf("The apply was interrupted. If %s let go of it, it stays with the VM, detached.", slot))
	}
	return cause
}
