package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/access"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// PoolRoutes are the routes of pools.
func PoolRoutes() engine.Routes {
	return engine.Routes{
		"GET /pools":             listPools,
		"POST /pools":            createPool,
		"PUT /pools":             updatePool,
		"DELETE /pools":          deletePool,
		"GET /pools/{poolid}":    func(r *engine.Request) (any, error) { return describePool(r, r.Params["poolid"]) },
		"PUT /pools/{poolid}":    updatePool,
		"DELETE /pools/{poolid}": deletePool,
	}
}

// listPools shows the pools with Pool.Audit or Pool.Allocate; with poolid one of them with its members (API2/Pool.pm).
func listPools(r *engine.Request) (any, error) {
	if id := r.Params["poolid"]; id != "" {
		if err := r.Check("/pool/"+id, "Pool.Audit"); err != nil {
			return nil, err
		}
		data, err := describePool(r, id)
		if err != nil {
			return nil, err
		}
		return []any{data}, nil
	}
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Pools)) {
		if r.CheckAny("/pool/"+id, "Pool.Audit", "Pool.Allocate") != nil {
			continue
		}
		row := map[string]any{"poolid": id}
		if c := r.W.Pools[id].Comment; c != "" {
			row["comment"] = c
		}
		list = append(list, row)
	}
	return list, nil
}

func pool(r *engine.Request, failed string) (*state.Pool, error) {
	p := r.W.Pools[r.Params["poolid"]]
	if p == nil {
		return nil, perl.Die("%spool '%s' does not exist", failed, r.Params["poolid"])
	}
	return p, nil
}

func describePool(r *engine.Request, id string) (map[string]any, error) {
	p := r.W.Pools[id]
	if p == nil {
		return nil, perl.Die("pool '%s' does not exist", id)
	}
	members := []any{}
	for _, vmid := range slices.Sorted(slices.Values(p.Guests)) {
		// A member without a configuration stays in user.cfg, but is not shown.
		if g := r.W.Guests[vmid]; g != nil && (r.Params["type"] == "" || r.Params["type"] == g.Type) {
			members = append(members, newGuestRow(r.Engine, r.W, g))
		}
	}
	if t := r.Params["type"]; t == "" || t == "storage" {
		for _, storage := range p.Storages {
			for _, node := range engine.NodeNames(r.W) {
				if s := r.W.Storages[storage]; s != nil {
					if row := storageRow(r.W, node, s); row != nil {
						members = append(members, row)
					}
				}
			}
		}
	}
	data := map[string]any{"members": members, "poolid": id}
	if p.Comment != "" {
		data["comment"] = p.Comment
	}
	return data, nil
}

func createPool(r *engine.Request) (any, error) {
	id := r.Params["poolid"]
	if strings.Contains(id, "/") && !r.W.Has(state.NestedPools) {
		return nil, perl.Invalid("poolid", "invalid format - pool name '"+id+"' contains invalid characters\n")
	}
	if r.W.Pools[id] != nil {
		return nil, perl.Die("create pool failed: pool '%s' already exists", id)
	}
	if at := strings.LastIndexByte(id, '/'); at >= 0 && r.W.Pools[id[:at]] == nil {
		return nil, perl.Die("create pool failed: parent '%s' of pool '%s' does not exist", id[:at], id)
	}
	r.W.Pools[id] = &state.Pool{ID: id, Comment: r.Params["comment"], Guests: []int{}}
	return nil, nil
}

// updatePool adds or, with delete, removes members. PVE does not check that they exist.
func updatePool(r *engine.Request) (any, error) {
	p, err := pool(r, "update pools failed: ")
	if err != nil {
		return nil, err
	}
	next := *p
	next.Guests, next.Storages = slices.Clone(p.Guests), slices.Clone(p.Storages)
	if c, ok := r.Params["comment"]; ok {
		next.Comment = c
	}
	leave := map[string]*state.Pool{}
	for _, vmid := range perl.ListItems(r.Params["vms"]) {
		if err := movePoolGuest(r, &next, vmid, leave); err != nil {
			return nil, err
		}
	}
	for _, storage := range perl.ListItems(r.Params["storage"]) {
		if err := movePoolStorage(r, &next, storage); err != nil {
			return nil, err
		}
	}
	for vmid, old := range leave {
		old.Guests = slices.DeleteFunc(old.Guests, func(n int) bool { return strconv.Itoa(n) == vmid })
	}
	*p = next
	return nil, nil
}

func movePoolGuest(r *engine.Request, p *state.Pool, vmid string, leave map[string]*state.Pool) error {
	e := access.Evaluation{Server: r.Engine, World: r.W, Auth: r.Auth, Params: nil}
	if err := e.Modify("/vms/" + vmid); err != nil {
		return perl.Die("update pools failed: %s", perl.Message(err)) // raised inside the lock, so that it is no 403 any more
	}
	id, err := strconv.Atoi(vmid)
	if err != nil {
		return perl.Die("update pools failed: invalid VMID '%s'", vmid)
	}
	member := slices.Contains(p.Guests, id)
	if r.Params["delete"] == "1" {
		if !member {
			return perl.Die("update pools failed: VM %d is not a pool member", id)
		}
		p.Guests = slices.DeleteFunc(p.Guests, func(n int) bool { return n == id })
		return nil
	}
	if member {
		return perl.Die("update pools failed: VM %d is already a pool member", id)
	}
	if old := auth.PoolOf(r.W, "/vms/"+vmid); old != "" {
		if r.Params["allow-move"] != "1" {
			return perl.Die("update pools failed: VM %d belongs already to pool '%s' and 'allow-move' is not set", id, old)
		}
		if err := r.Check("/pool/"+old, "Pool.Allocate"); err != nil { // likewise
			return perl.Die("update pools failed: %s", perl.Message(err))
		}
		leave[vmid] = r.W.Pools[old]
	}
	p.Guests = append(p.Guests, id)
	return nil
}

func movePoolStorage(r *engine.Request, p *state.Pool, storage string) error {
	e := access.Evaluation{Server: r.Engine, World: r.W, Auth: r.Auth, Params: nil}
	if err := e.Modify("/storage/" + storage); err != nil {
		return perl.Die("update pools failed: %s", perl.Message(err)) // likewise
	}
	member := slices.Contains(p.Storages, storage)
	switch {
	case r.Params["delete"] == "1" && !member:
		return perl.Die("update pools failed: Storage '%s' is not a pool member", storage)
	case r.Params["delete"] == "1":
		p.Storages = slices.DeleteFunc(p.Storages, func(s string) bool { return s == storage })
	case member:
		return perl.Die("update pools failed: Storage '%s' is already a pool member", storage)
	default:
		p.Storages = append(p.Storages, storage)
	}
	return nil
}

// deletePool refuses a pool with members, as far as those exist.
func deletePool(r *engine.Request) (any, error) {
	p, err := pool(r, "delete pool failed: ")
	if err != nil {
		return nil, err
	}
	what := ""
	// the last that is left is the first of them
	for _, other := range slices.Backward(slices.Sorted(maps.Keys(r.W.Pools))) {
		if strings.HasPrefix(other, p.ID+"/") {
			what = fmt.Sprintf("pool '%s'", other)
		}
	}
	for _, vmid := range slices.Sorted(slices.Values(p.Guests)) {
		if r.W.Guests[vmid] != nil && what == "" {
			what = fmt.Sprintf("VM %d", vmid)
		}
	}
	for _, id := range slices.Sorted(slices.Values(p.Storages)) {
		if r.W.Storages[id] != nil && what == "" {
			what = fmt.Sprintf("storage '%s'", id)
		}
	}
	if what != "" {
		return nil, perl.Die("delete pool failed: pool '%s' is not empty (contains %s)", p.ID, what)
	}
	delete(r.W.Pools, p.ID)
	r.W.ACL = slices.DeleteFunc(r.W.ACL, func(e state.ACLEntry) bool { return auth.Normalize(e.Path) == "/pool/"+p.ID })
	return nil, nil
}
