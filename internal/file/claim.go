package file

import (
	"context"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Claim is the content that a resource wants in a file whose name does not tell it, or that a resource which goes
// leaves in the file until then.
type Claim struct {
	Node, Volume string
	// Content is a checksum of the content.
	Content string
	// New: the resource is to make the file.
	New bool
}

// Claim notes what a plan wants in a file. It reports whether another resource of the plan wants or has other content
// there, and one of the two is to make the file. Terraform plans the two in any order, so the later one learns it.
func (f *Files) Claim(ctx context.Context, c Claim) (isTaken bool) {
	f.mu.Lock()
	others := f.claims[c.Volume]
	f.claims[c.Volume] = append(slices.Clip(others), c)
	f.mu.Unlock()
	others = slices.DeleteFunc(slices.Clone(others), func(other Claim) bool {
		return other.Content == c.Content || !other.New && !c.New
	})
	if slices.ContainsFunc(others, func(other Claim) bool { return other.Node == c.Node }) {
		return true
	}
	if len(others) == 0 {
		return false
	}
	shared, _, err := f.isShared(ctx, c.Node, c.Volume)
	return err == nil && shared
}

// places are files, by volume and node.
type places map[string][]string

func (p places) add(node, volume string) {
	if !slices.Contains(p[volume], node) {
		p[volume] = append(p[volume], node)
	}
}

func (p places) drop(node, volume string) {
	p[volume] = slices.DeleteFunc(p[volume], func(one string) bool { return one == node })
}

// isAmong reports whether a file is one of some. One of which it is not known whether all nodes share it counts as
// shared.
func (f *Files) isAmong(ctx context.Context, some places, node, volume string) bool {
	f.mu.Lock()
	nodes := slices.Clone(some[volume])
	f.mu.Unlock()
	if len(nodes) == 0 || slices.Contains(nodes, node) {
		return len(nodes) > 0
	}
	shared, known, err := f.isShared(ctx, node, volume)
	return err != nil || !known || shared
}

// isShared reports whether a volume is the same file for all nodes. known: the listing tells.
func (f *Files) isShared(ctx context.Context, node, volume string) (shared, known bool, err error) {
	resources, err := f.api.Listing().Shared(ctx)
	storage, known := resources.Storage(node, volid.Storage(volume))
	return storage.Shared, known, err
}
