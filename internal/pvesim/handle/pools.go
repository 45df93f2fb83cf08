package handle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func poolRoutes() Routes {
	return Routes{
		"GET /pools":             listPools,
		"POST /pools":            createPool,
		"PUT /pools":             updatePool,
		"DELETE /pools":          deletePool,
		"GET /pools/{poolid}":    func(r *Request) (any, error) { return r.describePool(r.Params["poolid"]) },
		"PUT /pools/{poolid}":    updatePool,
		"DELETE /pools/{poolid}": deletePool,
	}
}

// listPools shows the pools with Pool.Audit or Pool.Allocate; with poolid one of them with its members (API2/Pool.pm).
func listPools(r *Request) (any, error) {
	if id := r.Params["poolid"]; id != "" {
		if err := r.Check("/pool/"+id, "Pool.Audit"); err != nil {
			return nil, err
		}
		data, err := r.describePool(id)
		if err != nil {
			return nil, err
		}
		data["poolid"] = id
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

func (r *Request) pool(failed string) (*state.Pool, error) {
	p := r.W.Pools[r.Params["poolid"]]
	if p == nil {
		return nil, Die("%spool '%s' does not exist", failed, r.Params["poolid"])
	}
	return p, nil
}

func (r *Request) describePool(id string) (map[string]any, error) {
	p := r.W.Pools[id]
	if p == nil {
		return nil, Die("pool '%s' does not exist", id)
	}
	members := []any{}
	for _, vmid := range slices.Sorted(slices.Values(p.Guests)) {
		// A member without a configuration stays in user.cfg, but is not shown.
		if g := r.W.Guests[vmid]; g != nil && (r.Params["type"] == "" || r.Params["type"] == g.Type) {
			members = append(members, r.Server.guestRow(r.W, g))
		}
	}
	if t := r.Params["type"]; t == "" || t == "storage" {
		for _, storage := range p.Storages {
			for _, node := range nodeNames(r.W) {
				if s := r.W.Storages[storage]; s != nil {
					if row := storageRow(r.W, node, s); row != nil {
						members = append(members, row)
					}
				}
			}
		}
	}
	data := map[string]any{"members": members}
	if p.Comment != "" {
		data["comment"] = p.Comment
	}
	return data, nil
}

func createPool(r *Request) (any, error) {
	id := r.Params["poolid"]
	if strings.Contains(id, "/") && !r.W.Has(state.NestedPools) {
		return nil, Invalid("poolid", "invalid format - pool name '"+id+"' contains invalid characters\n")
	}
	if r.W.Pools[id] != nil {
		return nil, Die("create pool failed: pool '%s' already exists", id)
	}
	if at := strings.LastIndexByte(id, '/'); at >= 0 && r.W.Pools[id[:at]] == nil {
		return nil, Die("create pool failed: parent '%s' of pool '%s' does not exist", id[:at], id)
	}
	r.W.Pools[id] = &state.Pool{ID: id, Comment: r.Params["comment"], Guests: []int{}}
	return nil, nil
}

// updatePool adds or, with delete, removes members. Nobody checks that they exist.
func updatePool(r *Request) (any, error) {
	p, err := r.pool("update pools failed: ")
	if err != nil {
		return nil, err
	}
	next := *p
	next.Guests, next.Storages = slices.Clone(p.Guests), slices.Clone(p.Storages)
	if c, ok := r.Params["comment"]; ok {
		next.Comment = c
	}
	leave := map[string]*state.Pool{}
	for _, vmid := range listItems(r.Params["vms"]) {
		if err := r.movePoolGuest(&next, vmid, leave); err != nil {
			return nil, err
		}
	}
	for _, storage := range listItems(r.Params["storage"]) {
		if err := r.movePoolStorage(&next, storage); err != nil {
			return nil, err
		}
	}
	for vmid, old := range leave {
		old.Guests = slices.DeleteFunc(old.Guests, func(n int) bool { return itoa(n) == vmid })
	}
	*p = next
	return nil, nil
}

func (r *Request) movePoolGuest(p *state.Pool, vmid string, leave map[string]*state.Pool) error {
	e := evaluation{r.Server, r.W, r.Auth, nil}
	if err := e.modify("/vms/" + vmid); err != nil {
		return Die("update pools failed: %s", text(err)) // raised inside the lock, so that it is no 403 any more
	}
	id, err := strconv.Atoi(vmid)
	if err != nil {
		return Die("update pools failed: invalid VMID '%s'", vmid)
	}
	member := slices.Contains(p.Guests, id)
	if r.Params["delete"] == "1" {
		if !member {
			return Die("update pools failed: VM %d is not a pool member", id)
		}
		p.Guests = slices.DeleteFunc(p.Guests, func(n int) bool { return n == id })
		return nil
	}
	if member {
		return Die("update pools failed: VM %d is already a pool member", id)
	}
	if old := poolOf(r.W, "/vms/"+vmid); old != "" {
		if r.Params["allow-move"] != "1" {
			return Die("update pools failed: VM %d belongs already to pool '%s' and allow-move is not set", id, old)
		}
		if err := e.modify("/pool/" + old); err != nil {
			return err
		}
		leave[vmid] = r.W.Pools[old]
	}
	p.Guests = append(p.Guests, id)
	return nil
}

func (r *Request) movePoolStorage(p *state.Pool, storage string) error {
	e := evaluation{r.Server, r.W, r.Auth, nil}
	if err := e.modify("/storage/" + storage); err != nil {
		return err
	}
	member := slices.Contains(p.Storages, storage)
	switch {
	case r.Params["delete"] == "1" && !member:
		return Die("update pools failed: Storage '%s' is not a pool member", storage)
	case r.Params["delete"] == "1":
		p.Storages = slices.DeleteFunc(p.Storages, func(s string) bool { return s == storage })
	case member:
		return Die("update pools failed: Storage '%s' is already a pool member", storage)
	default:
		p.Storages = append(p.Storages, storage)
	}
	return nil
}

// deletePool refuses a pool with members, as far as those exist.
func deletePool(r *Request) (any, error) {
	p, err := r.pool("delete pool failed: ")
	if err != nil {
		return nil, err
	}
	what := ""
	for _, other := range slices.Backward(slices.Sorted(maps.Keys(r.W.Pools))) { // the last that is left is the first of them
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
		return nil, Die("delete pool failed: pool '%s' is not empty (contains %s)", p.ID, what)
	}
	delete(r.W.Pools, p.ID)
	r.W.ACL = slices.DeleteFunc(r.W.ACL, func(e state.ACLEntry) bool { return normalize(e.Path) == "/pool/"+p.ID })
	return nil, nil
}
