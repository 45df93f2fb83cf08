package destroy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// kept is the HA entry of a guest that HA is to ignore for its shutdown: its options before. The zero value is none.
type kept struct {
	options map[string]string
	dropped bool   // the entry was removed, to be made again
	state   string // of the entry after putBack; "": there is none, or that is not known
}

// asKnown are the options that the entry has as far as this destroy knows; nil if it has none at the moment.
func (k kept) asKnown(options map[string]string) map[string]string {
	if k.dropped {
		return nil
	}
	return options
}

// ignored are the options of the entry meanwhile.
func (k kept) ignored() map[string]string {
	options := maps.Clone(k.options)
	options["state"] = "ignored"
	return options
}

// ignore has HA ignore the guest. The entry stays, so that a failed destroy loses none of its options, and the deletion
// of the VM takes it out of the rules, which it does only for a VM that has an entry (qemu-server API2/Qemu.pm
// destroy_vm). HA changes no entry of a service in state error (pve-ha-manager API2/HA/Resources.pm
// check_service_state): that one is made again.
func (k *kept) ignore(ctx context.Context, d *destruction) error {
	vmid := d.r.Ref.VMID
	entry, err := d.d.api.HA().Resource(ctx, vmid)
	if err != nil {
		return err
	}
	prove := func(ctx context.Context) (guard.Evidence, error) { return d.proveSelf(ctx, false) }
	d.seenAt = time.Time{} // an act, after which the next one looks again
	k.options = entry.Options
	k.options["state"] = cmp.Or(k.options["state"], "started") // its default (pve-ha-manager HA/Resources.pm)
	if listed, _ := d.resources.Guest(vmid); listed.HAState == "error" {
		err = d.d.LeaveHA(ctx, vmid, prove)
		k.dropped = true
	}
	if err == nil {
		err = d.d.guests.SetHA(ctx, vmid, k.asKnown(k.options), k.ignored(), func(ctx context.Context) error {
			_, err := prove(ctx)
			return err
		})
	}
	if err != nil {
		return err
	}
	k.dropped = false
	return awaitIgnored(ctx, d)
}

// manages is how long HA's manager, which comes round each 10 s, may take to let go of a guest. One that does not come
// round at all starts no guest either.
const manages = 30 * time.Second

// awaitIgnored waits until HA's manager has dropped the guest from its status. Until then the local manager, which
// goes by that status, starts a guest that is off: it looks whether there is an entry, not at the state of the entry
// (pve-ha-manager LRM.pm exec_resource_agent, Manager.pm "ignored state requested"). The listing shows the manager's
// status rather than the entry (pve-manager API2/Cluster.pm resources).
func awaitIgnored(ctx context.Context, d *destruction) error {
	_, err := d.d.jobs.Poll(ctx, request.Policy{Within: manages}, func(ctx context.Context) (bool, error) {
		d.asked = d.d.use.Ask()
		err := d.list(ctx)
		listed, ok := d.resources.Guest(d.r.Ref.VMID)
		return !ok || listed.HAState == "ignored", err
	})
	return err
}

// putBack gives the entry back what it was, after a destroy that did not remove the VM. An entry that a third party
// has changed or removed meanwhile stays so, and so does that of a VM of which only the lock of its destroy is left.
func (k *kept) putBack(ctx context.Context, d *destruction) error {
	if k.options == nil {
		return nil
	}
	vmid := d.r.Ref.VMID
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	prove := func(ctx context.Context) error { _, err := d.standing(ctx); return err }
	entry, err := d.d.api.HA().Resource(ctx, vmid)
	if err == nil && entry.Options["state"] != "ignored" {
		k.state = cmp.Or(entry.Options["state"], "started") // its default
		return nil
	}
	if pve.IsKind(err, pve.NotFound) && !k.dropped {
		return nil
	}
	err = d.d.guests.SetHA(ctx, vmid, k.asKnown(k.ignored()), k.options, prove)
	if err == nil {
		k.state = k.options["state"]
		return nil
	}
	if errors.Is(err, guard.ErrNotOurs) || pve.IsKind(err, pve.NotFound) && !k.dropped {
		return nil
	}
	return fmt.Errorf("put VM %d back under HA (%s on a node does that): %w", vmid,
		shell.Or(k.command(vmid), shell.ByHand), err)
}

// standing is the node on which the VM stands by now: it may have been migrated meanwhile. guard.ErrNotOurs: it is
// gone, or only the lock of its destroy is left.
func (d *destruction) standing(ctx context.Context) (string, error) {
	at, seen, err := d.d.guests.Find(ctx, d.r.Ref, d.resources)
	if seen == guest.Gone || err == nil && (!d.mine(at.Config.Current()) || guest.IsHalfDestroyed(at.Config.Current())) {
		err = guard.ErrNotOurs
	}
	return at.Node, err
}

// command gives the entry its state back, and one that was dropped its other options, too, but for a comment.
func (k *kept) command(vmid int) string {
	if !k.dropped {
		return shell.VM("ha-manager set vm:{vmid} --state {}", vmid, k.options["state"])
	}
	line, words := "ha-manager add vm:{vmid}", []string(nil)
	for _, option := range []string{"state", "group", "max_restart", "max_relocate", "failback"} {
		if value := k.options[option]; value != "" {
			line, words = line+" --"+option+" {}", append(words, value)
		}
	}
	return shell.VM(line, vmid, words...)
}

// references is a look for the jobs and the HA entries that name a VM, and that PVE takes it out of as it destroys it.
// Answers from before asked do not serve it; 0 takes any. A failed look refuses nothing.
type references struct {
	d     *Destroyer
	r     Request
	asked uint64
}

// Along is what goes with a VM beside its disks. The plan of a destroy notes it for the destroy.
type Along struct {
	// Purged are the jobs and the HA entries that PVE takes the VM out of.
	Purged []Entry
	// Settings are those of its id that the VM which takes its place begins without (Destroyer.Settings).
	Settings []string
	// Snapshots are the times at which its snapshots were taken, by name; nil where they were not read.
	Snapshots map[string]int64
	// Unread is why they could not be read. It is nil where the VM is not there any more.
	Unread error `json:"-"`
}

// Lines name all of it, the objects that are removed first. missing are snapshots to leave out: when each was taken.
func (a Along) Lines(missing map[string]int64) (lines []string) {
	var others []string
	for _, e := range a.Purged {
		if e.Fate == removed {
			lines = append(lines, e.String())
		} else {
			others = append(others, e.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Snapshots)) {
		if taken, is := missing[name]; !is || taken != a.Snapshots[name] {
			lines = append(lines, "snapshot "+name)
		}
	}
	if a.Unread != nil {
		lines = append(lines, fmt.Sprintf("every snapshot, if there is one: %v", a.Unread))
	}
	return slices.Concat(lines, others, a.Settings)
}

// TakesAlong looks for all that the destroy of a VM takes along, for its plan: the plans of a run share the answers
// about jobs and HA rules. The leftover of a failed create goes only while nothing names it.
func (d *Destroyer) TakesAlong(ctx context.Context, r Request) Along {
	var along Along
	if r.Replaced {
		along.Settings = d.Settings(ctx, r)
	}
	if r.Ref.Proof != nil || r.Ref.VMID == 0 {
		return along
	}
	along.Purged = d.Purged(ctx, r)
	along.Snapshots, along.Unread = d.SnapshotsOf(ctx, r.Ref)
	return along
}

// Entry is a job or an HA entry that names a VM, and its fate in the destroy of the VM.
type Entry struct{ Kind, ID, Fate string }

// String is a line about it that is true before and after the destroy.
func (e Entry) String() string { return strings.TrimSpace(e.Kind+" "+e.ID) + ", " + e.Fate }

// IsRule reports whether it is an HA rule.
func (e Entry) IsRule() bool { return e.Kind == haRule }

const (
	backupJob, haRule = "backup job", "HA rule"
	removed           = "removed"
	// withTheLast is the fate of a job or a rule that names others, too. They may go in the same run, and each of their
	// destroys takes its own VM for the only one.
	withTheLast = "which goes only with the last guest that it names"
	// mayStay is the fate of an HA rule in front of an old release of PVE.
	mayStay = "which PVE before 9.1 may leave as it is"
)

// Purged names the jobs and the HA entries that PVE takes a VM out of as it destroys it.
func (d *Destroyer) Purged(ctx context.Context, r Request) []Entry {
	if r.KeepReferences {
		return nil
	}
	look := references{d, r, 0}
	entries := look.backupJobs(ctx)
	jobs, _ := look.replicationJobs(ctx) // none are seen then
	for _, job := range jobs {
		if job.VMID == r.Ref.VMID {
			entries = append(entries, entryOf(job))
		}
	}
	if listed, is, err := d.api.Listing().Guest(ctx, r.Ref.VMID); is && err == nil && listed.HAState != "" {
		entries = append(entries, look.ha(ctx)...)
	}
	return entries
}

// replicationJobs are all of the cluster.
func (q references) replicationJobs(ctx context.Context) ([]pve.ReplicationJob, error) {
	return q.d.replication.Since(ctx, q.asked, q.d.api.Cluster().ReplicationJobs)
}

func entryOf(job pve.ReplicationJob) Entry {
	return Entry{"replication job", job.ID + " to node " + job.Target, removed}
}

// backupJobs names the backup jobs that name the VM, as far as this identity may read them. PVE takes the VM out of
// them, and removes a job that names no other (pve-guest-common VZDump/Plugin.pm remove_vmid_from_job).
func (q references) backupJobs(ctx context.Context) (entries []Entry) {
	if q.r.KeepReferences {
		return nil
	}
	jobs, err := q.d.backups.Since(ctx, q.asked, q.d.api.Cluster().BackupJobs)
	if err != nil && !pve.IsKind(err, pve.Denied) { // without Sys.Audit on /, none is named, as the guide says
		return []Entry{{"every backup job that names it", "", fmt.Sprintf("if there is one: %v", err)}}
	}
	vmid := q.r.Ref.VMID
	for _, job := range jobs {
		switch {
		case slices.Equal(job.VMIDs, []int{vmid}):
			entries = append(entries, Entry{backupJob, job.ID, removed})
		case slices.Contains(job.VMIDs, vmid):
			entries = append(entries, Entry{backupJob, job.ID, withTheLast})
		case slices.Contains(job.Exclude, vmid):
			entries = append(entries, Entry{backupJob, job.ID, "whose exclusions name it"})
		}
	}
	return entries
}

// ha names the HA entry that the configuration has not made, and the HA rules that name the VM, as far as this identity
// may read them. PVE takes the VM out of them, and removes a rule that names no other (pve-ha-manager HA/Config.pm
// delete_service_from_config), since qemu-server 9.0.26 and pve-ha-manager 5.0.7. Both are from the days before
// pve-manager 9.1.0, whose version is the one that the API shows.
func (q references) ha(ctx context.Context) (entries []Entry) {
	sid := fmt.Sprintf("vm:%d", q.r.Ref.VMID)
	if !q.r.OwnHA {
		entries = append(entries, Entry{"HA resource", sid, removed})
	}
	rules, err := q.d.rules.Since(ctx, q.asked, q.d.api.HA().Rules)
	if err != nil && !pve.IsKind(err, pve.Unsupported) {
		return append(entries, Entry{"every HA rule that names it", "", fmt.Sprintf("if there is one: %v", err)})
	}
	for _, rule := range rules {
		if q.r.OwnRules[rule.ID] || !slices.Contains(rule.Resources, sid) {
			continue
		}
		fate := withTheLast
		if len(rule.Resources) == 1 {
			fate = removed
		}
		version, err := q.d.api.Cluster().VersionOf(ctx, q.r.Ref.Node)
		if err == nil && version.Major != 0 && !version.AtLeast(9, 1) {
			fate = mayStay
		}
		entries = append(entries, Entry{haRule, rule.ID, fate})
	}
	return entries
}

// settle says what has become of entries once the VM is destroyed: the jobs and the rules are read again. One that
// several VMs of a run leave is removed with the last of them, of which the run tells once. A rule that still names the
// VM has lost nothing.
func (q references) settle(ctx context.Context, entries []Entry) (settled []Entry) {
	q.asked = q.d.use.Ask()
	names := map[string]map[string]bool{} // by kind and id: whether it names the VM; without a kind that was not read
	isOpen := func(e Entry) bool { return e.Fate == withTheLast || e.IsRule() }
	isJob := func(e Entry) bool { return e.Kind == backupJob && isOpen(e) }
	if slices.ContainsFunc(entries, isJob) {
		if jobs, err := q.d.backups.Since(ctx, q.asked, q.d.api.Cluster().BackupJobs); err == nil {
			names[backupJob] = map[string]bool{}
			for _, job := range jobs {
				names[backupJob][job.ID] = slices.Contains(job.VMIDs, q.r.Ref.VMID)
			}
		}
	}
	if slices.ContainsFunc(entries, Entry.IsRule) {
		if rules, err := q.d.rules.Since(ctx, q.asked, q.d.api.HA().Rules); err == nil {
			names[haRule] = map[string]bool{}
			for _, rule := range rules {
				names[haRule][rule.ID] = slices.Contains(rule.Resources, fmt.Sprintf("vm:%d", q.r.Ref.VMID))
			}
		}
	}
	for _, e := range entries {
		now, isRead := names[e.Kind]
		stays, there := now[e.ID]
		if isRead && isOpen(e) && !there {
			if _, told := q.d.told.LoadOrStore(e.Kind+e.ID, true); !told {
				e.Fate = removed
			}
		}
		if !stays {
			settled = append(settled, e)
		}
	}
	return settled
}
