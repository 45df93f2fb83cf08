package pve

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// Resource is one entry of the cluster's listing. Which fields are filled depends on Type.
type Resource struct {
	// ID is "qemu/100", "node/pve1", "storage/pve1/local" …; Type is qemu, lxc, node, storage, pool or sdn.
	ID, Type string
	// Node is where it is; Name is a guest's, empty or "VM 100" for a few seconds after its creation.
	Node, Name string
	// Status is running, stopped or unknown for guests, online, offline or unknown for nodes, available or unknown for
	// storages. It lags by about 10 s (pvestatd's cycle).
	Status string
	// Pool is the guest's pool; Lock its config lock and Tags its tags, both read live by PVE; HAState of guests and nodes.
	Pool, Lock, Tags, HAState string
	// VMID is the guest's id, 0 for others.
	VMID int
	// Template is a guest's; Shared a storage's.
	Template, Shared bool
	// Storage is the storage's id, PluginType its type, Content its comma-separated content types.
	Storage, PluginType, Content string
	// Disk, MaxDisk, Mem and MaxMem are bytes.
	Disk, MaxDisk, Mem, MaxMem int64
	// CPU is the load between 0 and 1 (of MaxCPU).
	CPU float64
	// MaxCPU is a number of CPUs, Uptime seconds, CgroupMode a node's (1 or 2).
	MaxCPU, Uptime, CgroupMode int64
}

type resourceWire struct {
	ID         flexString `json:"id"`
	Type       flexString `json:"type"`
	Node       flexString `json:"node"`
	Name       flexString `json:"name"`
	Status     flexString `json:"status"`
	Pool       flexString `json:"pool"`
	Lock       flexString `json:"lock"`
	Tags       flexString `json:"tags"`
	HAState    flexString `json:"hastate"`
	VMID       flexInt    `json:"vmid"`
	Template   flexBool   `json:"template"`
	Shared     flexBool   `json:"shared"`
	Storage    flexString `json:"storage"`
	PluginType flexString `json:"plugintype"`
	Content    flexString `json:"content"`
	Disk       flexInt    `json:"disk"`
	MaxDisk    flexInt    `json:"maxdisk"`
	Mem        flexInt    `json:"mem"`
	MaxMem     flexInt    `json:"maxmem"`
	CPU        flexFloat  `json:"cpu"`
	MaxCPU     flexInt    `json:"maxcpu"`
	Uptime     flexInt    `json:"uptime"`
	CgroupMode flexInt    `json:"cgroup-mode"`
}

func (w resourceWire) resource() Resource {
	return Resource{
		ID: string(w.ID), Type: string(w.Type), Node: string(w.Node), Name: string(w.Name), Status: string(w.Status),
		Pool: string(w.Pool), Lock: string(w.Lock), Tags: string(w.Tags), HAState: string(w.HAState), VMID: int(w.VMID),
		Template: bool(w.Template), Shared: bool(w.Shared), Storage: string(w.Storage), PluginType: string(w.PluginType),
		Content: string(w.Content), Disk: int64(w.Disk), MaxDisk: int64(w.MaxDisk), Mem: int64(w.Mem), MaxMem: int64(w.MaxMem),
		CPU: float64(w.CPU), MaxCPU: int64(w.MaxCPU), Uptime: int64(w.Uptime), CgroupMode: int64(w.CgroupMode),
	}
}

// Resources is the cluster's listing: what this identity may see of it, silently filtered by VM.Audit and its like.
type Resources []Resource

func (rs Resources) find(match func(Resource) bool) (Resource, bool) {
	if i := slices.IndexFunc(rs, match); i >= 0 {
		return rs[i], true
	}
	return Resource{}, false
}

func (rs Resources) filter(match func(Resource) bool) []Resource {
	var out []Resource
	for _, r := range rs {
		if match(r) {
			out = append(out, r)
		}
	}
	return out
}

// IsGuest tells whether the entry is a VM or a container; both share one space of ids.
func (r Resource) IsGuest() bool { return r.Type == "qemu" || r.Type == "lxc" }

// Guest is the VM or container with that id.
func (rs Resources) Guest(vmid int) (Resource, bool) {
	return rs.find(func(r Resource) bool { return r.IsGuest() && r.VMID == vmid })
}

// GuestsNamed is every VM and container of that name; PVE does not keep names apart.
func (rs Resources) GuestsNamed(name string) []Resource {
	return rs.filter(func(r Resource) bool { return r.IsGuest() && r.Name == name })
}

// Unnamed is every VM and container that the listing has no name of yet, since pvestatd has not reported it: for about 10 s
// after its creation. Those of a node that is not online have none either, and are left out.
func (rs Resources) Unnamed() []Resource {
	return rs.filter(func(r Resource) bool {
		if !r.IsGuest() || r.Name != "" && r.Name != "VM "+strconv.Itoa(r.VMID) {
			return false
		}
		node, ok := rs.Node(r.Node)
		return ok && node.Status == "online"
	})
}

// Guests is every VM and container.
func (rs Resources) Guests() []Resource { return rs.filter(Resource.IsGuest) }

// Node is the node of that name.
func (rs Resources) Node(name string) (Resource, bool) {
	return rs.find(func(r Resource) bool { return r.Type == "node" && r.Node == name })
}

// Nodes is every node.
func (rs Resources) Nodes() []Resource {
	return rs.filter(func(r Resource) bool { return r.Type == "node" })
}

// Storage is a storage as seen on a node.
func (rs Resources) Storage(node, id string) (Resource, bool) {
	return rs.find(func(r Resource) bool { return r.Type == "storage" && r.Node == node && r.Storage == id })
}

// Storages is every storage as seen on a node.
func (rs Resources) Storages(node string) []Resource {
	return rs.filter(func(r Resource) bool { return r.Type == "storage" && r.Node == node })
}

// Resources fetches the whole listing afresh.
func (c *Client) Resources(ctx context.Context) (Resources, error) {
	wire, err := fetch[[]resourceWire](ctx, c, "list the cluster's resources", "/cluster/resources", nil)
	if err != nil {
		return nil, err
	}
	out := make(Resources, 0, len(wire))
	for _, w := range wire {
		out = append(out, w.resource())
	}
	return out, nil
}

// NextID is the lowest free VMID. Nothing is reserved: two callers get the same one (pve-manager API2/Cluster.pm nextid).
func (c *Client) NextID(ctx context.Context) (int, error) {
	id, err := fetch[flexInt](ctx, c, "find the next free VMID", "/cluster/nextid", nil)
	return int(id), err
}

// IDRange is the first and the last VMID that NextID gives (datacenter option next-id, whose upper bound is exclusive;
// pve-manager API2/Cluster.pm nextid). Without Sys.Audit on / PVE tells nobody, and the bounds are 0.
func (c *Client) IDRange(ctx context.Context) (first, last int, err error) {
	w, err := fetch[idRangeWire](ctx, c, "read the datacenter's options", "/cluster/options", nil)
	if err != nil || w.NextID == nil {
		return 0, 0, err
	}
	first, last = 100, 999_999
	if w.NextID.Lower != 0 {
		first = int(w.NextID.Lower)
	}
	if w.NextID.Upper != 0 {
		last = int(w.NextID.Upper) - 1
	}
	return first, last, nil
}

type idRangeWire struct {
	NextID *struct {
		Lower flexInt `json:"lower"`
		Upper flexInt `json:"upper"`
	} `json:"next-id"`
}

// IsFreeID tells whether no VM and no container has that id anywhere in the cluster, also none that this identity cannot see.
func (c *Client) IsFreeID(ctx context.Context, vmid int) (bool, error) {
	id := strconv.Itoa(vmid)
	_, err := fetch[flexInt](ctx, c, "check whether VMID "+id+" is free", "/cluster/nextid", Params{"vmid": id})
	if IsKind(err, Exists) {
		return false, nil
	}
	return err == nil, err
}

// Version is what a node says about its software.
type Version struct {
	// Version is "8.4.1", Release "8.4", RepoID a hash.
	Version, Release, RepoID string
	// Major, Minor and Patch are the first numbers of Version, 0 when there are none.
	Major, Minor, Patch int
}

// AtLeast tells whether the version is that or newer: a major number, or more of them.
func (v Version) AtLeast(numbers ...int) bool {
	return slices.Compare([]int{v.Major, v.Minor, v.Patch}, numbers) >= 0
}

type versionWire struct {
	Version flexString `json:"version"`
	Release flexString `json:"release"`
	RepoID  flexString `json:"repoid"`
}

func (w versionWire) version() Version {
	v := Version{Version: string(w.Version), Release: string(w.Release), RepoID: string(w.RepoID)}
	text := v.Version
	if text == "" {
		text = v.Release
	}
	parts := strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) > 0 {
		v.Major, _ = strconv.Atoi(parts[0]) // digits only
	}
	if len(parts) > 1 {
		v.Minor, _ = strconv.Atoi(parts[1])
	}
	if len(parts) > 2 {
		v.Patch, _ = strconv.Atoi(parts[2])
	}
	return v
}

// Version is that of the node which the endpoint names, asked once per Client.
func (c *Client) Version(ctx context.Context) (Version, error) {
	return c.version.get(ctx, c)
}

// NodeVersion is that of one node, asked each time.
func (c *Client) NodeVersion(ctx context.Context, node string) (Version, error) {
	w, err := fetch[versionWire](ctx, c, "read the version of node "+node, "/nodes/"+node+"/version", nil)
	return w.version(), err
}
