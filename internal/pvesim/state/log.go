package state

import "time"

// LogEntry is an entry of the cluster's log.
type LogEntry struct {
	UID                 int // unique on its node
	Node, User, Message string
	Time                time.Time // by the clock of its node
}

// logSize is how many bytes of the log are kept (pve-cluster pmxcfs/logger.h CLOG_DEFAULT_SIZE), and logHeader what an
// entry takes besides its texts.
const logSize, logHeader = 8192 * 16, 60

// Note adds an entry to the log of the cluster, as PVE::Cluster::log_msg does, and drops the oldest that have no room any
// more.
func (w *World) Note(node, user, message string) {
	w.logged++
	w.Log = append(w.Log, LogEntry{UID: w.logged, Node: node, User: user, Message: message, Time: NodeTime(w, node)})
	size, from := 0, len(w.Log)
	for ; from > 0; from-- {
		e := w.Log[from-1]
		if size += logHeader + len(e.Node) + len(e.User) + len(e.Message); size > logSize {
			break
		}
	}
	w.Log = w.Log[from:]
}
