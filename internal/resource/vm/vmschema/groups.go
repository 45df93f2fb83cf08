package vmschema

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// groupAttributes are the options of the machine that have sub-keys (qemu-server QemuServer.pm and the formats that it
// names). With audio, rng, ivshmem, amd_sev and intel_tdx one sub-key is required.
func groupAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"machine_options": optionGroup("Further options of the machine type.",
			map[string]schema.Attribute{
				"viommu": textOption("Virtual IOMMU: `intel` (only with `q35`) or `virtio`.",
					oneWord("intel", "virtio")),
				"aw_bits":   countOption("Address width of the virtual IOMMU in bits.", between(32, 64)),
				"enable_s3": flagOption("Let the guest suspend to memory."),
				"enable_s4": flagOption("Let the guest suspend to disk."),
			}),
		"smbios": optionGroup("What the guest reads about its machine (SMBIOS type 1); at most 512 characters together.",
			map[string]schema.Attribute{
				"uuid": textOption("UUID of the machine. Default: PVE makes one, and the VM keeps it. By it the provider knows "+
					"the VM again.",
					kit.UUID()),
				"manufacturer": smbiosText("Manufacturer."),
				"product":      smbiosText("Product."),
				"version":      smbiosText("Version."),
				"serial":       smbiosText("Serial number. Cloud-init reads `ds=nocloud;…` from here."),
				"sku":          smbiosText("SKU."),
				"family":       smbiosText("Family."),
			}),
		"vga": optionGroup("The display.", map[string]schema.Attribute{
			"type": textOption("`std`, `virtio`, `virtio-gl` (3D), `qxl` (SPICE), `qxl2`–`qxl4` (several monitors), "+
				"`vmware`, `cirrus`, `serial0`–`serial3` (a text console on that serial port), `none`.",
				oneWord("std", "cirrus", "qxl", "qxl2", "qxl3", "qxl4", "virtio", "virtio-gl", "vmware", "none", "serial0",
					"serial1", "serial2",
					"serial3")),
			"memory": countOption("Video memory in MiB, 4 to 512. Without effect on serial consoles.", between(4, 512)),
			"clipboard": textOption("`vnc`: a clipboard shared with noVNC, in the place of SPICE's.",
				oneWord("vnc")),
		}),
		"audio": optionGroup("A sound card. `device` is required with it.", map[string]schema.Attribute{
			"device": textOption("`ich9-intel-hda`, `intel-hda` or `AC97`.", oneWord("ich9-intel-hda", "intel-hda", "AC97")),
			"driver": textOption("Where the sound goes: `spice` or `none`.", oneWord("spice", "none")),
		}),
		"rng": optionGroup("A source of random numbers for the guest. `source` is required with it.",
			map[string]schema.Attribute{
				"source": textOption("`/dev/urandom`, `/dev/random` or `/dev/hwrng` of the node.",
					oneWord("/dev/urandom", "/dev/random", "/dev/hwrng")),
				"max_bytes": countOption("Bytes for the guest in each `period`; 0 = no limit.", atLeast(0)),
				"period":    countOption("Period in milliseconds.", atLeast(1)),
			}),
		"watchdog": optionGroup("A watchdog: when the guest no longer feeds it, something happens.",
			map[string]schema.Attribute{
				"model": textOption("`i6300esb` or `ib700`.", oneWord("i6300esb", "ib700")),
				"action": textOption("`reset`, `shutdown`, `poweroff`, `pause`, `debug` or `none`.",
					oneWord("reset", "shutdown", "poweroff", "pause", "debug", "none")),
			}),
		"spice_enhancements": optionGroup("Extras of SPICE.", map[string]schema.Attribute{
			"foldersharing": flagOption("Share folders through SPICE; needs the WebDAV daemon in the guest."),
			"videostreaming": textOption("Compress regions that look like video: `off`, `all`, `filter`.",
				oneWord("off", "all", "filter")),
		}),
		"ivshmem": optionGroup("Memory shared with other VMs and the node. `size` is required with it.",
			map[string]schema.Attribute{
				"size": countOption("Size in MiB.", atLeast(1)),
				"name": textOption("Name of the file under `/dev/shm`, after `pve-shm-`.",
					stringvalidator.RegexMatches(sharedName, "must be letters, digits and hyphens")),
			}),
		"amd_sev": optionGroup("Memory encrypted by AMD SEV. `type` is required with it; needs `bios = \"ovmf\"` and "+
			"`machine = \"q35\"`.", map[string]schema.Attribute{
			"type":           textOption("`std`, `es` (registers too) or `snp` (integrity too).", oneWord("std", "es", "snp")),
			"no_debug":       flagOption("Forbid debugging of the guest."),
			"no_key_sharing": flagOption("Forbid sharing the key with other guests; not for `snp`."),
			"allow_smt":      flagOption("Let the guest run on hosts with simultaneous multithreading; for `snp`."),
			"kernel_hashes":  flagOption("Put hashes of kernel, initrd and command line into the measurement."),
		}),
		"intel_tdx": optionGroup("A trust domain of Intel TDX. `type` is required with it; needs `bios = \"ovmf\"` and "+
			"`machine = \"q35\"`.", map[string]schema.Attribute{
			"type":        textOption("`tdx`.", oneWord("tdx")),
			"attestation": flagOption("Attestation by the quote generation service."),
			"vsock_cid":   countOption("CID of the quote generation service, 2 or more.", atLeast(2)),
			"vsock_port":  countOption("Port of the quote generation service.", between(1, 65535)),
		}),
	}
}

func smbiosText(about string) schema.StringAttribute {
	return textOption(about, stringvalidator.LengthBetween(1, 300))
}
