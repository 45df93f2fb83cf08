package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// quorum reports a cluster that writes nothing. Only one that has lost nodes can have lost its quorum, so that only then it is asked.
func (c *planCheck) quorum(ctx context.Context, s *Checker) {
	var lost []string
	for _, n := range c.resources.Nodes() {
		if n.Status == "offline" {
			lost = append(lost, n.Node)
		}
	}
	if len(lost) == 0 {
		return
	}
	quorate, err := s.quorate.Get(ctx, s.clock, "", s.api.Quorate)
	if err == nil && !quorate { // who may not look leaves it to the apply
		c.say(noQuorum, "", fmt.Sprintf("Of its %d nodes these are offline: %s. Until more than half of the votes are back PVE "+
			"changes nothing in the whole cluster", len(c.resources.Nodes()), some(lost)))
	}
}

// nodeState reports a node to which a VM should not go, and one that says nothing of itself.
func (c *planCheck) nodeState(r Request) {
	node, ok := c.resources.Node(c.node)
	if !ok {
		return
	}
	path := "node"
	if len(r.Nodes) > 0 {
		path = "nodes"
	}
	if node.Status == "unknown" {
		c.say(nodeSilent, path, "The cluster sees the node, but its pvestatd has reported nothing for minutes, mostly since a storage hangs. "+
			"What this plan needs there was not looked at", c.node)
	}
	if node.HAState == "maintenance" && (r.Creating || r.Moving != nil) {
		c.say(nodeMaintained, path, "Somebody is about to work on it: a VM under HA is moved away from it at once, and any other may be "+
			"switched off with it", c.node)
	}
}

// storagesDown reports storages that do not work now. The listing has no figures of one that the node could not reach for minutes, but
// none of one that is new or of a node that does not report either: so the node itself is asked.
func (c *planCheck) storagesDown(ctx context.Context, s *Checker, wanted map[string]string) {
	for _, path := range slices.Sorted(maps.Keys(wanted)) {
		id := wanted[path]
		listed, ok := c.resources.Storage(c.node, id)
		if !ok || listed.Status == "available" || c.isReported(path) {
			continue
		}
		there, err := s.storages.Get(ctx, s.clock, c.node, func(ctx context.Context) ([]pve.Storage, error) {
			return s.api.Storages(ctx, c.node, "images")
		})
		is := func(at pve.Storage) bool { return at.ID == id && at.Enabled && !at.Active }
		if err == nil && slices.ContainsFunc(there, is) {
			c.say(storageDown, path, fmt.Sprintf("The node has tried to reach it and could not: it may be switched off, full, or not mounted. "+
				"`pvesm status --storage %s` on the node says more", id), id, c.node)
		}
	}
}
