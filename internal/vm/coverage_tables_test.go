package vm

import (
	"slices"
	"strings"
)

// expressedOptions lists what Spec expresses of POST /nodes/{node}/qemu and PUT …/config: options ("memory", "net[n]") and
// sub-keys of property strings ("cpu.flags", "net[n].rate"), sorted, by PVE's names. Other names of a sub-key count as
// sub-keys. It is made from the tables that Decode and Encode work with.
func expressedOptions() []string {
	out := []string{passwordOption, bootDiskOption}
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
		if only, limited := DiskOptionBuses()[key]; !limited || slices.Contains(only, bus) {
			keys = append(keys, key)
		}
	}
	return keys
}

// hasKey says whether a disk in slot ("virtio0") can have a sub-key of PVE's ("ssd"): not every bus has all of them.
func hasKey(slot, key string) bool {
	bus := strings.TrimRight(slot, "0123456789")
	_, isDrive := slotRank(slot)
	return isDrive && slices.Contains(diskKeys(bus), key)
}

// aliasNames are PVE's other names of options and sub-keys, each with the one that Spec expresses. PVE stores what it is sent
// under them under that one (qemu-server QemuServer.pm $confdesc, Drive.pm parse_drive).
func aliasNames() map[string]string {
	out := map[string]string{"cdrom": "ide[n]", "smp": "sockets", bootDiskOption: "boot.order", "boot.legacy": "boot.order"}
	for _, b := range buses() {
		for _, key := range []string{"bps", "bps_rd", "bps_wr"} { // and the number sent is lost: any becomes 0.000
			out[b.name+"[n]."+key] = b.name + "[n].m" + key
		}
		for alias, key := range diskFormat().aliases {
			out[b.name+"[n]."+alias] = b.name + "[n]." + key
		}
	}
	for _, drive := range []string{"ide[n]", "sata[n]", "scsi[n]", "virtio[n]", "unused[n]", efiSlot, tpmSlot} {
		out[drive+".volume"] = drive + ".file"
	}
	for _, model := range models() {
		out["net[n]."+model] = "net[n].macaddr"
	}
	for alias, key := range agentFormat().aliases {
		out["agent."+alias] = "agent." + key
	}
	return out
}

// requestArgument is a parameter of the two routes that is no option of a VM.
type requestArgument struct {
	Attribute string // the attribute of proxmox_vm that says it; "" if there is none
	Use       string // its meaning, and its use in the provider
}

// requestArguments is the table of the parameters of the two routes that are no options of a VM: the path, and how a request is to
// be carried out.
func requestArguments() map[string]requestArgument {
	return map[string]requestArgument{
		"node":       {"node", "part of the path: where the VM is"},
		"vmid":       {"vmid", "part of the path: who the VM is"},
		"pool":       {"pool", "the pool that the VM is put into"},
		"start":      {"power_state", "whether the VM is started; the provider does it in a step of its own"},
		"storage":    {"disks.*.storage", "storage of volumes that name none; every disk names its own"},
		"ha-managed": {"ha", "whether HA manages the VM; the provider makes the entry in a step of its own"},

		"delete":   {"", "resets options; sent for options that leave the configuration"},
		"digest":   {"", "guards against changes from outside; sent with every change"},
		"revert":   {"", "reverts pending changes; sent for options that PVE refused"},
		"skiplock": {"", "ignores a lock, for root@pam only; sent to undo a locked leftover"},

		"archive":                {"", "the backup that a restore begins with; sent for a VM with `restore`"},
		"unique":                 {"", "generates new MAC addresses in a restore; sent with every restore"},
		"live-restore":           {"", "starts the VM before a restore or an import is done; when that fails, a half-made VM is left"},
		"bwlimit":                {"", "limit of a restore or a live import; clone.bwlimit is that of a clone"},
		"force":                  {"", "overwrites a VM by a restore, or destroys detached volumes at once; never sent"},
		"background_delay":       {"", "how long the answer waits for the task; the provider watches the task instead"},
		"import-working-storage": {"import_working_storage", "storage for unpacking a disk of an OVA"},
	}
}

// recordedOptions is the table of the options that PVE sets itself, with the computed attribute that tells them. Rest carries
// the server's values.
func recordedOptions() map[string]string {
	return map[string]string{"unused[n]": "unused_volumes", "unused[n].file": "unused_volumes"}
}

// excludedOptions is the table of the options that Spec leaves out on purpose, with the reason. An option stands for all its
// sub-keys. Rest carries the server's values.
func excludedOptions() map[string]string {
	out := map[string]string{
		"lock": "state that PVE's own operations set and clear",
	}
	for _, b := range buses() {
		for _, key := range []string{"cyls", "heads", "secs", "trans"} { // qemu-server bb614783
			out[b.name+"[n]."+key] = "disk geometry: no VM that has it starts since QEMU 3.1, and PVE 9 has dropped it"
		}
	}
	return out
}
