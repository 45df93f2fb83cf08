package vm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// IsCloudInit reports whether an option is only written to the cloud-init drive. The name is not: it becomes the host
// name, and it means more than that.
func IsCloudInit(option string) bool {
	a, _ := AttributeOf(option)
	return a.Effect == OnCloudInitDrive
}

// IsImmediate reports whether PVE stores a value of an option as it is sent and puts it in force at once, so that the
// configuration after it is known without a look. Tags are not: PVE sorts them.
func IsImmediate(option string) bool {
	a, _ := AttributeOf(option)
	return a.Effect == Immediate
}

// NeedsRestart lists the options, sorted, of which it is certain that PVE leaves a change to the next stop and start of
// a running guest (qemu-server QemuServer.pm vmconfig_hotplug_pending). Of others PVE may say so too: whether a guest
// gives a device back, for one, only the attempt shows. The hotplug setting that counts is the one before the change.
func NeedsRestart(from, to Spec) []string {
	before, after := Encode(from), Encode(to)
	change := Diff(from, to)
	var all []string
	for _, option := range slices.Concat(slices.Collect(maps.Keys(change.Set)), change.Delete) {
		_, isDrive := slotRank(option)
		a, _ := AttributeOf(option)
		switch {
		case a.Effect == AtStart, !hasFeature(from.Hotplug, a.Feature) && !plugsOnline(option, from, to),
			option == "balloon" && isZero(from.Memory.Balloon) != isZero(to.Memory.Balloon),
			strings.HasPrefix(option, "usb") && !takesUSB(from),
			isDrive && drivePending(option, before[option], after[option], from.Hotplug),
			option == "agent" && agentPending(from.Agent, to.Agent),
			option == "hotplug" && slices.ContainsFunc(slices.Concat(from.Hotplug, to.Hotplug), isFixedAtStart):
			all = append(all, option)
		}
	}
	slices.Sort(all)
	return all
}

// MayNeedRestart reports whether PVE leaves the change of an attribute, or of one in it, to the next start of a running
// guest for some of the values that it may get. A slot that is new is none of these: NeedsRestart has it.
func MayNeedRestart(path string, from Spec) bool {
	steps, has := strings.Split(path, "."), Encode(from)
	switch drive := from.CloudInit.Slot; {
	case path == "cdroms", path == "cloud_init": // a drive may come to IDE, or leave it
		return true
	case path == "cloud_init.storage": // a drive that is there stays, and is moved at once
		return drive == ""
	case path == "cloud_init.slot": // a drive that does not leave its slot at once changes it only while the VM is off
		return drive == "" || TakesDisk(drive, from.Hotplug)
	case steps[0] == "disks" && len(steps) > 2 && steps[2] == "imported_disk":
		return steps[len(steps)-1] != "sha256" && !TakesDisk(steps[1], from.Hotplug)
	}
	return slices.ContainsFunc(attributes(), func(a Attribute) bool {
		option, inSlots := strings.CutSuffix(a.Option, "[n]")
		if inSlots {
			option += "0" // of a map, any
		}
		names := strings.Split(a.Path, ".")
		for i, step := range steps {
			switch {
			case i == len(names):
				return false
			case names[i] == "*" && nameOf(step) == a.Option && has[step] != "":
				option = step
			case names[i] != step:
				return false
			}
		}
		return mayWait(a, option, from)
	})
}

// mayWait reports whether a running guest may keep the former value of an option, or of a sub-key, to its next start.
func mayWait(a Attribute, option string, from Spec) bool {
	switch {
	case a.Path == "smbios.uuid", option == tpmSlot && a.Key != "": // no change of a running VM
		return false
	case option == efiSlot && a.Key != "":
		return a.Key == "ms-cert" // the rest never changes
	case a.Effect == AtStart, option == "balloon", option == "hotplug":
		return true
	case IsSlot(option) && a.Key != "":
		return slices.Contains(openedWith(), a.Key)
	case IsSlot(option):
		return !TakesDisk(option, from.Hotplug)
	case strings.HasPrefix(option, "usb"):
		return !takesUSB(from)
	case option == "agent":
		return a.Key != "fstrim_cloned_disks"
	case strings.HasPrefix(option, "net") && slices.Contains(changedByNode(), a.Key):
		return false
	}
	return !hasFeature(from.Hotplug, a.Feature)
}

// changedByNode are the sub-keys of a network device that need no hotplug (plugsOnline). The bridge is none: a device
// without one is plugged.
func changedByNode() []string {
	return []string{"tag", "trunks", "firewall", "link_down", "rate", "host-tunnel"}
}

// Replugged lists the slots, sorted, whose devices PVE takes out of a running guest and plugs in again with their new
// values (qemu-server QemuServer.pm vmconfig_update_net, qemu_usb_hotplug).
func Replugged(from, to Spec) []string {
	has := Encode(from)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(Diff(from, to).Set)), func(slot string) bool {
		return has[slot] == "" || !isUnplugged(slot, from) || plugsOnline(slot, from, to)
	})
}

// Unplugged lists the slots, sorted, whose devices PVE takes out of a running guest for good, drives aside (qemu-server
// QemuServer.pm vmconfig_hotplug_pending).
func Unplugged(from, to Spec) []string {
	return slices.DeleteFunc(slices.Sorted(slices.Values(Diff(from, to).Delete)), func(slot string) bool {
		return !isUnplugged(slot, from)
	})
}

// isUnplugged tells whether a running guest gives up the network or USB device in a slot at once.
func isUnplugged(slot string, from Spec) bool {
	return strings.HasPrefix(slot, "net") && hasFeature(from.Hotplug, "network") ||
		strings.HasPrefix(slot, "usb") && takesUSB(from)
}

// MayReplug lists the slots, sorted, of which the change of an attribute, or of one in it, is such to some values.
// A bridge that takes the place of another is none: the values without a bridge are no ordinary ones.
func MayReplug(path string, from Spec) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(Encode(from))), func(slot string) bool {
		a, _ := AttributeOf(slot)
		at := a.In(slot)
		key, isInside := strings.CutPrefix(path, at+".")
		switch isWhole := path == at || strings.HasPrefix(at, path+"."); {
		case !isInside && !isWhole:
			return true
		case strings.HasPrefix(slot, "usb"):
			return !takesUSB(from)
		case !strings.HasPrefix(slot, "net") || !hasFeature(from.Hotplug, "network"):
			return true
		case key == "bridge":
			return from.Networks[slot].Bridge != nil
		default:
			return isInside && !slices.Contains([]string{"model", "macaddr", "queues", "mtu"}, key)
		}
	})
}

// isFixedAtStart tells whether QEMU has to be started for a hotplug feature: memory, and vCPUs since PVE 8.1, which
// gives them ids of their own for it (qemu-server 8.0.8 QemuServer.pm vmconfig_hotplug_pending, d797bb62).
func isFixedAtStart(feature string) bool { return feature == "memory" || feature == "cpu" }

// plugsOnline tells whether only that part of a network device changes which the node does at its own end, with a
// bridge before and after. It needs no hotplug (qemu-server QemuServer.pm vmconfig_update_net).
func plugsOnline(option string, from, to Spec) bool {
	was, had := from.Networks[option]
	is, has := to.Networks[option]
	if !had || !has || was.Bridge == nil || is.Bridge == nil {
		return false
	}
	sameMAC := was.MACAddr == nil || is.MACAddr == nil || strings.EqualFold(*was.MACAddr, *is.MACAddr) // else it is kept
	return sameMAC && guestSideOf(was) == guestSideOf(is)
}

// guestSide are the parts of a network device that a guest sees as another device, MAC address aside.
type guestSide struct {
	model       string
	queues, mtu int64
}

func guestSideOf(nic NIC) guestSide {
	side := guestSide{model: nic.Model}
	if nic.Queues != nil {
		side.queues = *nic.Queues
	}
	if nic.MTU != nil {
		side.mtu = *nic.MTU
	}
	return side
}

func isZero(n *int64) bool { return n != nil && *n == 0 }

// takesUSB tells whether PVE plugs USB devices into a running guest of this kind: with the feature, for Linux and
// Windows after 7, on a machine of QEMU 7.1 or later. One that names no version is of the running QEMU (qemu-server
// QemuServer.pm vmconfig_hotplug_pending, Machine.pm extract_version), or for Windows of any.
func takesUSB(s Spec) bool {
	if !hasFeature(s.Hotplug, "usb") || s.OSType == nil || s.Machine != nil && isBeforeQEMU71(*s.Machine) {
		return false
	}
	return *s.OSType == "l26" || s.Machine != nil && slices.Contains([]string{"win8", "win10", "win11"}, *s.OSType)
}

func isBeforeQEMU71(machine string) bool {
	major, minor := 0, 0
	_, err := fmt.Sscanf(machine[strings.LastIndex(machine, "-")+1:], "%d.%d", &major, &minor)
	return err == nil && (major < 7 || major == 7 && minor < 1)
}

// agentPending tells whether more of the agent changes than what PVE reads whenever it needs it.
func agentPending(from, to Agent) bool {
	from.FSTrimClonedDisks, to.FSTrimClonedDisks = nil, nil
	return agentFormat().encode(&from) != agentFormat().encode(&to)
}

// hasFeature tells whether a hotplug setting has a feature. Nil is PVE's default.
func hasFeature(hotplug []string, feature string) bool {
	if hotplug == nil || slices.Equal(hotplug, []string{"1"}) {
		hotplug = []string{"network", "disk", "usb"}
	}
	return feature == "" || slices.Contains(hotplug, feature)
}

// TakesDisk tells whether a running guest takes a disk into a slot, and gives it away, at once: the bus has hotplug,
// and the guest's setting lets it (qemu-server QemuServer.pm vmconfig_hotplug_pending). Nil is PVE's default setting.
func TakesDisk(slot string, hotplug []string) bool {
	return !IsCold(slot) && hasFeature(hotplug, "disk")
}

// IsCold tells whether a slot has no hotplug at all: PVE changes what is in it at the next start of a running guest
// only (qemu-server QemuServer.pm vmconfig_hotplug_pending, vmconfig_update_disk).
func IsCold(slot string) bool {
	return slices.ContainsFunc([]string{"ide", "sata", efiSlot, tpmSlot},
		func(bus string) bool { return strings.HasPrefix(slot, bus) })
}

// drivePending tells whether a running guest keeps a drive as it was: a drive that comes or goes needs hotplug, as does
// another volume, and some options are fixed when a drive is opened. Another medium in an optical drive is taken at
// once.
func drivePending(slot, before, after string, hotplug []string) bool {
	file, was, existed := parseDrive(before)
	other, is, stays := parseDrive(after)
	if !existed || !stays || file != other && was["media"] != "cdrom" {
		return !TakesDisk(slot, hotplug)
	}
	return slices.ContainsFunc(openedWith(), func(key string) bool { return was[key] != is[key] })
}

// openedWith are the options of a drive that are fixed when it is opened.
func openedWith() []string {
	return []string{"aio", "cache", "discard", "iothread", "product", "queues", "ro", "ssd", "vendor"}
}

// ReadAtStart lists, by slot, the sub-keys of disks that change in the configuration at once and reach QEMU at its next
// start only. Nothing waits then, so PVE tells nothing (qemu-server QemuServer.pm vmconfig_update_disk).
func ReadAtStart(from, to Spec) map[string][]string {
	before, after, all := Encode(from), Encode(to), map[string][]string{}
	for slot := range Diff(from, to).Set {
		file, was, existed := parseDrive(before[slot])
		other, is, stays := parseDrive(after[slot])
		if !IsBusSlot(slot) || !existed || !stays || file != other || is["media"] == "cdrom" {
			continue
		}
		for _, key := range []string{"detect_zeroes", "model", "rerror", "scsiblock", "serial", "snapshot", "werror", "wwn"} {
			if was[key] != is[key] {
				all[slot] = append(all[slot], key)
			}
		}
	}
	return all
}
