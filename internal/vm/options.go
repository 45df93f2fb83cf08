package vm

import (
	"slices"
	"strings"
)

// options is the table of PVE's options that are one value or one property string. Slotted devices are in families and
// buses; cipassword is special because it can only be written.
func options() []leaf[Spec] {
	return slices.Concat(generalOptions(), machineOptions(), groupOptions(), processorOptions(), cloudInitOptions())
}

func generalOptions() []leaf[Spec] {
	return []leaf[Spec]{
		text("name", func(s *Spec) **string { return &s.Name }),
		scalar("description", func(s *Spec) **string { return &s.Description }, parseDescription, TrimDescription),
		list("tags", func(s *Spec) *[]string { return &s.Tags }, normalTags, showTags),
		flag("onboot", func(s *Spec) **bool { return &s.OnBoot }),
		flag("autostart", func(s *Spec) **bool { return &s.AutoStart }),
		flag("protection", func(s *Spec) **bool { return &s.Protection }),
		flag("template", func(s *Spec) **bool { return &s.Template }),
		atStart(group("machine", machineFormat(), func(s *Spec) *Spec { return s })),
		atStart(text("bios", func(s *Spec) **string { return &s.BIOS })),
		atStart(text("ostype", func(s *Spec) **string { return &s.OSType })),
		atStart(text("scsihw", func(s *Spec) **string { return &s.SCSIHW })),
		atStart(bootOption()),
		text("vmstatestorage", func(s *Spec) **string { return &s.VMStateStorage }),
		decimal("migrate_downtime", func(s *Spec) **float64 { return &s.MigrateDowntime }),
		integer("migrate_speed", func(s *Spec) **int64 { return &s.MigrateSpeed }),
		text("hookscript", func(s *Spec) **string { return &s.HookScript }),
		atStart(text("args", func(s *Spec) **string { return &s.Args })),
	}
}

func machineOptions() []leaf[Spec] {
	return []leaf[Spec]{
		atStart(flag("acpi", func(s *Spec) **bool { return &s.ACPI })),
		atStart(flag("kvm", func(s *Spec) **bool { return &s.KVM })),
		flag("tablet", func(s *Spec) **bool { return &s.Tablet }),
		atStart(flag("localtime", func(s *Spec) **bool { return &s.LocalTime })),
		atStart(flag("tdf", func(s *Spec) **bool { return &s.TDF })),
		atStart(flag("reboot", func(s *Spec) **bool { return &s.Reboot })),
		atStart(flag("freeze", func(s *Spec) **bool { return &s.Freeze })),
		atStart(text("keyboard", func(s *Spec) **string { return &s.Keyboard })),
		hotplugOption(),
		atStart(text("startdate", func(s *Spec) **string { return &s.StartDate })),
		atStart(text("arch", func(s *Spec) **string { return &s.Arch })),
		atStart(text("vmgenid", func(s *Spec) **string { return &s.VMGenID })),
	}
}

func processorOptions() []leaf[Spec] {
	return []leaf[Spec]{
		atStart(group("cpu", cpuFormat(), func(s *Spec) *CPU { return &s.CPU })),
		atStart(integer("sockets", func(s *Spec) **int64 { return &s.CPU.Sockets })),
		atStart(integer("cores", func(s *Spec) **int64 { return &s.CPU.Cores })),
		integer("vcpus", func(s *Spec) **int64 { return &s.CPU.VCPUs }),
		decimal("cpulimit", func(s *Spec) **float64 { return &s.CPU.Limit }),
		integer("cpuunits", func(s *Spec) **int64 { return &s.CPU.Units }),
		atStart(text("affinity", func(s *Spec) **string { return &s.CPU.Affinity })),
		atStart(flag("numa", func(s *Spec) **bool { return &s.CPU.NUMA })),
		memoryOption(),
		integer("balloon", func(s *Spec) **int64 { return &s.Memory.Balloon }),
		integer("shares", func(s *Spec) **int64 { return &s.Memory.Shares }),
		atStart(text("hugepages", func(s *Spec) **string { return &s.Memory.Hugepages })),
		atStart(flag("keephugepages", func(s *Spec) **bool { return &s.Memory.KeepHugepages })),
		atStart(flag("allow-ksm", func(s *Spec) **bool { return &s.Memory.AllowKSM })),
	}
}

func cloudInitOptions() []leaf[Spec] {
	return []leaf[Spec]{
		text("citype", func(s *Spec) **string { return &s.CloudInit.Type }),
		text("ciuser", func(s *Spec) **string { return &s.CloudInit.User }),
		list("sshkeys", func(s *Spec) *[]string { return &s.CloudInit.SSHKeys }, DecodeSSHKeys, EncodeSSHKeys),
		list("nameserver", func(s *Spec) *[]string { return &s.CloudInit.Nameservers }, splitList, joinSpace),
		text("searchdomain", func(s *Spec) **string { return &s.CloudInit.SearchDomain }),
		flag("ciupgrade", func(s *Spec) **bool { return &s.CloudInit.Upgrade }),
		customOption(),
	}
}

// bootOption is boot. A VM that boots from nothing has a blank value (seen on 8.4). What PVE deprecates, letters ("cdn") and
// bootdisk, is read by legacyBoot and written as an order. An order with unknown sub-keys beside it is left alone.
func bootOption() leaf[Spec] {
	return leaf[Spec]{
		key:  "boot",
		keys: func() []string { return []string{"order", "legacy"} },
		read: func(s *Spec, value string) bool {
			order, found := strings.CutPrefix(value, "order=")
			if strings.TrimSpace(value) != "" && !found || strings.Contains(value, ",") {
				return false
			}
			s.BootOrder = append([]string{}, splitList(order)...)
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
	o := scalar("memory", func(s *Spec) **int64 { return &s.Memory.Size }, parseMemory, showInteger)
	o.keys = func() []string { return []string{"current"} }
	return o
}

// hotplugOption is hotplug. "1" stands for PVE's default features, "0" for none (qemu-server QemuServer/Helpers.pm
// parse_hotplug_features).
func hotplugOption() leaf[Spec] {
	return leaf[Spec]{
		key: "hotplug",
		read: func(s *Spec, value string) bool {
			switch strings.TrimSpace(value) {
			case "0":
				s.Hotplug = []string{}
				return true
			case "1":
				value = "disk,network,usb"
			}
			features := parseFlags(value)
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
			return strings.Join(parseFlags(strings.Join(s.Hotplug, ",")), ","), s.Hotplug != nil
		},
		merge: func(dst, want *Spec) {
			if want.Hotplug != nil {
				dst.Hotplug = slices.Clone(want.Hotplug)
			}
		},
	}
}
