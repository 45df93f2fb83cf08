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
