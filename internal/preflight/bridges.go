package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// bridges reports those that the node does not list. PVE lists what is in the node's interfaces file, and starts a VM on a bridge
// that only its kernel has as well (pve-manager API2/Network.pm; pve-common Network.pm). So a bridge that the identity may use is
// no more than doubtful, except for a VM that moves: where it cannot run it is not sent.
func (c *planCheck) bridges(ctx context.Context, s *Checker, r Request, networks []pve.Network) {
	names := make([]string, len(networks))
	for i, n := range networks {
		names[i] = n.Name
	}
	for _, path := range slices.Sorted(maps.Keys(r.Bridges)) {
		bridge := r.Bridges[path]
		if slices.Contains(names, bridge) {
			continue
		}
		detail := fmt.Sprintf("Node %s has %s, as far as this identity may use them (SDN.Use)", c.node, bridgeList(names))
		if r.Moving == nil && s.mayUseBridge(ctx, bridge) {
			c.say(bridgeUnlisted, path, detail+". Where the bridge is in the node's kernel only, PVE does not list it and starts the VM all the "+
				"same; otherwise the start fails", bridge)
		} else {
			c.say(bridgeUnknown, path, detail, bridge)
		}
	}
}

// mayUseBridge reports whether PVE would let the identity use a bridge that is in no zone but that of the node's own (pve-access-control
// RPCEnvironment.pm check_sdn_bridge). Who cannot be asked may.
func (s *Checker) mayUseBridge(ctx context.Context, bridge string) bool {
	if s.api.Identity().IsRootTicket() {
		return true
	}
	held, err := s.api.Privileges(ctx, "/sdn/zones/localnetwork/"+bridge)
	return err != nil || held["SDN.Use"]
}

func bridgeList(names []string) string {
	if len(names) == 0 {
		return "no bridge"
	}
	return "the bridges " + strings.Join(names, ", ")
}
