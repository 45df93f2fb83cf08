package provision

import (
	"context"
	"fmt"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// reclaim looks at the guest that has a configured id. Only what a dead create of this provider left is removed;
// everything else is somebody's.
func (s *Service) reclaim(ctx context.Context, resources pve.Resources, guest pve.Resource) error {
	mark, config, ok := s.unfinished(ctx, resources, guest)
	if !ok && (guest.Lock == "create" || guest.Lock == "clone") {
		return &FieldError{Path: "vmid", Summary: fmt.Sprintf("VMID %d is taken by a half-made VM", guest.VMID),
			Detail: fmt.Sprintf("%s %d on node %s is locked (%s): a task is making it, or died over it. It bears no mark of this provider and was not touched. "+
				"If no task is at work on it (see the node's task list), `qm unlock %d && qm destroy %d --purge` removes it",
				kindName(guest.Type), guest.VMID, guest.Node, guest.Lock, guest.VMID, guest.VMID)}
	}
	if !ok {
		return &FieldError{Path: "vmid", Summary: fmt.Sprintf("VMID %d is taken", guest.VMID),
			Detail: fmt.Sprintf("%s %d (%s) on node %s has this id; it was not touched. Choose another vmid, leave it out to get a free one, "+
				"or adopt the VM with terraform import", kindName(guest.Type), guest.VMID, guest.Name, guest.Node)}
	}
	return s.bury(ctx, resources, guest, mark, config, "vmid")
}

// reclaimName looks for what a dead create of a VM with this name left under an automatic id. A name may be used twice, so
// only uncommitted work of this provider counts. The listing learns a name some 10 s late, and whoever kills a run and starts
// it again is quicker: the guests without a name are read, but for those that this process made.
func (s *Service) reclaimName(ctx context.Context, resources pve.Resources, name string) error {
	for _, guest := range append(resources.GuestsNamed(name), resources.Unnamed()...) {
		if s.made(guest.VMID) {
			continue
		}
		mark, config, ok := s.unfinished(ctx, resources, guest)
		if !ok || s.isActive(mark.TX) || config["name"] != name {
			continue
		}
		if err := s.bury(ctx, resources, guest, mark, config, "name"); err != nil {
			return err
		}
	}
	return nil
}

// unfinished reads the stamp of a guest that a create of this provider, dead or alive, has not committed.
func (s *Service) unfinished(ctx context.Context, resources pve.Resources, guest pve.Resource) (stamp, map[string]string, bool) {
	if guest.Type != "qemu" {
		return stamp{}, nil, false
	}
	config, err := s.api.CurrentConfig(ctx, guest.Node, guest.VMID)
	if err != nil {
		return stamp{}, nil, false
	}
	mark, ok := parseStamp(config.Values["description"])
	return mark, config.Values, ok && mark.VMID == guest.VMID && mark.Cluster == clusterName(resources)
}

// bury removes what a dead create left, once its lease is over.
func (s *Service) bury(ctx context.Context, resources pve.Resources, guest pve.Resource, mark stamp, config map[string]string, path string) error {
	if mark.Deadline.After(s.api.ServerTime()) {
		return &FieldError{Path: path, Summary: fmt.Sprintf("VM %d is being created by another run", guest.VMID),
			Detail: fmt.Sprintf("Transaction %s of this provider holds VM %d (%s) on node %s until %s. If that run is dead, remove what it left with "+
				"`qm unlock %d; qm stop %d; qm destroy %d --purge` on the node, or wait: after that time the next create removes it by itself",
				mark.TX, guest.VMID, guest.Name, guest.Node, mark.Deadline.Format(time.RFC3339), guest.VMID, guest.VMID, guest.VMID)}
	}
	storages, err := s.imageStorages(ctx, resources, guest.Node)
	if err != nil {
		return err
	}
	f, err := s.newFence(ctx, guest.Node, guest.VMID, storages)
	if err != nil {
		return err
	}
	f.release(config, guest.VMID)
	dead := Target{vmid: guest.VMID, nodes: []string{guest.Node}, fence: f, ledger: &ledger{}, stamp: mark, pool: guest.Pool}
	if err := s.remove(ctx, dead); err != nil {
		return &FieldError{Path: path, Summary: fmt.Sprintf("Cannot remove what a dead create left of VM %d", guest.VMID),
			Detail: "Its lease ended " + mark.Deadline.Format(time.RFC3339), Err: err}
	}
	return nil
}

func kindName(typ string) string {
	if typ == "lxc" {
		return "Container"
	}
	return "VM"
}
