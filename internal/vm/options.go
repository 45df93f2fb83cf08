package vm

import (
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/cloudinit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// options is the table of PVE's options that are one value or one property string. Slotted devices are in families and
// buses; cipassword is special because it can only be written.
var options = sync.OnceValue(func() []leaf[Spec] {
	return slices.Concat(generalOptions(), machineOptions(), groupOptions(), processorOptions(), cloudInitOptions())
})

var optionsByKey = sync.OnceValue(func() map[string]leaf[Spec] {
	all := map[string]leaf[Spec]{}
	for _, o := range options() {
		all[o.key] = o
	}
	return all
})

// The advice to an identity about an option that only root may set.
const (
	withQM      = "leave the attribute out and set the option on the node with qm set"
	withMapping = "use the attribute mapping: root makes a resource mapping of the datacenter once, and Mapping.Use on " +
		"it is enough then"
)

func generalOptions() []leaf[Spec] {
	return []leaf[Spec]{
		text("name", func(s *Spec) **string { return &s.Name }, configOptions, immediate),
		description(configOptions, immediate, keepsStatus),
		tags(configOptions, keepsStatus),
		flag("onboot", func(s *Spec) **bool { return &s.OnBoot },
			configOptions, immediate, initial("false"), keepsStatus),
		flag("autostart", func(s *Spec) **bool { return &s.AutoStart }, configOptions, atStart, initial("false")),
		flag("protection", func(s *Spec) **bool { return &s.Protection },
			configOptions, immediate, initial("false"), keepsStatus),
		flag("template", func(s *Spec) **bool { return &s.Template }, needs("VM.Allocate"), initial("false"), namesVolume),
		group("machine", machineFormat(), func(s *Spec) *Spec { return s }, configHWType, atStart),
		text("bios", func(s *Spec) **string { return &s.BIOS }, configOptions, atStart, initial("seabios")),
		text("ostype", func(s *Spec) **string { return &s.OSType }, configOptions, atStart, usually("`other`")),
		text("scsihw", func(s *Spec) **string { return &s.SCSIHW }, configHWType, atStart, initial("lsi")),
		bootOption(),
		text("vmstatestorage", func(s *Spec) **string { return &s.VMStateStorage },
			configDisk, immediate, usually("chosen when needed")),
		decimal("migrate_downtime", func(s *Spec) **float64 { return &s.MigrateDowntime },
			configOptions, immediate, usually("0.1")),
		integer("migrate_speed", func(s *Spec) **int64 { return &s.MigrateSpeed }, configOptions, immediate, initial("0")),
		text("hookscript", func(s *Spec) **string { return &s.HookScript }, rootOnly(withQM), immediate,
			namesVolume),
		text("args", func(s *Spec) **string { return &s.Args }, rootOnly(withQM), atStart, namesVolume),
	}
}

func machineOptions() []leaf[Spec] {
	return []leaf[Spec]{
		flag("acpi", func(s *Spec) **bool { return &s.ACPI }, configHWType, atStart, initial("true")),
		flag("kvm", func(s *Spec) **bool { return &s.KVM }, configHWType, atStart, usually("`true`")),
		flag("tablet", func(s *Spec) **bool { return &s.Tablet }, configHWType, plugged("usb"), initial("true")),
		flag("localtime", func(s *Spec) **bool { return &s.LocalTime }, configOptions, atStart,
			usually("`true` for Windows, else `false`")),
		flag("tdf", func(s *Spec) **bool { return &s.TDF }, configOptions, atStart, initial("false")),
		flag("reboot", func(s *Spec) **bool { return &s.Reboot }, configOptions, atStart, initial("true")),
		flag("freeze", func(s *Spec) **bool { return &s.Freeze }, needs("VM.PowerMgmt"), atStart, initial("false")),
		text("keyboard", func(s *Spec) **string { return &s.Keyboard }, configOptions, atStart,
			usually("the datacenter's, which is the best choice with noVNC")),
		hotplugOption(),
		text("startdate", func(s *Spec) **string { return &s.StartDate }, configOptions, atStart, initial("now")),
		text("arch", func(s *Spec) **string { return &s.Arch }, atStart, usually("the node's"),
			rootOnly("leave the attribute out: the VM has the architecture of the node then")),
		text("vmgenid", func(s *Spec) **string { return &s.VMGenID }, atStart,
			rootOnly("leave the attribute out: PVE gives every VM a generation id")),
	}
}

func processorOptions() []leaf[Spec] {
	return []leaf[Spec]{
		group("cpu", cpuFormat(), func(s *Spec) *CPU { return &s.CPU }, configCPU, atStart),
		integer("sockets", func(s *Spec) **int64 { return &s.CPU.Sockets },
			at("cpu.sockets"), configCPU, atStart, initial("1")),
		integer("cores", func(s *Spec) **int64 { return &s.CPU.Cores }, at("cpu.cores"), configCPU, atStart, initial("1")),
		integer("vcpus", func(s *Spec) **int64 { return &s.CPU.VCPUs },
			at("cpu.vcpus"), configCPU, plugged("cpu"), usually("all")),
		decimal("cpulimit", func(s *Spec) **float64 { return &s.CPU.Limit }, at("cpu.limit"), configCPU, initial("0")),
		integer("cpuunits", func(s *Spec) **int64 { return &s.CPU.Units }, at("cpu.units"), configCPU, usually("100")),
		text("affinity", func(s *Spec) **string { return &s.CPU.Affinity }, at("cpu.affinity"), rootOnly(withQM), atStart),
		flag("numa", func(s *Spec) **bool { return &s.CPU.NUMA }, at("cpu.numa"), configCPU, atStart, initial("false")),
		memoryOption(),
		integer("balloon", func(s *Spec) **int64 { return &s.Memory.Balloon },
			at("memory.balloon"), configMemory, usually("`size`")),
		integer("shares", func(s *Spec) **int64 { return &s.Memory.Shares },
			at("memory.shares"), configMemory, immediate, initial("1000")),
		text("hugepages", func(s *Spec) **string { return &s.Memory.Hugepages },
			at("memory.hugepages"), rootOnly(withQM), atStart),
		flag("keephugepages", func(s *Spec) **bool { return &s.Memory.KeepHugepages },
			at("memory.keephugepages"), rootOnly(withQM), atStart, initial("false")),
		flag("allow-ksm", func(s *Spec) **bool { return &s.Memory.AllowKSM },
			at("memory.allow_ksm"), configMemory, atStart, usually("`true`"), since(9, 0, 12, "9.1",
				"qemu-server 9.0.27: QemuServer.pm, confdesc (ae91d137)")),
	}
}

func cloudInitOptions() []leaf[Spec] {
	return []leaf[Spec]{
		text("citype", func(s *Spec) **string { return &s.CloudInit.Type }, at("cloud_init.type"), configCloudInit,
			usually("`nocloud`, for Windows `configdrive2`")),
		text("ciuser", func(s *Spec) **string { return &s.CloudInit.User }, at("cloud_init.user"), configCloudInit),
		list("sshkeys", func(s *Spec) *[]string { return &s.CloudInit.SSHKeys }, cloudinit.DecodeSSHKeys,
			cloudinit.EncodeSSHKeys,
			at("cloud_init.ssh_keys"), configCloudInit),
		list("nameserver", func(s *Spec) *[]string { return &s.CloudInit.Nameservers }, property.SplitList,
			property.JoinSpace,
			at("cloud_init.nameservers"), configCloudInit, usually("those of the node")),
		text("searchdomain", func(s *Spec) **string { return &s.CloudInit.SearchDomain },
			at("cloud_init.searchdomain"), configCloudInit, usually("that of the node")),
		flag("ciupgrade", func(s *Spec) **bool { return &s.CloudInit.Upgrade },
			at("cloud_init.upgrade"), configCloudInit, initial("true")),
		customOption(),
	}
}

// bootOption is boot. A VM that boots from nothing has a blank value (seen on 8.4). PVE's deprecated forms, letters
// ("cdn") and bootdisk, are read by legacyBoot and written as an order. An order with unknown sub-keys beside it is
// left alone.
func bootOption() leaf[Spec] {
	return leaf[Spec]{
		key:   "boot",
		facts: collect(at("boot_order"), configDisk, atStart),
		keys:  func() []string { return []string{"order", "legacy"} },
		read: func(s *Spec, value string) bool {
			order, found := strings.CutPrefix(value, "order=")
			if strings.TrimSpace(value) != "" && !found || strings.Contains(value, ",") {
				return false
			}
			s.BootOrder = append([]string{}, property.SplitList(order)...)
			return true
		},
		show: func(s *Spec) (string, bool) {
			if s.BootOrder != nil && len(s.BootOrder) == 0 {
				return " ", true
			}
			return "order=" + strings.Join(s.BootOrder, ";"), s.BootOrder != nil
		},
		merge: func(dst, want *Spec) {
			if want.BootOrder != nil {
				dst.BootOrder = slices.Clone(want.BootOrder)
			}
		},
	}
}

func memoryOption() leaf[Spec] {
	o := scalar("memory", func(s *Spec) **int64 { return &s.Memory.Size }, property.ParseMemory, property.ShowInteger,
		at("memory.size"), configMemory, plugged("memory"), initial("512"))
	o.keys = func() []string { return []string{"current"} }
	return o
}

// hotplugOption is hotplug. "1" stands for PVE's default features, "0" for none (qemu-server QemuServer/Helpers.pm
// parse_hotplug_features).
func hotplugOption() leaf[Spec] {
	return leaf[Spec]{
		key:   "hotplug",
		facts: collect(configHWType, usually("`disk`, `network`, `usb`")),
		read: func(s *Spec, value string) bool {
			switch strings.TrimSpace(value) {
			case "0":
				s.Hotplug = []string{}
				return true
			case "1":
				value = "disk,network,usb"
			}
			features := property.ParseFlags(value)
			if len(features) == 0 || slices.Contains(features, "0") || slices.Contains(features, "1") {
				return false
			}
			s.Hotplug = features
			return true
		},
		show: func(s *Spec) (string, bool) {
			if s.Hotplug != nil && len(s.Hotplug) == 0 {
				return "0", true
			}
			return strings.Join(property.ParseFlags(strings.Join(s.Hotplug, ",")), ","), s.Hotplug != nil
		},
		merge: func(dst, want *Spec) {
			if want.Hotplug != nil {
				dst.Hotplug = slices.Clone(want.Hotplug)
			}
		},
	}
}

// description is a text of which nothing is left where PVE would write nothing.
func description(facts ...Fact) leaf[Spec] {
	field := func(s *Spec) **string { return &s.Description }
	l := scalar("description", field, property.ParseDescription, property.TrimDescription, facts...)
	read := l.read
	l.read = func(s *Spec, value string) bool { return property.TrimDescription(value) == "" || read(s, value) }
	return l
}

// tags is a set whose elements are the parts of Rebase: several programs tag a VM, each with its own. PVE folds the
// case of tags unless the datacenter says otherwise, which is not known here. So a planned tag is found on the server
// in another spelling, and the planned spelling is sent.
func tags(facts ...Fact) leaf[Spec] {
	l := list("tags", func(s *Spec) *[]string { return &s.Tags }, property.NormalTags, property.ShowTags, facts...)
	l.rebase = func(server, prior, planned *Spec) {
		folds := func(tags []string, tag string) bool {
			return slices.ContainsFunc(tags, func(t string) bool { return strings.EqualFold(t, tag) })
		}
		without := func(tags, others []string) []string {
			return slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return slices.Contains(others, tag) })
		}
		removed, added := without(prior.Tags, planned.Tags), without(planned.Tags, prior.Tags)
		respelt := without(removed, server.Tags) // on the server in another case, if at all
		kept := slices.DeleteFunc(slices.Clone(server.Tags), func(tag string) bool {
			isRespelt := folds(respelt, tag) || folds(added, tag)
			return slices.Contains(removed, tag) || isRespelt && !slices.Contains(planned.Tags, tag)
		})
		all := slices.Concat(kept, without(added, kept))
		prior.Tags, planned.Tags = server.Tags, property.NormalTags(strings.Join(all, ";"))
	}
	return l
}

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
