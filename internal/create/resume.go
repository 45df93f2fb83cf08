package create

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// keyOf is the idempotency key of a create: a digest of everything that was asked for. Passwords are not part of it,
// since it can be read where descriptions can; neither is how long to wait.
func (c *Creator) keyOf(r Request) string {
	r.Spec.CloudInit.PasswordHash = nil
	text, err := json.Marshal(r)
	if err != nil {
		return guest.NoKey // a create without a key is never continued
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// takeOver makes the VM that a dead run of this create has left this run's. The volumes that its configuration names
// are ours, all others with its VMID are not. A guest that was started, or a VM that is complete, may be in use by now:
// only what this run makes itself is its to take back.
func (c *Creator) takeOver(ctx context.Context, p plan, found findings, dead guard.Unowned,
	started bool) (*attempt, error) {
	vmid, at, looked := dead.Listed.VMID, dead.Listed.Node, c.jobs.Clock.Now() // whyNotCompleted; TakeOver may wait
	nodes := []string{at}
	if slices.Contains(p.r.Nodes, at) { // any of these will do
		p.node = at
	}
	if at != p.node {
		nodes = append(nodes, p.node)
	}
	p.vmid, p.baselines = vmid, nil
	for _, node := range nodes {
		b, err := c.guests.BaselineOf(ctx, found.resources, node, vmid, dead.Config)
		if err != nil {
			return nil, err
		}
		p.baselines = append(p.baselines, b)
	}
	mark, err := c.destroyer.TakeOver(ctx, dead)
	if err != nil {
		return nil, err
	}
	a := c.attempt(p, found)
	a.resumed, a.mark, a.beside.firewall = true, mark, a.r.Firewall != nil
	a.first = firstWrite{sent: true, done: true, uuid: mark.UUID, alone: looked}
	a.made = destroy.NewMade(at, guest.OwnVolumes(vmid, dead.Config), wanted(p.r, p.from, vmid), p.unloggedSlots())
	a.view = c.guests.ViewUnread(a, at, vmid)
	a.unprotected = p.from != nil && p.from.config["protection"] == "1" && dead.Config["protection"] != "1"
	switch {
	case started:
		a.stays = fmt.Sprintf("The guest of VM %d was started before this run went on with it, and may be in use. So "+
			"nothing was taken back", vmid)
	case isWhole(a, dead.Config):
		a.stays = fmt.Sprintf("VM %d was complete before this run went on with it, and may be in use. So nothing was "+
			"taken back", vmid)
	}
	a.warnings = append(a.warnings, guest.Warning{
		Summary: fmt.Sprintf("VM %d was begun by a run that did not end, and is completed now", vmid),
		Detail: fmt.Sprintf("A run of this create (transaction %s) has left it on node %s. Its steps were done as far as "+
			"they were missing", dead.Mark.Saga, at)})
	return a, nil
}

// isWhole reports whether a VM that is not to be started lacks nothing but its commit.
func isWhole(a *attempt, config map[string]string) bool {
	final := a.finalOptions()
	whole := maps.Clone(config)
	maps.Copy(whole, final.Set)
	for _, option := range final.Delete {
		delete(whole, option)
	}
	return !a.r.Start && a.isMade(whole)
}

// notMade are the volumes of a dead run's VM that this create has not made: unused disks, which a rescan has found
// (qemu-server QemuServer.pm update_disk_config), disks in slots that neither the configuration nor the source has, and
// disks in slots that only a later task of the create fills, unless one says that it has, and disks in slots that are
// to hold another guest's disk (borrows). A third party has put them there, mostly with a request that leaves no task.
// Others are those that it may have by name alone since it moved. A removal or a roll-back would destroy them. A
// cloud-init drive is generated from the VM's own options, and the create chooses its slot.
func notMade(ctx context.Context, c *Creator, p plan, u unfinished, v ownership.Verdict) ([]string, error) {
	wanted, first := vm.Encode(p.spec), p.filledAtFirst()
	if p.from == nil && v.Whole { // then its log tells of each disk (qemu-server API2/Qemu.pm create_disks)
		first = nil
	}
	others, later := map[string]string{}, map[string]string{}
	for option, value := range u.config {
		volume, want := guest.VolumeOf(value), wanted[option]
		switch {
		case !vm.IsSlot(option), borrows(want, u.listed.VMID),
			want == "" && first[option] == "" && !volid.IsCloudInit(volume):
			others[option] = value
		case first[option] == "" && !(vm.ImportsPath(option, want) && volid.Storage(want) == volid.Storage(volume)):
			later[option] = value // root imports a path without a task
		}
	}
	unmade, err := destroy.Unmade(ctx, c.api.Reader(), v.Work, u.listed.VMID, later)
	if err != nil {
		return nil, err
	}
	astray, err := guest.MadeElsewhere(ctx, c.guests, v.Work, u.listed.Node, u.listed.VMID, u.config)
	all := slices.Concat(guest.OwnVolumes(u.listed.VMID, others), unmade, astray)
	slices.Sort(all)
	return slices.Compact(all), err
}

// foreign are the slots of an uncommitted VM with a volume of another guest, and the volumes: a third party has
// attached them, with a request that leaves no task. The create puts one there only if its configuration names it, or
// if the VM that it copies has it, such as a medium (qemu-server API2/Qemu.pm clone_vm). A start uses such a disk, a
// growth and a conversion to a template change it: neither asks whose it is (QemuServer.pm template_create).
func (p plan) foreign(vmid int, config map[string]string) []string {
	wanted, copied := vm.Encode(p.spec), map[string]string{}
	if p.from != nil {
		copied = p.copied()
	}
	var all []string
	for _, slot := range vm.Slots(config) {
		volume := guest.VolumeOf(config[slot])
		owner, owned := volid.Owner(volume)
		isPut := volume == guest.VolumeOf(wanted[slot]) || volume == guest.VolumeOf(copied[slot])
		if owned && owner != vmid && !isPut {
			all = append(all, slot+": "+volume)
		}
	}
	return all
}

// borrows tells whether a VM is to hold the disk of another guest in a slot, such as that of a proxmox_disk. No task of
// the create makes a disk there: one of the VM's own id has that disk's data, which a third party has moved or copied.
func borrows(want string, vmid int) bool {
	owner, owned := volid.Owner(guest.VolumeOf(want))
	return owned && owner != vmid
}

// filledAtFirst are the options with the slots into which the task that makes the VM puts disks.
func (p plan) filledAtFirst() map[string]string {
	if p.from == nil {
		first := vm.Encode(p.spec)
		maps.DeleteFunc(first, vm.ImportsPath) // root imports these after it
		return first
	}
	first := maps.Clone(p.copied())
	maps.DeleteFunc(first, func(_, value string) bool { return vm.IsOptical(value) }) // no disk
	return first
}

// copied is the configuration that a copy has: of a snapshot what that has (qemu-server API2/Qemu.pm clone_vm).
func (p plan) copied() map[string]string {
	if p.from.snapshot != nil {
		return p.from.snapshot
	}
	return p.from.config
}

// unloggedSlots are those that the create fills without a later task whose log tells: those of the first task, and of
// root's imports.
func (p plan) unloggedSlots() []string {
	wanted := vm.Encode(p.spec)
	slots := append([]string{}, vm.Slots(p.filledAtFirst())...) // never nil, which would mean any slot
	for slot, value := range wanted {
		if vm.ImportsPath(slot, value) {
			slots = append(slots, slot)
		}
	}
	return slices.DeleteFunc(slots, func(slot string) bool { // a copy is there first, and gives way to the borrowed disk
		return p.from == nil && borrows(wanted[slot], p.vmid)
	})
}

// whyNotOurs is why a dead run's VM stays, whether it would be completed or removed: it has volumes that this create
// has not made, or a user works with it. "" where nothing shows that.
func whyNotOurs(ctx context.Context, c *Creator, p plan, u unfinished, v ownership.Verdict) string {
	if others := p.foreign(u.listed.VMID, u.config); len(others) > 0 {
		return fmt.Sprintf("it has volumes of other guests that this create has not put there (%s): a third party has "+
			"attached them. Detach them, and the next apply goes on with this one", strings.Join(others, ", "))
	}
	switch others, err := notMade(ctx, c, p, u, v); {
	case err != nil:
		return fmt.Sprintf("whether its create has made all its disks cannot be told: %v", err)
	case len(others) > 0:
		return fmt.Sprintf("it has volumes that this create has not made (%s): a rescan or a third party has given "+
			"them to it, or its source had them when it was cloned. Give them to another VM (in PVE's interface: "+
			"Hardware, Disk Action, Reassign Owner), and the next apply goes on with this one", strings.Join(others, ", "))
	}
	return worksWith(p, u.config, nil)
}

// whyNotCompleted is why a dead run's VM stays as it is: its source is another one by now, by PVE's tasks (remade), by
// the uuid that the mark names, or by the time of creation that a clone has from it; or a third party has one of its
// disks. "" where nothing is in the way.
func (c *Creator) whyNotCompleted(ctx context.Context, p plan, dead guard.Unowned, remade bool) (string, error) {
	vmid, node := dead.Listed.VMID, dead.Listed.Node
	if p.r.Clone != nil && (remade || p.from.isAnotherThan(dead) || dead.Config["meta"] != p.copied()["meta"]) {
		return fmt.Sprintf("it is a clone of another VM than the source of this create, which is VM %d now: a template "+
			"was made again since, and the disks are those of the old one", p.from.vmid), nil
	}
	var used *guard.InUseError
	switch err := c.destroyer.CheckUncommitted(ctx, node, dead.Mark); {
	case errors.As(err, &used):
		return fmt.Sprintf("%v, which has got it since. Once no other guest has it, the next apply completes this VM",
			used), nil
	case pve.IsKind(err, pve.NotFound), errors.Is(err, guard.ErrNotOurs):
		return "", guard.Changed(vmid, node)
	case err != nil:
		return fmt.Sprintf("whether another guest uses its disks cannot be told: %v", err), ctx.Err()
	}
	return "", nil
}

// resumption is an attempt whose VM a run that is dead has begun.
type resumption struct{ *attempt }

// resume begins where the dead run may have come: the steps that follow converge, so that is the second step.
func (a resumption) resume(ctx context.Context) error {
	config, err := a.view.Fresh(ctx)
	if err != nil {
		return err
	}
	if adopted := destroy.Adopted(a.vmid, config.Current()); len(adopted) > 0 {
		return adoptedByRescan(adopted)
	}
	a.cloudInit = a.r.Spec.CloudInit.Storage != ""
	return nil
}

// missing is what a VM that another run began still lacks. Disks that only root may import come in a step of their own.
// A guest that runs has been started with its password, which PVE does not show.
func (a resumption) missing(ctx context.Context, change vm.Change) (vm.Change, error) {
	for option := range a.late.Set {
		delete(change.Set, option)
	}
	if change.Set["cipassword"] == "" {
		return change, nil
	}
	status, err := a.view.Status(ctx)
	if err == nil && status.IsRunning() {
		delete(change.Set, "cipassword")
	}
	return change, err
}

// isRunning reports whether the guest is started already: by the run that began it, or before it was moved.
func (a resumption) isRunning(ctx context.Context) (bool, error) {
	if !a.resumed && !a.moved {
		return false, nil
	}
	status, err := a.view.Status(ctx)
	return status.IsRunning(), err
}

// isHeldByOthers reports whether the lock of a dead run's VM is that of a bystander, such as a backup.
func (u unfinished) isHeldByOthers() bool {
	lock := u.config["lock"]
	return lock != "" && lock != request.Suspended && !guest.IsOwnLock(lock)
}

// awaitLock waits while a task of others has a dead run's VM. Then that is to be judged once more.
func awaitLock(ctx context.Context, c *Creator, r Request, u unfinished) error {
	node, vmid := u.listed.Node, u.listed.VMID
	q := c.jobs.Queue(node, vmid)
	for lock := u.config["lock"]; lock != ""; {
		cause := request.LockedBy(lock, fmt.Sprintf("go on with VM %d on node %s", vmid, node))
		if err := q.Wait(ctx, cause); err != nil {
			return deadError(r, u.mark, fmt.Sprintf("VM %d cannot be completed while it is locked", vmid), err)
		}
		now, err := c.api.QEMU(node, vmid).Config(ctx)
		if err != nil && !pve.IsKind(err, pve.NotFound) { // it has moved, or is gone
			return fmt.Errorf("see whether VM %d on node %s is still locked (%s): %w", vmid, node, lock, err)
		}
		lock = now.Values["lock"]
	}
	return guard.Changed(vmid, node)
}

// deadError is the error about the VM of a dead run. It is on the vmid if the user has chosen that.
func deadError(r Request, mark ownership.Mark, summary string, err error) error {
	path := "vmid"
	if r.VMID == 0 {
		path = ""
	}
	return &guest.FieldError{Path: path, Summary: summary, Err: err,
		Detail: fmt.Sprintf("Transaction %s of this provider was making it, and its run is over", mark.Saga)}
}

// removeDead removes what a dead create has left that cannot be continued: the task that made it failed, or its
// roll-back was begun.
func (c *Creator) removeDead(ctx context.Context, r Request, dead guard.Unowned) error {
	select { // one after the other: several here may have found it
	case c.taking <- struct{}{}:
		defer func() { <-c.taking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c.guests.Destroyed.Note(dead.Listed.VMID)
	if _, err := c.destroyer.RemoveDead(ctx, dead); err != nil {
		return deadError(r, dead.Mark,
			fmt.Sprintf("Cannot remove what a dead create left of VM %d", dead.Listed.VMID), err)
	}
	return nil
}
