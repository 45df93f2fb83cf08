package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Routes are the routes of the cluster as a whole.
func Routes() engine.Routes {
	return engine.Routes{
		"GET /": engine.SubdirIndex("subdir", "version", "cluster", "nodes", "storage", "access", "pools"),
		"GET /cluster": engine.SubdirIndex("name", "acme", "backup", "backup-info", "ceph", "config", "firewall", "ha",
			"jobs", "log",
			"mapping", "metrics", "notifications", "nextid", "options", "replication", "resources", "status", "tasks", "sdn"),
		"GET /version":                func(r *engine.Request) (any, error) { return version(r.W, engine.Home(r.W)), nil },
		"GET /cluster/nextid":         nextID,
		"GET /cluster/status":         clusterStatus,
		"GET /cluster/options":        clusterOptions,
		"GET /cluster/log":            clusterLog,
		"GET /cluster/resources":      clusterResources,
		"GET /cluster/sdn/zones":      engine.EmptyList,
		"GET /cluster/sdn/vnets":      engine.EmptyList,
		"GET /cluster/sdn":            engine.SubdirIndex("id", "vnets", "zones", "controllers", "ipams", "dns"),
		"GET /cluster/jobs":           engine.SubdirIndex("subdir", "schedule-analyze", "realm-sync"),
		"GET /cluster/metrics/server": engine.EmptyList,
		"GET /cluster/acme/account":   engine.EmptyList,
	}
}

// version is what GET /version answers on a node.
func version(w *state.World, node string) map[string]any {
	is := state.ReleaseOf(w, node)
	full := release.Package(is, "pve-manager")
	if !strings.HasPrefix(full, is+".") { // 7.4, which is 8.0 under an older name
		full = is + ".1"
	}
	return map[string]any{"version": full, "release": is, "repoid": "5117000000000000"}
}

// nextID is GET /cluster/nextid: the lowest id without a configuration in the range whose upper end is exclusive
// (pve-manager API2/Cluster.pm). The answer is a string.
func nextID(r *engine.Request) (any, error) {
	if asked := r.Params["vmid"]; asked != "" {
		if r.W.Guests[perl.Number(asked)] != nil {
			return nil, perl.Invalid("vmid", "VM "+asked+" already exists") // a container, too
		}
		return asked, nil
	}
	lower, upper := r.W.NextID.Lower, r.W.NextID.Upper
	if lower == 0 {
		lower = 100
	}
	if upper == 0 {
		upper = 1_000_000
	}
	for id := lower; id < upper; id++ {
		if r.W.Guests[id] == nil {
			return strconv.Itoa(id), nil
		}
	}
	return nil, perl.Die("unable to get any free VMID in range [%d, %d]", lower, upper)
}

func clusterStatus(r *engine.Request) (any, error) {
	list := []any{}
	names := engine.NodeNames(r.W)
	if len(names) > 1 {
		list = append(list, map[string]any{
			"type": "cluster", "id": "cluster", "name": engine.ClusterName, "nodes": len(names),
			"quorate": perl.Flag(IsQuorate(r.W)), "version": len(names),
		})
	}
	for i, name := range names {
		n, id := r.W.Nodes[name], i+1
		if len(names) == 1 {
			id = 0
		}
		list = append(list, map[string]any{
			"type": "node", "id": "node/" + name, "name": name, "nodeid": id, "ip": n.Address, "level": "",
			"online": perl.Flag(n.Online), "local": perl.Flag(name == engine.Home(r.W)),
		})
	}
	return list, nil
}

// IsQuorate reports whether more than half of the votes are there. A cluster with an even number of nodes has a
// QDevice, as PVE advises, which has one.
func IsQuorate(w *state.World) bool {
	votes, there := len(w.Nodes), 0
	for _, n := range w.Nodes {
		there += perl.Flag(n.Online)
	}
	if votes%2 == 0 {
		votes, there = votes+1, there+1
	}
	return 2*there > votes
}

func clusterOptions(r *engine.Request) (any, error) {
	// The installer writes a keyboard; the others have defaults (pve-cluster DataCenterConfig.pm,
	// parse_datacenter_config).
	data := map[string]any{"keyboard": "en-us", "mac_prefix": "BC:24:11", "description": ""}
	maps.Copy(data, datacenterOptions(r.W))
	if r.W.NextID.Lower != 0 || r.W.NextID.Upper != 0 {
		data["next-id"] = map[string]any{"lower": strconv.Itoa(r.W.NextID.Lower), "upper": strconv.Itoa(r.W.NextID.Upper)}
	}
	if r.W.CaseSensitiveTags {
		data["tag-style"] = map[string]any{"case-sensitive": 1}
	}
	if !auth.Has(r.W, r.Auth, "/", "Sys.Audit") { // others are told these (pve-manager API2/Cluster.pm, get_options)
		maps.DeleteFunc(data, func(k string, _ any) bool { return k != "tag-style" && k != "console" })
	}
	if data["keyboard"] == "" {
		delete(data, "keyboard")
	}
	data["allowed-tags"] = allowedTags(r)
	return data, nil
}

// clusterResources is GET /cluster/resources (API2/Cluster.pm, resources): from pvestatd's reports. The guests that
// exist, with node, lock, tags and pool, come from the configuration itself. Objects that the caller may not
// see are left out.
func clusterResources(r *engine.Request) (any, error) {
	list := []any{}
	want := func(typ string) bool { return r.Params["type"] == "" || r.Params["type"] == typ }
	seen := map[string]bool{"": true}
	for _, id := range slices.Sorted(maps.Keys(r.W.Pools)) {
		if seen[id] = r.Check("/pool/"+id, "Pool.Audit") == nil; seen[id] && r.Params["type"] == "" {
			list = append(list, map[string]any{"id": "/pool/" + id, "type": "pool", "pool": id})
		}
	}
	if want("vm") {
		may, pools := Auditor(r), poolsOf(r.W)
		list = slices.Grow(list, len(r.W.Guests))
		for _, id := range slices.Sorted(maps.Keys(r.W.Guests)) {
			if may(id) {
				row := newGuestRow(r.Engine, r.W, r.W.Guests[id])
				row.live = true
				if seen[pools[id]] { // API2/Cluster.pm deletes it otherwise
					row.pool = pools[id]
				}
				if ha := r.W.HA[engine.HAType(row.guest)+":"+strconv.Itoa(id)]; ha != nil {
					row.ha = ha.Listed()
				}
				list = append(list, row)
			}
		}
	}
	if want("node") {
		for _, name := range engine.NodeNames(r.W) {
			list = append(list, nodeRow(r, name, false))
		}
	}
	if want("storage") {
		list = append(list, storageRows(r)...)
	}
	if want("sdn") && r.CheckAny("/sdn/zones/localnetwork", "SDN.Audit", "SDN.Use", "SDN.Allocate") == nil {
		for _, name := range engine.NodeNames(r.W) {
			id := "sdn/" + name + "/localnetwork"
			list = append(list, map[string]any{"id": id, "type": "sdn", "node": name, "sdn": "localnetwork", "status": "ok"})
		}
	}
	return list, nil
}

// Auditor tells which guests the caller may see. Most have no entry of their own, so their common answer is that of the
// first of them that is asked for: it is PVE's question about that guest, and of no other path.
func Auditor(r *engine.Request) func(vmid int) bool {
	own := map[int]bool{}
	for _, e := range r.W.ACL {
		if id, ok := strings.CutPrefix(auth.Normalize(e.Path), "/vms/"); ok {
			own[perl.Number(id)] = true
		}
	}
	for id := range poolsOf(r.W) {
		own[id] = true
	}
	may := func(vmid int) bool { return auth.Has(r.W, r.Auth, "/vms/"+strconv.Itoa(vmid), "VM.Audit") }
	var common *bool
	return func(vmid int) bool {
		if own[vmid] {
			return may(vmid)
		}
		if common == nil {
			common = new(may(vmid))
		}
		return *common
	}
}

// poolsOf are the pools that guests are in, by VMID.
func poolsOf(w *state.World) map[int]string {
	pools := map[int]string{}
	for _, p := range w.Pools {
		for _, id := range p.Guests {
			pools[id] = p.ID
		}
	}
	return pools
}

func storageRows(r *engine.Request) []any {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Storages)) {
		if r.CheckAny("/storage/"+id, "Datastore.Audit") != nil {
			continue
		}
		for _, node := range engine.NodeNames(r.W) {
			if row := storageRow(r.W, node, r.W.Storages[id]); row != nil {
				list = append(list, row)
			}
		}
	}
	return list
}

// storageRow is a storage on a node; nil if it is not configured there.
func storageRow(w *state.World, node string, s *state.Storage) map[string]any {
	if len(s.Nodes) > 0 && !slices.Contains(s.Nodes, node) || s.Disabled {
		return nil
	}
	row := map[string]any{
		"id": "storage/" + node + "/" + s.ID, "storage": s.ID, "node": node, "type": "storage", "status": "unknown",
		"plugintype": s.Type, "content": strings.Join(s.Content, ","), "shared": perl.Flag(s.Shared),
	}
	if _, err := state.Reachable(w, node, s.ID); err == nil && reports(w.Nodes[node]) {
		row["status"], row["maxdisk"], row["disk"] = "available", s.Total, w.Used(node, s)
	}
	return row
}
