package orphan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// listVolumes lists the disks on all storages, those of a shared one once.
func (l *look) listVolumes(ctx context.Context) error {
	for _, n := range l.offline() {
		l.miss("node "+n, errors.New("it is not online: neither its volumes nor its guests were looked at"))
	}
	if err := l.seesStorages(ctx); err != nil {
		return err
	}
	tried := map[string]error{} // of the shared storages; nil: listed
	for _, node := range l.nodes() {
		storages, err := l.api.Node(node).Storages(ctx, "")
		if err != nil {
			l.miss("the storages of node "+node, err)
			continue
		}
		for _, s := range storages {
			if !s.Holds("images") && !s.Holds("rootdir") || !l.only.mayBeOn(s, node) {
				continue
			}
			if err, again := tried[s.ID]; again && err == nil {
				continue
			}
			err := l.listStorage(ctx, node, s)
			switch {
			case s.Shared:
				tried[s.ID] = err
			case err != nil:
				l.miss(fmt.Sprintf("storage %s on node %s", s.ID, node), err)
			}
		}
	}
	for id, err := range tried {
		if err != nil {
			l.miss("storage "+id, err)
		}
	}
	return ctx.Err()
}

// seesStorages notes where PVE may leave storages out of its lists (pve-storage API2/Storage/Status.pm index).
func (l *look) seesStorages(ctx context.Context) error {
	if l.api.Identity().IsRootTicket() {
		return nil
	}
	held, err := l.api.Access().Permissions(ctx, "/storage")
	if err == nil && !held["/storage"]["Datastore.Audit"] && !held["/storage"]["Datastore.AllocateSpace"] {
		l.miss("storages that are not listed", errors.New("this identity does not see all storages: that takes "+
			"Datastore.Audit on /storage, propagated"))
	}
	return err
}

func (l *look) listStorage(ctx context.Context, node string, s pve.Storage) error {
	switch {
	case !s.Enabled:
		return errors.New("it is disabled")
	case !s.Active:
		return errors.New("it is not available")
	case !s.Holds("images"): // pve-storage Plugin.pm list_volumes
		return errors.New("it holds disks of containers only, and PVE shows no disk there that has no container")
	}
	hidden, err := l.api.Access().Hidden(ctx, s.ID, []string{"images"})
	if err != nil {
		return err
	}
	l.report.Unchecked = append(l.report.Unchecked, hidden...)
	found, err := l.api.Storage(node, s.ID).Content(ctx, "images", 0)
	if err == nil {
		l.listed++
	}
	for _, v := range found {
		l.volumes = append(l.volumes, placed{Volume: v, storage: s, node: node})
	}
	return err
}

// judgeVolumes finds the volumes that carry an id which no guest has, and that no guest uses under its own id either.
func (l *look) judgeVolumes(ctx context.Context) error {
	var err error
	if l.places, err = l.surveyor.Places(ctx); err != nil {
		return err
	}
	for _, v := range l.volumes {
		if v.VMID == 0 || l.only != nil && l.only.ID != v.ID {
			continue // one that was named by hand: nothing tells whose it was
		}
		free, err := l.isFree(ctx, v.VMID)
		if err != nil {
			return err
		}
		if !free {
			continue
		}
		facts := l.factsOf(ctx, v)
		verdict := ownership.JudgeVolume(facts)
		if verdict.Owner == ownership.ThirdParty {
			continue
		}
		i := Item{Kind: Volume, ID: v.ID, VMID: v.VMID, Node: v.node, Storage: v.storage.ID, Size: v.Size, Since: v.CreatedAt,
			Command: shell.Free(v.ID), Certainty: Unknown, Reason: verdict.Reason}
		switch {
		case verdict.Owner == ownership.Unowned && verdict.Whole:
			i.Certainty = Certain
		case verdict.Owner == ownership.Unowned:
			i.Certainty = Likely
		}
		l.add(i)
	}
	return nil
}

// factsOf collects what is known of a volume whose VMID no guest has.
func (l *look) factsOf(ctx context.Context, v placed) ownership.Volume {
	facts := ownership.Volume{ID: v.ID, VMID: v.VMID, Storage: v.storage.ID, OfPVE: volid.IsNameOfPVE(v.ID),
		Shared:    v.storage.Shared || l.places.Reach(v.storage.ID),
		Exclusive: slices.Contains(slices.Concat(l.exclusive, l.options.Exclusive), v.storage.ID),
		Clones:    l.basedOn(v), Dated: !v.CreatedAt.IsZero(), Age: l.guests.Now().Sub(v.CreatedAt)}
	if l.unseen != nil {
		facts.Unseen = l.unseen.Error()
	}
	scope, err := l.surveyor.Scope(ctx, l.before, v.node, []string{v.ID})
	var others *volumeuse.Use
	if err == nil {
		others, err = l.of(scope)
	}
	if err == nil {
		switch users := others.UsersOf(v.ID, 0); {
		case len(users) > 0 && volumeuse.IsUnclear(users):
			facts.Likeness = users[0].String()
		case len(users) > 0:
			facts.User = users[0].String()
		}
		err = others.Doubt(v.ID, scope)
	}
	if err != nil {
		facts.Unread = err.Error()
	}
	return facts
}

// scopeOf is the node whose guests alone can use a volume, "" for all.
func scopeOf(v placed) string {
	if v.storage.Shared {
		return ""
	}
	return v.node
}

// basedOn are the volumes that have another as their base, or may: a parent can be a device by its number.
func (l *look) basedOn(base placed) []string {
	var clones []string
	for _, v := range l.volumes {
		near := l.places.Compare(v.storage.ID, base.storage.ID) != volumeuse.Apart && scopeOf(v) == scopeOf(base)
		reached := scopeOf(v) == scopeOf(base) || scopeOf(v) == "" || scopeOf(base) == ""
		switch {
		case reached && guard.IsBasedOn(v.Volume, base.ID, near):
			clones = append(clones, v.ID)
		case reached && v.ID != base.ID && l.places.MayBeParent(v.Parent, base.ID):
			clones = append(clones, v.ID+" perhaps, by "+v.Parent)
		}
	}
	return clones
}

// sizeOf is that of all volumes which carry an id, and how many there are.
func (l *look) sizeOf(vmid int) (bytes int64, count int) {
	for _, v := range l.volumes {
		if v.VMID == vmid {
			bytes, count = bytes+v.Size, count+1
		}
	}
	return bytes, count
}

// shared says which guest besides vmid uses a volume of its configuration, as an error; nil: none does.
func (l *look) shared(vmid int, config map[string]string) error {
	for _, volume := range guest.Volumes(config) {
		if owner, ok := volid.Owner(volume); !ok || owner != vmid {
			continue
		}
		others, err := l.of("")
		if err != nil {
			return fmt.Errorf("whether another guest uses %s could not be looked at: %w", volume, err)
		}
		if users := others.UsersOf(volume, vmid); len(users) > 0 {
			return fmt.Errorf("%s is also used by %s", volume, users[0])
		}
	}
	return l.unseen
}
