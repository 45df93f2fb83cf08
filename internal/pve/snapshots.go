package pve

import "context"

// Snapshots lists the names of a VM's snapshots, without "current", which is none.
func (c *Client) Snapshots(ctx context.Context, node string, vmid int) ([]string, error) {
	return c.snapshots(ctx, "list the snapshots of "+guestName(node, vmid), guestPath(node, vmid, "/snapshot"))
}

func (c *Client) snapshots(ctx context.Context, op, path string) ([]string, error) {
	wire, err := fetch[[]map[string]flexString](ctx, c, op, path, nil)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, w := range wire {
		if name := string(w["name"]); name != "" && name != "current" {
			names = append(names, name)
		}
	}
	return names, nil
}

// SnapshotConfig reads the options that a snapshot keeps, its saved memory ("vmstate") among them.
func (c *Client) SnapshotConfig(ctx context.Context, node string, vmid int, name string) (map[string]string, error) {
	return c.snapshotConfig(ctx, "read snapshot "+name+" of "+guestName(node, vmid), guestPath(node, vmid, "/snapshot/"+name+"/config"))
}

func (c *Client) snapshotConfig(ctx context.Context, op, path string) (map[string]string, error) {
	w, err := fetch[guestConfigWire](ctx, c, op, path, nil)
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(w))
	for key, raw := range w {
		if value, ok := configText(raw); ok {
			values[key] = value
		}
	}
	return values, nil
}
