package provision

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// awake refuses to change the options of a guest that is suspended to disk, since PVE takes none then. One that is to run is
// resumed by its start.
func (u *update) awake() error {
	if u.config.Current()["lock"] != "suspended" || len(u.change.Set)+len(u.change.Delete)+len(u.change.DeleteFirst)+len(u.change.Moves)+len(u.change.Grow) == 0 {
		return nil
	}
	return fmt.Errorf("VM %d is suspended to disk, and PVE changes nothing on it until it runs again. Nothing was changed; resume it with `qm resume %d` on node %s, "+
		"or drop its saved memory by removing the option vmstate in PVE, then apply", u.vmid, u.vmid, u.node)
}

// powerOff shuts the guest down where the configuration wants it off.
func (u *update) powerOff(ctx context.Context) error {
	if u.r.PowerState != Stopped {
		return nil
	}
	status, err := u.s.api.GuestStatus(ctx, u.node, u.vmid)
	if err != nil || status.Status != "running" {
		return err
	}
	if status.QMPStatus == "paused" {
		return &FieldError{Path: "power_state", Summary: fmt.Sprintf("VM %d is paused", u.vmid),
			Detail: fmt.Sprintf("A paused guest hears no request to shut down. Resume it with `qm resume %d` on node %s, or stop it yourself, then apply", u.vmid, u.node)}
	}
	if err := u.s.shutDown(ctx, &u.ledger, u.node, u.vmid, stopTime(u.r.StopTimeout)); err != nil {
		if ctx.Err() != nil || pve.IsKind(err, pve.Locked) || pve.IsKind(err, pve.Denied) || pve.IsKind(err, pve.Unavailable) {
			return err
		}
		return &FieldError{Path: "power_state", Summary: fmt.Sprintf("VM %d was not shut down", u.vmid),
			Detail: fmt.Sprintf("It runs on. Shut it down from inside, give it a guest agent or ACPI, or more time with shutdown_timeout, then apply. "+
				"`qm stop %d` on node %s would cut it off", u.vmid, u.node), Err: err}
	}
	if u.stale = len(u.config.Waiting()) > 0; u.stale { // they are in force now
		return u.look(ctx)
	}
	return nil
}

// powerOn starts the guest where the configuration wants it to run. One that was paused is resumed.
func (u *update) powerOn(ctx context.Context) error {
	if u.r.PowerState != Running {
		return nil
	}
	status, err := u.s.api.GuestStatus(ctx, u.node, u.vmid)
	switch {
	case err != nil:
		return err
	case status.Status == "running" && status.QMPStatus == "paused":
		_, err := u.s.perform(ctx, &u.ledger, job{node: u.node, typ: "qmresume", id: u.vmid,
			send: func(ctx context.Context) (pve.UPID, error) { return u.s.api.ResumeVM(ctx, u.node, u.vmid) }})
		return err
	case status.Status == "running":
		return nil
	}
	u.stale, u.booted = true, true
	result, err := u.s.start(ctx, &u.ledger, u.node, u.vmid)
	if result.Warnings > 0 {
		u.warn(fmt.Sprintf("Start of VM %d ended with warnings", u.vmid), strings.Join(result.Log, "\n"))
	}
	return err
}

// stopTime is how long a guest has to shut down: what the request says, else three minutes.
func stopTime(configured time.Duration) time.Duration {
	if configured <= 0 {
		return 3 * time.Minute
	}
	return configured
}

// within is a time limit as PVE takes it, in whole seconds.
func within(limit time.Duration) pve.Params {
	return pve.Params{"timeout": strconv.Itoa(max(1, int(limit.Seconds())))}
}

// shutDown asks the guest to shut down. It never stops it hard.
func (s *Service) shutDown(ctx context.Context, l *ledger, node string, vmid int, timeout time.Duration) error {
	params := within(timeout)
	_, err := s.perform(ctx, l, job{node: node, typ: "qmshutdown", id: vmid, done: s.isStopped(node, vmid),
		send: func(ctx context.Context) (pve.UPID, error) { return s.api.ShutdownVM(ctx, node, vmid, params) }})
	if err != nil {
		if stopped, lookErr := s.isStopped(node, vmid)(ctx); lookErr == nil && stopped {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("shut down VM %d: %w", vmid, err)
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
