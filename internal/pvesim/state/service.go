package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultHARound is the pause between two rounds of the HA manager (pve-ha-manager CRM.pm and LRM.pm,
// do_one_iteration).
const DefaultHARound = 10 * time.Second

// HAResource is an entry of ha/resources.cfg, together with the manager's status of it.
type HAResource struct {
	SID     string            `json:"sid"`
	State   string            `json:"state"` // requested
	Group   string            `json:"group,omitempty"`
	Options map[string]string `json:"options,omitempty"` // comment, failback, max_relocate, max_restart as given

	// Command is what the manager was last told to do besides and has not yet taken up.
	Command *HACommand `json:"-"`
	// Busy is the UPID of the task by which the local manager acts, "" if it does not.
	Busy string `json:"-"`
	// Failures counts starts that failed, one after the other, on the present node; Tried are the nodes where it was given
	// up. Failed means that the manager has given up altogether: state "error".
	Failures int      `json:"-"`
	Tried    []string `json:"-"`
	Failed   bool     `json:"-"`
	// Leaving is the state that the manager's status still has of an entry that was set to "ignored" since its last
	// round. Until then the local manager, which goes by that status, starts a guest again that is off.
	Leaving string `json:"-"`
}

// Listed is the state in the cluster's listing: that of the manager's status, else that of the entry (pve-manager
// API2/Cluster.pm, resources).
func (h *HAResource) Listed() string {
	switch {
	case h.Leaving != "":
		return h.Leaving
	case h.Failed:
		return "error"
	}
	return h.State
}

// LeaveHA removes an HA resource. purge also takes it out of the rules, and removes a rule that has no other, where the
// release does so (pve-ha-manager HA/Config.pm, delete_service_from_config).
func LeaveHA(w *World, sid string, purge bool) {
	delete(w.HA, sid)
	if !purge || !w.Has(HAPurgesRules) {
		return
	}
	for id, rule := range w.HARules {
		members := strings.Split(rule["resources"], ",")
		if members = slices.DeleteFunc(members, func(m string) bool { return m == sid }); len(members) == 0 {
			delete(w.HARules, id)
			continue
		}
		rule["resources"] = strings.Join(members, ",")
	}
}

// HACommand is a line of ha/crm_commands: "migrate", "relocate" to Node, or "stop" with a timeout.
type HACommand struct {
	Verb, Node     string
	TimeoutSeconds int
	Alone          bool // it was filed for another service that this one goes with
}

// HAGroup is an entry of ha/groups.cfg. In a restricted one its members run on no other nodes.
type HAGroup struct {
	ID         string   `json:"id"`
	Nodes      []string `json:"nodes"`
	Restricted bool     `json:"restricted,omitempty"`
	NoFailback bool     `json:"nofailback,omitempty"`
	Comment    string   `json:"comment,omitempty"`
}

// Limit is a count among the options, 1 if it is not set: max_restart, max_relocate.
func (h *HAResource) Limit(option string) int {
	if n, err := strconv.Atoi(h.Options[option]); err == nil {
		return n
	}
	return 1
}

// HADelay is how long the manager takes until it acts.
func (w *World) HADelay() time.Duration {
	switch {
	case w.HARound < 0:
		return 0
	case w.HARound == 0:
		return DefaultHARound
	}
	return w.HARound
}

// NodeTime is the time by the clock of a node.
func NodeTime(w *World, node string) time.Time {
	now := w.Clock.Now()
	if n := w.Nodes[node]; n != nil {
		now = now.Add(n.ClockAhead)
	}
	return now
}

// ReplicationJob is an entry of replication.cfg: the guest's volumes are copied to another node.
type ReplicationJob struct {
	ID       string `json:"id"` // guest and number, "100-0"
	Guest    int    `json:"guest"`
	Target   string `json:"target"`
	Schedule string `json:"schedule,omitempty"`
}

// BackupJob is a vzdump entry of jobs.cfg: of the guests VMIDs, or of All but Exclude.
type BackupJob struct {
	ID       string `json:"id"`
	VMIDs    []int  `json:"vmids,omitempty"`
	All      bool   `json:"all,omitempty"`
	Exclude  []int  `json:"exclude,omitempty"`
	Storage  string `json:"storage,omitempty"`
	Schedule string `json:"schedule,omitempty"`
}

// ReplicationOf is the first replication job of a guest; nil if it has none.
func (w *World) ReplicationOf(vmid int) *ReplicationJob {
	for n := range 100 {
		if j := w.Replication[fmt.Sprintf("%d-%d", vmid, n)]; j != nil {
			return j
		}
	}
	return nil
}

// ReplicationTo is the replication job of a guest to a node; nil if it has none (pve-guest-common ReplicationConfig.pm
// find_local_replication_job).
func ReplicationTo(w *World, vmid int, target string) *ReplicationJob {
	for _, j := range w.Replication {
		if j.Guest == vmid && j.Target == target {
			return j
		}
	}
	return nil
}

// PurgeJobs takes a guest out of the replication and backup jobs (PVE::ReplicationConfig::remove_vmid_jobs,
// PVE::VZDump::Plugin::remove_vmid_from_backup_jobs). A backup job that names no other guest goes.
func PurgeJobs(w *World, vmid int) {
	for id, j := range w.Replication {
		if j.Guest == vmid {
			delete(w.Replication, id)
		}
	}
	isIt := func(id int) bool { return id == vmid }
	for id, j := range w.Backups {
		listed := len(j.VMIDs) > 0
		j.VMIDs, j.Exclude = slices.DeleteFunc(j.VMIDs, isIt), slices.DeleteFunc(j.Exclude, isIt)
		if listed && len(j.VMIDs) == 0 {
			delete(w.Backups, id)
		}
	}
}

// checkJobs finds jobs that do not fit their id, and jobs of guests that were never there.
func checkJobs(w *World) []error {
	var errs []error
	for id, j := range w.Replication {
		guest, n, _ := strings.Cut(id, "-")
		if _, err := strconv.Atoi(n); err != nil || guest != strconv.Itoa(j.Guest) || id != j.ID {
			errs = append(errs, fmt.Errorf("replication job %q of guest %d: the id is not <guest>-<number>", id, j.Guest))
		}
	}
	for id, j := range w.Backups {
		if id != j.ID || j.All == (len(j.VMIDs) > 0) {
			errs = append(errs, fmt.Errorf("backup job %q: it is either of all guests or of some", id))
		}
	}
	return errs
}

// Mapping is a resource mapping of the datacenter: a device or directory under one name on several nodes.
type Mapping struct {
	Kind  string   `json:"kind"` // pci, usb, dir
	ID    string   `json:"id"`
	Nodes []string `json:"nodes"` // those that have one
	// LiveMigration is a PCI mapping's live-migration-capable.
	LiveMigration bool `json:"live_migration,omitempty"`
	// Mediated is a PCI mapping's mdev: its devices are shared by mediated ones (pve-guest-common Mapping/PCI.pm).
	Mediated bool `json:"mediated,omitempty"`
	// Entries are the mapping's lines as they were given; without them there is one for each of Nodes.
	Entries     []string `json:"entries,omitempty"`
	Description string   `json:"description,omitempty"`
}

// Mapping finds a mapping; nil if there is none.
func (w *World) Mapping(kind, id string) *Mapping {
	for _, m := range w.Mappings {
		if m.Kind == kind && m.ID == id {
			return m
		}
	}
	return nil
}

// On reports whether the node has the mapped resource. A mapping that does not exist is nowhere.
func (m *Mapping) On(node string) bool { return m != nil && slices.Contains(m.Nodes, node) }
