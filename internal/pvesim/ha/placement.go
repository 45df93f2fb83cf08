package ha

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// placement is how the manager finds the node of a service (pve-ha-manager HA/Manager.pm, select_service_node).
type placement struct {
	e *engine.Engine
	h *state.HAResource
	// classes are the nodes by priority; a node that is in none is forbidden.
	classes map[string]int
	// stays is for a service that does not go back to a better node.
	stays bool
	// together counts the services on a node that this one belongs to; apart are the nodes of those that it keeps from.
	together map[string]int
	apart    map[string]bool
}

// classOf reads a node with its priority, "pve1:2"; none is 0.
func classOf(entry string) (node string, class int) {
	node, word, _ := strings.Cut(entry, ":")
	class, _ = strconv.Atoi(word)
	return node, class
}

// newPlacement looks up what the group of the service, or the rules about it, say.
func newPlacement(e *engine.Engine, h *state.HAResource) *placement {
	p := &placement{e: e, h: h, classes: map[string]int{}, together: map[string]int{}, apart: map[string]bool{}}
	entries, strict := []string(nil), false
	if group := e.World.HAGroups[h.Group]; group != nil && !e.World.Has(state.GroupsAreRules) {
		entries, strict, p.stays = group.Nodes, group.Restricted, group.NoFailback
	}
	rules := feasibleRules(e.World)
	if e.World.Has(state.GroupsAreRules) {
		p.stays = h.Options["failback"] == "0"
		if rule := nodeRule(rules, h.SID); rule != nil {
			entries, strict = perl.ListItems(rule["nodes"]), rule["strict"] == "1"
		}
	}
	for name, n := range e.World.Nodes {
		if n.Online && !n.Maintenance && !(strict && len(entries) > 0) {
			p.classes[name] = -1
		}
	}
	for _, entry := range entries {
		name, class := classOf(entry)
		if n := e.World.Nodes[name]; n != nil && n.Online && !n.Maintenance {
			p.classes[name] = class
		}
	}
	positive, negative := affinities(rules, h.SID)
	for sid := range positive {
		if node := nodeOfService(e, sid, true); node != "" {
			p.together[node]++
		}
	}
	for sid := range negative {
		for _, settled := range []bool{false, true} {
			if node := nodeOfService(e, sid, settled); node != "" {
				p.apart[node] = true
			}
		}
	}
	return p
}

// nodeOfService is where a service is, or where it is going; "" if it uses no node (HA/Usage.pm,
// get_used_service_nodes).
func nodeOfService(e *engine.Engine, sid string, target bool) string {
	h := e.World.HA[sid]
	_, id, _ := strings.Cut(sid, ":")
	g := e.World.Guests[perl.Number(id)]
	if h == nil || g == nil || g.Running == nil && h.Busy == "" {
		return ""
	}
	node := g.Node
	if c := h.Command; target && c != nil && c.Node != "" {
		node = c.Node
	}
	if n := e.World.Nodes[node]; n == nil || !n.Online {
		return ""
	}
	return node
}

// best are the nodes of the highest priority, without those that were tried, and as the affinities narrow them down.
func (p *placement) best(tried []string) map[string]bool {
	if len(p.classes) == 0 {
		return nil
	}
	highest := slices.Max(slices.Collect(maps.Values(p.classes)))
	nodes := map[string]bool{}
	for name, class := range p.classes {
		if class == highest && !slices.Contains(tried, name) && !p.apart[name] {
			nodes[name] = true
		}
	}
	most := ""
	for _, name := range slices.Sorted(maps.Keys(p.together)) {
		if nodes[name] && (most == "" || p.together[name] > p.together[most]) {
			most = name
		}
	}
	if most != "" {
		return map[string]bool{most: true}
	}
	return nodes
}

// least is the node with the fewest services, by name among equals (HA/Usage/Basic.pm).
func (p *placement) least(nodes map[string]bool) string {
	load := map[string]int{}
	for sid := range p.e.World.HA {
		if node := nodeOfService(p.e, sid, true); node != "" && sid != p.h.SID {
			load[node]++
		}
	}
	found := ""
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if found == "" || load[name] < load[found] {
			found = name
		}
	}
	return found
}

// serviceNode is where the manager wants a running service: where it is, if that is among the best nodes, or if it may
// be there and does not go back.
func serviceNode(e *engine.Engine, h *state.HAResource, current string) string {
	p := newPlacement(e, h)
	_, allowed := p.classes[current]
	if p.stays && allowed && p.classes[current] >= 0 && (p.together[current] > 0 || !p.apart[current]) {
		return current
	}
	nodes := p.best(nil)
	if len(nodes) == 0 || nodes[current] {
		return current
	}
	return p.least(nodes)
}

// recoveryNode is a node for a service whose own is gone or does not start it; "" if there is none.
func recoveryNode(e *engine.Engine, h *state.HAResource, tried []string) string {
	p := newPlacement(e, h)
	if nodes := p.best(tried); len(nodes) > 0 {
		return p.least(nodes)
	}
	return ""
}
