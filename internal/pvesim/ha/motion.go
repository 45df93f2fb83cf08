package ha

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Motion says which services go where a service goes, and which keep it from nodes (pve-ha-manager HA/Config.pm
// get_resource_motion_info).
func Motion(e *engine.Engine, sid string) (dependent []string, blockers map[string][]string) {
	blockers = map[string][]string{}
	for name, n := range e.World.Nodes {
		if found := blocking(e, sid, name); n.Online && len(found) > 0 {
			blockers[name] = found
		}
	}
	return companions(e.World, sid), blockers
}

// companions are the managed services that go where a service goes, wherever they are.
func companions(w *state.World, sid string) []string {
	positive, _ := affinities(feasibleRules(w), sid)
	maps.DeleteFunc(positive, func(other string, _ bool) bool {
		return w.HA[other] == nil || w.HA[other].State == "ignored"
	})
	return slices.Sorted(maps.Keys(positive))
}

// blocking are the services on the node that another one keeps from.
func blocking(e *engine.Engine, sid, node string) (found []string) {
	_, negative := affinities(feasibleRules(e.World), sid)
	for _, other := range slices.Sorted(maps.Keys(negative)) {
		h, g := e.World.HA[other], guestOf(e, other)
		if h != nil && g != nil && h.State != "ignored" && g.Node == node {
			found = append(found, other)
		}
	}
	return found
}

// guestOf is the guest of a service.
func guestOf(e *engine.Engine, sid string) *state.Guest {
	_, id, _ := strings.Cut(sid, ":")
	return e.World.Guests[perl.Number(id)]
}

// takeAlong has the companions of a service follow it, also those that are stopped (HA/Manager.pm
// queue_resource_motion, next_state_stopped).
func takeAlong(e *engine.Engine, h *state.HAResource, c *state.HACommand, line string) {
	for _, other := range companions(e.World, h.SID) {
		o, g := e.World.HA[other], guestOf(e, other)
		if g == nil || g.Node == c.Node || o.Command != nil && o.Command.Node == c.Node {
			continue
		}
		haLog(e.World, "crm command '%s' - %s service '%s' to node '%s' (service '%s' in positive affinity with service "+
			"'%s')", line, c.Verb, other, c.Node, other, h.SID)
		o.Command = &state.HACommand{Verb: c.Verb, Node: c.Node, Alone: true}
		e.Round(other)
	}
}

// moveContainer takes a container to another node, with its volumes: never online, so one that runs is shut down
// before that and started afterwards (HA/Resources/PVECT.pm migrate).
func moveContainer(e *engine.Engine, h *state.HAResource, g *state.Guest, node string) {
	act(e, h, g, "vzmigrate", nil, func(_ *engine.Request, w *engine.Worker) error {
		ran := g.Running
		if ran != nil {
			e.Lose(g, state.PowerShutdown, w.Task)
		}
		for key, v := range maps.Clone(e.World.Volumes) {
			if v.VMID == g.VMID && key.Node == g.Node {
				delete(e.World.Volumes, key)
				v.Node = node
				e.World.Put(v)
			}
		}
		g.Node = node
		if ran != nil && h.State == "started" {
			again := *ran
			again.StartedAt = e.World.Clock.Now()
			g.Running = &again
		}
		return nil
	})
}
