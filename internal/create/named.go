package create

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// spokenFor are ids that no guest has and of which permissions, a pool or a firewall speak, if the chosen one is of them. PVE keeps these
// by id, and a new VM would be handed to whoever they name (access-control AccessControl.pm, pve-firewall Firewall.pm load_vmfw_conf). It
// takes them away when it destroys a guest, before the id is free (qemu-server API2/Qemu.pm destroy_vm); what is there was left by hand,
// or is meant for a guest to come.
func (i *idChooser) spokenFor(ctx context.Context, vmid int) ([]int, error) {
	paths, err := i.s.guests.Permissions(ctx)
	named := namedIn(paths)
	if err == nil && named[vmid] { // or a guest had the id until a moment ago
		if named, err = i.s.namedNow.Get(ctx, i.s.askNamed); err == nil && named[vmid] {
			return slices.DeleteFunc(slices.Collect(maps.Keys(named)), i.isGuest), nil
		}
	}
	if err != nil || !i.inheritsFirewall() {
		return nil, err
	}
	left, err := i.s.api.FirewallOptions(ctx, i.places[0].node, vmid)
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

// inheritsFirewall reports whether rules that are left under the id would hold for the new VM: it has an interface with a firewall, none of
// its own is configured, and it is no clone, whose file PVE writes anew (pve-firewall Helpers.pm clone_vmfw_conf).
func (i *idChooser) inheritsFirewall() bool {
	if i.request.Firewall != nil || i.request.Clone != nil {
		return false
	}
	for _, n := range i.request.Spec.Networks {
		if n.Firewall != nil && *n.Firewall {
			return true
		}
	}
	return false
}

// askNamed asks for the ids that permissions of anybody and pools name. PVE tells them to everybody who may do something with them: the
// paths of an identity's own privileges are those of all entries and of all members of pools (access-control RPCEnvironment.pm
// get_effective_permissions). It gives no ids to an identity that may not create VMs at large: there an entry for the id is what lets it.
func (s *Creator) askNamed(ctx context.Context) (map[int]bool, error) {
	paths, err := s.api.Permissions(ctx, "")
	return namedIn(paths), err
}

func namedIn(paths map[string]map[string]bool) map[int]bool {
	if !paths["/vms"]["VM.Allocate"] {
		return nil
	}
	named := map[int]bool{}
	for path := range paths {
		if id, ok := strings.CutPrefix(path, "/vms/"); ok {
			if vmid, err := strconv.Atoi(id); err == nil {
				named[vmid] = true
			}
		}
	}
	return named
}
