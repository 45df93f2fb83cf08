package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nearest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// bridges reports bridges that the node does not list. PVE lists those in the node's interfaces file, and also starts a
// VM on a bridge that only its kernel has (pve-manager API2/Network.pm; pve-common Network.pm). So an unlisted bridge
// that the identity may use is only doubtful, except for a VM that moves: it is not sent to a node where it cannot run.
func (p *planCheck) bridges(ctx context.Context, c *Checker, r Request, networks []pve.Network) {
	names := make([]string, len(networks))
	for i, n := range networks {
		names[i] = n.Name
	}
	for _, path := range slices.Sorted(maps.Keys(r.Bridges)) {
		bridge := r.Bridges[path]
		if slices.Contains(names, bridge) {
			continue
		}
		detail := fmt.Sprintf("%sNode %s has %s, as far as this identity may use them (SDN.Use)",
			nearest.Hint(bridge, names), p.node, bridgeList(names))
		switch {
		case r.Moving == nil && c.mayUseBridge(ctx, bridge):
			p.say(bridgeUnlisted, path, detail+". Where the bridge is in the node's kernel only, PVE does not list it and "+
				"starts the VM all the same; otherwise the start fails", bridge)
		case r.Moving != nil:
			p.say(bridgeUnknown, path, detail, bridge)
		default:
			p.uses = append(p.uses, use{path: path, on: []string{localBridge(bridge)}, anyOf: []string{"SDN.Use"},
				rule: bridgeUnknown, bridge: bridge, detail: detail + ". If it has this one: "})
		}
	}
}

// plugged are the slots of network devices that a plan plugs into a bridge, with other values than in state, or on
// another node.
func plugged(r Request) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.Planned.Networks)), func(slot string) bool {
		is, was := r.Planned.Networks[slot], r.Prior.Networks[slot]
		isSame := is.Model == was.Model && value(is.Bridge) == value(was.Bridge) && value(is.Tag) == value(was.Tag) &&
			value(is.MTU) == value(was.MTU) && slices.Equal(is.Trunks, was.Trunks)
		return is.Bridge == nil || isSame && r.Moving == nil
	})
}

// value is that of a pointer, or zero.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// asksForBridges reports whether the bridges of the node matter: those that are new to the VM, and those whose devices
// get values that a bridge may refuse.
func asksForBridges(r Request) bool {
	return len(r.Bridges) > 0 || slices.ContainsFunc(plugged(r), func(slot string) bool {
		nic := r.Planned.Networks[slot]
		return nic.Tag != nil || len(nic.Trunks) > 0 || value(nic.MTU) > 1
	})
}

// fitBridges warns of network devices that their bridge is not fit for. PVE starts no VM with one. From a running guest
// it first takes the device, or its end of the cable, and then refuses (qemu-server QemuServer.pm vmconfig_update_net,
// print_netdevice_full; pve-common Network.pm tap_plug, activate_bridge_vlan).
func fitBridges(p *planCheck, r Request, networks []pve.Network) {
	for _, slot := range plugged(r) {
		nic := r.Planned.Networks[slot]
		at := slices.IndexFunc(networks, func(n pve.Network) bool { return n.Name == *nic.Bridge })
		if at < 0 {
			continue
		}
		on := networks[at]
		isPlain := on.Type == "bridge" && !on.VLANAware
		var field, why string
		switch mtu := value(nic.MTU); {
		case nic.Model == "virtio" && on.MTU > 0 && mtu > on.MTU:
			field = "mtu"
			why = fmt.Sprintf("its MTU of %d is above the bridge's, %d. Write 1 for the bridge's own", mtu, on.MTU)
		case nic.Model == "virtio" && on.Type == "bridge" && on.MTU == 0 && on.Ports == "" && mtu > 1500:
			field = "mtu" // one with cards has theirs
			why = fmt.Sprintf("its MTU of %d is above 1500, that of a bridge for which none is set and that has no network "+
				"card. Write 1 for the bridge's own", mtu)
		case isPlain && len(nic.Trunks) > 0:
			field, why = "trunks", "trunks need a bridge that is VLAN aware, and this one is not"
		case isPlain && nic.Tag != nil && on.Ports == "":
			field = "tag"
			why = "a VLAN on a bridge that is not VLAN aware needs a network card in the bridge, and this one has none"
		default:
			continue
		}
		p.say(bridgeUnfit, "networks."+slot+"."+field, fmt.Sprintf("By the interfaces file of node %s, %s. Then PVE "+
			"starts no VM with it, and a guest that runs loses the device until its next start", p.node, why), slot, on.Name)
	}
}

// mayUseBridge reports whether PVE would let the identity use a bridge that is in no zone but that of the node's own
// (pve-access-control RPCEnvironment.pm check_sdn_bridge). If this cannot be found out, it may.
func (c *Checker) mayUseBridge(ctx context.Context, bridge string) bool {
	if c.api.Identity().IsRootTicket() {
		return true
	}
	held, err := c.api.Access().Privileges(ctx, localBridge(bridge))
	return err != nil || held["SDN.Use"]
}

func localBridge(name string) string { return "/sdn/zones/localnetwork/" + name }

// isNodesOwn reports whether a node lists a bridge that is no VNet.
func (c *Checker) isNodesOwn(ctx context.Context, node, bridge string) bool {
	if node == "" {
		return false
	}
	if number, named := strings.CutPrefix(bridge, "vmbr"); named && strings.Trim(number, "0123456789") == "" {
		return true // so PVE names bridges of nodes
	}
	networks, err := c.nodeNetworks(ctx, node)
	return err == nil && slices.ContainsFunc(networks, func(n pve.Network) bool {
		return n.Name == bridge && n.Type != "vnet"
	})
}

func bridgeList(names []string) string {
	if len(names) == 0 {
		return "no bridge"
	}
	return "the bridges " + strings.Join(names, ", ")
}
