package create

import (
	"context"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// A VM that lacks nothing but its commit is what the configuration wants already: it is offered for import, which costs nothing, instead of
// being destroyed and made again.

// lacksCommit reports whether the VM that a dead create left is, as far as an update would look, what this one is to make. What its disks
// hold is compared by nobody. Volumes to adopt are attached after the commit, so they are missing.
func (s *Creator) lacksCommit(ctx context.Context, r Request, u unfinished) bool {
	has := vm.Decode(u.config)
	want := vm.Merge(has, r.Spec)
	want.Description, want.Protection, want.Template = has.Description, has.Protection, r.Spec.Template
	want.CloudInit.PasswordHash = nil // PVE does not show it
	vm.Complete(&want)
	node := r.Node == "" && len(r.Nodes) == 0 || r.Node == u.listed.Node || slices.Contains(r.Nodes, u.listed.Node)
	sameKind := len(r.Adopts) == 0 && r.Pool == u.listed.Pool && (r.Restore != nil) != u.mark.Restore.IsZero()
	if u.config["lock"] != "" || !node || !sameKind || !vm.Diff(has, want).Empty() {
		return false
	}
	isTemplate := r.Spec.Template != nil && *r.Spec.Template
	if r.Start && !isTemplate {
		status, err := s.api.GuestStatus(ctx, u.listed.Node, u.listed.VMID)
		if err != nil || !status.IsRunning() {
			return false
		}
	} else if r.Firewall != nil && !isTemplate { // what comes after it shows that it is set
		return false
	}
	if r.HA == nil {
		return true
	}
	entry, err := s.guests.ReadHA(ctx, u.listed.VMID)
	return err == nil && entry != nil
}

// offer says how a VM is taken over that lacks nothing but its commit.
func offer(u unfinished, path string) error {
	return &guest.FieldError{Path: path,
		Summary: fmt.Sprintf("VM %d (%s) is complete but for its last request", u.listed.VMID, u.config["name"]),
		Detail: fmt.Sprintf("A run of this provider that is over (transaction %s) has made it on node %s, as this configuration wants it, and "+
			"has only not put its description right. Take it over with `terraform import ADDRESS %d`, or with an import block, and apply: that "+
			"finishes it. If it is not to stay, `qm stop %d; qm destroy %d --purge` as root on the node removes it, and the next apply makes "+
			"another", u.mark.TX, u.listed.Node, u.listed.VMID, u.listed.VMID, u.listed.VMID)}
}
