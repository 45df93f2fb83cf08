package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// RollBack takes a VM back to a snapshot.
type RollBack struct {
	guest.Choice
	Name string
	// Taken is when the snapshot must have been taken; zero: whenever.
	Taken int64
	// Start starts the guest afterwards. Where the snapshot has its memory PVE does so in any case.
	Start bool
}

// Do takes the VM back. Before that it logs what is lost by it.
func (s *Snapshots) Do(ctx context.Context, r RollBack) ([]guest.Warning, error) {
	at, err := s.guests.Pick(ctx, r.Choice)
	if err != nil {
		return nil, err
	}
	config := at.Config.Current()
	if config["template"] == "1" {
		return nil, guest.IsTemplate(r.VMID)
	}
	all, err := s.api.QEMU(at.Node, r.VMID).Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(found pve.Snapshot) bool { return found.Name == r.Name })
	if err := r.refuse(at.Node, all, i); err != nil {
		return nil, err
	}
	options, err := s.api.QEMU(at.Node, r.VMID).SnapshotConfig(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	status, err := s.api.QEMU(at.Node, r.VMID).Status(ctx)
	if err == nil {
		err = s.isNewest(ctx, r, at.Node, younger(all, r.Name), options)
	}
	if err != nil {
		return nil, err
	}
	for _, line := range append(r.consequences(all[i], config, options, status), dropped(at.Config, options)...) {
		s.jobs.Tell(ctx, line)
	}
	result, err := s.guard.Snapshots().RollBackTo(ctx, r.claim(all[i], at), r.Start)
	if err != nil {
		if fault.HasForeignSnapshot(err) {
			return nil, r.keptByForeign(at.Node, err)
		}
		if fault.IsNotNewest(err) { // PVE looks before it does anything (AbstractConfig.pm snapshot_rollback)
			return nil, r.notNewest(at.Node, younger(all, r.Name), err)
		}
		return nil, s.explain(ctx, r, all[i], at.Node, err)
	}
	s.jobs.Tell(ctx, fmt.Sprintf("VM %d is as it was at %s", r.VMID, moment(all[i].Taken)))
	var warnings []guest.Warning
	if result.Warnings > 0 {
		summary := fmt.Sprintf("The roll-back of VM %d ended with warnings", r.VMID)
		warnings = append(warnings, guest.Warning{Summary: summary, Detail: strings.Join(result.Log, "\n")})
	}
	if r.Start {
		warnings = append(warnings, s.awaitStart(ctx, r.VMID, at.Node)...)
	}
	return warnings, nil
}

// younger are the names of the snapshots that were taken after one, on its line.
func younger(all []pve.Snapshot, name string) (names []string) {
	line := []string{name}
	for i := 0; i < len(line); i++ {
		for _, next := range all {
			if next.Parent == line[i] && !slices.Contains(line, next.Name) {
				line, names = append(line, next.Name), append(names, next.Name)
			}
		}
	}
	return names
}

// isNewest refuses a snapshot of a disk on ZFS that has a younger one: ZFS goes back to the newest alone (pve-storage
// ZFSPoolPlugin.pm volume_rollback_is_possible, also for ZFS over iSCSI). Of other storages PVE tells.
func (s *Snapshots) isNewest(ctx context.Context, r RollBack, node string, later []string,
	options map[string]string) error {
	if len(later) == 0 {
		return nil
	}
	resources, _, err := s.api.Listing().Recent(ctx)
	if err != nil {
		return err
	}
	disks := vm.Decode(options).EveryDisk()
	maps.DeleteFunc(disks, func(_ string, disk vm.Disk) bool {
		at, ok := resources.Storage(node, volid.Storage(disk.Volume))
		return !ok || at.PluginType != "zfspool" && at.PluginType != "zfs"
	})
	if len(disks) == 0 {
		return nil
	}
	configs, err := s.guests.SnapshotConfigs(ctx, node, r.VMID, later)
	if err != nil {
		return err
	}
	var inTheWay []string
	for i, config := range configs {
		for _, disk := range disks {
			if guest.Uses(config, disk.Volume) && !slices.Contains(inTheWay, later[i]) {
				inTheWay = append(inTheWay, later[i])
			}
		}
	}
	if len(inTheWay) > 0 {
		return r.notNewest(node, inTheWay, nil)
	}
	return nil
}

// notNewest is the error for a disk that goes back to its newest snapshot alone.
func (r RollBack) notNewest(node string, later []string, cause error) error {
	which := "younger snapshots"
	if len(later) > 0 {
		which += " (" + strings.Join(later, ", ") + ")"
	}
	return &guest.FieldError{Path: "name",
		Summary: fmt.Sprintf("VM %d on node %s cannot be taken back past %s", r.VMID, node, which),
		Detail: fmt.Sprintf("A storage of its disks takes a disk back to its newest snapshot only. Nothing was done. Next "+
			"step: remove the snapshots that came after %s, if what they keep is not needed, or take the VM back to the "+
			"newest one", r.Name), Err: cause}
}

// keptByForeign is the error for a disk on ZFS with a younger snapshot that PVE does not know: isNewest has found none
// of PVE's, and PVE itself removes those of its replication (pve-guest-common AbstractConfig.pm snapshot_rollback).
func (r RollBack) keptByForeign(node string, cause error) error {
	return &guest.FieldError{Path: "name", Err: cause,
		Summary: fmt.Sprintf("VM %d on node %s cannot be taken back past a snapshot of ZFS", r.VMID, node),
		Detail: fmt.Sprintf("ZFS takes a disk back to its newest snapshot only, and PVE has no younger one of the disk: "+
			"zfs itself or a program such as sanoid has made it. Nothing was done. Next step: `zfs list -t snapshot -s "+
			"creation` on node %s, or on the server of a pool over iSCSI, names it behind that of %s. Remove it with zfs "+
			"destroy, if what it keeps is not needed", node, r.Name)}
}

// startTime is how long to wait for a guest that PVE starts after a roll-back.
const startTime = time.Minute

// awaitStart warns of a guest that does not run in the end. Its start is a task of its own, which the task of the
// roll-back does not await (qemu-server API2/Qemu.pm rollback).
func (s *Snapshots) awaitStart(ctx context.Context, vmid int, node string) []guest.Warning {
	end := s.jobs.Clock.Now().Add(startTime)
	for attempt := 0; ; attempt++ {
		err := s.jobs.Pause(ctx, attempt)
		if err == nil {
			var status pve.GuestStatus
			if status, err = s.api.QEMU(node, vmid).Status(ctx); err == nil && status.IsRunning() {
				return nil
			}
		}
		switch {
		case err != nil && (ctx.Err() != nil || !pve.IsKind(err, pve.Unavailable)):
			return []guest.Warning{{Summary: fmt.Sprintf("Whether VM %d runs is not known", vmid),
				Detail: fmt.Sprintf("It was rolled back and is to be started by PVE, but could not be looked at: %v", err)}}
		case !s.jobs.Clock.Now().Before(end):
			return []guest.Warning{{Summary: fmt.Sprintf("VM %d does not run", vmid),
				Detail: fmt.Sprintf("It was rolled back, and did not run %s later. PVE starts it in a task of its own (qmstart), "+
					"whose log says why", startTime)}}
		}
	}
}

// refuse is why the VM cannot be taken back to the i-th of its snapshots, or to none.
func (r RollBack) refuse(node string, all []pve.Snapshot, i int) error {
	switch {
	case i < 0:
		var names []string
		for _, one := range all {
			names = append(names, one.Name)
		}
		detail := "It has none at all"
		if len(names) > 0 {
			detail = "It has " + strings.Join(names, ", ")
		}
		return &guest.FieldError{Path: "name", Summary: fmt.Sprintf("VM %d on node %s has no snapshot %s", r.VMID, node,
			r.Name), Detail: detail}
	case r.Taken != 0 && all[i].Taken != r.Taken:
		return &guest.FieldError{Path: "snaptime", Summary: fmt.Sprintf("Snapshot %s of VM %d is another one", r.Name,
			r.VMID),
			Detail: fmt.Sprintf("It was taken at %s, not at %s. Nothing was done", moment(all[i].Taken), moment(r.Taken))}
	case all[i].State != "":
		return &guest.FieldError{Path: "name", Summary: fmt.Sprintf("Snapshot %s of VM %d is not whole", r.Name, r.VMID),
			Detail: fmt.Sprintf("A task is at work on it, or has died (snapstate %s). Nothing was done", all[i].State)}
	}
	return nil
}

// consequences says what a roll-back takes back. It tells no values: there may be secrets among them. PVE keeps each
// volume as unused that no drive of the snapshot has, of any slot (qemu-server QemuConfig.pm
// __snapshot_rollback_get_unused).
func (r RollBack) consequences(to pve.Snapshot, config, options map[string]string, status pve.GuestStatus) []string {
	lines := []string{fmt.Sprintf("Everything that VM %d has written to its disks since %s is lost", r.VMID,
		moment(to.Taken))}
	switch {
	case status.IsRunning() && to.Memory:
		lines = append(lines, "The guest is cut off, and goes on where it was then")
	case status.IsRunning() && !r.Start && status.HAManaged:
		lines = append(lines, "The guest is cut off, and HA starts it again where its HA entry has the state \"started\"")
	case status.IsRunning() && !r.Start:
		lines = append(lines, "The guest is cut off, and stays off")
	case status.IsRunning():
		lines = append(lines, "The guest is cut off, and started again")
	case to.Memory:
		lines = append(lines, "The guest is started, where it was then")
	}
	if status.IsRunning() && status.HAManaged { // pve-ha-manager HA/LRM.pm exec_resource_agent, handle_service_exitcode
		lines = append(lines, "HA tries to start the guest during the roll-back, too, which PVE refuses. If that lasts, "+
			"HA may give the guest the state \"error\", and leaves it alone until its HA entry is set to \"disabled\" once")
	}
	after := vm.Decode(options).EveryDisk()
	var changed, detached []string
	for _, option := range differing(config, options) {
		volume := guest.VolumeOf(config[option])
		_, was := vm.Decode(map[string]string{option: config[option]}).EveryDisk()[option]
		isDetached := was && vm.SlotOf(after, volume) == ""
		if isDetached {
			detached = append(detached, fmt.Sprintf("%s (%s)", option, volume))
		}
		if _, is := options[option]; is || !isDetached {
			changed = append(changed, option)
		}
	}
	if len(changed) > 0 {
		lines = append(lines, "Options that change: "+strings.Join(changed, ", "))
	}
	if len(detached) > 0 {
		lines = append(lines, "Disks that came later are detached and kept as unusedN: "+strings.Join(detached, ", "))
	}
	return lines
}

// dropped says which changes a roll-back drops that wait for a restart, and which volumes only they name: they stay on
// their storages, and the VM has them no more (AbstractConfig.pm __snapshot_apply_config).
func dropped(config pve.PendingConfig, options map[string]string) []string {
	waiting := config.Waiting()
	if len(waiting) == 0 {
		return nil
	}
	slices.Sort(waiting)
	lines := []string{"Changes that wait for a restart are dropped: " + strings.Join(waiting, ", ")}
	var loose []string
	merged := config.Merged()
	for _, slot := range vm.Slots(merged) {
		volume := guest.VolumeOf(merged[slot])
		if volid.Valid(volume) && !guest.Uses(config.Current(), volume) && !guest.Uses(options, volume) {
			loose = append(loose, volume)
		}
	}
	if len(loose) > 0 {
		lines = append(lines, "Volumes that only they name stay on their storages, and the VM has them no more: "+
			strings.Join(loose, ", "))
	}
	return lines
}

// differing are the options that a roll-back changes, sorted. The description and detached volumes stay
// (AbstractConfig.pm __snapshot_apply_config), and a snapshot's own entries are no options.
func differing(config, options map[string]string) []string {
	changes := map[string]bool{}
	for _, pair := range [][2]map[string]string{{config, options}, {options, config}} {
		for option, value := range pair[0] {
			changes[option] = changes[option] || pair[1][option] != value
		}
	}
	own := []string{"description", "digest", "lock", "parent", "snaptime", "snapstate", "vmstate", "runningmachine",
		"runningcpu"}
	var all []string
	for option, changed := range changes {
		if changed && !slices.Contains(own, option) && !vm.IsUnused(option) {
			all = append(all, option)
		}
	}
	slices.Sort(all)
	return all
}

// claim is the user's claim on the VM and on the snapshot that was read.
func (r RollBack) claim(to pve.Snapshot, at guest.Location) guard.SnapshotClaim {
	seen := guest.Ref{VMID: r.VMID, Node: at.Node, Identity: guest.IdentityOf(at.Config.Current())}
	return guard.SnapshotClaim{Node: at.Node, VMID: r.VMID, Name: r.Name, Tasks: &request.Tasks{},
		Guest: func(config pve.GuestConfig) error { return guest.Guard(seen, at.Node, config.Values) },
		Owns: func(options map[string]string) error {
			if options["snaptime"] != fmt.Sprint(to.Taken) {
				return fmt.Errorf("%w: another one has its name. Nothing was done", guard.ErrNoSnapshot)
			}
			return nil
		}}
}

// explain adds the state of the VM to the error of a roll-back. A task that fails in the middle leaves the VM locked,
// with some of its disks taken back and its options not. The start from saved memory comes last, when the lock is gone
// (AbstractConfig.pm snapshot_rollback).
func (s *Snapshots) explain(ctx context.Context, r RollBack, to pve.Snapshot, node string, err error) error {
	look, cancel := s.jobs.LookAfter(ctx)
	defer cancel()
	config, lookErr := s.api.QEMU(node, r.VMID).Config(look)
	var ended *pve.TaskError
	switch {
	case lookErr != nil:
		return fmt.Errorf("%w. Where VM %d stands could not be looked at: %w", err, r.VMID, lookErr)
	case config.Values["lock"] == "rollback":
		return fmt.Errorf("%w. VM %d on node %s is locked (rollback), and stands between then and now: some of its disks "+
			"may be as they were at the snapshot, and its options are not. If no task is at work on it, `qm unlock %d` as "+
			"root on node %s, and roll it back again",
			err, r.VMID, node, r.VMID, node)
	case to.Memory && errors.As(err, &ended) && config.Values["parent"] == to.Name && config.Values["lock"] == "":
		return fmt.Errorf("%w. VM %d on node %s is not locked: either nothing was taken back, or everything was, and "+
			"only its guest could "+
			"not be started from the memory that was saved. The action \"start\" of proxmox_vm_power boots it then", err, r.VMID,
			node)
	}
	return err
}
