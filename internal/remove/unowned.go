package remove

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// This file removes what nobody owns any more, when somebody names it: package orphan has just found out that it is left over, and here
// that is proven once more, right before the request.

// Unowned is a guest that is left over, as it was when that was judged.
type Unowned struct {
	Listed    pve.Resource
	Resources pve.Resources
	// Config is its configuration, and Digest that of the file.
	Config map[string]string
	Digest string
	// Mark is the stamp that it bears, if it does.
	Mark guest.Stamp
	// Gone says that the process of the create is gone: a task that it began may still be at work, and its end is awaited.
	Gone bool
	// Dead is the task that died over it, if one did.
	Dead pve.UPID
}

// ErrChanged is for a guest that somebody is at work on, or that is another by now.
var ErrChanged = errors.New("it was not touched")

// errChanged is for a guest that is not any more what was judged.
func errChanged(vmid int, node string) error {
	return fmt.Errorf("VM %d on node %s has changed since it was found to be left over, somebody is at work on it, or has made another "+
		"one: %w", vmid, node, ErrChanged)
}

// DestroyUnowned destroys a VM that is not locked, exactly as it was judged, with what names it elsewhere. One that runs PVE refuses.
func (s *Remover) DestroyUnowned(ctx context.Context, l *job.Tasks, u Unowned) error {
	node, vmid := u.Listed.Node, u.Listed.VMID
	e, err := s.prove(ctx, claim{node: node, vmid: vmid, whole: true, guest: func(config pve.GuestConfig) error {
		if config.Digest == "" || config.Digest != u.Digest {
			return errChanged(vmid, node)
		}
		return nil
	}})
	if pve.IsKind(err, pve.NotFound) {
		return nil
	}
	if err == nil {
		_, err = s.deleteGuest(ctx, l, e, true)
	}
	if err != nil && !pve.IsKind(err, pve.Ambiguous) && !pve.IsKind(err, pve.NotFound) {
		return err
	}
	free, lookErr := s.api.IsFreeID(ctx, vmid)
	if lookErr != nil || !free {
		return errors.Join(err, lookErr, fmt.Errorf("a guest with the id %d is still there, or there again", vmid))
	}
	return nil
}

// RemoveStub removes what a task left that was killed: a half-made VM, or a half-destroyed one. It is unlocked and removed only while it is
// what was judged, and as long as nothing else shows that somebody has taken it on.
func (s *Remover) RemoveStub(ctx context.Context, l *job.Tasks, u Unowned) error {
	node, vmid := u.Listed.Node, u.Listed.VMID
	defer s.guests.Occupy(vmid)()
	now, err := s.api.CurrentConfig(ctx, node, vmid)
	if err != nil {
		return err
	}
	if now.Digest == "" || now.Digest != u.Digest {
		return errChanged(vmid, node)
	}
	l.Add(u.Dead)
	r := &removal{s: s, purge: true, Target: Target{VMID: vmid, Nodes: []string{node}, Tasks: l, Pool: u.Listed.Pool,
		Fence: guest.OwnFence(node, vmid, ownVolumes(vmid, now.Values)), Stub: NewStub(u.Digest, []pve.UPID{u.Dead}), Owns: likeStub(now.Values),
		Exactly: true,
		Stamp:   s.guests.NewStamp(guest.ClusterName(u.Resources), vmid)}}
	err = r.run(ctx)
	if err == nil && r.taken { // that is no success here: what was named was not removed
		return errChanged(vmid, node)
	}
	return err
}

// likeStub tells what a clone has left, which is all but complete, without its lock: it is like it was, but for what its removal changes.
// Of a VM that has next to nothing that shows nothing; its digest does.
func likeStub(stub map[string]string) func(map[string]string) bool {
	whole := func(config map[string]string) map[string]string {
		config = maps.Clone(config)
		maps.DeleteFunc(config, func(option, _ string) bool {
			return option == "lock" || option == "protection" || option == "digest" || strings.HasPrefix(option, "unused")
		})
		return config
	}
	left := whole(stub)
	if left["meta"] == "" {
		return nil
	}
	return func(config map[string]string) bool { return maps.Equal(whole(config), left) }
}

// takeBack puts a stamp of this run in the place of a dead one's, on the very configuration that was judged: a run that is not dead after
// all finds that out before it does anything else, and of two that find the leftover one takes it. A run that holds the VM's file,
// over SSH,
// where no task shows it, is not dead (qemu-server API2/Qemu.pm, update_vm_api locks, and then compares the digest).
func (s *Remover) takeBack(ctx context.Context, u Unowned) (guest.Stamp, error) {
	node, vmid := u.Listed.Node, u.Listed.VMID
	mark := s.guests.NewStamp(u.Mark.Cluster, vmid)
	mark.Restore = u.Mark.Restore
	params := pve.Params{"description": mark.String()}
	was := job.Bound{Digest: u.Digest, Again: func(ctx context.Context) (string, error) {
		now, err := s.api.CurrentConfig(ctx, node, vmid)
		if err == nil && now.Digest != u.Digest && !mark.Proves(vmid, now.Values) {
			err = errChanged(vmid, node)
		}
		return now.Digest, err
	}}
	set := s.jobs.Set
	if !u.Gone {
		set = s.jobs.SetNow
	}
	err := set(ctx, node, vmid, params, was)
	if pve.IsKind(err, pve.DigestMismatch) || pve.IsKind(err, pve.NotFound) || !u.Gone && pve.Contended(err) {
		err = errors.Join(errChanged(vmid, node), err)
	}
	return mark, err
}

// RemoveDead removes what a dead create of this provider has left: what bears its stamp, with the volumes of its id that it names. What is
// locked is removed under the old stamp, since PVE changes nothing of it. taken: the id had somebody else's VM by then, which was not
// touched.
func (s *Remover) RemoveDead(ctx context.Context, u Unowned) (taken bool, err error) {
	node, vmid := u.Listed.Node, u.Listed.VMID
	if foreign := Adopted(vmid, u.Config); !u.Mark.Restore.IsZero() && len(foreign) > 0 {
		return false, errAdopted(vmid, foreign)
	}
	storages, err := s.guests.ImageStorages(ctx, u.Resources, node)
	if err != nil {
		return false, err
	}
	f, err := s.guests.NewFence(ctx, u.Resources, node, vmid, storages)
	if err != nil {
		return false, err
	}
	f.Release(u.Config, vmid)
	mark := u.Mark
	if u.Config["lock"] == "" {
		if mark, err = s.takeBack(ctx, u); err != nil {
			return false, err
		}
	}
	r := &removal{s: s, Target: Target{VMID: vmid, Nodes: []string{node}, Fence: f, Tasks: &job.Tasks{}, Stub: NewStub("", nil), Stamp: mark,
		Pool: u.Listed.Pool, Managed: u.Listed.HAState != ""}}
	err = r.run(ctx)
	return r.taken, err
}

// FreeUnowned frees a volume that carries an id which nobody has, and that no guest uses: over the API, else over SSH. Right before it is
// looked whether it is still as it was listed when that was judged.
func (s *Remover) FreeUnowned(ctx context.Context, l *job.Tasks, vmid int, was MadeFile) error {
	node, volume := was.Node, was.Volume
	free := func(send func(Evidence) error) error {
		e, err := s.prove(ctx, claim{node: node, vmid: vmid, nobody: true, volumes: []string{volume}})
		if err == nil {
			err = s.isAsListed(ctx, vmid, was)
		}
		if err != nil {
			return err
		}
		return send(e)
	}
	err := free(func(e Evidence) error { return s.freeVolume(ctx, l, e, volume) })
	if pve.IsKind(err, pve.Denied) && s.shell != nil {
		err = free(func(e Evidence) error { return s.freeByShell(ctx, e, volume) })
	}
	if err != nil && !pve.IsKind(err, pve.Ambiguous) {
		return err
	}
	there, lookErr := s.exists(ctx, guest.Ref{}, tx.Residue{Kind: "volume", Node: node, ID: volume})
	switch {
	case lookErr != nil:
		return errors.Join(err, lookErr)
	case there:
		return errors.Join(err, fmt.Errorf("volume %s is still there after PVE removed it, or cannot be seen", volume))
	}
	return nil
}

// isAsListed is an error where another volume has the place of one that was listed, or somebody has written to it. Of one that is not
// listed any more the request is no harm, and the look after it tells whether it is gone.
func (s *Remover) isAsListed(ctx context.Context, vmid int, was MadeFile) error {
	volumes, err := s.api.Content(ctx, was.Node, vm.VolumeStorage(was.Volume), "images", vmid)
	for _, v := range volumes {
		if v.ID == was.Volume && (v.Size != was.Size || !v.CreatedAt.Equal(was.CreatedAt)) {
			return fmt.Errorf("volume %s on node %s has changed since it was found to be left over: somebody is at work on it, or has made "+
				"another one. It was not touched", was.Volume, was.Node)
		}
	}
	return err
}

// RemoveHAEntry takes an id that no guest has out of HA.
func (s *Remover) RemoveHAEntry(ctx context.Context, vmid int, sid string) error {
	return s.dropEntry(ctx, vmid, func(ctx context.Context) error { return s.api.DeleteHAEntry(ctx, sid) })
}

// RemovePoolMember takes an id that no guest has out of a pool.
func (s *Remover) RemovePoolMember(ctx context.Context, vmid int, pool string) error {
	return s.dropEntry(ctx, vmid, func(ctx context.Context) error { return s.api.RemoveFromPool(ctx, pool, vmid) })
}

// RemoveACLEntry takes a permission on an id that no guest has away.
func (s *Remover) RemoveACLEntry(ctx context.Context, vmid int, entry pve.ACLEntry) error {
	return s.dropEntry(ctx, vmid, func(ctx context.Context) error { return s.api.DeleteACL(ctx, entry) })
}

// dropEntry removes something that names an id, which nobody has right before each try.
func (s *Remover) dropEntry(ctx context.Context, vmid int, drop func(context.Context) error) error {
	return s.jobs.Contend(ctx, "", vmid, func(ctx context.Context) error {
		e, err := s.prove(ctx, claim{vmid: vmid, nobody: true})
		if err != nil {
			return err
		}
		return e.drop(ctx, drop)
	})
}
