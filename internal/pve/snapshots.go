package pve

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
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
	Name        wire.String `json:"name"`
	Description wire.String `json:"description"`
	Parent      wire.String `json:"parent"`
	State       wire.String `json:"snapstate"`
	Taken       wire.Int    `json:"snaptime"`
	Memory      wire.Bool   `json:"vmstate"`
}

// Snapshots lists a VM's snapshots, without "current", which is none.
func (q QEMUReader) Snapshots(ctx context.Context) ([]Snapshot, error) {
	return q.client.snapshots(ctx, "list the snapshots of "+q.name(), q.path("/snapshot"))
}

// SnapshotNames lists their names.
func (q QEMUReader) SnapshotNames(ctx context.Context) ([]string, error) {
	all, err := q.Snapshots(ctx)
	return snapshotNames(all), err
}

func snapshotNames(all []Snapshot) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

// CanBeSnapshot reports whether a snapshot of the VM can be taken: each of its disks is on a storage that has them.
func (q QEMUReader) CanBeSnapshot(ctx context.Context) (bool, error) {
	return q.hasFeature(ctx, "see whether snapshots can be taken of "+q.name(), Params{"feature": "snapshot"})
}

// CanBeCloned reports whether each disk of the VM, or of a snapshot of it, is on a storage that copies it, or that has
// linked clones of it.
func (q QEMUReader) CanBeCloned(ctx context.Context, full bool, snapshot string) (bool, error) {
	p := Params{"feature": "clone"}
	if full {
		p["feature"] = "copy"
	}
	if snapshot != "" {
		p["snapname"] = snapshot
	}
	return q.hasFeature(ctx, "see whether "+q.name()+" can be cloned", p)
}

func (q QEMUReader) hasFeature(ctx context.Context, op string, p Params) (bool, error) {
	has, err := fetch[featureWire](ctx, q.client, op, q.path("/feature"), p)
	return bool(has.Has), err
}

type featureWire struct {
	Has wire.Bool `json:"hasFeature"`
}

func (c *Client) snapshots(ctx context.Context, op, path string) ([]Snapshot, error) {
	list, err := fetch[[]snapshotWire](ctx, c, op, path, nil)
	if err != nil {
		return nil, err
	}
	var all []Snapshot
	for _, w := range list {
		if w.Name != "" && w.Name != "current" {
			all = append(all, Snapshot{Name: string(w.Name), Description: string(w.Description), Parent: string(w.Parent),
				State: string(w.State),
				Taken: int64(w.Taken), Memory: bool(w.Memory)})
		}
	}
	return all, nil
}

// TakeSnapshot starts taking the snapshot p["snapname"], with p["vmstate"] that of a running guest's memory. A name
// that is used already fails in the task. One that fails is removed by PVE itself; a task that is killed leaves it,
// and the lock.
func (q QEMUClient) TakeSnapshot(ctx context.Context, p Params) (UPID, error) {
	op := "take snapshot " + p["snapname"] + " of " + q.name()
	return q.client.start(ctx, op, http.MethodPost, q.path("/snapshot"), p)
}

// DescribeSnapshot changes the description of a snapshot.
func (q QEMUClient) DescribeSnapshot(ctx context.Context, name, description string) error {
	return q.client.change(ctx, "describe snapshot "+name+" of "+q.name(), http.MethodPut,
		q.path("/snapshot/"+name+"/config"), Params{"description": description})
}

// SnapshotConfig reads the options that a snapshot keeps, its saved memory ("vmstate") among them.
func (q QEMUReader) SnapshotConfig(ctx context.Context, name string) (map[string]string, error) {
	return q.client.snapshotConfig(ctx, "read snapshot "+name+" of "+q.name(), q.path("/snapshot/"+name+"/config"))
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

// RawOption is the option under which Options and SnapshotOptions have the raw lines of a container (such as
// lxc.mount.entry), all in one value.
const RawOption = "lxc"

// Options reads the current and pending options of a guest of the listing, VM or container. Errors are as for
// QEMUReader.Config. The pending options leave out the raw lines of a container (pve-guest-common GuestHelpers.pm
// config_with_pending_array), and its configuration has them (pve-container API2/LXC/Config.pm vm_config). It is asked
// only where the digest says that the file has more than was shown.
func (g GuestReader) Options(ctx context.Context) (PendingConfig, error) {
	op := "read the config of " + g.guest.describe()
	config, err := g.client.pendingConfig(ctx, op, guestOptionsPath(g.guest, "/pending"))
	if err != nil || g.guest.Type != "lxc" || !config.MayHaveSnapshots() {
		return config, err
	}
	whole, err := fetch[guestConfigWire](ctx, g.client, op, guestOptionsPath(g.guest, "/config"), Params{"current": "1"})
	if err != nil {
		return PendingConfig{}, err
	}
	if raw, ok := configText(whole[RawOption]); ok {
		config.Entries = append(config.Entries, PendingValue{Key: RawOption, Value: raw, HasValue: true})
		slices.SortFunc(config.Entries, byKey)
	}
	return config, nil
}

// SnapshotNames lists the names of the snapshots of a guest of the listing, VM or container.
func (g GuestReader) SnapshotNames(ctx context.Context) ([]string, error) {
	all, err := g.client.snapshots(ctx, "list the snapshots of "+g.guest.describe(),
		guestOptionsPath(g.guest, "/snapshot"))
	return snapshotNames(all), err
}

// SnapshotOptions reads what a snapshot of a guest of the listing keeps, VM or container.
func (g GuestReader) SnapshotOptions(ctx context.Context, name string) (map[string]string, error) {
	return g.client.snapshotConfig(ctx, "read snapshot "+name+" of "+g.guest.describe(),
		guestOptionsPath(g.guest, "/snapshot/"+name+"/config"))
}
