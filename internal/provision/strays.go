package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// strays adds to the error of a worker that was killed while it made volumes which ones of the VM no configuration names: it
// may have made them, and nothing says that it did, so they are only told.
func (u *update) strays(ctx context.Context, cause error) error {
	var task *pve.TaskError
	if !errors.As(cause, &task) || !task.Killed() || !u.change.Allocates() {
		return cause
	}
	ctx = context.WithoutCancel(ctx)
	config, err := u.s.api.PendingConfig(ctx, u.node, u.vmid)
	if err != nil {
		return cause
	}
	wanted := vm.Decode(u.change.Set)
	storages := map[string]bool{wanted.CloudInit.Storage: true}
	for _, disk := range wanted.Disks {
		storages[disk.Storage] = true
	}
	var lines []string
	for _, storage := range slices.Sorted(maps.Keys(storages)) {
		if storage == "" {
			continue
		}
		content, err := u.s.api.Content(ctx, u.node, storage, "images", u.vmid)
		if err != nil {
			continue
		}
		for _, v := range content {
			if !uses(config.Current(), v.ID) && !uses(config.Merged(), v.ID) {
				lines = append(lines, fmt.Sprintf("%s: `pvesm free %s` on node %s removes it", v.ID, v.ID, u.node))
			}
		}
	}
	if len(lines) == 0 {
		return cause
	}
	return errors.Join(cause, fmt.Errorf("these volumes carry the id of VM %d and are in no slot of it; the worker that was killed may have made them:\n%s", u.vmid, strings.Join(lines, "\n")))
}
