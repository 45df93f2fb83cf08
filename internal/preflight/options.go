package preflight

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// optionUses are the privileges on other objects that the change of an option takes. Of a device, PVE asks for what
// both the old and the new one name (qemu-server API2/Qemu.pm, update_vm_api: check_usb_perm, check_hostpci_perm,
// check_rng_perm, check_dir_perm, check_bridge_access).
func optionUses(option string, was, is vm.Spec) []use {
	var all []use
	for _, value := range []string{vm.Encode(is)[option], vm.Encode(was)[option]} {
		for _, n := range vm.Grants(option, value) {
			all = append(all, use{path: n.Path, what: "set " + n.Path, on: []string{n.Object}, anyOf: []string{n.Privilege},
				instead: n.Instead})
		}
	}
	for _, s := range []vm.Spec{is, was} {
		if nic, ok := s.Networks[option]; ok {
			at := "networks." + option + ".bridge"
			all = append(all, bridgeUses(at, "use bridge "+value(nic.Bridge)+" for "+option, nic)...)
		}
	}
	drive, old := is.CDROMs[option], was.CDROMs[option]
	if drive.File == "cdrom" && old.File != "cdrom" {
		all = append(all, use{path: "cdroms." + option + ".file", what: "use the drive of the node", on: []string{"/"},
			anyOf: []string{"Sys.Console"}})
	}
	return all
}

// removedUses are the privileges to destroy the volumes of drives that leave a VM in state: the look at all guests, and
// space on the storage (qemu-server QemuServer.pm, try_deallocate_drive). A running guest keeps the drive of a slot
// without hotplug until it is restarted, and then its volume stays.
func removedUses(r Request, leaves []string) []use {
	var all []use
	for slot, volume := range destroyedBy(r, leaves) {
		const instead = "set removed_disks = \"detach\""
		for _, t := range SeeAll("removed_disks", "tell whether another guest uses "+volume) {
			t.Instead = instead
			all = append(all, t.use())
		}
		if storage := volid.Storage(volume); !r.Running || r.Restarts || vm.TakesDisk(slot, r.Prior.Hotplug) {
			all = append(all, use{path: "removed_disks", what: "destroy " + volume, on: []string{"/storage/" + storage},
				anyOf: []string{"Datastore.AllocateSpace"}, instead: instead})
		}
	}
	slices.SortFunc(all, func(a, b use) int {
		return cmp.Or(strings.Compare(a.what, b.what), strings.Compare(a.on[0], b.on[0]))
	})
	return all
}

// destroyedBy are the volumes that go with their drives for good, by slot.
func destroyedBy(r Request, leaves []string) map[string]string {
	if !r.DestroyRemoved || r.Creating {
		return nil
	}
	all, stays := volumesOf(r.Prior), slices.Collect(maps.Values(volumesOf(r.Planned)))
	maps.DeleteFunc(all, func(slot, volume string) bool {
		owner, _ := volid.Owner(volume)
		return !slices.Contains(leaves, slot) || owner != r.ID || slices.Contains(stays, volume)
	})
	return all
}

// volumesOf are the volumes of a VM's disks by slot.
func volumesOf(s vm.Spec) map[string]string {
	all := map[string]string{}
	for slot, d := range s.EveryDisk() {
		all[slot] = d.Volume
	}
	return all
}

// text is a text that may not be set.
// sourceUses are the privileges on media and on the images that new disks are made of (qemu-server API2/Qemu.pm,
// check_storage_access; pve-storage Storage.pm, check_volume_access).
func (p *planCheck) sourceUses(r Request) []use {
	var all []use
	for _, n := range r.Needs {
		if n.Kind != Medium && n.Kind != Import && n.Kind != Image || !strings.Contains(n.Value, ":") {
			continue
		}
		u := use{path: n.Path, what: "use " + n.Value, on: []string{"/storage/" + volid.Storage(n.Value)},
			anyOf: []string{"Datastore.Audit", "Datastore.AllocateSpace", "Datastore.Allocate"}}
		owner, owned := volid.Owner(n.Value)
		switch {
		case n.Kind == Image && !owned:
			u.anyOf = []string{"Datastore.Allocate"}
		case n.Kind == Image && strings.HasSuffix(n.Path, ".import_from"):
			u.on, u.anyOf = []string{"/vms/" + strconv.Itoa(owner)}, []string{"VM.Clone"}
		case n.Kind == Image:
			continue
		}
		all = append(all, u)
		if n.Kind == Import && strings.Count(n.Value, "/") > 1 { // a disk of an appliance
			work := n.Work
			if work == "" {
				work = volid.Storage(n.Value)
			}
			all = append(all, use{path: n.Path, what: "unpack " + n.Value + " on storage " + work,
				on: []string{"/storage/" + work}, anyOf: []string{"Datastore.AllocateSpace"}})
		}
	}
	return all
}

// agentUses is the privilege to ask a guest's agent for its interfaces: VM.Monitor until Proxmox VE 8 (qemu-server
// API2/Qemu/Agent.pm, register_command; b92a40ce). The node that the endpoint names asks for it first, and knows no
// privilege of the other line (pve-manager HTTPServer.pm, rest_handler).
func (c *Checker) agentUses(ctx context.Context, r Request, at []string) []use {
	if !r.Agent {
		return nil
	}
	version, err := c.api.Cluster().Version(ctx)
	if err != nil {
		return nil
	}
	anyOf := []string{"VM.GuestAgent.Audit", "VM.GuestAgent.Unrestricted"}
	if !version.AtLeast(9, 0) {
		anyOf = []string{"VM.Monitor"}
	}
	return []use{{path: "wait_for", what: "ask the guest agent", on: at, anyOf: anyOf,
		instead: "set wait_for.on_timeout = \"warn\""}}
}

// cpuUses is the privilege on a CPU model of the datacenter's own, which a VM gets and did not have (qemu-server 9.1.13
// API2/Qemu.pm, check_cpu_model_access; of a clone since 9.1.15). Every node of release 9.2 asks for it.
func (c *Checker) cpuUses(ctx context.Context, node, path string, was, is vm.Spec) []use {
	model := value(is.CPU.Type)
	name, own := strings.CutPrefix(model, "custom-")
	if !own || model == value(was.CPU.Type) {
		return nil
	}
	if version, err := c.api.Cluster().VersionOf(ctx, node); err != nil || !version.AtLeast(9, 2) {
		return nil
	}
	return []use{{path: path, what: "use the CPU model " + model, on: []string{"/mapping/cpu/" + name},
		anyOf: []string{"Mapping.Use"}}}
}

// tagUses is the privilege to change tags where the datacenter restricts that (guest-common GuestHelpers.pm,
// assert_tag_permissions). A create asks since qemu-server 9.2.0, and takes a reference for an old tag that goes, so
// that it refuses every tag where not any is allowed (API2/Qemu.pm, create_vm).
func (c *Checker) tagUses(ctx context.Context, r Request, was, is vm.Spec) []use {
	changed := slices.DeleteFunc(slices.Concat(was.Tags, is.Tags), func(tag string) bool {
		return slices.Contains(was.Tags, tag) && slices.Contains(is.Tags, tag)
	})
	if len(changed) == 0 {
		return nil
	}
	if may, err := c.holds(ctx, "/", "Sys.Modify"); may || err != nil {
		return nil
	}
	if told, err := c.holds(ctx, "/", "Sys.Audit"); !told || err != nil {
		return nil // PVE does not tell its rules
	}
	rules, err := c.api.Cluster().TagRules(ctx)
	if err != nil {
		return nil
	}
	scratch := r.Creating && !r.copies()
	if scratch {
		version, err := c.api.Cluster().VersionOf(ctx, r.Node)
		if err != nil || !version.AtLeast(9, 2, 5) { // pve-manager of that day
			return nil
		}
	}
	for _, tag := range changed {
		if scratch && !rules.Free || !slices.Contains(rules.Allowed, tag) &&
			(!rules.Free || slices.Contains(rules.Registered, tag)) {
			return []use{{path: "tags", what: "set the tag " + tag, on: []string{"/"}, anyOf: []string{"Sys.Modify"},
				instead: "have the tag allowed in the datacenter's options (user-tag-access, registered-tags)"}}
		}
	}
	return nil
}
