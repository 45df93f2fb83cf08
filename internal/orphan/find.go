package orphan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Find looks. An error is one that leaves nothing to tell.
func (f *Finder) Find(ctx context.Context, options Options) (Report, error) {
	l := &look{Finder: f, options: options, free: map[int]bool{}}
	var err error
	if l.before, err = f.api.Cluster().Resources(ctx); err != nil {
		return Report{}, err
	}
	for _, step := range []func(context.Context) error{l.listVolumes, l.survey, l.judgeVolumes, l.judgeGuests,
		l.judgeReferences} {
		if err := step(ctx); err != nil {
			return Report{}, err
		}
	}
	slices.SortFunc(l.report.Items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(slices.Index(Kinds(), a.Kind), slices.Index(Kinds(), b.Kind)), cmp.Compare(a.VMID, b.VMID),
			cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID))
	})
	slices.Sort(l.report.Unchecked)
	l.report.Unchecked = slices.Compact(l.report.Unchecked)
	return l.report, ctx.Err()
}

// lookFor looks at what may be one item, and no further.
func (f *Finder) lookFor(ctx context.Context, n Named, options Options) (*look, error) {
	l := &look{Finder: f, options: options, free: map[int]bool{}, only: &n}
	var err error
	if l.before, err = f.api.Cluster().Resources(ctx); err != nil {
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
	if l.unseen, err = l.surveyor.Visible(ctx, l.surveyor.Ask()); err != nil {
		return err
	}
	named, err := l.judgeACL(ctx)
	if err != nil {
		return err
	}
	return l.judgePools(ctx, named)
}

// absent says of an item that was not found whether there is no such thing any more; else the error says what there
// is, or that it could not be looked at.
func (l *look) absent(ctx context.Context) (string, error) {
	n, vmid := l.only, l.only.VMID()
	if len(l.report.Unchecked) > 0 {
		return "", fmt.Errorf("%s %s was not found, but not everything could be looked at: %s. Nothing was removed", n.Kind,
			n.ID,
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
		if config, err := l.api.Guest(listed).Options(ctx); err == nil && config.Current()["lock"] == "" {
			return fmt.Sprintf("%s is not locked any more", has), nil
		}
	}
	return "", fmt.Errorf("%s has the id %d, and it is no orphan of the kind %s, or not any more: another user is at "+
		"work on it, has finished it, or made another one. It was not touched", has, vmid, n.Kind)
}

func (l *look) absentVolume(free bool, has string) (string, error) {
	n := l.only
	at := slices.IndexFunc(l.volumes, func(v placed) bool { return v.ID == n.ID })
	switch {
	case at < 0 && l.listed == 0:
		return "", fmt.Errorf("there is no storage %s with disks that can be looked at, so whether volume %s is there is "+
			"not known. Nothing was removed", volid.Storage(n.ID), n.ID)
	case at < 0:
		return fmt.Sprintf("There is no volume %s any more", n.ID), nil
	case !free:
		return "", fmt.Errorf("%s has the id %d, which stands in the name of volume %s, so the volume is taken for its "+
			"own. It was not removed", has, n.VMID(), n.ID)
	}
	users := "a guest"
	if others, err := l.of(scopeOf(l.volumes[at])); err == nil {
		if all := others.UsersOf(n.ID, 0); len(all) > 0 {
			users = all[0].String()
		}
	}
	return "", fmt.Errorf("volume %s is used by %s. It was not removed", n.ID, users)
}
