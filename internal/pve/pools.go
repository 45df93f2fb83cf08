package pve

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// Pool is a resource pool.
type Pool struct {
	ID, Comment string
	// Members are guests and storages that this identity may see.
	Members []Resource
}

type poolWire struct {
	PoolID  flexString     `json:"poolid"`
	Comment flexString     `json:"comment"`
	Members []resourceWire `json:"members"`
}

// Has tells whether the guest is a member.
func (p Pool) Has(vmid int) bool {
	_, ok := Resources(p.Members).Guest(vmid)
	return ok
}

// Pools lists the ids of the pools that this identity may see (Pool.Audit).
func (c *Client) Pools(ctx context.Context) ([]string, error) {
	wire, err := fetch[[]poolWire](ctx, c, "list the pools", "/pools", nil)
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(wire))
	for _, w := range wire {
		ids = append(ids, string(w.PoolID))
	}
	return ids, nil
}

// Pool reads a pool with its members; it needs Pool.Audit on it. Nested ids ("a/b") need PVE 8.1.
func (c *Client) Pool(ctx context.Context, id string) (Pool, error) {
	op := "read pool " + id
	list, err := fetch[[]poolWire](ctx, c, op, "/pools", Params{"poolid": id})
	var w poolWire
	switch {
	case err == nil && len(list) == 1:
		w = list[0]
	case err == nil:
		return Pool{}, &Error{Op: op, Method: http.MethodGet, Path: "/pools", Status: http.StatusOK, Kind: NotFound,
			Message: "pool '" + id + "' does not exist"}
	case isOldPoolAPI(err, id):
		if w, err = fetch[poolWire](ctx, c, op, "/pools/"+id, nil); err != nil {
			return Pool{}, err
		}
	default:
		return Pool{}, err
	}
	pool := Pool{ID: id, Comment: string(w.Comment)}
	for _, m := range w.Members {
		pool.Members = append(pool.Members, m.resource())
	}
	return pool, nil
}

// AddToPool makes a guest a member; it must exist and belong to no other pool.
func (c *Client) AddToPool(ctx context.Context, pool string, vmid int) error {
	return c.updatePool(ctx, "add VM "+strconv.Itoa(vmid)+" to pool "+pool, pool, Params{"vms": strconv.Itoa(vmid)})
}

// RemoveFromPool ends a guest's membership.
func (c *Client) RemoveFromPool(ctx context.Context, pool string, vmid int) error {
	return c.updatePool(ctx, "remove VM "+strconv.Itoa(vmid)+" from pool "+pool, pool, Params{"vms": strconv.Itoa(vmid), "delete": "1"})
}

func (c *Client) updatePool(ctx context.Context, op, pool string, p Params) error {
	all := Params{"poolid": pool}
	for k, v := range p {
		all[k] = v
	}
	err := c.change(ctx, op, http.MethodPut, "/pools", all)
	if isOldPoolAPI(err, pool) {
		return c.change(ctx, op, http.MethodPut, "/pools/"+pool, p)
	}
	return err
}

// isOldPoolAPI tells whether a server refused the calls that take the pool's id as a parameter. They came with nested
// pools in 8.1 (pve-manager 8.1.0, API2/Pool.pm, 4448f8d3); before, the id stood in the path, where nested ones have no place. Either
// refusal comes before any effect.
func isOldPoolAPI(err error, id string) bool {
	if strings.Contains(id, "/") {
		return false
	}
	if IsKind(err, Unsupported) {
		return true
	}
	var e *Error
	return errors.As(err, &e) && e.Kind == Invalid && strings.Contains(e.Params["poolid"], "not defined in schema")
}
