package cluster

import (
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
)

// cpuModels are the CPU types of PVE 8.4 by vendor (QemuServer/CPUConfig.pm).
func cpuModels() map[string][]string {
	return map[string][]string{
		"AuthenticAMD": strings.Fields(`athlon EPYC EPYC-Genoa EPYC-IBPB EPYC-Milan EPYC-Milan-v2 EPYC-Rome EPYC-Rome-v2
			EPYC-Rome-v3
			EPYC-Rome-v4 EPYC-v3 EPYC-v4 Opteron_G1 Opteron_G2 Opteron_G3 Opteron_G4 Opteron_G5 phenom`),
		"GenuineIntel": strings.Fields(`486 Broadwell Broadwell-IBRS Broadwell-noTSX Broadwell-noTSX-IBRS Cascadelake-Server
			Cascadelake-Server-noTSX Cascadelake-Server-v2 Cascadelake-Server-v4 Cascadelake-Server-v5 Conroe
			Cooperlake Cooperlake-v2 core2duo coreduo GraniteRapids Haswell Haswell-IBRS Haswell-noTSX
			Haswell-noTSX-IBRS Icelake-Client Icelake-Client-noTSX Icelake-Server Icelake-Server-noTSX
			Icelake-Server-v3 Icelake-Server-v4 Icelake-Server-v5 Icelake-Server-v6 IvyBridge IvyBridge-IBRS
			KnightsMill Nehalem Nehalem-IBRS Penryn pentium pentium2 pentium3 SandyBridge SandyBridge-IBRS
			SapphireRapids SapphireRapids-v2 Skylake-Client Skylake-Client-IBRS Skylake-Client-noTSX-IBRS
			Skylake-Client-v4 Skylake-Server Skylake-Server-IBRS Skylake-Server-noTSX-IBRS Skylake-Server-v4
			Skylake-Server-v5 Westmere Westmere-IBRS`),
		"default": strings.Fields(`host kvm32 kvm64 max qemu32 qemu64 x86-64-v2 x86-64-v2-AES x86-64-v3 x86-64-v4`),
	}
}

// listCPUModels is GET /nodes/{node}/capabilities/qemu/cpu. There are no custom models.
func listCPUModels(*engine.Request) (any, error) {
	list := []any{}
	for vendor, names := range cpuModels() {
		for _, name := range names {
			list = append(list, map[string]any{"name": name, "vendor": vendor, "custom": 0})
		}
	}
	return list, nil
}
