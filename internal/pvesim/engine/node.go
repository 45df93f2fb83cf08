package engine

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// UnknownNode is the error for a node that the cluster does not have.
func UnknownNode(name string) *perl.Error {
	return perl.Die("hostname lookup '%s' failed - failed to get address info for: %s: Name or service not known", name,
		name)
}

// Home is the node that serves the request: the first one that is up.
func Home(w *state.World) string {
	names := NodeNames(w)
	for _, name := range names {
		if w.Nodes[name].Online {
			return name
		}
	}
	if len(names) == 0 {
		return "pve"
	}
	return names[0]
}

// NodeNames are the names of all nodes, sorted.
func NodeNames(w *state.World) []string { return slices.Sorted(maps.Keys(w.Nodes)) }

// ClusterName is the name of a cluster of several nodes.
const ClusterName = "pvesim"

// kind is how PVE's messages call a guest.
func kind(g *state.Guest) string {
	if g.Type == "lxc" {
		return "CT"
	}
	return "VM"
}

// HAType is the kind of a guest in the ids of HA resources: "vm" or "ct".
func HAType(g *state.Guest) string { return strings.ToLower(kind(g)) }

// Crash is a node's power failure: its workers and guests die with it, its file locks are gone. It is back after away,
// if that is not zero; then it does as PVE does: locks of backups are removed, guests with onboot start.
func (e *Engine) Crash(name string, away time.Duration) {
	n := e.World.Nodes[name]
	if n == nil || !n.Online {
		return
	}
	n.Online = false
	e.KillOn(name)
	for _, id := range slices.Sorted(maps.Keys(e.World.Guests)) {
		if g := e.World.Guests[id]; g.Node == name && g.Running != nil {
			e.Lose(g, state.PowerNode, nil)
		}
	}
	for key := range e.Locks {
		if strings.HasPrefix(key, name+":") {
			delete(e.Locks, key)
		}
	}
	if away > 0 {
		e.After(away, func() { e.Config.Hooks.Boot(e, name) })
	}
}

// KillOn kills the workers of a node. Each ends when it next comes to a checkpoint or waits; third parties' end here.
func (e *Engine) KillOn(name string) {
	for _, w := range e.Workers {
		if w.Task.Node != name {
			continue
		}
		w.Kill = true
		if w.ThirdParty {
			e.EndThirdParty(w.Task, "unexpected status")
		}
	}
}

// Lose ends a guest's process; pending changes become current when PVE cleans up after it (QemuServer.pm
// vm_stop_cleanup).
func (e *Engine) Lose(g *state.Guest, kind state.PowerKind, t *state.Task) {
	e.World.PowerLoss(g, kind, t)
	g.Running = nil
	g.StatusAt = e.World.Clock.Now()
}
