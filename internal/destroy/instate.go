package destroy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// destruction is the destroy of a VM in state. Everything that can speak against it is asked before anything is
// touched; the VM itself is then removed by a removal.
type destruction struct {
	d     *Destroyer
	r     Request
	tasks request.Tasks
	asked uint64 // when this began, or last waited: answers must be younger
	committedView

	pool  string
	use   *volumeuse.Use
	off   bool // the guest is known to be off
	acted bool // something was done since the other guests were read
	inHA  kept
	// sizedAt is when the sizes of detached disks were looked at, if nothing was done since, and sized are those disks.
	sizedAt time.Time
	sized   []string
	// copied are the nodes that may have copies of its volumes, and why.
	copied   map[string]string
	purged   []Entry  // what PVE takes the VM out of with its destroy, and that the configuration has not made
	settings []string // those of its id that go with it, of a VM that is replaced
	warnings []guest.Warning
}

// committedView is what is known of a VM in state on the server.
type committedView struct {
	resources pve.Resources
	node      string
	config    pve.PendingConfig
	seenAt    time.Time // when the configuration was read
	status    *pve.GuestStatus
	snapshots map[string]map[string]string // the options that each keeps, as last read
	// gone: there is no such VM any more. halfDestroyed: only the lock of a destroy is left of its configuration.
	gone, halfDestroyed bool
}

// step is a row of the order in which a VM in state is destroyed.
type step struct {
	why string // why it stands where it stands
	do  func(context.Context) error
}

// steps is that order. An error ends it, and so does a VM that turns out to be gone.
func (d *destruction) steps(surveyed func()) []step {
	return []step{
		{"identity and protection speak first, and one reading of the guests serves all destroys that begin together",
			func(ctx context.Context) error { defer surveyed(); return d.lookFirst(ctx) }},
		{"a refusal must leave everything as it was", refusals{d}.refuse},
		{"what holds the VM may change it, so the two looks above are repeated after a wait", lockWait{d}.unlocked},
		{"the guest takes its time, in which the privileges for the last look are asked",
			func(ctx context.Context) error {
				return together(ctx, shutdown{d}.shutDown, d.learnRights, d.learnSettings)
			}},
	}
}

// destroyInState destroys a VM in state, and returns what is left of it.
func (d *destruction) destroyInState(ctx context.Context) ([]saga.Residue, error) {
	surveyed, done := d.d.use.Begin(d.r.Ref.VMID)
	defer done()
	d.copied = map[string]string{}
	for _, step := range d.steps(surveyed) {
		if err := step.do(ctx); err != nil || d.gone {
			return nil, err
		}
	}
	return d.removeStopped(ctx)
}

// removeStopped destroys a VM that is off, and looks that nothing of it is left.
func (d *destruction) removeStopped(ctx context.Context) ([]saga.Residue, error) {
	vmid := d.r.Ref.VMID
	volumes, snapshotOnly, err := d.volumes(ctx)
	if err != nil {
		return nil, err
	}
	// before the guests are read again: a look between that and the deletion would be time for others
	reused, err := reusedSince(ctx, d, d.node, d.config.Current())
	if err != nil {
		return nil, err
	}
	volumes = slices.DeleteFunc(volumes, func(volume string) bool { return slices.Contains(reused, volume) })
	use, fresh := d.use, true
	if d.acted || isDetached(d, slices.Concat(volumes, snapshotOnly)) {
		if again := d.readUseAgain(ctx, volumes); again != nil {
			use = again
		} else {
			fresh = false
		}
	}
	b := guest.OwnBaseline(d.node, vmid, volumes)
	b.Resources = d.resources
	var r *removal
	r = d.d.newRemoval(Target{VMID: vmid, Nodes: []string{d.node}, Baseline: b, Tasks: &d.tasks,
		HalfMade: NewHalfMade("", nil),
		Pool:     d.pool, Owns: d.mine, Mark: d.d.guests.NewMark(guest.ClusterName(d.resources), vmid)},
		policy{committed: true, force: d.r.ForceStop, holder: d.r.Holder, keep: d.r.KeepReferences,
			identity: d.r.Ref.Identity,
			refuse: func(ctx context.Context, node string, now pve.PendingConfig) error {
				return changed(ctx, d, r, node, now)
			},
			reused: func(ctx context.Context, node string, config map[string]string) ([]string, error) {
				return reusedSince(ctx, d, node, config)
			}})
	r.use, r.fresh, r.off, r.known = use, fresh, d.off, d.config.Digest
	r.noteSnapshotOnly(snapshotOnly)
	if d.off { // by a task of ours that was awaited, if there was one
		for _, upid := range d.tasks.UPIDs {
			r.tasks.ended[upid] = cleanedUp
		}
	}
	err = r.run(ctx)
	if err != nil && r.lifted {
		d.protectAgain(ctx)
	}
	left, warnings, err := outcomeOf(vmid, r.notes, err)
	d.warnings = append(d.warnings, warnings...)
	for _, node := range r.leftFrom {
		d.copied[node] = wasThere
	}
	d.warnings = append(d.warnings, d.nameCopies(ctx, r, left)...)
	if r.deleted.gone {
		d.warnings = slices.Concat(d.warnings, snapshotsLeft(d.resources, vmid, d.snapshots),
			mediaLeft(vmid, d.node, d.media(r)), d.nameAlong(ctx), beingZeroed(ctx, d))
	}
	return left, err
}

// protectAgain protects a VM whose disk stays after all, as it was before. Another VM that has the VMID by then is
// left alone.
func (d *destruction) protectAgain(ctx context.Context) {
	late, cancel := d.d.jobs.LookAfter(ctx)
	defer cancel()
	now, err := d.d.api.QEMU(d.node, d.r.Ref.VMID).Config(late)
	if pve.IsKind(err, pve.NotFound) || err == nil && (!d.mine(now.Values) || now.Values["protection"] == "1") {
		return
	}
	if err == nil {
		err = d.d.api.QEMU(d.node, d.r.Ref.VMID).UpdateConfig(late, pve.Params{"protection": "1", "digest": now.Digest})
	}
	if err != nil {
		d.warnings = append(d.warnings, guest.Warning{Summary: fmt.Sprintf("VM %d may not be protected any more",
			d.r.Ref.VMID),
			Detail: fmt.Sprintf("Its protection was switched off for a destroy that failed, and could not be switched on "+
				"again: %v. `qm set %d --protection 1` on node %s does that.", err, d.r.Ref.VMID, d.node)})
	}
}

// readUseAgain reads who uses the volumes by now: the guest took its time to shut down. If that fails it is nil, and
// the removal asks.
func (d *destruction) readUseAgain(ctx context.Context, volumes []string) *volumeuse.Use {
	if len(volumes) == 0 {
		return nil
	}
	defer d.d.use.Rejoin(d.r.Ref.VMID, false)()
	d.asked = d.d.use.Ask()
	if d.d.use.Gather(ctx) != nil {
		return nil
	}
	scope, err := d.d.use.Scope(ctx, d.resources, d.node, volumes)
	if err != nil {
		return nil
	}
	use, _ := d.d.use.Since(ctx, d.asked, scope)
	return use
}

// ownVolumes are the volumes that the configuration and its pending changes name and that go with the VM.
func (d *destruction) ownVolumes() []string {
	volumes, _ := volumesToGo(d.r.Ref.VMID, d.r.knows, nil, d.config.Current(), d.config.Merged())
	return volumes
}

// volumes are those that go with the VM: of its configuration, its pending changes and its snapshots. snapshotOnly are
// others that snapshots name.
func (d *destruction) volumes(ctx context.Context) (volumes, snapshotOnly []string, err error) {
	vmid := d.r.Ref.VMID
	snapshots, err := d.d.use.Snapshots(ctx, pve.Resource{Type: "qemu", Node: d.node, VMID: vmid}, d.config)
	if err != nil && !pve.IsKind(err, pve.NotFound) {
		return nil, nil, fmt.Errorf("look which volumes the snapshots of VM %d have; it was not removed: %w", vmid, err)
	}
	d.snapshots = snapshots
	volumes, snapshotOnly = volumesToGo(vmid, d.r.knows, snapshots, d.config.Current(), d.config.Merged())
	return volumes, snapshotOnly, nil
}

// learnRights asks, while the guest shuts down, for the privileges that the last look at the volumes needs. They are
// kept; if that fails they are asked again.
func (d *destruction) learnRights(ctx context.Context) error {
	b := guest.OwnBaseline(d.node, d.r.Ref.VMID, d.ownVolumes())
	b.Resources = d.resources
	_ = b.CheckVisible(ctx, d.d.guests)
	return nil
}

// mine reports whether a configuration is still that of the VM in state.
func (d *destruction) mine(config map[string]string) bool {
	return !d.r.Ref.Identity.IsZero() && d.r.Ref.Identity.Matches(guest.IdentityOf(config))
}

// wasThere is why a node may have volumes of the VM: the copies of a replicated VM stay where it was before, and its
// job turns round (qemu-server QemuMigrate.pm phase3_cleanup, not_replicated_volumes; switch_replication_job_target).
const wasThere = "the VM was there before"

// lookFirst is the look before anything is done. It reads the other guests, which is needed anyway, and the VM last.
func (d *destruction) lookFirst(ctx context.Context) error {
	vmid := d.r.Ref.VMID
	defer d.d.use.Rejoin(vmid, true)()
	d.asked = d.d.use.Ask()
	if err := d.d.use.Gather(ctx); err != nil {
		return err
	}
	err := together(ctx, d.list,
		func(ctx context.Context) error { _, _ = d.storages(ctx, d.r.Ref.Node); return nil }, // who needs it asks again
		func(ctx context.Context) error { _, _ = d.d.use.Visible(ctx, d.asked); return nil })
	if err != nil {
		return err
	}
	listed, ok := d.resources.Guest(vmid)
	if !ok || listed.Type != "qemu" {
		return d.locate(ctx)
	}
	look := []func(context.Context) error{
		func(ctx context.Context) error {
			scope, err := likelyScope(ctx, d, listed.Node)
			if err == nil {
				d.use, err = d.others(ctx, scope)
			}
			return err
		},
	}
	if isCluster(d.resources) {
		look = append(look, func(ctx context.Context) error {
			_, err := references{d.d, d.r, d.asked}.replicationJobs(ctx)
			return err
		})
	}
	if !d.seemsToRun() {
		look = append(look, d.askStatus)
	}
	_ = together(ctx, look...) // a missing answer is asked for again where it is needed, and the reason said there
	seen, ok := d.use.Of(vmid)
	if !ok || seen.Guest.Node != listed.Node || !d.use.HasReadSince(vmid, d.asked) {
		return d.locate(ctx)
	}
	return d.take(seen.Guest.Node, seen.Config, seen.At)
}

// seemsToRun reports whether the guest runs by the listing, which learns of a start or stop late, or by the state,
// which a refresh has just confirmed. It may be believed: PVE's shutdown of a guest that is off does no harm
// (qemu-server QemuServer.pm vm_stop).
func (d *destruction) seemsToRun() bool {
	listed, _ := d.resources.Guest(d.r.Ref.VMID)
	running := string(guest.Running)
	return listed.Status == running || listed.Status == "unknown" && d.r.Ref.Status == running
}

// askStatus asks whether the guest runs.
func (d *destruction) askStatus(ctx context.Context) error {
	listed, _ := d.resources.Guest(d.r.Ref.VMID)
	status, err := d.d.api.QEMU(cmp.Or(listed.Node, d.node, d.r.Ref.Node), d.r.Ref.VMID).Status(ctx)
	if d.status = nil; err == nil {
		d.status = &status
	}
	return err
}

// likelyScope is the node whose guests alone can use the volumes that the VM had in state; "": those of all nodes can.
func likelyScope(ctx context.Context, d *destruction, node string) (string, error) {
	if len(d.r.Known) > 0 {
		return d.d.use.Scope(ctx, d.resources, node, d.r.Known)
	}
	local := func(s pve.Resource) bool { return !s.Shared && guest.HoldsImages(s) }
	if slices.ContainsFunc(d.resources.Storages(node), local) {
		return node, nil
	}
	return "", nil
}

func (d *destruction) list(ctx context.Context) error {
	resources, err := d.d.use.Listing(ctx, d.asked)
	if err != nil {
		return fmt.Errorf("list the cluster's guests: %w", err)
	}
	d.resources = resources
	return nil
}

// lookAgain looks at the VM now, wherever it is.
func (d *destruction) lookAgain(ctx context.Context) error {
	d.asked = d.d.use.Ask()
	if err := d.list(ctx); err != nil {
		return err
	}
	return d.locate(ctx)
}

func (d *destruction) locate(ctx context.Context) error {
	at, seen, err := d.d.guests.Find(ctx, d.r.Ref, d.resources)
	if d.gone = seen == guest.Gone; d.gone {
		return nil
	}
	if err != nil {
		return unlocated(d.r.Ref, d.resources, err)
	}
	return d.take(at.Node, at.Config, at.Asked)
}

// take makes sure that the VM that was found is the one in state, and that it may be destroyed.
func (d *destruction) take(node string, config pve.PendingConfig, at time.Time) error {
	if d.node != "" && d.node != node {
		d.copied[d.node] = wasThere
	}
	d.node, d.config, d.seenAt = node, config, at
	if listed, ok := d.resources.Guest(d.r.Ref.VMID); ok && listed.Pool != "" {
		d.pool = listed.Pool
	}
	current := config.Current()
	if d.halfDestroyed = guest.IsHalfDestroyed(current); d.halfDestroyed {
		return nil
	}
	return mayDestroy(d.r, node, current)
}

// proveSelf makes evidence that the VM is the one in state and, if it is to be unlocked, that no task holds it.
func (d *destruction) proveSelf(ctx context.Context, locked bool) (guard.Evidence, error) {
	return d.d.Prove(ctx, guard.Claim{Node: d.node, VMID: d.r.Ref.VMID, Guest: guard.HasIdentity(d.r.Ref.Identity),
		Lock:  locked,
		Tasks: d.tasks.UPIDs})
}
