package remove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// This file is the door: all requests of the provider that destroy something, or take away what protects it, are sent here,
// each with evidence that says it may. docs/design/destroy.md has the table of who sends which.

// errNoEvidence is a mistake in this program; nothing was sent.
var errNoEvidence = errors.New("there is no evidence that this may be destroyed; nothing was sent")

// sending is how a request is sent: once, or again while somebody else's lock proves that nothing was done.
type sending func(context.Context, *job.Tasks, job.Request) (pve.TaskResult, error)

// deleteGuest removes a VM with the volumes that its configuration names.
func (s *Remover) deleteGuest(ctx context.Context, l *job.Tasks, e Evidence, purge bool) (pve.TaskResult, error) {
	if !e.ours {
		return pve.TaskResult{}, errNoEvidence
	}
	return s.jobs.Once(ctx, l, job.Request{Node: e.node, Type: "qmdestroy", ID: e.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) { return s.api.DeleteVM(ctx, e.node, e.vmid, purge) }})
}

// unprotect switches off the protection of a guest that is about to go with its volumes, bound to what was seen.
func (s *Remover) unprotect(ctx context.Context, e Evidence) error {
	if !e.ours || len(ownVolumes(e.vmid, e.config.Values)) > len(e.volumes) {
		return errNoEvidence
	}
	return s.api.UpdateConfig(ctx, e.node, e.vmid, pve.Params{"protection": "0", "digest": e.config.Digest})
}

// freeVolume removes a volume over the API, which takes Datastore.Allocate.
func (s *Remover) freeVolume(ctx context.Context, l *job.Tasks, e Evidence, volume string) error {
	if !e.mayFree(volume) {
		return errNoEvidence
	}
	_, err := s.jobs.Once(ctx, l, job.Request{Node: e.place, Type: "imgdel", ID: e.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) { return s.api.DeleteVolume(ctx, e.place, volume) }})
	return err
}

// mayFree: nobody else uses the volume, and if a guest of ours has it, no task is at work on that.
func (e Evidence) mayFree(volume string) bool { return e.volumes[volume] && e.held == nil }

// freeByShell removes a volume as root on its node.
func (s *Remover) freeByShell(ctx context.Context, e Evidence, volume string) error {
	if !e.mayFree(volume) {
		return errNoEvidence
	}
	return s.shell.FreeVolume(ctx, e.place, volume)
}

// removeByShell removes a snippet as root on its node, if it holds what it should.
func (s *Remover) removeByShell(ctx context.Context, e Evidence, f Snippet) error {
	if !e.mayFree(f.Volume) {
		return errNoEvidence
	}
	return s.shell.RemoveFile(ctx, e.place, f.Path, f.SHA256)
}

// takeLock takes the lock of a dead task away: with a ticket of root@pam over the API, since PVE lets nobody else skip a lock,
// not even a token of root, and bound to what was seen; else as root on the node. description, if not "", marks what is left.
func (s *Remover) takeLock(ctx context.Context, e Evidence, description string) error {
	switch {
	case !e.ours:
		return errNoEvidence
	case e.held != nil:
		return e.held
	case s.api.Identity().IsRootTicket():
		return s.api.RemoveLock(ctx, e.node, e.vmid, e.config.Digest, description)
	case s.shell != nil:
		return s.unlockByShell(ctx, e)
	}
	return errCannotUnlock
}

// unlockByShell takes the lock away as root on the node. `qm unlock` takes whichever lock there is, and no digest, so it is looked at
// once more whether it is still the one of the evidence: who holds it was asked of several nodes.
func (s *Remover) unlockByShell(ctx context.Context, e Evidence) error {
	now, err := s.api.CurrentConfig(ctx, e.node, e.vmid)
	switch {
	case err != nil:
		return err
	case now.Digest != e.config.Digest:
		return &pve.Error{Op: fmt.Sprintf("unlock VM %d on node %s", e.vmid, e.node), Kind: pve.DigestMismatch,
			Message: "its configuration was changed while it was looked at; it was not touched"}
	}
	return s.shell.Unlock(ctx, e.node, e.vmid)
}

// errCannotUnlock is when nobody here may take a lock away.
var errCannotUnlock = errors.New("only the user root@pam with a password may unlock it over the API, and no SSH is configured")

// stopHard cuts a guest's power.
func (s *Remover) stopHard(ctx context.Context, l *job.Tasks, e Evidence, params pve.Params) error {
	if !e.ours {
		return errNoEvidence
	}
	_, err := s.jobs.Once(ctx, l, job.Request{Node: e.node, Type: "qmstop", ID: e.vmid, Done: s.guests.IsStopped(e.node, e.vmid),
		Send: func(ctx context.Context) (pve.UPID, error) { return s.api.StopVM(ctx, e.node, e.vmid, params) }})
	return err
}

// resetHard presses a guest's reset button.
func (s *Remover) resetHard(ctx context.Context, l *job.Tasks, e Evidence) error {
	if !e.ours {
		return errNoEvidence
	}
	_, err := s.jobs.Once(ctx, l, job.Request{Node: e.node, Type: "qmreset", ID: e.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) { return s.api.ResetVM(ctx, e.node, e.vmid) }})
	return err
}

// shutDownOrStop asks a guest to shut down, and has it cut off when its time is over.
func (s *Remover) shutDownOrStop(ctx context.Context, l *job.Tasks, e Evidence, timeout time.Duration) (pve.TaskResult, error) {
	if !e.ours {
		return pve.TaskResult{}, errNoEvidence
	}
	return s.jobs.Once(ctx, l, job.Request{Node: e.node, Type: "qmshutdown", ID: e.vmid, Done: s.guests.IsStopped(e.node, e.vmid),
		Send: func(ctx context.Context) (pve.UPID, error) {
			return s.api.ShutdownOrStopVM(ctx, e.node, e.vmid, timeout)
		}})
}

// dropHA takes a VM out of HA.
func (s *Remover) dropHA(ctx context.Context, e Evidence) error {
	if !e.ours {
		return errNoEvidence
	}
	return s.guests.DropHA(ctx, e.vmid)
}

// drop removes an entry elsewhere for an id that nobody has.
func (e Evidence) drop(ctx context.Context, send func(context.Context) error) error {
	if !e.free {
		return errNoEvidence
	}
	return send(ctx)
}

// InState is a VM in state, where it is: with one of these identities, two where a change of ours has just given it another.
type InState struct {
	Node       string
	VMID       int
	Identities []guest.Identity
	// VolumesAt is the node of the volumes in question, if it is another.
	VolumesAt string
}

// owns is the rule of ownership of a VM in state.
func (v InState) owns(config pve.GuestConfig) error {
	err := error(nil)
	for _, identity := range v.Identities {
		if err = inState(identity)(config); err == nil {
			return nil
		}
	}
	return err
}

// ProveInState makes evidence for volumes of a VM in state that are to be freed while it stays: nobody else uses them.
// Without volumes it says of the VM alone that it is the one in state.
func (s *Remover) ProveInState(ctx context.Context, v InState, volumes []string) (Evidence, error) {
	return s.prove(ctx, claim{node: v.Node, place: v.VolumesAt, vmid: v.VMID, guest: v.owns, volumes: volumes})
}

// CheckTaken makes sure that no other guest uses volumes which are to go away under their names together with their VM in state: a
// migration frees local ones where they were, a conversion to a template renames all, and a cloud-init drive is freed with its option
// (qemu-server QemuServer.pm vmconfig_register_unused_drive). PVE asks nobody.
func (s *Remover) CheckTaken(ctx context.Context, v InState, volumes []string) error {
	_, err := s.prove(ctx, claim{node: v.Node, vmid: v.VMID, guest: v.owns, volumes: volumes, own: true})
	return err
}

// ProveMade does the same for volumes that a change of the VM has made and takes back at once: nobody else has had them.
func (s *Remover) ProveMade(ctx context.Context, v InState, volumes []string) (Evidence, error) {
	return s.prove(ctx, claim{node: v.Node, vmid: v.VMID, guest: v.owns, volumes: volumes, untouched: true})
}

// ProveLeftOver makes sure that nobody has the id, and that no guest uses volumes that carry it, whatever their ids are: PVE
// attaches a volume of another id without complaint, and deletes it without complaint.
func (s *Remover) ProveLeftOver(ctx context.Context, node string, vmid int, volumes []string) error {
	_, err := s.prove(ctx, claim{node: node, vmid: vmid, nobody: true, volumes: volumes})
	return err
}

// proveUncommitted makes evidence for the disks of a VM that a create has made and not committed.
func (s *Remover) proveUncommitted(ctx context.Context, node string, stamp guest.Stamp) (Evidence, error) {
	return s.prove(ctx, claim{node: node, vmid: stamp.VMID, whole: true, untouched: true, guest: func(config pve.GuestConfig) error {
		if !stamp.Proves(stamp.VMID, config.Values) {
			return errNotOurs
		}
		return nil
	}})
}

// StopHard cuts a guest's power and waits until it is off. prove is asked before each try.
func (s *Remover) StopHard(ctx context.Context, l *job.Tasks, node string, vmid int, prove func(context.Context) (Evidence, error)) error {
	err := s.jobs.Contend(ctx, node, vmid, func(ctx context.Context) error {
		e, err := prove(ctx)
		if err == nil {
			err = s.stopHard(ctx, l, e, pve.Params{})
		}
		return err
	})
	if err == nil {
		err = s.guests.AwaitStop(ctx, node, vmid, time.Minute)
	}
	return err
}

// Reset presses a guest's reset button. prove is asked before each try.
func (s *Remover) Reset(ctx context.Context, l *job.Tasks, node string, vmid int, prove func(context.Context) (Evidence, error)) error {
	return s.jobs.Contend(ctx, node, vmid, func(ctx context.Context) error {
		e, err := prove(ctx)
		if err == nil {
			err = s.resetHard(ctx, l, e)
		}
		return err
	})
}

// DestroyUnused destroys detached volumes by their unusedN entries, bound to the digest of what was seen: deleting an entry does
// so at once (qemu-server API2/Qemu.pm update_vm_api). It is a task, since a large volume takes its time. It is sent once: what was
// proved before a lock was waited for is no evidence.
func (s *Remover) DestroyUnused(ctx context.Context, l *job.Tasks, e Evidence, config pve.PendingConfig, entries []string) error {
	current := config.Current()
	for _, entry := range entries {
		if !e.ours || !e.volumes[guest.VolumeOf(current[entry])] {
			return errNoEvidence
		}
	}
	_, err := s.jobs.Once(ctx, l, job.Request{Node: e.node, Type: "qmconfig", ID: e.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) {
			return s.api.DeleteUnused(ctx, e.node, e.vmid, entries, config.Digest)
		},
		Done: func(ctx context.Context) (bool, error) {
			now, err := s.api.CurrentConfig(ctx, e.node, e.vmid)
			gone := func(entry string) bool { return now.Values[entry] != current[entry] }
			return err == nil && !slices.ContainsFunc(entries, func(entry string) bool { return !gone(entry) }), err
		}})
	return err
}

// FreeInState removes a volume that a VM in state has had, and that nobody else uses.
func (s *Remover) FreeInState(ctx context.Context, l *job.Tasks, v InState, volume string) error {
	e, err := s.ProveInState(ctx, v, []string{volume})
	if err == nil {
		err = s.freeVolume(ctx, l, e, volume)
	}
	return err
}

// MoveInState moves disks of a VM in state to other storages, one after the other, and frees where they were.
func (s *Remover) MoveInState(ctx context.Context, l *job.Tasks, v InState, moves []vm.Move) error {
	for _, m := range moves {
		move := func(ctx context.Context) error { return s.moveInState(ctx, l, v, m) } // proved before each try
		err := s.jobs.Contend(ctx, v.Node, v.VMID, move)
		for attempt := 1; attempt < 3 && pve.IsKind(err, pve.DigestMismatch); attempt++ { // a snapshot came while a lock was waited for
			err = s.jobs.Contend(ctx, v.Node, v.VMID, move)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Remover) moveInState(ctx context.Context, l *job.Tasks, v InState, m vm.Move) error {
	config, err := s.api.CurrentConfig(ctx, v.Node, v.VMID)
	if err != nil {
		return err
	}
	e, err := s.ProveInState(ctx, v, []string{guest.VolumeOf(config.Values[m.Slot])})
	if err != nil {
		return fmt.Errorf("%s was not moved to %s: %w", m.Slot, m.Storage, err)
	}
	return s.move(ctx, s.jobs.Once, l, e, m)
}

// MoveUncommitted does the same with a VM that a create has made and not committed.
func (s *Remover) MoveUncommitted(ctx context.Context, l *job.Tasks, node string, stamp guest.Stamp, moves []vm.Move) error {
	for _, m := range moves {
		e, err := s.proveUncommitted(ctx, node, stamp)
		if err == nil {
			err = s.move(ctx, s.jobs.Perform, l, e, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// move moves a disk, and frees where it was.
func (s *Remover) move(ctx context.Context, send sending, l *job.Tasks, e Evidence, m vm.Move) error {
	if !e.ours || !e.volumes[guest.VolumeOf(e.config.Values[m.Slot])] {
		return errNoEvidence
	}
	params := pve.Params{"disk": m.Slot, "storage": m.Storage, "digest": e.config.Digest}
	if m.Format != "" {
		params["format"] = m.Format
	}
	_, err := send(ctx, l, job.Request{Node: e.node, Type: "qmmove", ID: e.vmid,
		Send: func(ctx context.Context) (pve.UPID, error) { return s.api.MoveDiskAndFree(ctx, e.node, e.vmid, params) }})
	if err != nil {
		return fmt.Errorf("move %s to %s: %w", m.Slot, m.Storage, err)
	}
	return nil
}
