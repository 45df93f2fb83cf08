package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

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
