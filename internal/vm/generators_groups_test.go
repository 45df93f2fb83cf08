package vm

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fields draws a group: each pointer set or not, one unknown sub-key in Rest or none.
func fields[T holder | Throttle | MachineOptions](t *rapid.T, label string) T {
	var group T
	v := reflect.ValueOf(&group).Elem()
	for i := range v.NumField() {
		name := label + "." + v.Type().Field(i).Name
		if v.Field(i).Kind() == reflect.Map {
			if rest := restOf(t, name, "later"); rest != nil {
				v.Field(i).Set(reflect.ValueOf(rest))
			}
			continue
		}
		if v.Field(i).Kind() != reflect.Pointer || !rapid.Bool().Draw(t, name+"?") {
			continue
		}
		p := reflect.New(v.Field(i).Type().Elem())
		switch p.Elem().Kind() {
		case reflect.String:
			p.Elem().SetString(word().Draw(t, name))
		case reflect.Bool:
			p.Elem().SetBool(rapid.Bool().Draw(t, name))
		case reflect.Int64:
			p.Elem().SetInt(number().Draw(t, name))
		case reflect.Float64:
			p.Elem().SetFloat(fraction().Draw(t, name))
		default:
			t.Fatalf("%s is a %s", name, p.Elem().Kind())
		}
		v.Field(i).Set(p)
	}
	return group
}

func genMachine(t *rapid.T, s *Spec) {
	for _, at := range []struct {
		name  string
		field **bool
	}{
		{"acpi", &s.ACPI}, {"kvm", &s.KVM}, {"tablet", &s.Tablet}, {"localtime", &s.LocalTime}, {"tdf", &s.TDF}, {"reboot", &s.Reboot},
		{"freeze", &s.Freeze},
	} {
		*at.field = maybe(t, at.name, rapid.Bool())
	}
	for _, at := range []struct {
		name  string
		field **string
	}{
		{"keyboard", &s.Keyboard}, {"startdate", &s.StartDate}, {"vmstatestorage", &s.VMStateStorage}, {"hookscript", &s.HookScript},
		{"args", &s.Args}, {"arch", &s.Arch},
	} {
		*at.field = maybe(t, at.name, word())
	}
	if rapid.Bool().Draw(t, "hotplug?") {
		s.Hotplug = append([]string{}, sortedWords(t, "hotplug", oneOf("disk", "network", "usb", "cpu", "memory", "cloudinit"))...)
	}
	s.MigrateDowntime, s.MigrateSpeed = maybe(t, "migrate_downtime", fraction()), maybe(t, "migrate_speed", number())
	s.VMGenID = maybe(t, "vmgenid", oneOf("0", "6f4fa7b2-f022-48c4-8346-876f8d66b359", "d6d8dd5e-4bb1-4a4c-a3c6-57f7d04a8f1a"))
	s.MachineOptions, s.Startup, s.VGA, s.Audio = fields[MachineOptions](t, "machine"), fields[Startup](t, "startup"), fields[VGA](t, "vga"),
		fields[Audio](t, "audio")
	s.RNG, s.Watchdog, s.IVSHMEM = fields[RNG](t, "rng"), fields[Watchdog](t, "watchdog"), fields[IVSHMEM](t, "ivshmem")
	s.SpiceEnhancements, s.AMDSEV, s.IntelTDX = fields[SpiceEnhancements](t, "spice"), fields[AMDSEV](t, "sev"), fields[IntelTDX](t, "tdx")
	s.SMBIOS = spelt(fields[SMBIOS](t, "smbios"), rapid.Bool().Draw(t, "base64"))
}

// spelt gives b the spelling that it must have, or the one asked for. Where there is nothing to spell, it has none.
func spelt(b SMBIOS, base64 bool) SMBIOS {
	b.Base64 = base64 && len(smbiosFormat().showAll(&b)) > 0
	for _, s := range []*string{b.Manufacturer, b.Product, b.Version, b.Serial, b.SKU, b.Family} {
		b.Base64 = b.Base64 || s != nil && strings.ContainsAny(*s, "-_.")
	}
	return b
}

func genDevices(t *rapid.T, s *Spec) {
	for _, n := range []int{0, 2} {
		slot := func(name string) (string, bool) {
			return fmt.Sprintf("%s%d", name, n), rapid.IntRange(0, 2).Draw(t, name+"?") == 0
		}
		if key, ok := slot("hostpci"); ok {
			put(&s.PCI, key, some(t, key, fields[PCI], func(d *PCI) { d.Host = new("01:00.0") }, pciFormat()))
		}
		if key, ok := slot("usb"); ok {
			put(&s.USB, key, some(t, key, fields[USB], func(d *USB) { d.Host = new("spice") }, usbFormat()))
		}
		if key, ok := slot("numa"); ok {
			put(&s.NUMANodes, key, some(t, key, fields[NUMANode], func(d *NUMANode) { d.CPUs = new("0-1;3") }, numaFormat()))
		}
		if key, ok := slot("virtiofs"); ok {
			put(&s.VirtioFS, key, some(t, key, fields[VirtioFS], func(d *VirtioFS) { d.DirID = new("share") }, virtioFSFormat()))
		}
		if key, ok := slot("serial"); ok {
			put(&s.Serial, key, oneOf("socket", "/dev/ttyS0").Draw(t, key))
		}
		if key, ok := slot("parallel"); ok {
			put(&s.Parallel, key, oneOf("/dev/parport0", "/dev/usb/lp0").Draw(t, key))
		}
	}
}

// some draws a device that says something by itself: PVE has no other.
func some[T PCI | USB | NUMANode | VirtioFS](t *rapid.T, key string, draw func(*rapid.T, string) T, fill func(*T), f format[T]) T {
	d := draw(t, key)
	bare := d
	*f.rest(&bare) = nil
	if f.encode(&bare) == "" {
		fill(&d)
	}
	return d
}

// TestGeneratorsDrawEverything: no field of Spec escapes the laws. Fields that exist only before a volume is made are left out.
func TestGeneratorsDrawEverything(t *testing.T) {
	drawn := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) { note(drawn, "Spec", reflect.ValueOf(genSpec(t))) })
	all := map[string]bool{}
	enumerate(all, "Spec", reflect.TypeFor[Spec]())
	for name := range all {
		if !drawn[name] && !slices.Contains([]string{"ImportFrom", "PasswordHash", "ExactTags"}, name[strings.LastIndexByte(name, '.')+1:]) {
			t.Errorf("%s is never drawn", name)
		}
	}
	if len(all) < 200 {
		t.Errorf("only %d fields", len(all))
	}
}

func enumerate(all map[string]bool, name string, typ reflect.Type) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		all[name] = true
		return
	}
	for f := range typ.Fields() {
		enumerate(all, name+"."+f.Name, f.Type)
	}
}

func note(drawn map[string]bool, name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			note(drawn, name, v.Elem())
		}
	case reflect.Map:
		for _, value := range v.Seq2() {
			note(drawn, name, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				note(drawn, name+"."+v.Type().Field(i).Name, v.Field(i))
			}
		}
	default:
		drawn[name] = true
	}
}
