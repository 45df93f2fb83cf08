package pve

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// Pool is a resource pool.
type Pool struct {
	ID, Comment string
	// Members are guests and storages that this identity may see.
	Members []Resource
}

type poolWire struct {
	PoolID  wire.String    `json:"poolid"`
	Comment wire.String    `json:"comment"`
	Members []resourceWire `json:"members"`
}

// Has tells whether the guest is a member.
func (p Pool) Has(vmid int) bool {
	_, ok := Resources(p.Members).Guest(vmid)
	return ok
}

// List lists the ids of the pools that this identity may see (Pool.Audit).
func (p PoolReader) List(ctx context.Context) ([]string, error) {
	list, err := fetch[[]poolWire](ctx, p.client, "list the pools", "/pools", nil)
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(list))
	for _, w := range list {
		ids = append(ids, string(w.PoolID))
	}
	return ids, nil
}

// Get reads a pool with its members; it needs Pool.Audit on it. Nested ids ("a/b") need PVE 8.1.
func (p PoolReader) Get(ctx context.Context, id string) (Pool, error) {
	op := "read pool " + id
	list, err := fetch[[]poolWire](ctx, p.client, op, "/pools", Params{"poolid": id})
	var w poolWire
	switch {
	case err == nil && len(list) == 1:
		w = list[0]
	case err == nil:
		return Pool{}, &Error{Op: op, Method: http.MethodGet, Path: "/pools", Status: http.StatusOK, Kind: NotFound,
			Message: "pool '" + id + "' does not exist"}
	case isOldPoolAPI(err, id):
		if w, err = fetch[poolWire](ctx, p.client, op, "/pools/"+id, nil); err != nil {
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

// AddMember makes a guest a member; it must exist and belong to no other pool.
func (p PoolClient) AddMember(ctx context.Context, pool string, vmid int) error {
	return p.update(ctx, "add VM "+strconv.Itoa(vmid)+" to pool "+pool, pool, Params{"vms": strconv.Itoa(vmid)})
}

// MoveMember makes a guest a member that leaves another pool for it, in one request. A server before pve-manager 8.0.6
// refuses that, without any effect: CannotMoveBetweenPools tells.
func (p PoolClient) MoveMember(ctx context.Context, pool string, vmid int) error {
	return p.update(ctx, "move VM "+strconv.Itoa(vmid)+" to pool "+pool, pool,
		Params{"vms": strconv.Itoa(vmid), moveParameter: "1"})
}

// moveParameter came with pve-manager 8.0.6 (API2/Pool.pm update_pool, f9cfa38e).
const moveParameter = "allow-move"

// CannotMoveBetweenPools tells whether a server has refused MoveMember since it is too old for it.
func CannotMoveBetweenPools(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Invalid && strings.Contains(e.Params[moveParameter], "not defined in schema")
}

// RemoveMember ends a guest's membership.
func (p PoolClient) RemoveMember(ctx context.Context, pool string, vmid int) error {
	return p.update(ctx, "remove VM "+strconv.Itoa(vmid)+" from pool "+pool, pool,
		Params{"vms": strconv.Itoa(vmid), "delete": "1"})
}

func (p PoolClient) update(ctx context.Context, op, pool string, change Params) error {
	all := Params{"poolid": pool}
	maps.Copy(all, change)
	err := p.client.change(ctx, op, http.MethodPut, "/pools", all)
	if isOldPoolAPI(err, pool) {
		return p.client.change(ctx, op, http.MethodPut, "/pools/"+pool, change)
	}
	return err
}

// isOldPoolAPI tells whether a server refused the calls that take the pool's id as a parameter. They came with nested
// pools in 8.1 (pve-manager 8.1.0, API2/Pool.pm, 4448f8d3); before, the id stood in the path, where nested ones have
// no place. Either refusal comes before any effect.
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

// ReplicationJob copies a guest's volumes to another node at intervals.
type ReplicationJob struct {
	// ID is "<vmid>-<number>"; Target the node that gets the copies.
	ID, Target string
	VMID       int
}

// ReplicationJobs lists the jobs of the guests that this identity may see (VM.Audit).
func (c ClusterReader) ReplicationJobs(ctx context.Context) ([]ReplicationJob, error) {
	list, err := fetch[[]map[string]wire.String](ctx, c.client, "list the replication jobs", "/cluster/replication", nil)
	if err != nil {
		return nil, err
	}
	jobs := make([]ReplicationJob, 0, len(list))
	for _, w := range list {
		vmid, _ := strconv.Atoi(string(w["guest"])) // 0 is no guest's
		jobs = append(jobs, ReplicationJob{ID: string(w["id"]), Target: string(w["target"]), VMID: vmid})
	}
	return jobs, nil
}

// BackupJob backs up the guests that it names, or all but those that it leaves out.
type BackupJob struct {
	ID             string
	VMIDs, Exclude []int
}

// BackupJobs lists the backup jobs. It takes Sys.Audit on / (pve-manager API2/Backup.pm).
func (c ClusterReader) BackupJobs(ctx context.Context) ([]BackupJob, error) {
	list, err := fetch[[]backupJobWire](ctx, c.client, "list the backup jobs", "/cluster/backup", nil)
	if err != nil {
		return nil, err
	}
	jobs := make([]BackupJob, 0, len(list))
	for _, w := range list {
		jobs = append(jobs, BackupJob{ID: string(w.ID), VMIDs: vmidsIn(w.VMIDs), Exclude: vmidsIn(w.Exclude)})
	}
	return jobs, nil
}

type backupJobWire struct {
	ID      wire.String `json:"id"`
	VMIDs   wire.String `json:"vmid"`
	Exclude wire.String `json:"exclude"`
}

// vmidsIn are the VMIDs of a list (pve-common Tools.pm split_list).
func vmidsIn(list wire.String) []int {
	var all []int
	isSeparator := func(r rune) bool { return strings.ContainsRune(", ;\t\n\x00", r) }
	for _, word := range strings.FieldsFunc(string(list), isSeparator) {
		if vmid, err := strconv.Atoi(word); err == nil {
			all = append(all, vmid)
		}
	}
	return all
}
