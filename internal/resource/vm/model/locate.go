package model

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Locator finds the attribute behind what PVE and package service complain about. The zero locator knows everything
// but what a drive slot holds, and takes it for a disk.
type Locator struct {
	Cdroms    map[string]CDROM
	CloudInit string // slot of the cloud-init drive
	restores  bool   // it is made of a backup
}

var _ kit.Locator = Locator{}

// Locator finds the attributes of this VM.
func (m *Model) Locator() Locator {
	l := Locator{Cdroms: m.CDROMs, restores: m.Restore != nil}
	if c := m.CloudInit; c != nil {
		l.CloudInit = Value(c.Slot)
		if c.Slot == nil && c.Storage != nil {
			l.CloudInit = vm.DefaultCloudInitSlot
		}
	}
	return l
}

// OtherParameters are parameters of PVE's routes that are no options of a VM.
func OtherParameters() map[string]string {
	return map[string]string{
		"newid": "vmid", "target": "node", "snapname": "clone.snapshot", "full": "clone.full", "storage": "clone.storage",
		"format": "clone.format", "bwlimit": "clone.bwlimit", "archive": "restore.archive",
	}
}

// AttributeOf is the dotted path of the attribute for a parameter of PVE that is no slot.
func AttributeOf(parameter string) (string, bool) {
	if dotted, ok := OtherParameters()[parameter]; ok {
		return dotted, true
	}
	if a, ok := vm.AttributeOf(parameter); ok && !strings.Contains(a.Path, "*") {
		return a.Path, true
	}
	name := strings.ReplaceAll(parameter, "-", "_")
	_, ok := typeOf(reflect.TypeFor[Model](), name)
	return name, ok
}

// Parameter is the attribute behind a parameter of PVE's API.
func (l Locator) Parameter(name string) (path.Path, bool) {
	if dotted, ok := AttributeOf(name); ok {
		if option, ok := strings.CutPrefix(dotted, "clone."); ok && l.restores {
			dotted = "restore." + option
		}
		return l.Attribute(dotted)
	}
	bus, _ := SplitSlot(name)
	a, ok := vm.AttributeOf(name)
	_, isCDROM := l.Cdroms[name]
	switch {
	case !ok:
		return path.Empty(), false
	case isCDROM:
		return path.Root("cdroms").AtMapKey(name), true
	case IsDisk(bus) && l.CloudInit == name:
		return path.Root("cloud_init"), true
	case bus == "ipconfig":
		name = "net" + strings.TrimPrefix(name, bus)
	}
	return l.Attribute(strings.Replace(a.Path, "*", name, 1))
}

// attributePath is the dotted path behind an option of PVE.
func (m *Model) attributePath(option string) (string, bool) {
	at, ok := m.Locator().Parameter(option)
	if !ok {
		return "", false
	}
	var steps []string
	for _, step := range at.Steps() {
		switch s := step.(type) {
		case path.PathStepAttributeName:
			steps = append(steps, string(s))
		case path.PathStepElementKeyString:
			steps = append(steps, string(s))
		}
	}
	return strings.Join(steps, "."), true
}

// Attribute is the path behind its dotted form. A parameter of PVE is accepted too.
func (l Locator) Attribute(dotted string) (path.Path, bool) {
	steps := strings.Split(dotted, ".")
	at, in := path.Empty(), reflect.TypeFor[Model]()
	for i, step := range steps {
		inside, ok := typeOf(in, step)
		switch {
		case i == 0 && !ok:
			return l.Parameter(dotted)
		case ok && in.Kind() == reflect.Map:
			at = at.AtMapKey(step)
		default:
			at = at.AtName(step)
		}
		in = inside
	}
	return at, true
}

// typeOf is the type of an attribute of a model or a group, or of the elements of a map.
func typeOf(in reflect.Type, name string) (reflect.Type, bool) {
	if in == nil {
		return nil, false
	}
	if in.Kind() == reflect.Pointer {
		in = in.Elem()
	}
	switch in.Kind() {
	case reflect.Map:
		return in.Elem(), true
	case reflect.Struct:
		for field := range in.Fields() {
			if field.Anonymous {
				if t, ok := typeOf(field.Type, name); ok {
					return t, true
				}
			} else if field.Tag.Get("tfsdk") == name {
				return field.Type, true
			}
		}
	}
	return nil, false
}

// IsBySlot reports whether an attribute is a map whose keys are PVE's slots.
func IsBySlot(name string) bool {
	t, ok := typeOf(reflect.TypeFor[Model](), name)
	return ok && t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct
}

// Thing names a VM for people.
func Thing(vmid int64, name, node string) string {
	text := "a VM"
	switch {
	case vmid != 0:
		text = fmt.Sprintf("VM %d", vmid)
	case name != "":
		text = fmt.Sprintf("VM %q", name)
	}
	if node != "" {
		text += " on " + node
	}
	return text
}

// Thing names the VM for people.
func (m *Model) Thing() string { return Thing(Value(m.VMID), Value(m.Name), Value(m.Node)) }

// About notes in the account of the operation which VM it is about.
func (m *Model) About(ctx context.Context) {
	o := oplog.From(ctx)
	o.About(int(Value(m.VMID)), Value(m.Node))
	if m.VMID != nil || m.Name != nil {
		o.Thing(m.Thing())
	}
}

// Attempt is an operation on a VM, for diagnostics. The password is in neither the state nor the plan, so it is given.
func (m *Model) Attempt(as kit.Identity, verb string, password *string) kit.Attempt {
	return kit.Attempt{Verb: verb, Thing: m.Thing(), At: m.Locator(), As: as, Secrets: []string{Value(password)}}
}
