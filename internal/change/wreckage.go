package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// wreckage looks, after a step has failed, for volumes that its task has left behind: PVE frees what a failed task has made,
// but a worker that was killed frees nothing, and a storage that is busy may refuse. They are named and not removed: an
// import by hand that is under way looks just the same.
func (u *update) wreckage(ctx context.Context, failed error) {
	var task *pve.TaskError
	if !errors.As(failed, &task) || !slices.Contains([]string{"qmmove", "qmconfig", "qmigrate", "qmtemplate"}, task.UPID.Type()) {
		return
	}
	late, cancel := u.s.jobs.LookAfter(ctx)
	defer cancel()
	commands, err := u.leavings(late)
	if err != nil || len(commands) == 0 {
		return
	}
	u.warn(fmt.Sprintf("The failed task has left volumes of VM %d behind", u.vmid),
		fmt.Sprintf("They carry its id, and no configuration names them. If no other task is at work on VM %d, clear up:\n  %s", u.vmid, strings.Join(commands, "\n  ")))
}

// leavings are the commands that remove the volumes of the VM's id which no configuration names, on the storages that the
// change is about.
func (u *update) leavings(ctx context.Context) ([]string, error) {
	config, err := u.s.api.PendingConfig(ctx, u.node, u.vmid)
	if err != nil {
		return nil, err
	}
	resources, err := u.s.api.Resources(ctx)
	if err != nil {
		return nil, err
	}
	named, err := u.named(ctx, config)
	if err != nil {
		return nil, err
	}
	involved := append(placesOf(vm.Decode(config.Merged())), placesOf(u.r.Planned)...)
	nodes := []string{u.node}
	for _, other := range []string{u.r.Ref.Node, u.r.Node} {
		if other != "" && !slices.Contains(nodes, other) {
			nodes = append(nodes, other)
		}
	}
	var commands []string
	for _, node := range nodes {
		for _, storage := range resources.Storages(node) {
			if !slices.Contains(involved, storage.Storage) || storage.Shared && node != u.node {
				continue
			}
			volumes, err := u.s.api.Content(ctx, node, storage.Storage, "images", u.vmid)
			if err != nil {
				return nil, err
			}
			for _, v := range volumes {
				if node != u.node || !named[v.ID] {
					commands = append(commands, remedy(config, v.ID, u.vmid, node))
				}
			}
		}
	}
	return commands, nil
}

// remedy removes a volume; or names it in the configuration again, where it is a disk that a conversion to a template has
// renamed before it died (qemu-server QemuServer.pm template_create).
func remedy(config pve.PendingConfig, volume string, vmid int, node string) string {
	was := strings.Replace(volume, "base-", "vm-", 1)
	for _, e := range config.Entries {
		if rest, ok := strings.CutPrefix(e.Value+",", was+","); ok && was != volume {
			return fmt.Sprintf("`qm set %d --%s %s` on node %s; the unused entry that comes of it names no volume", vmid, e.Key, strings.TrimSuffix(volume+","+rest, ","), node)
		}
	}
	return fmt.Sprintf("`pvesm free %s` on node %s", volume, node)
}

// named are the volumes that the configuration names, pending values and snapshots included.
func (u *update) named(ctx context.Context, config pve.PendingConfig) (map[string]bool, error) {
	named := map[string]bool{}
	for _, e := range config.Entries {
		named[guest.VolumeOf(e.Value)], named[guest.VolumeOf(e.Pending)] = true, true
	}
	snapshots, err := u.s.api.Snapshots(ctx, u.node, u.vmid)
	if err != nil {
		return nil, err
	}
	configs, err := u.s.guests.SnapshotConfigs(ctx, u.node, u.vmid, snapshots)
	if err != nil {
		return nil, err
	}
	for _, values := range configs {
		for _, value := range values {
			named[guest.VolumeOf(value)] = true
		}
	}
	return named, nil
}

// placesOf are the storages on which a VM has volumes.
func placesOf(spec vm.Spec) []string {
	ids := []string{spec.CloudInit.Storage}
	for _, disk := range spec.Disks {
		ids = append(ids, disk.Storage)
	}
	if spec.EFIDisk != nil {
		ids = append(ids, spec.EFIDisk.Storage)
	}
	if spec.TPMState != nil {
		ids = append(ids, spec.TPMState.Storage)
	}
	return ids
}
