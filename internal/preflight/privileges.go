package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// optionPrivilege is what it takes to change an option of a VM (qemu-server API2/Qemu.pm, check_vm_modify_config_perm, and the checks
// of serial, usb, hostpci, rng and virtiofs beside it). Options of root@pam alone are not here: restrictions of the plan have them.
func optionPrivilege(option string) []string {
	groups := []struct {
		privileges []string
		options    string
		families   string // with a number behind
	}{
		{[]string{"VM.Config.CPU"}, "cores cpu cpulimit cpuunits numa smp sockets vcpus", "numa"},
		{[]string{"VM.Config.Memory"}, "memory balloon shares allow-ksm", ""},
		{[]string{"VM.Config.HWType"}, "acpi hotplug kvm machine scsihw smbios1 tablet vga watchdog audio0 rng0", "serial usb hostpci"},
		{[]string{"VM.Config.Options"}, "agent autostart bios description keyboard localtime migrate_downtime migrate_speed name onboot ostype " +
			"protection reboot startdate startup tags tdf template", ""},
		{[]string{"VM.PowerMgmt"}, "freeze", ""},
		{[]string{"VM.Config.Disk"}, "boot bootdisk vmstatestorage", "virtiofs"},
		{[]string{"VM.Config.Network"}, "", "net"},
		{[]string{"VM.Config.Cloudinit", "VM.Config.Network"},
			"cicustom cipassword citype ciuser ciupgrade nameserver searchdomain sshkeys", "ipconfig"},
	}
	family := strings.TrimRight(option, "0123456789")
	for _, g := range groups {
		if slices.Contains(strings.Fields(g.options), option) || family != option && slices.Contains(strings.Fields(g.families), family) {
			return g.privileges
		}
	}
	return nil
}

// uses are the privileges that the apply of a plan takes.
func (c *planCheck) uses(r Request) []use {
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
	if c.origin.VMID != 0 {
		all = append(all, c.cloneUses(r)...)
		for _, slot := range slices.Sorted(maps.Keys(c.copy.Disks)) {
			storage("disks."+slot+".storage", c.after(r).Disks[slot].Storage)
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
	c.changes(r, on, storage)
	return all
}

// cloneUses are those on the source of a clone, and on the bridges that it has (qemu-server API2/Qemu.pm, clone_vm; guest-common
// GuestHelpers.pm, check_vnet_access). A bridge may be a VNet of another zone.
func (c *planCheck) cloneUses(r Request) []use {
	source := strconv.Itoa(c.origin.VMID)
	all := []use{{path: r.Clone.Path(), what: "clone VM " + source, on: []string{"/vms/" + source}, anyOf: []string{"VM.Clone"}}}
	for _, slot := range slices.Sorted(maps.Keys(c.copy.Networks)) {
		nic := c.copy.Networks[slot]
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

// changes notes what the change of a configuration takes.
func (c *planCheck) changes(r Request, on func(path, what string, anyOf ...string), storage func(path, id string)) {
	was, is := r.Prior, r.Planned
	if copies := r.Creating && (r.Clone != nil || r.Restore != nil); copies && len(c.copy.Disks) == 0 {
		return // what is copied is not known
	} else if copies {
		was, is = c.copy, vm.Merge(c.copy, r.Planned)
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

// changePrivileges is what it takes to change an option, with what was and is to be in it: all of these, any of each. What comes with a
// VM made from scratch takes its storage alone if it is a drive (qemu-server API2/Qemu.pm, create_vm and update_vm_api).
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
	case option == "template": // which is a request of its own
		return [][]string{{"VM.Allocate"}}
	}
	if anyOf := optionPrivilege(option); anyOf != nil {
		return [][]string{anyOf}
	}
	return nil
}

// storagesOf are the storages on which a VM has volumes of its own making, by attribute.
func storagesOf(s vm.Spec) map[string]string {
	all := map[string]string{}
	for slot, d := range s.Disks {
		all["disks."+slot+".storage"] = cmp.Or(d.Storage, vm.VolumeStorage(d.Volume))
	}
	if s.EFIDisk != nil {
		all["efi_disk.storage"] = cmp.Or(s.EFIDisk.Storage, vm.VolumeStorage(s.EFIDisk.Volume))
	}
	if s.TPMState != nil {
		all["tpm_state.storage"] = cmp.Or(s.TPMState.Storage, vm.VolumeStorage(s.TPMState.Volume))
	}
	if s.VMStateStorage != nil {
		all["vmstatestorage"] = *s.VMStateStorage
	}
	return all
}
