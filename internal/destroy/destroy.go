// Package destroy removes VMs and their volumes until nothing of them is left: a VM in state, a create that is rolled
// back, and the VM of a dead create. It acts only on what is proven to be ours, looks again before each act, and
// names what it could not remove.
package destroy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Destroyer removes the VMs of one cluster. Through its guard it can also free what a VM that stays no longer needs.
type Destroyer struct {
	*guard.Guard
	*volumeuse.Loans
	api    *pve.Client
	clock  pve.Clock
	jobs   *request.Runner
	guests *guest.Guests
	// Destroys that run at the same time share the answers to these questions.
	use         *volumeuse.Reader
	replication *request.Shared[[]pve.ReplicationJob]
	backups     *request.Shared[[]pve.BackupJob]
	rules       *request.Shared[[]pve.HARule]
	storages    *request.SharedBy[string, []pve.Storage] // by node
	told        sync.Map                                 // jobs and rules whose removal was told
	archives    request.Recent[[]pve.Volume]             // the backups on a storage of a node
}

// New makes a Destroyer. shell may be nil: no SSH. exclusive are the shared storages that no other cluster uses.
func New(jobs *request.Runner, guests *guest.Guests, shell guard.Shell, exclusive ...string) *Destroyer {
	order := &request.Order{}
	use := volumeuse.New(jobs, order)
	jobs.Written = use.Wrote
	return &Destroyer{Guard: guard.New(jobs, guests, use, shell, exclusive), Loans: volumeuse.NewLoans(use),
		api: jobs.API, clock: jobs.Clock, jobs: jobs,
		guests: guests,
		use:    use, replication: request.NewSharedIn[[]pve.ReplicationJob](order),
		backups:  request.NewSharedIn[[]pve.BackupJob](order),
		rules:    request.NewSharedIn[[]pve.HARule](order),
		storages: request.NewSharedBy[string, []pve.Storage](order)}
}

// Request destroys a VM, or retries what an earlier create or delete has left.
type Request struct {
	Ref  guest.Ref      // with the Proof that the create returned, if it failed
	Left []saga.Residue // remembered leftovers
	Disks
	Pool string // the VM's, as state knows it
	// ForceStop has PVE stop the guest hard if it does not shut down in StopTimeout (zero: three minutes), and a paused
	// guest at once. GracefulOnly forbids a hard stop. With neither, a guest that does not obey is stopped hard, with a
	// warning.
	ForceStop, GracefulOnly bool

	StopTimeout time.Duration
	// KeepReferences leaves the VM's entries in backup and replication jobs and in HA; PVE refuses to destroy a VM that
	// HA or a replication job names (qemu-server API2/Qemu.pm destroy_vm).
	KeepReferences bool
	// OwnHA: the configuration has made the VM's HA entry.
	OwnHA bool
	// OwnRules are HA rules that Terraform has in state: the plan names none of them.
	OwnRules map[string]bool
	// Foretold is all that the plan has named; without snapshots, it has not read them.
	Foretold Along
	// OwnFirewall: the state has the VM's firewall.
	OwnFirewall bool
	// Replaced: a new VM takes its place.
	Replaced bool
	// Holder: the VM holds a disk for others (vm.HolderText). Its protection, which is ours, is lifted right before it is
	// destroyed; and all guests must be visible, since its volume is there to be attached to others.
	Holder bool
}

// Delete destroys a VM and looks that nothing of it is left, whatever PVE says. A VM that is gone already is a
// success. Leftovers are returned with the error, to be kept in state.
func (d *Destroyer) Delete(ctx context.Context, r Request) ([]saga.Residue, []guest.Warning, error) {
	r.Disks = withLeft(r.Disks, r.Left)
	defer d.guests.Leaving.Begin(r.Ref.VMID)()
	defer d.guests.Occupy(r.Ref.VMID)()     // volumes with the VMID are ours until the last look
	if d.guests.Completed.Has(r.Ref.VMID) { // with create_before_destroy, which makes the new VM of the failed one
		return nil, []guest.Warning{{Summary: fmt.Sprintf("VM %d stays", r.Ref.VMID),
			Detail: "A create that had failed was completed by this apply, so the VM is the one that replaces it."}}, nil
	}
	d.guests.Destroyed.Note(r.Ref.VMID)
	remove := d.deleteInState
	if r.Ref.Proof != nil {
		remove = d.deleteUncommitted
	}
	left, warnings, err := remove(ctx, r)
	for i := range left { // a volume that was not seen as it was noted
		left[i].Size = cmp.Or(left[i].Size, r.Sizes[left[i].ID])
	}
	if err != nil {
		return merge(r.Left, left), warnings, err
	}
	remembered, err := d.clear(ctx, r)
	return remembered, warnings, err
}

// withLeft adds remembered leftovers to the disks that state knows, with their sizes: a name may come free between plan
// and apply, and be another disk's.
func withLeft(d Disks, left []saga.Residue) Disks {
	d.Known, d.Sizes = slices.Clip(d.Known), maps.Clone(d.Sizes)
	if d.Sizes == nil {
		d.Sizes = map[string]int64{}
	}
	for _, leftover := range left {
		d.Known = append(d.Known, leftover.ID)
		d.Sizes[leftover.ID] = cmp.Or(d.Sizes[leftover.ID], leftover.Size)
	}
	return d
}

func (d *Destroyer) deleteInState(ctx context.Context, r Request) ([]saga.Residue, []guest.Warning, error) {
	all := &destruction{d: d, r: r, pool: r.Pool}
	left, err := all.destroyInState(ctx)
	if err != nil {
		putBack := all.inHA.putBack(ctx, all)
		all.warnings = append(all.warnings, nameAsItStands(ctx, all, err)...)
		err = errors.Join(err, putBack)
	}
	// A plan may be made for one cluster and applied to another.
	if err == nil && all.gone && !d.guests.HasTrace(ctx, r.Ref.VMID) {
		all.warnings = append(all.warnings, notInCluster(r.Ref.VMID))
	}
	return left, all.warnings, err
}

// nameAsItStands warns of a VM that stands after all: its guest was asked to shut down, or HA ignores it since before.
// HA starts a guest again whose entry says so by now, unless a third party has removed that. After its own stop it sets
// the entry to stopped, within its next round (pve-ha-manager HA/Manager.pm next_state_started). A guest that did not
// obey in its time has an error of its own.
func nameAsItStands(ctx context.Context, d *destruction, err error) (warnings []guest.Warning) {
	vmid, ha := d.r.Ref.VMID, d.inHA.state
	asked := slices.ContainsFunc(d.tasks.UPIDs, func(upid pve.UPID) bool {
		return upid.Type() == "hastop" ||
			ha != "started" && slices.Contains([]string{"qmshutdown", "qmstop"}, upid.Type())
	})
	ignored := ha == "ignored" && !d.r.OwnHA
	if !asked && !ignored {
		return nil
	}
	late, cancel := d.d.jobs.LookAfter(ctx)
	defer cancel()
	node, lookErr := d.standing(late)
	if lookErr != nil {
		return nil
	}
	if ignored {
		warnings = append(warnings, guest.IgnoredByHA(vmid))
	}
	status, lookErr := d.d.api.QEMU(node, vmid).Status(late)
	disobeys := status.IsRunning() && pve.IsKind(err, pve.Busy) && ctx.Err() == nil
	if !asked || disobeys {
		return warnings
	}
	is := "is off"
	switch {
	case lookErr != nil:
		is = "may be off"
	case status.IsRunning():
		is = "still runs, and may go off"
	}
	return append(warnings, guest.Warning{Summary: fmt.Sprintf("VM %d was asked to shut down", vmid),
		Detail: fmt.Sprintf("The destroy did that, and has not removed the VM. Its guest %s: `%s` on node %s starts it "+
			"again.", is, shell.VM("qm start {vmid}", vmid), node)})
}

// notInCluster is the warning of a destroy that has found nothing of a VM, not even a task.
func notInCluster(vmid int) guest.Warning {
	return guest.Warning{Summary: fmt.Sprintf("VM %d is not in this cluster", vmid),
		Detail: "No task of this cluster names its id either. Nothing was destroyed, and Terraform forgets the VM. If the " +
			"endpoint is that of another cluster, whose nodes may have the same names, the VM still stands in its own: with " +
			"the right endpoint an import takes it back into the state."}
}

// deleteUncommitted goes on with the roll-back of a create that left something, under the proof that the create had.
func (d *Destroyer) deleteUncommitted(ctx context.Context, r Request) ([]saga.Residue, []guest.Warning, error) {
	targets := targetsOf(r.Ref.Proof, d.guests.MarkOf(r.Ref.Proof), r.Left)
	if r.Slots != nil { // else the state has what was planned
		for i := range targets {
			targets[i].InState = &r.Disks
		}
	}
	used := &useSince{d: d, r: r}
	for i := range targets {
		targets[i].InUse = used.why
	}
	notes, err := d.RemoveAll(ctx, targets)
	if used.left != nil && err == nil {
		return used.left, nil, &saga.LeftError{Left: used.left}
	}
	return outcomeOf(r.Ref.VMID, notes, err)
}

// outcomeOf turns the notes of a removal into warnings, and its error into leftovers.
func outcomeOf(vmid int, notes []Note, err error) ([]saga.Residue, []guest.Warning, error) {
	var warnings []guest.Warning
	for _, note := range notes {
		warnings = append(warnings, guest.Warning{Summary: fmt.Sprintf("Destroy of VM %d", vmid), Detail: note.Text})
	}
	var left *saga.LeftError
	if errors.As(err, &left) {
		return left.Left, warnings, err
	}
	return nil, warnings, err
}

// targetsOf are the leftovers of a create, to go on where its own roll-back gave up. The volumes that the create is
// known to have made are those that are left.
func targetsOf(p *guest.Proof, mark ownership.Mark, left []saga.Residue) []Target {
	tasks := &request.Tasks{}
	for _, upid := range p.Tasks {
		tasks.Add(pve.UPID(upid))
	}
	for _, upid := range p.Guessed {
		tasks.Guess(pve.UPID(upid))
	}
	var all []Target
	halfMade, made := NewHalfMade(p.HalfMade, tasks.UPIDs), NewMade("", nil, nil, nil)
	for _, leftover := range left {
		if leftover.Kind == "volume" {
			known := fact{proof: byLog, size: leftover.Size, createdAt: leftover.CreatedAt}
			made.facts[place{leftover.Node, leftover.ID}] = known
		}
	}
	for _, b := range p.RestoreBaselines() {
		t := Target{VMID: p.VMID, Nodes: p.Nodes, Baseline: b, Tasks: tasks, HalfMade: halfMade, Mark: mark,
			Owns: p.Knows, MayOwn: p.MayKnow, Managed: p.HA, Pool: p.Pool, Made: made,
			Protected: p.Protected, Stood: len(p.Tasks) == 0}
		if p.Lost {
			t.Lost = &request.Lost{}
		}
		all = append(all, t)
	}
	if !p.Identity.IsZero() { // the VM is where it ended up
		slices.Reverse(all)
	}
	return all
}

// liftProtection switches off the protection of a VM that holds a disk.
func (r *removal) liftProtection(ctx context.Context, f *facts) (outcome, error) {
	e, err := r.prove(ctx, r.whole(f.node))
	if err != nil {
		return nextPass, refusal(r.VMID, err)
	}
	r.lifted = true
	return nextPass, r.d.Unprotect(ctx, e)
}

// nameAlong warns of all that went with a VM and that the plan has not named. Of a replacement by -replace Terraform
// shows no warning of the plan, and to that of a tainted VM no state.
func (d *destruction) nameAlong(ctx context.Context) []guest.Warning {
	named := d.r.Foretold.Lines(nil)
	went := Along{Purged: references{d.d, d.r, 0}.settle(ctx, d.purged), Settings: d.settings}
	if d.r.Foretold.Snapshots == nil {
		went.Snapshots = map[string]int64{}
		for name := range d.snapshots {
			went.Snapshots[name] = 0
		}
	}
	lines := slices.DeleteFunc(went.Lines(nil), func(line string) bool { return slices.Contains(named, line) })
	if len(lines) == 0 {
		return nil
	}
	next := ""
	if slices.ContainsFunc(lines, func(line string) bool { return slices.Contains(d.settings, line) }) {
		next = "\nThe VM that takes its place has the settings that its configuration or its source gives it. Set the " +
			"others again, or put the firewall into the configuration."
	}
	return []guest.Warning{{Summary: fmt.Sprintf("VM %d went with more than its disks", d.r.Ref.VMID),
		Detail: "PVE removed these with it, or took it out of them:\n  " + strings.Join(lines, "\n  ") + next}}
}

// snapshotsLeft warns of the snapshots that stay on disks of another id, such as that of a proxmox_disk. PVE removes
// a snapshot from all disks (pve-guest-common AbstractConfig.pm snapshot_delete). But with a VM it frees only the
// volumes that carry its id, and nothing names the snapshots of the others any more (qemu-server QemuServer.pm
// destroy_vm).
//
// The printed command does nothing where the disk was destroyed, too: there is no file of its VM. That is on the node
// of the disk's VM, which may be another one where the storage is shared.
func snapshotsLeft(resources pve.Resources, vmid int, snapshots map[string]map[string]string) []guest.Warning {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(snapshots)) {
		for _, slot := range vm.Slots(snapshots[name]) {
			value := snapshots[name][slot]
			volume := guest.VolumeOf(value)
			owner, owned := volid.Owner(volume)
			if !owned || owner == vmid || vm.IsOptical(value) {
				continue
			}
			line := fmt.Sprintf("  %s of %s", name, volume)
			if holder, ok := resources.Guest(owner); ok {
				line += fmt.Sprintf(", on node %s: %s", holder.Node,
					shell.Or(shell.DropSnapshot(holder.Node, owner, name, volume), shell.ByHand))
			}
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return []guest.Warning{{Summary: fmt.Sprintf("Snapshots that VM %d had are left on disks of others", vmid),
		Detail: "They go with that disk if it is destroyed, too. If it stays, they take up space, and their names are " +
			"taken for it. Each with its command, where the VM of the disk is seen:\n" + strings.Join(lines, "\n") +
			"\nDeleting a VM's snapshots before the VM leaves none."}}
}

// RemoveVolumes removes volumes whose VMID no guest has. Settings of others for the VMID stay.
func (d *Destroyer) RemoveVolumes(ctx context.Context, t Target) error {
	return d.newRemoval(t, policy{alone: true}).run(ctx)
}

// together does several things at the same time. It returns the error of the first that failed, in the order given.
func together(ctx context.Context, all ...func(context.Context) error) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, do := range all {
		group.Go(func() { errs[i] = do(ctx) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
