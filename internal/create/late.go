package create

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// compare works out what a VM that is made from scratch consists of, and what of it the first request leaves to root on the node: drives
// that are made of files which are named by their paths, and the boot order, which may name them.
func (c *creation) compare() {
	if c.from != nil {
		return // configure does
	}
	c.change = vm.Diff(vm.Spec{}, c.spec)
	c.late = vm.Change{Set: map[string]string{}}
	slots := c.s.jobs.ByRoot(c.change)
	if len(slots) == 0 {
		return
	}
	c.change.Set = maps.Clone(c.change.Set)
	for _, option := range append(slots, "boot") {
		if value, ok := c.change.Set[option]; ok {
			c.late.Set[option] = value
			delete(c.change.Set, option)
		}
	}
}

// importDisks adds what the first request has left to root on the node. Without a configured boot order it writes the one that PVE would
// have made, had the disks been there. Somebody else may change the VM meanwhile: then what is still missing is sent again.
func (c *creation) importDisks(ctx context.Context) error {
	c.read = nil
	for try := 1; ; try++ {
		config, err := c.readConfig(ctx)
		if err != nil {
			return err
		}
		rest := vm.Change{Set: map[string]string{}}
		for option, value := range c.late.Set {
			if option == "boot" || config.Values[option] == "" {
				rest.Set[option] = value
			}
		}
		if rest.Set["boot"] == "" {
			order := vm.BootOrderWith(vm.BootOrder(config.Values), c.spec.Disks)
			rest.Set["boot"] = vm.Encode(vm.Spec{Options: vm.Options{BootOrder: order}})["boot"]
		}
		err = c.note(c.s.jobs.Apply(ctx, &c.tasks, c.node, c.vmid, rest, c.bound(config.Digest)))
		if try == tries || !pve.IsKind(err, pve.DigestMismatch) || c.s.jobs.Pause(ctx, try) != nil {
			return err
		}
	}
}

// unheardOf warns of volumes that a command may have left whose end nobody heard of, where the undo has left the VM, and names none: it may
// not have come to look at all storages.
func (c *creation) unheardOf(left []tx.Residue) []guest.Warning {
	died := slices.ContainsFunc(c.tasks.Commands, func(command job.Command) bool { return command.Died })
	named := slices.ContainsFunc(left, func(r tx.Residue) bool { return r.Kind == "volume" })
	storages := c.lateStorages()
	if !died || named || len(left) == 0 || len(storages) == 0 {
		return nil
	}
	return []guest.Warning{{Summary: fmt.Sprintf("An import for VM %d may have left a volume", c.vmid),
		Detail: fmt.Sprintf("The end of a command that was to import disks on %s was not heard of. If it was killed, it has left a volume with "+
			"the id %d that no configuration names, and whether there is one cannot be told before the rollback is done. "+
			"Look for it on node %s with `pvesm list %s --vmid %d`", strings.Join(storages, ", "), c.vmid, c.node, storages[0], c.vmid)}}
}

// lateStorages are those that root on the node makes disks on.
func (c *creation) lateStorages() []string {
	on := map[string]bool{}
	for _, set := range []map[string]string{c.late.Set, c.change.Set} {
		for option, value := range set {
			if vm.ImportsPath(option, value) {
				storage, _, _ := strings.Cut(value, ":")
				on[strings.TrimPrefix(storage, "file=")] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(on))
}
