package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Update changes a VM in place: exactly what differs between Prior and Planned is sent. On an error the guest, if it has a
// VMID, is what is true now.
func (s *Service) Update(ctx context.Context, r UpdateRequest) (Guest, []Warning, error) {
	config, err := s.api.PendingConfig(ctx, r.Ref.Node, r.Ref.VMID)
	if err != nil {
		return Guest{}, nil, fmt.Errorf("read VM %d on node %s: %w", r.Ref.VMID, r.Ref.Node, err)
	}
	if err := guard(r.Ref, r.Ref.Node, config.Current()); err != nil {
		return Guest{}, nil, err
	}
	warnings, err := s.change(ctx, r, config)
	guest, readErr := s.readBack(context.WithoutCancel(ctx), r.Ref.Node, r.Ref.VMID)
	if readErr == nil {
		readErr = s.attend(context.WithoutCancel(ctx), &guest, r.Ref.Firewall || r.Firewall != nil, r.Ref.HA || r.HA != nil)
	}
	guest.Pool = r.Pool
	if err != nil && r.Pool != r.PriorPool {
		guest.Pool = r.PriorPool
	}
	if readErr != nil {
		return Guest{}, warnings, errors.Join(err, fmt.Errorf("read VM %d back: %w", r.Ref.VMID, readErr))
	}
	return guest, warnings, err
}

func (s *Service) change(ctx context.Context, r UpdateRequest, config pve.PendingConfig) ([]Warning, error) {
	server := vm.Decode(config.Merged())
	prior, planned := onto(server, r.Prior, r.Planned)
	change := vm.Diff(vm.WithRest(prior, server), planned)
	if len(change.Problems) > 0 {
		return nil, problems("change", r.Ref.VMID, change)
	}
	l := &ledger{}
	node, vmid := r.Ref.Node, r.Ref.VMID
	if early := onExisting(change, prior); len(early.Moves)+len(early.Grow) > 0 {
		var err error
		if config, err = s.reshape(ctx, l, node, vmid, early, config); err != nil {
			return nil, err
		}
		server = vm.Decode(config.Merged())
		prior = reshaped(prior, server, early)
		change = vm.Diff(vm.WithRest(prior, server), planned)
	}
	_, convert := change.Set["template"] // by a request of its own, which converts the volumes too
	delete(change.Set, "template")
	var err error
	keepDrive(&change, config.Current())
	if config, err = s.vacate(ctx, node, vmid, &change, config); err != nil {
		return nil, err
	}
	if err := s.apply(ctx, l, node, vmid, change, config.Digest); err != nil {
		return nil, s.takeBack(ctx, node, vmid, change, config, err)
	}
	if err := s.shape(ctx, l, node, vmid, change); err != nil {
		return nil, err
	}
	if err := s.regroup(ctx, vmid, r.PriorPool, r.Pool); err != nil {
		return nil, err
	}
	if err := (wall{s, node, vmid}).change(ctx, r.PriorFirewall, r.Firewall, false); err != nil {
		return nil, err
	}
	if r.HA == nil { // else a guest that is shut down would be started again
		if err := s.changeHA(ctx, vmid, r.PriorHA, nil); err != nil {
			return nil, err
		}
	}
	warnings, err := s.switchPower(ctx, l, r)
	if err == nil && r.HA != nil {
		err = s.changeHA(ctx, vmid, r.PriorHA, r.HA)
	}
	if err != nil || !convert {
		return warnings, err
	}
	return warnings, s.convert(ctx, l, node, vmid)
}

// onto begins with the device that the server has in a slot, where a plan adds a slot that state does not know: such a
// device is configured as it is, never replaced by a new one.
func onto(server, prior, planned vm.Spec) (before, after vm.Spec) {
	before, after = prior, planned
	before.Disks, before.CDROMs, before.Networks = maps.Clone(prior.Disks), maps.Clone(prior.CDROMs), maps.Clone(prior.Networks)
	after.Disks = maps.Clone(planned.Disks)
	for slot, disk := range after.Disks {
		if has, ok := server.Disks[slot]; ok && absent(prior.Disks, slot) {
			put(&before.Disks, slot, has)
			disk.ImportFrom = nil
			after.Disks[slot] = vm.MergeDisk(has, disk)
		}
	}
	for slot := range planned.CDROMs {
		if has, ok := server.CDROMs[slot]; ok && absent(prior.CDROMs, slot) {
			put(&before.CDROMs, slot, has)
		}
	}
	after.Networks = maps.Clone(planned.Networks)
	for slot, nic := range after.Networks {
		if has, ok := server.Networks[slot]; ok && absent(prior.Networks, slot) {
			put(&before.Networks, slot, has)
			after.Networks[slot] = vm.MergeNIC(has, nic)
		}
	}
	complete(&after)
	return before, after
}

func absent[V vm.Disk | vm.CDROM | vm.NIC](devices map[string]V, slot string) bool {
	_, ok := devices[slot]
	return !ok
}

func put[V vm.Disk | vm.CDROM | vm.NIC](devices *map[string]V, slot string, device V) {
	if *devices == nil {
		*devices = map[string]V{}
	}
	(*devices)[slot] = device
}

// takeBack reverts what PVE refused at hotplug: such values stay pending on the server and would take effect at the next
// boot, long after the error. What waited before the update keeps waiting.
func (s *Service) takeBack(ctx context.Context, node string, vmid int, change vm.Change, before pve.PendingConfig, cause error) error {
	ctx = context.WithoutCancel(ctx)
	if !refusedAtHotplug(cause) {
		return cause
	}
	now, err := s.api.PendingConfig(ctx, node, vmid)
	if err != nil {
		return errors.Join(cause, err)
	}
	var revert []string
	waits := func(option string) bool {
		return slices.Contains(now.Waiting(), option) && !slices.Contains(before.Waiting(), option)
	}
	for _, option := range now.Waiting() {
		if waits(option) && refuses(cause, option) {
			revert = append(revert, option)
		}
	}
	if len(revert) == 0 {
		return cause
	}
	if _, wanted := change.Set["boot"]; !wanted && !slices.Contains(change.Delete, "boot") && waits("boot") {
		revert = append(revert, "boot") // PVE takes a drive that goes out of the boot order
	}
	if err := s.revert(ctx, node, vmid, revert); err != nil {
		return errors.Join(cause, fmt.Errorf("take back the refused changes: %w", err))
	}
	return cause
}

// refusedAtHotplug tells a refusal that PVE explains option by option: as an answer, or as the end of a task.
func refusedAtHotplug(cause error) bool {
	var refused *pve.Error
	if errors.As(cause, &refused) {
		return refused.Kind == pve.Invalid && len(refused.Params) > 0
	}
	var task *pve.TaskError
	return errors.As(cause, &task) && strings.Contains(task.ExitStatus, hotplugProblem)
}

// hotplugProblem is what PVE says behind the option's name (qemu-server QemuServer.pm, vmconfig_hotplug_pending).
const hotplugProblem = ": hotplug problem - "

// refuses reports whether a refusal is about an option.
func refuses(cause error, option string) bool {
	var refused *pve.Error
	if errors.As(cause, &refused) {
		_, ok := refused.Params[option]
		return ok
	}
	var task *pve.TaskError
	return errors.As(cause, &task) && strings.Contains(" "+task.ExitStatus, " "+option+hotplugProblem)
}

// revert drops options that wait for a restart.
func (s *Service) revert(ctx context.Context, node string, vmid int, options []string) error {
	return s.set(ctx, node, vmid, pve.Params{"revert": strings.Join(options, ",")})
}

// regroup moves a VM from one pool to another.
func (s *Service) regroup(ctx context.Context, vmid int, from, to string) error {
	if from == to {
		return nil
	}
	if from != "" {
		if err := s.api.RemoveFromPool(ctx, from, vmid); err != nil {
			return &FieldError{Path: "pool", Summary: fmt.Sprintf("Cannot take VM %d out of pool %s", vmid, from), Detail: "It is still a member", Err: err}
		}
	}
	if to != "" {
		if err := s.api.AddToPool(ctx, to, vmid); err != nil {
			return &FieldError{Path: "pool", Summary: fmt.Sprintf("Cannot put VM %d into pool %s", vmid, to), Detail: "It is in no pool now", Err: err}
		}
	}
	return nil
}

// switchPower starts or shuts down the guest where the configuration manages its power.
func (s *Service) switchPower(ctx context.Context, l *ledger, r UpdateRequest) ([]Warning, error) {
	if r.PowerState == Unmanaged {
		return nil, nil
	}
	status, err := s.api.GuestStatus(ctx, r.Ref.Node, r.Ref.VMID)
	if err != nil {
		return nil, err
	}
	switch {
	case r.PowerState == Running && status.Status != "running":
		result, err := s.start(ctx, l, r.Ref.Node, r.Ref.VMID)
		if err == nil && result.Warnings > 0 {
			return []Warning{{Summary: fmt.Sprintf("Start of VM %d ended with warnings", r.Ref.VMID), Detail: fmt.Sprint(result.Log)}}, nil
		}
		return nil, err
	case r.PowerState == Stopped && status.Status == "running":
		return nil, s.shutDown(ctx, l, r.Ref.Node, r.Ref.VMID, r.StopTimeout, false)
	}
	return nil, nil
}

// shutDown asks the guest to shut down, and stops it hard only where that is allowed.
func (s *Service) shutDown(ctx context.Context, l *ledger, node string, vmid int, timeout time.Duration, force bool) error {
	if timeout <= 0 {
		timeout = 3 * time.Minute
	}
	params := pve.Params{"timeout": strconv.Itoa(max(1, int(timeout.Seconds())))}
	if force {
		params["forceStop"] = "1"
	}
	_, err := s.perform(ctx, l, job{node: node, typ: "qmshutdown", id: vmid, done: s.isStopped(node, vmid),
		send: func(ctx context.Context) (pve.UPID, error) { return s.api.ShutdownVM(ctx, node, vmid, params) }})
	if err != nil {
		if stopped, lookErr := s.isStopped(node, vmid)(ctx); lookErr == nil && stopped {
			return nil
		}
		return fmt.Errorf("VM %d did not shut down within %s: %w", vmid, timeout, err)
	}
	return s.awaitStop(ctx, node, vmid, timeout)
}

// awaitStop waits until the guest is off. For one that HA manages, PVE only files the request: its task ends at once
// (qemu-server API2/Qemu.pm, hastop).
func (s *Service) awaitStop(ctx context.Context, node string, vmid int, timeout time.Duration) error {
	deadline := s.clock.Now().Add(timeout)
	for attempt := 0; ; attempt++ {
		if err := s.pause(ctx, attempt); err != nil {
			return fmt.Errorf("wait for VM %d on node %s to shut down: %w", vmid, node, err)
		}
		stopped, err := s.isStopped(node, vmid)(ctx)
		switch {
		case stopped:
			return nil
		case err != nil && !pve.IsKind(err, pve.Unavailable):
			return err
		case !s.clock.Now().Before(deadline):
			return fmt.Errorf("VM %d on node %s did not shut down within %s, although PVE accepted the request", vmid, node, timeout)
		}
	}
}

func (s *Service) isStopped(node string, vmid int) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		status, err := s.api.GuestStatus(ctx, node, vmid)
		return err == nil && status.Status == "stopped", err
	}
}
