package update

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/task"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// checkVolumes refuses volumes that this VM may not attach: PVE itself attaches any volume of any guest without a word
// (qemu-server API2/Qemu.pm create_disks). It does not empty a slot that a third party has filled since. loose are the
// volumes that are not in the VM's configuration but were shown to be attachable. The volume that a slot gets may be in
// it, and wait to leave: it stays if it was the VM's in state (keepPendingDisks).
func checkVolumes(u *update, config pve.PendingConfig, server, prior, planned vm.Spec, loose map[string]bool) error {
	vmid := u.vmid
	var held guest.Holdings
	for _, slot := range slices.Sorted(maps.Keys(planned.Disks)) {
		volume := planned.Disks[slot].Volume
		was, known := prior.Disks[slot]
		if volume == "" || volume == was.Volume || server.Disks[slot].Volume == volume {
			continue
		}
		if held.Slots == nil {
			held = guest.HoldingsOf(config)
		}
		refuse := func(why string) error {
			return &guest.FieldError{Path: "disks." + slot + ".imported_disk.volume",
				Summary: fmt.Sprintf("%s of VM %d cannot get volume %s", slot, vmid, volume), Detail: why}
		}
		owner, owned := volid.Owner(volume)
		if !owned && !volid.IsDevice(volume) || owner != vmid && !loose[volume] && held.SlotOf(volume) == "" {
			return refuse("A VM attaches only volumes that carry its own id, disks of proxmox_disk, and devices of its node")
		}
		stays := held.Slots[slot] == volume && slices.Contains(u.r.Detached, volume)
		if other := held.Slots[slot]; other != "" && !known && !stays {
			return refuse("The slot is not empty: " + other + " is in it, which this configuration has not put there")
		}
		if _, unused := held.Unused[volume]; !unused && held.SlotOf(volume) == "" && !loose[volume] {
			return refuse("The VM has no such volume; detached it has " + listed(slices.Sorted(maps.Keys(held.Unused))))
		}
	}
	return nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// unusedEntry is the unusedN option that holds a detached volume, "" if none does.
func unusedEntry(config map[string]string, volume string) string {
	for _, option := range slices.Sorted(maps.Keys(config)) {
		if vm.IsUnused(option) && guest.VolumeOf(config[option]) == volume {
			return option
		}
	}
	return ""
}

// arrived are the volumes of disks after their moves, by slot. A detached volume on the target that the configuration
// did not have before may be the one that was moved, and another disk in the slot by then. PVE makes an unusedN of the
// disk that leaves a slot (qemu-server QemuServer.pm vmconfig_register_unused_drive). It may also be a volume that
// `qm disk rescan` has found. The log of the move tells; where it does not, the slot has "".
func (d disks) arrived(ctx context.Context, now, before pve.PendingConfig, moves []vm.Move) map[string]string {
	all := map[string]string{}
	for _, m := range moves {
		has, others := guest.VolumeOf(now.Current()[m.Slot]), newOn(now, before, m.Storage)
		isNew := volid.Storage(has) == m.Storage && !guest.Uses(before.Current(), has) && !guest.Uses(before.Merged(), has)
		if all[m.Slot] = ""; isNew && len(others) == 0 {
			all[m.Slot] = has
			continue
		}
		if len(others) == 0 {
			continue
		}
		made := d.copiesOf(ctx, m)
		for _, volume := range append(others, has) {
			isIt := func(one string) bool { return volid.Same(one, volume) } // a template's have another name
			if slices.ContainsFunc(made, isIt) {
				all[m.Slot] = volume
			}
		}
	}
	return all
}

// newOn are the detached volumes on a storage that the configuration did not have before.
func newOn(now, before pve.PendingConfig, storage string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(guest.HoldingsOf(now).Unused)), func(volume string) bool {
		return volid.Storage(volume) != storage || guest.Uses(before.Current(), volume) ||
			guest.Uses(before.Merged(), volume)
	})
}

// copiesOf are the volumes that the log of a disk's last move says it has made; none if it cannot be read.
func (d disks) copiesOf(ctx context.Context, m vm.Move) []string {
	for _, upid := range slices.Backward(d.view.Tasks.UPIDs) {
		if upid.Type() != "qmmove" {
			continue
		}
		log, err := d.changer.api.Tasks().Log(ctx, upid, wholeLog)
		if err != nil {
			return nil
		}
		if made := task.CopiesOf(log, m.Slot, m.Storage); len(made) > 0 {
			return made
		}
	}
	return nil
}

// wholeLog is more lines than the log of a move has, one for each second. It names the new volume at its beginning.
const wholeLog = 50_000

// stillMoved refuses to go on with slots whose disk a third party has exchanged since it was moved: that request may
// have waited for the end of the move. It also returns the volumes that the disks have now.
func (d disks) stillMoved(ctx context.Context, before pve.PendingConfig, moves []vm.Move) (map[string]string, error) {
	now, err := d.view.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	all := d.arrived(ctx, now, before, moves)
	for _, m := range moves {
		others, has := newOn(now, before, m.Storage), guest.VolumeOf(now.Current()[m.Slot])
		volume := all[m.Slot]
		if len(others) == 0 || has != "" && volume == has {
			continue
		}
		refusal := &guest.FieldError{Path: slotAttribute(m.Slot, d.r.Planned),
			Summary: fmt.Sprintf("%s of VM %d has another disk than the one that was moved", m.Slot, d.vmid),
			Detail: fmt.Sprintf("PVE has moved it to storage %s, and a third party has put another disk into the slot since, "+
				"which was not touched. %s is detached (%s), and stays with the VM. Make a new plan, which shows what is there",
				m.Storage, volume, unusedEntry(now.Current(), volume))}
		if volume == "" {
			refusal.Summary = fmt.Sprintf("%s of VM %d may have another disk than the one that was moved", m.Slot, d.vmid)
			refusal.Detail = fmt.Sprintf("PVE has moved it to storage %s. The slot has %q now, and %s has become detached "+
				"there since. The log of the move does not tell which of them it has made. Neither was touched. Make a new "+
				"plan, which shows what is there", m.Storage, has, listed(others))
		}
		return all, refusal
	}
	return all, nil
}

// ownDisks are those that the guest runs with, or gets at its next start.
func (p power) ownDisks(ctx context.Context) ([]string, error) {
	config, err := p.view.Known(ctx)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(guest.DisksToRun(config.Current()), guest.DisksToRun(config.Merged()))
	slices.Sort(all)
	return slices.Compact(all), nil
}

// ran is a guest as it ran before its restart.
type ran struct {
	pve.GuestStatus

	began  time.Time        // when it was last seen to run: the restart began after that
	disks  []string         // with which it ran
	beside []guard.Neighbor // that share them
	looked bool             // they were seen while it ran

	sent    []string // the options that the update has sent
	removed []string // what becomes of the disks that the restart takes from it by a third party's doing
}

// restarting is the guest as it runs before its restart.
func (p power) restarting(status pve.GuestStatus) ran {
	return ran{GuestStatus: status, began: p.changer.clock.Now(), disks: guest.DisksToRun(p.before.Current())}
}

// isRunning reports whether the guest still runs as before.
func (r ran) isRunning(now pve.GuestStatus) bool {
	return now.IsRunning() && !isAnother(r.GuestStatus, now)
}

// restarts are the guests that this run has restarted, or is about to, each with the disks with which it ran before. Of
// two that share a disk each may be down, or have just begun to run, when the other is looked at.
type restarts struct {
	mu    sync.Mutex
	disks map[int][]string // by VMID
}

func (r *restarts) note(vmid int, disks []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.disks == nil {
		r.disks = map[int][]string{}
	}
	r.disks[vmid] = disks
}

func (r *restarts) ranWith(vmid int, disk string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.disks[vmid], disk)
}

// lookBeside looks for guests that run with a disk of this one, or with one that it gets at its next start, and then
// for the guest itself. If it runs, they share its disks with it. Once it is off, a guest that has run longer may have
// got the disk since, so that counts only if there was no look before. Those that cannot be seen are left out.
func (p power) lookBeside(ctx context.Context, before *ran) ([]guard.Neighbor, pve.GuestStatus, error) {
	grace, cancel := p.changer.jobs.Grace(ctx)
	defer cancel()
	var all []guard.Neighbor
	if volumes, err := p.ownDisks(grace); err == nil {
		all, _ = guard.Neighbors(grace, p.changer.destroyer.Guard, p.view.Node(), p.vmid, volumes)
	}
	since := pve.Elapsed(before.began, p.changer.clock.Now())
	now, err := p.lookAgain(ctx)
	switch {
	case before.isRunning(now):
		before.beside, before.looked = all, true
	case !before.looked:
		before.beside = slices.DeleteFunc(slices.Clone(all), func(n guard.Neighbor) bool { return n.Uptime <= since })
	}
	return all, now, err
}

// getsDisks reports whether a guest gets a disk at its next start with which it does not run.
func getsDisks(config pve.PendingConfig) bool {
	has := guest.DisksToRun(config.Current())
	return slices.ContainsFunc(guest.DisksToRun(config.Merged()), func(disk string) bool {
		return !slices.Contains(has, disk)
	})
}

// mayReboot is the look before each try of a restart. PVE starts the guest again without asking (qemu-server
// QemuServer.pm vm_start_nolock), so one that gets a disk is not restarted while another guest runs with that. Before
// each further try it looks whether the guest has been restarted meanwhile, which afterReboot finds too, and whether
// the restart takes a disk of the plan by then.
func (p power) mayReboot(before *ran, due []string) func(context.Context) error {
	tried := false
	return func(ctx context.Context) (err error) {
		var all []guard.Neighbor
		var kept *guest.FieldError
		status := before.GuestStatus
		if tried {
			if status, err = p.lookAgain(ctx); err == nil && before.isRunning(status) {
				before.removed, kept = p.removedBeside(p.view.Last(), due, before.sent)
			}
		}
		tried = true
		if err == nil && getsDisks(p.view.Last()) {
			all, status, err = p.lookBeside(ctx, before)
		}
		switch {
		case err != nil:
			return err
		case isAnother(before.GuestStatus, status):
			return errObeyed
		case kept != nil:
			return kept
		}
		return guard.Unknown(all, p.knows(*before))
	}
}

// knows returns which guests have run with a disk of this one while it ran itself: they share it on purpose, and a
// refusal of the start would leave this one off. So would one for a guest that is suspended to disk with it.
func (p power) knows(before ran) func(guard.Neighbor) bool {
	return func(n guard.Neighbor) bool {
		isSame := func(seen guard.Neighbor) bool { return seen.VMID == n.VMID && seen.Volume == n.Volume }
		return slices.Contains(before.disks, n.Volume) && (n.Suspended || slices.ContainsFunc(before.beside, isSame) ||
			p.changer.restarts.ranWith(n.VMID, n.As))
	}
}

// noteSizes makes PVE note the size of disks that it had no need to grow: the volume had its size already, since an
// earlier growth was cut off after it, or it was grown on its node, or the option was written by hand without it. Then
// resize ends well and writes nothing (qemu-server API2/Qemu.pm resize_vm, "return if $size == $newsize"), and each
// plan would grow the disk again. PVE asks the storage for the size when a slot gets its own value again
// (create_disks). before has the volume of each slot.
func (d disks) noteSizes(ctx context.Context, before pve.PendingConfig, grown []vm.Growth) error {
	if len(grown) == 0 {
		return nil
	}
	config, err := d.view.Fresh(ctx)
	if err != nil {
		return err
	}
	current, was, unnoted := config.Current(), before.Current(), pve.Params{}
	has := vm.Decode(current).Disks
	for _, g := range grown {
		is, size := has[g.Slot], has[g.Slot].Size
		if is.Volume == guest.VolumeOf(was[g.Slot]) && (size == nil || *size < g.Size) {
			unnoted[g.Slot] = vm.Resized(current[g.Slot], g.Size)
		}
	}
	if len(unnoted) == 0 {
		return nil
	}
	slots := strings.Join(slices.Sorted(maps.Keys(unnoted)), ", ")
	if err := d.view.Set(ctx, unnoted); err != nil {
		return fmt.Errorf("have PVE note the size of %s: %w", slots, err)
	}
	if cmp.Or(d.view.LastStatus, d.r.Ref.Status) == string(guest.Running) {
		d.warn(fmt.Sprintf("The guest of VM %d may not see the new size of %s before its restart", d.vmid, slots),
			"The volume had that size already: an earlier growth was cut off, or the volume was grown on its node. PVE does "+
				"not tell a running guest of such a size. A reboot through PVE, or a stop and start, shows it")
	}
	return nil
}
