package tfnode

import (
	"math"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// nodeModel is proxmox_node; what the server does not tell is null.
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

// listed is what the cluster's list of nodes says; it has a node that is offline too.
func listed(n pve.Node) nodeModel {
	online := n.Status == "online"
	return nodeModel{Name: &n.Name, Status: &n.Status, Online: &online, Capabilities: types.ObjectNull(capabilityTypes()),
		Fingerprint: tfkit.NonZero(n.SSLFingerprint), Level: tfkit.NonZero(n.Level)}
}

func (m *nodeModel) versionIs(v pve.Version) {
	m.Version, m.Release, m.RepoID, m.Capabilities = tfkit.NonZero(v.Version), tfkit.NonZero(v.Release), tfkit.NonZero(v.RepoID),
		capabilitiesOf(v)
}

func (m *nodeModel) statusIs(s pve.NodeStatus) {
	uptime := int64(s.Uptime.Seconds())
	m.Uptime, m.Manager, m.KVersion = &uptime, tfkit.NonZero(s.PVEVersion), tfkit.NonZero(s.KernelVersion)
	m.CPU, m.Wait, m.Idle, m.KSMShared = &s.CPU, &s.Wait, &s.Idle, &s.KSMShared
	m.LoadAverage = numbers(s.LoadAverage)
	m.CPUInfo = &cpuInfoModel{Model: tfkit.NonZero(s.CPUInfo.Model), Sockets: &s.CPUInfo.Sockets, Cores: &s.CPUInfo.Cores,
		CPUs:  &s.CPUInfo.CPUs,
		Flags: s.CPUInfo.Flags, UserHz: tfkit.NonZero(s.CPUInfo.UserHz)}
	hvm := s.CPUInfo.HVM == "1"
	m.CPUInfo.HVM = &hvm
	if mhz := numbers([]string{s.CPUInfo.MHz}); len(mhz) == 1 {
		m.CPUInfo.MHz = &mhz[0]
	}
	m.Memory = &memoryModel{Total: &s.Memory.Total, Used: &s.Memory.Used, Free: &s.Memory.Free, Available: tfkit.NonZero(s.Memory.Available)}
	m.Swap = &memoryModel{Total: &s.Swap.Total, Used: &s.Swap.Used, Free: &s.Swap.Free}
	m.RootFS = &memoryModel{Total: &s.RootFS.Total, Used: &s.RootFS.Used, Free: &s.RootFS.Free, Available: &s.RootFS.Available}
	if k := s.Kernel; k != (pve.Kernel{}) {
		m.Kernel = &kernelModel{SysName: tfkit.NonZero(k.SysName), Release: tfkit.NonZero(k.Release), Version: tfkit.NonZero(k.Version),
			Machine: tfkit.NonZero(k.Machine)}
	}
	if s.BootMode != "" {
		m.BootMode = &s.BootMode
		m.SecureBoot = &s.SecureBoot
	}
}

// numbers parses what PVE prints as text; what is no number is left out.
func numbers(texts []string) []float64 {
	var all []float64
	for _, text := range texts {
		if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			all = append(all, f)
		}
	}
	return all
}
