package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	frameworkaction "github.com/hashicorp/terraform-plugin-framework/action"
	frameworkdatasource "github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// asked is a data source or an action, with a variable of its name for each argument.
type asked struct {
	typ, address string
	arguments    []string
	block        string
	known        flat
}

func (a asked) session(t *testing.T, w *rig.World) *terraformtest.Session {
	t.Helper()
	s := w.Session(t, rig.RootTicket, variablesOf(a.arguments)+a.block)
	configured(s, a.arguments, a.known)
	return s
}

// variablesOf declares a variable for each name.
func variablesOf(names []string) (block string) {
	for _, name := range names {
		block += fmt.Sprintf("variable %q {}\n", name)
	}
	return block
}

// assigned are the arguments of a block.
func assigned(arguments []string) string {
	text := ""
	for _, name := range arguments {
		text += fmt.Sprintf("%[1]s = var.%[1]s\n", name)
	}
	return text
}

// askedDataSources are all data sources.
func askedDataSources(t *testing.T) (all []asked) {
	t.Helper()
	text := cty.StringVal
	known := map[string]flat{"node": {"name": text("pve1")}, "vm": {"vmid": cty.NumberIntVal(8000)}, "files": {"node": text("pve1"), "storage": text("local")},
		"import_metadata": {"node": text("pve1"), "volume": text("local:import/web.ova")}, "nodes": {}, "version": {}, "vms": {}, "storages": {}, "orphans": {}}
	for _, make := range rig.DataSources(t.Context()) {
		var meta frameworkdatasource.MetadataResponse
		var response frameworkdatasource.SchemaResponse
		d := make()
		d.Metadata(t.Context(), frameworkdatasource.MetadataRequest{ProviderTypeName: "proxmox"}, &meta)
		d.Schema(t.Context(), frameworkdatasource.SchemaRequest{}, &response)
		values, ok := known[strings.TrimPrefix(meta.TypeName, "proxmox_")]
		if !ok {
			t.Errorf("the law has no arguments of %s", meta.TypeName)
		}
		a := asked{typ: meta.TypeName, known: values}
		for _, name := range slices.Sorted(maps.Keys(response.Schema.Attributes)) {
			if at := response.Schema.Attributes[name]; at.IsOptional() || at.IsRequired() {
				a.arguments = append(a.arguments, name)
			}
		}
		a.block = fmt.Sprintf("data %q \"it\" {\n%s}\noutput \"it\" { value = data.%s.it }\n", a.typ, assigned(a.arguments), a.typ)
		all = append(all, a)
	}
	return all
}

// askedActions are all actions.
func askedActions(t *testing.T) (all []asked) {
	t.Helper()
	text := cty.StringVal
	vm := flat{"vmid": cty.NumberIntVal(8000)}
	known := map[string]flat{"vm_power": vm.with("action", text("start")), "vm_unlock": vm, "vm_snapshot_rollback": vm.with("name", text("before")),
		"orphan_delete": {"kind": text("volume"), "id": text("local-zfs:vm-4711-disk-0"), "node": text("pve1")}}
	for _, make := range rig.Actions(t.Context()) {
		var meta frameworkaction.MetadataResponse
		var response frameworkaction.SchemaResponse
		one := make()
		one.Metadata(t.Context(), frameworkaction.MetadataRequest{ProviderTypeName: "proxmox"}, &meta)
		one.Schema(t.Context(), frameworkaction.SchemaRequest{}, &response)
		values, ok := known[strings.TrimPrefix(meta.TypeName, "proxmox_")]
		if !ok {
			t.Errorf("the law has no arguments of %s", meta.TypeName)
		}
		a := asked{typ: meta.TypeName, address: "action." + meta.TypeName + ".it", known: values,
			arguments: slices.Sorted(maps.Keys(response.Schema.Attributes))}
		a.block = fmt.Sprintf("action %q \"it\" {\n  config {\n%s}\n}\n", a.typ, assigned(a.arguments))
		all = append(all, a)
	}
	return all
}

// TestLawUnknownsOfDataSources: a data source with an argument that is not known in the plan is read in the apply, with
// the same words as with the known one.
func TestLawUnknownsOfDataSources(t *testing.T) {
	t.Parallel()
	rows := 0
	w := driftWorld(t, "pve1", "pve2")
	w.Change(addOthers)
	for _, a := range askedDataSources(t) {
		for _, name := range a.arguments {
			rows++
			plain := fmt.Sprint(a.session(t, w).Run(t.Context()))
			s := a.session(t, w)
			s.SetVariable(name, cty.DynamicVal)
			pl, err := s.Plan(t.Context())
			if err != nil {
				t.Errorf("%s.%s: refused while it is not known: %v", a.typ, name, err)
				continue
			}
			configured(s, a.arguments, a.known)
			if said := fmt.Sprint(s.Apply(t.Context(), pl)); said != plain {
				t.Errorf("%s.%s: %s\nand when it is known %s", a.typ, name, said, plain)
			}
		}
	}
	t.Logf("%d arguments of data sources", rows)
	if rows < 10 {
		t.Errorf("%d arguments of data sources, want at least 10", rows)
	}
}

// TestLawUnknownsOfActions: an action with an argument that is not known in the plan is not refused there, and is carried
// out, or refused, in the apply as with the known one.
func TestLawUnknownsOfActions(t *testing.T) {
	t.Parallel()
	rows := 0
	for _, a := range askedActions(t) {
		for _, name := range a.arguments {
			rows++
			var said [2]string
			for i, open := range []bool{false, true} {
				w := driftWorld(t, "pve1", "pve2")
				s := a.session(t, w)
				planned := false
				if open {
					s.SetVariable(name, cty.DynamicVal)
				}
				_, err := s.Invoke(t.Context(), a.address, func() { planned = true; configured(s, a.arguments, a.known) })
				if said[i] = fmt.Sprint(err); open && !planned {
					t.Errorf("%s.%s: refused while it is not known: %v", a.typ, name, err)
				}
			}
			if said[0] != said[1] {
				t.Errorf("%s.%s: %s\nand when it is known %s", a.typ, name, said[1], said[0])
			}
		}
	}
	t.Logf("%d arguments of actions", rows)
	if rows < 20 {
		t.Errorf("%d arguments of actions, want at least 20", rows)
	}
}

// TestLawUnknownsBetween holds a VM to the law whose values another resource of the provider computes, while an argument
// of that one is not known: an image to import, a disk that outlives it. It also leaves the source of a restore unknown.
func TestLawUnknownsBetween(t *testing.T) {
	t.Parallel()
	files := rig.ServeFiles(t, map[string][]byte{"/odd1.qcow2": rig.QCOW2("one"), "/odd2.qcow2": rig.QCOW2("two")})
	text := cty.StringVal
	const vm = "\nresource \"proxmox_vm\" \"it\" {\n  vmid = 300\n  node = \"pve1\"\n  name = \"it\"\n  power_state = \"stopped\"\n"
	const image = "resource \"proxmox_image\" \"it\" {\n  node = \"pve1\"\n  storage = \"local\"\n  url = var.it\n}" + vm +
		"  disks = { scsi0 = { storage = \"local-zfs\", size = \"4G\", import_from = proxmox_image.it.volume } }\n}\n"
	const disk = "resource \"proxmox_disk\" \"it\" {\n  vmid = 301\n  node = \"pve1\"\n  size = \"1G\"\n  storage = \"local-zfs\"\n  %s = var.it\n}" + vm +
		"  disks = { scsi0 = { imported_disk = { volume = proxmox_disk.it.volume } } }\n}\n"
	const restore = vm + "  protection = false\n  restore = { archive = var.it }\n}\n"
	one, two, none := text(files+"/odd1.qcow2"), text(files+"/odd2.qcow2"), cty.NilVal
	for name, c := range map[string]struct {
		hcl     string
		was, is cty.Value
	}{
		"image, made": {image, none, one}, "image, the same": {image, one, one}, "image, another": {image, one, two},
		"disk by format, made": {fmt.Sprintf(disk, "format"), none, text("raw")}, "disk by format, the same": {fmt.Sprintf(disk, "format"), text("raw"), text("raw")},
		"disk by name, the same": {fmt.Sprintf(disk, "name"), text("one"), text("one")}, "disk by name, another": {fmt.Sprintf(disk, "name"), text("one"), text("two")},
		"disk by pool, null": {fmt.Sprintf(disk, "pool"), text("web"), cty.NullVal(cty.String)},
		"restore, made":      {restore, none, text(rig.WebBackup)}, "restore, the same": {restore, text(rig.WebBackup), text(rig.WebBackup)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := driftWorld(t, "pve1", "pve2")
			w.Change(func(world *state.World) { world.Put(state.WebBackup("pve1")) })
			s := w.Session(t, rig.RootTicket, "variable \"it\" {}\n"+c.hcl)
			if c.was != none {
				s.SetVariable("it", c.was)
				rig.Must(t, s.Converge(t.Context()))
			}
			s.SetVariable("it", cty.DynamicVal)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			s.SetVariable("it", c.is)
			rig.Must(t, s.Apply(t.Context(), pl))
			after, err := s.Plan(t.Context())
			rig.Must(t, err)
			if !after.Empty() {
				t.Errorf("the plan after the apply:\n%sit was planned:\n%s", after, pl)
			}
		})
	}
}
