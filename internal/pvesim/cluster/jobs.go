package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// JobRoutes are what a client can see of replication and backup jobs, and how it removes them. Making them is not
// simulated: they stand in the world.
func JobRoutes() engine.Routes {
	return engine.Routes{
		"GET /cluster/replication":         listReplication,
		"GET /cluster/replication/{id}":    readReplication,
		"DELETE /cluster/replication/{id}": deleteReplication,
		"GET /cluster/backup":              listBackups,
		"GET /cluster/backup/{id}":         readBackup,
		"DELETE /cluster/backup/{id}":      deleteBackup,
		"GET /cluster/mapping/pci":         listMappings("pci"),
		"GET /cluster/mapping/usb":         listMappings("usb"),
		"GET /cluster/mapping/dir":         listMappings("dir"),
	}
}

func describeReplication(w *state.World, j *state.ReplicationJob) map[string]any {
	row := map[string]any{"id": j.ID, "type": "local", "guest": j.Guest,
		"jobnum": perl.Number(j.ID[strings.IndexByte(j.ID, '-')+1:]),
		"target": j.Target}
	if j.Schedule != "" {
		row["schedule"] = j.Schedule
	}
	if g := w.Guests[j.Guest]; g != nil {
		row["source"] = g.Node
	}
	return row
}

// listReplication shows the jobs of guests that the caller may see (pve-manager API2/ReplicationConfig.pm).
func listReplication(r *engine.Request) (any, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Replication)) {
		if j := r.W.Replication[id]; auth.Has(r.W, r.Auth, "/vms/"+strconv.Itoa(j.Guest), "VM.Audit") {
			list = append(list, describeReplication(r.W, j))
		}
	}
	return list, nil
}

func replication(r *engine.Request) (*state.ReplicationJob, error) {
	if j := r.W.Replication[r.Params["id"]]; j != nil {
		return j, nil
	}
	return nil, perl.Die("no such replication job '%s'", r.Params["id"])
}

func readReplication(r *engine.Request) (any, error) {
	j, err := replication(r)
	if err != nil {
		return nil, err
	}
	return describeReplication(r.W, j), nil
}

// deleteReplication removes the entry at once; the real one marks it, and the next run of the job removes it.
func deleteReplication(r *engine.Request) (any, error) {
	j, err := replication(r)
	if err != nil {
		return nil, err
	}
	delete(r.W.Replication, j.ID)
	return nil, nil
}

func describeBackup(j *state.BackupJob) map[string]any {
	row := map[string]any{"id": j.ID, "type": "vzdump", "enabled": 1, "storage": j.Storage, "schedule": j.Schedule}
	list := func(ids []int) string {
		words := make([]string, 0, len(ids))
		for _, id := range ids {
			words = append(words, strconv.Itoa(id))
		}
		return strings.Join(words, ",")
	}
	if j.All {
		row["all"] = 1
	} else {
		row["vmid"] = list(j.VMIDs)
	}
	if len(j.Exclude) > 0 {
		row["exclude"] = list(j.Exclude)
	}
	return row
}

func listBackups(r *engine.Request) (any, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Backups)) {
		list = append(list, describeBackup(r.W.Backups[id]))
	}
	return list, nil
}

func backup(r *engine.Request) (*state.BackupJob, error) {
	if j := r.W.Backups[r.Params["id"]]; j != nil {
		return j, nil
	}
	return nil, perl.Invalid("id", "No such job '"+r.Params["id"]+"'")
}

func readBackup(r *engine.Request) (any, error) {
	j, err := backup(r)
	if err != nil {
		return nil, err
	}
	return describeBackup(j), nil
}

func deleteBackup(r *engine.Request) (any, error) {
	j, err := backup(r)
	if err != nil {
		return nil, err
	}
	delete(r.W.Backups, j.ID)
	return nil, nil
}

// listMappings are the mappings of a kind; the devices of each node are made up.
func listMappings(kind string) engine.Func {
	return func(r *engine.Request) (any, error) {
		list := []any{}
		for _, m := range r.W.Mappings {
			if m.Kind != kind {
				continue
			}
			entries := []string{}
			for _, n := range m.Nodes {
				entries = append(entries, "node="+n)
			}
			row := map[string]any{"id": m.ID, "type": kind, "map": entries}
			if m.LiveMigration {
				row["live-migration-capable"] = 1
			}
			list = append(list, row)
		}
		return list, nil
	}
}
