package snapshot

import (
	"context"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// inTheWay is the snapshot that has the wanted name and is not this one; nil for none.
func (t *taking) inTheWay(ctx context.Context) (*pve.Snapshot, error) {
	all, err := t.api.QEMU(t.node, t.want.VMID).Snapshots(ctx)
	i := slices.IndexFunc(all, func(found pve.Snapshot) bool {
		return found.Name == t.want.Name && !t.mark.isOn(found.Description)
	})
	if err != nil || i < 0 {
		return nil, err
	}
	return &all[i], nil
}

// lookAtName refuses a name that is taken: a snapshot of that name is not this one.
func (t *taking) lookAtName(ctx context.Context) error {
	found, err := t.inTheWay(ctx)
	if err != nil || found == nil {
		return err
	}
	refused := t.errTaken(found)
	if !isMarked(found.Description) {
		refused.Summary += fmt.Sprintf(", or take that one over: its import id is %d/%s", t.want.VMID, found.Name)
	}
	return refused
}

// foreseeName refuses a replacement whose new name is taken. It may be that of another object in state, which goes in
// the same apply. No plan shows whether Terraform orders that before, as by depends_on, so no import is advised either.
func (t *taking) foreseeName(ctx context.Context) error {
	found, err := t.inTheWay(ctx)
	if err != nil || found == nil {
		return err
	}
	refused := t.errTaken(found)
	refused.Detail = "If it is that of another resource which lets go of it in this plan, as the next one of a list " +
		"with count does, Terraform may not remove it first. Use for_each with the names as keys, and terraform state mv " +
		"to give each snapshot its key; or remove that one in an apply of its own"
	return refused
}

func (t *taking) errTaken(found *pve.Snapshot) *guest.FieldError {
	text := fmt.Sprintf("VM %d on node %s has a snapshot %s already, taken at %s", t.want.VMID, t.node, found.Name,
		moment(found.Taken))
	if isMarked(found.Description) {
		text = fmt.Sprintf("%s by a run of Terraform that is at work, or was killed. If no task is at work "+
			"on the VM, %s as root on node %s removes it", text,
			shell.Or(removal(t.want.VMID, found.Name), "a command that you write yourself"), t.node)
	} else {
		text += ". Take another name"
	}
	return &guest.FieldError{Path: "name", Summary: text}
}
