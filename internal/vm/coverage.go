package vm

import (
	"slices"
	"strings"
)

// Options lists what Spec expresses of POST /nodes/{node}/qemu and PUT …/config: options ("memory", "net[n]") and
// sub-keys of property strings ("cpu.flags", "net[n].rate"), sorted, by PVE's names. Other names of a sub-key count as
// sub-keys. It is made from the tables that Decode and Encode work with.
func Options() []string {
	out := []string{passwordOption}
	add := func(option string, keys func() []string) {
		out = append(out, option)
		if keys == nil {
			return
		}
		for _, key := range keys() {
			out = append(out, option+"."+key)
		}
	}
	for _, o := range options() {
		add(o.key, o.keys)
	}
	for _, f := range families() {
		add(f.prefix+"[n]", f.keys)
	}
	for _, b := range buses() {
		add(b.name+"[n]", func() []string { return diskKeys(b.name) })
	}
	add(efiSlot, func() []string { return append(efiFormat().keys(), "file", "volume", "format", "import-from", "size") })
	add(tpmSlot, func() []string { return append(tpmFormat().keys(), "file", "volume", "import-from", "size") })
	slices.Sort(out)
	return slices.Compact(out)
}

// diskKeys are the sub-keys of a bus: those of a disk, and what Storage, Volume, Format, ImportFrom and the choice between
// Disks, CDROMs and CloudInit are printed as.
func diskKeys(bus string) []string {
	keys := []string{"file", "volume", "format", "import-from", "media"}
	for _, key := range diskFormat().keys() {
		if only, limited := diskBuses()[key]; !limited || slices.Contains(only, bus) {
			keys = append(keys, key)
		}
	}
	return keys
}

// HasKey says whether a disk in slot ("virtio0") can have a sub-key of PVE's ("ssd"): not every bus has all of them.
func HasKey(slot, key string) bool {
	bus := strings.TrimRight(slot, "0123456789")
	_, isDrive := slotRank(slot)
	return isDrive && slices.Contains(diskKeys(bus), key)
}

// Excluded is the table of what Spec leaves out of these two routes on purpose, with the reason. An option stands for all
// its sub-keys. What a server has of it is carried in Rest.
func Excluded() map[string]string {
	out := map[string]string{
		"archive":                "argument of a restore, not an option of the VM",
		"autostart":              "PVE accepts and ignores it",
		"background_delay":       "argument of the request, not an option of the VM",
		"boot.legacy":            "deprecated by PVE; boot.order says the same and more",
		"bootdisk":               "deprecated by PVE; boot.order says it",
		"bwlimit":                "argument of a restore, not an option of the VM",
		"cdrom":                  "another name of ide2",
		"delete":                 "argument of the request: an option that is no longer set is reset by it",
		"digest":                 "argument of the request: guards against changes from outside",
		"force":                  "argument of the request: would overwrite another VM, or destroy detached volumes at once",
		"ha-managed":             "argument of the request; the attribute ha makes the entry, in a step of its own",
		"import-working-storage": "argument of the request, for the time of an import",
		"live-restore":           "argument of a restore or an import: a failure leaves a half-made VM that runs",
		"lock":                   "state that PVE's own operations set and clear",
		"node":                   "part of the path: where the VM is",
		"pool":                   "argument of the request; membership in a pool is no option of the VM",
		"revert":                 "argument of the request: takes back what is pending",
		"skiplock":               "argument of the request: ignores the locks of other operations",
		"smp":                    "deprecated by PVE; stored as sockets",
		"start":                  "argument of the request; the power state is no option of the VM",
		"storage":                "argument of the request: default storage, which each disk names itself",
		"unique":                 "argument of a restore, not an option of the VM",
		"unused[n]":              "volumes that PVE detached: the record of what happened, not a wish",
		"vmid":                   "part of the path: who the VM is",
	}
	drives := map[string]string{
		"bps":    "a defect of PVE stores any value as mbps=0.000; mbps says the same",
		"bps_rd": "a defect of PVE stores any value as mbps_rd=0.000; mbps_rd says the same",
		"bps_wr": "a defect of PVE stores any value as mbps_wr=0.000; mbps_wr says the same",
		"cyls":   "disk geometry: without effect for any guest in use, dropped in PVE 9",
		"heads":  "disk geometry: without effect for any guest in use, dropped in PVE 9",
		"secs":   "disk geometry: without effect for any guest in use, dropped in PVE 9",
		"trans":  "disk geometry: without effect for any guest in use, dropped in PVE 9",
	}
	for _, b := range buses() {
		for key, reason := range drives {
			out[b.name+"[n]."+key] = reason
		}
	}
	return out
}

// RootOnly lists the options and sub-keys that PVE lets only root@pam set, never a token (qemu-server API2/Qemu.pm
// check_vm_modify_config_perm). serial[n] and usb[n].host are free for the values "socket" and "spice".
func RootOnly() []string {
	return []string{
		"affinity", "amd-sev", "arch", "args", "hookscript", "hostpci[n].host", "hostpci[n].romfile", "hugepages",
		"intel-tdx", "ivshmem", "keephugepages", "parallel[n]", "serial[n]", "spice_enhancements", "usb[n].host", "vmgenid",
	}
}
