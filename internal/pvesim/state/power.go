package state

import (
	"fmt"
	"slices"
	"time"
)

// PowerKind is how a guest's machine went off, or was restarted.
type PowerKind string

// The ways in which a running guest loses power. A migration is none: the process hands over.
const (
	PowerShutdown PowerKind = "shutdown" // the guest was asked and obeyed
	PowerStop     PowerKind = "stop"     // ended without its consent, be it after a timeout
	PowerReboot   PowerKind = "reboot"   // PVE's reboot: asked, obeyed, and started again
	PowerReset    PowerKind = "reset"    // the reset button
	PowerSuspend  PowerKind = "suspend"  // saved to disk
	PowerRollback PowerKind = "rollback" // stopped to go back to a snapshot
	PowerDied     PowerKind = "died"     // ended by itself, or its QEMU crashed
	PowerNode     PowerKind = "node"     // its node crashed
)

// PowerOff is one power-off or restart of a guest and who caused it.
type PowerOff struct {
	VMID int       `json:"vmid"`
	Node string    `json:"node"`
	Kind PowerKind `json:"kind"`
	// Hard is true where the guest's operating system could not end its work.
	Hard bool `json:"hard"`
	// Task is the UPID of the task that did it, TaskType its type and User its owner; empty where no task did.
	Task     string    `json:"task,omitempty"`
	TaskType string    `json:"task_type,omitempty"`
	User     string    `json:"user,omitempty"`
	At       time.Time `json:"at"`
}

// PowerLoss counts that a guest loses power now. A nil task means that no task did it. Call it before the
// guest's Running is taken away: of a guest that does not run nothing is counted.
func (w *World) PowerLoss(g *Guest, kind PowerKind, t *Task) {
	if g.Running == nil {
		return
	}
	soft := []PowerKind{PowerShutdown, PowerReboot, PowerSuspend}
	off := PowerOff{VMID: g.VMID, Node: g.Node, Kind: kind, Hard: !slices.Contains(soft, kind), At: w.Clock.Now()}
	if t != nil {
		off.Task, off.TaskType, off.User = t.UPID, t.Type, t.User
	}
	w.PowerOffs = append(w.PowerOffs, off)
}

// LogEntry is an entry of the cluster's log.
type LogEntry struct {
	UID           int // of the node's pmxcfs
	Time          time.Time
	Node          string
	User, Message string
}

// clusterLogSize is how many entries there are: pmxcfs keeps 128 KiB (pve-cluster pmxcfs/logger.h, CLOG_DEFAULT_SIZE).
const clusterLogSize = 600

// Log adds an entry to the cluster's log, as the caller's node writes it (pve-cluster Cluster.pm log_msg).
func Log(w *World, node, user, format string, args ...any) {
	w.logged++
	w.ClusterLog = append(w.ClusterLog, LogEntry{UID: w.logged, Time: NodeTime(w, node), Node: node, User: user,
		Message: fmt.Sprintf(format, args...)})
	if len(w.ClusterLog) > 2*clusterLogSize {
		w.ClusterLog = append([]LogEntry{}, LatestLog(w)...)
	}
}

// LatestLog are the entries that the log still has, oldest first.
func LatestLog(w *World) []LogEntry {
	return w.ClusterLog[max(0, len(w.ClusterLog)-clusterLogSize):]
}
