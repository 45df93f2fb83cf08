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
func (u *update) migrate(ctx context.Context, t todo) (todo, error) {
	if u.r.Node == "" || u.r.Node == u.view.node {
		return t, nil
	}
	status, err := u.view.Status(ctx)
	if err != nil {
		return t, err
	}
	_, merged, _, err := u.view.Spec(ctx)
	if err != nil {
		return t, err
	}
	if err := u.sendMigration(ctx, status, targetStorages(merged, t.planned)); err != nil {
		var another *guest.IdentityError
		if errors.As(err, &another) {
			return t, err
		}
		grace, cancel := u.s.jobs.Grace(ctx)
		defer cancel()
		u.follow(grace)
		if u.view.node != u.r.Node {
			return t, &guest.FieldError{Path: "node", Summary: fmt.Sprintf("VM %d was not migrated to node %s", u.vmid, u.r.Node),
				Detail: fmt.Sprintf("It is on node %s, and nothing else of the plan was done", u.view.node), Err: err}
		}
		u.warn(fmt.Sprintf("VM %d was migrated to node %s, but not without trouble", u.vmid, u.view.node), err.Error())
	}
	u.view.Moved(u.r.Node)
	return recompare(ctx, u.view, t, func(string) bool { return true })
}

// sendMigration asks for the migration and waits for its end.
func (u *update) sendMigration(ctx context.Context, status pve.GuestStatus, storages string) error {
	params, typ := pve.Params{"target": u.r.Node, "with-local-disks": "1"}, "qmigrate"
	if status.IsRunning() {
		params["online"] = "1"
	}
	if storages != "" {
		params["targetstorage"] = storages
	}
	if status.HAManaged {
		typ = "hamigrate"
	}
	since, from := u.s.api.ServerTime(), u.view.node
	_, err := u.view.Perform(ctx, job.Request{Type: typ, Done: u.arrived,
		Send: func(ctx context.Context) (pve.UPID, error) { return u.s.api.Migrate(ctx, from, u.vmid, params) }}, u.checkLocalDisks)
	if err == nil && status.HAManaged {
		err = u.awaitArrival(ctx, since)
	}
	return err
}

// checkLocalDisks refuses a migration that would take a disk away from another guest: PVE frees the local ones where they were
// (qemu-server QemuMigrate.pm phase3_cleanup).
func (u *update) checkLocalDisks(ctx context.Context) error {
	volumes, err := u.ownVolumes(ctx)
	if err != nil || len(volumes) == 0 {
		return err
	}
	resources, err := u.s.api.Resources(ctx)
	if err != nil {
		return err
	}
	local := slices.DeleteFunc(volumes, func(volume string) bool {
		return slices.ContainsFunc(resources.Storages(u.view.node), func(r pve.Resource) bool {
			return r.Storage == vm.VolumeStorage(volume) && r.Shared
		})
	})
	if len(local) == 0 {
		return nil
	}
	return u.s.remover.CheckTaken(ctx, u.view.inState(), local)
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
			return fmt.Errorf("wait for HA to migrate VM %d from node %s to %s: %w", u.vmid, u.view.node, u.r.Node, err)
		}
		there, err := u.arrived(ctx)
		switch {
		case there:
			return u.awaitUnlock(ctx)
		case !pve.IsKind(err, pve.NotFound) && !pve.IsKind(err, pve.Unavailable):
			return err
		}
		tasks, err := u.s.api.Tasks(ctx, u.view.node, pve.TaskFilter{VMID: u.vmid, Type: "qmigrate", Since: since.Add(-job.Skew)})
		if err != nil || len(tasks) == 0 { // HA's tasks are root's: to be seen with Sys.Audit only
			continue
		}
		if _, err := u.s.api.Wait(ctx, tasks[0].UPID); err != nil {
			return errors.Join(errors.New("HA has tried to migrate it, and failed"), err)
		}
	}
}

// awaitUnlock waits for the end of a migration whose configuration has arrived already: it goes over before the lock goes.
func (u *update) awaitUnlock(ctx context.Context) error {
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

// follow finds out where the VM is after a migration that did not go well, or was somebody else's.
func (u *update) follow(ctx context.Context) guest.Seen {
	ref, result := u.r.Ref, guest.Unknown
	for _, node := range u.nodes() {
		ref.Node = node
		at, seen, err := u.s.guests.Find(ctx, ref, nil)
		if err == nil {
			u.view.Moved(at.Node)
			return guest.Found
		}
		if seen == guest.Gone {
			u.view.gone = true
			return seen
		}
		result = seen
	}
	return result
}
