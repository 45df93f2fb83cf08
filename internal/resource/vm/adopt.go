package vm

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// A volume that is there before its VM must outlive the VM's roll-back, and PVE destroys every volume that carries the
// VM's id together with the VM, detached ones too. So the VM is made and committed without it, is not started, and gets
// it by a change of its own, which takes nothing back when it fails.

// adopt gives a VM that was just made the volumes that were there before it, and starts it. The guest is as it is then.
func (r *Resource) adopt(ctx context.Context, plan model.Model, wait *guest.Wait, made guest.Guest) (guest.Guest,
	[]guest.Warning, error) {
	first := plan.WithoutAdopted()
	request := update.Request{
		Ref: guest.Ref{VMID: made.VMID, Node: made.Node, Identity: made.Identity, Status: made.Status,
			Firewall: plan.Firewall != nil,
			HA:       plan.HA != nil},
		Prior: first.Spec(false), Planned: plan.Spec(false),
		PriorPool: model.Value(plan.Pool), Pool: model.Value(plan.Pool), PriorFirewall: plan.Firewall,
		Firewall: plan.Firewall, HA: plan.HA,
		Notes: update.Notes{Media: model.DrivesOf(&first, made)}, // which the create has left, or copied
		Wait:  wait,
	}
	for _, a := range plan.Adopts() {
		d := request.Planned.Disks[a.Slot]
		d.Volume = a.Volume
		request.Planned.Disks[a.Slot] = d
	}
	if request.Planned.BootOrder == nil {
		request.Planned.BootOrder = vm.BootOrderWith(made.Spec.BootOrder, request.Planned.Disks)
	}
	request.BootOrder = request.Planned.BootOrder
	if plan.StartsWhenMade() {
		request.PowerState = guest.Running
	}
	whole, warnings, err := r.machines.Update(ctx, request)
	if whole.VMID == 0 {
		whole = made
	}
	return whole, warnings, err
}

// whyAdoptingStays is why a VM stays that has not got all the volumes that were there before it, or was not started. An
// apply starts a guest only where the configuration says so.
func whyAdoptingStays(plan model.Model, vmid int) string {
	text := fmt.Sprintf("VM %d was made and stays, since a roll-back would destroy what was there before it: %s", vmid,
		strings.Join(model.VolumesOf(plan.Adopts()), ", "))
	if plan.StartsWhenMade() && plan.PowerState == nil {
		text += ". Where it is off, power_state = \"running\" has the next apply start it"
	}
	return text
}

// adoptAfter is what becomes of a VM that was made, with the volumes that it adopts, if any.
func (r *Resource) adoptAfter(ctx context.Context, plan model.Model, wait *guest.Wait, made create.Created,
	err error) (create.Created, diag.Diagnostics, error) {
	if err != nil || len(plan.Adopts()) == 0 {
		return made, nil, err
	}
	whole, warnings, err := r.adopt(ctx, plan, wait, made.Guest)
	made.Guest = whole
	if err != nil && !model.IsWaiting(err) {
		made.Stays = whyAdoptingStays(plan, whole.VMID)
	}
	return made, kit.Warn(warnings), err
}
