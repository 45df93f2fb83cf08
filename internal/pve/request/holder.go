package request

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// Holder is what holds a lock, as far as it can be seen.
type Holder struct {
	Node string
	VMID int
	Lock string     // the configuration's lock; "" if it is a file's or the cluster's
	what string     // the lock in PVE's words, where it is none of a configuration
	Runs []pve.UPID // tasks that run and may hold it
	// Audit: the tasks of all identities were seen. Without Sys.Audit an identity sees its own only (pve-manager
	// API2/Tasks.pm).
	Audit bool
}

// guestFile is the beginning of the file that PVE locks while it works on a guest (qemu-server QemuConfig.pm).
const guestFile = "/var/lock/qemu-server/lock-"

// maxHolders is how many tasks a sentence names.
const maxHolders = 3

// Holder looks for what holds a lock. The error says why it could not be seen; the rest is told all the same.
func (r *Runner) Holder(ctx context.Context, node string, vmid int, cause error) (Holder, error) {
	h := Holder{Node: node, VMID: vmid, Lock: fault.ConfigLock(cause)}
	if h.Lock == "" {
		h.what = quoted(cause)
	}
	if node == "" {
		return h, nil
	}
	tasks, err := r.API.Tasks().List(ctx, node, pve.TaskFilter{RunningOnly: true})
	if err != nil {
		return h, err
	}
	for _, t := range tasks {
		if h.MayHold(t.UPID) {
			h.Runs = append(h.Runs, t.UPID)
		}
	}
	h.Audit, err = r.Audits(ctx, node)
	return h, err
}

// Audits reports whether this identity sees the tasks of all identities on a node.
func (r *Runner) Audits(ctx context.Context, node string) (bool, error) {
	held, err := r.API.Access().Privileges(ctx, "/nodes/"+node)
	return held["Sys.Audit"], err
}

// Holders are the tasks that set a configuration lock (qemu-server API2/Qemu.pm, QemuConfig.pm, QemuMigrate.pm,
// VZDump/QemuServer.pm). A backup of many guests carries no id, and a clone that of its source. A guest that comes from
// another cluster is locked (create), then (migrate), by the qmtunnel that receives it (API2/Qemu.pm mtunnel).
func Holders(lock string) []string {
	return map[string][]string{
		"backup": {"vzdump"}, "clone": {"qmclone"}, "create": {"qmcreate", "qmrestore", "qmtunnel"},
		"migrate":  {"qmigrate", "hamigrate", "qmtunnel"},
		"snapshot": {"qmsnapshot"}, "snapshot-delete": {"qmdelsnapshot"}, "rollback": {"qmrollback"},
		"suspending": {"qmsuspend"}, "destroyed": {"qmdestroy"}, "import": {"qmrestore", "qmcreate"},
	}[lock]
}

// MayHold tells whether a running task may hold the lock.
func (h Holder) MayHold(task pve.UPID) bool {
	own := h.names(task)
	if h.Lock == "" {
		return own
	}
	types := Holders(h.Lock)
	elsewhere := task.ID() == "" || h.Lock == "clone"
	return own && (len(types) == 0 || slices.Contains(types, task.Type())) || elsewhere &&
		slices.Contains(types, task.Type())
}

// Died finds the task that took a configuration's lock and ended without giving it back: the last one of its kind on
// some nodes, where it was killed, or its node crashed, or where it says that it has left its VM half destroyed.
// Without such a one, which is no error, the lock may have been set by hand, or by a program outside PVE. Without
// Sys.Audit only this identity's own tasks are seen. Of several that may be the last all must have been killed. A
// killed backup of many guests proves nothing: it names none of them. Nor does a task that was killed before the
// guest was seen without a lock.
func (r *Runner) Died(ctx context.Context, h Holder, nodes ...string) (pve.Task, error) {
	types := Holders(h.Lock)
	var all []pve.Task
	for _, node := range nodes {
		for _, filter := range h.traces() {
			tasks, err := r.API.Tasks().List(ctx, node, filter)
			if err != nil {
				return pve.Task{}, err
			}
			all = append(all, slices.DeleteFunc(tasks, func(t pve.Task) bool {
				took := slices.Contains(types, t.UPID.Type()) && h.MayHold(t.UPID)
				return !took && !h.showsUnlocked(t)
			})...)
		}
	}
	lasts, err := r.Youngest(ctx, all)
	provesNothing := func(t pve.Task) bool {
		named := h.Lock == "clone" || h.names(t.UPID) // a clone's task has the id of its source
		ended := &pve.TaskError{UPID: t.UPID, ExitStatus: t.Status}
		left := ended.Killed() || t.UPID.Type() == "qmdestroy" && ended.LeavesHalf()
		return !named || !left || !slices.Contains(types, t.UPID.Type())
	}
	if err != nil || len(lasts) == 0 || slices.ContainsFunc(lasts, provesNothing) {
		return pve.Task{}, err
	}
	return lasts[0], nil
}

// traces are the lists of tasks that tell of the lock: those of the guest, and those of the kind that may not name it.
func (h Holder) traces() []pve.TaskFilter {
	switch types := Holders(h.Lock); {
	case len(types) == 0 || h.VMID == 0:
		return nil
	case h.Lock == "backup" || h.Lock == "clone":
		return []pve.TaskFilter{{VMID: h.VMID}, {Type: types[0]}}
	}
	return []pve.TaskFilter{{VMID: h.VMID}}
}

// showsUnlocked reports whether a task of the guest shows that it had no lock when the task began. PVE refuses these on
// a locked guest (qemu-server API2/Qemu.pm, QemuServer.pm vm_start, pve-guest-common AbstractConfig.pm check_lock and
// set_lock), or they make another guest of the id. The tasks that a backup sends with skiplock to a guest that it stops
// (qemu-server VZDump/QemuServer.pm) are none of them, but for the start of one that failed.
func (h Holder) showsUnlocked(t pve.Task) bool {
	well := t.Status == "OK" || strings.HasPrefix(t.Status, "WARNINGS: ")
	return well && h.names(t.UPID) && slices.Contains([]string{"qmclone", "qmconfig", "qmcreate", "qmdelsnapshot",
		"qmdestroy", "qmigrate", "qmmove", "qmrestore", "qmrollback", "qmsnapshot", "qmstart", "qmtemplate", "resize",
		"vzdump"}, t.UPID.Type())
}

// names reports whether a task carries the guest's id.
func (h Holder) names(task pve.UPID) bool { return h.VMID != 0 && task.ID() == fmt.Sprint(h.VMID) }

// Youngest is the task that began last. Each node lists its tasks from the last to the first (pve-manager
// API2/Tasks.pm); of several nodes each is asked how long ago its last one began, by its own clock. They are several
// tasks if the whole seconds do not tell more.
func (r *Runner) Youngest(ctx context.Context, tasks []pve.Task) (young []pve.Task, err error) {
	lasts := map[string]pve.Task{}
	for _, t := range tasks {
		if node := t.UPID.Node(); t.StartTime.After(lasts[node].StartTime) {
			lasts[node] = t
		}
	}
	began, last := map[string]time.Time{}, time.Time{}
	for node, t := range lasts {
		ahead := time.Duration(0)
		if len(lasts) > 1 {
			if ahead, err = r.aheadOf(ctx, node); err != nil {
				return nil, err
			}
		}
		if began[node] = t.StartTime.Add(-ahead); began[node].After(last) {
			last = began[node]
		}
	}
	for node, t := range lasts {
		if last.Sub(began[node]) <= blur {
			young = append(young, t)
		}
	}
	return young, nil
}

// String says what is locked and by whom: "VM 100 is locked (backup) by vzdump of root@pam since …".
func (h Holder) String() string {
	text := h.subject()
	for i, upid := range h.Runs {
		if i == maxHolders {
			text += fmt.Sprintf(" and %d more", len(h.Runs)-i)
			break
		}
		if i > 0 {
			text += ","
		}
		if upid.ID() != fmt.Sprint(h.VMID) { // its UPID does not say of which guest
			text += " perhaps"
		}
		text += fmt.Sprintf(" by %s of %s since %s (%s)", upid.Type(), upid.User(), upid.Start().UTC().Format(time.RFC3339),
			upid)
	}
	switch {
	case len(h.Runs) > 0 || h.Node == "" || h.Lock == "" && !strings.Contains(h.what, guestFile):
		return text
	case h.Audit:
		return text + fmt.Sprintf("; no task that runs on node %s is seen to hold it", h.Node)
	}
	return text + fmt.Sprintf("; which task holds it cannot be seen without Sys.Audit on /nodes/%s", h.Node)
}

func (h Holder) subject() string {
	subject := "The guest"
	if h.VMID != 0 {
		subject = fmt.Sprintf("VM %d", h.VMID)
	}
	switch {
	case h.Lock != "":
		return fmt.Sprintf("%s is locked (%s)", subject, h.Lock)
	case strings.Contains(h.what, guestFile) || h.what == "":
		return subject + " is held by another task of PVE"
	}
	return fmt.Sprintf("The lock %s is held by a third party", h.what)
}

// next is the step that helps. err is why the tasks could not be seen.
func (h Holder) next(err error) string {
	unlock := fmt.Sprintf("`qm unlock %d`", h.VMID)
	switch {
	case err != nil:
		return fmt.Sprintf("look at the tasks of node %s, which could not be listed (%v), and try again "+
			"when they have ended", h.Node, err)
	case len(h.Runs) > 0:
		return fmt.Sprintf("wait until task %s has ended (%s), then try again, "+
			"or allow more time with the timeouts attribute", h.Runs[0], shell.TaskStatus(string(h.Runs[0]), h.Node))
	case h.Lock == "":
		return "try again, or allow more time with the timeouts attribute"
	case h.Audit:
		return fmt.Sprintf("a task that died has left the lock, or it was set by hand or by a program outside PVE. If "+
			"nothing is at work on the guest, %s as root on node %s removes it; then try again", unlock, h.Node)
	}
	return fmt.Sprintf("look whether a task is at work on it (`pvenode task list --vmid %d --source active` on node %s). "+
		"If none is, %s as root on that node removes the lock; then try again",
		h.VMID, h.Node, unlock)
}

// quoted is the lock that an error is about: its file, or its name in the cluster.
func quoted(err error) string {
	if err == nil {
		return ""
	}
	for _, before := range []string{"lock file '", "cfs-lock '"} {
		if _, rest, ok := strings.Cut(err.Error(), before); ok {
			name, _, _ := strings.Cut(rest, "'")
			return name
		}
	}
	return ""
}

// say writes a line to the log, where one is kept.
func (r *Runner) say(ctx context.Context, text string, err error, tries int, pause time.Duration) {
	if r.Log == nil {
		return
	}
	fields := map[string]string{"try": fmt.Sprint(tries), "pause": pause.Round(time.Millisecond).String()}
	if err != nil {
		fields["error"] = err.Error()
	}
	r.Log(ctx, text, fields)
}
