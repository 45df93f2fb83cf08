package handle

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// status is what QemuServer.pm's vmstatus tells of a guest, as the list and status/current share it.
func (s *Server) status(w *state.World, g *state.Guest) map[string]any {
	st := sampleGuest(g)
	out := map[string]any{
		"vmid": g.VMID, "name": st.name, "status": "stopped", "cpus": st.cpus, "maxmem": st.memory, "maxdisk": st.disk,
		"mem": 0, "disk": 0, "cpu": 0, "uptime": 0, "netin": 0, "netout": 0,
	}
	if g.Running != nil {
		out["status"] = "running"
		out["pid"] = g.Running.PID
		out["uptime"] = int(w.Clock.Now().Sub(g.Running.StartedAt).Seconds())
		out["mem"] = st.memory / 4
		out["diskread"], out["diskwrite"] = 0, 0
	}
	for _, k := range []string{"tags", "lock"} {
		if v, ok := g.Config[k]; ok {
			out[k] = v
		}
	}
	if g.IsTemplate() {
		out["template"] = 1
	}
	for n := range 4 {
		if _, ok := g.Config["serial"+strconv.Itoa(n)]; ok {
			out["serial"] = 1
		}
	}
	return out
}

// qemuList is GET /nodes/{node}/qemu: the VMs of the node that the caller may see.
func qemuList(r *Request) (any, error) {
	var guests []*state.Guest
	may, node := r.auditor(), r.node()
	for _, g := range r.W.Guests {
		if g.Type == "qemu" && g.Node == node && may(g.VMID) {
			guests = append(guests, g)
		}
	}
	slices.SortFunc(guests, func(a, b *state.Guest) int { return cmp.Compare(a.VMID, b.VMID) })
	list := make([]any, 0, len(guests))
	for _, g := range guests {
		row := r.Server.status(r.W, g)
		if r.flag("full") {
			r.fullStatus(g, row)
		}
		list = append(list, row)
	}
	return list, nil
}

// fullStatus adds what takes a question to the process (QemuServer.pm, vmstatus with full).
func (r *Request) fullStatus(g *state.Guest, out map[string]any) {
	out["qmpstatus"] = "stopped"
	if g.Running != nil {
		out["qmpstatus"] = g.Running.QMPStatus
		out["running-qemu"], out["running-machine"] = r.W.QEMUVersion(), r.Server.runningMachine(r.W, g)
		r.runningDetails(g, out)
	}
}

func statusCurrent(r *Request) (any, error) {
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	out := r.Server.status(r.W, g)
	r.fullStatus(g, out)
	ha := map[string]any{"managed": 0}
	if h := r.managed(); h != nil {
		ha = map[string]any{"managed": 1, "state": r.Server.serviceState(h, g), "group": nil} // null without one (HA/Config.pm)
		if h.Group != "" {
			ha["group"] = h.Group
		}
	}
	out["ha"] = ha
	if agentEnabled(g.Config["agent"]) {
		out["agent"] = 1
	}
	if vga := subvalue(g.Config["vga"], "type", true); len(vga) >= 3 && vga[:3] == "qxl" {
		out["spice"] = 1
	}
	if g.Config["vga"] != "" {
		out["clipboard"] = nil
		if c := subvalue(g.Config["vga"], "clipboard", false); c != "" {
			out["clipboard"] = c
		}
	}
	return out, nil
}
