package vmschema

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

// groupAttributes are the options of the machine that have sub-keys (qemu-server QemuServer.pm and the formats that it
// names). With audio, rng, ivshmem, amd_sev and intel_tdx one sub-key is required.
func groupAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"machine_options": optionGroup("Further options of the machine type. Changes take effect at the next stop and start.",
			map[string]schema.Attribute{
				"viommu": textOption("Virtual IOMMU: `intel` (only with `q35`) or `virtio`. PVE 8.2 or later. PVE's default: none.",
					oneWord("intel", "virtio")),
				"aw_bits":   countOption("Address width of the virtual IOMMU in bits. PVE 9.1 or later. PVE's default: QEMU's.", between(32, 64)),
				"enable_s3": flagOption("Let the guest suspend to memory. PVE 8.4 or later. PVE's default: as the machine version has it."),
				"enable_s4": flagOption("Let the guest suspend to disk. PVE 8.4 or later. PVE's default: as the machine version has it."),
			}),
		"smbios": optionGroup("What the guest reads about its machine (SMBIOS type 1); at most 512 characters together.",
			map[string]schema.Attribute{
				"uuid": textOption("UUID of the machine. Default: PVE makes one, and the VM keeps it. By it the provider knows the VM again.",
					stringvalidator.RegexMatches(machineUUID, "must be a UUID")),
				"manufacturer": smbiosText("Manufacturer."),
				"product":      smbiosText("Product."),
				"version":      smbiosText("Version."),
				"serial":       smbiosText("Serial number. Cloud-init reads `ds=nocloud;…` from here."),
				"sku":          smbiosText("SKU."),
				"family":       smbiosText("Family."),
			}),
		"vga": optionGroup("The display.", map[string]schema.Attribute{
			"type": textOption("`std`, `virtio`, `virtio-gl` (3D), `qxl` (SPICE), `qxl2`–`qxl4` (several monitors), `vmware`, `cirrus`, "+
				"`serial0`–`serial3` (a text console on that serial port), `none`. PVE's default: `std`.",
				oneWord("std", "cirrus", "qxl", "qxl2", "qxl3", "qxl4", "virtio", "virtio-gl", "vmware", "none", "serial0", "serial1", "serial2",
					"serial3")),
			"memory": countOption("Video memory in MiB, 4 to 512. Without effect on serial consoles. PVE's default: by type.", between(4, 512)),
			"clipboard": textOption("`vnc`: a clipboard shared with noVNC, in the place of SPICE's. PVE 8.1 or later. PVE's default: none.",
				oneWord("vnc")),
		}),
		"audio": optionGroup("A sound card. `device` is required with it.", map[string]schema.Attribute{
			"device": textOption("`ich9-intel-hda`, `intel-hda` or `AC97`.", oneWord("ich9-intel-hda", "intel-hda", "AC97")),
			"driver": textOption("Where the sound goes: `spice` or `none`. PVE's default: `spice`.", oneWord("spice", "none")),
		}),
		"rng": optionGroup("A source of random numbers for the guest. `source` is required with it.", map[string]schema.Attribute{
			"source": textOption("`/dev/urandom`, `/dev/random` or `/dev/hwrng` of the node.",
				oneWord("/dev/urandom", "/dev/random", "/dev/hwrng")),
			"max_bytes": countOption("Bytes for the guest in each `period`; 0 = no limit. PVE's default: 1024.", atLeast(0)),
			"period":    countOption("Period in milliseconds. PVE's default: 1000.", atLeast(1)),
		}),
		"watchdog": optionGroup("A watchdog: when the guest no longer feeds it, something happens.", map[string]schema.Attribute{
			"model": textOption("`i6300esb` or `ib700`. PVE's default: `i6300esb`.", oneWord("i6300esb", "ib700")),
			"action": textOption("`reset`, `shutdown`, `poweroff`, `pause`, `debug` or `none`. PVE's default: QEMU's, `reset`.",
				oneWord("reset", "shutdown", "poweroff", "pause", "debug", "none")),
		}),
		"spice_enhancements": optionGroup("Extras of SPICE."+onlyRoot, map[string]schema.Attribute{
			"foldersharing": flagOption("Share folders through SPICE; needs the WebDAV daemon in the guest. PVE's default: `false`."),
			"videostreaming": textOption("Compress regions that look like video: `off`, `all`, `filter`. PVE's default: `off`.",
				oneWord("off", "all", "filter")),
		}),
		"ivshmem": optionGroup("Memory shared with other VMs and the node. `size` is required with it."+onlyRoot, map[string]schema.Attribute{
			"size": countOption("Size in MiB.", atLeast(1)),
			"name": textOption("Name of the file under `/dev/shm`, after `pve-shm-`. PVE's default: the VMID.",
				stringvalidator.RegexMatches(sharedName, "must be letters, digits and hyphens")),
		}),
		"amd_sev": optionGroup("Memory encrypted by AMD SEV. `type` is required with it; needs `bios = \"ovmf\"` and `machine = \"q35\"`. PVE "+
			"8.3 or later."+onlyRoot, map[string]schema.Attribute{
			"type":           textOption("`std`, `es` (registers too) or `snp` (integrity too).", oneWord("std", "es", "snp")),
			"no_debug":       flagOption("Forbid debugging of the guest. PVE's default: `false`."),
			"no_key_sharing": flagOption("Forbid sharing the key with other guests; not for `snp`. PVE's default: `false`."),
			"allow_smt":      flagOption("Let the guest run on hosts with simultaneous multithreading; for `snp`. PVE's default: `true`."),
			"kernel_hashes":  flagOption("Put hashes of kernel, initrd and command line into the measurement. PVE's default: `false`."),
		}),
		"intel_tdx": optionGroup("A trust domain of Intel TDX. `type` is required with it; needs `bios = \"ovmf\"` and `machine = \"q35\"`. "+
			"PVE 9.1 or later."+onlyRoot, map[string]schema.Attribute{
			"type":        textOption("`tdx`.", oneWord("tdx")),
			"attestation": flagOption("Attestation by the quote generation service. PVE's default: `true`."),
			"vsock_cid":   countOption("CID of the quote generation service, 2 or more. PVE's default: 2, the node.", atLeast(2)),
			"vsock_port":  countOption("Port of the quote generation service. PVE's default: 4050.", between(1, 65535)),
		}),
	}
}

func smbiosText(about string) schema.StringAttribute {
	return textOption(about, stringvalidator.LengthBetween(1, 300))
}
