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
