package create

import (
	"context"
	"fmt"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// creation is one attempt to create a VM under one id.
type creation struct {
	s      *Creator
	r      Request
	spec   vm.Spec // what is wanted, with the paths of the files that PVE takes by path
	node   string  // where the VM is to be
	from   *source
	vmid   int
	fences guest.Fences
	stamp  guest.Stamp
	tasks  job.Tasks
	stub   *remove.Stub // what a killed task of it left
	made   *remove.Made // its volumes

	sent     bool           // the first request may have had an effect
	lost     *job.Lost      // it, when its answer was lost and its task was not found
	taken    bool           // the id was somebody else's
	done     bool           // the first request was carried out, to its end
	held     bool           // the first request failed for somebody's lock
	identity guest.Identity // the VM's, once it was seen
	uuid     string         // that this create made for its VM, known before the first request; "" where it did not
	change   vm.Change
	late     vm.Change       // what the first request leaves to root on the node
	moving   []remove.Wanted // what its moves of disks are to make
	// unprotected: the protection that a clone inherits is off until the commit.
	unprotected bool
	cloudInit   bool               // the VM has a cloud-init drive
	status      string             // of the guest, as we made it
	read        *pve.PendingConfig // for the commit, if it was read before that
	seen        time.Time          // when a change of ours that bore a digest has shown whose the VM is; zero: another request came since
	committed   *pve.PendingConfig // what the commit has made of the VM, where that is known without a look
	managed     bool               // HA may have an entry for the VM, made by us
	warnings    []guest.Warning
	notes       []remove.Note // of the rollback
}

// creation makes one of what was found and chosen.
func (s *Creator) creation(r Request, found findings, id claimed) *creation {
	c := &creation{s: s, r: r, node: found.node, from: found.from, vmid: id.vmid, fences: id.fences,
		stub: remove.NewStub("", nil), status: string(guest.Stopped)}
	c.stamp = s.guests.NewStamp(guest.ClusterName(found.resources), c.vmid)
	if !c.stamp.Leased || r.OnFailure == Keep {
		c.stamp.Deadline, c.stamp.Leased = r.until(s.guests.Deadline(r.Lease)).UTC().Truncate(time.Second), false
	}
	if r.Restore != nil {
		c.stamp.Restore = s.guests.Now().UTC().Truncate(time.Second)
		for _, f := range c.fences {
			f.Narrow(writtenTo(r, c.from))
		}
	}
	c.made = remove.NewMade(nil, wanted(r, c.from, c.vmid))
	return c
}

// nodes are where the configuration can be: a clone to another node exists at its source until the very end.
func (c *creation) nodes() []string {
	if at := c.fences[0].Node; at != c.node {
		return []string{c.node, at}
	}
	return []string{c.node}
}

func (c *creation) warn(summary string, result pve.TaskResult) {
	if result.Warnings > 0 {
		detail := ""
		for _, line := range result.Log {
			detail += line + "\n"
		}
		c.warnings = append(c.warnings, guest.Warning{Summary: summary, Detail: detail})
	}
}

// note notes of a change whether it has shown whose the VM is.
func (c *creation) note(shown bool, err error) error {
	c.seen = time.Time{}
	if shown {
		c.seen = c.s.jobs.Clock.Now()
	}
	return err
}

// hasJustSeen reports whether that is a moment ago. A machine may have slept since.
func (c *creation) hasJustSeen() bool {
	const moment = 10 * time.Second
	age := c.s.jobs.Clock.Now().Sub(c.seen)
	return age >= 0 && age < moment
}

// mark is the description for the first request, which begins the lease.
func (c *creation) mark() string {
	if c.stamp.Leased {
		c.stamp = c.s.guests.Renewed(c.stamp)
	}
	return c.stamp.String()
}

// renew goes on with the lease of the VM that has just been read, where little of it is left: this run has waited, or a task has taken
// its time. Whoever sees a VM that is locked sees what is waited for.
func (c *creation) renew(ctx context.Context, node string) error {
	if !c.s.guests.IsToRenew(c.stamp) || c.read == nil || c.read.Current()["lock"] != "" {
		return nil
	}
	fresh := c.s.guests.Renewed(c.stamp)
	params := pve.Params{"description": fresh.String(), "digest": c.read.Digest}
	if c.s.api.UpdateConfig(ctx, node, c.vmid, params) == nil {
		c.stamp = fresh
	}
	return c.readMarked(ctx, node) // it has another digest now, and tells what has come of a request that failed
}

// unmarked says what has become of our mark.
func (c *creation) unmarked(config map[string]string) error {
	if other, ok := guest.ParseStamp(config["description"]); ok && other.VMID == c.vmid {
		return fmt.Errorf("another run (transaction %s) has taken VM %d on node %s back, or has its id: it took this one for dead, "+
			"of which the server had seen nothing for %s", other.TX, c.vmid, c.node, guest.Lease)
	}
	return fmt.Errorf("VM %d on node %s is not marked as this create's any more: somebody changed or replaced it", c.vmid, c.node)
}

// proof is what this create can prove.
func (c *creation) proof() *guest.Proof {
	p := &guest.Proof{VMID: c.vmid, Nodes: c.nodes(), Cluster: c.stamp.Cluster, TX: c.stamp.TX, Deadline: c.stamp.Deadline,
		Lost: c.lost != nil, Identity: c.identity, HA: c.managed, Pool: c.r.Pool, Stub: c.stub.Digest,
		Restore: c.stamp.Restore}
	if p.Identity.IsZero() {
		p.Identity.UUID = c.uuid
	}
	for _, f := range c.fences {
		p.Fences = append(p.Fences, f.Record())
	}
	for _, upid := range c.tasks.UPIDs {
		p.Tasks = append(p.Tasks, string(upid))
		if c.tasks.Guessed[upid] {
			p.Guessed = append(p.Guessed, string(upid))
		}
	}
	return p
}
