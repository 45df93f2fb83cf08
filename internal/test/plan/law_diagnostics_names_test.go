package plan_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// misspelt is a name that is nearly another one: a letter more before what PVE reads out of it.
func misspelt(name string) string {
	storage, volume, isVolume := strings.Cut(name, ":")
	if !isVolume {
		return name + "x"
	}
	ext := path.Ext(volume)
	return storage + ":" + strings.TrimSuffix(volume, ext) + "x" + ext
}

// misspeltValue is the value of an attribute with one name misspelt; false: it holds no name.
func misspeltValue(plain cty.Value) (value cty.Value, name string, ok bool) {
	switch {
	case plain == cty.NilVal || plain.IsNull():
		return cty.NilVal, "", false
	case plain.Type() == cty.String:
		return cty.StringVal(misspelt(plain.AsString())), plain.AsString(), true
	case plain.Type() == cty.Number:
		return cty.NumberIntVal(987654), "", true
	case plain.CanIterateElements() && plain.LengthInt() > 0:
		all := plain.AsValueSlice()
		if all[0].Type() != cty.String {
			return cty.NilVal, "", false
		}
		name, all[0] = all[0].AsString(), cty.StringVal(misspelt(all[0].AsString()))
		if plain.Type().IsSetType() {
			return cty.SetVal(all), name, true
		}
		return cty.ListVal(all), name, true
	}
	return cty.NilVal, "", false
}

// notThere is the summary of a diagnostic about an object that the server does not have.
var notThere = regexp.MustCompile(`^(Unknown |There is no |No VM to clone|Node \S+ has no storage )`)

// namesOfTheServer are the attributes whose names a plan looks up.
func namesOfTheServer() []string {
	all := []string{"proxmox_disk pool", "proxmox_vm pool", "proxmox_vm networks.net0.bridge", "proxmox_vm vmstatestorage", "proxmox_vm import_working_storage",
		"proxmox_vm cpu.type", "proxmox_vm hookscript", "proxmox_vm restore.archive", "proxmox_vm pci.hostpci0.mapping",
		"proxmox_vm usb.usb0.mapping", "proxmox_vm virtiofs.virtiofs0.dirid", "proxmox_vm cdroms.ide3.file"}
	for _, typ := range []string{"disk", "image", "snippet", "cloud_init_iso"} {
		all = append(all, "proxmox_"+typ+" node", "proxmox_"+typ+" storage")
	}
	for _, of := range []string{"vmid", "name", "tags", "node", "storage"} {
		all = append(all, "proxmox_vm clone."+of)
	}
	for _, document := range []string{"user", "network", "meta", "vendor"} {
		all = append(all, "proxmox_vm cloud_init.custom."+document)
	}
	for _, disk := range []string{"disks.scsi0", "efi_disk", "tpm_state"} {
		all = append(all, "proxmox_vm "+disk+".storage", "proxmox_vm "+disk+".import_from")
	}
	all = append(all, "proxmox_vm node", "proxmox_vm cloud_init.storage")
	slices.Sort(all)
	return all
}

// TestLawDiagnosticsOfNames: the name of an object that the server does not have is told on the attribute that has it, and
// on no other one, when the object is made and when it is changed.
func TestLawDiagnosticsOfNames(t *testing.T) {
	t.Parallel()
	l := &oddLaw{changes: oneChanges(t), image: "plain"}
	l.files = rig.ServeFiles(t, map[string][]byte{"/plain.qcow2": rig.QCOW2(l.image)})
	l.image = string(rig.QCOW2(l.image))
	w := driftWorld(t, "pve1", "pve2")
	w.Change(addOthers)
	w.Change(addHolder)
	w.Change(forgetOthers)
	w.Change(func(world *state.World) { world.Put(state.WebBackup("pve1")) })
	var found []string
	attributes, tried, changed := leafAttributes(t), 0, 0
	for n, a := range attributes {
		base, at, plain := l.oddBase(a, 20000+n)
		row := a.typ + " " + at
		if n%share.Of(7) != 0 && !slices.Contains(namesOfTheServer(), row) {
			continue
		}
		if at == "cdroms.ide3.file" {
			plain = cty.StringVal("local:iso/debian.iso")
		}
		value, name, ok := misspeltValue(plain)
		if !ok {
			continue
		}
		tried++
		who := rig.RootTicket
		if a.typ == "proxmox_snippet" {
			who = rig.TokenSSH
		}
		s := w.Session(t, who, "")
		isNamed := func() bool {
			rig.Must(t, s.SetResource(a.typ+".it", base.withOdd(at, value).tree()))
			_, _ = s.Plan(t.Context())
			isTold := false
			for _, d := range s.Diagnostics() {
				switch where := attributePath(at); {
				case !notThere.MatchString(d.Summary):
				case d.Attribute != where && !strings.HasPrefix(d.Attribute, where+"["):
					t.Errorf("%s: on %q: %s", row, d.Attribute, d)
				default:
					isTold = true
				}
			}
			return isTold
		}
		if !isNamed() {
			continue
		}
		found = append(found, row)
		if n%share.Of(3) != 0 || strings.HasPrefix(at, "clone.") || strings.HasPrefix(at, "restore.") || strings.HasSuffix(at, ".import_from") {
			continue // of a new VM
		}
		rig.Must(t, s.SetResource(a.typ+".it", base.tree()))
		rig.Must(t, s.Run(t.Context()))
		if changed++; !isNamed() {
			t.Errorf("%s: %q is looked up when it is made, and not when it is changed", row, name)
		}
	}
	slices.Sort(found)
	if diff := cmp.Diff(namesOfTheServer(), found); diff != "" {
		t.Errorf("the attributes whose names are looked up: %s", diff)
	}
	t.Logf("%d attributes with %d values; %d are names that the server is asked for, %d of them changed later", len(attributes), tried, len(found), changed)
}
