package orphan

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove/usage"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Named is an item that somebody names.
type Named struct {
	Kind Kind
	ID   string
	// Node and Since are what it was listed with; zero is not checked.
	Node  string
	Since time.Time
}

// VMID is the id that the item carries, 0 where its name has none.
func (n *Named) VMID() int {
	switch n.Kind {
	case Volume:
		id, _ := vm.VolumeOwner(n.ID)
		return id
	case HAResource:
		_, id, _ := strings.Cut(n.ID, ":")
		return number(id)
	case PoolMember:
		return number(n.ID[strings.LastIndex(n.ID, "/")+1:])
	case ACLEntry:
		path, _, _ := strings.Cut(n.ID, " ")
		id, _ := guestPath(path)
		return id
	}
	return number(n.ID)
}

func number(text string) int {
	id, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return id
}

// Wrong says what is wrong with the name, "" for nothing.
func (n *Named) Wrong() string {
	switch {
	case n.VMID() > 0 && (n.Kind != ACLEntry || len(strings.Fields(n.ID)) == 3):
		return ""
	case n.Kind == Volume:
		return "is no volume id that carries the id of a guest, such as \"local-zfs:vm-100-disk-0\""
	case n.Kind == HAResource:
		return "is no name of a guest in HA, such as \"vm:100\""
	case n.Kind == PoolMember:
		return "is no member of a pool, such as \"web/100\""
	case n.Kind == ACLEntry:
		return "is no path, subject and role, such as \"/vms/100 user@pve PVEVMUser\""
	}
	return "is no id of a guest, such as \"100\""
}

// is reports whether the name is about a guest.
func (n *Named) is(vmid int) bool { return n.VMID() == vmid }

// isPinned reports whether it is named as it was listed at a time.
func (n *Named) isPinned() bool { return n != nil && !n.Since.IsZero() }

// mayBeOn reports whether a storage matters: that of a volume alone, where one is named, else any.
func (n *Named) mayBeOn(s pve.Storage, node string) bool {
	if n == nil || n.Kind != Volume {
		return true
	}
	return s.ID == vm.VolumeStorage(n.ID) && (s.Shared || n.Node == "" || n.Node == node)
}

// matches reports whether an item is the one.
func (n *Named) matches(i Item) bool {
	id := i.ID == n.ID
	if n.Kind == PoolMember { // PVE may not tell which pool it is
		id = id || i.VMID == n.VMID() && !strings.Contains(i.ID, "/")
	}
	elsewhere := n.Node != "" && n.Node != i.Node && slices.Contains([]Kind{HalfMade, ExpiredCreate, HalfDestroyed, DeadLock}, n.Kind)
	return i.Kind == n.Kind && id && !elsewhere
}

func foundOf(r usage.Reading) *found {
	return &found{config: r.Config.Current(), digest: r.Config.Digest, container: r.Guest.Type == "lxc"}
}

// lookFor looks at what may be one item, and no further.
func (f *Finder) lookFor(ctx context.Context, n Named, options Options) (*look, error) {
	l := &look{Finder: f, options: options, free: map[int]bool{}, only: &n}
	var err error
	if l.before, err = f.api.Resources(ctx); err != nil {
		return nil, err
	}
	steps := map[Kind][]func(context.Context) error{
		Volume:     {l.listVolumes, l.survey, l.judgeVolumes},
		HAResource: {l.judgeHA},
		ACLEntry:   {func(ctx context.Context) error { _, err := l.judgeACL(ctx); return err }},
		PoolMember: {l.lookAtPools},
	}[n.Kind]
	if steps == nil {
		steps = []func(context.Context) error{l.listVolumes, l.survey, l.judgeGuests}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	l.report.Items = slices.DeleteFunc(l.report.Items, func(i Item) bool { return !n.matches(i) })
	return l, ctx.Err()
}

func (l *look) lookAtPools(ctx context.Context) error {
	var err error
	if l.unseen, err = l.surveyor.Sight(ctx, l.surveyor.Ask()); err != nil {
		return err
	}
	named, err := l.judgeACL(ctx)
	if err != nil {
		return err
	}
	return l.judgePools(ctx, named)
}

// absent says of an item that was not found whether there is no such thing any more; else the error says what there is, or that it
// could not be looked at.
func (l *look) absent(ctx context.Context) (string, error) {
	n, vmid := l.only, l.only.VMID()
	if len(l.report.Unchecked) > 0 {
		return "", fmt.Errorf("%s %s was not found, but not everything could be looked at: %s. Nothing was removed", n.Kind, n.ID,
			strings.Join(l.report.Unchecked, "; "))
	}
	free, err := l.isFree(ctx, vmid)
	if err != nil {
		return "", err
	}
	has := "a guest that this identity does not see (VM.Audit)"
	listed, ok := l.before.Guest(vmid)
	if ok {
		has = fmt.Sprintf("%s on node %s", guest.Named(listed), listed.Node)
	}
	switch n.Kind {
	case Volume:
		return l.absentVolume(free, has)
	case HAResource, PoolMember, ACLEntry:
		if free {
			return fmt.Sprintf("There is no %s %s any more", n.Kind, n.ID), nil
		}
		return "", fmt.Errorf("the id %d has %s, so nothing that names it is left over. Nothing was removed", vmid, has)
	}
	if free {
		return fmt.Sprintf("No guest has the id %d any more", vmid), nil
	}
	if n.Kind == DeadLock && ok {
		if config, err := l.api.OptionsOf(ctx, listed); err == nil && config.Current()["lock"] == "" {
			return fmt.Sprintf("%s is not locked any more", has), nil
		}
	}
	return "", fmt.Errorf("%s has the id %d, and it is no orphan of the kind %s, or not any more: somebody is at work on it, has "+
		"finished it, or "+
		"made another one. It was not touched", has, vmid, n.Kind)
}

func (l *look) absentVolume(free bool, has string) (string, error) {
	n := l.only
	at := slices.IndexFunc(l.volumes, func(v placed) bool { return v.ID == n.ID })
	switch {
	case at < 0 && l.listed == 0:
		return "", fmt.Errorf("there is no storage %s with disks that can be looked at, so whether volume %s is there is not known. "+
			"Nothing was removed", vm.VolumeStorage(n.ID), n.ID)
	case at < 0:
		return fmt.Sprintf("There is no volume %s any more", n.ID), nil
	case !free:
		return "", fmt.Errorf("the id %d of volume %s has %s, and the volume is his by its name. It was not removed", n.VMID(), n.ID, has)
	}
	users := "somebody"
	if others, err := l.of(scopeOf(l.volumes[at])); err == nil {
		if all := others.UsersOf(n.ID, 0); len(all) > 0 {
			users = all[0].String()
		}
	}
	return "", fmt.Errorf("volume %s is used by %s. It was not removed", n.ID, users)
}
