package action

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

func schemaOf(t *testing.T, a action.Action) schema.Schema {
	t.Helper()
	var resp action.SchemaResponse
	a.Schema(t.Context(), action.SchemaRequest{}, &resp)
	return resp.Schema
}

// configOf is a configuration of an action; attributes without a value are null.
func configOf(t *testing.T, a action.Action, values map[string]any) tfsdk.Config {
	t.Helper()
	s := schemaOf(t, a)
	typ, _ := s.Type().TerraformType(t.Context()).(tftypes.Object)
	all := map[string]tftypes.Value{}
	for name, of := range typ.AttributeTypes {
		all[name] = tftypes.NewValue(of, values[name])
	}
	return tfsdk.Config{Schema: s, Raw: tftypes.NewValue(typ, all)}
}

// TestModelsFitTheirSchemas: a configuration of each action can be read.
func TestModelsFitTheirSchemas(t *testing.T) {
	vm := map[string]any{"vmid": 100, "action": "start", "name": "one"}
	for _, c := range []struct {
		action action.Action
		model  any
		values map[string]any
	}{
		{NewVMPower(), &powerModel{}, vm}, {NewVMUnlock(), &unlockModel{}, vm}, {NewVMSnapshotRollback(), &rollbackModel{},
			vm},
		{NewOrphanDelete(), &orphanModel{}, map[string]any{"kind": "volume", "id": "local:vm-100-disk-0"}},
	} {
		config := configOf(t, c.action, c.values)
		if diags := config.Get(t.Context(), c.model); diags.HasError() {
			t.Errorf("%T: %v", c.model, diags)
		}
		for name := range c.values {
			if at, ok := (attributes{}).Attribute(name); !ok || !at.Equal(path.Root(name)) {
				t.Errorf("%s: %s", name, at)
			}
		}
	}
	if len(All()) != 4 {
		t.Errorf("%d actions are listed, and this test reads 4", len(All()))
	}
}

// TestRefusedArguments: arguments that contradict each other, or an id of another kind, are refused without a server.
func TestRefusedArguments(t *testing.T) {
	for _, c := range []struct {
		action action.ActionWithValidateConfig
		values map[string]any
		at     string
	}{
		{&VMPower{}, map[string]any{"action": "suspend", "to_disk": true, "state_storage": "local"}, ""},
		{&VMPower{}, map[string]any{"action": "suspend"}, ""},
		{&VMPower{}, map[string]any{"action": "stop", "to_disk": true}, "to_disk"},
		{&VMPower{}, map[string]any{"action": "suspend", "state_storage": "local"}, "state_storage"},
		{&VMPower{}, map[string]any{"action": tftypes.UnknownValue, "to_disk": true}, ""},
		{&OrphanDelete{}, map[string]any{"kind": "volume", "id": "local-zfs:vm-100-disk-0"}, ""},
		{&OrphanDelete{}, map[string]any{"kind": "volume", "id": "100"}, "id"},
		{&OrphanDelete{}, map[string]any{"kind": "lock", "id": "local-zfs:vm-100-disk-0"}, "id"},
		{&OrphanDelete{}, map[string]any{"kind": "lock", "id": tftypes.UnknownValue}, ""},
	} {
		var resp action.ValidateConfigResponse
		c.action.ValidateConfig(t.Context(), action.ValidateConfigRequest{Config: configOf(t, c.action, c.values)}, &resp)
		var at []string
		for _, d := range resp.Diagnostics {
			at = append(at, d.(diag.DiagnosticWithPath).Path().String())
		}
		if want := []string{c.at}; c.at == "" && len(at) > 0 || c.at != "" && !slices.Equal(at, want) {
			t.Errorf("%T %v: refused on %v, not on %q", c.action, c.values, at, c.at)
		}
	}
}

// TestPrivilegesOfPower: an action requires VM.PowerMgmt; a guest whose memory is saved to disk requires those of a
// disk.
func TestPrivilegesOfPower(t *testing.T) {
	yes, storage := true, "local"
	of := func(m powerModel) (all []string) {
		m.VMID = 100
		for _, take := range m.takes() {
			all = append(all, take.On+" "+take.AnyOf[0])
		}
		return all
	}
	if got := of(powerModel{Action: "start"}); !slices.Equal(got, []string{"/vms/100 VM.PowerMgmt"}) {
		t.Errorf("start: %v", got)
	}
	if got := of(powerModel{Action: "suspend", ToDisk: &yes, StateStorage: &storage}); !slices.Equal(got, []string{
		"/vms/100 VM.PowerMgmt", "/vms/100 VM.Config.Disk", "/storage/local Datastore.AllocateSpace"}) {
		t.Errorf("suspend to disk: %v", got)
	}
}

// TestPlanWithoutServer: while the provider's configuration is unknown, a plan refuses nothing, and an action that is
// invoked says why it cannot run.
func TestPlanWithoutServer(t *testing.T) {
	values := map[string]any{"vmid": 100, "action": "start", "name": "one", "kind": "volume", "id": "local:vm-100-disk-0"}
	for _, construct := range All() {
		a := construct()
		a.(action.ActionWithConfigure).Configure(t.Context(), action.ConfigureRequest{ProviderData: &kit.Session{}},
			&action.ConfigureResponse{})
		var planned action.ModifyPlanResponse
		config := configOf(t, a, values)
		a.(action.ActionWithModifyPlan).ModifyPlan(t.Context(), action.ModifyPlanRequest{Config: config}, &planned)
		var invoked action.InvokeResponse
		a.Invoke(t.Context(), action.InvokeRequest{Config: config}, &invoked)
		if len(planned.Diagnostics) > 0 || len(invoked.Diagnostics) != 1 || !invoked.Diagnostics.HasError() {
			t.Errorf("%T: planned %v, invoked %v", a, planned.Diagnostics, invoked.Diagnostics)
		}
	}
}
