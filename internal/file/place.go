package file

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// place is a file by its node and one of its volume ids: it has another where two storages are one directory or mounts
// of one export.
type place struct{ node, volume string }

// nameOf is a volume id without its storage.
func nameOf(volume string) string {
	_, name, _ := strings.Cut(volume, ":")
	return name
}

// places are files, by the volume id without its storage.
type places map[string][]place

func (p places) add(at place) {
	if name := nameOf(at.volume); !slices.Contains(p[name], at) {
		p[name] = append(p[name], at)
	}
}

func (p places) drop(at place) {
	name := nameOf(at.volume)
	p[name] = slices.DeleteFunc(p[name], func(one place) bool { return one == at })
}

// isAmong reports whether a file is, or may be, one of some.
func (f *Files) isAmong(ctx context.Context, some places, at place) bool {
	f.mu.Lock()
	named := slices.Clone(some[nameOf(at.volume)])
	f.mu.Unlock()
	like := f.likeness(ctx, at)
	return slices.Contains(named, at) || slices.ContainsFunc(named, func(one place) bool {
		return like(one) != volumeuse.Apart
	})
}

// IsSame reports whether two volumes are one file for certain.
func (f *Files) IsSame(ctx context.Context, node, volume, otherNode, other string) bool {
	return f.likeness(ctx, place{node, volume})(place{otherNode, other}) == volumeuse.Same
}

// likeness returns a function that tells whether a file is one with another, by any name of its storage, on any node
// that shares it. It asks the server once at most, and only about equal names.
func (f *Files) likeness(ctx context.Context, at place) func(other place) volumeuse.Likeness {
	listing := sync.OnceValues(func() (pve.Resources, error) { return f.api.Listing().Shared(ctx) })
	isShared := func(one place) volumeuse.Likeness {
		resources, err := listing()
		storage, known := resources.Storage(one.node, volid.Storage(one.volume))
		switch {
		case err != nil || !known:
			return volumeuse.Unclear
		case storage.Shared:
			return volumeuse.Same
		}
		return volumeuse.Apart
	}
	reach := sync.OnceValue(func() volumeuse.Likeness { return isShared(at) })
	return func(other place) volumeuse.Likeness {
		switch {
		case nameOf(at.volume) != nameOf(other.volume):
			return volumeuse.Apart
		case at == other:
			return volumeuse.Same
		}
		like, id, otherID := volumeuse.Same, volid.Storage(at.volume), volid.Storage(other.volume)
		if id != otherID {
			all, err := f.guard.Places(ctx)
			if like = all.Compare(id, otherID); err != nil {
				like = volumeuse.Unclear
			}
		}
		switch {
		case at.node == other.node || like == volumeuse.Apart:
			return like
		case id == otherID:
			return min(like, reach())
		}
		return min(like, max(reach(), isShared(other)))
	}
}

// turn is an operation on a file that has not ended.
type turn struct {
	at    place
	ended chan struct{}
}

// turn admits one operation of this process at a time to a file: the second of two that want the same file finds it
// there.
func (f *Files) turn(ctx context.Context, at place) (release func(), err error) {
	name, mine := nameOf(at.volume), turn{at, make(chan struct{})}
	f.mu.Lock()
	before := slices.Clone(f.turns[name])
	f.turns[name] = append(f.turns[name], mine)
	f.mu.Unlock()
	release = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.turns[name] = slices.DeleteFunc(f.turns[name], func(one turn) bool { return one == mine })
		close(mine.ended)
	}
	like := f.likeness(ctx, at)
	for _, other := range before {
		if like(other.at) == volumeuse.Apart {
			continue
		}
		select {
		case <-other.ended:
		case <-ctx.Done():
			release()
			return nil, ctx.Err()
		}
	}
	return release, nil
}
