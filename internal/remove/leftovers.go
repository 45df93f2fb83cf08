package remove

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Recheck says which remembered residues of a VM in state are still there.
func (s *Remover) Recheck(ctx context.Context, ref guest.Ref, left []tx.Residue) ([]tx.Residue, error) {
	if len(left) == 0 {
		return nil, nil
	}
	var remaining []tx.Residue
	has := s.attached(ctx, ref)
	for _, residue := range left {
		if guest.Uses(has, residue.ID) {
			continue
		}
		there, err := s.exists(ctx, ref, residue)
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", residue.What, err)
		}
		if there {
			remaining = append(remaining, residue)
		}
	}
	return remaining, nil
}

// attached is the configuration of the VM in state, if it is there: what it has is no leftover, although a destroy that lost
// sight of the VM took it for one.
func (s *Remover) attached(ctx context.Context, ref guest.Ref) map[string]string {
	config, err := s.api.CurrentConfig(ctx, ref.Node, ref.VMID)
	if err != nil || !ref.Identity.Matches(guest.IdentityOf(config.Values)) {
		return nil
	}
	return config.Values
}

// exists looks for one residue. A VM under a residue's id that is somebody else's by now is none.
func (s *Remover) exists(ctx context.Context, ref guest.Ref, residue tx.Residue) (bool, error) {
	if residue.Kind == "guest" {
		vmid, err := strconv.Atoi(residue.ID)
		if err != nil {
			return false, err
		}
		config, err := s.api.CurrentConfig(ctx, residue.Node, vmid)
		switch {
		case pve.IsKind(err, pve.NotFound):
			return false, nil
		case err != nil:
			return false, err
		case ref.Proof != nil:
			return ref.Proof.Whose(config.Values) != guest.Stranger, nil
		}
		return ref.Identity.Matches(guest.IdentityOf(config.Values)), nil
	}
	vmid, _ := vm.VolumeOwner(residue.ID)
	volumes, err := s.api.Content(ctx, residue.Node, vm.VolumeStorage(residue.ID), "images", vmid)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(volumes, func(v pve.Volume) bool { return v.ID == residue.ID }) {
		return true, nil
	}
	f := guest.OwnFence(residue.Node, vmid, []string{residue.ID})
	err = f.Sees(ctx, s.guests) // PVE leaves out in silence what may not be seen: that is no proof
	return len(f.Blind) > 0, err
}

// remains says which volumes with the VM's id are where it may have left some, or were seen on the way. Nothing proves that they
// are its own and not of another VM that had the id, so they are named and not touched. left is named elsewhere.
func (d *destruction) remains(ctx context.Context, gone *removal, left []tx.Residue) []guest.Warning {
	if gone.taken || gone.unseen {
		return nil // they are of whoever has the id now
	}
	d.asked = d.s.surveyor.Ask()
	seen := map[string]string{} // by what people read: why it may be the VM's
	var lines []string
	if gone.gone {
		for _, volume := range gone.Fence.Others { // as likely somebody's, so no command is given that frees it
			lines = append(lines, fmt.Sprintf("  %s on node %s, which its configuration did not name", volume, gone.Fence.Node))
		}
	}
	var unseen []string
	for _, at := range d.locations() {
		volumes, err := d.s.api.Content(ctx, at.node, at.storage, "images", d.r.Ref.VMID)
		if err != nil {
			unseen = append(unseen, fmt.Sprintf("  on node %s, storage %s could not be looked at: %v", at.node, at.storage, err))
		}
		for _, v := range volumes {
			named := slices.ContainsFunc(left, func(r tx.Residue) bool { return r.ID == v.ID && r.Node == at.node })
			if !named && !(gone.at == at.node && guest.Uses(gone.has, v.ID)) { // else it is the VM's, which stands
				seen[v.ID+" on node "+at.node] = fmt.Sprintf("(%s)%s", at.why, d.freeing(ctx, at.node, v.ID))
			}
		}
	}
	for _, volume := range slices.Sorted(maps.Keys(seen)) {
		lines = append(lines, fmt.Sprintf("  %s %s", volume, seen[volume]))
	}
	if lines = append(lines, unseen...); len(lines) == 0 {
		return nil
	}
	return []guest.Warning{{Summary: fmt.Sprintf("Volumes with the id of VM %d are left, and may be its own", d.r.Ref.VMID),
		Detail: "Nothing proves whose they are, so they were not touched:\n" + strings.Join(lines, "\n")}}
}

// freeing says how a volume that nobody proves to be ours is removed, unless somebody uses it, or may.
func (d *destruction) freeing(ctx context.Context, node, volume string) string {
	others, err := d.s.surveyor.Since(ctx, d.asked, scopeOf(d.resources, node, []string{volume}))
	if err != nil {
		return fmt.Sprintf(", and whether somebody uses it could not be looked at: %v", err)
	}
	if err := inUse(others, []string{volume}, 0); err != nil {
		return fmt.Sprintf(": %v", err)
	}
	return fmt.Sprintf(": `pvesm free %s` there removes it", volume)
}

// location is a storage on a node on which the VM may have left volumes.
type location struct{ node, storage, why string }

// locations are those to be looked at: of nodes that may have copies all that hold disks, and of the VM's own node, if it has had
// a cloud-init drive, the block storages. PVE cannot free such a drive that it moves off one while the guest runs, and only logs that
// (qemu-server API2/Qemu.pm move_vm_disk).
func (d *destruction) locations() []location {
	var all []location
	for _, node := range slices.Sorted(maps.Keys(d.copied)) {
		for _, storage := range d.resources.Storages(node) {
			if holdsImages(storage) && (!storage.Shared || node == d.node) {
				all = append(all, location{node, storage.Storage, d.copied[node]})
			}
		}
	}
	if d.copied[d.node] != "" || !hasCloudInitDrive(d.config) {
		return all
	}
	own := ownVolumes(d.r.Ref.VMID, d.config.Current(), d.config.Merged())
	for _, storage := range d.resources.Storages(d.node) {
		looked := slices.ContainsFunc(own, func(v string) bool { return vm.VolumeStorage(v) == storage.Storage })
		if holdsImages(storage) && !looked && slices.Contains([]string{"zfspool", "zfs", "lvm", "lvmthin", "rbd"}, storage.PluginType) {
			all = append(all, location{d.node, storage.Storage, "PVE leaves a cloud-init drive that is moved while the guest runs"})
		}
	}
	return all
}

func hasCloudInitDrive(config pve.PendingConfig) bool {
	for _, value := range config.Current() {
		if strings.Contains(guest.VolumeOf(value), "-cloudinit") {
			return true
		}
	}
	return false
}
