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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// replicated reports disks that a replicated VM is to get and that cannot be replicated. PVE refuses them (qemu-server
// API2/Qemu.pm update_vm_api, $check_replication) with the options, after a shutdown and a migration. The jobs are
// asked for only where there is such a disk.
func replicated(ctx context.Context, p *planCheck, c *Checker, r Request) {
	if r.Creating || r.Acting || r.ID == 0 || len(p.resources.Nodes()) < 2 {
		return
	}
	gets := maps.Clone(p.change.Set)
	maps.DeleteFunc(gets, func(option, _ string) bool { return !vm.IsSlot(option) })
	if len(gets) == 0 {
		return
	}
	has := vm.Encode(r.Prior)
	for _, slot := range slices.Sorted(maps.Keys(gets)) {
		drive := gets[slot]
		if has[slot] != "" || mayBeReplicated(p, drive) {
			continue
		}
		jobs := c.replicationOf(ctx, r.ID)
		if len(jobs) == 0 {
			return
		}
		attribute, _ := vm.AttributeOf(slot)
		p.say(replicationRefuses, attribute.In(slot), fmt.Sprintf("Replication job %s copies the disks of the VM to node "+
			"%s. PVE replicates only those on ZFS, and adds no other disk of one node: %s. Set replicate = false on the "+
			"disk, choose a storage of type zfspool or a shared one, or remove the job first (Datacenter > Replication). Else "+
			"the apply fails there, after the steps before it.", jobs[0].ID, jobs[0].Target, guest.VolumeOf(drive)),
			strconv.Itoa(r.ID), slot)
	}
}

// replicationOf are the replication jobs of a VM, as far as they can be seen.
func (c *Checker) replicationOf(ctx context.Context, vmid int) []pve.ReplicationJob {
	jobs, err := c.replication.Get(ctx, c.clock, "", c.api.Cluster().ReplicationJobs)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(jobs), func(j pve.ReplicationJob) bool { return j.VMID != vmid })
}

// offTarget reports a running VM with replication jobs that is to migrate to a node which is the target of none. PVE
// asks for that before it hands the VM to HA (qemu-server API2/Qemu.pm migrate_vm), and only root may say `force`.
func offTarget(ctx context.Context, p *planCheck, c *Checker, r Request) {
	jobs := c.replicationOf(ctx, r.ID)
	if len(jobs) == 0 || slices.ContainsFunc(jobs, func(j pve.ReplicationJob) bool { return j.Target == p.node }) {
		return
	}
	p.say(replicatedElsewhere, "node", fmt.Sprintf("Replication job %s copies its disks to node %s, and PVE migrates a "+
		"running VM with such jobs only to the target of one. Give it a job with that node as the target, or remove its "+
		"jobs first (Datacenter > Replication), or migrate it with power_state = \"stopped\". Else the apply fails there, "+
		"after the steps before it.", jobs[0].ID, jobs[0].Target), strconv.Itoa(r.ID), p.node)
}

// mayBeReplicated reports whether PVE adds a drive to a replicated VM, as far as the listing tells: one on ZFS or on a
// shared storage, a medium, or one with replicate=0 (pve-storage ZFSPoolPlugin.pm storage_can_replicate; the other
// plugins replicate nothing).
func mayBeReplicated(p *planCheck, drive string) bool {
	parts := strings.Split(drive, ",")
	if slices.Contains(parts, "replicate=0") || slices.Contains(parts, "media=cdrom") || parts[0] == "none" {
		return true
	}
	if volid.IsDevice(parts[0]) {
		return false
	}
	id, name, _ := strings.Cut(parts[0], ":")
	storage, seen := p.resources.Storage(p.node, id)
	return !seen || storage.Shared || storage.PluginType == "zfspool" || name == "cloudinit"
}
