package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// uses are the privileges that the apply of a plan needs.
func (p *planCheck) uses(r Request) []use {
	at := []string{anyVM}
	if id := cmp.Or(r.ID, r.VMID); id != 0 {
		at = []string{"/vms/" + strconv.Itoa(id)}
	}
	if r.Pool != "" { // before or after which requests a VM changes its pool does not matter here
		at = append(at, "/pool/"+r.Pool)
	}
	var all []use
	on := func(path, what string, anyOf ...string) {
		all = append(all, use{path: path, what: what, on: at, anyOf: anyOf})
	}
	storage := func(path, id string) {
		if id != "" {
			all = append(all, use{path: path, what: "make disks on storage " + id, on: []string{"/storage/" + id},
				anyOf: []string{"Datastore.AllocateSpace"}})
		}
	}
	if r.Creating {
		on("", "make the VM", "VM.Allocate")
		on("", "read the VM", "VM.Audit")
		on("", "mark the VM, by its description", "VM.Config.Options")
	}
	if p.origin.VMID != 0 {
		all = append(all, p.cloneUses(r)...)
		for _, slot := range slices.Sorted(maps.Keys(p.copy.Disks)) {
			storage("disks."+slot+".storage", demand{p}.after(r).Disks[slot].Storage)
		}
	}
	if r.Started || r.Stopped {
		on("power_state", "start or stop the VM", "VM.PowerMgmt")
	}
	if r.Moving != nil {
		on("node", "migrate the VM", "VM.Migrate")
	}
	if r.Restore != nil {
		storage("restore.storage", r.Restore.Storage)
	}
	for _, one := range r.Space {
		if r.Creating {
			storage(one.Path, one.Storage)
		}
	}
	if r.Firewall {
		on("firewall", "set the firewall of the VM", "VM.Config.Network")
	}
	for _, pool := range slices.Compact(slices.Sorted(slices.Values([]string{r.Pool, r.LeftPool}))) {
		if pool != "" && !r.Creating { // who makes a VM in it needs none (qemu-server API2/Qemu.pm, create_vm)
			all = append(all, use{path: "pool", what: "change the members of pool " + pool, on: []string{"/pool/" + pool},
				anyOf: []string{"Pool.Allocate"}})
		}
	}
	p.changes(r, on, storage)
	return all
}

// cloneUses are the privileges on the source of a clone, and on its bridges (qemu-server API2/Qemu.pm, clone_vm;
// guest-common GuestHelpers.pm, check_vnet_access). A bridge may be a VNet of another zone.
func (p *planCheck) cloneUses(r Request) []use {
	source := strconv.Itoa(p.origin.VMID)
	all := []use{{path: r.Clone.Path(), what: "clone VM " + source, on: []string{"/vms/" + source},
		anyOf: []string{"VM.Clone"}}}
	for _, slot := range slices.Sorted(maps.Keys(p.copy.Networks)) {
		nic := p.copy.Networks[slot]
		if nic.Bridge == nil {
			continue
		}
		u := use{path: r.Clone.Path(), what: fmt.Sprintf("clone VM %s with its %s", source, slot), below: "/sdn",
			on: []string{"/sdn/zones/localnetwork/" + *nic.Bridge}, anyOf: []string{"SDN.Use"}}
		if nic.Tag != nil {
			u.on = append(u.on, u.on[0]+"/"+strconv.FormatInt(*nic.Tag, 10))
		}
		all = append(all, u)
	}
	return all
}

// changes adds the privileges that the change of a configuration needs.
func (p *planCheck) changes(r Request, on func(path, what string, anyOf ...string), storage func(path, id string)) {
	was, is := r.Prior, r.Planned
	if copies := r.Creating && (r.Clone != nil || r.Restore != nil); copies && len(p.copy.Disks) == 0 {
		return // what is copied is not known
	} else if copies {
		was, is = p.copy, vm.Merge(p.copy, r.Planned)
		is.Template = was.Template
		vm.Complete(&is)
	}
	change := vm.Diff(was, is)
	options := slices.Concat(slices.Collect(maps.Keys(change.Set)), change.Delete, change.DeleteFirst)
	for _, option := range slices.Sorted(slices.Values(options)) {
		for _, anyOf := range changePrivileges(option, was, is, r.Creating && r.Clone == nil && r.Restore == nil) {
			on(option, "set "+option, anyOf...)
		}
	}
	had, has := storagesOf(was), storagesOf(is)
	for _, path := range slices.Sorted(maps.Keys(has)) {
		if had[path] != has[path] {
			storage(path, has[path])
		}
	}
	for _, move := range change.Moves {
		on(move.Slot, "move "+move.Slot, "VM.Config.Disk")
	}
	for _, g := range change.Grow {
		if is.Disks[g.Slot].ImportFrom == nil { // else it may have that size already
			on(g.Slot, "grow "+g.Slot, "VM.Config.Disk")
		}
	}
}

// changePrivileges are the privileges to change an option from one value to another: all of these, any of each. A drive
// that comes with a VM made from scratch only needs those on its storage (qemu-server API2/Qemu.pm, create_vm and
// update_vm_api).
func changePrivileges(option string, was, is vm.Spec, scratch bool) [][]string {
	_, isDisk := is.Disks[option]
	_, wasDisk := was.Disks[option]
	_, isCD := is.CDROMs[option]
	_, wasCD := was.CDROMs[option]
	isDisk = isDisk || wasDisk || option == "efidisk0" || option == "tpmstate0"
	isCD = isCD || wasCD
	isCloudInit := option == is.CloudInit.Slot || option == was.CloudInit.Slot
	switch {
	case scratch && (isDisk || isCD || isCloudInit):
		return nil
	case isDisk && isCD:
		return [][]string{{"VM.Config.Disk"}, {"VM.Config.CDROM"}}
	case isDisk:
		return [][]string{{"VM.Config.Disk"}}
	case isCloudInit:
		return [][]string{{"VM.Config.Cloudinit"}, {"VM.Config.CDROM"}}
	case isCD:
		return [][]string{{"VM.Config.CDROM"}}
	}
	if a, _ := vm.AttributeOf(option); a.Privileges != nil { // else it is root's, which the restrictions of the plan say
		return [][]string{a.Privileges}
	}
	return nil
}

// storagesOf are the storages on which a VM has volumes of its own, by attribute.
func storagesOf(s vm.Spec) map[string]string {
	all := map[string]string{}
	for slot, d := range s.Disks {
		all["disks."+slot+".storage"] = cmp.Or(d.Storage, volid.Storage(d.Volume))
	}
	if s.EFIDisk != nil {
		all["efi_disk.storage"] = cmp.Or(s.EFIDisk.Storage, volid.Storage(s.EFIDisk.Volume))
	}
	if s.TPMState != nil {
		all["tpm_state.storage"] = cmp.Or(s.TPMState.Storage, volid.Storage(s.TPMState.Volume))
	}
	if s.VMStateStorage != nil {
		all["vmstatestorage"] = *s.VMStateStorage
	}
	return all
}
