// Package otherstate reads the states that other providers have written about their VMs: which VM it is, and the facts
// that no server tells.
//
// It knows their states only as far as that takes. A refresh reads everything else from the server, so their names for
// a disk or a network device do not matter.
package otherstate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// reader reads the state of one resource type.
type reader func(object) VM

// readers returns the known resource types, with the reader for each. No two providers share a type.
//
// Terraform also tells the address of the provider, but OpenTofu does not always. Before 1.12.4 it gives only the last
// part. 1.12.6 gives that of the new provider for all instances but the first that it moves, since its state keeps one
// address for a whole resource.
func readers() map[string]reader {
	return map[string]reader{
		"proxmox_virtual_environment_vm":        fromBPG,
		"proxmox_virtual_environment_vm2":       fromBPG,
		"proxmox_vm":                            fromBPG, // vm2 under its second name
		"proxmox_virtual_environment_cloned_vm": fromBPG,
		"proxmox_cloned_vm":                     fromBPG,
		"proxmox_vm_qemu":                       fromTelmate,
	}
}

// Read reads the state of a resource of another provider, by its type. The error names what is unknown or missing.
func Read(provider, typ string, state []byte) (VM, error) {
	read, known := readers()[typ]
	if !known {
		return VM{}, fmt.Errorf("%s of the provider %s does not become a virtual machine: only %s do, of bpg/proxmox and "+
			"Telmate/proxmox",
			typ, provider, strings.Join(slices.Sorted(maps.Keys(readers())), ", "))
	}
	if len(state) == 0 {
		return VM{}, fmt.Errorf("the state has the form of Terraform 0.11: refresh it with %s first", provider)
	}
	o, err := parse(state)
	if err != nil {
		return VM{}, fmt.Errorf("the state cannot be read: %w", err)
	}
	found := read(o)
	devices := bpgDevices()
	if typ == "proxmox_vm_qemu" {
		devices = telmateDevices()
	}
	found.Settings = slices.DeleteFunc(settings(o, devices), func(s Setting) bool {
		return s.Ours == "power_state" && !found.Stopped // as by default, or a template, which never runs
	})
	if len(*o.odd) > 0 {
		found.Slots = nil
	}
	if found.VMID <= 0 {
		return VM{}, fmt.Errorf("the state does not say the id of the VM, %s", missing(typ, "vm_id or id", "vmid or id"))
	}
	if found.Node == "" {
		return VM{}, fmt.Errorf("the state does not say the node of VM %d, %s", found.VMID,
			missing(typ, "node_name", "current_node, target_node or id"))
	}
	slices.Sort(*o.odd)
	found.Odd = slices.Compact(*o.odd)
	return found, nil
}

// missing names the missing attribute.
func missing(typ, bpg, telmate string) string {
	if typ == "proxmox_vm_qemu" {
		return telmate
	}
	return bpg
}
