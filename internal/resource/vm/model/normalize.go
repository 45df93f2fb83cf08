package model

import (
	"cmp"
	"context"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Essence is a plan without the values that make no difference on the server. Those that other parts of an option need
// to be valid stay. So do those of devices that only a refresh has seen, in these slots: the server may have others.
func (v Values) Essence(ctx context.Context, planned, state tftypes.Value, seen map[string]string) (Model,
	diag.Diagnostics) {
	all, diags := v.Model(ctx, planned)
	m, more := v.Model(ctx, v.Shape.Essence(planned, state))
	diags.Append(more...)
	if a := m.Agent; a != nil && (a.Type != nil || a.FSTrimClonedDisks != nil || a.FreezeFSOnBackup != nil) {
		a.Enabled = all.Agent.Enabled
	}
	if m.CPU != nil && NeedsCPUType(m.CPU) {
		m.CPU.Type = all.CPU.Type
	}
	if e := m.EFIDisk; e != nil && e.ImportFrom != nil {
		e.PreEnrolledKeys = all.EFIDisk.PreEnrolledKeys
	}
	for slot := range seen {
		if disk, is := all.Disks[slot]; is {
			m.Disks[slot] = disk
		}
		if nic, is := all.Networks[slot]; is {
			m.Networks[slot] = nic
		}
	}
	return m, diags
}

// Normalized takes out of state and plan what is no difference for the server: slots that are forgotten, sources of
// disks that exist already, and values that the plan leaves open and the server keeps.
func Normalized(prior, plan Model, managed plan.Managed) (before, after Model) {
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
	if plan.BootOrder == nil { // open in the plan, and left to PVE
		after.BootOrder = prior.BootOrder
	}
	if plan.Machine == nil && !managed["machine"] {
		after.Machine = prior.Machine
	}
	return before, after
}

func normalizedDisks(prior, plan Model, managed plan.Managed) (before, after map[string]Disk) {
	before = withoutForgotten(prior.Disks, plan.Disks, "disks", managed)
	for slot, was := range prior.Disks { // its volume goes to another slot
		if _, stays := plan.Disks[slot]; !stays && plan.HasVolume(was.Volume) {
			Put(&before, slot, was)
		}
	}
	after = maps.Clone(plan.Disks)
	for slot, d := range after {
		was, ok := before[slot]
		if !ok {
			continue
		}
		d.ImportFrom, was.ImportFrom = nil, nil
		if !Differ(was.Volume, d.Volume) { // another volume has a size and a format of its own
			d.Volume, d.Size = cmp.Or(d.Volume, was.Volume), cmp.Or(d.Size, was.Size)
			if !Differ(was.Storage, d.Storage) { // another storage may have none of that format
				d.Format = cmp.Or(d.Format, was.Format)
			}
		}
		before[slot], after[slot] = was, d
	}
	return before, after
}

func normalizedEFIDisk(prior, plan *EFIDisk) (before, after *EFIDisk) {
	if prior == nil || plan == nil {
		return prior, plan
	}
	was, is := *prior, *plan
	is.Volume = cmp.Or(is.Volume, was.Volume)
	if !Differ(was.Storage, is.Storage) {
		is.Format = cmp.Or(is.Format, was.Format)
	}
	is.ImportFrom, was.ImportFrom = nil, nil
	return &was, &is
}

func normalizedTPMState(prior, plan *TPMState) (before, after *TPMState) {
	if prior == nil || plan == nil {
		return prior, plan
	}
	was, is := *prior, *plan
	is.Volume = cmp.Or(is.Volume, was.Volume)
	is.ImportFrom, was.ImportFrom = nil, nil
	return &was, &is
}

func normalizedCloudInit(prior, plan *CloudInit, managed plan.Managed) (before, after *CloudInit) {
	if prior == nil || plan == nil {
		return prior, plan
	}
	was, is := *prior, *plan
	if is.Storage != nil && was.Slot != nil {
		is.Slot = cmp.Or(is.Slot, was.Slot)
	}
	if Value(is.Slot) == Value(was.Slot) && Value(is.Storage) == Value(was.Storage) {
		is.Volume, is.Format = cmp.Or(is.Volume, was.Volume), cmp.Or(is.Format, was.Format)
	}
	was.Addresses = withoutForgotten(was.Addresses, is.Addresses, "cloud_init.addresses", managed)
	return &was, &is
}

// HasVolume reports whether a disk has a volume.
func (m *Model) HasVolume(volume *string) bool {
	for _, d := range m.Disks {
		if volume != nil && Value(d.Volume) == *volume {
			return true
		}
	}
	return false
}

// withoutForgotten leaves out the slots in state that are neither planned nor managed. It copies.
func withoutForgotten[V any](prior, plan map[string]V, at string, managed plan.Managed) map[string]V {
	all := maps.Clone(prior)
	for slot := range prior {
		if _, planned := plan[slot]; !planned && !managed[at+"."+slot] {
			delete(all, slot)
		}
	}
	return all
}

// NeedsCPUType reports whether there is more than the type in PVE's option cpu.
func NeedsCPUType(c *vm.CPU) bool {
	return len(c.Flags) > 0 || c.Hidden != nil || c.HVVendorID != nil || c.PhysBits != nil || c.GuestPhysBits != nil ||
		c.Level != nil || c.ReportedModel != nil
}

// ChangedDevices are the slots that come into use and those that go out of it.
func ChangedDevices(prior, plan Model) (come, leave []string) {
	before, after := prior.slots(), plan.slots()
	maps.DeleteFunc(after, func(slot string, _ bool) bool { return before[slot] })
	for slot := range plan.slots() {
		delete(before, slot)
	}
	return SortedSlots(after), SortedSlots(before)
}

// WithoutPinnedMachine is what the server says with the machine type as it is wished for.
func WithoutPinnedMachine(wish, server tftypes.Value) tftypes.Value {
	machine := plan.At(wish, "machine")
	if !vm.IsWindows(StringOf(plan.At(server, "ostype"))) || !IsPinned(StringOf(machine),
		StringOf(plan.At(server, "machine"))) {
		return server
	}
	return plan.Replace(server, "machine", machine)
}

// IsPinned reports whether a machine type is a version of the one that is wished for.
func IsPinned(wish, machine string) bool {
	return wish == "q35" && strings.HasPrefix(machine, "pc-q35-") || wish == "pc" &&
		strings.HasPrefix(machine, "pc-i440fx-")
}
