package destroy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// view is what a look at the VMID has shown: the configuration that has it, and the verdict on that.
type view struct {
	verdict
	node   string
	config pve.GuestConfig
	// answered: the look could tell who has the VMID. hidden: a guest has it that this identity may not see, so the
	// volumes may be that guest's.
	answered, hidden bool
	beside           []string // volumes of ours that a VM in use does not name, such as the copies of a clone that died
}

// standing reports whether there is a configuration that is ours, or may be.
func (v view) standing() bool { return v.owner == guest.Ours || v.unsure }

// at is the node of a configuration that is ours, or may be; "" if there is none.
func (v view) at() string {
	if v.standing() {
		return v.node
	}
	return ""
}

// has is the configuration that is ours, or may be; nil if there is none.
func (v view) has() map[string]string {
	if v.standing() {
		return v.config.Values
	}
	return nil
}

// facts are what a pass decides by. They end with it.
type facts struct {
	view
	left []string // volumes of ours that are there
	// lastDestroy is our last destroy task, "" if there was none.
	lastDestroy pve.UPID
	// adopted are volumes that PVE may have adopted into the VM. They were not checked yet.
	adopted []string
	spared  bool // a third party protects the VM that a create has not committed
	// power is what PVE says of the guest; nil if it was not asked.
	power *pve.GuestStatus
	// attached: the volumes that the configuration does not name were attached to it.
	attached bool
}

// lock is a lock on the configuration that something has to be done about. A guest that is suspended to disk goes as
// it is.
func (f facts) lock() string {
	if lock := f.config.Values["lock"]; lock != suspended {
		return lock
	}
	return ""
}

func (f facts) isProtected() bool { return f.config.Values["protection"] == "1" }

// look finds the guest, and the volumes of ours that are there. Volumes that a VM of ours names go with it, so they
// are listed only once it is gone. When a third party has the VMID they stay what they were before it came.
func (r *removal) look(ctx context.Context) (facts, error) {
	err := r.lookAtAll(ctx)
	f := facts{view: r.view, left: r.left, lastDestroy: r.tasks.lastDestroy()}
	if r.view.owner == guest.Ours {
		f.adopted = adopted(r, r.view.config.Values)
		f.spared = spares(r, f.config.Values)
	}
	return f, err
}

func (r *removal) lookAtAll(ctx context.Context) error {
	find := func(ctx context.Context) error { return r.find(ctx, r.how) }
	if r.deleted.gone {
		var volumes []string
		var listErr error
		err := together(ctx, find, func(ctx context.Context) error { volumes, listErr = r.listOwn(ctx, nil); return nil })
		if err != nil || r.view.owner == guest.ThirdParty || listErr != nil {
			return errors.Join(err, listErr)
		}
		r.left = volumes
		return nil
	}
	if err := r.findKnown(ctx, find); err != nil {
		return err
	}
	if r.committed && r.view.answered && r.view.owner != guest.Ours && r.tasks.lastDestroy() == "" {
		noteGone(r, func(string) bool { return true }) // a third party has destroyed it
	}
	if r.view.inUse != "" { // what is beside it is to be named
		volumes, err := r.listOwn(ctx, r.view.config.Values)
		r.left = volumes
		return err
	}
	if r.view.owner == guest.ThirdParty {
		if r.deleted.config == nil { // another user has destroyed ours, and its volumes with it
			r.Made.forgetNamed()
		}
		return nil
	}
	if err := dropReused(ctx, r); err != nil {
		return err
	}
	if r.committed && r.view.owner == guest.Ours && !hasUnnamed(r.Baseline, r.view.config.Values) {
		r.left = slices.Sorted(maps.Keys(r.Baseline.Named))
		return nil
	}
	if err := updateMade(ctx, r); err != nil {
		return err
	}
	volumes, err := r.listOwn(ctx, r.view.has())
	if r.left = volumes; err != nil {
		r.left = nil
	}
	return err
}

// updateMade has what the look shows tell of the volumes that the create has made.
func updateMade(ctx context.Context, r *removal) error {
	switch {
	case r.view.owner == guest.Ours && r.InState == nil:
		return r.Made.Correct(ctx, r.d.api.Reader(), r.Tasks.UPIDs)
	case r.view.owner == guest.NoGuest && r.tasks.lastDestroy() == "":
		r.Made.forgetNamed()
	}
	return nil
}

// dropReused takes detached volumes that are not the known ones any more out of those that go with a committed VM. One
// that this removal itself has attached is ours.
func dropReused(ctx context.Context, r *removal) error {
	if r.reused == nil || r.view.owner != guest.Ours {
		return nil
	}
	reused, err := r.reused(ctx, r.view.node, r.view.config.Values)
	for _, volume := range reused {
		if !r.of(volume).own {
			r.Baseline.Disown(volume)
		}
	}
	return err
}

// reusedSince are the detached volumes that are not the known ones any more, if that was not looked at just now. The
// configuration may not tell: it is as before where a third party has removed one and imported another, which gets the
// name (qemu-server QemuServer/ImportDisk.pm do_import).
func reusedSince(ctx context.Context, d *destruction, node string, configs ...map[string]string) ([]string, error) {
	now, detached := d.d.clock.Now(), d.r.detached(d.r.Ref.VMID, configs...)
	isNew := func(volume string) bool { return !slices.Contains(d.sized, volume) }
	if pve.Elapsed(d.sizedAt, now) <= guard.UseLife && !slices.ContainsFunc(detached, isNew) {
		return nil, nil
	}
	reused, err := d.r.reused(ctx, d.d, node, d.r.Ref.VMID, detached)
	if err == nil {
		d.sizedAt, d.sized = now, detached
	}
	return reused, err
}

// find reads the configuration that has the VMID, and judges it.
func (r *removal) find(ctx context.Context, how ending) error {
	r.view = view{verdict: verdict{ambiguous: r.view.ambiguous}}
	r.askedAt = r.d.clock.Now()
	seesAll := r.use != nil && r.use.Unseen == nil
	if !r.deleted.gone || !seesAll { // else the listing tells that it is gone, for all who ask
		for _, node := range r.Nodes {
			config, err := r.d.api.QEMU(node, r.VMID).Config(ctx)
			// PVE refuses an identity that may not read a VM before it looks for the VM.
			if pve.IsKind(err, pve.NotFound) || pve.IsKind(err, pve.Denied) {
				continue
			}
			if err != nil {
				return err
			}
			if r.view, err = r.recognize(node, config, how); err == nil {
				err = leaveInUse(ctx, r, false)
			}
			return err
		}
		free, err := r.d.api.Cluster().IsFreeID(ctx, r.VMID)
		if err != nil || free {
			r.view.answered = err == nil
			return err
		}
	}
	return r.findListed(ctx, how, seesAll)
}

// isOthers reports whether a guest that this identity may not see is another's, since ours is proved to be gone. PVE
// puts a VM into its pool last (qemu-server API2/Qemu.pm create_vm, clone_vm), and an administrator may move it to
// another one. So an identity that has its privileges by the pool may not see its own VM.
func isOthers(r *removal) bool {
	switch {
	case r.deleted.gone || r.alone:
		return true
	case r.committed || r.Stood || r.Lost != nil || !r.seen.at.IsZero() || r.tasks.made || r.tasks.lastDestroy() != "":
		return false
	}
	return r.tasks.worst() <= volumesStay
}

// findListed looks for the VMID on other nodes: the VM may have been migrated meanwhile, or a third party may have
// taken the VMID on another node, with volumes on shared storages that look like ours.
func (r *removal) findListed(ctx context.Context, how ending, seesAll bool) error {
	resources, err := r.d.use.Listing(ctx, r.d.use.Ask())
	if err != nil {
		return err
	}
	listed, ok := resources.Guest(r.VMID)
	switch {
	case !ok && r.deleted.gone && seesAll:
		r.view.answered = true
		return nil
	case !ok:
		r.view.hidden = true
		return fmt.Errorf("a guest has VMID %d that this identity may not see (VM.Audit on /vms/%d)", r.VMID, r.VMID)
	case listed.Type != "qemu":
		r.view = view{node: listed.Node, verdict: verdict{owner: guest.ThirdParty}, answered: true}
		return nil
	}
	config, err := r.d.api.QEMU(listed.Node, r.VMID).Config(ctx)
	if err == nil {
		r.view, err = r.recognize(listed.Node, config, how)
	}
	if err == nil {
		err = leaveInUse(ctx, r, false)
	}
	return err
}

// recognize judges a configuration, and remembers what that shows of our VM.
func (r *removal) recognize(node string, config pve.GuestConfig, how ending) (view, error) {
	forgetSeen(r)
	known := r.isKnown(config.Values, r.seen.identity)
	v := view{verdict: r.judge(config, how, &r.memory), node: node, config: config}
	if v.unsure {
		return v, r.doubt(v.verdict, node, config.Values["lock"])
	}
	noteGap(r, config.Values)
	v.answered = true
	if v.owner != guest.Ours {
		return v, nil
	}
	if v.marked {
		r.forgetHalfMade()
	}
	if !known || r.Mark.Proves(r.VMID, config.Values) {
		r.seen = lastSeen{guest.IdentityOf(config.Values), r.askedAt}
	}
	if r.deleted.config == nil { // else it is our empty VM, which says nothing of the disks that outlived theirs
		r.Made.Saw(node, r.VMID, config.Values, unknownDisks(r, config.Values)...)
	}
	return v, nil
}

// forgetSeen forgets the identity of an uncommitted VM whose mark was not seen for so long that another run may have
// taken the VM over, and completed it.
func forgetSeen(r *removal) {
	if pve.Elapsed(r.seen.at, r.d.clock.Now()) >= guest.Lease {
		r.seen.identity = guest.Identity{}
	}
}

// forgetHalfMade is called once our configuration bears our mark.
func (r *removal) forgetHalfMade() {
	r.tasks.justKilled = false
	r.HalfMade.forget()
}

// listOwn lists the volumes of ours that are there now, with an error those that could be listed. Other new volumes are
// remembered, to be named. has is the configuration of a VM of ours, nil for none.
func (r *removal) listOwn(ctx context.Context, has map[string]string) ([]string, error) {
	found, listErr := r.Baseline.OwnVolumes(ctx, r.d.guests)
	found, err := withoutReborn(ctx, r, found)
	if err != nil {
		r.Baseline.Away = slices.Clone(r.Baseline.Storages) // the listing tells nothing then
		return nil, errors.Join(listErr, err)
	}
	if r.Made != nil {
		r.remember(r.Made.readDestroyed(ctx, r.d.api, r.deleted, found, r.Baseline))
		if len(r.Made.rest(r.Baseline, found)) > 0 {
			r.Made.readMakers(ctx, r.d.api, r.tasks, found, r.Baseline)
		}
		if listErr == nil { // else another one may fit, too
			r.Made.addUnderWay(r.Baseline, found)
		}
		if err := noteCopies(ctx, r); err != nil {
			return nil, err
		}
		slots := disksIn(r.VMID, has, func(_, _ string) bool { return true })
		isOurs := func(v pve.Volume) bool {
			f := r.Made.of(r.Baseline, v.ID)
			isIt := f.isIt(v) || slices.Contains(slots, v.ID) && f.fits(v)
			return (f.proof > freed || r.of(v.ID).copied) && isIt
		}
		inSlots := unknownDisks(r, has)
		r.unproven = idsOf(slices.DeleteFunc(slices.Clone(found), func(v pve.Volume) bool {
			return isOurs(v) || slices.Contains(inSlots, v.ID)
		}))
		found = slices.DeleteFunc(found, func(v pve.Volume) bool { return !isOurs(v) })
	}
	for _, v := range found {
		r.of(v.ID).volume = v
	}
	return idsOf(found), listErr
}

// checkVisible finds out on which storages the identity can see volumes without a VM.
func (r *removal) checkVisible(ctx context.Context) {
	var err error
	for attempt := range 3 {
		if r.d.jobs.Pause(ctx, attempt) != nil {
			break
		}
		if err = r.Baseline.CheckVisible(ctx, r.d.guests); err == nil {
			return
		}
	}
	if err != nil {
		for _, storage := range r.Baseline.Storages {
			r.Baseline.Unlisted[storage] = err
		}
		r.Baseline.Storages = nil
	}
}

// storages are those of a node.
func (d *destruction) storages(ctx context.Context, node string) ([]pve.Storage, error) {
	return d.d.storages.Since(ctx, node, d.asked, func(ctx context.Context) ([]pve.Storage, error) {
		return d.d.api.Node(node).Storages(ctx, "")
	})
}

// isCluster reports whether there may be HA and replication.
func isCluster(resources pve.Resources) bool { return len(resources.Nodes()) > 1 }
