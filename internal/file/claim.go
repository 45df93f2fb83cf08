package file

import (
	"context"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
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
	name := nameOf(c.Volume)
	others := slices.Clone(f.claims[name])
	f.claims[name] = append(f.claims[name], c)
	f.mu.Unlock()
	like := f.likeness(ctx, place{c.Node, c.Volume})
	return slices.ContainsFunc(others, func(other Claim) bool {
		return other.Content != c.Content && (other.New || c.New) &&
			like(place{other.Node, other.Volume}) == volumeuse.Same
	})
}
