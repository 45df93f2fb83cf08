package handle

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// SetNode takes a node from the network, or brings it back. Off the network it answers nothing, its guests run on, and its
// workers die: without quorum they could write no configuration.
func (s *Server) SetNode(name string, online bool) {
	s.Do(func(w *state.World) {
		n := w.Nodes[name]
		if n == nil {
			return
		}
		n.Online = online
		if !online {
			s.killOn(name)
		}
	})
}

// crash is a node's power failure: its workers and guests die with it, its file locks are gone. It is back after away, if that
// is not zero; what it does then is PVE's: locks of backups are removed, guests with onboot start.
func (s *Server) crash(name string, away time.Duration) {
	n := s.world.Nodes[name]
	if n == nil || !n.Online {
		return
	}
	n.Online = false
	s.killOn(name)
	for _, id := range slices.Sorted(maps.Keys(s.world.Guests)) {
		if g := s.world.Guests[id]; g.Node == name && g.Running != nil {
			s.lose(g, state.PowerNode, nil)
		}
	}
	for key := range s.locks {
		if strings.HasPrefix(key, name+":") {
			delete(s.locks, key)
		}
	}
	if away > 0 {
		s.after(away, func() { s.boot(name) })
	}
}

// boot is a node's start (pve-manager API2/Nodes.pm startall).
func (s *Server) boot(name string) {
	s.world.Nodes[name].Online = true
	for _, id := range slices.Sorted(maps.Keys(s.world.Guests)) {
		g := s.world.Guests[id]
		if g.Node != name || g.Type != "qemu" {
			continue
		}
		if g.Lock() == "backup" {
			g.SetLock("", "")
		}
		if h := s.world.HA["vm:"+itoa(id)]; h != nil && h.State != "ignored" {
			s.round(h.SID)
			continue
		}
		if g.Config["onboot"] != "1" || g.Running != nil || g.IsTemplate() {
			continue
		}
		s.restart(name, id)
	}
}

// killOn kills the workers of a node. Each ends when it next comes to a checkpoint or waits; strangers' end here.
func (s *Server) killOn(name string) {
	for _, w := range s.workers {
		if w.Task.Node != name {
			continue
		}
		w.kill = true
		if w.foreign {
			s.endForeign(w.Task, "unexpected status")
		}
	}
}

// Fence lets a node crash and the HA manager bring its services up elsewhere, a round later, wherever they may run (Manager.pm,
// recover_fenced_service): the configuration moves, the locks go, local volumes stay behind.
func (s *Server) Fence(name string) {
	s.Do(func(w *state.World) {
		s.crash(name, 0)
		s.after(w.HADelay(), func() { s.recoverFrom(name) })
	})
}

func (s *Server) recoverFrom(name string) {
	w := s.world
	if n := w.Nodes[name]; n == nil || n.Online {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(w.Guests)) {
		g, h := w.Guests[id], w.HA["vm:"+itoa(id)]
		if h == nil || g.Node != name || h.State == "ignored" || h.State == "disabled" {
			continue
		}
		to := s.recoveryNode(h, nil)
		if to == "" {
			s.haLog("recovering service '%s' from fenced node '%s' failed, no recovery node found", h.SID, name)
			s.round(h.SID)
			continue
		}
		s.haLog("recover service '%s' from fenced node '%s' to node '%s'", h.SID, name, to)
		g.Node, h.Busy = to, ""
		if slices.Contains([]string{"backup", "mounted", "migrate", "clone", "rollback", "snapshot", "snapshot-delete", "suspending",
			"suspended"}, g.Lock()) {
			g.SetLock("", "")
		}
		s.round(h.SID)
	}
}

// recoveryNode is the first node that is up, not among the tried ones, and where the service may run; "" if there is none.
func (s *Server) recoveryNode(h *state.HAResource, tried []string) string {
	group := s.world.HAGroups[h.Group]
	var others string
	for _, name := range nodeNames(s.world) {
		switch {
		case !s.world.Nodes[name].Online || slices.Contains(tried, name):
		case group == nil || slices.Contains(group.Nodes, name):
			return name
		case !group.Restricted && others == "":
			others = name
		}
	}
	return others
}
