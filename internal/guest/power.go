package guest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
)

// StopTimeout is how long a guest has to shut down: what the request says, else three minutes.
func StopTimeout(configured time.Duration) time.Duration {
	if configured <= 0 {
		return 3 * time.Minute
	}
	return configured
}

// Within is a time limit as PVE takes it, in whole seconds.
func Within(limit time.Duration) pve.Params {
	return pve.Params{"timeout": strconv.Itoa(max(1, int(limit.Seconds())))}
}

// Performer sends a request and awaits its task. It is who asks for it that knows what is to be looked at before.
type Performer func(context.Context, request.Request) (pve.TaskResult, error)

// ShutDown asks the guest to shut down. It never stops it hard.
func (g *Guests) ShutDown(ctx context.Context, perform Performer, node string, vmid int, timeout time.Duration) error {
	params := Within(timeout)
	_, err := perform(ctx, request.Request{Node: node, Type: "qmshutdown", ID: vmid, Done: g.IsStopped(node, vmid),
		Send: func(ctx context.Context) (pve.UPID, error) { return g.api.QEMU(node, vmid).Shutdown(ctx, params) }})
	if err != nil {
		if stopped, lookErr := g.IsStopped(node, vmid)(ctx); lookErr == nil && stopped {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("shut down VM %d: %w", vmid, err)
		}
		return fmt.Errorf("VM %d did not shut down within %s: %w", vmid, timeout, err)
	}
	return g.AwaitStop(ctx, node, vmid, timeout)
}

// AwaitStop waits until the guest is off. For one that HA manages, PVE only files the request: its task ends at once
// (qemu-server API2/Qemu.pm, hastop).
func (g *Guests) AwaitStop(ctx context.Context, node string, vmid int, timeout time.Duration) error {
	ctx, over := oplog.Wait(ctx, oplog.Guest, fmt.Sprintf("VM %d to shut down", vmid))
	defer over()
	deadline := g.clock.Now().Add(timeout)
	for attempt := 0; ; attempt++ {
		if err := g.jobs.Pause(ctx, attempt); err != nil {
			return fmt.Errorf("wait for VM %d on node %s to shut down: %w", vmid, node, err)
		}
		stopped, err := g.IsStopped(node, vmid)(ctx)
		switch {
		case stopped:
			return nil
		case err != nil && !pve.IsKind(err, pve.Unavailable):
			return err
		case !g.clock.Now().Before(deadline):
			return fmt.Errorf("VM %d on node %s did not shut down within %s, although PVE accepted the request", vmid, node,
				timeout)
		}
	}
}

// IsStopped returns a question that asks the server, each time, whether a guest is off.
func (g *Guests) IsStopped(node string, vmid int) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		status, err := g.api.QEMU(node, vmid).Status(ctx)
		return err == nil && status.Status == "stopped", err
	}
}

// StartBy starts a VM. One that runs already is what was wanted. PVE leaves the start of one under HA to HA's manager,
// which comes to it later: byHA is then true (qemu-server API2/Qemu.pm vm_start, hastart).
func (g *Guests) StartBy(ctx context.Context, perform Performer, node string, vmid int) (result pve.TaskResult,
	byHA bool, err error) {
	result, err = perform(ctx, request.Request{Node: node, Type: "qmstart", ID: vmid, Done: g.isRunning(node, vmid),
		Send: func(ctx context.Context) (pve.UPID, error) {
			upid, err := g.api.QEMU(node, vmid).Start(ctx, pve.Params{})
			byHA = upid.Type() == "hastart"
			return upid, err
		}})
	if err != nil && ctx.Err() == nil && pve.IsKind(err, pve.Busy) {
		if running, lookErr := g.isRunning(node, vmid)(ctx); lookErr == nil && running {
			return result, byHA, nil
		}
	}
	return result, byHA, err
}

func (g *Guests) isRunning(node string, vmid int) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		status, err := g.api.QEMU(node, vmid).Status(ctx)
		return status.Status == "running", err
	}
}

// CutOff is the task by which this identity has cut off a guest right after a reboot that it asked for, if no other
// task has changed its power since; "" if there is none. A forced restart that was interrupted leaves these two, and so
// may a user with the same token: they tell no more than that.
func CutOff(ctx context.Context, g *Guests, node string, vmid int) pve.Task {
	tasks, err := g.api.Tasks().List(ctx, node, pve.TaskFilter{VMID: vmid})
	if err != nil {
		return pve.Task{}
	}
	tasks = slices.DeleteFunc(tasks, func(t pve.Task) bool {
		return !slices.Contains([]string{"qmstart", "qmstop", "qmshutdown", "qmreboot", "qmsuspend", "hastart", "hastop"},
			t.UPID.Type())
	})
	slices.SortStableFunc(tasks, func(a, b pve.Task) int { return b.StartTime.Compare(a.StartTime) })
	isOwn := func(t pve.Task, kind string) bool {
		return t.UPID.Type() == kind && t.UPID.User() == g.api.Identity().User && !t.Running()
	}
	if len(tasks) < 2 || !isOwn(tasks[0], "qmstop") || !isOwn(tasks[1], "qmreboot") {
		return pve.Task{}
	}
	return tasks[0]
}
