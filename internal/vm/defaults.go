package vm

import (
	"slices"
	"strings"
)

// The values of a device where neither the configuration nor the template has one.
const (
	// DefaultCloudInitSlot is where a cloud-init drive goes.
	DefaultCloudInitSlot = "ide2"
	// DefaultNICModel is the model of a network device.
	DefaultNICModel = "virtio"
)

// Complete gives devices that the template does not have what PVE needs to make them.
func Complete(want *Spec) {
	for slot, nic := range want.Networks {
		if nic.Model == "" {
			nic.Model = DefaultNICModel
			want.Networks[slot] = nic
		}
	}
	if want.CloudInit.Storage != "" && want.CloudInit.Slot == "" {
		want.CloudInit.Slot = DefaultCloudInitSlot
	}
}

// IsCommonCPU reports whether every PVE since 8.0 has a CPU model, so that no request has to ask (qemu-server 8.0.6
// QemuServer/CPUConfig.pm, cpu_vendor_list and builtin_models; none of them is gone in 9).
func IsCommonCPU(model string) bool {
	return slices.Contains(strings.Fields(commonCPUs), model)
}

const commonCPUs = `
	486 athlon Broadwell Broadwell-IBRS Broadwell-noTSX Broadwell-noTSX-IBRS Cascadelake-Server Cascadelake-Server-noTSX
	Cascadelake-Server-v2 Cascadelake-Server-v4 Cascadelake-Server-v5 Conroe Cooperlake Cooperlake-v2 core2duo coreduo EPYC
	EPYC-IBPB EPYC-Milan EPYC-Rome EPYC-Rome-v2 EPYC-v3 Haswell Haswell-IBRS Haswell-noTSX Haswell-noTSX-IBRS host
	Icelake-Client Icelake-Client-noTSX Icelake-Server Icelake-Server-noTSX Icelake-Server-v3 Icelake-Server-v4
	Icelake-Server-v5 Icelake-Server-v6 IvyBridge IvyBridge-IBRS KnightsMill kvm32 kvm64 max Nehalem
	Nehalem-IBRS Opteron_G1 Opteron_G2 Opteron_G3 Opteron_G4 Opteron_G5 Penryn pentium pentium2 pentium3 phenom qemu32
	qemu64
	SandyBridge
	SandyBridge-IBRS SapphireRapids Skylake-Client Skylake-Client-IBRS Skylake-Client-noTSX-IBRS Skylake-Client-v4
	Skylake-Server Skylake-Server-IBRS Skylake-Server-noTSX-IBRS Skylake-Server-v4 Skylake-Server-v5 Westmere Westmere-IBRS
	x86-64-v2 x86-64-v2-AES x86-64-v3 x86-64-v4`
