package handle

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// jobRoutes are what a client can see of replication and backup jobs, and how it removes them. Making them is not simulated:
// they stand in the world.
func jobRoutes() Routes {
	return Routes{
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
	row := map[string]any{"id": j.ID, "type": "local", "guest": j.Guest, "jobnum": number(j.ID[strings.IndexByte(j.ID, '-')+1:]),
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
func listReplication(r *Request) (any, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Replication)) {
		if j := r.W.Replication[id]; r.Server.Has(r.W, r.Auth, "/vms/"+itoa(j.Guest), "VM.Audit") {
			list = append(list, describeReplication(r.W, j))
		}
	}
	return list, nil
}

func (r *Request) replication() (*state.ReplicationJob, error) {
	if j := r.W.Replication[r.Params["id"]]; j != nil {
		return j, nil
	}
	return nil, Die("no such replication job '%s'", r.Params["id"])
}

func readReplication(r *Request) (any, error) {
	j, err := r.replication()
	if err != nil {
		return nil, err
	}
	return describeReplication(r.W, j), nil
}

// deleteReplication removes the entry at once; the real one marks it, and the next run of the job removes it.
func deleteReplication(r *Request) (any, error) {
	j, err := r.replication()
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
			words = append(words, itoa(id))
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

func listBackups(r *Request) (any, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Backups)) {
		list = append(list, describeBackup(r.W.Backups[id]))
	}
	return list, nil
}

func (r *Request) backup() (*state.BackupJob, error) {
	if j := r.W.Backups[r.Params["id"]]; j != nil {
		return j, nil
	}
	return nil, Invalid("id", "No such job '"+r.Params["id"]+"'")
}

func readBackup(r *Request) (any, error) {
	j, err := r.backup()
	if err != nil {
		return nil, err
	}
	return describeBackup(j), nil
}

func deleteBackup(r *Request) (any, error) {
	j, err := r.backup()
	if err != nil {
		return nil, err
	}
	delete(r.W.Backups, j.ID)
	return nil, nil
}

// listMappings are the mappings of a kind; what is mapped on each node is made up.
func listMappings(kind string) Func {
	return func(r *Request) (any, error) {
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
