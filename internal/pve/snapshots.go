package pve

import (
	"context"
	"net/http"
)

// Snapshot is what PVE lists of a snapshot.
type Snapshot struct {
	Name, Description string
	// Parent is the snapshot that came before it, "" for none.
	Parent string
	// State is "prepare" or "delete" while it is made or removed, and after that has failed; else "".
	State string
	// Taken is when, in seconds since 1970 by the node's clock (snaptime).
	Taken int64
	// Memory: the guest's memory was saved too (vmstate).
	Memory bool
}

type snapshotWire struct {
	Name        flexString `json:"name"`
	Description flexString `json:"description"`
	Parent      flexString `json:"parent"`
	State       flexString `json:"snapstate"`
	Taken       flexInt    `json:"snaptime"`
	Memory      flexBool   `json:"vmstate"`
}

// ListSnapshots lists a VM's snapshots, without "current", which is none.
func (c *Client) ListSnapshots(ctx context.Context, node string, vmid int) ([]Snapshot, error) {
	return c.snapshots(ctx, "list the snapshots of "+guestName(node, vmid), guestPath(node, vmid, "/snapshot"))
}

// Snapshots lists their names.
func (c *Client) Snapshots(ctx context.Context, node string, vmid int) ([]string, error) {
	all, err := c.ListSnapshots(ctx, node, vmid)
	return snapshotNames(all), err
}

func snapshotNames(all []Snapshot) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

func (c *Client) snapshots(ctx context.Context, op, path string) ([]Snapshot, error) {
	wire, err := fetch[[]snapshotWire](ctx, c, op, path, nil)
	if err != nil {
		return nil, err
	}
	var all []Snapshot
	for _, w := range wire {
		if w.Name != "" && w.Name != "current" {
			all = append(all, Snapshot{Name: string(w.Name), Description: string(w.Description), Parent: string(w.Parent), State: string(w.State),
				Taken: int64(w.Taken), Memory: bool(w.Memory)})
		}
	}
	return all, nil
}

// TakeSnapshot starts taking the snapshot p["snapname"], with p["vmstate"] that of a running guest's memory. A name that is used
// already fails in the task. One that fails is removed by PVE itself; a task that is killed leaves it, and the lock.
func (c *Client) TakeSnapshot(ctx context.Context, node string, vmid int, p Params) (UPID, error) {
	op := "take snapshot " + p["snapname"] + " of " + guestName(node, vmid)
	return c.start(ctx, op, http.MethodPost, guestPath(node, vmid, "/snapshot"), p)
}

// DescribeSnapshot changes the description of a snapshot.
func (c *Client) DescribeSnapshot(ctx context.Context, node string, vmid int, name, description string) error {
	return c.change(ctx, "describe snapshot "+name+" of "+guestName(node, vmid), http.MethodPut,
		guestPath(node, vmid, "/snapshot/"+name+"/config"), Params{"description": description})
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
