package datasource

import (
	"math"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// nodeModel is proxmox_node; attributes that the server does not tell are null.
type nodeModel struct {
	Name         *string       `tfsdk:"name"`
	Status       *string       `tfsdk:"status"`
	Online       *bool         `tfsdk:"online"`
	Version      *string       `tfsdk:"version"`
	Release      *string       `tfsdk:"release"`
	RepoID       *string       `tfsdk:"repoid"`
	Manager      *string       `tfsdk:"pveversion"`
	Capabilities types.Object  `tfsdk:"capabilities"`
	Uptime       *int64        `tfsdk:"uptime"`
	LoadAverage  []float64     `tfsdk:"load_average"`
	CPU          *float64      `tfsdk:"cpu"`
	Wait         *float64      `tfsdk:"wait"`
	Idle         *float64      `tfsdk:"idle"`
	CPUInfo      *cpuInfoModel `tfsdk:"cpuinfo"`
	Memory       *memoryModel  `tfsdk:"memory"`
	Swap         *memoryModel  `tfsdk:"swap"`
	RootFS       *memoryModel  `tfsdk:"rootfs"`
	KSMShared    *int64        `tfsdk:"ksm_shared"`
	KVersion     *string       `tfsdk:"kversion"`
	Kernel       *kernelModel  `tfsdk:"kernel"`
	BootMode     *string       `tfsdk:"boot_mode"`
	SecureBoot   *bool         `tfsdk:"secure_boot"`
	Fingerprint  *string       `tfsdk:"ssl_fingerprint"`
	Level        *string       `tfsdk:"level"`
}

type cpuInfoModel struct {
	Model   *string  `tfsdk:"model"`
	Sockets *int64   `tfsdk:"sockets"`
	Cores   *int64   `tfsdk:"cores"`
	CPUs    *int64   `tfsdk:"cpus"`
	MHz     *float64 `tfsdk:"mhz"`
	Flags   []string `tfsdk:"flags"`
	HVM     *bool    `tfsdk:"hvm"`
	UserHz  *int64   `tfsdk:"user_hz"`
}

type memoryModel struct {
	Total     *int64 `tfsdk:"total"`
	Used      *int64 `tfsdk:"used"`
	Free      *int64 `tfsdk:"free"`
	Available *int64 `tfsdk:"available"`
}

type kernelModel struct {
	SysName *string `tfsdk:"sysname"`
	Release *string `tfsdk:"release"`
	Version *string `tfsdk:"version"`
	Machine *string `tfsdk:"machine"`
}

// nodeOf returns the facts of the cluster's list of nodes, which includes offline nodes.
func nodeOf(n pve.Node) nodeModel {
	online := n.Status == "online"
	return nodeModel{Name: &n.Name, Status: &n.Status, Online: &online, Capabilities: types.ObjectNull(capabilityTypes()),
		Fingerprint: kit.NonZero(n.SSLFingerprint), Level: kit.NonZero(n.Level)}
}

func (n *nodeModel) versionIs(v pve.Version) {
	n.Version, n.Release, n.RepoID, n.Capabilities = kit.NonZero(v.Version), kit.NonZero(v.Release), kit.NonZero(v.RepoID),
		capabilitiesOf(v)
}

func (n *nodeModel) statusIs(s pve.NodeStatus) {
	uptime := int64(s.Uptime.Seconds())
	n.Uptime, n.Manager, n.KVersion = &uptime, kit.NonZero(s.PVEVersion), kit.NonZero(s.KernelVersion)
	n.CPU, n.Wait, n.Idle, n.KSMShared = &s.CPU, &s.Wait, &s.Idle, &s.KSMShared
	n.LoadAverage = numbers(s.LoadAverage)
	n.CPUInfo = &cpuInfoModel{Model: kit.NonZero(s.CPUInfo.Model), Sockets: &s.CPUInfo.Sockets, Cores: &s.CPUInfo.Cores,
		CPUs:  &s.CPUInfo.CPUs,
		Flags: s.CPUInfo.Flags, UserHz: kit.NonZero(s.CPUInfo.UserHz)}
	hvm := s.CPUInfo.HVM == "1"
	n.CPUInfo.HVM = &hvm
	if mhz := numbers([]string{s.CPUInfo.MHz}); len(mhz) == 1 {
		n.CPUInfo.MHz = &mhz[0]
	}
	n.Memory = &memoryModel{Total: &s.Memory.Total, Used: &s.Memory.Used, Free: &s.Memory.Free,
		Available: kit.NonZero(s.Memory.Available)}
	n.Swap = &memoryModel{Total: &s.Swap.Total, Used: &s.Swap.Used, Free: &s.Swap.Free}
	n.RootFS = &memoryModel{Total: &s.RootFS.Total, Used: &s.RootFS.Used, Free: &s.RootFS.Free,
		Available: &s.RootFS.Available}
	if k := s.Kernel; k != (pve.Kernel{}) {
		n.Kernel = &kernelModel{SysName: kit.NonZero(k.SysName), Release: kit.NonZero(k.Release),
			Version: kit.NonZero(k.Version),
			Machine: kit.NonZero(k.Machine)}
	}
	if s.BootMode != "" {
		n.BootMode = &s.BootMode
		n.SecureBoot = &s.SecureBoot
	}
}

// numbers parses numbers that PVE prints as text; other texts are left out.
func numbers(texts []string) []float64 {
	var all []float64
	for _, text := range texts {
		if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			all = append(all, f)
		}
	}
	return all
}
