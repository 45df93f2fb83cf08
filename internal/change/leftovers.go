package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// nameLeftovers looks, after a step has failed, for volumes that its task has left behind: PVE frees what a failed task has
// made, but a worker that was killed frees nothing, and a storage that is busy may refuse. They are named and not removed: an
// import by hand that is under way looks just the same.
func (u *update) nameLeftovers(ctx context.Context, t todo, failed error) {
	var task *pve.TaskError
	made := errors.As(failed, &task) && slices.Contains([]string{"qmmove", "qmconfig", "qmigrate", "qmtemplate"}, task.UPID.Type())
	if !made && len(u.view.tasks.Commands) == 0 {
		return
	}
	late, cancel := u.s.jobs.LookAfter(ctx)
	defer cancel()
	commands, err := u.leftovers(late, t)
	if err != nil || len(commands) == 0 {
		return
	}
	what := "task"
	if !made {
		what = "command"
	}
	u.warn(fmt.Sprintf("The failed %s has left volumes of VM %d behind", what, u.vmid),
		fmt.Sprintf("They carry its id, and its configuration does not name them. If no other task or command is at work on VM %d, "+
			"clear up:\n  %s",
			u.vmid, strings.Join(commands, "\n  ")))
}

// leftovers are the commands that remove the volumes of the VM's id which no configuration names, on the storages that the
// change is about.
func (u *update) leftovers(ctx context.Context, t todo) ([]string, error) {
	config, err := u.view.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	resources, err := u.s.api.Resources(ctx)
	if err != nil {
		return nil, err
	}
	named, err := u.namedVolumes(ctx, config)
	if err != nil {
		return nil, err
	}
	merged, node := vm.Decode(config.Merged()), u.view.node
	involved := slices.Concat(merged.Storages(), t.planned.Storages(), []string{u.r.ImportStorage})
	var commands []string
	for _, at := range u.nodes() {
		for _, storage := range resources.Storages(at) {
			if !slices.Contains(involved, storage.Storage) || storage.Shared && at != node {
				continue
			}
			volumes, err := u.s.api.Content(ctx, at, storage.Storage, "images", u.vmid)
			if err != nil {
				return nil, err
			}
			for _, v := range volumes {
				if at != node || !named[v.ID] {
					commands = append(commands, u.remedy(ctx, config, v.ID, at))
				}
			}
		}
	}
	return commands, nil
}

// nodes are those that the VM is or was on, or was to come to.
func (u *update) nodes() []string {
	nodes := []string{u.view.node}
	for _, other := range []string{u.r.Ref.Node, u.r.Node} {
		if other != "" && !slices.Contains(nodes, other) {
			nodes = append(nodes, other)
		}
	}
	return nodes
}

// remedy removes a volume; or names it in the configuration again, where it is a disk that a conversion to a template has
// renamed before it died (qemu-server QemuServer.pm template_create).
func (u *update) remedy(ctx context.Context, config pve.PendingConfig, volume, node string) string {
	was := strings.Replace(volume, "base-", "vm-", 1)
	for _, e := range config.Entries {
		if rest, ok := strings.CutPrefix(e.Value+",", was+","); ok && was != volume {
			return fmt.Sprintf("`qm set %d --%s %s` on node %s; the unused entry that comes of it names no volume",
				u.vmid, e.Key, strings.TrimSuffix(volume+","+rest, ","), node)
		}
	}
	return u.freeCommand(ctx, volume, node)
}

// freeCommand is how an operator frees a volume. Nobody is told to free one that another guest uses; where that cannot be told, the
// command asks.
func (u *update) freeCommand(ctx context.Context, volume, node string) string {
	where := u.view.inState()
	where.VolumesAt = node
	_, err := u.s.remover.ProveInState(ctx, where, []string{volume})
	var inUse *remove.InUseError
	switch {
	case errors.As(err, &inUse):
		return fmt.Sprintf("on node %s %s; detach it there first", node, err)
	case err != nil:
		return fmt.Sprintf("`grep -r %s /etc/pve/nodes || pvesm free %s` on node %s", volume, volume, node)
	}
	return fmt.Sprintf("`pvesm free %s` on node %s", volume, node)
}

// namedVolumes are the volumes that the configuration names, pending values and snapshots included.
func (u *update) namedVolumes(ctx context.Context, config pve.PendingConfig) (map[string]bool, error) {
	named := map[string]bool{}
	for _, e := range config.Entries {
		named[guest.VolumeOf(e.Value)], named[guest.VolumeOf(e.Pending)] = true, true
	}
	snapshots, err := u.s.api.Snapshots(ctx, u.view.node, u.vmid)
	if err != nil {
		return nil, err
	}
	configs, err := u.s.guests.SnapshotConfigs(ctx, u.view.node, u.vmid, snapshots)
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
