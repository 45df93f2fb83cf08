package orphan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
		used, err := isUsed(ctx, l, v)
		if used {
			continue
		}
		i := Item{Kind: Volume, ID: v.ID, VMID: v.VMID, Node: v.node, Storage: v.storage.ID, Size: v.Size, Since: v.CreatedAt,
			Command: shell.Free(v.ID)}
		i.Certainty, i.Reason = l.sureOfVolume(v, err)
		l.add(i)
	}
	return nil
}

// isUsed reports whether a guest uses a volume; the error is why that cannot be told.
func isUsed(ctx context.Context, l *look, v placed) (bool, error) {
	scope, err := l.surveyor.Scope(ctx, l.before, v.node, []string{v.ID})
	if err != nil {
		return false, err
	}
	others, err := l.of(scope)
	if err != nil {
		return false, err
	}
	users := others.UsersOf(v.ID, 0)
	if len(users) > 0 && volumeuse.IsUnclear(users) {
		return false, errors.New(users[0].String())
	}
	return len(users) > 0, others.Doubt(v.ID)
}

// scopeOf is the node whose guests alone can use a volume, "" for all.
func scopeOf(v placed) string {
	if v.storage.Shared {
		return ""
	}
	return v.node
}

// sureOfVolume says how sure it is that no guest uses a volume; unseen is why not all guests that could were read.
func (l *look) sureOfVolume(v placed, unseen error) (Certainty, string) {
	none := fmt.Sprintf("no guest has the id %d", v.VMID)
	clones := l.basedOn(v)
	foreign := volumeuse.Foreign(v.ID, v.storage.Shared, slices.Concat(l.exclusive, l.options.Exclusive))
	switch {
	case unseen != nil:
		return Unknown, fmt.Sprintf("%s; whether a guest with another id uses the volume could not be looked at: %v", none,
			unseen)
	case l.unseen != nil:
		return Unknown, fmt.Sprintf("%s; whether a guest with another id uses the volume cannot be told: %v", none, l.unseen)
	case len(clones) > 0:
		return Unknown, fmt.Sprintf("%s; linked clones are based on the volume: %s", none, strings.Join(clones, ", "))
	case foreign != nil:
		return Unknown, fmt.Sprintf("%s, and no guest of this cluster uses the volume; %v", none, foreign)
	case v.CreatedAt.IsZero(): // ZFS and RBD list no time (pve-storage, list_images of the plugins)
		return Likely, none + ", and no guest uses the volume; its storage does not say when it was made, " +
			"so its maker may still be at work"
	case l.guests.Now().Sub(v.CreatedAt) < fresh:
		return Unknown, none + ", and no guest uses the volume; it is so new that its maker may still be at work"
	}
	return Certain, none + ", and no guest uses the volume"
}

// basedOn are the volumes that are linked clones of another, by their ids or their parents (pve-storage,
// parse_volname and list_images of the plugins).
func (l *look) basedOn(base placed) []string {
	var clones []string
	for _, v := range l.volumes {
		parent, _, _ := strings.Cut(v.Parent, "@")
		named := parent != "" && volumeuse.LastPart(parent) == volumeuse.LastPart(base.ID)
		near := l.places.Compare(v.storage.ID, base.storage.ID) != volumeuse.Apart && scopeOf(v) == scopeOf(base)
		if v.ID != base.ID && near && (named ||
			strings.HasPrefix(v.ID, base.ID+"/")) {
			clones = append(clones, v.ID)
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
	for _, option := range config {
		volume, _, _ := strings.Cut(option, ",")
		volume = strings.TrimPrefix(volume, "file=")
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
