package model

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// CloneOf are the values that a clone has from its source. Those that PVE makes for each clone are not known: its id
// and uuid, MAC addresses and volumes, and the state of the guest.
func (v Values) CloneOf(ctx context.Context, source guest.Source, how *guest.Clone) (tftypes.Value, diag.Diagnostics) {
	config := cloneConfig(source.Config, source.Listed.VMID)
	m := FromGuest(guest.Guest{Spec: vm.Decode(config), Source: source.Listed.VMID})
	m.Description = kit.NonZero(source.Description)
	open := map[string]bool{"id": true, "vmid": true, "node": true, "uuid": true, "smbios.uuid": true, "status": true,
		"pending_changes": true, "addresses": true, "ipv4_address": true, "ipv6_address": true, "power_state": true,
		"efi_disk.volume": true, "efi_disk.format": true, "tpm_state.volume": true, "cloud_init.volume": true,
		"cloud_init.format": true, "vmgenid": m.VMGenID != nil, "boot_order": vm.IsLegacyBoot(config)}
	for slot := range m.Networks {
		open["networks."+slot+".macaddr"] = true
	}
	for slot := range m.Disks {
		open["disks."+slot+".volume"], open["disks."+slot+".format"] = true, true
	}
	if how.Storage != "" && how.IsFull(source.Listed) {
		m.moveTo(how.Storage)
	}
	raw, diags := v.Raw(ctx, m)
	return plan.Edit(raw, open, nil), diags
}

// moveTo puts all volumes on one storage.
func (m *Model) moveTo(storage string) {
	for slot, d := range m.Disks {
		d.Storage = &storage
		m.Disks[slot] = d
	}
	if m.EFIDisk != nil {
		m.EFIDisk.Storage = &storage
	}
	if m.TPMState != nil {
		m.TPMState.Storage = &storage
	}
	if m.CloudInit != nil && m.CloudInit.Storage != nil {
		m.CloudInit.Storage = &storage
	}
}

// cloneConfig is the configuration that PVE gives the clone of a VM, or of one of its snapshots, as long as the request
// names nothing else: everything but what belongs to the VM itself, its snapshots and its detached volumes (qemu-server
// API2/Qemu.pm, clone_vm). The values that PVE makes again are the source's here: volumes, MAC addresses, the uuid and
// the generation id.
func cloneConfig(source map[string]string, vmid int) map[string]string {
	config := maps.Clone(source)
	for _, option := range []string{"lock", "template", "parent", "snaptime", "snapstate", "vmstate", "runningcpu",
		"runningmachine", "running-nets-host-mtu"} {
		delete(config, option)
	}
	maps.DeleteFunc(config, func(option, _ string) bool { return vm.IsUnused(option) })
	name := source["name"]
	if name == "" {
		name = strconv.Itoa(vmid)
	}
	config["name"] = "Copy-of-VM-" + name
	return config
}

// WithDisks gives a VM in state, and a plan of it, the disks that only the last refresh knows, in the slots where the
// plan has disks: an update takes such a one over.
func (p PrivateState) WithDisks(state *Model, before, planned vm.Spec) (was, is vm.Spec) {
	has := vm.Spec{Disks: map[string]vm.Disk{}}
	for slot, volume := range p.Others {
		if !vm.IsBusSlot(slot) || volume == "" || slices.Contains(state.PendingChanges, slot) {
			continue
		}
		disk := vm.Disk{Volume: volume, Storage: volid.Storage(volume)}
		if format := volid.Format(volume); format != "" {
			disk.Format = &format
		}
		if size := p.Sizes[volume]; size > 0 {
			disk.Size = &size
		}
		has.Disks[slot] = disk
	}
	return vm.WithServerDevices(has, before, planned)
}

// IsOwnDisk reports whether a disk that only the last refresh knows came with the VM: this provider has made the VM of
// a source, and no third party has added the disk since.
func (p PrivateState) IsOwnDisk(m *Model, slot string) bool {
	owner, _ := volid.Owner(p.Others[slot])
	_, added := p.Added[slot]
	return p.Made && !p.Lost && m.Copies() && vm.IsBusSlot(slot) && !added && int64(owner) == Value(m.VMID)
}
