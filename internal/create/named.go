package create

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// spokenFor returns VMIDs without a guest that permissions, a pool or a firewall mention, if the chosen one is among
// them. PVE keeps these by VMID, and a new VM would be handed to the users that they name (access-control
// AccessControl.pm, pve-firewall Firewall.pm load_vmfw_conf). PVE removes them when it destroys a guest, before the
// VMID is free (qemu-server API2/Qemu.pm destroy_vm). Those that remain were left by hand, or are meant for a future
// guest. Entries of HA and replication are not looked for: PVE destroys no guest that has one unless told to remove it
// as well (destroy_vm, early_checks), and makes none without the guest. Nor are backup jobs and backups, which outlive
// their guests by design. A job with a retention prunes the old backups of the VMID with the new ones (pve-manager
// VZDump.pm).
func (i *idChooser) spokenFor(ctx context.Context, vmid int) ([]int, error) {
	paths, err := i.creator.guests.Permissions(ctx)
	named := namedIn(paths)
	if err == nil && named[vmid] { // or a guest had the id until a moment ago
		if named, err = i.creator.namedNow.Get(ctx, i.creator.askNamed); err == nil && named[vmid] {
			return slices.DeleteFunc(slices.Collect(maps.Keys(named)), i.isGuest), nil
		}
	}
	if err != nil || !i.inheritsFirewall() {
		return nil, err
	}
	left, err := i.creator.api.Firewall(i.places[0].node, vmid).Options(ctx)
	switch {
	case pve.IsKind(err, pve.Denied): // nothing says that there is one
		return nil, nil
	case err == nil && left.Values["enable"] == "1":
		return []int{vmid}, nil
	}
	return nil, err
}

func (i *idChooser) isGuest(vmid int) bool {
	_, ok := i.resources.Guest(vmid)
	return ok
}

// inheritsFirewall reports whether firewall rules left under the VMID would apply to the new VM. They do if it has an
// interface with a firewall, no firewall of its own is configured, and it is no clone, whose file PVE rewrites
// (pve-firewall Helpers.pm clone_vmfw_conf). A backup brings interfaces, and PVE leaves the file of the VMID where the
// archive has none (qemu-server QemuServer.pm restore_vma_archive); what an archive has cannot be asked for.
func (i *idChooser) inheritsFirewall() bool {
	if i.request.Firewall != nil || i.request.Clone != nil {
		return false
	}
	has := i.request.Spec
	if i.from != nil {
		has = vm.Merge(vm.Decode(i.from.config), has)
	}
	for _, n := range has.Networks {
		if n.Firewall != nil && *n.Firewall {
			return true
		}
	}
	return false
}

// askNamed asks for the VMIDs that permissions and pools of any user name. PVE tells them to every user with a
// privilege on them: the paths of an identity's own privileges are those of all entries and of all members of pools
// (access-control RPCEnvironment.pm get_effective_permissions).
func (c *Creator) askNamed(ctx context.Context) (map[int]bool, error) {
	paths, err := c.api.Access().Permissions(ctx, "")
	return namedIn(paths), err
}

// namedIn are the VMIDs that entries of others name. An identity that may not create VMs everywhere needs an entry for
// the VMID or for its pool: an id on which it may create VMs is its own.
func namedIn(paths map[string]map[string]bool) map[int]bool {
	everywhere, named := paths["/vms"]["VM.Allocate"], map[int]bool{}
	for path, held := range paths {
		id, isVM := strings.CutPrefix(path, "/vms/")
		if _, creates := held["VM.Allocate"]; !isVM || creates && !everywhere {
			continue
		}
		if vmid, err := strconv.Atoi(id); err == nil {
			named[vmid] = true
		}
	}
	return named
}
