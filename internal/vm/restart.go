package vm

import (
	"maps"
	"slices"
	"strings"
)

// IsCloudInit tells whether an option is written to the cloud-init drive only (qemu-server QemuServer.pm, $confdesc_cloudinit).
// The name, which becomes the host name, is none: it means more than that.
func IsCloudInit(option string) bool {
	if rest, ok := strings.CutPrefix(option, "ipconfig"); ok {
		return rest != "" && strings.Trim(rest, "0123456789") == ""
	}
	return slices.Contains([]string{"citype", "ciuser", "cipassword", "ciupgrade", "cicustom", "sshkeys", "nameserver", "searchdomain"},
		option)
}

// IsImmediate tells whether PVE stores a value of an option as it is sent and puts it in force at once, whether the guest runs or not, so
// that what the VM has then needs no look (qemu-server QemuServer.pm $fast_plug_option, API2/Qemu.pm update_vm_api). Of those
// options tags are none, which PVE sorts, nor what the cloud-init drive is made of.
func IsImmediate(option string) bool {
	return slices.Contains([]string{"description", "hookscript", "migrate_downtime", "migrate_speed", "name", "onboot", "protection",
		"shares", "startup", "vmstatestorage"}, option)
}

// NeedsRestart lists the options, sorted, of which it is certain that PVE leaves a change to the next stop and start of a
// running guest (qemu-server QemuServer.pm vmconfig_hotplug_pending). Of others PVE may say so too: whether a guest gives a
// device back, for one, only the attempt shows. The hotplug setting that counts is the one before the change.
func NeedsRestart(from, to Spec) []string {
	before, after := Encode(from), Encode(to)
	change := Diff(from, to)
	var all []string
	for _, option := range slices.Concat(slices.Collect(maps.Keys(change.Set)), change.Delete) {
		_, isDrive := slotRank(option)
		switch {
		case readsAtStart(option), !hasFeature(from.Hotplug, featureOf(option)),
			isDrive && drivePending(option, before[option], after[option], from.Hotplug),
			option == "agent" && agentPending(from.Agent, to.Agent),
			option == "hotplug" && slices.Contains(slices.Concat(from.Hotplug, to.Hotplug), "memory"):
			all = append(all, option)
		}
	}
	slices.Sort(all)
	return all
}

// readsAtStart tells whether PVE reads an option at the start of a guest only.
func readsAtStart(option string) bool {
	if f, ok := familyOf(families(), option); ok {
		return f.restart
	}
	return option == efiSlot || option == tpmSlot ||
		slices.ContainsFunc(options(), func(o leaf[Spec]) bool { return o.key == option && o.restart })
}

// agentPending tells whether more of the agent changes than what PVE reads whenever it needs it.
func agentPending(from, to Agent) bool {
	from.FSTrimClonedDisks, to.FSTrimClonedDisks = nil, nil
	return agentFormat().encode(&from) != agentFormat().encode(&to)
}

// featureOf is the feature of the hotplug setting that lets an option change while the guest runs, "" if none is needed.
// Drives need theirs for some changes only, see drivePending.
func featureOf(option string) string {
	if number, ok := strings.CutPrefix(option, "net"); ok && allDigits(number) {
		return "network"
	}
	return map[string]string{"memory": "memory", "vcpus": "cpu", "tablet": "usb"}[option]
}

// hasFeature tells whether a hotplug setting has a feature. Nil is PVE's default.
func hasFeature(hotplug []string, feature string) bool {
	if hotplug == nil || slices.Equal(hotplug, []string{"1"}) {
		hotplug = []string{"network", "disk", "usb"}
	}
	return feature == "" || slices.Contains(hotplug, feature)
}

// TakesDisk tells whether a running guest takes a disk into a slot, and gives it away, at once: the bus has hotplug, and
// the guest's setting lets it (qemu-server QemuServer.pm vmconfig_hotplug_pending). Nil is PVE's default setting.
func TakesDisk(slot string, hotplug []string) bool {
	return !IsCold(slot) && hasFeature(hotplug, "disk")
}

// IsCold tells whether a slot has no hotplug at all: PVE changes what is in it at the next start of a running guest only
// (qemu-server QemuServer.pm vmconfig_hotplug_pending, vmconfig_update_disk).
func IsCold(slot string) bool {
	return slices.ContainsFunc([]string{"ide", "sata", efiSlot, tpmSlot}, func(bus string) bool { return strings.HasPrefix(slot, bus) })
}

// drivePending tells whether a running guest keeps a drive as it was: a drive that comes or goes needs hotplug, as does
// another volume, and some options are fixed when a drive is opened. Another medium in an optical drive is taken at once.
func drivePending(slot, before, after string, hotplug []string) bool {
	file, was, existed := parseDrive(before)
	other, is, stays := parseDrive(after)
	if !existed || !stays || file != other && was["media"] != "cdrom" {
		return !TakesDisk(slot, hotplug)
	}
	return slices.ContainsFunc([]string{"aio", "cache", "discard", "iothread", "product", "queues", "ro", "ssd", "vendor"},
		func(key string) bool { return was[key] != is[key] })
}
