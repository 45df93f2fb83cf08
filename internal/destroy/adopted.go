package destroy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// This file keeps a destroy of a VM in state from volumes that a rescan has made unused disks of it.

// knows reports whether a volume is one that state knows to be the VM's.
func (r Request) knows(volume string) bool {
	return slices.Contains(r.Known, volume) ||
		slices.ContainsFunc(r.Left, func(l saga.Residue) bool { return l.ID == volume })
}

// adoptedInState are the detached volumes of a VM in state that are not known to be its own, and that nothing else in
// its configurations names: `qm rescan` makes every volume that carries the id an unused disk (qemu-server
// QemuServer.pm update_disk_config).
func adoptedInState(vmid int, known func(string) bool, configs ...map[string]string) []string {
	var rest []map[string]string
	for _, config := range configs {
		attached := maps.Clone(config)
		maps.DeleteFunc(attached, func(option, _ string) bool { return vm.IsUnused(option) })
		rest = append(rest, attached)
	}
	own := guard.OwnVolumes(vmid, rest...)
	var all []string
	for _, config := range configs {
		all = append(all, Adopted(vmid, config)...)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(volume string) bool {
		return known(volume) || slices.Contains(own, volume)
	})
}

// volumesToGo are the volumes in configurations that go with a VM in state.
func volumesToGo(vmid int, known func(string) bool, configs ...map[string]string) []string {
	adopted := adoptedInState(vmid, known, configs...)
	return slices.DeleteFunc(guard.OwnVolumes(vmid, configs...),
		func(volume string) bool { return slices.Contains(adopted, volume) })
}

// unadopted refuses to destroy a VM with adopted volumes if PVE cannot be made to let go of them.
func unadopted(d *destruction) error {
	config := d.config.Current()
	adopted := adoptedInState(d.r.Ref.VMID, d.r.knows, config, d.config.Merged())
	if len(adopted) == 0 || slotted(d.r.Ref.VMID, config) != "" {
		return nil
	}
	return fmt.Errorf("VM %d was not touched: it %s", d.r.Ref.VMID, adoptedText(adopted))
}

// unforeseen refuses to destroy a VM that a third party has given a disk since the plan, which says nothing of it: PVE
// would destroy it with the VM. One that has only changed its slot or its storage is in state. touched says what was
// done already.
func unforeseen(ctx context.Context, d *destruction, now pve.PendingConfig, touched string) error {
	if d.r.Slots == nil {
		return nil
	}
	vmid, judged := d.r.Ref.VMID, map[string]bool{}
	for _, config := range []map[string]string{now.Current(), now.Merged()} {
		for _, slot := range vm.Slots(config) {
			volume := guest.VolumeOf(config[slot])
			owner, _ := volid.Owner(volume)
			isDisk := owner == vmid && goesWith(config, volume) && !volid.IsCloudInit(volume) && vm.IsBusSlot(slot)
			if !isDisk || d.r.knows(volume) || judged[slot+" "+volume] {
				continue
			}
			judged[slot+" "+volume] = true // most slots are the same in both, and the answer may take a request
			if foreseen, err := hasMoved(ctx, d, now, slot, volume); err != nil || foreseen {
				if err != nil {
					return fmt.Errorf("see whether the disk in %s of VM %d has moved, or is another one (%s): %w", slot, vmid,
						touched, err)
				}
				continue
			}
			since, then := "a third party has put it there since", "; a new plan destroys it with the VM"
			if d.r.Holder {
				since, then = "the resource has one disk, and a third party has put this one there", ""
			}
			return &guest.FieldError{Path: "disks", Summary: fmt.Sprintf("VM %d has got another disk", vmid),
				Detail: fmt.Sprintf("%s is in %s, which the plan does not know: %s. A destroy of the VM would destroy it with its "+
					"data. %s. Give the disk to another VM (in PVE's interface: Hardware, Disk Action, Reassign Owner)%s", volume,
					slot, since, touched, then)}
		}
	}
	return nil
}

// hasMoved reports whether the volume in a slot is the one that the plan knows there: by its name, or since the known
// one is nowhere any more. Where the known one is still there, the slot has another disk.
func hasMoved(ctx context.Context, d *destruction, now pve.PendingConfig, slot, volume string) (bool, error) {
	known, inPlan := d.r.Slots[slot]
	if !inPlan || known == "" || volid.Same(known, volume) {
		return inPlan, nil
	}
	if guest.Uses(now.Current(), known) || guest.Uses(now.Merged(), known) {
		return false, nil
	}
	return guest.IsFreed(ctx, d.d.api, d.resources, d.node, known)
}

func adoptedText(volumes []string) string {
	return fmt.Sprintf("has unused disks that nothing shows to be its own (%s), and a destroy of the VM would destroy "+
		"them: a rescan may have put them there. Give them to another VM first (in PVE's interface: Hardware, Disk Action, "+
		"Reassign Owner), or destroy them there, then destroy again", strings.Join(volumes, ", "))
}

// slotted is a volume in a slot of a VM: one of its own, if there is one.
func slotted(vmid int, config map[string]string) string {
	found := ""
	for _, slot := range vm.Slots(config) {
		volume := guest.VolumeOf(config[slot])
		if owner, ok := volid.Owner(volume); ok && owner == vmid {
			return volume
		}
		if found == "" && volid.Valid(volume) {
			found = volume
		}
	}
	return found
}

// letGo takes adopted volumes out of the configuration. `delete=unusedN` would destroy them (qemu-server API2/Qemu.pm
// update_vm_api). So their entries are given a volume that is in a slot: such an entry goes when PVE writes the file
// (QemuServer.pm write_vm_config, "remove 'unusedX' settings if we re-add a volume"). Where it does not go, it names
// only what the VM has anyway.
func (r *removal) letGo(ctx context.Context, f *facts) (outcome, error) {
	config := f.config.Values
	instead, params := slotted(r.VMID, config), pve.Params{}
	for option, value := range config {
		if vm.IsUnused(option) && slices.Contains(f.adopted, guest.VolumeOf(value)) {
			params[option] = instead
		}
	}
	if r.tries.letGo++; instead == "" || r.tries.letGo > maxLetGo {
		return nextPass, final{fmt.Errorf("VM %d was not removed: it %s", r.VMID, adoptedText(f.adopted))}
	}
	for _, volume := range f.adopted { // also if the answer is lost
		r.letGoOf[volume] = true
	}
	if err := r.change(ctx, f, params); err != nil {
		return nextPass, fmt.Errorf("take unused disks out of VM %d, which %s. The request failed: %w", r.VMID,
			adoptedText(f.adopted), err)
	}
	return nextPass, nil
}

// maxLetGo bounds how often: a rescan may come again.
const maxLetGo = 3

// noteLetGo names the volumes that were let go of, and that the VM has not got again.
func noteLetGo(r *removal) {
	maps.DeleteFunc(r.letGoOf, func(volume string, _ bool) bool { return guest.Uses(r.view.has(), volume) })
	if len(r.letGoOf) == 0 {
		return
	}
	storages := map[string]bool{}
	for volume := range r.letGoOf {
		storages[volid.Storage(volume)] = true
	}
	r.notes = append(r.notes, Note{Text: fmt.Sprintf("The unused disks %s carried the id of VM %d and nothing shows that "+
		"they were its own: a rescan may have put them there. They were taken out of it and left on node %s. "+
		"Look whose they are (`pvesm list STORAGE --vmid %d`: %s) before you remove any",
		strings.Join(slices.Sorted(maps.Keys(r.letGoOf)), ", "), r.VMID, r.Baseline.Node, r.VMID,
		strings.Join(slices.Sorted(maps.Keys(storages)), ", "))})
}
