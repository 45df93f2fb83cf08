package change

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// DefaultBootOrder is the boot order of a VM whose configuration names none any more, and whether it is one. PVE has a
// default at a create only. A VM without an order boots from no disk (qemu-server QemuServer.pm device_bootorder,
// bootorder_from_legacy), so the default of a create takes its place.
func DefaultBootOrder(p *Change) (tftypes.Value, bool) {
	if !resetsBootOrder(p) {
		return tftypes.Value{}, false
	}
	kind := plan.At(p.State, "boot_order").Type()
	for _, at := range []string{"disks", "cdroms", "networks", "cloud_init", "cloud_init.storage", "cloud_init.slot"} {
		if !p.Config.At(at).IsKnown() {
			return tftypes.NewValue(kind, tftypes.UnknownValue), true
		}
	}
	var order []tftypes.Value
	for _, device := range vm.DefaultBootOrder(slotsAfter(p)) {
		order = append(order, model.Text(device))
	}
	return tftypes.NewValue(kind, order), true
}

// resetsBootOrder reports whether a configured boot order leaves the configuration.
func resetsBootOrder(p *Change) bool {
	return !p.Creating() && p.Managed("boot_order") && p.Config.At("boot_order").IsNull() && p.Was("boot_order")
}

// forgetsBootOrder reports whether an order that is the default leaves the configuration. It is to be noted that it is
// configured no more: the next change would work out the default again, with devices that have come since.
func forgetsBootOrder(p *Change) bool { return resetsBootOrder(p) && p.Compare("boot_order") == Same }

// slotsAfter are those of the devices that the VM has after the change, those that the state does not know among them.
// The map tells which are optical drives.
func slotsAfter(p *Change) map[string]bool {
	has := map[string]bool{}
	for slot := range p.Private.Others {
		has[slot] = false
	}
	for _, at := range p.Forgotten {
		group, slot, _ := strings.Cut(at, ".")
		has[slot] = group == "cdroms"
	}
	for slot := range p.Private.Drives {
		has[slot] = true
	}
	for slot := range p.Plan.Networks {
		has[slot] = false
	}
	for slot := range p.Plan.Disks {
		has[slot] = false
	}
	for slot := range (refusals{p}).opticalDrives(p.Plan) {
		has[slot] = true
	}
	return has
}

// warnNotBooted tells of the first disk of a VM: PVE puts no disk into the boot order that comes after the create
// (qemu-server API2/Qemu.pm update_vm_api), and the firmware boots from nothing else (QemuServer.pm config_to_command,
// "strict=on").
func (p warnings) warnNotBooted() {
	hadDisk := len(p.Prior.Disks) > 0 || slices.ContainsFunc(slices.Collect(maps.Keys(p.Private.Others)), vm.IsBusSlot)
	if hadDisk || len(p.Plan.Disks) == 0 || resetsBootOrder(p.Change) || !p.Config.At("boot_order").IsNull() {
		return
	}
	slot := model.SortedSlots(p.Plan.Disks)[0]
	p.Diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot), p.Prior.Thing()+" does not boot from its first disk",
		fmt.Sprintf("PVE puts no disk into the boot order that comes after the create. To boot from it write boot_order = "+
			"[%q].", slot))
}
