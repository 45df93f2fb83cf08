package vm

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// options is the table of PVE's options that are one value or one property string. Slotted devices and ipconfigN are in
// devices.go; cipassword is special because it can only be written.
func options() []leaf[Spec] {
	return slices.Concat(generalOptions(), processorOptions(), cloudInitOptions())
}

func generalOptions() []leaf[Spec] {
	return []leaf[Spec]{
		text("name", func(s *Spec) **string { return &s.Name }),
		scalar("description", func(s *Spec) **string { return &s.Description }, parseDescription, trimDescription),
		list("tags", func(s *Spec) *[]string { return &s.Tags }, normalTags, showTags),
		flag("onboot", func(s *Spec) **bool { return &s.OnBoot }),
		flag("protection", func(s *Spec) **bool { return &s.Protection }),
		flag("template", func(s *Spec) **bool { return &s.Template }),
		group("machine", machineFormat(), func(s *Spec) *Spec { return s }),
		text("bios", func(s *Spec) **string { return &s.BIOS }),
		text("ostype", func(s *Spec) **string { return &s.OSType }),
		text("scsihw", func(s *Spec) **string { return &s.SCSIHW }),
		bootOption(),
		group("agent", agentFormat(), func(s *Spec) *Agent { return &s.Agent }),
	}
}

func processorOptions() []leaf[Spec] {
	return []leaf[Spec]{
		group("cpu", cpuFormat(), func(s *Spec) *CPU { return &s.CPU }),
		integer("sockets", func(s *Spec) **int64 { return &s.CPU.Sockets }),
		integer("cores", func(s *Spec) **int64 { return &s.CPU.Cores }),
		integer("vcpus", func(s *Spec) **int64 { return &s.CPU.VCPUs }),
		decimal("cpulimit", func(s *Spec) **float64 { return &s.CPU.Limit }),
		integer("cpuunits", func(s *Spec) **int64 { return &s.CPU.Units }),
		text("affinity", func(s *Spec) **string { return &s.CPU.Affinity }),
		flag("numa", func(s *Spec) **bool { return &s.CPU.NUMA }),
		scalar("memory", func(s *Spec) **int64 { return &s.Memory.Size }, parseMemory, showInteger),
		integer("balloon", func(s *Spec) **int64 { return &s.Memory.Balloon }),
		integer("shares", func(s *Spec) **int64 { return &s.Memory.Shares }),
		text("hugepages", func(s *Spec) **string { return &s.Memory.Hugepages }),
		flag("keephugepages", func(s *Spec) **bool { return &s.Memory.KeepHugepages }),
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

// group makes an option of a property string whose sub-keys live in a part of Spec.
func group[T holder](key string, f format[T], at func(*Spec) *T) leaf[Spec] {
	return leaf[Spec]{
		key:  key,
		read: func(s *Spec, value string) bool { return f.decode(at(s), value) },
		show: func(s *Spec) (string, bool) {
			value := f.encode(at(s))
			return value, value != ""
		},
		merge: func(dst, want *Spec) { f.merge(at(dst), at(want)) },
	}
}

func machineFormat() format[Spec] {
	return format[Spec]{
		defaultKey: "type",
		leaves:     []leaf[Spec]{text("type", func(s *Spec) **string { return &s.Machine })},
		rest:       func(s *Spec) *map[string]string { return &s.MachineRest },
	}
}

func cpuFormat() format[CPU] {
	return format[CPU]{
		defaultKey: "cputype",
		leaves: []leaf[CPU]{
			text("cputype", func(c *CPU) **string { return &c.Type }),
			list("flags", func(c *CPU) *[]string { return &c.Flags }, parseFlags, showFlags),
		},
		rest: func(c *CPU) *map[string]string { return &c.Rest },
	}
}

func agentFormat() format[Agent] {
	return format[Agent]{
		defaultKey: "enabled",
		leaves: []leaf[Agent]{
			flag("enabled", func(a *Agent) **bool { return &a.Enabled }),
			text("type", func(a *Agent) **string { return &a.Type }),
			flag("fstrim_cloned_disks", func(a *Agent) **bool { return &a.FSTrimClonedDisks }),
		},
		rest: func(a *Agent) *map[string]string { return &a.Rest },
	}
}

func customFormat() format[CustomData] {
	return format[CustomData]{leaves: []leaf[CustomData]{
		text("user", func(c *CustomData) **string { return &c.User }),
		text("network", func(c *CustomData) **string { return &c.Network }),
		text("meta", func(c *CustomData) **string { return &c.Meta }),
		text("vendor", func(c *CustomData) **string { return &c.Vendor }),
	}}
}

// customOption is cicustom, which stands behind a pointer.
func customOption() leaf[Spec] {
	f := customFormat()
	return leaf[Spec]{
		key: "cicustom",
		read: func(s *Spec, value string) bool {
			var c CustomData
			ok := f.decode(&c, value)
			if ok && c != (CustomData{}) {
				s.CloudInit.Custom = &c
			}
			return ok
		},
		show: func(s *Spec) (string, bool) {
			if s.CloudInit.Custom == nil {
				return "", false
			}
			value := f.encode(s.CloudInit.Custom)
			return value, value != ""
		},
		merge: func(dst, want *Spec) {
			if want.CloudInit.Custom == nil {
				return
			}
			var c CustomData
			if dst.CloudInit.Custom != nil {
				c = *dst.CloudInit.Custom
			}
			f.merge(&c, want.CloudInit.Custom)
			dst.CloudInit.Custom = &c
		},
	}
}

// bootOption is boot. A VM that boots from nothing has a blank value (seen on 8.4); the legacy letters ("cdn") are not
// expressed. An order with unknown sub-keys beside it is left alone.
func bootOption() leaf[Spec] {
	return leaf[Spec]{
		key: "boot",
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

// splitList splits one of PVE's lists (pve-common Tools.pm split_list): commas, semicolons and white space separate.
func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(",; \t\r\n\x00", r) })
}

func joinSpace(l []string) string { return strings.Join(l, " ") }

func parseDescription(s string) (string, bool) { return trimDescription(s), true }

// trimDescription drops what PVE strips from the end when it reads the description back.
func trimDescription(s string) string { return strings.TrimRight(s, " \t\r\n") }

// normalTags reads a tag list the way PVE stores it with its default tag style: lower case, sorted, unique
// (pve-guest-common, GuestHelpers.pm get_unique_tags).
func normalTags(s string) []string {
	tags := splitList(strings.ToLower(s))
	slices.Sort(tags)
	return slices.Compact(tags)
}

func showTags(tags []string) string {
	return strings.Join(normalTags(strings.Join(tags, ";")), ";")
}

func parseFlags(s string) []string {
	flags := splitList(s)
	slices.Sort(flags)
	return slices.Compact(flags)
}

func showFlags(flags []string) string { return strings.Join(parseFlags(strings.Join(flags, ";")), ";") }

// parseTrunks sorts VLAN ids and ranges by their first number.
func parseTrunks(s string) []string {
	trunks := splitList(s)
	slices.SortFunc(trunks, func(a, b string) int {
		return cmp.Or(cmp.Compare(leadingNumber(a), leadingNumber(b)), cmp.Compare(a, b))
	})
	return slices.Compact(trunks)
}

func leadingNumber(s string) int {
	first, _, _ := strings.Cut(s, "-")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}

func showTrunks(trunks []string) string {
	return strings.Join(parseTrunks(strings.Join(trunks, ";")), ";")
}

// parseMemory reads the plain number of PVE up to 8.0 and the property string of later versions.
func parseMemory(s string) (int64, bool) { return parseInteger(strings.TrimPrefix(s, "current=")) }
