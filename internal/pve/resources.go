package pve

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
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
	// Pool is the guest's pool; Lock its config lock and Tags its tags, both read live by PVE; HAState of guests and
	// nodes.
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
	ID         wire.String `json:"id"`
	Type       wire.String `json:"type"`
	Node       wire.String `json:"node"`
	Name       wire.String `json:"name"`
	Status     wire.String `json:"status"`
	Pool       wire.String `json:"pool"`
	Lock       wire.String `json:"lock"`
	Tags       wire.String `json:"tags"`
	HAState    wire.String `json:"hastate"`
	VMID       wire.Int    `json:"vmid"`
	Template   wire.Bool   `json:"template"`
	Shared     wire.Bool   `json:"shared"`
	Storage    wire.String `json:"storage"`
	PluginType wire.String `json:"plugintype"`
	Content    wire.String `json:"content"`
	Disk       wire.Int    `json:"disk"`
	MaxDisk    wire.Int    `json:"maxdisk"`
	Mem        wire.Int    `json:"mem"`
	MaxMem     wire.Int    `json:"maxmem"`
	CPU        wire.Float  `json:"cpu"`
	MaxCPU     wire.Int    `json:"maxcpu"`
	Uptime     wire.Int    `json:"uptime"`
	CgroupMode wire.Int    `json:"cgroup-mode"`
}

func (r resourceWire) resource() Resource {
	return Resource{
		ID: string(r.ID), Type: string(r.Type), Node: string(r.Node), Name: string(r.Name), Status: string(r.Status),
		Pool: string(r.Pool), Lock: string(r.Lock), Tags: string(r.Tags), HAState: string(r.HAState), VMID: int(r.VMID),
		Template: bool(r.Template), Shared: bool(r.Shared), Storage: string(r.Storage), PluginType: string(r.PluginType),
		Content: string(r.Content), Disk: int64(r.Disk), MaxDisk: int64(r.MaxDisk), Mem: int64(r.Mem),
		MaxMem: int64(r.MaxMem),
		CPU:    float64(r.CPU), MaxCPU: int64(r.MaxCPU), Uptime: int64(r.Uptime), CgroupMode: int64(r.CgroupMode),
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

// Unnamed is every VM and container that the listing has no name of yet, since pvestatd has not reported it: for
// about 10 s after its creation. Those of a node that is not online have none either, and are left out.
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

// Filter says which VMs of a listing are meant: those that fit everything that is set.
type Filter struct {
	// Name may hold * and ?, which no name of a guest has.
	Name, Node, Pool, Tag, Status string
	Template                      *bool
}

// VMs are the VMs of the listing that are meant, templates included, sorted by VMID. caseSensitive says that the
// datacenter takes "Web" and "web" for two tags.
func (rs Resources) VMs(f Filter, caseSensitive bool) []Resource {
	all := rs.filter(func(r Resource) bool { return r.Type == "qemu" && f.fits(r, caseSensitive) })
	slices.SortFunc(all, func(a, b Resource) int { return cmp.Compare(a.VMID, b.VMID) })
	return all
}

// Untold are the VMs of which the listing does not tell whether they are meant, and which VMs leaves out: of those
// that no node has reported since their node is away, or for the first seconds, PVE knows neither the name nor
// whether they are templates (pve-manager API2Tools.pm, extract_vm_stats).
func (rs Resources) Untold(f Filter, caseSensitive bool) []Resource {
	meant := rs.VMs(f, caseSensitive)
	f.Name, f.Template = "", nil
	return slices.DeleteFunc(rs.VMs(f, caseSensitive), func(r Resource) bool {
		return r.Status != "unknown" || slices.ContainsFunc(meant, func(m Resource) bool { return m.VMID == r.VMID })
	})
}

func (f Filter) fits(r Resource, caseSensitive bool) bool {
	isOrAny := func(want, is string) bool { return want == "" || want == is }
	named, err := path.Match(f.Name, r.Name)
	return (f.Name == "" || err == nil && named) && isOrAny(f.Node, r.Node) && isOrAny(f.Pool, r.Pool) &&
		isOrAny(f.Status, r.Status) &&
		(f.Template == nil || *f.Template == r.Template) && (f.Tag == "" || r.hasTag(f.Tag, caseSensitive))
}

func (r Resource) hasTag(tag string, caseSensitive bool) bool {
	return slices.ContainsFunc(r.TagList(), func(has string) bool {
		return has == tag || !caseSensitive && strings.EqualFold(has, tag)
	})
}

// TagList is the guest's tags, sorted; PVE separates them by semicolons, commas or spaces (pve-common ParseUtils.pm
// split_list).
func (r Resource) TagList() []string {
	tags := strings.FieldsFunc(r.Tags, func(c rune) bool { return strings.ContainsRune(";, ", c) })
	slices.Sort(tags)
	return tags
}
