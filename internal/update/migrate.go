package update

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// migrate takes the VM to its planned node: online if it runs, through HA if HA manages it. Its local disks go with it,
// to the planned storages.
func (m migration) migrate(ctx context.Context, t todo) (todo, error) {
	if m.r.Node == "" || m.r.Node == m.view.Node() {
		return t, nil
	}
	status, err := m.view.Status(ctx)
	if err != nil {
		return t, err
	}
	_, merged, _, err := m.view.Spec(ctx)
	if err != nil {
		return t, err
	}
	pairs, warn, err := m.storagePairs(ctx, merged, t)
	if err != nil {
		return t, err
	}
	if err := m.sendMigration(ctx, status, targetStorages(pairs)); err != nil {
		var another *guest.IdentityError
		if errors.As(err, &another) {
			return t, err
		}
		grace, cancel := m.changer.jobs.Grace(ctx)
		defer cancel()
		m.follow(grace)
		if m.view.Node() != m.r.Node {
			return t, &guest.FieldError{Path: "node", Summary: fmt.Sprintf("VM %d was not migrated to node %s", m.vmid,
				m.r.Node),
				Detail: fmt.Sprintf("It is on node %s, and nothing else of the plan was done", m.view.Node()), Err: err}
		}
		m.warn(fmt.Sprintf("VM %d was migrated to node %s, but not without trouble", m.vmid, m.view.Node()), err.Error())
	}
	warn()
	sent := m.view.Last().Merged() // was read right before the request
	m.view.Moved(m.r.Node)
	arrived, err := m.view.Fresh(ctx)
	if err != nil {
		return t, err
	}
	m.renamed = renamedBy(sent, arrived.Merged())
	mustFit := func(slot string) bool {
		return m.r.DestroyRemoved && !hasDisk(t.planned.Disks, slot) || !hasDisk(t.prior.Disks, slot)
	}
	known := join(m.r.Others, vm.Encode(t.prior))
	return recompare(ctx, m.update, t, stillIn(known, sent, arrived.Merged(), mustFit))
}

// renamedBy are the names that volumes have on arrival, by those of before: PVE gives the disks of a running guest the
// first free ones (qemu-server QemuServer.pm vm_migrate_alloc_nbd_disks), and others keep theirs on another storage.
func renamedBy(sent, arrived map[string]string) map[string]string {
	all := map[string]string{}
	for option, value := range sent {
		if was, is := guest.VolumeOf(value), guest.VolumeOf(arrived[option]); volid.Valid(was) && volid.Valid(is) {
			all[was] = is
		}
	}
	return all
}

// stillIn reports of a slot whether the disk that is known to be in it was there when a migration was sent, and is
// there on arrival: a migration gives disks new names, but makes none of a third party's the VM's. A cloud-init drive
// has one name only. One that is to be destroyed or taken over must have its size still, although a migration corrects
// the size in the configuration (qemu-server QemuMigrate.pm config_update_local_disksizes).
func stillIn(known, sent, arrived map[string]string, mustFit func(slot string) bool) func(slot string) bool {
	before, after := vm.Decode(sent).Disks, vm.Decode(arrived).Disks
	return func(slot string) bool {
		volume, was, is := guest.VolumeOf(sent[slot]), before[slot], after[slot]
		isThere := !mustFit(slot) || vm.FitsSize(is.Bytes(), was.Bytes())
		return volid.IsCloudInit(volume) || volume != "" && volid.Same(volume, guest.VolumeOf(known[slot])) && isThere
	}
}

// sendMigration requests the migration and waits for its end.
func (m migration) sendMigration(ctx context.Context, status pve.GuestStatus, storages string) error {
	params, typ := pve.Params{"target": m.r.Node, "with-local-disks": "1"}, "qmigrate"
	if status.IsRunning() {
		params["online"] = "1"
	}
	if storages != "" {
		params["targetstorage"] = storages
	}
	if status.HAManaged {
		typ = "hamigrate"
	}
	since, from := m.changer.jobs.Clock.Now(), m.view.Node()
	_, err := m.view.Perform(ctx, request.Request{Type: typ, Done: m.arrived,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return m.changer.api.QEMU(from, m.vmid).Migrate(ctx, params)
		}}, func(ctx context.Context) error {
		if err := m.checkLocalDisks(ctx); err != nil {
			return err
		}
		return m.view.Guard(ctx) // that may have read all guests
	})
	if err == nil && status.HAManaged {
		err = m.awaitArrival(ctx, since)
	}
	return err
}

// checkLocalDisks refuses a migration that would take a disk away from another guest: PVE frees local disks on the
// source node, those too that only a snapshot names (qemu-server QemuMigrate.pm scan_local_volumes, phase3_cleanup).
func (m migration) checkLocalDisks(ctx context.Context) error {
	config, err := m.view.Fresh(ctx)
	if err != nil {
		return err
	}
	named, err := m.namedVolumes(ctx, config)
	if err != nil {
		return fmt.Errorf("see which volumes VM %d takes along; it was not migrated: %w", m.vmid, err)
	}
	own := slices.DeleteFunc(slices.Sorted(maps.Keys(named)), func(volume string) bool {
		owner, ok := volid.Owner(volume)
		return !ok || owner != m.vmid
	})
	if len(own) == 0 {
		return nil
	}
	local, err := m.local(ctx, own)
	if err != nil || len(local) == 0 {
		return err
	}
	return m.changer.destroyer.CheckTaken(ctx, m.inState(), local)
}

// local are those of some volumes that are not known to be on a shared storage.
func (m migration) local(ctx context.Context, volumes []string) ([]string, error) {
	resources, err := m.changer.api.Cluster().Resources(ctx)
	return slices.DeleteFunc(slices.Clone(volumes), func(volume string) bool {
		at, _ := resources.Storage(m.view.Node(), volid.Storage(volume))
		return at.Shared
	}), err
}

// checkNames refuses to migrate the VM if one of its own volumes is to come into a slot, or to be copied, by its name,
// as the plan does where it knows all of it. A local disk may have another name on arrival, and another disk that one.
func (m migration) checkNames(ctx context.Context, t todo) error {
	if m.r.Node == "" || m.r.Node == m.view.Node() {
		return nil
	}
	copies := t.change.Copies()
	named := join(t.attached(), copies)
	maps.DeleteFunc(named, func(slot, volume string) bool {
		owner, owned := volid.Owner(volume)
		return !owned || owner != m.vmid || volume == t.prior.Disks[slot].Volume
	})
	if len(named) == 0 {
		return nil
	}
	local, err := m.local(ctx, slices.Collect(maps.Values(named)))
	if err != nil {
		return fmt.Errorf("see which volumes of VM %d keep their names on node %s; it was not migrated: %w", m.vmid,
			m.r.Node, err)
	}
	for _, slot := range slices.Sorted(maps.Keys(named)) {
		if !slices.Contains(local, named[slot]) {
			continue
		}
		why := fmt.Sprintf("the VM is to go to node %s. %s", m.r.Node, guest.RenamedOnTheWay(named[slot], slot))
		if copies[slot] == "" {
			return slots(m).cannotAttach(slot, why)
		}
		return &guest.FieldError{Path: guest.ImportPath(slot), Detail: "Nothing was changed: " + why,
			Summary: fmt.Sprintf("%s cannot be copied into %s of VM %d", named[slot], slot, m.vmid)}
	}
	return nil
}

// storagePairs says where the disks of each storage go. PVE maps storages, and with them disks that the state does not
// know (qemu-server QemuMigrate.pm scan_local_volumes). So a storage with such a disk is not mapped if the target has
// it: the planned disks move on arrival. Else the disk goes with the others, and warn says so.
func (m migration) storagePairs(ctx context.Context, has vm.Spec, t todo) (pairs map[string]string, warn func(),
	err error) {
	pairs, warn = vm.StorageMap(has, t.prior, t.planned), func() {}
	unknown := map[string][]string{} // slots by storage
	for slot, disk := range has.Disks {
		to, mapped := pairs[disk.Storage]
		if mapped && to != disk.Storage && !hasDisk(t.prior.Disks, slot) && !hasDisk(t.planned.Disks, slot) {
			unknown[disk.Storage] = append(unknown[disk.Storage], slot)
		}
	}
	if len(unknown) == 0 {
		return pairs, warn, nil
	}
	resources, err := m.changer.api.Cluster().Resources(ctx)
	if err != nil {
		return nil, nil, err
	}
	var taken []string
	for _, storage := range slices.Sorted(maps.Keys(unknown)) {
		isIt := func(r pve.Resource) bool { return r.Storage == storage }
		if slices.ContainsFunc(resources.Storages(m.r.Node), isIt) {
			pairs[storage] = storage
			continue
		}
		slices.Sort(unknown[storage])
		taken = append(taken, fmt.Sprintf("%s from storage %s to %s", strings.Join(unknown[storage], ", "), storage,
			pairs[storage]))
	}
	if len(taken) > 0 {
		warn = func() {
			m.warn(fmt.Sprintf("Disks of VM %d that the state does not know went to another storage", m.vmid),
				fmt.Sprintf("Node %s does not have theirs, as far as this identity sees, so PVE took them along: %s.",
					m.r.Node, strings.Join(taken, "; ")))
		}
	}
	return pairs, warn, nil
}

// targetStorages is PVE's map from the storages of the disks to the planned ones; "" if all disks stay on theirs.
func targetStorages(pairs map[string]string) string {
	var list []string
	changed := false
	for _, from := range slices.Sorted(maps.Keys(pairs)) {
		list = append(list, from+":"+pairs[from])
		changed = changed || from != pairs[from]
	}
	if !changed {
		return ""
	}
	return strings.Join(list, ",")
}

// arrived reports whether the VM is on its new node.
func (m migration) arrived(ctx context.Context) (bool, error) {
	_, err := m.changer.api.QEMU(m.r.Node, m.vmid).Config(ctx)
	return err == nil, err
}

// awaitArrival waits for HA, whose manager acts on the request some time after it took it (pve-ha-manager
// HA/Manager.pm). A migration that HA began and that failed ends the wait, whatever HA tries next.
func (m migration) awaitArrival(ctx context.Context, since time.Time) error {
	var line time.Time // by the clock of the node
	for attempt := 0; ; attempt++ {
		if err := m.changer.jobs.Pause(ctx, attempt); err != nil {
			return fmt.Errorf("wait for HA to migrate VM %d from node %s to %s: %w", m.vmid, m.view.Node(), m.r.Node, err)
		}
		there, err := m.arrived(ctx)
		switch {
		case there:
			return m.awaitUnlock(ctx)
		case !pve.IsKind(err, pve.NotFound) && !pve.IsKind(err, pve.Unavailable):
			return err
		}
		if line.IsZero() {
			if line, err = m.changer.jobs.NodeTime(ctx, m.view.Node(), since); err != nil {
				line = time.Time{}
				continue
			}
		}
		tasks, err := m.changer.api.Tasks().List(ctx, m.view.Node(),
			pve.TaskFilter{VMID: m.vmid, Type: "qmigrate", Since: line})
		if err != nil || len(tasks) == 0 { // HA's tasks are root's: to be seen with Sys.Audit only
			continue
		}
		if _, err := m.changer.api.Tasks().Wait(ctx, tasks[0].UPID); err != nil {
			return errors.Join(errors.New("HA has tried to migrate it, and failed"), err)
		}
	}
}

// awaitUnlock waits for the end of a migration whose configuration has arrived: the lock goes after that.
func (m migration) awaitUnlock(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		if err := m.changer.jobs.Pause(ctx, attempt); err != nil {
			return fmt.Errorf("wait for the end of the migration of VM %d: %w", m.vmid, err)
		}
		config, err := m.changer.api.QEMU(m.r.Node, m.vmid).Config(ctx)
		if err != nil || config.Values["lock"] != "migrate" {
			return err
		}
	}
}

// follow finds the VM after a failed migration, or after a third party has migrated it.
func (u *update) follow(ctx context.Context) guest.Presence {
	return u.view.Follow(ctx, u.r.Ref, u.nodes()...)
}
