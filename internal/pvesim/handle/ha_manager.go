package handle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// on is a request of the same caller about another guest, for work that the first one sets off.
func (r *Request) on(node string, vmid int) *Request {
	return &Request{
		W: r.W, Method: r.Method, Template: r.Template, Auth: r.Auth, Server: r.Server, synchronous: r.synchronous,
		Params: map[string]string{"node": node, "vmid": strconv.Itoa(vmid)},
	}
}

func rootAuth() Auth { return Auth{ID: rootUser, User: rootUser} }

// round has the HA manager look at a resource when it comes round to it (pve-ha-manager Manager.pm, LRM.pm): it takes up what
// was asked for and brings the guest to the requested state, in tasks of root's own that nobody reports.
func (s *Server) round(sid string) { s.after(s.world.HADelay(), func() { s.look(sid) }) }

func (s *Server) haLog(format string, args ...any) {
	s.world.HALog = append(s.world.HALog, fmt.Sprintf(format, args...))
}

func (s *Server) look(sid string) {
	w := s.world
	kind, id, _ := strings.Cut(sid, ":")
	h, g := w.HA[sid], w.Guests[number(id)]
	if h == nil || g == nil || kind != "vm" || haType(g) != kind || h.Busy != "" || h.State == "ignored" || g.IsTemplate() {
		return
	}
	if !w.Nodes[g.Node].Online {
		s.round(sid) // not fenced: the manager waits for the node
		return
	}
	command := h.Command
	h.Command = nil
	if command != nil && s.command(h, g, command) || h.Failed {
		return
	}
	switch {
	case h.State == "started" && g.Running == nil:
		s.act(h, g, "qmstart", nil, func(r *Request, w *Worker) error { return r.startWorker(w, false) })
	case h.State != "started" && g.Running != nil:
		s.stopService(h, g, 60)
	case h.State == "started":
		if node := s.serviceNode(h, g.Node); node != g.Node {
			s.haLog("migrate service '%s' to node '%s' (running)", sid, node)
			s.moveService(h, g, node, true)
		}
	}
}

// command takes up what was filed for a resource. It reports whether that is all for this round.
func (s *Server) command(h *state.HAResource, g *state.Guest, c *state.HACommand) bool {
	if c.Verb == "stop" {
		s.haLog("got crm command: stop %s %d", h.SID, c.TimeoutSeconds)
		if h.State != "started" {
			s.haLog("ignore service '%s' stop request - service already stopped", h.SID)
			return false
		}
		h.State = "stopped"
		if g.Running == nil {
			return false
		}
		s.stopService(h, g, c.TimeoutSeconds)
		return true
	}
	line := c.Verb + " " + h.SID + " " + c.Node
	switch n := s.world.Nodes[c.Node]; {
	case n == nil || !n.Online:
		s.haLog("crm command error - node not online: %s", line)
		return false
	case c.Node == g.Node:
		s.haLog("ignore crm command - service already on target node: %s", line)
		return false
	}
	s.haLog("got crm command: %s", line)
	s.haLog("%s service '%s' to node '%s'", c.Verb, h.SID, c.Node)
	s.moveService(h, g, c.Node, c.Verb == "migrate")
	return true
}

// stopService lets the guest shut down within the timeout and then ends it; none means at once.
func (s *Server) stopService(h *state.HAResource, g *state.Guest, seconds int) {
	how := stopping{ask: seconds > 0, force: true, seconds: seconds, obeyed: state.PowerShutdown}
	typ := "qmshutdown"
	if !how.ask || g.Running.QMPStatus == "paused" {
		how.ask = false
	}
	if seconds == 0 {
		typ = "qmstop"
	}
	s.act(h, g, typ, nil, func(r *Request, w *Worker) error { return r.stopWorker(w, how) })
}

// moveService migrates a guest as the local manager does (HA/Resources/PVEVM.pm): with local disks, with force; relocated, it
// is shut down first, and started in a later round.
func (s *Server) moveService(h *state.HAResource, g *state.Guest, node string, online bool) {
	params := map[string]string{"target": node, "force": "1", "with-local-disks": "1", "online": strconv.Itoa(boolean(online))}
	if !online && g.Running != nil {
		how := stopping{ask: g.Running.QMPStatus != "paused", force: true, seconds: 60, obeyed: state.PowerShutdown}
		s.act(h, g, "qmshutdown", nil, func(r *Request, w *Worker) error {
			if err := r.stopWorker(w, how); err != nil {
				return err
			}
			h.Command = &state.HACommand{Verb: "relocate", Node: node}
			return nil
		})
		return
	}
	s.act(h, g, "qmigrate", params, func(r *Request, w *Worker) error { return r.migrateWorker(w, node) })
}

// act is what the local manager does in a task of root's own. The manager comes back to the resource one round later.
func (s *Server) act(h *state.HAResource, g *state.Guest, typ string, params map[string]string, work func(r *Request, w *Worker) error) {
	r := &Request{W: s.world, Method: "HA", Auth: rootAuth(), Server: s, Params: map[string]string{"node": g.Node, "vmid": itoa(g.VMID)}}
	for k, v := range params {
		r.Params[k] = v
	}
	w := s.newWorker(g.Node, typ, itoa(g.VMID), r.Auth)
	h.Busy = w.Task.UPID
	run := func(w *Worker) (err error) {
		failed := true
		defer func() {
			h.Busy = ""
			if w.kill {
				s.round(h.SID) // nobody's fault but its node's
				return
			}
			s.acted(h, g, typ, failed)
		}()
		err = perlText(work(r, w))
		failed = err != nil
		return err
	}
	if s.world.HADelay() == 0 {
		s.start(w, run)
		return
	}
	s.beside(w, run)
}

func (s *Server) acted(h *state.HAResource, g *state.Guest, typ string, failed bool) {
	switch {
	case !failed && typ == "qmstart":
		h.Failures, h.Tried = 0, nil
	case !failed:
	case typ == "qmigrate":
		s.haLog("service '%s' - migration failed (exit code 1)", h.SID)
	case typ != "qmstart":
		s.haLog("service '%s' stop failed (exit code 1)", h.SID)
		h.Failed = true
	default:
		s.failedStart(h, g)
	}
	if !h.Failed {
		s.round(h.SID)
	}
}

// failedStart counts: max_restart more tries on the node, then on max_relocate other nodes, then state error.
func (s *Server) failedStart(h *state.HAResource, g *state.Guest) {
	if h.Failures++; h.Failures <= h.Limit("max_restart") {
		return
	}
	h.Failures = 0
	h.Tried = append(h.Tried, g.Node)
	if len(h.Tried) > h.Limit("max_relocate") {
		s.haLog("recovery policy for service %s failed, entering error state. Failed nodes: %s", h.SID, strings.Join(h.Tried, ", "))
		h.Failed = true
		return
	}
	if to := s.recoveryNode(h, h.Tried); to != "" {
		s.haLog("starting service %s on node '%s' failed, relocating service.", h.SID, g.Node)
		h.Command = &state.HACommand{Verb: "migrate", Node: to}
	}
}

// serviceNode is where the manager wants a running service: where it is, unless its group says otherwise (Manager.pm,
// select_service_node). Priorities within a group are not modelled.
func (s *Server) serviceNode(h *state.HAResource, current string) string {
	group := s.world.HAGroups[h.Group]
	if group == nil || slices.Contains(group.Nodes, current) || group.NoFailback && !group.Restricted {
		return current
	}
	for _, name := range slices.Sorted(slices.Values(group.Nodes)) {
		if n := s.world.Nodes[name]; n != nil && n.Online {
			return name
		}
	}
	return current
}
