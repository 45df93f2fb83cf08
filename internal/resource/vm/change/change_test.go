package change

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// object is a VM whose attributes are all null but for these.
func object(attributes map[string]tftypes.Value) tftypes.Value {
	kind, _ := model.SchemaValues().Typ.(tftypes.Object)
	all := map[string]tftypes.Value{}
	for name, of := range kind.AttributeTypes {
		all[name] = tftypes.NewValue(of, nil)
	}
	maps.Copy(all, attributes)
	return tftypes.NewValue(kind, all)
}

// sample is a known value of a type.
func sample(of tftypes.Type) tftypes.Value {
	switch kind := of.(type) {
	case tftypes.Object:
		inside := map[string]tftypes.Value{}
		for name, of := range kind.AttributeTypes {
			inside[name] = tftypes.NewValue(of, nil)
		}
		return tftypes.NewValue(kind, inside)
	case tftypes.Map:
		return tftypes.NewValue(kind, map[string]tftypes.Value{"scsi0": sample(kind.ElementType)})
	case tftypes.List:
		return tftypes.NewValue(kind, []tftypes.Value{sample(kind.ElementType)})
	case tftypes.Set:
		return tftypes.NewValue(kind, []tftypes.Value{sample(kind.ElementType)})
	}
	switch {
	case of.Is(tftypes.Bool):
		return tftypes.NewValue(of, true)
	case of.Is(tftypes.Number):
		return tftypes.NewValue(of, 1)
	}
	return tftypes.NewValue(of, "a")
}

// between is the change of one attribute.
func between(name string, was, is tftypes.Value) *Change {
	return &Change{Values: model.SchemaValues(), State: object(map[string]tftypes.Value{name: was}),
		Value: object(map[string]tftypes.Value{name: is})}
}

// eachAttribute calls a test with each attribute of the schema, and with a value, null and unknown of its type.
func eachAttribute(t *testing.T, test func(name string, some, null, unknown tftypes.Value)) {
	t.Helper()
	kind, _ := model.SchemaValues().Typ.(tftypes.Object)
	for _, name := range slices.Sorted(maps.Keys(kind.AttributeTypes)) {
		of := kind.AttributeTypes[name]
		test(name, sample(of), tftypes.NewValue(of, nil), tftypes.NewValue(of, tftypes.UnknownValue))
	}
}

// TestComparisonsOfEachAttribute: a value that is not known is neither the one in state nor another, and one that comes or goes is not
// swapped for another.
func TestComparisonsOfEachAttribute(t *testing.T) {
	t.Parallel()
	eachAttribute(t, func(name string, some, null, unknown tftypes.Value) {
		for _, c := range []struct {
			what           string
			was, is        tftypes.Value
			compare, swaps Comparison
			goes, stays    bool
		}{
			{"never there", null, null, Same, Same, false, false},
			{"comes", null, some, Other, Same, false, false},
			{"may come", null, unknown, Open, Same, false, false},
			{"goes", some, null, Other, Same, true, false},
			{"stays", some, some, Same, Same, false, true},
			{"may change", some, unknown, Open, Open, false, true},
		} {
			p := between(name, c.was, c.is)
			got := fmt.Sprint(p.Compare(name), p.Swaps(name), p.Goes(name), p.Stays(name))
			if want := fmt.Sprint(c.compare, c.swaps, c.goes, c.stays); got != want {
				t.Errorf("%s %s: %s, not %s", name, c.what, got, want)
			}
		}
	})
}

// TestChangedAttributesNameEachAlone: an attribute that only the server gives, or that never leaves this machine, changes nothing there.
func TestChangedAttributesNameEachAlone(t *testing.T) {
	t.Parallel()
	all := model.SchemaValues().Schema.Attributes
	eachAttribute(t, func(name string, some, null, unknown tftypes.Value) {
		var want []string
		if isSent := all[name].IsOptional() || !all[name].IsComputed(); isSent && !model.Rules()[name].OnlyInState {
			want = []string{name}
		}
		for what, p := range map[string]*Change{"comes": between(name, null, some), "goes": between(name, some, null),
			"may change": between(name, some, unknown)} {
			if got := p.changedAttributes(); !slices.Equal(got, want) {
				t.Errorf("%s %s: %q, not %q", name, what, got, want)
			}
		}
		if got := between(name, some, some).changedAttributes(); len(got) > 0 {
			t.Errorf("%s stays: %q", name, got)
		}
	})
}

// TestProtectedVMIsNotRemoved: each refusal has the way out. Only a replacement has a block with the attribute.
func TestProtectedVMIsNotRemoved(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"destroy", "replace"} {
		for _, protection := range []*bool{nil, new(false), new(true)} {
			p := &Change{Prior: model.Model{VMID: new(int64(400))}}
			p.Prior.Protection = protection
			p.RefuseRemoval(verb)
			isRefused := protection != nil && *protection
			if p.Diags.HasError() != isRefused {
				t.Fatalf("%s, protection %v: %s", verb, protection, p.Diags)
			}
			if !isRefused {
				continue
			}
			said := p.Diags[0]
			at, _ := said.(interface{ Path() path.Path })
			if !strings.Contains(said.Detail(), "qm set 400 --protection 0") || !strings.Contains(said.Summary(), verb) ||
				(at != nil) != (verb == "replace") {
				t.Errorf("%s: %v", verb, said)
			}
		}
	}
}

// TestStatusOfANewVM: the plan promises a power state only where the configuration alone decides on it.
func TestStatusOfANewVM(t *testing.T) {
	t.Parallel()
	text := func(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }
	yes, open := tftypes.NewValue(tftypes.Bool, true), tftypes.NewValue(tftypes.Bool, tftypes.UnknownValue)
	kind, _ := model.SchemaValues().Typ.(tftypes.Object)
	ha := sample(kind.AttributeTypes["ha"])
	for name, c := range map[string]struct {
		config map[string]tftypes.Value
		want   string // "" is not known
	}{
		"by default":             {nil, "running"},
		"stopped":                {map[string]tftypes.Value{"power_state": text("stopped")}, "stopped"},
		"running":                {map[string]tftypes.Value{"power_state": text("running")}, "running"},
		"a template":             {map[string]tftypes.Value{"template": yes}, "stopped"},
		"maybe a template":       {map[string]tftypes.Value{"template": open}, ""},
		"power state not known":  {map[string]tftypes.Value{"power_state": tftypes.NewValue(tftypes.String, tftypes.UnknownValue)}, ""},
		"under HA":               {map[string]tftypes.Value{"ha": ha}, ""},
		"under HA, and a wish":   {map[string]tftypes.Value{"ha": ha, "power_state": text("running")}, ""},
		"a template that is off": {map[string]tftypes.Value{"template": yes, "power_state": text("stopped")}, "stopped"},
	} {
		config := object(c.config)
		value := plan.Edit(config, map[string]bool{"status": true, "pending_changes": true, "addresses": true}, nil)
		p := &Change{Values: model.SchemaValues(), Config: model.Configuration{Raw: config}, Value: value}
		p.Plan, _ = p.Model(t.Context(), value)
		p.ForetellNewVM()
		status := plan.At(p.Value, "status")
		if got := model.StringOf(status); got != c.want || status.IsKnown() != (c.want != "") {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
		if off := c.want == "stopped"; off && !plan.At(p.Value, "addresses").IsNull() {
			t.Errorf("%s: a guest that is off may have addresses", name)
		}
		if !plan.At(p.Value, "pending_changes").IsKnown() {
			t.Errorf("%s: changes may wait in a new VM", name)
		}
	}
}

// TestDefaultBootOrderIsOpenWithItsDevices: an order that leaves the configuration becomes that of the planned devices, which is not known
// before all of them are. One that was never configured stays.
func TestDefaultBootOrderIsOpenWithItsDevices(t *testing.T) {
	t.Parallel()
	kind, _ := model.SchemaValues().Typ.(tftypes.Object)
	order := map[string]tftypes.Value{"boot_order": sample(kind.AttributeTypes["boot_order"])}
	reset := func(config tftypes.Value) *Change {
		return &Change{Values: model.SchemaValues(), State: object(order), Value: object(nil),
			Config:  model.Configuration{Raw: config},
			Private: model.PrivateState{Managed: plan.Managed{"boot_order": true}},
			Plan:    model.Model{Disks: map[string]model.Disk{"scsi1": {}}, Networks: map[string]model.NIC{"net0": {}}}}
	}
	if got, ok := DefaultBootOrder(reset(object(nil))); !ok || !got.IsFullyKnown() || !strings.Contains(got.String(), "scsi1") {
		t.Errorf("known devices: %s, %t", got, ok)
	}
	for _, group := range []string{"disks", "cdroms", "networks", "cloud_init"} {
		unknown := tftypes.NewValue(kind.AttributeTypes[group], tftypes.UnknownValue)
		if got, ok := DefaultBootOrder(reset(object(map[string]tftypes.Value{group: unknown}))); !ok || got.IsKnown() {
			t.Errorf("%s not known: %s, %t", group, got, ok)
		}
	}
	for name, change := range map[string]func(p *Change){
		"still configured": func(p *Change) { p.Config.Raw = object(order) },
		"not managed":      func(p *Change) { p.Private.Managed = plan.Managed{} },
		"not in state":     func(p *Change) { p.State = object(nil) },
		"a new VM":         func(p *Change) { p.State = tftypes.NewValue(kind, nil) },
	} {
		p := reset(object(nil))
		change(p)
		if got, ok := DefaultBootOrder(p); ok {
			t.Errorf("%s: %s", name, got)
		}
	}
}
