package plan_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// flat is a configuration of proxmox_vm: the values of its attributes by dotted path.
type flat map[string]cty.Value

// tree makes nested objects of it.
func (f flat) tree() map[string]cty.Value { return branch(f, "") }

func branch(f flat, prefix string) map[string]cty.Value {
	out := map[string]cty.Value{}
	for path, v := range f {
		rest, ok := strings.CutPrefix(path, prefix)
		if !ok {
			continue
		}
		name, _, nested := strings.Cut(rest, ".")
		switch _, done := out[name]; {
		case !nested:
			out[name] = v
		case !done:
			out[name] = cty.ObjectVal(branch(f, prefix+name+"."))
		}
	}
	return out
}

// has reports whether an attribute, or anything in a group, is configured.
func (f flat) has(path string) bool {
	for p := range f {
		if p == path || strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

func (f flat) text(path string) string {
	if v, ok := f[path]; ok && v.Type() == cty.String {
		return v.AsString()
	}
	return ""
}

func (f flat) isTrue(path string) bool { v, ok := f[path]; return ok && v.True() }

// drop takes an attribute or a group out.
func (f flat) drop(paths ...string) {
	for _, path := range paths {
		maps.DeleteFunc(f, func(p string, _ cty.Value) bool { return p == path || strings.HasPrefix(p, path+".") })
	}
}

// slots are the configured slots of a device map, sorted.
func (f flat) slots(family string) []string {
	all := map[string]bool{}
	for p := range f {
		if rest, ok := strings.CutPrefix(p, family+"."); ok {
			slot, _, _ := strings.Cut(rest, ".")
			all[slot] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// pattern is a path with "*" in the place of its slot.
func pattern(path string) string {
	for family := range deviceSlots() {
		if rest, ok := strings.CutPrefix(path, family+"."); ok {
			_, key, _ := strings.Cut(rest, ".")
			return family + ".*." + key
		}
	}
	return path
}

// pick chooses one of them.
func pick[V any](r *rand.Rand, all []V) V { return all[r.IntN(len(all))] }

// drawFlat draws a configuration. Odds steer how much of the schema it uses.
func drawFlat(r *rand.Rand, number int) flat {
	f := flat{}
	odds := pick(r, []float64{0.01, 0.04, 0.12})
	groups := map[string]bool{}
	scalars := scalarValues()
	for _, path := range slices.Sorted(maps.Keys(scalars)) {
		group, _, nested := strings.Cut(path, ".")
		if _, drawn := groups[group]; nested && !drawn {
			groups[group] = r.Float64() < odds+0.1
		}
		if !nested && r.Float64() < odds+0.05 || nested && groups[group] && r.Float64() < odds+0.3 {
			f[path] = pick(r, scalars[path])
		}
	}
	devices := deviceValues()
	for _, path := range slices.Sorted(maps.Keys(devices)) {
		family, key, _ := strings.Cut(path, ".*.")
		for _, slot := range deviceSlots()[family] {
			name := family + "." + slot
			if _, drawn := groups[name]; !drawn {
				groups[name] = r.Float64() < odds/2+0.05
			}
			if groups[name] && r.Float64() < odds+0.15 {
				f[name+"."+key] = pick(r, devices[path])
			}
		}
	}
	switch {
	case number%25 == 7:
		f["template"], f["power_state"] = cty.True, cty.StringVal("stopped")
	case number%8 == 3:
		f["template"] = cty.False
	}
	if number%6 == 1 {
		for key, v := range cloneValues()[number/6%len(cloneValues())] {
			f["clone."+key] = v
		}
		f["protection"] = cty.False
	} else if number%9 == 4 {
		f["protection"] = pick(r, flags())
	}
	if number%4 == 0 {
		f["boot_order"] = cty.ListVal(texts(pick(r, []string{"scsi0", "net0", "ide3"})))
	}
	if number%2 == 0 {
		if f.has("efi_disk") {
			f["efi_disk.import_from"] = cty.StringVal("local-zfs:vm-8000-efi")
		}
		if f.has("tpm_state") {
			f["tpm_state.import_from"] = cty.StringVal("local-zfs:vm-8000-tpm")
		}
	}
	f.focus(r, number)
	if reattaches(number) {
		f.drop("clone", "template", "protection", "ha", "disks.scsi1")
		f["power_state"], f["disks.scsi1.storage"], f["disks.scsi1.size"] = cty.StringVal("stopped"), cty.StringVal("local-zfs"), cty.StringVal("4G")
	}
	f.repair()
	return f
}

// focus gives every attribute its turn, four times in 500 configurations, with the other attributes that it needs.
func (f flat) focus(r *rand.Rand, number int) {
	values := scalarValues()
	for path, all := range deviceValues() {
		family, key, _ := strings.Cut(path, ".*.")
		slot := deviceSlots()[family][0]
		if key == "model" && family == "disks" {
			slot = "ide0"
		}
		values[family+"."+slot+"."+key] = all
	}
	paths := slices.Sorted(maps.Keys(values))
	for turn := range 2 {
		path := paths[(number+turn*250)%len(paths)]
		f[path] = pick(r, values[path])
		limit, isLength := strings.CutSuffix(path, "_length")
		base, isMost := strings.CutSuffix(limit, "_max")
		if strings.Contains(path, ".throttle.") {
			unit := base[:strings.LastIndex(base, ".")+5]
			f.drop(unit, unit+"_max", unit+"_max_length")
			f[path] = values[path][0]
			if isMost || isLength {
				f[base] = values[base][0]
			}
			if isLength {
				f[limit] = values[limit][0]
			}
			if strings.HasSuffix(path, "_rd") || base == unit {
				f[base] = values[base][0]
			}
		}
		for needing, needed := range map[string][2]string{"disks.scsi0.format": {"disks.scsi0.storage", "local"}, "pci.hostpci0.pcie": {"machine", "q35"},
			"pci.hostpci0.legacy_igd": {"machine", "pc"}, "cloud_init.addresses.net0.gateway4": {"cloud_init.addresses.net0.ipv4", "10.0.0.5/24"},
			"cloud_init.addresses.net0.gateway6": {"cloud_init.addresses.net0.ipv6", "2001:db8::5/64"}, "machine_options.aw_bits": {"machine_options.viommu", "virtio"},
			"networks.net0.mtu": {"networks.net0.model", "virtio"}, "networks.net0.queues": {"networks.net0.model", "virtio"}} {
			if path == needing {
				f[needed[0]] = cty.StringVal(needed[1])
			}
		}
		switch path {
		case "memory.hugepages":
			f["cpu.numa"] = cty.True
		case "pci.hostpci0.host":
			f.drop("pci.hostpci0.mapping")
		case "usb.usb0.host":
			f.drop("usb.usb0.mapping")
		case "cloud_init_password_wo", "cloud_init_password_wo_version":
			f["cloud_init.user"], f["cloud_init_password_wo"], f["cloud_init_password_wo_version"] = cty.StringVal("ops"), cty.StringVal("secret"), cty.NumberIntVal(1)
		}
	}
}

// repair makes a configuration one that the schema accepts.
func (f flat) repair() {
	f.repairDisks()
	f.repairDevices()
	f.repairGroups()
	f.repairLife()
	f.repairCloudInit()
	f.repairStart()
	if order, ok := f["boot_order"]; ok && order.LengthInt() > 0 {
		for _, device := range order.AsValueSlice() {
			if !f.has("disks."+device.AsString()) && !f.has("networks."+device.AsString()) && !f.has("cdroms."+device.AsString()) {
				delete(f, "boot_order")
				break
			}
		}
	}
}

func (f flat) repairDisks() {
	for _, slot := range f.slots("disks") {
		at, bus := "disks."+slot, strings.TrimRight(slot, "0123456789")
		for key, value := range map[string]string{".storage": "local-zfs", ".size": "4G"} {
			if _, ok := f[at+key]; !ok && !f.has(at+".imported_disk.volume") { // which says both
				f[at+key] = cty.StringVal(value)
			}
		}
		if f.text(at+".storage") != "local" {
			f.drop(at + ".format")
		}
		for key, buses := range map[string]string{"ssd": "ide sata scsi", "wwn": "ide sata scsi", "iothread": "scsi virtio", "ro": "scsi virtio",
			"queues": "scsi", "scsiblock": "scsi", "vendor": "scsi", "product": "scsi", "model": "ide"} {
			if !slices.Contains(strings.Fields(buses), bus) {
				f.drop(at + "." + key)
			}
		}
		for _, unit := range []string{"mbps", "iops"} {
			limit := at + ".throttle." + unit
			if f.has(limit) {
				f.drop(limit+"_rd", limit+"_wr")
			}
			for _, direction := range []string{"", "_rd", "_wr"} {
				if !f.has(limit + direction) {
					f.drop(limit + direction + "_max")
				}
				if !f.has(limit + direction + "_max") {
					f.drop(limit + direction + "_max_length")
				}
			}
		}
	}
}

func (f flat) repairDevices() {
	for _, slot := range f.slots("cdroms") {
		f["cdroms."+slot+".file"] = orElse(f["cdroms."+slot+".file"], "none")
	}
	for _, slot := range f.slots("networks") {
		if model := f.text("networks." + slot + ".model"); model != "" && model != "virtio" {
			f.drop("networks."+slot+".mtu", "networks."+slot+".queues")
		}
	}
	for family, host := range map[string]string{"pci": "01:00.0", "usb": "spice"} {
		for _, slot := range f.slots(family) {
			at := family + "." + slot
			if f.has(at + ".mapping") {
				f.drop(at + ".host")
			} else {
				f[at+".host"] = orElse(f[at+".host"], host)
			}
			q35 := strings.Contains(f.text("machine"), "q35")
			if !q35 {
				f.drop(at + ".pcie")
			} else {
				f.drop(at + ".legacy_igd")
			}
		}
	}
	for family, required := range map[string][2]string{"numa_nodes": {"cpus", "0"}, "virtiofs": {"dirid", "share"}, "serial": {"device", "socket"}, "parallel": {"device", "/dev/parport0"}} {
		for _, slot := range f.slots(family) {
			at := family + "." + slot + "." + required[0]
			f[at] = orElse(f[at], required[1])
		}
	}
	nodes := f.slots("numa_nodes")
	for _, slot := range nodes {
		at := "numa_nodes." + slot
		if f.has(at + ".hostnodes") {
			f[at+".policy"] = orElse(f[at+".policy"], "bind")
		}
		if f.isTrue("cpu.numa") { // no guest starts with a node that has no memory (qemu-server Memory.pm)
			size := cty.NumberIntVal(int64(1024 * len(nodes)))
			f["memory.size"] = size
			for _, other := range nodes {
				f["numa_nodes."+other+".memory"] = cty.NumberIntVal(1024)
			}
		}
	}
}

func (f flat) repairGroups() {
	for group, required := range map[string][2]string{"audio": {"device", "AC97"}, "rng": {"source", "/dev/urandom"}, "amd_sev": {"type", "std"}, "intel_tdx": {"type", "tdx"},
		"efi_disk": {"storage", "local-zfs"}, "tpm_state": {"storage", "local-zfs"}} {
		if f.has(group) {
			f[group+"."+required[0]] = orElse(f[group+"."+required[0]], required[1])
		}
	}
	if f.has("ha") && f.text("power_state") == "stopped" {
		f["ha.state"] = cty.StringVal("ignored")
	}
	if f.has("ha") { // the destroy refuses to leave the entry behind
		f.drop("on_destroy.purge")
	}
	if f.has("ivshmem") && !f.has("ivshmem.size") {
		f["ivshmem.size"] = cty.NumberIntVal(1)
	}
	if f.text("machine_options.viommu") == "intel" && !strings.Contains(f.text("machine"), "q35") {
		f["machine_options.viommu"] = cty.StringVal("virtio")
	}
	if !f.has("machine_options.viommu") {
		f.drop("machine_options.aw_bits")
	}
	if f.text("vga.type") == "serial0" && !f.has("serial.serial0") {
		f["vga.type"] = cty.StringVal("std")
	}
	if !f.isTrue("cpu.numa") {
		f.drop("memory.hugepages")
	}
	if f.has("efi_disk.import_from") {
		f["efi_disk.type"] = orElse(f["efi_disk.type"], "4m")
		f["efi_disk.pre_enrolled_keys"] = cty.True
	}
	if f.has("tpm_state.import_from") {
		f["tpm_state.version"] = orElse(f["tpm_state.version"], "v2.0")
	}
	if f.has("agent") {
		if _, ok := f["agent.enabled"]; !ok {
			f["agent.enabled"] = cty.True
		}
	}
	for _, key := range []string{"flags", "hidden", "hv_vendor_id", "phys_bits", "guest_phys_bits", "level"} {
		if f.has("cpu." + key) {
			f["cpu.type"] = orElse(f["cpu.type"], "host")
		}
	}
	if f.has("memory.balloon") && !f.has("memory.size") {
		f["memory.size"] = cty.NumberIntVal(2048)
	}
}

func (f flat) repairCloudInit() {
	if v, ok := f["clone.vmid"]; f.has("cloud_init") && (!f.has("clone") || ok && v.RawEquals(cty.NumberIntVal(8000))) {
		f["cloud_init.storage"] = orElse(f["cloud_init.storage"], "local-zfs")
	}
	for _, slot := range f.slots("cloud_init.addresses") {
		at := "cloud_init.addresses." + slot
		if f.has("networks") && !f.has("networks."+slot) {
			f["networks."+slot+".bridge"] = cty.StringVal("vmbr0")
		}
		for _, family := range []string{"4", "6"} {
			if !strings.Contains(f.text(at+".ipv"+family), "/") {
				f.drop(at + ".gateway" + family)
			}
		}
	}
	if !f.has("cloud_init") || f.has("cloud_init_password_wo") != f.has("cloud_init_password_wo_version") {
		f.drop("cloud_init_password_wo", "cloud_init_password_wo_version")
	}
}

func orElse(v cty.Value, other string) cty.Value {
	if v == cty.NilVal {
		return cty.StringVal(other)
	}
	return v
}

// repairLife asks for nothing of a guest that cannot give it.
func (f flat) repairLife() {
	if f.has("nodes") {
		f.drop("node")
	}
	off := f.text("power_state") == "stopped" || f.isTrue("template")
	for _, what := range []string{"agent", "ipv4", "ipv6"} {
		switch at := "wait_for." + what; {
		case !f.isTrue(at):
		case off:
			f[at] = cty.False
		default:
			f["agent.enabled"], f["wait_for.on_timeout"] = cty.True, cty.StringVal("warn")
			if len(f.slots("networks")) == 0 {
				f["networks.net0.bridge"] = cty.StringVal("vmbr0")
			}
		}
	}
}

// reattaches says whether a configuration's disk scsi1 leaves its slot and comes back by the id of its volume.
func reattaches(number int) bool { return number%100 == 50 }

// TestNoDriftDraws: the configurations of TestNoDrift use every attribute, whatever the seed.
func TestNoDriftDraws(t *testing.T) {
	for seed := range uint64(5) {
		used := map[string]int{}
		for number := range 500 {
			seen := map[string]bool{"vmid": true}
			for path := range drawFlat(rand.New(rand.NewPCG(seed, uint64(number))), number) {
				seen[pattern(path)] = true
			}
			if reattaches(number) {
				seen["disks.*.imported_disk.volume"] = true
			}
			for path := range seen {
				used[path]++
			}
		}
		for _, path := range attributes(t) {
			if used[path] < 3 && !slices.Contains(unreachable(), path) {
				t.Errorf("seed %d: %s is drawn %d times in 500 configurations, want at least 3", seed, path, used[path])
			}
		}
	}
}
