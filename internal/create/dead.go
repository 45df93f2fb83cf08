package create

import (
	"context"
	"fmt"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// checkTaken looks at the guest that has a configured id. Only what a dead create of this provider left is removed;
// everything else is somebody's.
func (s *Creator) checkTaken(ctx context.Context, resources pve.Resources, listed pve.Resource) error {
	mark, config, ok := s.guests.Unfinished(ctx, resources, listed)
	if !ok && (listed.Lock == "create" || listed.Lock == "clone") {
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VMID %d is taken by a half-made VM", listed.VMID),
			Detail: fmt.Sprintf("%s %d on node %s is locked (%s): a task is making it, or died over it. It bears no mark of this provider and was not touched. "+
				"If no task is at work on it (see the node's task list), `qm unlock %d && qm destroy %d --purge` removes it",
				guest.KindName(listed.Type), listed.VMID, listed.Node, listed.Lock, listed.VMID, listed.VMID)}
	}
	if !ok {
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VMID %d is taken", listed.VMID),
			Detail: fmt.Sprintf("%s %d (%s) on node %s has this id; it was not touched. Choose another vmid, leave it out to get a free one, "+
				"or adopt the VM with terraform import", guest.KindName(listed.Type), listed.VMID, listed.Name, listed.Node)}
	}
	return s.removeDead(ctx, resources, listed, mark, config, "vmid")
}

// removeDeadNamed looks for what a dead create of a VM with this name left under an automatic id. A name may be used twice, so
// only uncommitted work of this provider counts. The listing learns a name some 10 s late, and whoever kills a run and starts
// it again is quicker: the guests without a name are read, but for those that this process made.
func (s *Creator) removeDeadNamed(ctx context.Context, resources pve.Resources, name string) error {
	for _, guest := range append(resources.GuestsNamed(name), resources.Unnamed()...) {
		if s.made(guest.VMID) {
			continue
		}
		mark, config, ok := s.guests.Unfinished(ctx, resources, guest)
		if !ok || s.isActive(mark.TX) || config["name"] != name {
			continue
		}
		if err := s.removeDead(ctx, resources, guest, mark, config, "name"); err != nil {
			return err
		}
	}
	return nil
}

// removeDead removes what a dead create left, once its lease is over.
func (s *Creator) removeDead(ctx context.Context, resources pve.Resources, listed pve.Resource, mark guest.Stamp, config map[string]string, path string) error {
	if mark.Deadline.After(s.api.ServerTime()) {
		return &guest.FieldError{Path: path, Summary: fmt.Sprintf("VM %d is being created by another run", listed.VMID),
			Detail: fmt.Sprintf("Transaction %s of this provider holds VM %d (%s) on node %s until %s. If that run is dead, remove what it left with "+
				"`qm unlock %d; qm stop %d; qm destroy %d --purge` on the node, or wait: after that time the next create removes it by itself",
				mark.TX, listed.VMID, listed.Name, listed.Node, mark.Deadline.Format(time.RFC3339), listed.VMID, listed.VMID, listed.VMID)}
	}
	storages, err := s.guests.ImageStorages(ctx, resources, listed.Node)
	if err != nil {
		return err
	}
	f, err := s.guests.NewFence(ctx, resources, listed.Node, listed.VMID, storages)
	if err != nil {
		return err
	}
	f.Release(config, listed.VMID)
	dead := remove.Target{VMID: listed.VMID, Nodes: []string{listed.Node}, Fence: f, Ledger: &job.Ledger{}, Stamp: mark, Pool: listed.Pool}
	if err := s.remover.Remove(ctx, dead); err != nil {
		return &guest.FieldError{Path: path, Summary: fmt.Sprintf("Cannot remove what a dead create left of VM %d", listed.VMID),
			Detail: "Its lease ended " + mark.Deadline.Format(time.RFC3339), Err: err}
	}
	return nil
}
