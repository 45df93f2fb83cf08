package tfvm

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// A volume that is there before its VM must outlive the VM's roll-back, and PVE destroys every volume that carries the VM's id together
// with the VM, detached ones too. So the VM is made and committed without it, is not started, and gets it by a change of its own,
// which takes nothing back when it fails.

// adopts are the volumes that are to become disks of a VM that is not there yet. A device of the node is nobody's to destroy.
func (m *model) adopts() []create.Adopted {
	var all []create.Adopted
	for _, slot := range sortedSlots(m.Disks) {
		is := m.Disks[slot].Imported
		if is == nil || is.Volume == nil || vm.IsDevice(*is.Volume) || m.borrows(*is.Volume) {
			continue
		}
		all = append(all, create.Adopted{Slot: slot, Volume: *is.Volume, SHA256: value(is.SHA256)})
	}
	return all
}

// borrows reports whether a volume carries the id of another VM than this, which may have none yet.
func (m *model) borrows(volume string) bool {
	owner, ok := vm.VolumeOwner(volume)
	return ok && int64(owner) != value(m.VMID)
}

// withoutAdopted is the VM that the create makes where volumes are adopted: stopped, without them and what needs them.
func (m model) withoutAdopted() model {
	disks := map[string]diskModel{}
	for slot, d := range m.Disks {
		if d.Imported == nil || vm.IsDevice(value(d.Imported.Volume)) || m.borrows(value(d.Imported.Volume)) {
			disks[slot] = d
		}
	}
	m.Disks, m.BootOrder, m.HA, m.WaitFor, m.PowerState = disks, nil, nil, nil, new(string(guest.Stopped))
	return m
}

// adopt gives a VM that was just made the volumes that were there before it, and starts it. The guest is as it is then.
func (r *Resource) adopt(ctx context.Context, plan model, made guest.Guest) (guest.Guest, []guest.Warning, error) {
	first := plan.withoutAdopted()
	request := change.Request{
		Ref: guest.Ref{VMID: made.VMID, Node: made.Node, Identity: made.Identity, Status: made.Status, Firewall: plan.Firewall != nil,
			HA: plan.HA != nil},
		Prior: first.spec(false), Planned: plan.spec(false),
		PriorPool: value(plan.Pool), Pool: value(plan.Pool), PriorFirewall: plan.Firewall, Firewall: plan.Firewall, HA: plan.HA,
		Wait: plan.WaitFor.request(),
	}
	for _, a := range plan.adopts() {
		d := request.Planned.Disks[a.Slot]
		d.Volume = a.Volume
		request.Planned.Disks[a.Slot] = d
	}
	if request.Planned.BootOrder == nil {
		request.Planned.BootOrder = vm.BootOrderWith(made.Spec.BootOrder, request.Planned.Disks)
	}
	request.BootOrder = request.Planned.BootOrder
	if plan.startsWhenMade() {
		request.PowerState = guest.Running
	}
	whole, warnings, err := r.machines.Update(ctx, request)
	if whole.VMID == 0 {
		whole = made
	}
	if err != nil {
		err = fmt.Errorf("%w\n\nVM %d was made and stays, since a roll-back would destroy what was there before it: %s. Tell Terraform "+
			"to keep the VM with `terraform untaint` and its address; the next apply then does what is missing", err, made.VMID,
			strings.Join(volumesOf(plan.adopts()), ", "))
	}
	return whole, warnings, err
}

func volumesOf(adopts []create.Adopted) []string {
	var all []string
	for _, a := range adopts {
		all = append(all, a.Volume)
	}
	return all
}

// adoptAfter is what becomes of a VM that was made, with the volumes that it adopts, if any.
func (r *Resource) adoptAfter(ctx context.Context, plan model, made create.Created, err error) (create.Created, diag.Diagnostics, error) {
	if err != nil || len(plan.adopts()) == 0 {
		return made, nil, err
	}
	whole, warnings, err := r.adopt(ctx, plan, made.Guest)
	made.Guest = whole
	return made, tfkit.Warn(warnings), err
}

// startsWhenMade reports whether a create starts the VM.
func (m *model) startsWhenMade() bool {
	return value(m.PowerState) != string(guest.Stopped) && !value(m.Template) && !keepsOff(m.HA)
}
