package pve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/transport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// Resources fetches the whole listing afresh.
func (c ClusterReader) Resources(ctx context.Context) (Resources, error) {
	list, err := fetch[[]resourceWire](ctx, c.client, "list the cluster's resources", "/cluster/resources", nil)
	if err != nil {
		return nil, err
	}
	out := make(Resources, 0, len(list))
	for _, w := range list {
		out = append(out, w.resource())
	}
	return out, nil
}

// LogEntry is an entry of the cluster's log. PVE writes there the start and the end of each task ("starting task
// UPID:…", pve-common RESTEnvironment.pm), and each change of a VM's configuration, be it PUT or `qm set` ("update VM
// 100: …", qemu-server API2/Qemu.pm update_vm_api). It writes nothing of a container's change (pve-container
// API2/LXC/Config.pm).
type LogEntry struct {
	Node, User, Message string
	// Time is in seconds by the node's clock. UID counts the entries of a node since its pmxcfs started.
	Time, UID int64
}

// ChangeEntry is the message of the entry that PVE makes of a change of a VM's options (qemu-server API2/Qemu.pm
// update_vm_api, @paramarr).
func ChangeEntry(vmid int, params Params) string {
	var words strings.Builder
	for _, option := range slices.Sorted(maps.Keys(params)) {
		value := params[option]
		if option == "cipassword" {
			value = "<hidden>"
		}
		words.WriteString(" -" + option + " " + value)
	}
	return fmt.Sprintf("update VM %d:%s", vmid, words.String())
}

type logEntryWire struct {
	Node wire.String `json:"node"`
	User wire.String `json:"user"`
	Msg  wire.String `json:"msg"`
	Time wire.Int    `json:"time"`
	UID  wire.Int    `json:"uid"`
}

// Log is the latest of the cluster's log, the latest entry first. It holds 128 KiB (pve-cluster pmxcfs/logger.h).
// Without Sys.Syslog on / PVE shows an identity its own entries only (pve-manager API2/Cluster.pm log).
func (c ClusterReader) Log(ctx context.Context, most int) ([]LogEntry, error) {
	list, err := fetch[[]logEntryWire](ctx, c.client, "read the cluster's log", "/cluster/log",
		Params{"max": strconv.Itoa(most)})
	all := make([]LogEntry, 0, len(list))
	for _, w := range list {
		all = append(all, LogEntry{Node: string(w.Node), User: string(w.User), Message: string(w.Msg),
			Time: int64(w.Time), UID: int64(w.UID)})
	}
	return all, err
}

// NextID is the lowest free VMID. Nothing is reserved: two callers get the same one (pve-manager API2/Cluster.pm
// nextid).
func (c ClusterReader) NextID(ctx context.Context) (int, error) {
	id, err := fetch[wire.Int](ctx, c.client, "find the next free VMID", "/cluster/nextid", nil)
	return int(id), err
}

// IDRange is the first and the last VMID that NextID gives (datacenter option next-id, whose upper bound is exclusive;
// pve-manager API2/Cluster.pm nextid). Without Sys.Audit on / PVE does not tell, and the bounds are 0.
func (c ClusterReader) IDRange(ctx context.Context) (first, last int, err error) {
	w, err := fetch[idRangeWire](ctx, c.client, "read the datacenter's options", "/cluster/options", nil)
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
		Lower wire.Int `json:"lower"`
		Upper wire.Int `json:"upper"`
	} `json:"next-id"`
}

// IsFreeID tells whether no VM and no container has that id anywhere in the cluster, also none that this identity
// cannot see.
func (c ClusterReader) IsFreeID(ctx context.Context, vmid int) (bool, error) {
	id := strconv.Itoa(vmid)
	_, err := fetch[wire.Int](ctx, c.client, "check whether VMID "+id+" is free", "/cluster/nextid", Params{"vmid": id})
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
	Version wire.String `json:"version"`
	Release wire.String `json:"release"`
	RepoID  wire.String `json:"repoid"`
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
func (c ClusterReader) Version(ctx context.Context) (Version, error) {
	return c.VersionOf(ctx, "")
}

// VersionOf is that of a node, asked once per Client. The node "" is the one which the endpoint names.
func (c ClusterReader) VersionOf(ctx context.Context, node string) (Version, error) {
	return c.client.versions.on(node).get(ctx, c.client)
}

// Version is that of one node, asked each time.
func (n NodeReader) Version(ctx context.Context) (Version, error) {
	w, err := fetch[versionWire](ctx, n.client, "read the version of node "+n.node, "/nodes/"+n.node+"/version", nil)
	return w.version(), err
}

// Listings of the objects that a configuration can name. Each shows the objects that the identity may see.

// namedWire is one entry of such a listing; which fields there are depends on it.
type namedWire struct {
	ID    wire.String `json:"id"`
	Name  wire.String `json:"name"`
	Group wire.String `json:"group"`
	Type  wire.String `json:"type"`
	Scope wire.String `json:"scope"`
	Macro wire.String `json:"macro"`
	SID   wire.String `json:"sid"`
}

// names are the texts of the entries of a listing.
func (c *Client) names(ctx context.Context, op, path string, text func(namedWire) string) ([]string, error) {
	list, err := fetch[[]namedWire](ctx, c, op, path, nil)
	if err != nil {
		return nil, err
	}
	all := make([]string, 0, len(list))
	for _, w := range list {
		all = append(all, text(w))
	}
	return all, nil
}

// CPUModels are the CPU types of a node; the custom ones only for an identity with Sys.Audit on /nodes (qemu-server
// API2/Qemu/CPU.pm).
func (n NodeReader) CPUModels(ctx context.Context) ([]string, error) {
	return n.client.names(ctx, "list the CPU types of node "+n.node, "/nodes/"+n.node+"/capabilities/qemu/cpu",
		func(w namedWire) string { return string(w.Name) })
}

// Machines are the machine types of a node with their versions: "pc-q35-9.2" (qemu-server API2/Qemu/Machine.pm).
func (n NodeReader) Machines(ctx context.Context) ([]string, error) {
	return n.client.names(ctx, "list the machine types of node "+n.node, "/nodes/"+n.node+"/capabilities/qemu/machines",
		func(w namedWire) string { return string(w.ID) })
}

// Mapping is a resource mapping, and the nodes that it has a device or a directory of.
type Mapping struct {
	ID    string
	Nodes []string
}

type mappingWire struct {
	ID  wire.String   `json:"id"`
	Map []wire.String `json:"map"`
}

// Mappings are the resource mappings of a kind: pci, usb or dir. It shows those on which the identity has a Mapping
// privilege (pve-manager API2/Cluster/Mapping).
func (c ClusterReader) Mappings(ctx context.Context, kind string) ([]Mapping, error) {
	list, err := fetch[[]mappingWire](ctx, c.client, "list the "+kind+" mappings", "/cluster/mapping/"+kind, nil)
	if err != nil {
		return nil, err
	}
	all := make([]Mapping, 0, len(list))
	for _, w := range list {
		m := Mapping{ID: string(w.ID)}
		for _, entry := range w.Map {
			for _, part := range strings.Split(string(entry), ",") {
				if node, is := strings.CutPrefix(part, "node="); is && !slices.Contains(m.Nodes, node) {
					m.Nodes = append(m.Nodes, node)
				}
			}
		}
		all = append(all, m)
	}
	return all, nil
}

// Groups are the groups of HA, which 9.x has no more. It needs Sys.Audit on / (pve-ha-manager API2/HA/Groups.pm).
func (h HAReader) Groups(ctx context.Context) ([]string, error) {
	return h.client.names(ctx, "list the HA groups", "/cluster/ha/groups",
		func(w namedWire) string { return string(w.Group) })
}

// Addresses are the nodes' addresses in the cluster's network, by name, without those that are not known. A node in no
// cluster has one as well. It takes Sys.Audit on / (pve-manager API2/Cluster.pm get_status).
func (c ClusterReader) Addresses(ctx context.Context) (map[string]string, error) {
	list, err := fetch[[]map[string]wire.String](ctx, c.client, "read the status of the cluster", "/cluster/status", nil)
	if err != nil {
		return nil, err
	}
	addresses := map[string]string{}
	for _, w := range list {
		if w["type"] == "node" && w["ip"] != "" {
			addresses[string(w["name"])] = string(w["ip"])
		}
	}
	return addresses, nil
}

// Quorate tells whether the cluster has a quorum, without which it writes nothing. A single node that is in no
// cluster always has one. It takes Sys.Audit on / (pve-manager API2/Cluster.pm get_status).
func (c ClusterReader) Quorate(ctx context.Context) (bool, error) {
	list, err := fetch[[]map[string]wire.String](ctx, c.client, "read the status of the cluster", "/cluster/status", nil)
	if err != nil {
		return false, err
	}
	for _, w := range list {
		if quorate, ok := w["quorate"]; ok && w["type"] == "cluster" {
			return quorate == "1", nil
		}
	}
	return true, nil
}

// TagsAreCaseSensitive tells whether the datacenter takes "Web" and "web" for two tags (tag-style of datacenter.cfg,
// pve-cluster DataCenterConfig.pm). Any identity may read it. PVE's default is no: it lower-cases tags. It is asked
// once per Client.
func (c ClusterReader) TagsAreCaseSensitive(ctx context.Context) (bool, error) {
	w, err := c.client.datacenter.get(ctx, c.client)
	return bool(w.TagStyle.CaseSensitive), err
}

// TagRules say which tags this identity may give and take (user-tag-access and registered-tags of datacenter.cfg;
// guest-common GuestHelpers.pm, get_allowed_tags). It is asked once per Client. Without Sys.Audit on / PVE tells only
// Allowed.
type TagRules struct {
	Free       bool     // any tag that is not registered
	Allowed    []string // tags that may be used, whatever else holds
	Registered []string // tags that take Sys.Modify on /, unless they are among Allowed
}

// TagRules returns them.
func (c ClusterReader) TagRules(ctx context.Context) (TagRules, error) {
	w, err := c.client.datacenter.get(ctx, c.client)
	allow := w.TagAccess.UserAllow
	return TagRules{Free: allow == "" || allow == "free", Allowed: w.AllowedTags, Registered: w.RegisteredTags}, err
}

type datacenterWire struct {
	TagStyle struct {
		CaseSensitive wire.Bool `json:"case-sensitive"`
	} `json:"tag-style"`
	TagAccess struct {
		UserAllow wire.String `json:"user-allow"`
	} `json:"user-tag-access"`
	AllowedTags    []string `json:"allowed-tags"`
	RegisteredTags []string `json:"registered-tags"`
}

// sharedDatacenter keeps the answer.
type sharedDatacenter struct {
	turn   transport.Turn // guards everything below
	is     datacenterWire
	filled bool
}

func (s *sharedDatacenter) get(ctx context.Context, c *Client) (datacenterWire, error) {
	const op = "read the datacenter's options"
	if err := s.turn.Take(ctx); err != nil {
		return datacenterWire{}, &Error{Op: op, Message: err.Error(), Err: err}
	}
	defer s.turn.Give()
	if s.filled {
		return s.is, nil
	}
	w, err := fetch[datacenterWire](ctx, c, op, "/cluster/options", nil)
	if err != nil {
		return datacenterWire{}, err
	}
	s.is, s.filled = w, true
	return w, nil
}
