package pve

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/transport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// Node is one entry of the list of nodes. The figures are missing without Sys.Audit on it.
type Node struct {
	Name string
	// Status is online, offline or unknown; "unknown" means that its statistics are old.
	Status string
	// CPU is the load between 0 and 1, MaxCPU a number of CPUs.
	CPU    float64
	MaxCPU int64
	// Mem, MaxMem, Disk and MaxDisk are bytes, Uptime seconds.
	Mem, MaxMem, Disk, MaxDisk, Uptime int64
	// Level is the subscription level, SSLFingerprint that of the node's certificate.
	Level, SSLFingerprint string
}

type nodeWire struct {
	Node           wire.String `json:"node"`
	Status         wire.String `json:"status"`
	CPU            wire.Float  `json:"cpu"`
	MaxCPU         wire.Int    `json:"maxcpu"`
	Mem            wire.Int    `json:"mem"`
	MaxMem         wire.Int    `json:"maxmem"`
	Disk           wire.Int    `json:"disk"`
	MaxDisk        wire.Int    `json:"maxdisk"`
	Uptime         wire.Int    `json:"uptime"`
	Level          wire.String `json:"level"`
	SSLFingerprint wire.String `json:"ssl_fingerprint"`
}

// Nodes lists the cluster's nodes.
func (c ClusterReader) Nodes(ctx context.Context) ([]Node, error) {
	list, err := fetch[[]nodeWire](ctx, c.client, "list the nodes", "/nodes", nil)
	if err != nil {
		return nil, err
	}
	out := make([]Node, 0, len(list))
	for _, w := range list {
		out = append(out, Node{
			Name: string(w.Node), Status: string(w.Status), CPU: float64(w.CPU), MaxCPU: int64(w.MaxCPU), Mem: int64(w.Mem),
			MaxMem: int64(w.MaxMem), Disk: int64(w.Disk), MaxDisk: int64(w.MaxDisk), Uptime: int64(w.Uptime),
			Level: string(w.Level), SSLFingerprint: string(w.SSLFingerprint),
		})
	}
	return out, nil
}

// NodeStatus is everything that a node says about itself (pve-manager API2/Nodes.pm status). Sizes are bytes.
type NodeStatus struct {
	// Uptime in seconds as a duration.
	Uptime time.Duration
	// CPU is the load and Wait the share of waiting for I/O, between 0 and 1; Idle is always 0 in PVE.
	CPU, Wait, Idle float64
	// LoadAverage over 1, 5 and 15 minutes, as printed by the kernel.
	LoadAverage []string
	// KernelVersion is one line; Kernel its parts (PVE 8.1 and later).
	KernelVersion string
	Kernel        Kernel
	// BootMode is efi or legacy-bios; SecureBoot is meaningful with efi. PVE 8.1 and later.
	BootMode   string
	SecureBoot bool
	CPUInfo    CPUInfo
	Memory     Memory
	Swap       Memory
	// KSMShared is the memory saved by same-page merging.
	KSMShared int64
	// PVEVersion is "pve-manager/8.4.1/<hash>".
	PVEVersion string
	RootFS     Filesystem
}

// Kernel is the running kernel.
type Kernel struct{ SysName, Release, Version, Machine string }

// CPUInfo is the node's processors.
type CPUInfo struct {
	Model string
	// Sockets, Cores (of all sockets) and CPUs (threads).
	Sockets, Cores, CPUs int64
	// MHz as printed by the kernel.
	MHz string
	// Flags are the CPU flags.
	Flags []string
	// HVM is PVE's word on virtualisation, "1" or empty.
	HVM string
	// UserHz is the kernel's clock tick.
	UserHz int64
}

// Memory is bytes. Available is 0 before PVE 9.
type Memory struct{ Total, Used, Free, Available int64 }

// Filesystem is bytes.
type Filesystem struct{ Total, Used, Free, Available int64 }

type memoryWire struct {
	Total     wire.Int `json:"total"`
	Used      wire.Int `json:"used"`
	Free      wire.Int `json:"free"`
	Available wire.Int `json:"available"`
	Avail     wire.Int `json:"avail"`
}

func (m memoryWire) memory() Memory {
	return Memory{Total: int64(m.Total), Used: int64(m.Used), Free: int64(m.Free), Available: int64(m.Available)}
}

type nodeStatusWire struct {
	Uptime  wire.Int      `json:"uptime"`
	CPU     wire.Float    `json:"cpu"`
	Wait    wire.Float    `json:"wait"`
	Idle    wire.Float    `json:"idle"`
	LoadAvg []wire.String `json:"loadavg"`
	KVer    wire.String   `json:"kversion"`
	Kernel  struct {
		SysName wire.String `json:"sysname"`
		Release wire.String `json:"release"`
		Version wire.String `json:"version"`
		Machine wire.String `json:"machine"`
	} `json:"current-kernel"`
	Boot struct {
		Mode       wire.String `json:"mode"`
		SecureBoot wire.Bool   `json:"secureboot"`
	} `json:"boot-info"`
	CPUInfo struct {
		Model   wire.String `json:"model"`
		Sockets wire.Int    `json:"sockets"`
		Cores   wire.Int    `json:"cores"`
		CPUs    wire.Int    `json:"cpus"`
		MHz     wire.String `json:"mhz"`
		Flags   wire.String `json:"flags"`
		HVM     wire.String `json:"hvm"`
		UserHz  wire.Int    `json:"user_hz"`
	} `json:"cpuinfo"`
	Memory memoryWire `json:"memory"`
	Swap   memoryWire `json:"swap"`
	KSM    struct {
		Shared wire.Int `json:"shared"`
	} `json:"ksm"`
	PVEVersion wire.String `json:"pveversion"`
	RootFS     memoryWire  `json:"rootfs"`
}

func (n nodeStatusWire) status() NodeStatus {
	s := NodeStatus{
		Uptime: time.Duration(n.Uptime) * time.Second, CPU: float64(n.CPU), Wait: float64(n.Wait), Idle: float64(n.Idle),
		KernelVersion: string(n.KVer),
		Kernel: Kernel{
			SysName: string(n.Kernel.SysName), Release: string(n.Kernel.Release),
			Version: string(n.Kernel.Version), Machine: string(n.Kernel.Machine),
		},
		BootMode: string(n.Boot.Mode), SecureBoot: bool(n.Boot.SecureBoot),
		CPUInfo: CPUInfo{
			Model: string(n.CPUInfo.Model), Sockets: int64(n.CPUInfo.Sockets), Cores: int64(n.CPUInfo.Cores),
			CPUs: int64(n.CPUInfo.CPUs), MHz: string(n.CPUInfo.MHz), Flags: strings.Fields(string(n.CPUInfo.Flags)),
			HVM: string(n.CPUInfo.HVM), UserHz: int64(n.CPUInfo.UserHz),
		},
		Memory: n.Memory.memory(), Swap: n.Swap.memory(), KSMShared: int64(n.KSM.Shared), PVEVersion: string(n.PVEVersion),
		RootFS: Filesystem{Total: int64(n.RootFS.Total), Used: int64(n.RootFS.Used), Free: int64(n.RootFS.Free),
			Available: int64(n.RootFS.Avail)},
	}
	for _, load := range n.LoadAvg {
		s.LoadAverage = append(s.LoadAverage, string(load))
	}
	return s
}

// Time is the time by the node's own clock, in whole seconds; it needs Sys.Audit on the node.
func (n NodeReader) Time(ctx context.Context) (time.Time, error) {
	op := "read the time of node " + n.node
	w, err := fetch[map[string]wire.String](ctx, n.client, op, "/nodes/"+n.node+"/time", nil)
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseInt(string(w["time"]), 10, 64)
	if err != nil {
		return time.Time{}, &Error{Op: op, Kind: Unknown, Message: "PVE's answer has no time"}
	}
	return time.Unix(seconds, 0), nil
}

// Status asks a node about itself; it needs Sys.Audit on it.
func (n NodeReader) Status(ctx context.Context) (NodeStatus, error) {
	w, err := fetch[nodeStatusWire](ctx, n.client, "read the status of node "+n.node, "/nodes/"+n.node+"/status", nil)
	return w.status(), err
}

// Network is one bridge or virtual network of a node.
type Network struct {
	// Name is the interface's, Type is bridge, OVSBridge or vnet.
	Name, Type string
	// Active and Autostart are absent, so false, for virtual networks.
	Active, Autostart bool
	// VLANAware is a Linux bridge's switch.
	VLANAware bool
	// CIDR is its IPv4 address, Ports the interfaces in it, separated by spaces, Comment the user's.
	CIDR, Ports, Comment string
	// MTU is 0 when not set.
	MTU int64
}

type networkWire struct {
	Iface     wire.String `json:"iface"`
	Type      wire.String `json:"type"`
	Active    wire.Bool   `json:"active"`
	Autostart wire.Bool   `json:"autostart"`
	VLANAware wire.Bool   `json:"bridge_vlan_aware"`
	CIDR      wire.String `json:"cidr"`
	Ports     wire.String `json:"bridge_ports"`
	Comments  wire.String `json:"comments"`
	MTU       wire.Int    `json:"mtu"`
}

// Networks lists the bridges and virtual networks that a VM on that node can use and this identity may see.
func (n NodeReader) Networks(ctx context.Context) ([]Network, error) {
	list, err := fetch[[]networkWire](ctx, n.client, "list the bridges of node "+n.node, "/nodes/"+n.node+"/network",
		Params{"type": "any_bridge"})
	if err != nil {
		return nil, err
	}
	out := make([]Network, 0, len(list))
	for _, w := range list {
		out = append(out, Network{
			Name: string(w.Iface), Type: string(w.Type), Active: bool(w.Active), Autostart: bool(w.Autostart),
			VLANAware: bool(w.VLANAware), CIDR: string(w.CIDR), Ports: string(w.Ports),
			Comment: strings.TrimSpace(string(w.Comments)), MTU: int64(w.MTU),
		})
	}
	return out, nil
}

// URLMetadata is the answer of a server about a file that a node could download from it. Size is 0 if it gives none.
type URLMetadata struct {
	Size      int64
	MediaType string
}

type urlMetadataWire struct {
	Size     wire.Int    `json:"size"`
	MimeType wire.String `json:"mimetype"`
}

// URLMetadata has the node send a HEAD request to an address, over the datacenter's proxy as for a download. It takes
// the privileges of a download. PVE answers any status but 200 with an error that has the status line, and a failure of
// the connection with one that begins with 500 (pve-manager API2/Nodes.pm query_url_metadata, libwww-perl). So it is
// asked once.
func (n NodeReader) URLMetadata(ctx context.Context, address string, insecure bool) (URLMetadata, error) {
	p := Params{"url": address}
	if insecure {
		p["verify-certificates"] = "0"
	}
	w, err := read[urlMetadataWire](ctx, n.client, &transport.Request{Op: "ask the server of a URL about its file",
		Method: http.MethodGet, Path: "/nodes/" + n.node + "/query-url-metadata", Params: p, Once: true})
	return URLMetadata{Size: int64(w.Size), MediaType: string(w.MimeType)}, err
}
