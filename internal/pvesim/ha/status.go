package ha

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/cluster"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// ServiceState is the state that the manager's status has for a resource: not what was asked for, but how far it is.
func ServiceState(e *engine.Engine, h *state.HAResource, g *state.Guest) string {
	running := g != nil && g.Running != nil
	switch {
	case h.Failed:
		return "error"
	case h.State == "ignored":
		return h.State
	case h.Busy != "" && e.Workers[h.Busy] != nil && e.Workers[h.Busy].Task.Type == "qmigrate":
		return "migrate"
	case h.State == "started" && running:
		return "started"
	case h.State == "started":
		return "request_start"
	case running:
		return "request_stop"
	}
	return "stopped"
}

// managerStatus is GET /cluster/ha/status/manager_status (pve-ha-manager API2/HA/Status.pm).
func managerStatus(r *engine.Request) (any, error) {
	nodes, services, lrm := map[string]any{}, map[string]any{}, map[string]any{}
	for _, name := range engine.NodeNames(r.W) {
		status, mode := cluster.NodeHAState(r.W.Nodes[name]), "active"
		if status != "online" {
			mode = status
		}
		nodes[name], lrm[name] = status, map[string]any{"mode": mode, "state": mode, "timestamp": r.W.Clock.Now().Unix()}
	}
	for _, sid := range slices.Sorted(maps.Keys(r.W.HA)) {
		_, id, _ := strings.Cut(sid, ":")
		g := r.W.Guests[perl.Number(id)]
		row := map[string]any{"state": ServiceState(r.Engine, r.W.HA[sid], g), "running": 0}
		if g != nil {
			row["node"], row["running"] = g.Node, perl.Flag(g.Running != nil)
		}
		services[sid] = row
	}
	return map[string]any{
		"manager_status": map[string]any{
			"master_node": engine.Home(r.W), "node_status": nodes, "service_status": services,
			"timestamp": r.W.Clock.Now().Unix(),
		},
		"lrm_status": lrm, "quorum": map[string]any{"node": engine.Home(r.W),
			"quorate": strconv.Itoa(perl.Flag(cluster.IsQuorate(r.W)))},
	}, nil
}
