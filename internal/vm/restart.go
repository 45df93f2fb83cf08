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
	return slices.Contains([]string{"citype", "ciuser", "cipassword", "ciupgrade", "cicustom", "sshkeys", "nameserver", "searchdomain"}, option)
}

// NeedsRestart lists the options, sorted, of which it is certain that PVE leaves a change to the next stop and start of a
// running guest (qemu-server QemuServer.pm vmconfig_hotplug_pending). Of others PVE may say so too: whether a guest gives a
// device back, for one, only the attempt shows.
func NeedsRestart(from, to Spec) []string {
	before, after := Encode(from), Encode(to)
	change := Diff(from, to)
	var all []string
	for _, option := range slices.Concat(slices.Collect(maps.Keys(change.Set)), change.Delete) {
		switch {
		case neverPlugged(option), option == "agent" && agentPending(from.Agent, to.Agent), !isPlugged(option, to.Hotplug),
			drivePending(option, before[option], after[option], to.Hotplug):
			all = append(all, option)
		}
	}
	slices.Sort(all)
	return all
}

// neverPlugged are options that PVE reads at the start of a guest only.
func neverPlugged(option string) bool {
	for _, family := range []string{"numa", "hostpci", "virtiofs", "serial", "parallel", "efidisk", "tpmstate", "audio"} {
		if number, ok := strings.CutPrefix(option, family); ok && (number == "" || allDigits(number)) {
			return true
		}
	}
	return slices.Contains([]string{"acpi", "affinity", "allow-ksm", "amd-sev", "arch", "args", "bios", "boot", "cores", "cpu", "freeze",
		"hugepages", "intel-tdx", "ivshmem", "keephugepages", "keyboard", "kvm", "localtime", "machine", "numa", "ostype", "reboot", "rng0",
		"scsihw", "smbios1", "sockets", "spice_enhancements", "startdate", "tdf", "vga", "vmgenid", "watchdog"}, option)
}

// agentPending tells whether more of the agent changes than what PVE reads whenever it needs it.
func agentPending(from, to Agent) bool {
	from.FSTrimClonedDisks, to.FSTrimClonedDisks = nil, nil
	return agentFormat().encode(&from) != agentFormat().encode(&to)
}

// isPlugged tells whether the hotplug setting of the guest lets an option change while it runs.
func isPlugged(option string, hotplug []string) bool {
	feature := map[string]string{"memory": "memory", "vcpus": "cpu", "tablet": "usb"}[option]
	if number, ok := strings.CutPrefix(option, "net"); ok && allDigits(number) {
		feature = "network"
	}
	return feature == "" || plugs(feature, hotplug)
}

// plugs tells whether a guest's hotplug setting has a feature. Nil is PVE's default.
func plugs(feature string, hotplug []string) bool {
	if hotplug == nil || slices.Equal(hotplug, []string{"1"}) {
		hotplug = []string{"network", "disk", "usb"}
	}
	return slices.Contains(hotplug, feature)
}

// TakesDisk tells whether PVE puts a disk into a slot of a running guest, and takes one out of it, at once; else it waits for
// the guest's next stop. It is the one answer to that question: hotplug is the guest's setting, nil for PVE's default.
func TakesDisk(slot string, hotplug []string) bool { return !IsCold(slot) && plugs("disk", hotplug) }

// IsCold tells whether a slot has no hotplug at all: PVE changes what is in it at the next start of a running guest only
// (qemu-server QemuServer.pm vmconfig_hotplug_pending, vmconfig_update_disk).
func IsCold(slot string) bool {
	return slices.ContainsFunc([]string{"ide", "sata", efiSlot, tpmSlot}, func(bus string) bool { return strings.HasPrefix(slot, bus) })
}

// drivePending tells whether a running guest keeps a drive as it was: not every slot takes and gives disks, and some options
// are fixed when a drive is opened. Another medium in an optical drive is taken at once.
func drivePending(slot, before, after string, hotplug []string) bool {
	if _, isDrive := slotRank(slot); !isDrive {
		return false
	}
	file, was, existed := parseDrive(before)
	other, is, stays := parseDrive(after)
	if !existed || !stays {
		return !TakesDisk(slot, hotplug)
	}
	if file != other && !TakesDisk(slot, hotplug) && was["media"] != "cdrom" {
		return true
	}
	return slices.ContainsFunc([]string{"aio", "cache", "discard", "iothread", "product", "queues", "ro", "ssd", "vendor"},
		func(key string) bool { return was[key] != is[key] })
}
