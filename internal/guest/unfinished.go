package guest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// A description may be a create's mark although the VM is complete: a backup or a snapshot that was taken between the
// create and its commit brings it back, with the right VMID, and so does a copy. So a mark alone does not
// say that a VM is anybody's leftover.

// lease is how long a create takes, unless it is given more time. One whose mark is not leased may be taken for dead
// after that.
const lease = 30 * time.Minute

// Deadline is when a create that begins now is over, on the server's clock.
func (r *Runs) Deadline(wanted time.Duration) time.Time {
	if wanted <= 0 {
		wanted = lease
	}
	return r.Now().Add(wanted)
}

// Now is the server's time. It is this machine's where that is behind, or where the server's is not known since a
// proxy between the two takes the header Date away. So a create that lives is never taken for dead because one clock
// is ahead.
func (r *Runs) Now() time.Time {
	server, here := r.api.ServerTime(), r.clock.Now()
	if server.IsZero() || here.Before(server) {
		return here
	}
	return server
}

// Unfinished reads the mark of a guest that a create of this provider, dead or alive, has not committed.
func (r *Runs) Unfinished(ctx context.Context, resources pve.Resources, guest pve.Resource) (Mark, pve.GuestConfig,
	bool) {
	if guest.Type != "qemu" {
		return Mark{}, pve.GuestConfig{}, false
	}
	config, err := r.api.QEMU(guest.Node, guest.VMID).Config(ctx)
	if err != nil {
		return Mark{}, pve.GuestConfig{}, false
	}
	mark, ok := ParseMark(config.Values["description"])
	return mark, config, ok && mark.VMID == guest.VMID && mark.Cluster == ClusterName(resources)
}

// LifeOf tells what is known of the process that made a mark.
func (r *Runs) LifeOf(mark Mark) Life { return mark.life(r.Process) }

// OnHalfMade says of a guest that is locked and not whole what is known of the task that makes it, and what to do.
// Commands that remove it are given only where everybody's tasks are seen, none is at work, and it is still what it
// was.
func (r *Runs) OnHalfMade(ctx context.Context, node string, vmid int, lock string) string {
	held, err := r.jobs.Holder(ctx, node, vmid, request.LockedBy(lock, "make it"))
	switch {
	case len(held.Runs) > 0:
		return fmt.Sprintf("Task %s is at work on it: wait for its end", held.Runs[0])
	case err != nil || !held.Audit:
		return fmt.Sprintf("Whether a task is at work on it cannot be seen without Sys.Audit on /nodes/%s. Look there "+
			"(`pvenode task list --vmid %d --source active`), and leave it alone while one is", node, vmid)
	}
	if now, err := r.api.QEMU(node, vmid).Config(ctx); err != nil || now.Values["lock"] != lock {
		return "It has just changed: try again"
	}
	return fmt.Sprintf("No task is at work on it, so the one that was has died. "+
		"`qm unlock %d && qm destroy %d --purge` as root on node %s removes it", vmid, vmid, node)
}

// isPlaceholder reports whether a configuration is the empty VM under which a destroy takes away a volume that
// outlived its VM: it has the mark, and neither disks, drives nor network devices but the volumes that are to go.
func isPlaceholder(vmid int, config map[string]string) bool {
	mark, ok := ParseMark(config["description"])
	if !ok || mark.VMID != vmid || len(vm.Slots(config)) > 0 {
		return false
	}
	for option := range config {
		if rest, ok := strings.CutPrefix(option, "net"); ok && rest != "" && strings.Trim(rest, "0123456789") == "" {
			return false
		}
	}
	return true
}

// WhyComplete returns the reason to treat a marked VM as complete, or "" if its create died before the commit. A
// failed look is an error. The reasons:
//   - A user has taken snapshots of it, or rolled it back.
//   - It runs, and has done so for longer than a create may take.
//   - Another identity has started, changed, destroyed … the guest with its VMID since the create last showed that it
//     lives: the VM is in use, or it is another one, which bears the mark since it was cloned of a clone of the
//     first.
//   - The last task that made it was a restore, and not the create's own; or none is known that could be the create,
//     since PVE keeps its list of tasks for some time only. The task of a VM without disks, in which nothing can be
//     lost, is not asked for. An identity sees the tasks of others with Sys.Audit (pve-manager API2/Tasks.pm).
func (r *Runs) WhyComplete(ctx context.Context, resources pve.Resources, node string, mark Mark,
	config map[string]string,
) (string, error) {
	snapshots, err := r.api.QEMU(node, mark.VMID).SnapshotNames(ctx)
	if err != nil {
		return "", err
	}
	if len(snapshots) > 0 {
		return "it has snapshots", nil
	}
	status, err := r.api.QEMU(node, mark.VMID).Status(ctx)
	if err != nil {
		return "", err
	}
	now := r.Now()
	up := time.Duration(status.Uptime) * time.Second
	since := now.Add(-up)
	if status.IsRunning() && (up > lease && now.After(mark.Deadline) || since.After(mark.Deadline)) {
		return fmt.Sprintf("it runs since %s, for longer than a create takes", since.UTC().Format(time.RFC3339)), nil
	}
	if len(vm.Slots(config)) == 0 {
		return "", nil
	}
	return r.madeOtherwise(ctx, resources, mark)
}

// makers are the tasks that may have made a VM.
type makers struct {
	last     pve.Task // of those that name it
	cloned   bool     // a clone may have, which names its source only
	restores int      // since the create began its own
	others   pve.Task // the last of another identity that names it, since the create last showed that it lives
}

func (m *makers) add(t pve.Task, mark Mark) {
	typ, own := t.UPID.Type(), t.UPID.ID() == strconv.Itoa(mark.VMID)
	if typ == "qmclone" && !t.StartTime.After(mark.Deadline) {
		m.cloned = true
	}
	if own && mark.isAnothers(t) && t.StartTime.After(m.others.StartTime) {
		m.others = t
	}
	if !own || typ != "qmcreate" && typ != "qmrestore" && typ != "qmrollback" {
		return
	}
	if !t.StartTime.Before(m.last.StartTime) {
		m.last = t
	}
	if typ == "qmrestore" && !t.StartTime.Before(mark.Restore) {
		m.restores++
	}
}

// isAnothers reports whether a task shows that another user works with a marked VM, or has removed it and put another
// there, since its create last showed that it lives. A backup or a look at its console shows neither.
func (s Mark) isAnothers(t pve.Task) bool {
	if slices.Contains([]string{"vzdump", "vncproxy", "spiceproxy"}, t.UPID.Type()) {
		return false
	}
	return s.Leased && s.User != "" && userOf(t.UPID.User()) != s.User && !t.StartTime.Before(s.Deadline.Add(-Lease))
}

// madeOtherwise looks for the task that made a VM last. It may have moved since, and a clone is made on its source's
// node.
func (r *Runs) madeOtherwise(ctx context.Context, resources pve.Resources, mark Mark) (string, error) {
	var m makers
	tasks, err := r.tasksOf(ctx, resources, false, fmt.Sprintf("whether VM %d was restored from a backup", mark.VMID))
	if err != nil {
		return "", err
	}
	for _, t := range tasks {
		m.add(t, mark)
	}
	// the first one since then is the create's own; another may have brought its mark back
	restore := !mark.Restore.IsZero()
	switch typ := m.last.UPID.Type(); {
	case m.last.UPID == "" && (!m.cloned || restore):
		return "no task is known any more that made it", nil
	case typ == "qmrestore" && restore && m.restores == 1 && !m.last.StartTime.After(mark.Deadline):
		return "", nil
	case m.last.UPID != "" && (typ != "qmcreate" || restore):
		return fmt.Sprintf("task %s of %s (%s) has made it what it is", typ, m.last.UPID.User(), m.last.UPID), nil
	case m.others.UPID != "":
		return fmt.Sprintf("since then %s has begun %s on VM %d (%s)", m.others.UPID.User(), m.others.UPID.Type(), mark.VMID,
			m.others.UPID), nil
	}
	return "", nil
}
