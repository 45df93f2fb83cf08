package create

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// A VM under a wanted VMID or name that lacks only its commit is what the configuration wants. It is offered for
// import, which costs nothing, instead of being destroyed and made again.

// lacksCommit reports whether the VM that a dead create left is, as far as an update would look, the one that this
// create is to make. The content of its disks is not compared. Volumes to adopt are attached after the commit, so they
// are missing.
func (c *Creator) lacksCommit(ctx context.Context, r Request, u unfinished) bool {
	has := vm.Decode(u.config)
	want := vm.Merge(has, r.Spec)
	want.Description, want.Protection, want.Template = has.Description, has.Protection, r.Spec.Template
	want.CloudInit.PasswordHash = nil // PVE does not show it
	vm.Complete(&want)
	node := r.Node == "" && len(r.Nodes) == 0 || r.Node == u.listed.Node || slices.Contains(r.Nodes, u.listed.Node)
	sameKind := len(r.Adopts) == 0 && r.Pool == u.listed.Pool && (r.Restore != nil) != u.mark.Restore.IsZero()
	if u.config["lock"] != "" || holdsDisk(r) || !node || !sameKind || !vm.Diff(has, want).Empty() {
		return false
	}
	isTemplate := r.Spec.Template != nil && *r.Spec.Template
	if r.Start && !isTemplate {
		status, err := c.api.QEMU(u.listed.Node, u.listed.VMID).Status(ctx)
		if err != nil || !status.IsRunning() {
			return false
		}
	} else if r.Firewall != nil && !isTemplate { // what comes after it shows that it is set
		return false
	}
	if r.HA == nil {
		return true
	}
	entry, err := c.guests.ReadHA(ctx, u.listed.VMID)
	return err == nil && entry != nil
}

// holdsDisk reports whether the VM is to hold a disk for others. Its description identifies it, and it gets that with
// the commit: before that no import takes it.
func holdsDisk(r Request) bool {
	if r.Spec.Description == nil {
		return false
	}
	_, holds := vm.HolderText(*r.Spec.Description)
	return holds
}

// offer tells how to import a VM that lacks nothing but its commit.
func offer(u unfinished, path string) error {
	return &guest.FieldError{Path: path,
		Summary: fmt.Sprintf("VM %d (%s) is complete but for its last request", u.listed.VMID, u.config["name"]),
		Detail: fmt.Sprintf("A run of this provider that is over (transaction %s) has made it on node %s, as this "+
			"configuration wants it, and has only not put its description right, or its protection. Take it over with "+
			"`terraform import ADDRESS %d`, or with an import block, and apply: that finishes it. If it is not to stay, `%s` "+
			"as root on the node removes it, and the next apply makes another",
			u.mark.Saga, u.listed.Node, u.listed.VMID, u.destruction())}
}

// destruction is the command that removes an unlocked VM. A clone has its template's protection until its commit.
func (u unfinished) destruction() string {
	command := shell.VM("qm stop {vmid}; qm destroy {vmid} --purge", u.listed.VMID)
	if u.config["protection"] == "1" {
		command = shell.VM("qm set {vmid} --protection 0; ", u.listed.VMID) + command
	}
	return command
}

// removal is the command that removes what a run left, as long as it bears the run's mark.
func (u unfinished) removal() string {
	command := shell.And(shell.IfMarked(u.mark.Saga, u.listed.Node, u.listed.VMID),
		shell.VM("(qm unlock {vmid}; ", u.listed.VMID)+u.destruction()+")")
	return shell.Or(command, "a command that you write yourself") + " as root on the node"
}

// takenBy is the error for a VMID whose guest has no mark.
func (c *Creator) takenBy(ctx context.Context, u unfinished, adopts []Adopted) error {
	listed := u.listed
	if !u.isHalfMade() && listed.Lock != "create" && listed.Lock != "clone" {
		return &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VMID %d is taken", listed.VMID),
			Detail: fmt.Sprintf("%s on node %s has this id; it was not touched. %s. A VM that is replaced with "+
				"create_before_destroy cannot keep its id: leave vmid out, or the setting%s",
				guest.Named(listed), listed.Node, guest.OtherThan(listed), withoutAdopted(adopts))}
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

// heldBy is the error for a VMID of a create that lives, or may live, or that was told to keep what it left.
func (c *Creator) heldBy(u unfinished, v guest.Verdict, err error) error {
	listed := u.listed
	held := fmt.Sprintf("Transaction %s of this provider holds VM %d (%s) on node %s: %s. ", u.mark.Saga, listed.VMID,
		listed.Name, listed.Node,
		v.Seen)
	command := u.removal()
	summary := fmt.Sprintf("VM %d is being created by another run", listed.VMID)
	switch {
	case v.Kept:
		summary = fmt.Sprintf("VM %d is kept as a create left it", listed.VMID)
		held += "It goes with the resource in whose state it is. If there is none any more, " + command + " removes it"
	case c.guests.LifeOf(u.mark) == guest.Alive:
		held += "Wait for it, or choose another vmid"
	case err == nil && !v.Until.IsZero():
		held += fmt.Sprintf("It counts as dead at %s, unless more is seen of it, and then this create removes what it left. "+
			"If you know that it is dead, %s does the same", v.Until.Format(time.RFC3339), command)
	default:
		held += "Whether it lives cannot be told. If you know that it is dead, " + command + " removes what it left"
	}
	return &guest.FieldError{Path: "vmid", Summary: summary, Detail: held, Err: err}
}

// completeError is a VM that has the mark of a dead create but may be complete.
type completeError struct {
	vmid            int
	name, node, why string
}

func (c *completeError) summary() string {
	return fmt.Sprintf("VM %d (%s) on node %s was not touched", c.vmid, c.name, c.node)
}

func (c *completeError) detail() string {
	return fmt.Sprintf("Its description is the mark of a create that died, but it may be complete: %s. A restored "+
		"backup and a copied description bear such a mark too. Write another description if it is to stay (`qm set %d "+
		"--description …`), or remove the VM yourself", c.why, c.vmid)
}

// Error is what the configured id is refused with.
func (c *completeError) Error() string { return c.summary() + ": " + c.detail() }
