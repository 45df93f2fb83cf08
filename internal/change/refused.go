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

// takeBack reverts what PVE refused at hotplug: such values stay pending on the server and would take effect at the next
// boot, long after the error. What waited before the update keeps waiting. Where PVE died in the middle of a request it has
// noted options as pending without ever trying them, and all of those are taken back. A volume that was made for a drive
// that is taken back goes as well.
func (s *Changer) takeBack(ctx context.Context, node string, vmid int, change vm.Change, before pve.PendingConfig, cause error) error {
	ctx = context.WithoutCancel(ctx)
	if !refusedAtHotplug(cause) && !diedMidway(cause) {
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
		if waits(option) && (refuses(cause, option) || diedMidway(cause) && sends(change, option)) {
			revert = append(revert, option)
		}
	}
	if len(revert) == 0 {
		return cause
	}
	if !sends(change, "boot") && waits("boot") {
		revert = append(revert, "boot") // PVE takes a drive that goes out of the boot order
	}
	if err := s.jobs.Revert(ctx, node, vmid, revert); err != nil {
		return errors.Join(cause, fmt.Errorf("take back the refused changes: %w", err))
	}
	made := madeFor(revert, change, before, now)
	boot := !sends(change, "boot") && !slices.Contains(before.Waiting(), "boot") && slices.ContainsFunc(revert, func(slot string) bool {
		return vm.Decode(map[string]string{slot: now.Current()[slot]}).CDROMs != nil
	})
	if len(made) == 0 && !boot {
		return cause
	}
	return errors.Join(cause, s.tidy(ctx, node, vmid, made, boot))
}

// sends tells whether an option is part of a change.
func sends(change vm.Change, option string) bool {
	_, set := change.Set[option]
	return set || slices.Contains(change.Delete, option) || slices.Contains(change.DeleteFirst, option)
}

// diedMidway tells an answer of PVE that ended a request between its options: those before are noted already (qemu-server
// API2/Qemu.pm update_vm_api writes the configuration after each).
func diedMidway(cause error) bool {
	var task *pve.TaskError
	if errors.As(cause, &task) {
		return !strings.Contains(task.ExitStatus, hotplugProblem)
	}
	var refused *pve.Error
	return errors.As(cause, &refused) && refused.Status >= 500 && refused.Status < 590 &&
		!slices.Contains([]pve.Kind{pve.Locked, pve.DigestMismatch, pve.NotFound, pve.Ambiguous}, refused.Kind)
}

// madeFor are the volumes that PVE made for drives which are taken back.
func madeFor(revert []string, change vm.Change, before, now pve.PendingConfig) []string {
	var made []string
	for _, slot := range revert {
		volume := guest.VolumeOf(now.Merged()[slot])
		asked := vm.Change{Set: map[string]string{slot: change.Set[slot]}}
		if asked.Allocates() && vm.IsVolume(volume) && !guest.Uses(before.Current(), volume) && !guest.Uses(before.Merged(), volume) {
			made = append(made, volume)
		}
	}
	return made
}

// tidy removes what taking back leaves: the volumes that were made, which are detached by then, in a request bound to what was
// read, and a boot order to which PVE has added a CD-ROM drive that is as it was (qemu-server API2/Qemu.pm update_vm_api).
func (s *Changer) tidy(ctx context.Context, node string, vmid int, made []string, boot bool) error {
	config, err := s.api.PendingConfig(ctx, node, vmid)
	if err != nil {
		return fmt.Errorf("see what taking back has left: %w", err)
	}
	var entries []string
	for _, volume := range made {
		if entry := unusedEntry(config.Current(), volume); entry != "" {
			entries = append(entries, entry)
		}
	}
	if len(entries) > 0 {
		if err := s.jobs.Set(ctx, node, vmid, pve.Params{"delete": strings.Join(entries, ","), "digest": config.Digest}); err != nil {
			return fmt.Errorf("volume %s was made for it and is left, detached: %w", strings.Join(made, ", "), err)
		}
	}
	if boot && slices.Contains(config.Waiting(), "boot") {
		return s.jobs.Revert(ctx, node, vmid, []string{"boot"})
	}
	return nil
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
