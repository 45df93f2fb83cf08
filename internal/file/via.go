package file

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// HasNode returns why a node is none that can be asked.
func (f *Files) HasNode(ctx context.Context, node string) error {
	resources, err := f.api.Listing().Shared(ctx)
	if err != nil {
		return err
	}
	return guest.CheckNode(resources, node)
}

// via returns the node by which a file is read and removed: its own or, while that is away or once it has left the
// cluster, another one that is online and has the shared storage. left is why a file that is not there is not gone
// then: the endpoint may be that of another cluster.
func (f *Files) via(ctx context.Context, node, storage string) (by string, left, err error) {
	resources, err := f.api.Listing().Shared(ctx)
	if err != nil {
		return "", nil, err
	}
	return via(resources, node, storage)
}

func via(resources pve.Resources, node, storage string) (by string, left, err error) {
	away := guest.CheckNode(resources, node)
	if away == nil {
		return node, nil, nil
	}
	if _, known := resources.Node(node); !known {
		left = fmt.Errorf("this cluster has the nodes %s, and no node %s, where the state has the file. Either the "+
			"endpoint is that of another cluster: correct it. Or the node was removed from the cluster, and the file with "+
			"it: take it out of the state (terraform state rm)",
			strings.ReplaceAll(guest.ClusterName(resources), ",", ", "), node)
		away = &guest.FieldError{Path: "node", Summary: fmt.Sprintf("Unknown node %q", node), Detail: left.Error()}
	}
	for _, n := range resources.Nodes() {
		at, ok := resources.Storage(n.Node, storage)
		if ok && at.Shared && n.Status == "online" && at.Status != "unknown" {
			return n.Node, left, nil
		}
	}
	return "", left, away
}

// CheckRemoval returns why a file cannot be removed now, whatever the identity may do: its node is away, and no other
// has its storage; or a node is away whose guests may use it.
func (f *Files) CheckRemoval(ctx context.Context, node, storage string) *guest.FieldError {
	resources, err := f.api.Listing().Shared(ctx)
	if err != nil {
		return nil //nolint:nilerr // the removal lists again
	}
	by, _, err := via(resources, node, storage)
	field, _ := err.(*guest.FieldError) //nolint:errorlint // made by via and CheckNode, never wrapped
	if at, _ := resources.Storage(by, storage); field != nil || !at.Shared {
		return field
	}
	for _, n := range resources.Nodes() {
		if n.Status == "online" || n.Status == "unknown" {
			continue
		}
		of := func(g pve.Resource) bool { return g.Node == n.Node }
		if guests := resources.Guests(); slices.ContainsFunc(guests, of) {
			return &guest.FieldError{Path: "storage", Summary: fmt.Sprintf("Node %s is not online", n.Node),
				Detail: fmt.Sprintf("Storage %s is shared, so guests of that node, such as %d, may use the file, and they "+
					"cannot be read. Bring the node back first", storage, guests[slices.IndexFunc(guests, of)].VMID)}
		}
	}
	return nil
}
