package update

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// results is what the steps have found and done. A step gets what it needs and returns what it has done; the table in
// steps connects them.
type results struct {
	todo      todo // what is still to be done
	shaped    shaped
	unplugged unplugged
	sent      sent
	late      []vm.Growth // disks that grow once the guest has them
	pool      string      // that the VM is in by now
	started   bool        // the guest was started
	restarted bool        // the guest was restarted
}

// steps is the order of an update. There is no undo: completed steps stay, and the state says so. A step with nothing
// to do makes no request. The names are formats with the VMID.
func (u *update) steps(r *results) []saga.Step {
	return append(u.stepsToTheOptions(r), u.stepsAfterTheOptions(r)...)
}

func (u *update) stepsToTheOptions(r *results) []saga.Step {
	return []saga.Step{
		{Name: "see which volumes of VM %d its snapshots need",
			Why: "a snapshot that needs a volume to be destroyed or moved, or keeps the VM from becoming a template, is an " +
				"error before anything changes",
			Do: func(ctx context.Context) error {
				if err := checkConvertible(ctx, u, r.todo); err != nil {
					return err
				}
				if err := checkMovable(ctx, u, r.todo); err != nil {
					return err
				}
				return volumes{u}.checkSnapshots(ctx, r.todo)
			}},
		{Name: "keep disks of VM %d that were about to leave",
			Why: "a disk whose removal waits for a stop, and that is wanted again, is still there until the guest stops, or " +
				"is migrated",
			Do: func(ctx context.Context) (err error) {
				if r.todo, err = (disks{u}).keepPendingDisks(ctx, r.todo); err == nil {
					err = slots{u}.checkCold(ctx, r.todo)
				}
				return err
			}},
		{Name: "take VM %d out of HA",
			Why: "HA would start a guest again that is shut down",
			Do: func(ctx context.Context) error {
				if err := u.leaveHA(ctx); err != nil {
					return err
				}
				return r.beginAgain(ctx, u)
			}},
		{Name: "shut down VM %d",
			Why: "a stopped guest takes every change at once",
			Do: func(ctx context.Context) error {
				if err := (power{u}).shutDown(ctx); err != nil {
					return err
				}
				return r.beginAgain(ctx, u)
			}},
		{Name: "migrate VM %d",
			Why: "before its options, since storages and bridges are those of the node that it goes to",
			Do:  func(ctx context.Context) (err error) { r.todo, err = migration{u}.migrate(ctx, r.todo); return err }},
		{Name: "move and grow disks of VM %d",
			Why: "a move writes the active value only; a pending value beside it would bring the old volume back",
			Do: func(ctx context.Context) (err error) {
				r.todo, r.shaped, err = disks{u}.shapeDisks(ctx, r.todo)
				return err
			}},
		{Name: "empty slots of VM %d",
			Why: "no volume may be in two slots of a running guest, and PVE takes one cloud-init drive only",
			Do: func(ctx context.Context) (err error) {
				r.todo, r.unplugged, err = slots{u}.emptySlots(ctx, r.todo)
				return err
			}},
		{Name: "change options of VM %d",
			Why: "one request, bound to the configuration that the change was worked out from",
			Do: func(ctx context.Context) (err error) {
				r.sent, r.unplugged, err = u.setOptions(ctx, r.todo, r.unplugged)
				return err
			}},
	}
}

func (u *update) stepsAfterTheOptions(r *results) []saga.Step {
	return []saga.Step{
		{Name: "look who else has the disks that VM %d was given",
			Why: "another operation may have looked before they were attached here",
			Do:  func(ctx context.Context) error { return slots{u}.keepBorrowed(ctx, r.todo.given()) }},
		{Name: "keep the boot order of VM %d",
			Why: "PVE adds a new optical drive to it by itself",
			Do:  func(ctx context.Context) error { return u.keepBootOrder(ctx, r.sent) }},
		{Name: "grow new disks of VM %d",
			Why: "an import takes no size, and the size of an attached volume shows in its slot",
			Do: func(ctx context.Context) error {
				late, attached, err := disks{u}.growNewDisks(ctx, r.todo, r.sent.attached)
				r.late, r.shaped.lateVolumes = late, join(r.shaped.lateVolumes, attached)
				return err
			}},
		{Name: "change the pool of VM %d",
			Why: "it depends on no other step",
			Do:  func(ctx context.Context) (err error) { r.pool, err = pooling{u}.changePool(ctx); return err }},
		{Name: "set the firewall of VM %d", Do: u.setFirewall,
			Why: "before the guest is started"},
		{Name: "start VM %d",
			Why: "with everything in force",
			Do:  func(ctx context.Context) (err error) { r.started, err = power{u}.start(ctx); return err }},
		{Name: "restart VM %d",
			Why: "for the changes that PVE leaves to the next start",
			Do: func(ctx context.Context) (err error) {
				r.restarted, err = power{u}.restart(ctx, r.sent.options)
				return err
			}},
		{Name: "destroy removed disks of VM %d",
			Why: "after the restart, since a slot without hotplug lets go only then",
			Do:  func(ctx context.Context) error { return volumes{u}.destroyRemoved(ctx, r.takeRemoved()) }},
		{Name: "move and grow disks of VM %d that waited",
			Why: "the disk of a slot without hotplug, and another aio, are in force after the restart only",
			Do: func(ctx context.Context) error {
				moved, err := disks{u}.shapeLateDisks(ctx, r.shaped.late, r.late, r.shaped.lateVolumes)
				r.addMoved(moved)
				return err
			}},
		{Name: "regenerate the cloud-init drive of VM %d",
			Why: "PVE takes the options of a running guest at once, but the drive keeps the old data",
			Do: func(ctx context.Context) error {
				return u.regenerateCloudInit(ctx, r.hasOldCloudInit(u.r.NewSnippets ||
					vm.NewNetworkData(u.r.Prior, u.r.Planned)))
			}},
		{Name: "free what disks of VM %d have moved from",
			Why: "the guest lets go of an old cloud-init drive when the new one is generated, or at a restart",
			Do: func(ctx context.Context) error {
				r.freeMoved(ctx, u)
				return nil
			}},
		{Name: "put VM %d under HA", Do: u.enterHA,
			Why: "when everything else is as planned"},
		{Name: "convert VM %d to a template",
			Why: "last: a template takes no other change",
			Do:  func(ctx context.Context) error { return u.convertToTemplate(ctx, r.todo) }},
	}
}

// takeRemoved returns the volumes that are to be destroyed, once.
func (r *results) takeRemoved() map[string]removedDisk {
	removed := r.sent.removed
	r.sent.removed = nil
	return removed
}

// hasOldCloudInit reports whether the cloud-init drive has old data: its sources have changed, and no start has written
// it again.
func (r *results) hasOldCloudInit(newSnippets bool) bool {
	return !r.started && !r.restarted && (newSnippets || r.shaped.redrawn ||
		slices.ContainsFunc(r.sent.options, vm.IsCloudInit))
}

// addMoved remembers volumes that disks have moved from.
func (r *results) addMoved(moved map[string]string) { r.shaped.moved = join(r.shaped.moved, moved) }

// join is all of two maps.
func join(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return all
}

// freeMoved frees the volumes that disks have moved from, and that cloud-init drives have left, once. That PVE has not
// freed one of a cloud-init drive needs no log: no configuration names it, and its VM is the only one that makes it.
func (r *results) freeMoved(ctx context.Context, u *update) {
	moved, ejected := r.shaped.moved, slices.Collect(maps.Values(r.sent.ejected))
	all := join(moved, r.sent.ejected)
	r.shaped.moved, r.sent.ejected = nil, nil
	volumes{u}.freeMoved(ctx, all, func(ctx context.Context, volume string) (bool, error) {
		if slices.Contains(ejected, volume) {
			return true, nil
		}
		return volumes{u}.isLeft(ctx, volume)
	})
}

// begin works out what is to be done, from the configuration that the update begins with.
func (r *results) begin(ctx context.Context, u *update) error {
	loose, err := slots{u}.adoptable(ctx)
	if err != nil {
		return err
	}
	prior, planned, err := disks{u}.withDoneMoves(ctx)
	if err == nil {
		r.todo, err = compare(u, u.before, prior, planned, loose)
	}
	if err == nil {
		err = migration{u}.checkNames(ctx, r.todo)
	}
	if err == nil {
		err = r.todo.checkCopies(u)
	}
	return err
}

// beginAgain begins with the configuration as it is now, if a step has made it stale. A guest may wait hours for its
// turn to go down, and take minutes to do so, and a third party may change the VM meanwhile.
func (r *results) beginAgain(ctx context.Context, u *update) error {
	config, err := u.view.Fresh(ctx)
	if err != nil || config.Digest == u.before.Digest {
		return err
	}
	u.before = config
	if err := stillLeft(u.r, config); err != nil {
		return err
	}
	return r.begin(ctx, u)
}

// run does the steps, and after a failed one what remains to be done.
func (u *update) run(ctx context.Context, r *results) error {
	err := r.begin(ctx, u)
	if err == nil {
		err = power{u}.notSuspended(r.todo)
	}
	if err == nil {
		err = power{u}.mayGoDown()
	}
	if err == nil && u.r.PriorHA == nil && u.r.HA != nil {
		err = u.changer.guests.CheckUnknownHA(ctx, u.vmid, u.r.HA)
	}
	if err != nil {
		return err
	}
	for _, step := range u.steps(r) {
		name := fmt.Sprintf(step.Name, u.vmid)
		u.view.Begin(name)
		within, ended := oplog.Step(ctx, name)
		err := step.Do(within)
		ended(err)
		if err != nil {
			return &saga.StepError{Step: name, Err: u.afterFailure(ctx, r, err)}
		}
	}
	return nil
}

// afterFailure ends an update after a failed step. Disks that were to change their slots go back, a running guest gets
// the cloud-init options that were set, since no later plan shows them, and leftovers of the failed task are named.
// Volumes that are to go with their drives are still destroyed: the state will not know those drives any more, so the
// plan is carried out now or never. Only an interrupted apply leaves the volumes, detached.
func (u *update) afterFailure(ctx context.Context, r *results, cause error) error {
	cause = slots{u}.putBack(ctx, r.unplugged, cause)
	late, cancel := u.changer.jobs.LookAfter(ctx)
	defer cancel()
	u.regenerateAfterFailure(late, r)
	r.freeMoved(late, u)
	volumes{u}.nameLeftovers(ctx, r.todo, cause)
	removed := r.takeRemoved()
	if ctx.Err() == nil {
		return errors.Join(cause, volumes{u}.destroyRemoved(ctx, removed))
	}
	for slot, d := range removed {
		u.warn(fmt.Sprintf("Volume %s of VM %d was not destroyed", d.volume, u.vmid),
			fmt.Sprintf("The apply was interrupted. If %s let go of it, it stays with the VM, detached.", slot))
	}
	return cause
}
