package provision

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// holder is what holds a lock, as far as it can be seen.
type holder struct {
	node string
	vmid int
	lock string     // the configuration's lock; "" if it is a file's or the cluster's
	what string     // the lock in PVE's words, where it is none of a configuration
	runs []pve.UPID // tasks that run and may hold it
	// audit: the tasks of everybody were seen. Without Sys.Audit an identity sees its own only (pve-manager API2/Tasks.pm).
	audit bool
}

// guestFile is the beginning of the file that PVE locks while it works on a guest (qemu-server QemuConfig.pm).
const guestFile = "/var/lock/qemu-server/lock-"

// maxHolders is how many tasks a sentence names.
const maxHolders = 3

// holder looks for what holds a lock. The error says why it could not be seen; the rest is told all the same.
func (s *Service) holder(ctx context.Context, node string, vmid int, cause error) (holder, error) {
	h := holder{node: node, vmid: vmid, lock: pve.ConfigLock(cause)}
	if h.lock == "" {
		h.what = quoted(cause)
	}
	if node == "" {
		return h, nil
	}
	tasks, err := s.api.Tasks(ctx, node, pve.TaskFilter{RunningOnly: true})
	if err != nil {
		return h, err
	}
	for _, t := range tasks {
		if h.mayHold(t.UPID) {
			h.runs = append(h.runs, t.UPID)
		}
	}
	h.audit, err = s.audits(ctx, node)
	return h, err
}

// audits reports whether this identity sees everybody's tasks on a node.
func (s *Service) audits(ctx context.Context, node string) (bool, error) {
	path := "/nodes/" + node
	paths, err := s.api.Permissions(ctx, path)
	_, granted := paths[path]["Sys.Audit"]
	return granted, err
}

// holders are the tasks that set a configuration lock (qemu-server API2/Qemu.pm, QemuConfig.pm, QemuMigrate.pm,
// VZDump/QemuServer.pm). A backup of many guests carries no id, and a clone that of its source.
func holders(lock string) []string {
	return map[string][]string{
		"backup": {"vzdump"}, "clone": {"qmclone"}, "create": {"qmcreate", "qmrestore"}, "migrate": {"qmigrate", "hamigrate"},
		"snapshot": {"qmsnapshot"}, "snapshot-delete": {"qmdelsnapshot"}, "rollback": {"qmrollback"},
		"suspending": {"qmsuspend"}, "destroyed": {"qmdestroy"}, "import": {"qmrestore", "qmcreate"},
	}[lock]
}

// mayHold tells whether a running task may hold the lock.
func (h holder) mayHold(task pve.UPID) bool {
	own := h.vmid != 0 && task.ID() == fmt.Sprint(h.vmid)
	if h.lock == "" {
		return own
	}
	types := holders(h.lock)
	elsewhere := task.ID() == "" || h.lock == "clone"
	return own && (len(types) == 0 || slices.Contains(types, task.Type())) || elsewhere && slices.Contains(types, task.Type())
}

// String says what is locked and by whom: "VM 100 is locked (backup) by vzdump of root@pam since …".
func (h holder) String() string {
	text := h.subject()
	for i, upid := range h.runs {
		if i == maxHolders {
			text += fmt.Sprintf(" and %d more", len(h.runs)-i)
			break
		}
		if i > 0 {
			text += ","
		}
		if upid.ID() != fmt.Sprint(h.vmid) { // its UPID does not say of which guest
			text += " perhaps"
		}
		text += fmt.Sprintf(" by %s of %s since %s (%s)", upid.Type(), upid.User(), upid.Start().UTC().Format(time.RFC3339), upid)
	}
	switch {
	case len(h.runs) > 0 || h.node == "" || h.lock == "" && !strings.Contains(h.what, guestFile):
		return text
	case h.audit:
		return text + fmt.Sprintf("; no task that runs on node %s is seen to hold it", h.node)
	}
	return text + fmt.Sprintf("; which task holds it cannot be seen without Sys.Audit on /nodes/%s", h.node)
}

func (h holder) subject() string {
	subject := "The guest"
	if h.vmid != 0 {
		subject = fmt.Sprintf("VM %d", h.vmid)
	}
	switch {
	case h.lock != "":
		return fmt.Sprintf("%s is locked (%s)", subject, h.lock)
	case strings.Contains(h.what, guestFile) || h.what == "":
		return subject + " is held by another task of PVE"
	}
	return fmt.Sprintf("The lock %s is held by somebody else", h.what)
}

// next is the step that helps. err is why the tasks could not be seen.
func (h holder) next(err error) string {
	unlock := fmt.Sprintf("`qm unlock %d`", h.vmid)
	switch {
	case err != nil:
		return fmt.Sprintf("look at the tasks of node %s, which could not be listed (%v), and apply again when they have ended", h.node, err)
	case len(h.runs) > 0:
		return fmt.Sprintf("wait until task %s has ended (`pvenode task status %s` on node %s), then apply again, or allow more time with the timeouts attribute",
			h.runs[0], h.runs[0], h.node)
	case h.lock == "":
		return "apply again, or allow more time with the timeouts attribute"
	case h.audit:
		return fmt.Sprintf("a task that died has left the lock, or a program outside PVE set it. If nothing is at work on the guest, %s as root on node %s removes it; then apply again", unlock, h.node)
	}
	return fmt.Sprintf("look whether a task is at work on it (`pvenode task list --vmid %d --source active` on node %s). If none is, %s as root on that node removes the lock; then apply again",
		h.vmid, h.node, unlock)
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
func (s *Service) say(ctx context.Context, text string, err error, tries int, pause time.Duration) {
	if s.Log == nil {
		return
	}
	fields := map[string]string{"try": fmt.Sprint(tries), "pause": pause.Round(time.Millisecond).String()}
	if err != nil {
		fields["error"] = err.Error()
	}
	s.Log(ctx, text, fields)
}
