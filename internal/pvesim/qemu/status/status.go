// Package status tells what virtual machines do.
package status

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/cluster"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/ha"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/statistics"
)

// status is what QemuServer.pm's vmstatus tells of a guest, as the list and status/current share it.
func status(e *engine.Engine, w *state.World, g *state.Guest) map[string]any {
	st := statistics.Sample(g)
	out := map[string]any{
		"vmid": g.VMID, "name": st.Name, "status": "stopped", "cpus": st.Cpus, "maxmem": st.Memory, "maxdisk": st.Disk,
		"mem": 0, "disk": 0, "cpu": 0, "uptime": 0, "netin": 0, "netout": 0,
	}
	if g.Running != nil {
		out["status"] = "running"
		out["pid"] = g.Running.PID
		out["uptime"] = int(w.Clock.Now().Sub(g.Running.StartedAt).Seconds())
		out["mem"] = st.Memory / 4
		out["diskread"], out["diskwrite"] = 0, 0
	}
	if n := perl.Number(g.Config["balloon"]); n > 0 {
		out["balloon_min"], out["shares"] = int64(n)<<20, 1000
		if s, ok := perl.ParseNumber(g.Config["shares"]); ok {
			out["shares"] = s
		}
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

// List is GET /nodes/{node}/qemu: the VMs of the node that the caller may see.
func List(r *engine.Request) (any, error) {
	var guests []*state.Guest
	may, node := cluster.Auditor(r), r.Node()
	for _, g := range r.W.Guests {
		if g.Type == "qemu" && g.Node == node && may(g.VMID) {
			guests = append(guests, g)
		}
	}
	slices.SortFunc(guests, func(a, b *state.Guest) int { return cmp.Compare(a.VMID, b.VMID) })
	list := make([]any, 0, len(guests))
	for _, g := range guests {
		row := status(r.Engine, r.W, g)
		if r.Flag("full") {
			fullStatus(r, g, row)
		}
		list = append(list, row)
	}
	return list, nil
}

// fullStatus adds what takes a question to the process (QemuServer.pm, vmstatus with full).
func fullStatus(r *engine.Request, g *state.Guest, out map[string]any) {
	out["qmpstatus"] = "stopped"
	if g.Running != nil {
		out["qmpstatus"] = g.Running.QMPStatus
		out["running-qemu"], out["running-machine"] = r.W.QEMUVersion(), config.RunningMachine(r.Engine, r.W, g)
		runningDetails(r, g, out)
	}
}

// Current is GET status/current.
func Current(r *engine.Request) (any, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	out := status(r.Engine, r.W, g)
	fullStatus(r, g, out)
	managed := map[string]any{"managed": 0}
	if h := power.Managed(r); h != nil {
		// null without one (HA/Config.pm)
		managed = map[string]any{"managed": 1, "state": ha.ServiceState(r.Engine, h, g), "group": nil}
		if h.Group != "" {
			managed["group"] = h.Group
		}
	}
	out["ha"] = managed
	if agent.Enabled(g.Config["agent"]) {
		out["agent"] = 1
	}
	if vga := perl.Subvalue(g.Config["vga"], "type", true); len(vga) >= 3 && vga[:3] == "qxl" {
		out["spice"] = 1
	}
	if g.Config["vga"] != "" {
		out["clipboard"] = nil
		if c := perl.Subvalue(g.Config["vga"], "clipboard", false); c != "" {
			out["clipboard"] = c
		}
	}
	return out, nil
}
