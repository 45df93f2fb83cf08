package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Place is the first of the nodes that is online; "" if none is, or if the cluster cannot be asked.
func (s *Checker) Place(ctx context.Context, nodes []string) string {
	resources, err := s.api.SharedResources(ctx)
	if err != nil {
		return ""
	}
	node, _ := guest.FirstOnline(resources, nodes)
	return node
}

// moving reports what stands in the way of a migration: storages that the target does not have, devices and media of the node
// that the VM is on, disks that depend on a base image there. A server that does not say is not asked again.
func (c *planCheck) moving(ctx context.Context, s *Checker, r Request) {
	m := r.Moving
	if m == nil || m.From == c.node {
		return
	}
	p, err := s.api.MigrationPreconditions(ctx, m.From, r.ID, c.node)
	if err != nil {
		return
	}
	refuse := func(path, detail string) { c.say(notMigrated, path, detail, strconv.Itoa(r.ID), c.node) }
	pairs := vm.StorageMap(r.Prior, r.Planned)
	for _, storage := range slices.Sorted(slices.Values(p.Refused[c.node])) {
		if to, planned := pairs[storage]; planned && to != storage {
			continue
		}
		path := "node"
		for _, slot := range slices.Sorted(maps.Keys(r.Prior.Disks)) {
			if r.Prior.Disks[slot].Storage == storage {
				path = "disks." + slot + ".storage"
				break
			}
		}
		refuse(path, fmt.Sprintf("Drives of the VM are on storage %s, which node %s does not have. Give the disks a storage there in the same "+
			"change; they are copied to it on the way.", storage, c.node))
	}
	c.crossing(ctx, s, r)
	for _, device := range p.LocalResources {
		refuse(device, fmt.Sprintf("%s is a device of node %s. Take it out in an apply of its own, or use a resource mapping that both nodes "+
			"have.", device, m.From))
	}
	for _, disk := range p.LocalDisks {
		path := "node"
		if disk.Drive != "" {
			path = disk.Drive
		}
		owner, owned := vm.VolumeOwner(disk.Volume)
		switch {
		case owned && owner != r.ID: // QemuMigrate.pm scan_local_volumes: "owned by other VM"
			refuse(path, fmt.Sprintf("The volume %s is on a storage of node %s alone and carries the id of VM %d, and PVE migrates only "+
				"a VM's own. Detach it in an apply of its own, or have it on a shared storage.", disk.Volume, m.From, owner))
		case disk.CDROM && !strings.Contains(disk.Volume, "-cloudinit"):
			refuse(path, fmt.Sprintf("The medium %s is on a storage of node %s alone. Eject it (file = \"none\") in an apply of its own, or use a "+
				"shared storage.", disk.Volume, m.From))
		case vm.IsLinkedClone(disk.Volume) && !disk.CDROM:
			refuse(path, fmt.Sprintf("The volume %s is a linked clone of a base image that only node %s has. Make the VM a full clone, or use a "+
				"shared storage.", disk.Volume, m.From))
		}
	}
}

// crossing reports the bridges that the VM is on now and the target lacks, where the plan has others: the guest arrives with
// those that it has, and its options change afterwards. One that is off needs none to move.
func (c *planCheck) crossing(ctx context.Context, s *Checker, r Request) {
	if !r.Running {
		return
	}
	var networks []pve.Network
	for _, slot := range slices.Sorted(maps.Keys(r.Prior.Networks)) {
		was, is := r.Prior.Networks[slot].Bridge, r.Planned.Networks[slot].Bridge
		if was == nil || is != nil && *is == *was { // one that stays is reported as what the plan wants
			continue
		}
		if networks == nil {
			var err error
			if networks, err = s.nodeNetworks(ctx, c.node); err != nil {
				return
			}
		}
		if !slices.ContainsFunc(networks, func(n pve.Network) bool { return n.Name == *was }) {
			c.say(notMigrated, "networks."+slot+".bridge", fmt.Sprintf("The VM runs with %s on bridge %s, which node %s does not have. Move the "+
				"device to a bridge that both nodes have in an apply of its own, or shut the VM down first.", slot, *was, c.node),
				strconv.Itoa(r.ID), c.node)
		}
	}
}
