package remove

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// unreferenced refuses, where the VM's entries elsewhere are to be kept, to destroy a VM that HA or replication names: PVE
// would refuse that after the guest was shut down (qemu-server API2/Qemu.pm destroy_vm). Otherwise it notes where
// replication has put copies, which PVE leaves: it drops the jobs alone (pve-guest-common ReplicationConfig.pm
// remove_vmid_jobs).
func (d *destruction) unreferenced(ctx context.Context) error {
	vmid := d.r.Ref.VMID
	if d.r.Ref.Node != d.node {
		d.suspects[d.r.Ref.Node] = "the VM was there before"
	}
	if len(d.resources.Nodes()) < 2 {
		return nil // neither HA nor replication
	}
	var names []string
	jobs, err := d.s.api.ReplicationJobs(ctx)
	if err != nil && !pve.IsKind(err, pve.Denied) && !pve.IsKind(err, pve.Unsupported) {
		return fmt.Errorf("look whether VM %d is replicated; it was not touched: %w", vmid, err)
	}
	for _, job := range jobs {
		if job.VMID == vmid {
			names = append(names, fmt.Sprintf("replication job %s to node %s (`pvesr delete %s`)", job.ID, job.Target, job.ID))
			d.suspects[job.Target] = "replication job " + job.ID + " made them, and PVE drops the job but not its copies"
		}
	}
	if !d.r.KeepReferences {
		return nil
	}
	listed, _ := d.resources.Guest(vmid)
	_, err = d.s.api.HAResource(ctx, vmid)
	if err == nil || listed.HAState != "" && !pve.IsKind(err, pve.NotFound) {
		names = append(names, fmt.Sprintf("HA resource vm:%d (`ha-manager remove vm:%d`)", vmid, vmid))
	}
	if len(names) == 0 {
		return nil
	}
	return named(vmid, names, nil)
}

// named is the refusal of on_destroy.purge = false.
func named(vmid int, names []string, err error) error {
	return &guest.FieldError{Path: "on_destroy.purge", Summary: fmt.Sprintf("VM %d is still named elsewhere", vmid), Err: err,
		Detail: fmt.Sprintf("PVE refuses to destroy it while HA or a replication job names it, and on_destroy.purge = false leaves these: %s. "+
			"The VM was not removed. Remove them yourself, or set on_destroy.purge = true and apply, then destroy", strings.Join(names, "; "))}
}

// copies says which volumes with the VM's id are in places where it may have left some. Nothing proves that they are its own
// and not of another VM that had the id, so they are named and not touched.
func (d *destruction) copies(ctx context.Context, left []tx.Residue) []guest.Warning {
	var lines []string
	for _, node := range slices.Sorted(maps.Keys(d.suspects)) {
		for _, storage := range d.resources.Storages(node) {
			if !strings.Contains(","+storage.Content+",", ",images,") || storage.Shared && node != d.node {
				continue
			}
			volumes, err := d.s.api.Content(ctx, node, storage.Storage, "images", d.r.Ref.VMID)
			if err != nil {
				lines = append(lines, fmt.Sprintf("  on node %s, storage %s could not be looked at: %v", node, storage.Storage, err))
			}
			for _, v := range volumes {
				if slices.ContainsFunc(left, func(r tx.Residue) bool { return r.ID == v.ID && r.Node == node }) {
					continue
				}
				lines = append(lines, fmt.Sprintf("  %s on node %s (%s): `pvesm free %s` there removes it", v.ID, node, d.suspects[node], v.ID))
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return []guest.Warning{{Summary: fmt.Sprintf("Volumes with the id of VM %d are left, and may be its own", d.r.Ref.VMID),
		Detail: "Nothing proves whose they are, so they were not touched:\n" + strings.Join(lines, "\n")}}
}
