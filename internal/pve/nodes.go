package pve

import (
	"context"
	"strings"
	"time"
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
	Node           flexString `json:"node"`
	Status         flexString `json:"status"`
	CPU            flexFloat  `json:"cpu"`
	MaxCPU         flexInt    `json:"maxcpu"`
	Mem            flexInt    `json:"mem"`
	MaxMem         flexInt    `json:"maxmem"`
	Disk           flexInt    `json:"disk"`
	MaxDisk        flexInt    `json:"maxdisk"`
	Uptime         flexInt    `json:"uptime"`
	Level          flexString `json:"level"`
	SSLFingerprint flexString `json:"ssl_fingerprint"`
}

// Nodes lists the cluster's nodes.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	wire, err := fetch[[]nodeWire](ctx, c, "list the nodes", "/nodes", nil)
	if err != nil {
		return nil, err
	}
	out := make([]Node, 0, len(wire))
	for _, w := range wire {
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
	Total     flexInt `json:"total"`
	Used      flexInt `json:"used"`
	Free      flexInt `json:"free"`
	Available flexInt `json:"available"`
	Avail     flexInt `json:"avail"`
}

func (w memoryWire) memory() Memory {
	return Memory{Total: int64(w.Total), Used: int64(w.Used), Free: int64(w.Free), Available: int64(w.Available)}
}

type nodeStatusWire struct {
	Uptime  flexInt      `json:"uptime"`
	CPU     flexFloat    `json:"cpu"`
	Wait    flexFloat    `json:"wait"`
	Idle    flexFloat    `json:"idle"`
	LoadAvg []flexString `json:"loadavg"`
	KVer    flexString   `json:"kversion"`
	Kernel  struct {
		SysName flexString `json:"sysname"`
		Release flexString `json:"release"`
		Version flexString `json:"version"`
		Machine flexString `json:"machine"`
	} `json:"current-kernel"`
	Boot struct {
		Mode       flexString `json:"mode"`
		SecureBoot flexBool   `json:"secureboot"`
	} `json:"boot-info"`
	CPUInfo struct {
		Model   flexString `json:"model"`
		Sockets flexInt    `json:"sockets"`
		Cores   flexInt    `json:"cores"`
		CPUs    flexInt    `json:"cpus"`
		MHz     flexString `json:"mhz"`
		Flags   flexString `json:"flags"`
		HVM     flexString `json:"hvm"`
		UserHz  flexInt    `json:"user_hz"`
	} `json:"cpuinfo"`
	Memory memoryWire `json:"memory"`
	Swap   memoryWire `json:"swap"`
	KSM    struct {
		Shared flexInt `json:"shared"`
	} `json:"ksm"`
	PVEVersion flexString `json:"pveversion"`
	RootFS     memoryWire `json:"rootfs"`
}

func (w nodeStatusWire) status() NodeStatus {
	s := NodeStatus{
		Uptime: time.Duration(w.Uptime) * time.Second, CPU: float64(w.CPU), Wait: float64(w.Wait), Idle: float64(w.Idle),
		KernelVersion: string(w.KVer),
		Kernel: Kernel{
			SysName: string(w.Kernel.SysName), Release: string(w.Kernel.Release),
			Version: string(w.Kernel.Version), Machine: string(w.Kernel.Machine),
		},
		BootMode: string(w.Boot.Mode), SecureBoot: bool(w.Boot.SecureBoot),
		CPUInfo: CPUInfo{
			Model: string(w.CPUInfo.Model), Sockets: int64(w.CPUInfo.Sockets), Cores: int64(w.CPUInfo.Cores),
			CPUs: int64(w.CPUInfo.CPUs), MHz: string(w.CPUInfo.MHz), Flags: strings.Fields(string(w.CPUInfo.Flags)),
			HVM: string(w.CPUInfo.HVM), UserHz: int64(w.CPUInfo.UserHz),
		},
		Memory: w.Memory.memory(), Swap: w.Swap.memory(), KSMShared: int64(w.KSM.Shared), PVEVersion: string(w.PVEVersion),
		RootFS: Filesystem{Total: int64(w.RootFS.Total), Used: int64(w.RootFS.Used), Free: int64(w.RootFS.Free),
			Available: int64(w.RootFS.Avail)},
	}
	for _, load := range w.LoadAvg {
		s.LoadAverage = append(s.LoadAverage, string(load))
	}
	return s
}

// NodeStatus asks a node about itself; it needs Sys.Audit on it.
func (c *Client) NodeStatus(ctx context.Context, node string) (NodeStatus, error) {
	w, err := fetch[nodeStatusWire](ctx, c, "read the status of node "+node, "/nodes/"+node+"/status", nil)
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
	Iface     flexString `json:"iface"`
	Type      flexString `json:"type"`
	Active    flexBool   `json:"active"`
	Autostart flexBool   `json:"autostart"`
	VLANAware flexBool   `json:"bridge_vlan_aware"`
	CIDR      flexString `json:"cidr"`
	Ports     flexString `json:"bridge_ports"`
	Comments  flexString `json:"comments"`
	MTU       flexInt    `json:"mtu"`
}

// Networks lists the bridges and virtual networks that a VM on that node can use and this identity may see.
func (c *Client) Networks(ctx context.Context, node string) ([]Network, error) {
	wire, err := fetch[[]networkWire](ctx, c, "list the bridges of node "+node, "/nodes/"+node+"/network", Params{"type": "any_bridge"})
	if err != nil {
		return nil, err
	}
	out := make([]Network, 0, len(wire))
	for _, w := range wire {
		out = append(out, Network{
			Name: string(w.Iface), Type: string(w.Type), Active: bool(w.Active), Autostart: bool(w.Autostart),
			VLANAware: bool(w.VLANAware), CIDR: string(w.CIDR), Ports: string(w.Ports),
			Comment: strings.TrimSpace(string(w.Comments)), MTU: int64(w.MTU),
		})
	}
	return out, nil
}
