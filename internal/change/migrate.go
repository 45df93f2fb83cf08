package change

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// migrate takes the VM to the node where it is to be: online if it runs, by way of HA if HA manages it. Its local disks go
// with it, to the storages that the plan names.
func (u *update) migrate(ctx context.Context) error {
	if u.r.Node == "" || u.r.Node == u.node {
		return nil
	}
	status, err := u.s.api.GuestStatus(ctx, u.node, u.vmid)
	if err != nil {
		return err
	}
	params := pve.Params{"target": u.r.Node, "with-local-disks": "1"}
	if status.Status == "running" {
		params["online"] = "1"
	}
	if to := targetStorages(vm.Decode(u.config.Merged()), u.r.Planned); to != "" {
		params["targetstorage"] = to
	}
	typ := "qmigrate"
	if status.HAManaged {
		typ = "hamigrate"
	}
	since := u.s.api.ServerTime()
	_, err = u.s.jobs.Perform(ctx, &u.ledger, job.Request{Node: u.node, Type: typ, ID: u.vmid, Done: u.arrived,
		Send: func(ctx context.Context) (pve.UPID, error) { return u.s.api.Migrate(ctx, u.node, u.vmid, params) }})
	if err == nil && status.HAManaged {
		err = u.awaitArrival(ctx, since)
	}
	if err != nil {
		u.follow(context.WithoutCancel(ctx))
		if u.node != u.r.Node {
			return &guest.FieldError{Path: "node", Summary: fmt.Sprintf("VM %d was not migrated to node %s", u.vmid, u.r.Node),
				Detail: fmt.Sprintf("It is on node %s, and nothing else of the plan was done", u.node), Err: err}
		}
		u.warn(fmt.Sprintf("VM %d was migrated to node %s, but not without trouble", u.vmid, u.node), err.Error())
	}
	u.node, u.stale = u.r.Node, true
	return u.again(ctx, func(string) bool { return true })
}

// targetStorages is PVE's map from the storages of the disks to those that the plan wants them on; "" where all stay.
func targetStorages(has, planned vm.Spec) string {
	var list []string
	changed := false
	pairs := vm.StorageMap(has, planned)
	for _, from := range slices.Sorted(maps.Keys(pairs)) {
		list = append(list, from+":"+pairs[from])
		changed = changed || from != pairs[from]
	}
	if !changed {
		return ""
	}
	return strings.Join(list, ",")
}

// arrived tells whether the VM is on its new node.
func (u *update) arrived(ctx context.Context) (bool, error) {
	_, err := u.s.api.CurrentConfig(ctx, u.r.Node, u.vmid)
	return err == nil, err
}

// awaitArrival waits for HA, whose manager acts on the request some time after it took it (pve-ha-manager HA/Manager.pm).
// A migration that it began and that failed ends the wait; what HA tries next is its own affair.
func (u *update) awaitArrival(ctx context.Context, since time.Time) error {
	for attempt := 0; ; attempt++ {
		if err := u.s.jobs.Pause(ctx, attempt); err != nil {
			return fmt.Errorf("wait for HA to migrate VM %d from node %s to %s: %w", u.vmid, u.node, u.r.Node, err)
		}
		there, err := u.arrived(ctx)
		switch {
		case there:
			return u.unlocked(ctx)
		case !pve.IsKind(err, pve.NotFound) && !pve.IsKind(err, pve.Unavailable):
			return err
		}
		tasks, err := u.s.api.Tasks(ctx, u.node, pve.TaskFilter{VMID: u.vmid, Type: "qmigrate", Since: since.Add(-job.Skew)})
		if err != nil || len(tasks) == 0 { // HA's tasks are root's: to be seen with Sys.Audit only
			continue
		}
		if _, err := u.s.api.Wait(ctx, tasks[0].UPID); err != nil {
			return errors.Join(errors.New("HA has tried to migrate it, and failed"), err)
		}
	}
}

// unlocked waits for the end of a migration whose configuration has arrived already: it goes over before the lock goes.
func (u *update) unlocked(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		if err := u.s.jobs.Pause(ctx, attempt); err != nil {
			return fmt.Errorf("wait for the end of the migration of VM %d: %w", u.vmid, err)
		}
		config, err := u.s.api.CurrentConfig(ctx, u.r.Node, u.vmid)
		if err != nil || config.Values["lock"] != "migrate" {
			return err
		}
	}
}

// follow finds out where the VM is after a migration that did not go well.
func (u *update) follow(ctx context.Context) {
	ref := u.r.Ref
	for _, node := range []string{u.node, u.r.Node} {
		ref.Node = node
		if at, _, err := u.s.guests.Find(ctx, ref); err == nil {
			u.node = at
			return
		}
	}
}
