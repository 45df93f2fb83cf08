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
	others := slices.Clone(f.claims)
	f.claims = append(f.claims, c)
	f.mu.Unlock()
	return slices.ContainsFunc(others, func(other Claim) bool {
		return other.Volume == c.Volume && other.Content != c.Content && (other.New || c.New) &&
			(other.Node == c.Node || f.isShared(ctx, c.Node, c.Volume))
	})
}

// isShared reports whether a volume is certainly the same file for all nodes.
func (f *Files) isShared(ctx context.Context, node, volume string) bool {
	resources, err := f.api.Listing().Shared(ctx)
	storage, ok := resources.Storage(node, volid.Storage(volume))
	return err == nil && ok && storage.Shared
}
