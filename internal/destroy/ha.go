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
	prove := func(ctx context.Context) error {
		now, err := d.d.api.QEMU(d.node, vmid).Config(ctx)
		if err == nil && (!d.mine(now.Values) || guest.IsHalfDestroyed(now.Values)) {
			err = guard.ErrNotOurs
		}
		return err
	}
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

// Along is what goes with a VM beside its disks.
type Along struct {
	// Purged are the jobs and the HA entries that PVE takes the VM out of.
	Purged []string
	// Settings are those of its id that the VM which takes its place begins without (Destroyer.Settings).
	Settings []string
	// Snapshots are the times at which its snapshots were taken, by name; nil where they were not read.
	Snapshots map[string]int64
	// Unread is why they could not be read. It is nil where the VM is not there any more.
	Unread error
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

// SnapshotsOf are the times at which the snapshots of a VM were taken, by name, wherever it is; none of one that is
// gone. The listing is of the run's beginning, and the refresh was earlier than the plan: the VM may have moved since
// either.
func (d *Destroyer) SnapshotsOf(ctx context.Context, ref guest.Ref) (map[string]int64, error) {
	node := ref.Node
	if listed, is, err := d.api.Listing().Guest(ctx, ref.VMID); is && err == nil {
		node = listed.Node
	}
	taken, err := d.takenAt(ctx, node, ref.VMID)
	if !pve.IsKind(err, pve.NotFound) {
		return taken, err
	}
	at, seen, err := d.guests.Find(ctx, ref, nil)
	if err != nil && seen == guest.Gone {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return d.takenAt(ctx, at.Node, ref.VMID)
}

// takenAt are the times at which the snapshots of a VM on a node were taken, by name.
func (d *Destroyer) takenAt(ctx context.Context, node string, vmid int) (map[string]int64, error) {
	snapshots, err := d.api.QEMU(node, vmid).Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[string]int64{}
	for _, s := range snapshots {
		taken[s.Name] = s.Taken
	}
	return taken, nil
}

// Purged names the jobs and the HA entries that PVE takes a VM out of as it destroys it.
func (d *Destroyer) Purged(ctx context.Context, r Request) []string {
	if r.KeepReferences {
		return nil
	}
	look := references{d, r, 0}
	lines := look.backupJobs(ctx)
	jobs, _ := look.replicationJobs(ctx) // none are seen then
	for _, job := range jobs {
		if job.VMID == r.Ref.VMID {
			lines = append(lines, lineOf(job))
		}
	}
	if listed, is, err := d.api.Listing().Guest(ctx, r.Ref.VMID); is && err == nil && listed.HAState != "" {
		lines = append(lines, look.ha(ctx)...)
	}
	return lines
}

// replicationJobs are all of the cluster.
func (q references) replicationJobs(ctx context.Context) ([]pve.ReplicationJob, error) {
	return q.d.replication.Since(ctx, q.asked, q.d.api.Cluster().ReplicationJobs)
}

func lineOf(job pve.ReplicationJob) string {
	return fmt.Sprintf("replication job %s to node %s, which is removed", job.ID, job.Target)
}

// withTheLast ends the line of a job or a rule that names others, too. They may go in the same run, and each of their
// destroys takes its own VM for the only one.
const withTheLast = " that it names and is removed with the last of them"

// backupJobs names the backup jobs that name the VM, as far as this identity may read them. PVE takes the VM out of
// them, and removes a job that names no other (pve-guest-common VZDump/Plugin.pm remove_vmid_from_job).
func (q references) backupJobs(ctx context.Context) (lines []string) {
	if q.r.KeepReferences {
		return nil
	}
	jobs, err := q.d.backups.Since(ctx, q.asked, q.d.api.Cluster().BackupJobs)
	if err != nil && !pve.IsKind(err, pve.Denied) { // without Sys.Audit on /, none is named, as the guide says
		return []string{fmt.Sprintf("every backup job that names it, if there is one: %v", err)}
	}
	vmid := q.r.Ref.VMID
	for _, job := range jobs {
		switch {
		case slices.Equal(job.VMIDs, []int{vmid}):
			lines = append(lines, fmt.Sprintf("backup job %s, which names no other guest and is removed", job.ID))
		case slices.Contains(job.VMIDs, vmid):
			lines = append(lines, fmt.Sprintf("backup job %s, which backs up the others%s", job.ID, withTheLast))
		case slices.Contains(job.Exclude, vmid):
			lines = append(lines, fmt.Sprintf("backup job %s, which leaves the VM out and will back up another of its id",
				job.ID))
		}
	}
	return lines
}

// ha names the HA entry that the configuration has not made, and the HA rules that name the VM, as far as this identity
// may read them. PVE takes the VM out of them, and removes a rule that names no other (pve-ha-manager HA/Config.pm
// delete_service_from_config).
func (q references) ha(ctx context.Context) (lines []string) {
	sid := fmt.Sprintf("vm:%d", q.r.Ref.VMID)
	if !q.r.OwnHA {
		lines = append(lines, "HA resource "+sid+", which is removed")
	}
	rules, err := q.d.rules.Since(ctx, q.asked, q.d.api.HA().Rules)
	if err != nil && !pve.IsKind(err, pve.Unsupported) {
		return append(lines, fmt.Sprintf("every HA rule that names it, if there is one: %v", err))
	}
	for _, rule := range rules {
		switch {
		case q.r.OwnRules[rule.ID]:
		case slices.Equal(rule.Resources, []string{sid}):
			lines = append(lines, fmt.Sprintf("HA rule %s, which names no other guest and is removed", rule.ID))
		case slices.Contains(rule.Resources, sid):
			lines = append(lines, fmt.Sprintf("HA rule %s, which keeps the others%s", rule.ID, withTheLast))
		}
	}
	return lines
}

// Settings names the firewall and the permissions of a VM's id that the configuration has not made. PVE removes them
// with the VM whatever it is told (qemu-server API2/Qemu.pm destroy_vm).
func (d *Destroyer) Settings(ctx context.Context, r Request) (lines []string) {
	vmid, node := r.Ref.VMID, r.Ref.Node
	if !r.OwnFirewall {
		lines = guest.FirewallFor(ctx, d.guests, node, vmid)
	}
	lines = append(lines, guest.FirewallRefsFor(ctx, d.guests, node, vmid)...)
	permissions := guest.RecentPermissionsFor
	if r.Pool != "" { // it lends its members permissions
		permissions = guest.GrantsFor
	}
	return append(lines, permissions(ctx, d.guests, vmid)...)
}

// learnSettings looks, while the guest shuts down, for the settings that the VM's successor begins without.
func (d *destruction) learnSettings(ctx context.Context) error {
	if d.r.Replaced {
		r := d.r
		r.Ref.Node, r.Pool = d.node, d.pool
		d.settings = d.d.Settings(ctx, r)
	}
	return nil
}

// nameSettings warns of settings that went with a VM. Of a replacement by -replace Terraform shows no warning of the
// plan.
func nameSettings(vmid int, settings []string) []guest.Warning {
	if len(settings) == 0 {
		return nil
	}
	return []guest.Warning{{Summary: fmt.Sprintf("Settings of the id of VM %d went with it", vmid),
		Detail: "PVE removed them with the VM:\n  " + strings.Join(settings, "\n  ") + "\nThe VM that takes its place has " +
			"those that its configuration or its source gives it. Set the others again, or put the firewall into the " +
			"configuration."}}
}

// namePurged warns of what went with a VM that others had set up for it.
func namePurged(r Request, purged []string) []guest.Warning {
	if len(purged) == 0 {
		return nil
	}
	otherwise := " on_destroy.purge = false leaves backup jobs as they are, and refuses the destroy for the others."
	if r.Holder { // a proxmox_disk has no such option
		otherwise = ""
	}
	return []guest.Warning{{Summary: fmt.Sprintf("VM %d was taken out of jobs or HA", r.Ref.VMID),
		Detail: "PVE did that with the destroy:\n  " + strings.Join(purged, "\n  ") + "\nA new VM of this id is in none of " +
			"them until it is put there again." + otherwise}}
}
