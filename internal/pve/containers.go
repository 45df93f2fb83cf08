package pve

import (
	"context"
	"strconv"
)

// A container has its options, pending ones and snapshots at the same places as a VM, below another path (pve-container
// API2/LXC.pm).

func guestOptionsPath(g Resource, rest string) string {
	return "/nodes/" + g.Node + "/" + g.Type + "/" + strconv.Itoa(g.VMID) + rest
}

func (r Resource) describe() string {
	if r.Type == "lxc" {
		return "container " + strconv.Itoa(r.VMID) + " on node " + r.Node
	}
	return guestName(r.Node, r.VMID)
}

// OptionsOf reads the current and pending options of a guest of the listing, VM or container. Errors are as for CurrentConfig.
func (c *Client) OptionsOf(ctx context.Context, g Resource) (PendingConfig, error) {
	return c.pendingConfig(ctx, "read the config of "+g.describe(), guestOptionsPath(g, "/pending"))
}

// SnapshotsOf lists the names of the snapshots of a guest of the listing, VM or container.
func (c *Client) SnapshotsOf(ctx context.Context, g Resource) ([]string, error) {
	all, err := c.snapshots(ctx, "list the snapshots of "+g.describe(), guestOptionsPath(g, "/snapshot"))
	return snapshotNames(all), err
}

// SnapshotOptionsOf reads what a snapshot of a guest of the listing keeps, VM or container.
func (c *Client) SnapshotOptionsOf(ctx context.Context, g Resource, name string) (map[string]string, error) {
	return c.snapshotConfig(ctx, "read snapshot "+name+" of "+g.describe(), guestOptionsPath(g, "/snapshot/"+name+"/config"))
}
