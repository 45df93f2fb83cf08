package vm

import (
	"cmp"
	"reflect"
	"strings"

	"pgregory.net/rapid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// drawOptions fills what package vm has a field for under every option that drawConfig does not draw itself.
func drawOptions(t *rapid.T, label string, m *model.Model) {
	v := reflect.ValueOf(m).Elem()
	for _, field := range []string{"ACPI", "KVM", "Tablet", "LocalTime", "TDF", "Reboot", "Freeze", "Keyboard", "StartDate", "VMStateStorage",
		"MigrateDowntime", "MigrateSpeed", "HookScript", "Args", "Arch", "VMGenID", "MachineOptions", "Startup", "SMBIOS", "VGA", "Audio",
		"RNG", "Watchdog", "SpiceEnhancements", "IVSHMEM", "AMDSEV", "IntelTDX"} {
		drawField(t, label+" "+field, v.FieldByName(field))
	}
	m.Hotplug = maybeList(t, label+" hotplug", "disk", "network", "usb")
	for _, field := range []string{"PCI", "USB", "NUMANodes", "VirtioFS", "Serial", "Parallel"} {
		devices := v.FieldByName(field)
		prefix := map[string]string{"PCI": "hostpci", "NUMANodes": "numa"}[field]
		if prefix == "" {
			prefix = strings.ToLower(field)
		}
		for _, slot := range maybeList(t, label+" "+field, prefix+"0", prefix+"1") {
			if devices.IsNil() {
				devices.Set(reflect.MakeMap(devices.Type()))
			}
			device := reflect.New(devices.Type().Elem()).Elem()
			drawFields(t, label+" "+slot, device)
			devices.SetMapIndex(reflect.ValueOf(slot), device)
		}
	}
	requireKeys(m)
}

// requireKeys sets what the schema or the validation demands with each group and device.
func requireKeys(m *model.Model) {
	if g := m.AMDSEV; g != nil && g.Type == nil {
		g.Type = new("std")
	}
	if g := m.IntelTDX; g != nil && g.Type == nil {
		g.Type = new("tdx")
	}
	for slot, d := range m.PCI {
		d.Host = cmp.Or(d.Host, new("01:00.0"))
		m.PCI[slot] = d
	}
	for slot, d := range m.USB {
		d.Host = cmp.Or(d.Host, new("spice"))
		m.USB[slot] = d
	}
	for slot, d := range m.NUMANodes {
		d.CPUs = cmp.Or(d.CPUs, new("0"))
		m.NUMANodes[slot] = d
	}
	for slot, d := range m.VirtioFS {
		d.DirID = cmp.Or(d.DirID, new("share"))
		m.VirtioFS[slot] = d
	}
	for _, ports := range []map[string]model.Port{m.Serial, m.Parallel} {
		for slot, d := range ports {
			d.Device = cmp.Or(d.Device, new("socket"))
			ports[slot] = d
		}
	}
}

// drawFields fills the attributes of a group.
func drawFields(t *rapid.T, label string, v reflect.Value) {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("tfsdk") != "-" {
			drawField(t, label+" "+v.Type().Field(i).Name, v.Field(i))
		}
	}
}

// drawField leaves a value out, or draws one that is legal as far as the codec is concerned.
func drawField(t *rapid.T, label string, v reflect.Value) {
	if v.Kind() != reflect.Pointer || !rapid.Bool().Draw(t, label+" set") {
		return
	}
	target := reflect.New(v.Type().Elem())
	switch p := target.Interface().(type) {
	case *string:
		*p = rapid.SampledFrom(words(label)).Draw(t, label)
	case *int64:
		*p = rapid.Int64Range(1, 64).Draw(t, label)
	case *float64:
		*p = rapid.SampledFrom([]float64{0.5, 1, 12.25}).Draw(t, label)
	case *bool:
		*p = rapid.Bool().Draw(t, label)
	default:
		drawFields(t, label, target.Elem())
	}
	v.Set(target)
}

func words(label string) []string {
	switch {
	case strings.HasSuffix(label, "VMGenID"):
		return []string{"1", "0", "6F4FA7B2-f022-48c4-8346-876f8d66b359"}
	case strings.HasSuffix(label, "SMBIOS UUID"):
		return []string{"7d4e83a9-947b-41d9-acb7-93796cdd896b"}
	case strings.Contains(label, "SMBIOS"):
		return []string{"Plain", "with a blank, and a comma"}
	case strings.HasSuffix(label, "ID"):
		return []string{"0x10DE", "0x10de", "0x8086"}
	}
	return []string{"first", "second"}
}
