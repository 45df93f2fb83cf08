package handle

import (
	"maps"
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

// manage does what the HA manager does about a resource: it brings the guest to the requested state, in a task of root's own that
// nobody reports (pve-ha-manager PVE/HA/Resources/PVEVM.pm). The real one takes up to its next round, some 10 s.
func (r *Request) manage(h *state.HAResource) {
	kind, id, _ := strings.Cut(h.SID, ":")
	g := r.W.Guests[number(id)]
	if kind != "vm" || g == nil || g.IsTemplate() || !r.W.Nodes[g.Node].Online {
		return
	}
	root := r.on(g.Node, g.VMID)
	root.Auth = Auth{ID: rootUser, User: rootUser}
	switch {
	case h.State == "started" && g.Running == nil:
		root.unreported("qmstart", func(w *Worker) error { return root.startWorker(w, false) })
	case (h.State == "stopped" || h.State == "disabled") && g.Running != nil:
		root.unreported("qmshutdown", func(w *Worker) error {
			return root.stopWorker(w, false, func(g *state.Guest) error { return root.askGuest(w, g, true) })
		})
	}
	r.forked = append(r.forked, root.forked...)
}

// unreported forks a worker that no request has asked for, so that no fault waits for it.
func (r *Request) unreported(typ string, work func(w *Worker) error) {
	w := r.Server.newWorker(r.node(), typ, strconv.Itoa(r.vmid()), r.Auth)
	r.forked = append(r.forked, func() { r.Server.start(w, func(w *Worker) error { return perlText(work(w)) }) })
}

// managerStatus is GET /cluster/ha/status/manager_status (pve-ha-manager API2/HA/Status.pm).
func managerStatus(r *Request) (any, error) {
	nodes, services, lrm := map[string]any{}, map[string]any{}, map[string]any{}
	for _, name := range nodeNames(r.W) {
		status, mode := "online", "active"
		if !r.W.Nodes[name].Online {
			status, mode = "unknown", "unknown"
		}
		nodes[name], lrm[name] = status, map[string]any{"mode": mode, "state": mode, "timestamp": r.W.Clock.Now().Unix()}
	}
	for _, sid := range slices.Sorted(maps.Keys(r.W.HA)) {
		_, id, _ := strings.Cut(sid, ":")
		row := map[string]any{"state": r.W.HA[sid].State, "running": 0}
		if g := r.W.Guests[number(id)]; g != nil {
			row["node"], row["running"] = g.Node, flag(g.Running != nil)
		}
		services[sid] = row
	}
	return map[string]any{
		"manager_status": map[string]any{
			"master_node": home(r.W), "node_status": nodes, "service_status": services, "timestamp": r.W.Clock.Now().Unix(),
		},
		"lrm_status": lrm, "quorum": map[string]any{"node": home(r.W), "quorate": "1"},
	}, nil
}
