package vm

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

func same(t *rapid.T, what string, got, want Spec) {
	t.Helper()
	// parseTrunks of nothing gives an empty slice; elsewhere nil and empty differ only in BootOrder, checked apart.
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" || (got.BootOrder == nil) != (want.BootOrder == nil) {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func TestDecodeInvertsEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSpec(t)
		same(t, "Decode(Encode(s))", Decode(Encode(s)), s)
	})
}

func TestDiffOfTheSameIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSpec(t)
		if c := Diff(s, s); !c.Empty() {
			t.Fatalf("Diff(s, s) = %+v", c)
		}
	})
}

func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, want := genSpec(t), genSpec(t)
		printed, printedWant := Encode(base), Encode(want)
		same(t, "Merge(base, Spec{})", Merge(base, Spec{}), base)
		same(t, "Merge(base, base)", Merge(base, base), base)
		same(t, "Merge(Spec{}, base)", Merge(Spec{}, base), base)
		merged := Merge(base, want)
		same(t, "Merge(Merge(base, want), want)", Merge(merged, want), merged)
		if d := cmp.Diff(printed, Encode(base)) + cmp.Diff(printedWant, Encode(want)); d != "" {
			t.Fatalf("Merge changed its arguments:\n%s", d)
		}
		// Whatever want says in an option without sub-keys stands in the result, and base stands elsewhere.
		out := Encode(merged)
		for _, key := range []string{"name", "description", "tags", "onboot", "boot", "cores", "cpulimit", "memory", "sshkeys", "ciupgrade"} {
			expect, ok := printedWant[key]
			if !ok {
				expect = printed[key]
			}
			if out[key] != expect {
				t.Fatalf("%s is %q, want %q", key, out[key], expect)
			}
		}
		used := map[string]int{}
		for _, slots := range [][]string{slices.Collect(maps.Keys(merged.Disks)), slices.Collect(maps.Keys(merged.CDROMs)),
			{merged.CloudInit.Slot}} {
			for _, slot := range slots {
				if used[slot]++; slot != "" && used[slot] > 1 {
					t.Fatalf("slot %s is used twice", slot)
				}
			}
		}
	})
}

// TestDiffReachesItsTarget: what Diff says, carried out as PVE does, gives the target.
func TestDiffReachesItsTarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genSpec(t), genSpec(t)
		reachable(t, a, &b)
		before := Encode(a)
		c := Diff(a, b)
		if len(c.Problems) > 0 {
			t.Fatalf("problems: %+v", c.Problems)
		}
		if d := cmp.Diff(before, Encode(a)); d != "" {
			t.Fatalf("Diff changed its argument:\n%s", d)
		}
		for key := range a.Rest {
			if _, touched := c.Set[key]; touched || slices.Contains(c.Delete, key) {
				t.Fatalf("%s is in Rest and was touched: %+v", key, c)
			}
		}
		for key, value := range c.Set {
			if have, ok := before[key]; ok && have == value && !slices.Contains(c.DeleteFirst, key) {
				t.Fatalf("%s is written and does not differ", key)
			}
		}
		same(t, "apply(Diff(a, b), a)", Decode(apply(t, before, c)), b)
	})
}

// TestDiffConverges: from anything, whatever is asked for, one round leaves nothing to do.
func TestDiffConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := genSpec(t)
		want := genSpec(t)
		forgetVolumes(t, &want)
		if rapid.Bool().Draw(t, "merge?") {
			want = Merge(a, want)
		}
		c := Diff(a, want)
		if len(c.Problems) > 0 {
			return
		}
		after := Decode(apply(t, Encode(a), c))
		if again := Diff(after, want); !again.Empty() {
			t.Fatalf("first %+v\nthen %+v", c, again)
		}
	})
}

func TestDiffFromNothingIsEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSpec(t)
		nothing := Spec{}
		s.Rest = nil
		for _, o := range options() {
			if o.copyRest != nil {
				o.copyRest(&nothing, &s)
			}
		}
		if s.Template != nil && !*s.Template {
			s.Template = nil
		}
		c := Diff(Spec{}, s)
		want := Encode(s)
		if d := cmp.Diff(want, c.Set, cmpopts.EquateEmpty()); d != "" || len(c.Delete)+len(c.Moves)+len(c.Problems) > 0 {
			t.Fatalf("%+v\n%s", c, d)
		}
	})
}

// reachable takes out of b the values that Diff rightly refuses, and those that it keeps from a.
func reachable(t *rapid.T, a Spec, b *Spec) {
	sameRest(a, b)
	if a.VMGenID != nil && b.VMGenID == nil {
		b.VMGenID = a.VMGenID
	}
	if a.SMBIOS.UUID != nil && b.SMBIOS.UUID == nil {
		b.SMBIOS.UUID = a.SMBIOS.UUID
	}
	b.SMBIOS = spelt(b.SMBIOS, a.SMBIOS.Base64 || encodeSMBIOS(a.SMBIOS) == "" && b.SMBIOS.Base64)
	b.Template = a.Template
	b.Machine = a.Machine
	carryCPUUnits(a.CPU, &b.CPU) // PVE clamps a weight: one beyond the end means the same as the end
	if a.Agent.Enabled != nil && b.Agent.Enabled == nil {
		b.Agent.Enabled = new(true)
	}
	if a.CPU.Type != nil && b.CPU.Type == nil {
		b.CPU.Type = new("host")
	}
	for slot, d := range b.Disks {
		f, ok := a.Disks[slot]
		if !ok {
			continue
		}
		d.Rest = f.Rest
		if rapid.Bool().Draw(t, slot+" same volume?") || d.Volume == f.Volume {
			d.Storage, d.Volume, d.Format = f.Storage, f.Volume, f.Format
			if d.Size == nil || f.Size != nil && *d.Size < *f.Size {
				d.Size = f.Size
			}
		}
		b.Disks[slot] = d
	}
	for slot, d := range b.Disks { // a disk that comes from another slot brings its size
		if other := SlotOf(a.Disks, d.Volume); other != "" && d.Volume != a.Disks[slot].Volume {
			if has := a.Disks[other].Size; d.Size == nil || has != nil && *d.Size < *has {
				d.Size = has
			}
			b.Disks[slot] = d
		}
	}
	for slot, d := range b.CDROMs {
		if f, ok := a.CDROMs[slot]; ok {
			d.Rest = f.Rest
			b.CDROMs[slot] = d
		}
	}
	for slot, n := range b.Networks {
		if f, ok := a.Networks[slot]; ok {
			n.Rest = f.Rest
			if n.MACAddr == nil {
				n.MACAddr = f.MACAddr
			}
			b.Networks[slot] = n
		}
	}
	if a.EFIDisk != nil && b.EFIDisk != nil {
		b.EFIDisk = a.EFIDisk
	}
	if a.TPMState != nil && b.TPMState != nil {
		b.TPMState = a.TPMState
	}
	if f, c := a.CloudInit, &b.CloudInit; f.Slot != "" && c.Slot != "" {
		c.Storage, c.Volume, c.Rest = f.Storage, f.Volume, f.Rest
		if f.Slot != c.Slot {
			c.Rest = nil
		}
	}
}

// sameRest gives b what a has that no field expresses, by hand: Diff must find it without being told.
func sameRest(a Spec, b *Spec) {
	b.Rest, b.MachineRest, b.CPU.Rest, b.Agent.Rest = a.Rest, a.MachineRest, a.CPU.Rest, a.Agent.Rest
	b.Startup.Rest, b.SMBIOS.Rest, b.VGA.Rest, b.Audio.Rest = a.Startup.Rest, a.SMBIOS.Rest, a.VGA.Rest, a.Audio.Rest
	b.RNG.Rest, b.Watchdog.Rest, b.IVSHMEM.Rest = a.RNG.Rest, a.Watchdog.Rest, a.IVSHMEM.Rest
	b.SpiceEnhancements.Rest, b.AMDSEV.Rest, b.IntelTDX.Rest = a.SpiceEnhancements.Rest, a.AMDSEV.Rest, a.IntelTDX.Rest
	eachSlot(&b.PCI, a.PCI, func(d, has *PCI) { d.Rest = has.Rest })
	eachSlot(&b.USB, a.USB, func(d, has *USB) { d.Rest = has.Rest })
	eachSlot(&b.NUMANodes, a.NUMANodes, func(d, has *NUMANode) { d.Rest = has.Rest })
	eachSlot(&b.VirtioFS, a.VirtioFS, func(d, has *VirtioFS) { d.Rest = has.Rest })
}

// forgetVolumes makes s what a configuration can say: no volume ids, sizes and sources for disks.
func forgetVolumes(t *rapid.T, s *Spec) {
	for slot, d := range s.Disks {
		d.Volume = ""
		if d.Size == nil {
			d.Size = new(int64(5 << 30))
		}
		d.ImportFrom = maybe(t, slot+" import", oneOf("local:import/a.qcow2"))
		s.Disks[slot] = d
	}
	s.CloudInit.Volume = ""
	if s.EFIDisk != nil {
		s.EFIDisk.Volume = ""
	}
	if s.TPMState != nil {
		s.TPMState.Volume = ""
	}
}

// apply carries a change out the way PVE does, as far as these tests need it.
func apply(t *rapid.T, config map[string]string, c Change) map[string]string {
	out := maps.Clone(config)
	for _, key := range slices.Concat(c.DeleteFirst, c.Delete) {
		if _, ok := out[key]; !ok {
			t.Fatalf("%s is deleted and not there: %+v", key, c)
		}
		delete(out, key)
	}
	free := 50
	for _, key := range slices.Sorted(maps.Keys(c.Set)) {
		if slices.Contains(c.Delete, key) {
			t.Fatalf("%s is set and deleted: %+v", key, c)
		}
		out[key] = c.Set[key]
		if _, isDrive := slotRank(key); isDrive {
			out[key] = allocate(c.Set[key], &free)
		}
	}
	for _, m := range c.Moves {
		file, properties, _ := parseDrive(out[m.Slot])
		if m.Format == "" {
			m.Format = volid.Format(file)
		}
		properties["file"] = volumeOn(m.Storage, m.Format, strings.Contains(file, "cloudinit"), &free)
		out[m.Slot] = property.Print(properties, "file")
	}
	for _, g := range c.Grow {
		file, properties, _ := parseDrive(out[g.Slot])
		properties["file"], properties["size"] = file, property.FormatSize(g.Size)
		out[g.Slot] = property.Print(properties, "file")
	}
	return out
}

// allocate turns a request for a volume into the volume.
func allocate(value string, free *int) string {
	file, properties, _ := parseDrive(value)
	storage, bytes, isNew := allocation(file)
	isCloudInit := strings.HasSuffix(file, ":cloudinit")
	switch {
	case isCloudInit:
		storage, _, _ = strings.Cut(file, ":")
		properties["media"] = "cdrom"
	case !isNew:
		return value
	default:
		properties["size"] = property.FormatSize(bytes)
	}
	if properties["import-from"] != "" {
		properties["size"] = "3G"
	}
	properties["file"] = volumeOn(storage, properties["format"], isCloudInit, free)
	delete(properties, "format")
	delete(properties, "import-from")
	return property.Print(properties, "file")
}

func volumeOn(storage, format string, isCloudInit bool, free *int) string {
	*free++
	name := "vm-100-disk-" + strconv.Itoa(*free)
	if isCloudInit {
		name = "vm-100-cloudinit"
	}
	if format != "" && format != "raw" {
		return storage + ":100/" + name + "." + format
	}
	return storage + ":" + name
}

// TestDecodeOfAnythingIsStable: configurations put together from pieces of real ones decode to something that prints and
// decodes to itself, with at most one drive of cloud-init.
func TestDecodeOfAnythingIsStable(t *testing.T) {
	keys := oneOf("scsi0", "ide0", "ide2", "sata5", "efidisk0", "tpmstate0", "net0", "cpu", "agent", "machine", "memory", "boot", "tags",
		"ipconfig0", "cicustom", "sshkeys", "nameserver", "cpulimit", "cores", "onboot", "description", "name", "args",
		"smbios1", "vga", "hotplug", "usb0", "hostpci0", "numa0", "serial0", "startup", "audio0", "rng0", "vmgenid", "watchdog", "virtiofs1",
		"autostart")
	pieces := oneOf(",", ",", "=", ";", " ", "file=", "volume=", "local-zfs:", "32", "0", "cloudinit", "vm-100-cloudinit", "vm-100-disk-0",
		".qcow2", "media=cdrom", "media=disk", "format=raw", "size=1024M", "size=x", "none", "discard=on", "ssd=yes", "ssd=maybe", "order=",
		"current=", "virtio", "model=", "macaddr=", "BC:24:11:00:00:01", "tag=5", "trunks=9;1-3;9", "rate=1.50", "1", "1.50", "host",
		"flags=+b;-a;+b", "type=", "enabled=", "ip=dhcp", "gw=x", "user=", "a%20b", "%", "serial=a%2Cb", "import-from=x", "\n", "B",
		"base64=1", "serial=QQ==", "uuid=", "memory=", "host=", "mapping=", "source=", "iops_rd_length=5", "iops_rd_max_length=6", "bps=1", "up=")
	values := rapid.Map(rapid.SliceOfN(pieces, 0, 8), func(p []string) string { return strings.Join(p, "") })
	rapid.Check(t, func(t *rapid.T) {
		config := rapid.MapOfN(keys, values, 1, 5).Draw(t, "config")
		s := Decode(config)
		same(t, "Decode(Encode(Decode(c)))", Decode(Encode(s)), s)
		if c := Diff(s, s); !c.Empty() {
			t.Fatalf("Diff(s, s) = %+v", c)
		}
		for key, raw := range s.Rest {
			if config[key] != raw {
				t.Fatalf("%s was %q, is %q in Rest", key, config[key], raw)
			}
		}
	})
}
