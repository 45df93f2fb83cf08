package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// pathsOf are the paths of a VM: its own, if its VMID is chosen, and its pool.
func pathsOf(vmid int, pool string) []string {
	at := []string{anyVM}
	if vmid != 0 {
		at = []string{"/vms/" + strconv.Itoa(vmid)}
	}
	if pool != "" {
		at = append(at, "/pool/"+pool)
	}
	return at
}

// uses are the privileges that an apply needs, as they are found.
type uses struct {
	at  []string // the paths of the VM
	all []use
}

func (u *uses) add(more ...use) { u.all = append(u.all, more...) }

// on adds a privilege on the VM.
func (u *uses) on(path, what string, anyOf ...string) {
	u.add(use{path: path, what: what, on: u.at, anyOf: anyOf})
}

// operation is something that an apply may do, and the privilege on the VM that it takes.
type operation struct {
	isDone                bool
	path, what, privilege string
}

// operations adds the privileges of those that are done, by the paths of the VM at the time.
func (u *uses) operations(at []string, all []operation) {
	for _, one := range all {
		if one.isDone {
			u.add(use{path: one.path, what: one.what, on: at, anyOf: []string{one.privilege}})
		}
	}
}

// storage adds the privilege to make disks on a storage, if there is one.
func (u *uses) storage(path, id string) {
	if id != "" {
		u.add(use{path: path, what: "make disks on storage " + id, on: []string{"/storage/" + id},
			anyOf: []string{"Datastore.AllocateSpace"}})
	}
}

// needed are the privileges that the apply of a plan needs.
func (p *planCheck) needed(ctx context.Context, c *Checker, r Request) []use {
	id := cmp.Or(r.ID, r.VMID)
	at, late := pathsOf(id, ""), pathsOf(id, r.Pool) // before and after a change of the pool
	if r.Creating {                                  // a new VM is in it from the first request on
		at = late
	}
	all := &uses{at: at, all: slices.Clone(p.uses)}
	for _, t := range r.Takes {
		all.add(t.use())
	}
	all.add(haUses(r)...)
	isChanged := !r.Creating && !r.Removing && r.ID != 0
	all.operations(at, []operation{
		{r.Removing, "", "destroy the VM", "VM.Allocate"},
		{r.Removing || r.Creating || isChanged, "", "read the VM", "VM.Audit"},
		{r.Creating, "", "make the VM", "VM.Allocate"},
		{r.Creating, "", "mark the VM, by its description", "VM.Config.Options"},
		{r.Stopped, "power_state", "start or stop the VM", "VM.PowerMgmt"},
		{r.Moving != nil, "node", "migrate the VM", "VM.Migrate"},
	})
	// An update sends these requests after it has changed the pool (package update, steps).
	before := len(all.all)
	all.operations(late, []operation{
		{r.LeftPool != "" && isChanged, "pool", "read the VM once it has left pool " + r.LeftPool, "VM.Audit"},
		{r.Started, "power_state", "start or stop the VM", "VM.PowerMgmt"},
		{r.Restarts, "reboot_policy", "restart the VM", "VM.PowerMgmt"},
		{r.Firewall, "firewall", "set the firewall of the VM", "VM.Config.Network"},
	})
	all.add(c.agentUses(ctx, r, late)...)
	for i := range all.all[before:] {
		all.all[before+i].left = r.LeftPool
	}
	if p.origin.VMID != 0 {
		all.add(p.cloneUses(r)...)
		all.add(c.cpuUses(ctx, p.origin.Node, r.Clone.Path(), vm.Spec{}, p.copy)...) // API2/Qemu.pm clone_vm runs there
		for _, slot := range slices.Sorted(maps.Keys(p.copy.Disks)) {
			at := "disks." + slot + ".storage"
			all.storage(at, cmp.Or(r.Clone.Storage, p.copy.Disks[slot].Storage)) // from where it may move on
			all.storage(at, demand{p}.after(r).Disks[slot].Storage)
		}
	}
	if of := r.Copy; of != nil { // what else it takes to clone that, it takes to make it
		all.add(use{path: of.Clone.Path(), what: "clone the VM that this plan makes", on: pathsOf(of.VMID, of.Pool),
			anyOf: []string{"VM.Clone"}})
		all.storage("clone.storage", of.Clone.Storage)
	}
	if r.Restore != nil {
		all.storage("restore.storage", r.Restore.Storage)
	}
	all.add(poolUses(r, at)...)
	all.add(p.sourceUses(r)...)
	p.changes(ctx, c, r, all)
	return all.all
}

// haUses are the privileges that HA takes, all on the root of the tree (pve-manager API2/HAConfig.pm; pve-ha-manager
// API2/HA/Resources.pm).
func haUses(r Request) (all []use) {
	if !r.HA {
		return nil
	}
	what, instead := "set ha", "leave ha out and manage HA elsewhere"
	if r.Removing {
		what, instead = "stop the VM, which is under HA", "set on_destroy = { power_off = \"force\" }"
	}
	for _, privilege := range []string{"Sys.Audit", "Sys.Console"} {
		all = append(all, use{path: "ha", what: what, on: []string{"/"}, anyOf: []string{privilege}, instead: instead})
	}
	return all
}

// poolUses are the privileges that a change of the pool takes. A create in a pool changes no members (qemu-server
// API2/Qemu.pm, create_vm). PVE shows the pool of a guest only to those who may see the pool (pve-manager
// API2/Cluster.pm, resources): to others each plan would add the VM to its own pool.
func poolUses(r Request, at []string) (all []use) {
	if r.Pool != "" {
		all = append(all, use{path: "pool", what: "see that the VM is in pool " + r.Pool, on: []string{"/pool/" + r.Pool},
			anyOf: []string{"Pool.Audit"}})
	}
	for _, pool := range slices.Compact(slices.Sorted(slices.Values([]string{r.Pool, r.LeftPool}))) {
		if pool == "" || r.Creating {
			continue
		}
		all = append(all,
			use{path: "pool", what: "change the members of pool " + pool, on: []string{"/pool/" + pool},
				anyOf: []string{"Pool.Allocate"}},
			use{path: "pool", what: "change the pool of the VM", on: at, // pve-manager API2/Pool.pm
				anyOf: []string{"VM.Allocate", "Permissions.Modify"}})
	}
	return all
}

// cloneUses are the privileges on the source of a clone, and on its bridges (qemu-server API2/Qemu.pm, clone_vm;
// guest-common GuestHelpers.pm, check_vnet_access). A bridge may be a VNet of another zone.
func (p *planCheck) cloneUses(r Request) []use {
	source := strconv.Itoa(p.origin.VMID)
	all := []use{{path: r.Clone.Path(), what: "clone VM " + source, on: []string{"/vms/" + source},
		anyOf: []string{"VM.Clone"}}}
	all = append(all, copyUses(p, r.Clone.Path(), "clone VM "+source)...)
	for _, slot := range slices.Sorted(maps.Keys(p.copy.CDROMs)) {
		if p.copy.CDROMs[slot].File == "cdrom" {
			all = append(all, use{path: r.Clone.Path(), what: fmt.Sprintf("clone VM %s with its %s", source, slot),
				on: []string{"/"}, anyOf: []string{"Sys.Console"}})
		}
	}
	if s := p.copy.VMStateStorage; s != nil {
		all = append(all, use{path: r.Clone.Path(), what: fmt.Sprintf("clone VM %s with its vmstatestorage", source),
			on: []string{"/storage/" + *s}, anyOf: []string{"Datastore.AllocateSpace"}})
	}
	return all
}

// copyUses are the privileges on the bridges and mappings of a copy (qemu-server QemuServer.pm, check_bridge_access and
// check_mapping_access, which also check_restore_permissions asks).
func copyUses(p *planCheck, path, what string) (all []use) {
	for _, slot := range slices.Sorted(maps.Keys(p.copy.Networks)) {
		all = append(all, bridgeUses(path, fmt.Sprintf("%s with its %s", what, slot), p.copy.Networks[slot])...)
	}
	copied := vm.Encode(p.copy)
	for _, option := range slices.Sorted(maps.Keys(copied)) {
		for _, n := range vm.Grants(option, copied[option]) {
			if strings.HasPrefix(n.Object, "/mapping/") {
				all = append(all, use{path: path, what: fmt.Sprintf("%s with its %s", what, option), on: []string{n.Object},
					anyOf: []string{n.Privilege}})
			}
		}
	}
	return all
}

// bridgeUses are the privileges on the bridge of a network device, or on the VLANs that it is in (guest-common
// GuestHelpers.pm, check_vnet_access).
func bridgeUses(path, what string, nic vm.NIC) []use {
	if nic.Bridge == nil {
		return nil
	}
	var tags []string
	if nic.Tag != nil {
		tags = append(tags, "/"+strconv.FormatInt(*nic.Tag, 10))
	}
	for _, trunk := range nic.Trunks {
		first, _, _ := strings.Cut(trunk, "-")
		tags = append(tags, "/"+first)
	}
	if len(tags) == 0 {
		tags = []string{""}
	}
	var all []use
	for _, tag := range tags {
		all = append(all, use{path: path, what: what, below: "/sdn", bridge: *nic.Bridge,
			on: []string{localBridge(*nic.Bridge) + tag}, anyOf: []string{"SDN.Use"}})
	}
	return all
}

// changes adds the privileges that the change of a configuration needs.
func (p *planCheck) changes(ctx context.Context, c *Checker, r Request, all *uses) {
	was, is := r.Prior, r.Planned
	if r.Copy != nil {
		was, is = r.Copy.From, vm.Merge(r.Copy.From, r.Copy.To)
	} else if r.copies() {
		if len(p.copy.Disks) == 0 {
			return // what is copied is not known
		}
		was, is = p.copy, vm.Merge(p.copy, r.Planned)
	}
	if r.copies() {
		is.Template = was.Template
		vm.Complete(&is)
	}
	change := vm.Diff(was, is)
	options := slices.Concat(slices.Collect(maps.Keys(change.Set)), change.Delete, change.DeleteFirst)
	// The route itself takes one of them, whatever the option.
	if len(slices.DeleteFunc(slices.Clone(options), isTemplate)) > 0 && !r.Creating {
		all.on("", "change options of the VM", "VM.Config.Options", "VM.Config.Disk", "VM.Config.CDROM", "VM.Config.CPU",
			"VM.Config.Memory", "VM.Config.Network", "VM.Config.HWType", "VM.Config.Cloudinit")
	}
	for _, option := range slices.Sorted(slices.Values(options)) {
		for _, anyOf := range changePrivileges(option, was, is, r.Creating && !r.copies()) {
			all.on(option, "set "+option, anyOf...)
		}
		all.add(optionUses(option, was, is)...)
	}
	all.add(c.tagUses(ctx, r, was, is)...)
	all.add(c.cpuUses(ctx, r.Node, "cpu.type", was, is)...)
	had, has := storagesOf(was), storagesOf(is)
	for _, path := range slices.Sorted(maps.Keys(has)) {
		if had[path] != has[path] {
			all.storage(path, has[path])
		}
	}
	all.add(removedUses(r, change.Delete)...)
	for _, move := range change.Moves {
		all.on(move.Slot, "move "+move.Slot, "VM.Config.Disk")
		for _, t := range SeeAll(move.Slot, "tell whether another guest uses "+move.Slot) {
			if !r.Creating { // else the volume is the create's own (package guard)
				all.add(t.use())
			}
		}
		all.storage(move.Slot, move.Storage)
	}
	for _, g := range change.Grow {
		grow := use{path: g.Slot, what: "grow " + g.Slot, on: all.at, anyOf: []string{"VM.Config.Disk"}}
		if from := is.Disks[g.Slot].ImportFrom; from != nil {
			grow.unless = func(ctx context.Context) bool { return !c.isSmaller(ctx, p.node, *from, g.Size) }
		}
		all.add(grow)
		all.storage("disks."+g.Slot+".size", is.Disks[g.Slot].Storage) // API2/Qemu.pm, resize_vm
	}
}

// isSmaller reports whether an image certainly has fewer bytes than the disk that is made of it: else the disk need not
// grow.
func (c *Checker) isSmaller(ctx context.Context, node, image string, bytes int64) bool {
	size, err := c.api.Volume(node, image).Size(ctx)
	return err == nil && size > 0 && size < bytes
}

// isTemplate reports whether an option is set by a request of its own.
func isTemplate(option string) bool { return option == "template" }

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
