package ha

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/migrate"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func haLog(w *state.World, format string, args ...any) {
	w.HALog = append(w.HALog, fmt.Sprintf(format, args...))
}

// Manage is a round of the HA manager over one resource. The world's mutex is held.
func Manage(e *engine.Engine, sid string) {
	w := e.World
	kind, id, _ := strings.Cut(sid, ":")
	h, g := w.HA[sid], w.Guests[perl.Number(id)]
	if h == nil || g == nil || engine.HAType(g) != kind || h.Busy != "" || g.IsTemplate() {
		return
	}
	if h.State == "ignored" {
		forget(e, h, g)
		return
	}
	if !w.Nodes[g.Node].Online {
		e.Round(sid) // not a fenced node: the manager waits for it
		return
	}
	filed := h.Command
	h.Command = nil
	if filed != nil && command(e, h, g, filed) || h.Failed || kind == "ct" { // containers are only moved here
		return
	}
	switch {
	case h.State == "started" && g.Running == nil:
		act(e, h, g, "qmstart", nil, func(r *engine.Request, w *engine.Worker) error {
			return power.StartWorker(r, w,
				false)
		})
	case h.State != "started" && g.Running != nil:
		stopService(e, h, g, 60)
	case h.State == "started":
		if node := serviceNode(e, h, g.Node); node != g.Node {
			haLog(e.World, "migrate service '%s' to node '%s' (running)", sid, node)
			moveService(e, h, g, node, true)
		}
	}
}

// forget takes an ignored resource out of the manager's status (Manager.pm, "removing stale service"). The local
// manager, which may come first, does what that status asks for: it looks whether there is an entry, and not at the
// state of the entry (LRM.pm, exec_resource_agent).
func forget(e *engine.Engine, h *state.HAResource, g *state.Guest) {
	was := h.Leaving
	h.Leaving = ""
	if was == "started" && g.Running == nil && engine.HAType(g) == "vm" {
		act(e, h, g, "qmstart", nil, func(r *engine.Request, w *engine.Worker) error {
			return power.StartWorker(r, w, false)
		})
	}
}

// command takes up what was filed for a resource. It reports whether that is all for this round.
func command(e *engine.Engine, h *state.HAResource, g *state.Guest, c *state.HACommand) bool {
	if c.Verb == "stop" {
		haLog(e.World, "got crm command: stop %s %d", h.SID, c.TimeoutSeconds)
		if h.State != "started" {
			haLog(e.World, "ignore service '%s' stop request - service already stopped", h.SID)
			return false
		}
		h.State = "stopped"
		if g.Running == nil {
			return false
		}
		stopService(e, h, g, c.TimeoutSeconds)
		return true
	}
	line := c.Verb + " " + h.SID + " " + c.Node
	switch n := e.World.Nodes[c.Node]; {
	case n == nil || !n.Online:
		haLog(e.World, "crm command error - node not online: %s", line)
		return false
	case c.Node == g.Node:
		haLog(e.World, "ignore crm command - service already on target node: %s", line)
		return false
	}
	if others := blocking(e, h.SID, c.Node); len(others) > 0 {
		haLog(e.World, "crm command '%s' error - service '%s' on node '%s' in negative affinity with service '%s'", line,
			others[0], c.Node, h.SID)
		return false
	}
	haLog(e.World, "got crm command: %s", line)
	if !c.Alone {
		takeAlong(e, h, c, line)
	}
	haLog(e.World, "%s service '%s' to node '%s'", c.Verb, h.SID, c.Node)
	moveService(e, h, g, c.Node, c.Verb == "migrate")
	return true
}

// stopService lets the guest shut down within the timeout and then ends it; none means at once.
func stopService(e *engine.Engine, h *state.HAResource, g *state.Guest, seconds int) {
	how := power.Stopping{Ask: seconds > 0, Force: true, Seconds: seconds, Obeyed: state.PowerShutdown}
	typ := "qmshutdown"
	if !how.Ask || g.Running.QMPStatus == "paused" {
		how.Ask = false
	}
	if seconds == 0 {
		typ = "qmstop"
	}
	act(e, h, g, typ, nil, func(r *engine.Request, w *engine.Worker) error { return power.StopWorker(r, w, how) })
}

// moveService migrates a guest as the local manager does (HA/Resources/PVEVM.pm): with local disks, with force;
// relocated, it is shut down first, and started in a later round.
func moveService(e *engine.Engine, h *state.HAResource, g *state.Guest, node string, online bool) {
	if engine.HAType(g) == "ct" {
		moveContainer(e, h, g, node)
		return
	}
	params := map[string]string{"target": node, "force": "1", "with-local-disks": "1",
		"online": strconv.Itoa(perl.Flag(online))}
	if !online && g.Running != nil {
		how := power.Stopping{Ask: g.Running.QMPStatus != "paused", Force: true, Seconds: 60, Obeyed: state.PowerShutdown}
		act(e, h, g, "qmshutdown", nil, func(r *engine.Request, w *engine.Worker) error {
			if err := power.StopWorker(r, w, how); err != nil {
				return err
			}
			h.Command = &state.HACommand{Verb: "relocate", Node: node}
			return nil
		})
		return
	}
	act(e, h, g, "qmigrate", params, func(r *engine.Request, w *engine.Worker) error { return migrate.Run(r, w, node) })
}

// act is what the local manager does in a task of root's own. The manager comes back to the resource one round later.
func act(e *engine.Engine, h *state.HAResource, g *state.Guest, typ string, params map[string]string,
	work func(r *engine.Request, w *engine.Worker) error) {
	r := &engine.Request{W: e.World, Method: "HA", Auth: auth.Root(), Engine: e,
		Params: map[string]string{"node": g.Node, "vmid": strconv.Itoa(g.VMID)}}
	for k, v := range params {
		r.Params[k] = v
	}
	w := e.NewWorker(g.Node, typ, strconv.Itoa(g.VMID), r.Auth)
	h.Busy = w.Task.UPID
	run := func(w *engine.Worker) (err error) {
		failed := true
		defer func() {
			h.Busy = ""
			if w.Kill {
				e.Round(h.SID) // the node's fault, not the guest's
				return
			}
			acted(e, h, g, typ, failed)
		}()
		err = perl.Stringify(work(r, w))
		failed = err != nil
		return err
	}
	if e.World.HADelay() == 0 {
		w.Start(run)
		return
	}
	w.Beside(run)
}

func acted(e *engine.Engine, h *state.HAResource, g *state.Guest, typ string, failed bool) {
	switch {
	case !failed && typ == "qmstart":
		h.Failures, h.Tried = 0, nil
	case !failed:
	case typ == "qmigrate":
		haLog(e.World, "service '%s' - migration failed (exit code 1)", h.SID)
	case typ != "qmstart":
		haLog(e.World, "service '%s' stop failed (exit code 1)", h.SID)
		h.Failed = true
	default:
		failedStart(e, h, g)
	}
	if !h.Failed {
		e.Round(h.SID)
	}
}

// failedStart counts: max_restart more tries on the node, then on max_relocate other nodes, then state error.
func failedStart(e *engine.Engine, h *state.HAResource, g *state.Guest) {
	if h.Failures++; h.Failures <= h.Limit("max_restart") {
		return
	}
	h.Failures = 0
	h.Tried = append(h.Tried, g.Node)
	if len(h.Tried) > h.Limit("max_relocate") {
		haLog(e.World, "recovery policy for service %s failed, entering error state. Failed nodes: %s", h.SID,
			strings.Join(h.Tried, ", "))
		h.Failed = true
		return
	}
	if to := recoveryNode(e, h, h.Tried); to != "" {
		haLog(e.World, "starting service %s on node '%s' failed, relocating service.", h.SID, g.Node)
		h.Command = &state.HACommand{Verb: "migrate", Node: to}
	}
}
