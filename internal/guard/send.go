package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// This file sends the destructive requests, each with evidence that permits it.

// ErrNoEvidence is a mistake in this program; nothing was sent.
var ErrNoEvidence = errors.New("there is no evidence that this may be destroyed; nothing was sent")

// RemoveVM destroys a VM with the volumes that its configuration names.
func (g *Guard) RemoveVM(ctx context.Context, tasks *request.Tasks, e Evidence, purge bool) (pve.TaskResult, error) {
	if err := permits(g, e, e.ours); err != nil {
		return pve.TaskResult{}, err
	}
	return g.jobs.Once(ctx, tasks, request.Request{Node: e.node, Type: "qmdestroy", ID: e.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return g.api.QEMU(e.node, e.vmid).Destroy(guest.Soon(ctx, g.clock, e.at), purge)
		}})
}

// Unprotect switches off the protection of a guest that is about to go with its volumes, bound to the digest of the
// evidence.
func (g *Guard) Unprotect(ctx context.Context, e Evidence) error {
	if !e.ours || len(guest.OwnVolumes(e.vmid, e.config.Values)) > len(e.volumes) {
		return ErrNoEvidence
	}
	return g.api.QEMU(e.node, e.vmid).UpdateConfig(ctx, pve.Params{"protection": "0", "digest": e.config.Digest})
}

// Free removes a volume over the API, which takes Datastore.Allocate.
func (g *Guard) Free(ctx context.Context, tasks *request.Tasks, e Evidence, volume string) error {
	if err := permits(g, e, e.MayFree(volume)); err != nil {
		return err
	}
	_, err := g.jobs.Once(ctx, tasks, request.Request{Node: e.place, Type: "imgdel", ID: e.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return g.api.Volume(e.place, volume).Destroy(guest.Soon(ctx, g.clock, e.at))
		}})
	return err
}

// MayFree reports whether a volume may be freed: no other guest uses it and, if a guest of ours has it, no task holds
// that guest.
func (e Evidence) MayFree(volume string) bool { return e.volumes[volume] && e.held == nil }

// CutOff stops a guest hard.
func (g *Guard) CutOff(ctx context.Context, tasks *request.Tasks, e Evidence, params pve.Params) error {
	if err := permits(g, e, e.ours); err != nil {
		return err
	}
	_, err := g.jobs.Once(ctx, tasks, request.Request{Node: e.node, Type: "qmstop", ID: e.vmid,
		Done: g.guests.IsStopped(e.node, e.vmid),
		Send: func(ctx context.Context) (pve.UPID, error) {
			return g.api.QEMU(e.node, e.vmid).HardStop(guest.Soon(ctx, g.clock, e.at), params)
		}})
	return err
}

// reset presses a guest's reset button.
func (g *Guard) reset(ctx context.Context, tasks *request.Tasks, e Evidence) error {
	if err := permits(g, e, e.ours); err != nil {
		return err
	}
	_, err := g.jobs.Once(ctx, tasks, request.Request{Node: e.node, Type: "qmreset", ID: e.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return g.api.QEMU(e.node, e.vmid).HardReset(guest.Soon(ctx, g.clock, e.at))
		}})
	return err
}

// ShutDownOrStop asks a guest to shut down, and has PVE stop it hard when its time is over.
func (g *Guard) ShutDownOrStop(ctx context.Context, tasks *request.Tasks, e Evidence,
	timeout time.Duration) (pve.TaskResult, error) {
	if err := permits(g, e, e.ours); err != nil {
		return pve.TaskResult{}, err
	}
	return g.jobs.Once(ctx, tasks, request.Request{Node: e.node, Type: "qmshutdown", ID: e.vmid,
		Done: g.guests.IsStopped(e.node, e.vmid),
		Send: func(ctx context.Context) (pve.UPID, error) {
			return g.api.QEMU(e.node, e.vmid).ShutdownOrStop(guest.Soon(ctx, g.clock, e.at), timeout)
		}})
}

// LeaveHA takes a VM out of HA. prove is called before each try.
func (g *Guard) LeaveHA(ctx context.Context, vmid int, prove func(context.Context) (Evidence, error)) error {
	return g.guests.DropHA(ctx, vmid, func(ctx context.Context) error {
		e, err := prove(ctx)
		if err == nil {
			err = permits(g, e, e.ours && e.vmid == vmid)
		}
		return err
	})
}

// dropEntry removes an entry elsewhere for a VMID that no guest has.
func (g *Guard) dropEntry(ctx context.Context, e Evidence, send func(context.Context) error) error {
	if err := permits(g, e, e.free); err != nil {
		return err
	}
	return send(guest.Soon(ctx, g.clock, e.at))
}

// InState is a VM in state on its node. It has one of these identities; there are two if a change of ours has just
// given it another.
type InState struct {
	Node       string
	VMID       int
	Identities []guest.Identity
	// Ref tells where state has it, for volumes that may not have come along (guest.Strays); zero: it has not moved.
	Ref guest.Ref
	// VolumesAt is the node of the volumes in question, if it is another.
	VolumesAt string
}

// owns is the rule of ownership of a VM in state.
func (i InState) owns(config pve.GuestConfig) error {
	err := error(nil)
	for _, identity := range i.Identities {
		if err = HasIdentity(identity)(config); err == nil {
			return nil
		}
	}
	return err
}

// ProveInState makes evidence for volumes of a VM in state that are to be freed while it stays: no other guest uses
// them. Without volumes it proves only that the VM is the one in state.
func (g *Guard) ProveInState(ctx context.Context, v InState, volumes []string) (Evidence, error) {
	return proveOwn(ctx, g, v, Claim{Node: v.Node, Place: v.VolumesAt, VMID: v.VMID, Guest: v.owns, Volumes: volumes})
}

// CheckTaken makes sure that no other guest uses volumes which are to lose their names together with their VM in
// state. A migration frees local ones where they were, a conversion to a template renames all, and a cloud-init drive
// is freed with its option (qemu-server QemuServer.pm vmconfig_register_unused_drive). PVE does not ask the other
// guests.
func (g *Guard) CheckTaken(ctx context.Context, v InState, volumes []string) error {
	_, err := proveOwn(ctx, g, v, Claim{Node: v.Node, VMID: v.VMID, Guest: v.owns, Volumes: volumes, Own: true})
	return err
}

// ProveMade does the same for volumes that a change of the VM has made and takes back at once: no other guest has had
// them.
func (g *Guard) ProveMade(ctx context.Context, v InState, volumes []string) (Evidence, error) {
	return g.Prove(ctx, Claim{Node: v.Node, VMID: v.VMID, Guest: v.owns, Volumes: volumes, Untouched: true})
}

// ProveLeftOver makes sure that no guest has the VMID, and that no guest of any VMID uses volumes that carry it: PVE
// attaches a volume of another VMID without complaint, and deletes it without complaint.
func (g *Guard) ProveLeftOver(ctx context.Context, node string, vmid int, volumes []string) error {
	_, err := g.Prove(ctx, Claim{Node: node, VMID: vmid, NoGuest: true, Volumes: volumes})
	return err
}

// ProveOrphaned makes sure of the same, and that neither another cluster nor a program may have the volumes.
func (g *Guard) ProveOrphaned(ctx context.Context, node string, vmid int, volumes []string) error {
	e, err := g.Prove(ctx, Claim{Node: node, VMID: vmid, NoGuest: true, Volumes: volumes})
	if err != nil {
		return err
	}
	places, err := g.Places(ctx)
	if err != nil {
		return err
	}
	return volumeuse.AnyForeign(places, e.Use().Resources, node, volumes, g.exclusive)
}

// CheckUncommitted makes sure that no other guest uses the disks of a VM that a dead run has begun, before another run
// goes on: it starts the VM, and frees the places that disks are moved from. A third party has had the time to attach
// such a disk, which is an *InUseError.
func (g *Guard) CheckUncommitted(ctx context.Context, node string, mark ownership.Mark) error {
	_, err := g.Prove(ctx, Claim{Node: node, VMID: mark.VMID, Whole: true, Own: true, Guest: bears(mark)})
	return err
}

// bears is the rule that recognizes a VM by the mark of its create.
func bears(mark ownership.Mark) func(pve.GuestConfig) error {
	return func(config pve.GuestConfig) error {
		if !mark.Proves(mark.VMID, config.Values) {
			return ErrNotOurs
		}
		return nil
	}
}

// StopHard stops a guest hard and waits until it is off. prove is called before each try.
func (g *Guard) StopHard(ctx context.Context, tasks *request.Tasks, node string, vmid int,
	prove func(context.Context) (Evidence, error)) error {
	err := g.jobs.Contend(ctx, node, vmid, func(ctx context.Context) error {
		e, err := prove(ctx)
		if err == nil {
			err = g.CutOff(ctx, tasks, e, pve.Params{})
		}
		return err
	})
	if err == nil {
		err = g.guests.AwaitStop(ctx, node, vmid, time.Minute)
	}
	return err
}

// Reset presses a guest's reset button. prove is called before each try.
func (g *Guard) Reset(ctx context.Context, tasks *request.Tasks, node string, vmid int,
	prove func(context.Context) (Evidence, error)) error {
	return g.jobs.Contend(ctx, node, vmid, func(ctx context.Context) error {
		e, err := prove(ctx)
		if err == nil {
			err = g.reset(ctx, tasks, e)
		}
		return err
	})
}

// DestroyUnused destroys detached volumes by their unusedN entries, bound to the digest of config: deleting an entry
// does so at once (qemu-server API2/Qemu.pm update_vm_api). It is a task, since a large volume takes its time. It is
// sent once: what was proved before a wait for a lock is no evidence.
func (g *Guard) DestroyUnused(ctx context.Context, tasks *request.Tasks, e Evidence, config pve.PendingConfig,
	entries []string) error {
	current := config.Current()
	for _, entry := range entries {
		if !e.ours || !e.volumes[guest.VolumeOf(current[entry])] {
			return ErrNoEvidence
		}
		err := CheckOwnUse(ctx, g, e.vmid, guest.VolumeOf(current[entry]), entry, current, config.Merged())
		if err != nil {
			return err
		}
	}
	_, err := g.jobs.Once(ctx, tasks, request.Request{Node: e.node, Type: "qmconfig", ID: e.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return g.api.QEMU(e.node, e.vmid).DeleteUnused(ctx, entries, config.Digest)
		},
		Done: func(ctx context.Context) (bool, error) {
			now, err := g.api.QEMU(e.node, e.vmid).Config(ctx)
			gone := func(entry string) bool { return now.Values[entry] != current[entry] }
			return err == nil && !slices.ContainsFunc(entries, func(entry string) bool { return !gone(entry) }), err
		}})
	return err
}

// FreeInState removes a volume that a VM in state has had, and that no other guest uses.
func (g *Guard) FreeInState(ctx context.Context, tasks *request.Tasks, v InState, volume string) error {
	e, err := g.ProveInState(ctx, v, []string{volume})
	if err == nil {
		err = InUse(e.Use(), []string{volume}, 0) // nor the VM itself, under another name
	}
	if err == nil {
		err = g.Free(ctx, tasks, e, volume)
	}
	return err
}

// MoveInState moves disks of a VM in state to other storages, one after the other, and frees the places that they
// leave. Each try proves that a slot still has the volume that it had, from: PVE refuses an old digest, but a third
// party who comes before the read may have put another volume there.
func (g *Guard) MoveInState(ctx context.Context, tasks *request.Tasks, v InState, moves []vm.Move,
	from map[string]string) error {
	for _, m := range moves {
		move := func(ctx context.Context) error { return g.moveInState(ctx, tasks, v, m, from[m.Slot]) }
		err := g.jobs.Retry(ctx, request.Conflict(), func(ctx context.Context) error { // a snapshot came meanwhile
			return g.jobs.Contend(ctx, v.Node, v.VMID, move)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *Guard) moveInState(ctx context.Context, tasks *request.Tasks, v InState, m vm.Move, volume string) error {
	e, err := g.ProveInState(ctx, v, []string{volume})
	if now := guest.VolumeOf(e.config.Values[m.Slot]); err == nil && now != volume {
		err = fmt.Errorf("%q is in the place of %s, which is to move: a third party has put it there, or a move of an "+
			"earlier apply has ended that went on. Make a new plan, which shows what is there", now, volume)
	}
	if err == nil { // PVE frees it at the end of the move
		err = checkTwins(ctx, g, e, volume, m.Slot)
	}
	var own *OwnUseError
	if errors.As(err, &own) {
		err = fmt.Errorf("%w. Stop the VM, and take the line of the slot that is not wanted out of "+
			"/etc/pve/qemu-server/%d.conf. Do not let PVE remove it: that would free the volume", own, v.VMID)
	}
	if err != nil {
		return fmt.Errorf("%s was not moved to %s: %w", m.Slot, m.Storage, err)
	}
	return g.move(ctx, tasks, e, m)
}

// Moved is the move of the disk that a slot must have.
type Moved struct {
	vm.Move
	Volume string
}

// MoveUncommitted does the same with a disk of a VM that a create has made and not committed. At the time alone no
// other guest had any of its disks, and a third party takes longer than UseLife to find and attach one.
func (g *Guard) MoveUncommitted(ctx context.Context, tasks *request.Tasks, node string, mark ownership.Mark, m Moved,
	alone time.Time) error {
	return g.jobs.Contend(ctx, node, mark.VMID, func(ctx context.Context) error {
		err, e := CheckMade(ctx, g, node, mark, alone), Evidence{}
		if err == nil { // the guests were read by then, so the VM is proved alone
			e, err = g.Prove(ctx, Claim{Node: node, VMID: mark.VMID, Whole: true, Untouched: true, Guest: bears(mark)})
		}
		if err != nil {
			return fmt.Errorf("%s was not moved to %s: %w", m.Slot, m.Storage, err)
		}
		if has := guest.VolumeOf(e.config.Values[m.Slot]); has != m.Volume {
			return &guest.FieldError{Path: "disks", Summary: fmt.Sprintf("%s of VM %d has got another disk", m.Slot, mark.VMID),
				Detail: fmt.Sprintf("It had %s, and has %s now: a third party has put it there while the VM was being made. It "+
					"was not moved to %s", m.Volume, has, m.Storage)}
		}
		return g.move(ctx, tasks, e, m.Move)
	})
}

// move moves a disk, and frees the place that it leaves.
func (g *Guard) move(ctx context.Context, tasks *request.Tasks, e Evidence, m vm.Move) error {
	if !e.ours || !e.volumes[guest.VolumeOf(e.config.Values[m.Slot])] {
		return ErrNoEvidence
	}
	params := pve.Params{"disk": m.Slot, "storage": m.Storage, "digest": e.config.Digest}
	if m.Format != "" {
		params["format"] = m.Format
	}
	_, err := g.jobs.Once(ctx, tasks, request.Request{Node: e.node, Type: "qmmove", ID: e.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return g.api.QEMU(e.node, e.vmid).MoveDiskAndFree(ctx, params)
		}})
	if err != nil {
		return fmt.Errorf("move %s to %s: %w", m.Slot, m.Storage, err)
	}
	return nil
}
