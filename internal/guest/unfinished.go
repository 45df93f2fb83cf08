package guest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// A description may be a create's stamp although the VM is complete: a backup or a snapshot that was taken between the create and
// its commit brings it back, with the right VMID, and so does whoever copies it. So a stamp alone does not say that a VM is
// anybody's leftover.

// lease is how long a create takes, unless it is given more time. One whose stamp is not leased may be taken for dead after that.
const lease = 30 * time.Minute

// Deadline is when a create that begins now is over, on the server's clock.
func (s *Guests) Deadline(wanted time.Duration) time.Time {
	if wanted <= 0 {
		wanted = lease
	}
	return s.Now().Add(wanted)
}

// Now is the server's time, or this machine's where that is behind or the server's is not known, since something between the two
// takes the header Date away: a create that lives is never taken for dead because one clock is ahead.
func (s *Guests) Now() time.Time {
	server, here := s.api.ServerTime(), s.clock.Now()
	if server.IsZero() || here.Before(server) {
		return here
	}
	return server
}

// Unfinished reads the stamp of a guest that a create of this provider, dead or alive, has not committed.
func (s *Guests) Unfinished(ctx context.Context, resources pve.Resources, guest pve.Resource) (Stamp, pve.GuestConfig, bool) {
	if guest.Type != "qemu" {
		return Stamp{}, pve.GuestConfig{}, false
	}
	config, err := s.api.CurrentConfig(ctx, guest.Node, guest.VMID)
	if err != nil {
		return Stamp{}, pve.GuestConfig{}, false
	}
	mark, ok := ParseStamp(config.Values["description"])
	return mark, config, ok && mark.VMID == guest.VMID && mark.Cluster == ClusterName(resources)
}

// LifeOf tells what is known of the process that made a stamp.
func (s *Guests) LifeOf(mark Stamp) Life { return mark.life(s.Process) }

// OnHalfMade says of a guest that is locked and not whole what is known of the task that makes it, and what to do. Commands that
// remove it are given only where everybody's tasks are seen, none is at work, and it is still what it was.
func (s *Guests) OnHalfMade(ctx context.Context, node string, vmid int, lock string) string {
	held, err := s.jobs.Holder(ctx, node, vmid, job.LockedBy(lock, "make it"))
	switch {
	case len(held.Runs) > 0:
		return fmt.Sprintf("Task %s is at work on it: wait for its end", held.Runs[0])
	case err != nil || !held.Audit:
		return fmt.Sprintf("Whether a task is at work on it cannot be seen without Sys.Audit on /nodes/%s. Look there "+
			"(`pvenode task list --vmid %d --source active`), and leave it alone while one is", node, vmid)
	}
	if now, err := s.api.CurrentConfig(ctx, node, vmid); err != nil || now.Values["lock"] != lock {
		return "It has just changed: try again"
	}
	return fmt.Sprintf("No task is at work on it, so the one that was has died. "+
		"`qm unlock %d && qm destroy %d --purge` as root on node %s removes it", vmid, vmid, node)
}

// isPlaceholder reports whether a configuration is the empty VM under which a destroy takes away a volume that outlived its VM: it has
// the stamp, and neither disks, drives nor network devices but the volumes that are to go.
func isPlaceholder(vmid int, config map[string]string) bool {
	mark, ok := ParseStamp(config["description"])
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

// WhyComplete says what speaks against it that a stamped VM is what a create left which died before its commit; "" if nothing
// does. What cannot be seen is an error.
//   - Somebody has taken snapshots of it, or rolled it back.
//   - It runs, and has done so for longer than a create may take.
//   - Another identity has started, changed, destroyed … what has its id since the create last showed that it lives: it is in use, or
//     another VM, which bears the stamp since it was cloned of a clone of the first.
//   - The last task that made it was a restore, and not the create's own; or none is known that could be the create, since PVE
//     keeps its list of tasks for some time only. That of a VM without disks, in which nothing can be lost, is not asked for. An
//     identity sees the tasks of others with Sys.Audit (pve-manager API2/Tasks.pm).
func (s *Guests) WhyComplete(ctx context.Context, resources pve.Resources, node string, mark Stamp, config map[string]string,
) (string, error) {
	snapshots, err := s.api.Snapshots(ctx, node, mark.VMID)
	if err != nil {
		return "", err
	}
	if len(snapshots) > 0 {
		return "it has snapshots", nil
	}
	status, err := s.api.GuestStatus(ctx, node, mark.VMID)
	if err != nil {
		return "", err
	}
	now := s.Now()
	up := time.Duration(status.Uptime) * time.Second
	since := now.Add(-up)
	if status.IsRunning() && (up > lease && now.After(mark.Deadline) || since.After(mark.Deadline)) {
		return fmt.Sprintf("it runs since %s, for longer than a create takes", since.UTC().Format(time.RFC3339)), nil
	}
	if len(vm.Slots(config)) == 0 {
		return "", nil
	}
	return s.madeOtherwise(ctx, resources, mark)
}

// makers are the tasks that may have made a VM.
type makers struct {
	last     pve.Task // of those that name it
	cloned   bool     // a clone may have, which names its source only
	restores int      // since the create began its own
	others   pve.Task // the last of another identity that names it, since the create last showed that it lives
}

func (m *makers) add(t pve.Task, mark Stamp) {
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

// isAnothers reports whether a task shows that somebody else has taken to a stamped VM, or has removed it and put another there, since its
// create last showed that it lives. Who backs it up or looks at its console has not.
func (s Stamp) isAnothers(t pve.Task) bool {
	if slices.Contains([]string{"vzdump", "vncproxy", "spiceproxy"}, t.UPID.Type()) {
		return false
	}
	return s.Leased && s.User != "" && userOf(t.UPID.User()) != s.User && !t.StartTime.Before(s.Deadline.Add(-Lease))
}

// madeOtherwise looks for the task that made a VM last. It may have moved since, and a clone is made on its source's node.
func (s *Guests) madeOtherwise(ctx context.Context, resources pve.Resources, mark Stamp) (string, error) {
	var m makers
	tasks, err := s.tasksOf(ctx, resources, false, fmt.Sprintf("whether VM %d was restored from a backup", mark.VMID))
	if err != nil {
		return "", err
	}
	for _, t := range tasks {
		m.add(t, mark)
	}
	restore := !mark.Restore.IsZero() // the first one since then is the create's own; another may have brought its mark back
	switch typ := m.last.UPID.Type(); {
	case m.last.UPID == "" && (!m.cloned || restore):
		return "no task is known any more that made it", nil
	case typ == "qmrestore" && restore && m.restores == 1 && !m.last.StartTime.After(mark.Deadline):
		return "", nil
	case m.last.UPID != "" && (typ != "qmcreate" || restore):
		return fmt.Sprintf("task %s of %s (%s) has made it what it is", typ, m.last.UPID.User(), m.last.UPID), nil
	case m.others.UPID != "":
		return fmt.Sprintf("since then %s has begun %s on VM %d (%s)", m.others.UPID.User(), m.others.UPID.Type(), mark.VMID, m.others.UPID), nil
	}
	return "", nil
}
