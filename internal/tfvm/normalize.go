package tfvm

import (
	"cmp"
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// essence is a plan without what makes no difference on the server. What other parts of an option need to be valid stays.
func (v values) essence(ctx context.Context, planned, state tftypes.Value) (model, diag.Diagnostics) {
	all, diags := v.model(ctx, planned)
	m, more := v.model(ctx, v.shape.Essence(planned, state))
	diags.Append(more...)
	if a := m.Agent; a != nil && (a.Type != nil || a.FSTrimClonedDisks != nil || a.FreezeFSOnBackup != nil) {
		a.Enabled = all.Agent.Enabled
	}
	if m.CPU != nil && needsCPUType(m.CPU) {
		m.CPU.Type = all.CPU.Type
	}
	return m, diags
}

// normalized takes out of state and plan what is no difference for the server: slots that are forgotten, sources of disks
// that exist already, and what the plan leaves open and the server keeps as it is.
func normalized(prior, plan model, managed tfplan.Managed) (before, after model) {
	before, after = prior, plan
	before.CDROMs = withoutForgotten(prior.CDROMs, plan.CDROMs, "cdroms", managed)
	before.Networks = withoutForgotten(prior.Networks, plan.Networks, "networks", managed)
	before.PCI = withoutForgotten(prior.PCI, plan.PCI, "pci", managed)
	before.USB = withoutForgotten(prior.USB, plan.USB, "usb", managed)
	before.NUMANodes = withoutForgotten(prior.NUMANodes, plan.NUMANodes, "numa_nodes", managed)
	before.VirtioFS = withoutForgotten(prior.VirtioFS, plan.VirtioFS, "virtiofs", managed)
	before.Serial = withoutForgotten(prior.Serial, plan.Serial, "serial", managed)
	before.Parallel = withoutForgotten(prior.Parallel, plan.Parallel, "parallel", managed)
	before.Disks, after.Disks = normalizedDisks(prior, plan, managed)
	before.EFIDisk, after.EFIDisk = normalizedEFIDisk(prior.EFIDisk, plan.EFIDisk)
	before.TPMState, after.TPMState = normalizedTPMState(prior.TPMState, plan.TPMState)
	before.CloudInit, after.CloudInit = normalizedCloudInit(prior.CloudInit, plan.CloudInit, managed)
	if plan.BootOrder == nil && !managed["boot_order"] { // open in the plan, and left to PVE
		after.BootOrder = prior.BootOrder
	}
	if plan.Machine == nil && !managed["machine"] {
		after.Machine = prior.Machine
	}
	return before, after
}

func normalizedDisks(prior, plan model, managed tfplan.Managed) (before, after map[string]diskModel) {
	before = withoutForgotten(prior.Disks, plan.Disks, "disks", managed)
	for slot, was := range prior.Disks { // its volume goes to another slot
		if _, stays := plan.Disks[slot]; !stays && plan.hasVolume(was.Volume) {
			put(&before, slot, was)
		}
	}
	after = maps.Clone(plan.Disks)
	for slot, d := range after {
		was, ok := before[slot]
		if !ok {
			continue
		}
		d.ImportFrom, was.ImportFrom = nil, nil
		if !differ(was.Volume, d.Volume) { // another volume has a size and a format of its own
			d.Volume, d.Size = cmp.Or(d.Volume, was.Volume), cmp.Or(d.Size, was.Size)
			if !differ(was.Storage, d.Storage) { // another storage may have none of that format
				d.Format = cmp.Or(d.Format, was.Format)
			}
		}
		before[slot], after[slot] = was, d
	}
	return before, after
}

func normalizedEFIDisk(prior, plan *efiModel) (before, after *efiModel) {
	if prior == nil || plan == nil {
		return prior, plan
	}
	was, is := *prior, *plan
	is.Volume = cmp.Or(is.Volume, was.Volume)
	if !differ(was.Storage, is.Storage) {
		is.Format = cmp.Or(is.Format, was.Format)
	}
	is.ImportFrom, was.ImportFrom = nil, nil
	return &was, &is
}

func normalizedTPMState(prior, plan *tpmModel) (before, after *tpmModel) {
	if prior == nil || plan == nil {
		return prior, plan
	}
	was, is := *prior, *plan
	is.Volume = cmp.Or(is.Volume, was.Volume)
	is.ImportFrom, was.ImportFrom = nil, nil
	return &was, &is
}

func normalizedCloudInit(prior, plan *cloudInitModel, managed tfplan.Managed) (before, after *cloudInitModel) {
	if prior == nil || plan == nil {
		return prior, plan
	}
	was, is := *prior, *plan
	if is.Storage != nil && was.Slot != nil {
		is.Slot = cmp.Or(is.Slot, was.Slot)
	}
	if value(is.Slot) == value(was.Slot) && value(is.Storage) == value(was.Storage) {
		is.Volume, is.Format = cmp.Or(is.Volume, was.Volume), cmp.Or(is.Format, was.Format)
	}
	was.Addresses = withoutForgotten(was.Addresses, is.Addresses, "cloud_init.addresses", managed)
	return &was, &is
}

// hasVolume reports whether a disk has a volume.
func (m *model) hasVolume(volume *string) bool {
	for _, d := range m.Disks {
		if volume != nil && value(d.Volume) == *volume {
			return true
		}
	}
	return false
}

// withoutForgotten leaves out the slots in state that are neither planned nor managed. It copies.
func withoutForgotten[V any](prior, plan map[string]V, at string, managed tfplan.Managed) map[string]V {
	all := maps.Clone(prior)
	for slot := range prior {
		if _, planned := plan[slot]; !planned && !managed[at+"."+slot] {
			delete(all, slot)
		}
	}
	return all
}

// needsCPUType reports whether there is more than the type in PVE's option cpu.
func needsCPUType(c *vm.CPU) bool {
	return len(c.Flags) > 0 || c.Hidden != nil || c.HVVendorID != nil || c.PhysBits != nil || c.GuestPhysBits != nil ||
		c.Level != nil || c.ReportedModel != nil
}
