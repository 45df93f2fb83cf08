package ha

import (
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// SetNode takes a node from the network, or brings it back. Off the network it answers nothing, its guests run on, and
// its workers die: without quorum they could write no configuration.
func SetNode(e *engine.Engine, name string, online bool) {
	e.Do(func(w *state.World) {
		n := w.Nodes[name]
		if n == nil {
			return
		}
		n.Online = online
		if !online {
			e.KillOn(name)
		}
	})
}

// Boot is a node's start (pve-manager API2/Nodes.pm startall).
func Boot(e *engine.Engine, name string) {
	e.World.Nodes[name].Online = true
	for _, id := range slices.Sorted(maps.Keys(e.World.Guests)) {
		g := e.World.Guests[id]
		if g.Node != name || g.Type != "qemu" {
			continue
		}
		if g.Lock() == "backup" {
			g.SetLock("", "")
		}
		if h := e.World.HA["vm:"+strconv.Itoa(id)]; h != nil && h.State != "ignored" {
			e.Round(h.SID)
			continue
		}
		if g.Config["onboot"] != "1" || g.Running != nil || g.IsTemplate() {
			continue
		}
		power.Restart(e, name, id)
	}
}

// Fence lets a node crash and the HA manager bring its services up elsewhere, a round later, wherever they may run
// (Manager.pm, recover_fenced_service): the configuration moves, the locks go, local volumes stay behind.
func Fence(e *engine.Engine, name string) {
	e.Do(func(w *state.World) {
		e.Crash(name, 0)
		e.After(w.HADelay(), func() { recoverFrom(e, name) })
	})
}

func recoverFrom(e *engine.Engine, name string) {
	w := e.World
	if n := w.Nodes[name]; n == nil || n.Online {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(w.Guests)) {
		g, h := w.Guests[id], w.HA["vm:"+strconv.Itoa(id)]
		if h == nil || g.Node != name || h.State == "ignored" || h.State == "disabled" {
			continue
		}
		to := recoveryNode(e, h, nil)
		if to == "" {
			haLog(e.World, "recovering service '%s' from fenced node '%s' failed, no recovery node found", h.SID, name)
			e.Round(h.SID)
			continue
		}
		haLog(e.World, "recover service '%s' from fenced node '%s' to node '%s'", h.SID, name, to)
		g.Node, h.Busy = to, ""
		if slices.Contains([]string{"backup", "mounted", "migrate", "clone", "rollback", "snapshot", "snapshot-delete",
			"suspending",
			"suspended"}, g.Lock()) {
			g.SetLock("", "")
		}
		e.Round(h.SID)
	}
}

// EndGuest lets a guest power itself off, or die. The HA manager starts one in its care again.
func EndGuest(e *engine.Engine, vmid int) {
	e.Do(func(w *state.World) {
		g := w.Guests[vmid]
		if g == nil || g.Running == nil {
			return
		}
		e.Lose(g, state.PowerDied, nil)
		e.Round(engine.HAType(g) + ":" + strconv.Itoa(vmid))
	})
}
