package create

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// A create that was killed is continued by the next create with its key, and by nothing else. No plan, no refresh and
// no other configuration touches its VM.

// unfinished is a guest that a create of this provider, or perhaps one of this identity, has not committed.
type unfinished struct {
	listed pve.Resource
	mark   ownership.Mark
	config map[string]string
	digest string
	// marked: mark is the create's. Without it a task is still making the guest, or died over it.
	marked bool
}

// readUnfinished reads a listed guest. One that a task of this identity is still making has no mark yet. The end of the
// task is awaited for a while, since it may be that of a run which was killed a moment ago. A task that has ended since
// the guest was read has left another configuration, so the guest is read once more.
func (c *Creator) readUnfinished(ctx context.Context, resources pve.Resources, listed pve.Resource) unfinished {
	const patience = 2 * time.Minute
	end := c.jobs.Clock.Now().Add(patience)
	last := false
	for attempt := 0; ; attempt++ {
		u := unfinished{listed: listed}
		var config pve.GuestConfig
		u.mark, config, u.marked = c.guests.Unfinished(ctx, resources, listed)
		u.config, u.digest = config.Values, config.Digest
		if !u.isHalfMade() || last || !c.jobs.Clock.Now().Before(end) {
			return u
		}
		last = !c.isMadeByUs(ctx, listed)
		if !last && c.jobs.Pause(ctx, attempt+1) != nil {
			return u
		}
	}
}

func (u unfinished) isHalfMade() bool {
	return u.config["lock"] == "create" || u.config["lock"] == "clone" || guest.IsRestoring(u.config)
}

// isMadeByUs reports whether a task of this identity, begun by no request of this process, may be making a guest. The
// task of a clone names its source only.
func (c *Creator) isMadeByUs(ctx context.Context, listed pve.Resource) bool {
	tasks, err := c.api.Tasks().List(ctx, listed.Node, pve.TaskFilter{RunningOnly: true})
	return err == nil && slices.ContainsFunc(tasks, func(t pve.Task) bool {
		typ := t.UPID.Type()
		makes := (typ == "qmcreate" || typ == "qmrestore") && t.UPID.ID() == fmt.Sprint(listed.VMID) || typ == "qmclone"
		return makes && t.UPID.User() == c.api.Identity().User && !c.jobs.IsKnown(t.UPID)
	})
}

// lifeOf is what is known of the run that made a mark. One of this process that is not under way here belongs to
// another instance of the provider.
func (c *Creator) lifeOf(mark ownership.Mark) guest.Life {
	life := c.guests.LifeOf(mark)
	if life == guest.Alive && mark.Process == c.guests.Process && !c.isActive(mark.Saga) {
		life = guest.Unsure
	}
	return life
}

// inherit looks for the VM that a run of this very create has left, and continues it: the attempt has its VM. Without
// one both results are nil, unless the VMID is another's. A VM of another key is named, never touched.
func (c *Creator) inherit(ctx context.Context, p plan, found findings) (*attempt, []guest.Warning, error) {
	var warnings []guest.Warning
	for _, listed := range candidates(found.resources, p) {
		if p.r.VMID == 0 && c.made(listed.VMID) {
			continue
		}
		if u, seen := c.finishedOf(listed.VMID); seen && p.r.VMID == 0 {
			warnings = append(warnings, c.lookalike(ctx, p, u)...)
			continue
		}
		u := c.readUnfinished(ctx, found.resources, listed)
		if u.config == nil && listed.Node != p.node { // the dead run has migrated it since it was listed
			listed.Node = p.node
			u = c.readUnfinished(ctx, found.resources, listed)
		}
		mine := u.marked && p.key != guest.NoKey && u.mark.Key == p.key && c.guests.IsGenuine(u.mark)
		switch {
		case mine:
			a, warning, err := c.continued(ctx, p, found, u)
			if a != nil || err != nil {
				return a, append(warnings, warning...), err
			}
			warnings = append(warnings, warning...)
		case p.r.VMID != 0:
			return nil, warnings, c.takenBy(ctx, u, p)
		default:
			warning, err := c.namesake(ctx, u, p)
			if warnings = append(warnings, warning...); err != nil {
				return nil, warnings, err
			}
		}
	}
	return nil, warnings, nil
}

// candidates are the listed guests that a run of this create may have left: the one with the configured VMID, or those
// with its name and those without any. The listing learns a name some 10 s late, and a run that was killed may start
// again sooner.
func candidates(resources pve.Resources, p plan) []pve.Resource {
	if p.r.VMID != 0 {
		if listed, ok := resources.Guest(p.r.VMID); ok {
			return []pve.Resource{listed}
		}
		return nil
	}
	found := resources.Unnamed()
	if name := p.name(); name != "" {
		found = append(found, resources.GuestsNamed(name)...)
	}
	return found
}

// name is that of the VM before its options are set; "" if it has none. PVE gives a clone without a name one of its own
// (qemu-server API2/Qemu.pm, clone_vm), and a restored VM has the archive's.
func (p plan) name() string {
	switch {
	case p.r.Spec.Name != nil:
		return *p.r.Spec.Name
	case p.r.Clone != nil:
		return "Copy-of-VM-" + cmp.Or(p.from.config["name"], strconv.Itoa(p.from.vmid))
	case p.r.Restore != nil:
		return p.from.config["name"]
	}
	return ""
}

// continued continues the VM that a run of this create has left, if that run is dead and everything shows that the VM
// is ours. It is nil where there is nothing to continue.
func (c *Creator) continued(ctx context.Context, p plan, found findings, u unfinished) (*attempt, []guest.Warning,
	error) {
	for tried := 0; ; tried++ {
		a, warnings, err := c.tryContinue(ctx, p, found, u)
		if !errors.Is(err, guard.ErrChanged) {
			return a, warnings, err
		}
		// Its run lives, another one continues it, or the task that was making it has ended meanwhile.
		again, err := c.relist(ctx, &found, u.listed.VMID)
		switch {
		case err != nil || again.config == nil: // it is gone
			return nil, nil, err
		case tried == tries || !again.marked || again.mark.Key != u.mark.Key:
			return nil, nil, ifConfigured(p.r, c.heldBy(again, "it changes while it is looked at"))
		}
		u = again
	}
}

// relist reads a guest again, wherever it is by now. A listing is up to ten seconds old.
func (c *Creator) relist(ctx context.Context, found *findings, vmid int) (unfinished, error) {
	const lag = 10 * time.Second
	if err := c.jobs.Clock.Sleep(ctx, lag); err != nil {
		return unfinished{}, err
	}
	resources, err := c.api.Cluster().Resources(ctx)
	if err != nil {
		return unfinished{}, fmt.Errorf("list the cluster's guests: %w", err)
	}
	found.resources = resources
	listed, ok := resources.Guest(vmid)
	if !ok {
		return unfinished{}, nil
	}
	return c.readUnfinished(ctx, resources, listed), nil
}

func (c *Creator) tryContinue(ctx context.Context, p plan, found findings, u unfinished) (*attempt, []guest.Warning,
	error) {
	if c.isActive(u.mark.Saga) { // of another resource with an equal configuration
		return nil, nil, ifConfigured(p.r, c.heldBy(u, "this very run is making it"))
	}
	if u.mark.Kept {
		return c.untouched(p.r, u, "on_failure = \"keep\" keeps it")
	}
	life := c.lifeOf(u.mark)
	if life == guest.Alive {
		return nil, nil, ifConfigured(p.r, c.heldBy(u, "its process is at work on this host"))
	}
	v := c.guests.Judge(ctx, found.resources, u.listed.Node, u.mark, u.config)
	if v.Owner != ownership.Ours {
		return c.untouched(p.r, u, v.Reason)
	}
	switch seen, err := c.guests.Watch(ctx, u.listed, u.mark, life); {
	case pve.IsKind(err, pve.NotFound):
		return nil, nil, guard.Changed(u.listed.VMID, u.listed.Node)
	case err != nil:
		return c.untouched(p.r, u, fmt.Sprintf("whether its run lives cannot be told: %v", err))
	case seen != guest.Dead:
		return nil, nil, ifConfigured(p.r, c.heldBy(u, "its run has shown that it lives"))
	}
	// A task that was at work may have ended since, and a third party may have come.
	if v.Maker.Running && (v.Maker.Type != "qmclone" || u.config["lock"] != "") {
		_, _ = c.api.Tasks().Wait(ctx, pve.UPID(v.Maker.UPID)) // how it ended is asked next
	}
	mark := u.mark
	if u = c.readUnfinished(ctx, found.resources, u.listed); !u.marked || u.mark != mark {
		return nil, nil, errors.Join(guard.Changed(u.listed.VMID, u.listed.Node), c.jobs.Pause(ctx, 1))
	}
	if v = c.guests.Judge(ctx, found.resources, u.listed.Node, u.mark, u.config); v.Owner != ownership.Ours {
		return c.untouched(p.r, u, v.Reason)
	}
	dead := guard.Unowned{Listed: u.listed, Resources: found.resources, Config: u.config, Digest: u.digest, Mark: u.mark,
		Gone: c.lifeOf(u.mark) == guest.Dead}
	if u.isHeldByOthers() { // which says nothing of how far the create came
		return nil, nil, awaitLock(ctx, c, p.r, u)
	}
	if why := whyNotOurs(ctx, c, p, u, v); why != "" {
		return c.untouched(p.r, u, why)
	}
	return complete(ctx, c, p, found, u, v, dead)
}

// complete goes on with a dead run's VM that is ours, or removes it where it is not whole.
func complete(ctx context.Context, c *Creator, p plan, found findings, u unfinished, v ownership.Verdict,
	dead guard.Unowned) (*attempt, []guest.Warning, error) {
	if !v.Whole || u.config["lock"] != "" {
		return nil, nil, c.removeDead(ctx, p.r, dead)
	}
	switch why, err := c.whyNotCompleted(ctx, p, dead, v.Remade); {
	case err != nil:
		return nil, nil, err
	case why != "":
		return c.untouched(p.r, u, why)
	}
	switch lacks := p.notCopied(u); {
	case len(lacks) > 0 && v.Started():
		return c.untouched(p.r, u, fmt.Sprintf("it lacks disks that its source has (%s), and it was started all the same: "+
			"a user may work with it", strings.Join(lacks, ", ")))
	case len(lacks) > 0:
		return nil, nil, c.removeDead(ctx, p.r, dead)
	}
	a, err := c.takeOver(ctx, p, found, dead, v.Started())
	return a, nil, err
}

// notCopied are the slots of a clone's source that a dead run's VM has no disk in, where no task is known to have
// copied all: PVE writes each disk into the copy when it has made it (qemu-server API2/Qemu.pm, clone_vm). A slot that
// is to hold another guest's disk may just be between the two.
func (p plan) notCopied(u unfinished) []string {
	if p.r.Clone == nil || u.mark.Task != "" {
		return nil
	}
	wanted := vm.Encode(p.spec)
	return slices.DeleteFunc(vm.Slots(p.filledAtFirst()), func(slot string) bool {
		return u.config[slot] != "" || borrows(wanted[slot], u.listed.VMID)
	})
}

// worksWith is why the configuration of an uncommitted VM shows that a user works with it, "" where nothing shows that.
// made is known to the run that makes the VM.
func worksWith(p plan, config map[string]string, made *destroy.Made) string {
	if config["lock"] == request.Suspended {
		return "it is suspended to disk, as no create leaves a VM: a user works with it"
	}
	if config["template"] == "1" && (p.r.Spec.Template == nil || !*p.r.Spec.Template) {
		return "it is a template, and this create makes none: a user works with it"
	}
	if slot, size := grownSince(p, config, made); slot != "" {
		return fmt.Sprintf("its disk %s has %s by now, more than this create gives it: a user works with it", slot,
			property.FormatSize(size))
	}
	return ""
}

// grownSince is a disk of an uncommitted VM that is larger than the create makes it, and its size in bytes; "":
// none. An import has the size of its image, which may be larger: PVE then refuses to shrink the disk. A copy has
// the size of its source's volume, which may have grown without the source's configuration (qemu-server
// QemuServer.pm clone_disk). Storages round up, LVM to whole extents of its volume group, which may be large (pve-
// storage LVMPlugin.pm alloc_image). PVE's interface counts growth in GiB (pve-manager
// www/manager6/qemu/HDResize.js), so less shows no user.
func grownSince(p plan, config map[string]string, made *destroy.Made) (slot string, size int64) {
	const least = 1 << 30
	var copies, today vm.Spec
	if p.from != nil {
		copies, today = vm.Decode(p.copied()), vm.Decode(p.from.config)
	}
	has := vm.Decode(config).Disks
	for _, slot := range slices.Sorted(maps.Keys(has)) {
		is, want := has[slot].Bytes(), p.spec.Disks[slot]
		copied, known := p.copiedSize(copies.Disks, today.Disks, slot)
		largest := max(want.Bytes(), copied)
		if made != nil && (want.ImportFrom != nil || copied > 0) {
			largest = max(largest, made.FirstSize(slot))
		}
		if known && largest > 0 && is-largest >= least {
			return slot, is
		}
	}
	return "", 0
}

// copiedSize is the size of the source's disk in a slot, in bytes; 0: it has none. copies are the disks that are
// copied, and today those that the source has. PVE makes the copy of a snapshot as large as the volume is today
// (qemu-server QemuServer.pm clone_disk, volume_size_info). That is not known where the volume is in no slot of the
// source any more.
func (p plan) copiedSize(copies, today map[string]vm.Disk, slot string) (size int64, known bool) {
	disk, copied := copies[slot]
	size, known = disk.Bytes(), !copied || p.from.snapshot == nil
	for _, now := range today {
		if copied && volid.Same(now.Volume, disk.Volume) {
			size, known = max(size, now.Bytes()), true
		}
	}
	return size, known
}
