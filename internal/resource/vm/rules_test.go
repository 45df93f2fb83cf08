package vm

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/vmschema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

func TestRulesNameAttributes(t *testing.T) {
	ctx := context.Background()
	known := plan.NewShape(ctx, vmschema.New(ctx), nil).Rules()
	for path := range model.Rules() {
		if !known[path] {
			t.Errorf("there is a rule for %s, which is no attribute", path)
		}
	}
}

// An attribute that is neither configured nor computed can only be null, so a wish that the server knows nothing
// of must be OnlyInState: else a refresh would drop it.
func TestWishesAreLocal(t *testing.T) {
	all := model.Rules()
	for name, attribute := range vmschema.New(context.Background()).Attributes {
		if attribute.IsComputed() || attribute.IsWriteOnly() || all[name].OnlyInState {
			continue
		}
		if !model.IsBySlot(name) {
			t.Errorf("%s is not computed and not OnlyInState", name)
		}
	}
}

func TestLocatorKnowsAllAttributes(t *testing.T) {
	ctx := context.Background()
	s := vmschema.New(ctx)
	for at := range plan.NewShape(ctx, s, nil).Rules() {
		where, ok := model.Locator{}.Attribute(strings.ReplaceAll(at, "*", "net0"))
		if _, diags := s.AttributeAtPath(ctx, where); !ok || diags.HasError() {
			t.Errorf("%s -> %s: no such attribute", at, where)
		}
	}
	for _, option := range knownOptions() {
		at, ok := model.Locator{}.Parameter(option)
		if steps := at.Steps(); len(steps) > 0 {
			if _, bySlot := steps[len(steps)-1].(path.PathStepElementKeyString); bySlot {
				at = at.ParentPath()
			}
		}
		if _, diags := s.AttributeAtPath(ctx, at); !ok || diags.HasError() {
			t.Errorf("%s -> %s: no such attribute", option, at)
		}
	}
	for name := range s.Attributes {
		if at, ok := (model.Locator{}).Parameter(name); !ok || at.String() != name && !slices.Contains(knownOptions(), name) {
			t.Errorf("the option %s is not at the attribute of that name, but at %q", name, at)
		}
	}
}

// knownOptions are the options of the attribute table, with the first slot of each family, and the parameters beside them.
func knownOptions() []string {
	all := slices.Collect(maps.Keys(model.OtherParameters()))
	for _, a := range vm.Attributes() {
		if a.Key == "" {
			all = append(all, strings.Replace(a.Option, "[n]", "0", 1))
		}
	}
	return all
}

func TestLocator(t *testing.T) {
	l := model.Locator{Cdroms: map[string]model.CDROM{"ide0": {}}, CloudInit: "ide2"}
	for given, want := range map[string]string{
		"net0": `networks["net0"]`, "scsi11": `disks["scsi11"]`, "ide0": `cdroms["ide0"]`, "ide2": "cloud_init", "ide3": `disks["ide3"]`,
		"ipconfig1": `cloud_init.addresses["net1"]`, "memory": "memory.size", "efidisk0": "efi_disk",
		"disks.scsi0.storage": `disks["scsi0"].storage`, "cloud_init.addresses.net0.ipv4": `cloud_init.addresses["net0"].ipv4`,
		"clone.vmid": "clone.vmid", "smbios1": "smbios", "hostpci3": `pci["hostpci3"]`, "numa1": `numa_nodes["numa1"]`, "unused0": "",
		"delete": "", "": "",
	} {
		at, ok := l.Attribute(given)
		if given == "memory" {
			at, ok = l.Parameter(given)
		}
		if got := at.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%q is at %q, want %q", given, got, want)
		}
	}
}

func TestSchemaHasNoStrayChildren(t *testing.T) {
	// A slot map must be known to the locator, or errors in it lose their place.
	for name, attribute := range vmschema.New(context.Background()).Attributes {
		if nested, ok := attribute.(schema.MapNestedAttribute); ok && nested.IsOptional() && !model.IsBySlot(name) {
			t.Errorf("%s is no map by slot", name)
		}
	}
}

func TestSlotsAreOrderedByNumber(t *testing.T) {
	if slots := []string{"net10", "net2", "net0"}; !slices.Equal(slices.SortedFunc(slices.Values(slots), model.BySlot),
		[]string{"net0", "net2", "net10"}) {
		t.Error("slots are not ordered by their number")
	}
}
