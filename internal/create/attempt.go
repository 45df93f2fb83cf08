package create

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// plan is what an attempt is to make.
type plan struct {
	r         Request
	key       string  // of idempotency: guest.NoKey where no later create continues the attempt
	spec      vm.Spec // r.Spec, with the paths of the files that PVE takes by path
	node      string  // where the VM is to be; the commit corrects it if a third party has moved the VM
	from      *source // nil from scratch
	vmid      int
	baselines guest.Baselines
}

// beside is what may stand on the server beside the configuration, made by this attempt or by the dead run that it
// continues.
type beside struct {
	ha       time.Time // since when HA may have an entry for the VM; zero: it has none
	firewall bool      // requests about its firewall were sent
	started  starting
}

// starting is the start of the guest, as far as this run knows.
type starting struct {
	sent       time.Time // the first request that PVE has not refused; zero: there was none
	unanswered bool      // its answer was lost
	byOthers   bool      // it ran already, by others: they may have shut it down since
}

// awaited is what the agent said while it was waited for.
type awaited struct {
	begun  bool // the VM is complete but for its commit
	guest  guest.Guest
	failed error // the VM is complete all the same
}

// written is what became of the mark.
type written struct {
	renewed    time.Time // when it was written last
	committing bool      // the commit was sent, so it may be gone by our own doing
	alone      bool      // the VM was seen without it, when no other run could have taken it away yet
	unwatched  time.Time // when the VM was last seen after a lease in which it was not: a user may have come; zero: never
	stays      string    // why the undo leaves the VM; "": it removes it
}

// attempt is one attempt to create a VM under one VMID.
type attempt struct {
	plan
	creator *Creator
	view    *guest.View
	mark    ownership.Mark
	written
	first   firstWrite
	resumed bool // a run that is dead has begun the VM
	moved   bool // a third party has moved the VM since it was made

	// Further facts for the undo.
	halfMade *destroy.HalfMade // what a killed task has left
	made     *destroy.Made     // volumes
	moving   []destroy.Wanted  // volumes that moves of disks are to make
	beside   beside

	change      vm.Change // from what the first write makes to the configuration
	late        vm.Change // what the first write leaves to root on the node
	unprotected bool      // the protection that a copy inherits is off until the commit
	cloudInit   bool      // the VM has a cloud-init drive
	status      string    // of the guest, as this attempt has left it

	awaited  awaited
	warnings []guest.Warning
	notes    []destroy.Note // of the undo
}

// attempt puts together what was found and chosen.
func (c *Creator) attempt(p plan, found findings) *attempt {
	a := &attempt{creator: c, halfMade: destroy.NewHalfMade("", nil), status: string(guest.Stopped), plan: p,
		written: written{renewed: c.jobs.Clock.Now()}}
	a.mark = p.howMade(c.guests.NewMark(guest.ClusterName(found.resources), a.vmid))
	a.mark.Key, a.mark.Kept = p.key, p.r.OnFailure == Keep
	if p.r.Restore != nil {
		for _, baseline := range a.baselines {
			baseline.Narrow(writtenTo(p.r, a.from))
		}
	}
	a.mark = c.guests.Sign(a.mark)
	a.made = destroy.NewMade("", nil, wanted(p.r, a.from, a.vmid), p.unloggedSlots())
	at := a.node
	if a.from == nil {
		a.change, a.late = c.fromScratch(p.spec)
	} else if a.from.migrates {
		at = a.from.node
	}
	a.view = c.guests.ViewUnread(a, at, a.vmid)
	return a
}

// howMade is a mark that says which task makes the VM.
func (p plan) howMade(mark ownership.Mark) ownership.Mark {
	switch {
	case p.r.Restore != nil:
		mark.By = "qmrestore"
	case p.r.Clone != nil:
		mark.By, mark.Source, mark.SourceUUID = "qmclone", p.from.vmid, vm.UUID(p.from.config)
	default:
		mark.By = "qmcreate"
	}
	return mark
}

// Check proves by the mark that a configuration is that of our VM. Once a commit may have taken the mark away, the
// identity proves it too.
func (a *attempt) Check(node string, config map[string]string, written bool) error {
	noteGap(a)
	written = written || a.committing && !a.mayBeOvertaken()
	if a.mark.Proves(a.vmid, config) || written && !a.mark.IsOvertaken(config) && a.view.Identity().Proves(config) {
		a.made.Saw(node, a.vmid, config)
		noteAlone(a, config)
		return nil
	}
	if a.mark.IsOvertaken(config) {
		other, _ := ownership.Parse(config["description"])
		return fmt.Errorf("another run (transaction %s) has taken VM %d on node %s over: it took this run for dead, of "+
			"which it had seen nothing for %s", other.Saga, a.vmid, a.node, guest.Lease)
	}
	if a.view.Identity().Proves(config) {
		noteAlone(a, config)
	}
	return fmt.Errorf("VM %d on node %s no longer has this create's mark: a third party changed or replaced it", a.vmid,
		a.node)
}

// look proves whose VM it is and renews the lease, right before a request.
func (a *attempt) look(ctx context.Context) error { return guest.GuardNow(ctx, a.view, a.renew) }

// lookUnlessSeen is look, unless a look or a change that bore its digest has proved a moment ago whose VM it is. It is
// for requests that act on all disks of the VM.
func (a *attempt) lookUnlessSeen(ctx context.Context) error {
	if err := guest.GuardUnlessSeen(ctx, a.view, a.renew); err != nil {
		return err
	}
	return checkSlots(ctx, a)
}

// perform sends a request that changes the configuration and takes no digest, right after a proof of whose VM it is.
func (a *attempt) perform(ctx context.Context, r request.Request, first ...func(context.Context) error) (
	pve.TaskResult, error) {
	return a.view.Perform(ctx, r, func(ctx context.Context) error {
		for _, look := range first {
			if err := look(ctx); err != nil {
				return err
			}
		}
		return a.lookUnlessSeen(ctx)
	})
}

// renew extends the lease of the VM that was just read, if little of it is left: this run has waited, or a task took
// its time. Another run that finds the VM locked sees what is waited for.
func (a *attempt) renew(ctx context.Context) error {
	last := a.view.Last()
	if !a.isToRenew() || last.Current()["lock"] != "" {
		return nil
	}
	renewed := a.creator.guests.Renewed(a.mark)
	params, now := pve.Params{"description": renewed.String(), "digest": last.Digest}, a.creator.jobs.Clock.Now()
	if a.creator.api.QEMU(a.view.Node(), a.vmid).UpdateConfig(ctx, params) == nil {
		a.mark, a.renewed = renewed, now
	}
	return a.view.Guard(ctx) // the digest is another one now; this also shows the effect of a request that failed
}

// isToRenew reports whether half of a lease is over since the mark was written.
func (a *attempt) isToRenew() bool {
	return pve.Elapsed(a.renewed, a.creator.jobs.Clock.Now()) > guest.Lease/2
}

// firstMark is the description for the first write. uuid is that of the VM, "" if PVE makes it.
func (a *attempt) firstMark(uuid string) string {
	a.mark.UUID, a.renewed = uuid, a.creator.jobs.Clock.Now()
	a.mark = a.creator.guests.Sign(a.mark)
	return a.mark.String()
}

// warn keeps the warnings of a task for the user.
func (a *attempt) warn(summary string, result pve.TaskResult) {
	if result.Warnings > 0 {
		a.warnings = append(a.warnings, guest.Warning{Summary: summary, Detail: strings.Join(append(result.Log, ""), "\n")})
	}
}

// pursuit is an attempt whose VM a third party may move.
type pursuit struct{ *attempt }

// following does a step on the node that the VM is on by then: HA or an administrator may move it at any time. Where
// there is no configuration PVE has done nothing, so the step is done again, and finds what it did before.
func (a pursuit) following(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := do(ctx)
		for range tries {
			if !guest.IsElsewhere(err) || !a.follow(ctx) {
				return err
			}
			err = do(ctx)
		}
		return err
	}
}

// follow looks for the VM on another node, and reports whether its mark proves it there. Its volumes there are those
// that its configuration names.
func (a pursuit) follow(ctx context.Context) bool {
	resources, err := a.creator.api.Cluster().Resources(ctx)
	now, there := resources.Guest(a.vmid)
	if err != nil || !there || now.Node == a.view.Node() {
		return false
	}
	was := a.view.Node()
	a.view.Moved(now.Node)
	a.made.Migrated(was, true) // it may rename local disks
	config, err := a.view.Fresh(ctx)
	if err != nil {
		a.view.Moved(was)
		return false
	}
	a.node, a.moved = now.Node, true
	known := func(b *guest.Baseline) bool { return b.Node == now.Node }
	if !slices.ContainsFunc(a.baselines, known) {
		b, err := a.creator.guests.BaselineOf(ctx, resources, now.Node, a.vmid, config.Current())
		if err != nil {
			return false
		}
		a.baselines = append(a.baselines, b)
	}
	return true
}

// persist repeats the commit of a VM that is in use while it may still succeed: where the API is away, others change
// the VM, or its node has no configuration of it. Before each further try the VM is looked for: HA takes it from a node
// that is off, and the listing may fail just when it has moved.
func (a pursuit) persist(ctx context.Context, commit func(context.Context) error) error {
	const away = 2 * time.Minute // of the API, as for a roll-back
	var last error
	lost, passes := false, request.Kinds(pve.Unavailable, pve.Ambiguous, pve.DigestMismatch)
	again := func(err error) bool { return passes(err) || guest.IsElsewhere(err) && !lost }
	return a.creator.jobs.Retry(ctx, request.Policy{Within: away, Again: again}, func(ctx context.Context) error {
		if last != nil && !a.follow(ctx) && guest.IsElsewhere(last) {
			lost = a.isLost(ctx)
		}
		last = commit(ctx)
		return last
	})
}

// isLost reports whether it is proved that the VM is gone, or that its id has another guest or another run's VM. No run
// takes one without a mark.
func (a pursuit) isLost(ctx context.Context) bool {
	at, seen, _ := a.creator.guests.Find(ctx, guest.Ref{VMID: a.vmid, Node: a.view.Node()}, nil)
	config := at.Config.Current()
	isOurs := a.mark.Proves(a.vmid, config) || a.owns(config) || a.alone && a.knows(config)
	return seen == guest.Gone || seen == guest.Found && !isOurs
}
