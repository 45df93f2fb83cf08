package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// JobRoutes are what a client can see of replication and backup jobs, and how it removes them. They stand in the
// world and do nothing.
func JobRoutes() engine.Routes {
	return engine.Routes{
		"GET /cluster/replication":      listReplication,
		"GET /nodes/{node}/replication": listNodeReplication,

		"GET /cluster/backup-info/not-backed-up": notBackedUp,
		"GET /cluster/replication/{id}":          readReplication,
		"DELETE /cluster/replication/{id}":       deleteReplication,
		"POST /cluster/replication":              createReplication,
		"GET /cluster/backup":                    listBackups,
		"POST /cluster/backup":                   createBackup,
		"GET /cluster/backup/{id}":               readBackup,
		"DELETE /cluster/backup/{id}":            deleteBackup,
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

// listNodeReplication shows those whose guest is on the node (pve-manager API2/Replication.pm, status). None has run.
func listNodeReplication(r *engine.Request) (any, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Replication)) {
		j := r.W.Replication[id]
		g := r.W.Guests[j.Guest]
		if g == nil || g.Node != r.Node() || r.Params["guest"] != "" && r.Params["guest"] != strconv.Itoa(j.Guest) ||
			!auth.Has(r.W, r.Auth, "/vms/"+strconv.Itoa(j.Guest), "VM.Audit") {
			continue
		}
		row := describeReplication(r.W, j)
		row["vmtype"], row["fail_count"], row["last_sync"], row["last_try"], row["next_sync"] = g.Type, 0, 0, 0, 0
		list = append(list, row)
	}
	return list, nil
}

// notBackedUp are the guests that no job backs up, as far as the caller sees them (pve-manager API2/Cluster/
// BackupInfo.pm, get_guests_not_in_backup).
func notBackedUp(r *engine.Request) (any, error) {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Guests)) {
		covered := false
		for _, j := range r.W.Backups {
			covered = covered || j.All && !slices.Contains(j.Exclude, id) || slices.Contains(j.VMIDs, id)
		}
		if covered || !auth.Has(r.W, r.Auth, "/vms/"+strconv.Itoa(id), "VM.Audit") {
			continue
		}
		g := r.W.Guests[id]
		row := map[string]any{"vmid": id, "type": g.Type}
		if name := g.Config[map[string]string{"qemu": "name", "lxc": "hostname"}[g.Type]]; name != "" {
			row["name"] = name
		}
		list = append(list, row)
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
	if err != nil { // raised under the lock, so that it is the text of a die
		return nil, perl.Die("%s", perl.Stringify(err))
	}
	delete(r.W.Backups, j.ID)
	return nil, nil
}

// createBackup is POST /cluster/backup: a job that stands in the world, and does nothing.
func createBackup(r *engine.Request) (any, error) {
	p := r.Params
	if p["schedule"] == "" && p["starttime"] == "" {
		return nil, perl.Invalid("schedule", "neither 'starttime' nor 'schedule' were set")
	}
	all := p["all"] == "1" || p["exclude"] != ""
	if p["vmid"] == "" && p["pool"] == "" && !all {
		return nil, perl.Die("%s", perl.Stringify(perl.Invalid("vmid", "property is missing")))
	}
	id := cmp.Or(p["id"], "backup-"+r.W.UUID()[:13])
	if r.W.Backups[id] != nil {
		return nil, perl.Die("Job '%s' already exists", id)
	}
	job := &state.BackupJob{ID: id, All: all || p["vmid"] == "", Storage: p["storage"],
		Schedule: cmp.Or(p["schedule"], p["starttime"])}
	for _, word := range perl.ListItems(p["vmid"]) {
		job.VMIDs = append(job.VMIDs, perl.Number(word))
	}
	for _, word := range perl.ListItems(p["exclude"]) {
		job.Exclude = append(job.Exclude, perl.Number(word))
	}
	if r.W.Backups == nil {
		r.W.Backups = map[string]*state.BackupJob{}
	}
	r.W.Backups[id] = job
	return nil, nil
}

// createReplication is POST /cluster/replication.
func createReplication(r *engine.Request) (any, error) {
	id := r.Params["id"]
	word, _, _ := strings.Cut(id, "-")
	j := &state.ReplicationJob{ID: id, Guest: perl.Number(word), Target: r.Params["target"],
		Schedule: r.Params["schedule"]}
	g := r.W.Guests[j.Guest]
	switch {
	case r.W.Nodes[j.Target] == nil:
		return nil, perl.Die("Target '%s' does not exist.", j.Target)
	case g == nil:
		return nil, perl.Die("unable to find configuration file for VM %d on node '%s'", j.Guest, engine.Home(r.W))
	case g.Node == j.Target:
		return nil, perl.Die("replication job '%s' - source and target node are the same", id)
	case r.W.Replication[id] != nil:
		return nil, perl.Die("replication job '%s' already exists", id)
	}
	if r.W.Replication == nil {
		r.W.Replication = map[string]*state.ReplicationJob{}
	}
	r.W.Replication[id] = j
	return nil, nil
}
