package provision

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

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

// start starts a VM. One that runs already is what was wanted.
func (s *Service) start(ctx context.Context, l *ledger, node string, vmid int) (pve.TaskResult, error) {
	result, err := s.perform(ctx, l, job{node: node, typ: "qmstart", id: vmid, done: s.isRunning(node, vmid),
		send: func(ctx context.Context) (pve.UPID, error) { return s.api.StartVM(ctx, node, vmid, pve.Params{}) }})
	if err != nil && ctx.Err() == nil {
		if running, lookErr := s.isRunning(node, vmid)(ctx); lookErr == nil && running && strings.Contains(err.Error(), "already running") {
			return result, nil
		}
	}
	return result, err
}

func (s *Service) isRunning(node string, vmid int) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		status, err := s.api.GuestStatus(ctx, node, vmid)
		return status.Status == "running", err
	}
}
