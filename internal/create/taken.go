package create

import (
	"cmp"
	"context"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// ifConfigured returns an error about the guest under the configured VMID. Under an automatic one the create takes
// another.
func ifConfigured(r Request, err error) error {
	if r.VMID == 0 {
		return nil
	}
	return err
}

// waysOut tells what a user can do with a VM that no create continues.
func (u unfinished) waysOut() string {
	return fmt.Sprintf("`terraform import ADDRESS %d` takes it over as it is. The action proxmox_orphan_delete (kind "+
		"expired_create, id %d) removes it if nothing shows that a user needs it", u.listed.VMID, u.listed.VMID)
}

// heldBy is the error for a configured VMID whose VM a run of this very create holds.
func (c *Creator) heldBy(u unfinished, seen string) error {
	return &guest.FieldError{Path: "vmid",
		Summary: fmt.Sprintf("VM %d is being created by another run", u.listed.VMID),
		Detail: fmt.Sprintf("Transaction %s of this provider holds VM %d on node %s: %s. Wait for it, or choose another "+
			"vmid", u.mark.Saga, u.listed.VMID, u.listed.Node, seen)}
}

// named is the VM in a sentence, with the name that its configuration has by now.
func (u unfinished) named() string {
	u.listed.Name = u.config["name"]
	return guest.Named(u.listed)
}

// untouched says why a VM with the mark of this very create is not continued: an error for a configured VMID, a warning
// where another one is taken.
func (c *Creator) untouched(r Request, u unfinished, why string) (*attempt, []guest.Warning, error) {
	summary := fmt.Sprintf("%s on node %s was not touched", u.named(), u.listed.Node)
	detail := fmt.Sprintf("Its description is the mark of a run of this create (transaction %s), but %s. %s", u.mark.Saga,
		why, u.waysOut())
	if r.VMID != 0 {
		return nil, nil, &guest.FieldError{Path: "vmid", Summary: summary, Detail: detail}
	}
	return nil, []guest.Warning{{Summary: summary, Detail: detail}}, nil
}

// namesake judges a guest that may have the wanted name under another VMID. A name may be used twice, so it only
// matters if a run of this provider has left it.
func (c *Creator) namesake(ctx context.Context, u unfinished, p plan) ([]guest.Warning, error) {
	r := p.r
	if u.config == nil && u.listed.Type == "qemu" {
		return c.unread(ctx, u), nil
	}
	c.noteFinished(u)
	if !u.marked && u.isHalfMade() && c.isMadeByUs(ctx, u.listed) {
		return []guest.Warning{{Summary: fmt.Sprintf("VM %d is being made by another run", u.listed.VMID),
			Detail: fmt.Sprintf("A task that user %s began before, and not this run, is still making a VM on node %s, maybe "+
				"VM %d. Should it belong to a run of this configuration that was killed, proxmox_orphans lists the VM",
				c.api.Identity().User, u.listed.Node, u.listed.VMID)}}, nil
	}
	if !u.marked {
		return c.lookalike(ctx, p, u), nil
	}
	if r.Spec.Name == nil || u.config["name"] != *r.Spec.Name || u.mark.Kept ||
		c.lifeOf(u.mark) == guest.Alive {
		return nil, nil
	}
	summary := fmt.Sprintf("%s on node %s was not finished", u.named(), u.listed.Node)
	if c.guests.IsGenuine(u.mark) && c.lifeOf(u.mark) == guest.Dead {
		return nil, &guest.FieldError{Path: "name", Summary: summary,
			Detail: fmt.Sprintf("A run of this provider that is over (transaction %s) was making it from another "+
				"configuration, so this create does not continue it. No VM was made. %s", u.mark.Saga, u.waysOut())}
	}
	return []guest.Warning{{Summary: summary,
		Detail: fmt.Sprintf("It bears the mark of a create of this provider (transaction %s) that is not this one, and was "+
			"not touched. If no run is at work on it: %s", u.mark.Saga, u.waysOut())}}, nil
}

// unread is the warning about a guest that may be what a killed run of this create has left, and cannot be read.
func (c *Creator) unread(ctx context.Context, u unfinished) []guest.Warning {
	_, err := c.api.QEMU(u.listed.Node, u.listed.VMID).Config(ctx)
	if err == nil || pve.IsKind(err, pve.NotFound) {
		return nil
	}
	return []guest.Warning{{Summary: fmt.Sprintf("%s on node %s could not be looked at", guest.Named(u.listed),
		u.listed.Node),
		Detail: fmt.Sprintf("Whether a run of this create that was killed has left it cannot be told, so this create makes "+
			"another VM: %v", err)}}
}

// keptID is the advice for a replacement that meets the VM it replaces.
const keptID = "A VM that is replaced with create_before_destroy cannot keep its id: leave vmid out, or the setting"

// takenBy is the error for a configured VMID whose guest no run of this create has made.
func (c *Creator) takenBy(ctx context.Context, u unfinished, p plan) error {
	listed := u.listed
	if u.marked {
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VMID %d is taken by a VM that was not finished",
			listed.VMID),
			Detail: fmt.Sprintf("%s on node %s bears the mark of another create of this provider (transaction %s, by "+
				"%s), and was not touched. If no run is at work on it: %s", u.named(), listed.Node,
				u.mark.Saga, u.mark.User, u.waysOut())}
	}
	if why := c.mayBeLost(ctx, p, u); why != "" {
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VMID %d is taken", listed.VMID),
			Detail: fmt.Sprintf("%s on node %s has this id; it was not touched. %s. If no state has it, "+
				"`terraform import ADDRESS %d` takes it over, where ADDRESS is that of this resource. Otherwise choose another "+
				"vmid. %s%s",
				guest.Named(listed), listed.Node, why, listed.VMID, keptID, withoutAdopted(p.r.Adopts))}
	}
	if !u.isHalfMade() && listed.Lock != "create" && listed.Lock != "clone" {
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VMID %d is taken", listed.VMID),
			Detail: fmt.Sprintf("%s on node %s has this id; it was not touched. %s. %s%s",
				guest.Named(listed), listed.Node, guest.OtherThan(listed), keptID, withoutAdopted(p.r.Adopts))}
	}
	lock, next := cmp.Or(u.config["lock"], listed.Lock), "Choose another vmid"
	looks := "locked (" + lock + ")"
	if lock == "" {
		looks = "empty, as one is that is made of a backup"
	}
	if listed.Type == "qemu" {
		next = c.guests.OnHalfMade(ctx, listed.Node, listed.VMID, lock)
	}
	return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VMID %d is taken by a half-made VM", listed.VMID),
		Detail: fmt.Sprintf("%s %d on node %s is %s: a task is making it, or died over it. "+
			"It bears no mark of this provider and was not touched. %s",
			guest.KindName(listed.Type), listed.VMID, listed.Node, looks, next)}
}

// A run that is killed after its commit and before Terraform writes its state leaves a VM that bears no mark. Nothing
// on the server tells it from a VM in another state, so it is named and never taken (docs/design/create.md).

// finishedOf is what this process has seen of a VM that bears no mark.
func (c *Creator) finishedOf(vmid int) (unfinished, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, seen := c.finished[vmid]
	return u, seen
}

// noteFinished notes a VM that bears no mark.
func (c *Creator) noteFinished(u unfinished) {
	if u.marked || u.config == nil || u.isHalfMade() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished[u.listed.VMID] = u
}

// isMade reports whether a VM has everything that this create would give it. A password does not show.
func (p plan) isMade(config map[string]string) bool {
	has := vm.Decode(config)
	if p.r.Spec.Name == nil && p.from == nil && has.Name != nil {
		return false
	}
	want := vm.Merge(has, p.spec)
	vm.Complete(&want)
	change := vm.Diff(has, want)
	delete(change.Set, "cipassword")
	return change.Empty()
}

// mayBeLost says of a finished VM that a killed run of this very create may have left it, "" if nothing shows that.
func (c *Creator) mayBeLost(ctx context.Context, p plan, u unfinished) string {
	if u.marked || u.listed.Type != "qemu" || u.config == nil || ownership.IsMark(u.config["description"]) ||
		c.made(u.listed.VMID) || !p.isMade(u.config) {
		return ""
	}
	node, mark := p.node, p.howMade(ownership.Mark{VMID: u.listed.VMID})
	if mark.By == "qmclone" {
		node = p.from.node
	}
	task, may := c.guests.MayBeLost(ctx, node, mark)
	if !may {
		return ""
	}
	return fmt.Sprintf("It is equal to the VM of this create. %s made it less than an hour ago (%s), and a run that was "+
		"killed may have left it", task.User, task.UPID)
}

// hasUselessMark reports whether a VM has the mark of its own create, and that cannot be judged. A copy of another VM's
// mark is none.
func (u unfinished) hasUselessMark() bool {
	mark, whole := ownership.Parse(u.config["description"])
	return !u.marked && ownership.IsMark(u.config["description"]) && (!whole || mark.VMID == u.listed.VMID)
}

// lookalike is the warning about a finished VM that a killed run of this very create may have left. It is no error: a
// second resource of equal configuration and a replacement with create_before_destroy look the same. Disks are more
// alike than VMs: without a name of their own, all of one size are equal, and one that a guest has is no lost one.
func (c *Creator) lookalike(ctx context.Context, p plan, u unfinished) []guest.Warning {
	if u.hasUselessMark() && u.config["name"] == p.name() {
		return []guest.Warning{{Summary: fmt.Sprintf("%s on node %s may be what a killed run has left", guest.Named(u.listed),
			u.listed.Node),
			Detail: fmt.Sprintf("Its description begins like the mark of a create of this provider, but proves nothing: it was "+
				"edited, another release wrote it, or the cluster had other nodes then. The VM was not touched, and this create "+
				"made another one. If no state has it, `terraform import ADDRESS %d` takes it into one, where ADDRESS is that of "+
				"a resource for it", u.listed.VMID)}}
	}
	why := c.mayBeLost(ctx, p, u)
	if why == "" {
		return nil
	}
	next := ", or remove it"
	if held := vm.HeldVolume(u.listed.VMID, u.config); held != "" { // with the data of another configuration, maybe
		if u.config["name"] == vm.HolderName {
			return nil
		}
		users, err := c.destroyer.UsersOf(ctx, u.listed.Node, u.listed.VMID, held)
		if err == nil && len(users) > 0 {
			return nil
		}
		next = " takes it over"
	}
	return []guest.Warning{{Summary: fmt.Sprintf("%s on node %s may be this one", guest.Named(u.listed),
		u.listed.Node),
		Detail: fmt.Sprintf("%s. If no state has it, `terraform import ADDRESS %d`%s", why, u.listed.VMID, next)}}
}
