package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Wanted is a snapshot to be taken.
type Wanted struct {
	VMID int
	UUID string // that the VM must have, in any letters; "" for any

	Name, Description string
	// Memory is to be saved too; the guest has to run.
	Memory bool
}

// undoTimeout bounds the undo of a snapshot. Removing half a terabyte in qcow2 takes minutes.
const undoTimeout = 15 * time.Minute

// taking is one snapshot that is being taken.
type taking struct {
	*Snapshots
	want  Wanted
	mark  mark
	tasks request.Tasks
	node  string
	vm    guest.Identity
	lost  *request.Lost
	taken Snapshot
	// sent: the request may have been carried out. isHeld: what it has left is half made, and holds a lock.
	sent, isHeld bool
	// memoryBefore are volumes with memory under this name that were there before.
	memoryBefore []string
	kept         []guard.KeptSnapshot // by a forced removal
}

// Take takes a snapshot. A failed step is a *saga.Error, which names the leftovers.
func (s *Snapshots) Take(ctx context.Context, want Wanted) (Snapshot, error) {
	t := &taking{Snapshots: s, want: want, mark: newMark(want.VMID)}
	err := saga.Run(ctx, undoTimeout,
		saga.Step{Name: fmt.Sprintf("look at VM %d", want.VMID), Do: t.look},
		saga.Step{Name: fmt.Sprintf("take snapshot %s of VM %d", want.Name, want.VMID), Do: t.take, Undo: t.undo},
		saga.Step{Name: fmt.Sprintf("read snapshot %s of VM %d", want.Name, want.VMID), Do: t.read},
		saga.Step{Name: fmt.Sprintf("describe snapshot %s of VM %d", want.Name, want.VMID), Do: t.commit})
	return t.taken, err
}

// look finds the VM, waits until no lock is on it, and refuses what PVE would refuse in the task.
func (t *taking) look(ctx context.Context) error {
	resources, err := t.api.Cluster().Resources(ctx)
	if err != nil {
		return fmt.Errorf("list the cluster's guests: %w", err)
	}
	listed, ok := resources.Guest(t.want.VMID)
	if ok && listed.Type != "qemu" {
		return field("vmid", fmt.Sprintf("%d is a container on node %s", t.want.VMID, listed.Node))
	}
	if !ok {
		return field("vmid", fmt.Sprintf("There is no VM %d, or this identity may not see it (VM.Audit)", t.want.VMID))
	}
	at, err := t.guests.FindUnlocked(ctx, guest.Ref{VMID: t.want.VMID, Node: listed.Node})
	if err != nil {
		return err
	}
	if err := t.isFit(at); err != nil {
		return err
	}
	if err := t.lookAtName(ctx); err != nil || !t.want.Memory {
		return err
	}
	if err := t.runs(ctx); err != nil {
		return err
	}
	t.memoryBefore, err = t.memory(ctx)
	return err
}

// isFit is an error for another VM than the wanted one, and for one of which no snapshot can be taken.
func (t *taking) isFit(at guest.Location) error {
	t.node, t.vm = at.Node, guest.IdentityOf(at.Config.Current())
	if t.want.UUID != "" && !strings.EqualFold(t.want.UUID, t.vm.UUID) {
		return &guest.FieldError{Path: "uuid",
			Summary: fmt.Sprintf("VM %d on node %s is another VM: it has %s", t.want.VMID, t.node, t.vm),
			Detail: fmt.Sprintf("The snapshot is to be of the VM with the uuid %s. No snapshot was taken. If the VM was "+
				"replaced since the plan, plan and apply again; else correct vmid or uuid", t.want.UUID)}
	}
	if why := refuse(at.Config.Current()); why != "" {
		return field("vmid", fmt.Sprintf("VM %d on node %s %s", t.want.VMID, t.node, why))
	}
	return nil
}

// runs refuses to save the memory of a guest that is off: PVE would leave it out without a word (AbstractConfig.pm
// __snapshot_prepare).
func (t *taking) runs(ctx context.Context) error {
	status, err := t.api.QEMU(t.node, t.want.VMID).Status(ctx)
	if err == nil && !status.IsRunning() {
		err = t.hasNoMemory("does not run")
	}
	return err
}

func (t *taking) hasNoMemory(why string) error {
	return field("vmstate", fmt.Sprintf("VM %d on node %s %s, so it has no memory to save. Start it, or leave vmstate out",
		t.want.VMID, t.node, why))
}

// Until is what a run does to a VM before a snapshot of it is taken.
type Until struct {
	Another bool // it is made, replaced or removed: nothing of now tells of it
	Changed bool // in place; only then the other two mean something
	// Disks may be others by then.
	Disks bool
	// Status of the guest by then, "" if that is not known.
	Status string
}

// Foresee is why a snapshot that replaces one in state cannot be taken, nil for none: the old one is removed first, and
// none would be left. A look that fails refuses nothing, and of a VM that changes in place only that is looked at which
// stays.
func (s *Snapshots) Foresee(ctx context.Context, want Wanted, old Ref, until Until) (refused *guest.FieldError) {
	t := &taking{Snapshots: s, want: want, mark: newMark(want.VMID)}
	if !errors.As(t.foresee(ctx, old, until), &refused) {
		return nil
	}
	if refused.Detail != "" {
		refused.Detail += ". "
	}
	refused.Detail += "Nothing was touched. The change removes the old snapshot and then takes a new one, which would " +
		"be refused for this reason: none would be left"
	if refused.Path == "uuid" {
		refused.Detail += ". To take it of this VM all the same, correct vmid or uuid"
	}
	return refused
}

// ForeseeFirst is why no snapshot of a VM can be taken that none is replaced by, nil for none: a disk of it takes none.
// A VM that is not there may be made first, and the create tells of a template and of a look that fails.
func (s *Snapshots) ForeseeFirst(ctx context.Context, vmid int) *guest.FieldError {
	listed, ok, err := s.api.Listing().Guest(ctx, vmid)
	if err != nil || !ok || listed.Template {
		return nil //nolint:nilerr // who cannot look does not judge
	}
	t := &taking{Snapshots: s, want: Wanted{VMID: vmid}, node: listed.Node}
	var refused *guest.FieldError
	errors.As(t.hasFeature(ctx), &refused)
	return refused
}

// foresee looks as a create does, without a wait. A VM that is not there may be made first.
func (t *taking) foresee(ctx context.Context, old Ref, until Until) error {
	listed, ok, err := t.api.Listing().Guest(ctx, t.want.VMID)
	if err != nil || !ok {
		return err
	}
	if t.node = listed.Node; !until.Changed {
		var at guest.Location
		if at, _, err = t.guests.Find(ctx, guest.Ref{VMID: t.want.VMID, Node: listed.Node}, nil); err == nil {
			if err = t.isFit(at); err == nil {
				err = t.isNewEnough(ctx, vm.Decode(at.Config.Current()))
			}
		}
	}
	if err == nil && (t.want.VMID != old.VM.VMID || t.want.Name != old.Name) {
		err = t.foreseeName(ctx)
	}
	switch {
	case err != nil || !t.want.Memory:
	case !until.Changed:
		err = t.runs(ctx)
	case until.Status == string(guest.Stopped):
		err = t.hasNoMemory("will not run by then")
	}
	if err == nil && !until.Disks {
		err = t.hasFeature(ctx)
	}
	return err
}

// hasFeature refuses a snapshot of a VM with a disk on a storage without snapshots (AbstractConfig.pm
// __snapshot_prepare).
func (t *taking) hasFeature(ctx context.Context) error {
	has, err := t.api.QEMU(t.node, t.want.VMID).CanBeSnapshot(ctx)
	if err == nil && !has {
		err = &guest.FieldError{Path: "vmid", Summary: fmt.Sprintf("VM %d on node %s takes no snapshot", t.want.VMID, t.node),
			Detail: "It has a disk on a storage that takes no snapshots, or of a format without them: in a directory and on " +
				"NFS a disk has to be qcow2. Move the disk to such a storage or format in an apply of its own, or leave this " +
				"snapshot out"}
	}
	return err
}

// refuse is why no snapshot can be taken of a VM, as its configuration tells.
func refuse(config map[string]string) string {
	if config["template"] == "1" {
		return "is a template, of which there are no snapshots"
	}
	if ownership.IsMark(config["description"]) {
		return "is being made, or was left half made"
	}
	return ""
}

// take sends the request. During a wait for a lock the VMID may get another VM, so each try first proves which VM has
// it.
func (t *taking) take(ctx context.Context) error {
	params := pve.Params{"snapname": t.want.Name, "description": string(t.mark)}
	if t.want.Memory {
		params["vmstate"] = "1"
	}
	isSame := func(ctx context.Context) error {
		config, err := t.api.QEMU(t.node, t.want.VMID).Config(ctx)
		if err == nil {
			err = t.isSame(config)
		}
		return err
	}
	err := t.jobs.Contend(ctx, t.node, t.want.VMID, func(ctx context.Context) error {
		var upid pve.UPID
		try := guest.SoonAfter(t.jobs.Clock, isSame, func(ctx context.Context) (err error) {
			upid, err = t.api.QEMU(t.node, t.want.VMID).TakeSnapshot(ctx, params)
			t.sent = t.sent || !errors.Is(err, guest.ErrLate)
			return err
		})
		sent := request.Request{Node: t.node, Type: "qmsnapshot", ID: t.want.VMID,
			Send: func(ctx context.Context) (pve.UPID, error) { upid = ""; err := try(ctx); return upid, err }}
		since := t.jobs.Clock.Now()
		_, err := t.jobs.Once(ctx, &t.tasks, sent)
		if t.sent && len(t.tasks.UPIDs) == 0 && pve.IsKind(err, pve.Ambiguous) {
			t.lost = &request.Lost{Request: sent, Since: since, Patience: request.Patience(err)}
		}
		return err
	})
	var taken *guest.FieldError
	if pve.IsKind(err, pve.Unsupported) && errors.As(t.hasFeature(ctx), &taken) {
		return taken
	}
	if pve.IsKind(err, pve.Exists) && errors.As(t.lookAtName(ctx), &taken) {
		// It was taken since the look, as by the task of a run that was killed. Ours made nothing, and memory of that name
		// is the other's (pve-guest-common AbstractConfig.pm __snapshot_prepare).
		t.sent = false
		return taken
	}
	if pve.IsKind(err, pve.Exists) {
		return fmt.Errorf("%w. VM %d has no snapshot %s: one of its volumes has kept a snapshot of that name, which a VM "+
			"that was replaced has left, or another program has taken. Take another name, or remove that snapshot of the "+
			"volume. The volume itself has data, and is no leftover", err, t.want.VMID, t.want.Name)
	}
	return err
}

// isSame is an error if the VMID has another VM than before.
func (t *taking) isSame(config pve.GuestConfig) error {
	return guest.Guard(guest.Ref{VMID: t.want.VMID, Node: t.node, Identity: t.vm}, t.node, config.Values)
}

// read finds the snapshot that was taken, by its mark. The commit proves which VM has it before it writes.
func (t *taking) read(ctx context.Context) error {
	found, err := t.ours(ctx)
	switch {
	case err != nil:
		return err
	case found == nil:
		return fmt.Errorf("the task has ended well, but VM %d on node %s has no such snapshot of ours", t.want.VMID, t.node)
	case t.want.Memory && !found.Memory:
		return field("vmstate", fmt.Sprintf("The guest of VM %d on node %s stopped before its memory was saved", t.want.VMID,
			t.node))
	}
	t.taken = Snapshot{Snapshot: *found, VMID: t.want.VMID, Node: t.node, VM: t.vm}
	return nil
}

// ours is the snapshot that bears our mark, or already the description that the commit gave it; nil for none.
func (t *taking) ours(ctx context.Context) (*pve.Snapshot, error) {
	all, err := t.api.QEMU(t.node, t.want.VMID).Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	for _, found := range all {
		if found.Name == t.want.Name && (t.mark.isOn(found.Description) || found.Taken == t.taken.Taken) {
			return &found, nil
		}
	}
	return nil, nil
}

// commit replaces the mark by the wanted description.
func (t *taking) commit(ctx context.Context) error {
	ref := Ref{VM: guest.Ref{VMID: t.want.VMID, Node: t.node, Identity: t.vm}, Name: t.want.Name, Taken: t.taken.Taken}
	err := t.describe(ctx, ref, t.node, t.want.Description, nil)
	if err == nil {
		t.taken.Description = t.want.Description
	}
	return err
}

func field(at, text string) error { return &guest.FieldError{Path: at, Summary: text} }

// claim is the claim on a snapshot with our mark, whatever VM has the VMID.
func (t *taking) claim() guard.SnapshotClaim {
	return guard.SnapshotClaim{Node: t.node, VMID: t.want.VMID, Name: t.want.Name, Tasks: &t.tasks, Dead: true,
		Guest: func(pve.GuestConfig) error { return nil },
		Owns: func(options map[string]string) error {
			if !t.mark.isOn(options["description"]) && options["snaptime"] != fmt.Sprint(t.taken.Taken) {
				return fmt.Errorf("%w: another one has its name", guard.ErrNoSnapshot)
			}
			return nil
		}}
}

var errStays = errors.New("several attempts did not remove it")
