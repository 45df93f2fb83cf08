package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Place is the first of the nodes that is online; "" if none is, or if the cluster cannot be asked.
func (c *Checker) Place(ctx context.Context, nodes []string) string {
	resources, err := c.api.Listing().Shared(ctx)
	if err != nil {
		return ""
	}
	node, _ := guest.FirstOnline(resources, nodes)
	return node
}

// OffNodes are those of some nodes that are not online. It is not known where the listing fails.
func (c *Checker) OffNodes(ctx context.Context, nodes []string) (off []string, known bool) {
	resources, err := c.api.Listing().Shared(ctx)
	if err != nil {
		return nil, false
	}
	for _, r := range resources {
		if r.Type == "node" && r.Status == "offline" && slices.Contains(nodes, r.Node) {
			off = append(off, r.Node)
		}
	}
	slices.Sort(off)
	return off, true
}

// CloneSource finds and reads what a clone is copied of. The answer may be some seconds old. A source that has moved
// since the listing is looked for once more: the plan within an apply must say again what an earlier one said.
func (c *Checker) CloneSource(ctx context.Context, clone *guest.Clone) (guest.Source, error) {
	resources, err := c.api.Listing().Shared(ctx)
	if err != nil {
		return guest.Source{}, err
	}
	source, err := cloneSourceIn(ctx, c, resources, clone)
	if guest.IsElsewhere(err) {
		c.api.Listing().Forget()
		if resources, failed := c.api.Listing().Shared(ctx); failed == nil {
			return cloneSourceIn(ctx, c, resources, clone)
		}
	}
	return source, err
}

func cloneSourceIn(ctx context.Context, c *Checker, resources pve.Resources, clone *guest.Clone) (guest.Source, error) {
	found, err := guest.FindSource(resources, clone)
	if err != nil {
		return guest.Source{}, err
	}
	config, err := c.guests.SourceConfig(ctx, found.Node, found.VMID)
	_, isMarked := ownership.Unfinished(found.VMID, config)
	source := guest.Source{Listed: found, Config: config, Description: guest.CopiedDescription(config),
		Unfinished: isMarked}
	if err != nil || clone.Snapshot == "" {
		return source, err
	}
	source.Config, err = c.api.QEMU(found.Node, found.VMID).SnapshotConfig(ctx, clone.Snapshot)
	return source, err
}

// moving reports obstacles to a migration: storages that the target lacks, devices and media of the present node, disks
// that depend on a base image there. If the server does not answer, it is not asked again.
func (p *planCheck) moving(ctx context.Context, c *Checker, r Request) {
	m := r.Moving
	if m == nil || m.From == p.node {
		return
	}
	renamed(p, r)
	found, err := c.api.QEMU(m.From, r.ID).MigrationPreconditions(ctx, p.node)
	if err != nil {
		return
	}
	refuse := func(path, detail string) { p.say(notMigrated, path, detail, strconv.Itoa(r.ID), p.node) }
	drives(p, r, found, refuse)
	companions(p, r, found)
	if r.Running && found.Running {
		offTarget(ctx, p, c, r)
	}
	p.crossing(ctx, c, r)
	devices(p, r, found, refuse)
	kept{p}.byNode(ctx, c, r, found.LocalDisks)
	for _, disk := range found.LocalDisks {
		path := "node"
		if disk.Drive != "" {
			path = disk.Drive
		}
		owner, owned := volid.Owner(disk.Volume)
		switch {
		case owned && owner != r.ID: // QemuMigrate.pm scan_local_volumes: "owned by other VM"
			refuse(path, fmt.Sprintf("The volume %s is on a storage of node %s alone and carries the id of VM %d, and PVE "+
				"migrates only "+
				"a VM's own. Detach it in an apply of its own, or have it on a shared storage.", disk.Volume, m.From, owner))
		case disk.CDROM && !strings.Contains(disk.Volume, "-cloudinit"):
			refuse(medium(r, disk, path))
		case volid.Base(disk.Volume) != "" && !disk.CDROM:
			refuse(path, fmt.Sprintf("The volume %s is a linked clone of a base image that only node %s has. Make the VM a "+
				"full clone, or use a shared storage.", disk.Volume, m.From))
		}
	}
}

// drives reports storages of drives that the target lacks, and disks that are no volumes.
func drives(p *planCheck, r Request, found pve.Preconditions, refuse func(path, detail string)) {
	pairs, byHA := vm.StorageMap(r.Prior, r.Prior, r.Planned), r.Moving.ByHA
	for _, storage := range slices.Sorted(slices.Values(found.Refused[p.node])) {
		if to, planned := pairs[storage]; planned && to != storage && !byHA {
			continue
		}
		path := "node"
		for _, slot := range slices.Sorted(maps.Keys(r.Prior.Disks)) {
			if r.Prior.Disks[slot].Storage == storage {
				path = "disks." + slot + ".storage"
				break
			}
		}
		way := "Give the disks a storage there in the same change; they are copied to it on the way."
		if byHA {
			way = "The VM is under HA, which migrates disks to storages of their name alone. Move them in an apply of its own " +
				"to a storage that both nodes have, or take the VM out of HA in the same change (leave ha out)."
		}
		refuse(path, fmt.Sprintf("Drives of the VM are on storage %s, which node %s does not have. %s", storage, p.node, way))
	}
	for _, slot := range slices.Sorted(maps.Keys(r.Prior.Disks)) {
		disk := r.Prior.Disks[slot]
		if strings.HasPrefix(disk.Volume, "/") && (disk.Shared == nil || !*disk.Shared) {
			// QemuMigrate.pm scan_local_volumes: "local file/device"; the preconditions do not list it
			refuse("disks."+slot, fmt.Sprintf("%s is a device or file of node %s. Detach it in an apply of its own, or set "+
				"shared = true if it is the same one on node %s.", disk.Volume, r.Moving.From, p.node))
		}
	}
}

// devices reports the devices that a VM cannot take along. PVE migrates mapped ones if the guest is off and the target
// has the mapping (qemu-server QemuMigrate.pm prepare), although it lists some as local; and the update shuts a guest
// down before it migrates the VM. A few options are in the way of a running guest only (QemuMigrate/Helpers.pm
// check_non_migratable_resources); "virtiofs" is listed beside each virtiofsN.
func devices(p *planCheck, r Request, found pve.Preconditions, refuse func(path, detail string)) {
	for _, device := range found.LocalResources {
		moves := slices.Contains(found.Mapped, device) ||
			slices.Contains([]string{"amd-sev", "intel-tdx", "clipboard=vnc"}, device)
		switch {
		case device == "virtiofs", moves && !(r.Running && found.Running):
		case moves:
			refuse(device, fmt.Sprintf("PVE does not migrate a running VM with %s. Set power_state = \"stopped\" in "+
				"the same change, which shuts the guest down first, and start it on node %s in the next apply.", device,
				p.node))
		default:
			refuse(device, fmt.Sprintf("%s is a device of node %s. Take it out in an apply of its own, or use a resource "+
				"mapping that both nodes have, which a VM that is off takes along.", device, r.Moving.From))
		}
	}
	for _, device := range found.Unmapped[p.node] {
		refuse(device, fmt.Sprintf("%s has a resource mapping that node %s is not in. Take the device out in an apply of "+
			"its own, or add the node to the mapping.", device, p.node))
	}
}

// medium says of a medium that only the present node has how it goes, where the drive stands in the configuration. The
// update migrates the VM before it changes its drives.
func medium(r Request, disk pve.LocalDisk, path string) (at, detail string) {
	detail = fmt.Sprintf("The medium %s is on a storage of node %s alone. ", disk.Volume, r.Moving.From)
	if _, known := r.Prior.CDROMs[disk.Drive]; !known {
		return path, detail + "Eject it (file = \"none\") in an apply of its own, or use a shared storage."
	}
	path = "cdroms." + disk.Drive
	if drive, stays := r.Planned.CDROMs[disk.Drive]; !stays || drive.File != disk.Volume {
		return path, detail + fmt.Sprintf("The plan takes it out of %s, but only after the migration. Apply that change "+
			"first, with the VM on node %s, and then the new node.", path, r.Moving.From)
	}
	return path, detail + "Eject it (file = \"none\") in an apply of its own, or use a shared storage."
}

// renamed reports the VM's own volumes that are to come into slots, or to be copied, by their names: on arrival another
// disk may have such a name. Those on a shared storage keep theirs (qemu-server QemuMigrate.pm scan_local_volumes).
func renamed(p *planCheck, r Request) {
	named, copies := maps.Clone(r.Moving.Attached), p.change.Copies()
	if named == nil {
		named = copies
	}
	maps.Copy(named, copies)
	for _, slot := range slices.Sorted(maps.Keys(named)) {
		volume, path := named[slot], "disks."+slot+".imported_disk.volume"
		if copies[slot] != "" {
			path = guest.ImportPath(slot)
		}
		owner, owned := volid.Owner(volume)
		at, _ := p.resources.Storage(r.Moving.From, volid.Storage(volume))
		if !owned || owner != r.ID || at.Shared {
			continue
		}
		p.say(renamedOnTheWay, path, guest.RenamedOnTheWay(volume, slot), slot, strconv.Itoa(r.ID), p.node)
	}
}

// companions reports the guests that HA moves along with the VM, and those that it keeps apart from it.
func companions(p *planCheck, r Request, found pve.Preconditions) {
	path, vmid := "node", strconv.Itoa(r.ID)
	if len(r.Nodes) > 0 {
		path = "nodes"
	}
	if along := movedAlong(p.resources, p.node, found.Dependent); along != "" {
		p.say(movesAlong, path, fmt.Sprintf("HA rules of positive resource affinity keep them together with the VM: %s. If "+
			"they are to stay, take the VM or them out of the rule first (Datacenter > HA > Affinity Rules, or its "+
			"proxmox_ha_rule), or leave the VM on node %s", along, r.Moving.From), p.node, vmid)
	}
	if apart := found.Blocking[p.node]; len(apart) > 0 {
		p.say(keptApart, path, fmt.Sprintf("A rule of negative resource affinity keeps the VM apart from %s, on that node "+
			"or on the way to it, and HA refuses the migration. Move that away first, take it or the VM out of the rule "+
			"(Datacenter > HA > Affinity Rules, or its proxmox_ha_rule), or choose another node. If an object of this apply "+
			"does so, let the VM depend on it", strings.Join(apart, ", ")), vmid, p.node)
	}
}

// movedAlong names the guests that HA moves to a node with a VM, stopped ones too (pve-ha-manager HA/Manager.pm
// queue_resource_motion). A container is shut down for it and started again (HA/Resources/PVECT.pm migrate).
func movedAlong(resources pve.Resources, node string, sids []string) string {
	var guests []string
	for _, sid := range sids {
		kind, id, _ := strings.Cut(sid, ":")
		vmid, _ := strconv.Atoi(id)
		listed, isListed := resources.Guest(vmid)
		if isListed && listed.Node == node {
			continue
		}
		name := sid
		if isListed {
			name = fmt.Sprintf("%s from node %s", guest.Named(listed), listed.Node)
		}
		if kind == "ct" {
			name += ", which HA shuts down and then starts again if it runs"
		}
		guests = append(guests, name)
	}
	return strings.Join(guests, "; ")
}

// crossing reports the bridges that the VM is on now and the target lacks, if the plan has others: the guest arrives
// with its present bridges, and its options change afterwards. A guest that is off needs none to move.
func (p *planCheck) crossing(ctx context.Context, c *Checker, r Request) {
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
			if networks, err = c.nodeNetworks(ctx, p.node); err != nil {
				return
			}
		}
		if !slices.ContainsFunc(networks, func(n pve.Network) bool { return n.Name == *was }) {
			p.say(notMigrated, "networks."+slot+".bridge", fmt.Sprintf("The VM runs with %s on bridge %s, which node %s "+
				"does not have. Move the "+
				"device to a bridge that both nodes have in an apply of its own, or shut the VM down first.", slot, *was, p.node),
				strconv.Itoa(r.ID), p.node)
		}
	}
}
