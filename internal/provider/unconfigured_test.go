package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// TestRefreshOfAnUnconfiguredProvider: the provider's configuration can depend on a resource that does not exist yet. A
// plan goes on then: each resource keeps its state, and warns that it was not refreshed.
func TestRefreshOfAnUnconfiguredProvider(t *testing.T) {
	ctx := t.Context()
	server := providerserver.NewProtocol6(New("test")())()
	schemas, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	config := pack(t, schemas.Provider, func(name string, of tftypes.Type) tftypes.Value {
		if name == "endpoint" || name == "api_token" {
			return tftypes.NewValue(of, tftypes.UnknownValue)
		}
		return tftypes.NewValue(of, nil)
	})
	configured, err := server.ConfigureProvider(ctx, &tfprotov6.ConfigureProviderRequest{TerraformVersion: "1.14.0",
		Config: config})
	if err != nil || len(configured.Diagnostics) > 0 {
		t.Fatal(err, configured.Diagnostics)
	}
	for name, schema := range schemas.ResourceSchemas {
		t.Run(name, func(t *testing.T) {
			state := pack(t, schema, func(_ string, of tftypes.Type) tftypes.Value {
				switch {
				case of.Is(tftypes.String):
					return tftypes.NewValue(of, "known")
				case of.Is(tftypes.Number):
					return tftypes.NewValue(of, 100)
				}
				return tftypes.NewValue(of, nil)
			})
			read, err := server.ReadResource(ctx, &tfprotov6.ReadResourceRequest{TypeName: name, CurrentState: state})
			if err != nil || len(read.Diagnostics) != 1 || !same(t, schema, read.NewState, state) {
				t.Fatalf("the state was not kept: %v %s", err, texts(read.Diagnostics))
			}
			said := read.Diagnostics[0]
			if said.Severity != tfprotov6.DiagnosticSeverityWarning || !strings.HasSuffix(said.Summary, " was not refreshed") ||
				!strings.Contains(said.Detail, "not known yet") {
				t.Errorf("it is told otherwise: %s", texts(read.Diagnostics))
			}
			gone, err := tfprotov6.NewDynamicValue(schema.ValueType(), tftypes.NewValue(schema.ValueType(), nil))
			if err != nil {
				t.Fatal(err)
			}
			destroyed, err := server.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{TypeName: name,
				PriorState:   state,
				PlannedState: &gone, Config: &gone})
			if err != nil || len(destroyed.Diagnostics) != 1 ||
				destroyed.Diagnostics[0].Severity != tfprotov6.DiagnosticSeverityError ||
				!strings.HasPrefix(destroyed.Diagnostics[0].Summary, "Cannot ") || !same(t, schema, destroyed.NewState, state) {
				t.Errorf("a destroy is not refused: %v %s", err, texts(destroyed.Diagnostics))
			}
		})
	}
}

// pack makes a value of a schema.
func pack(t *testing.T, s *tfprotov6.Schema, value func(name string,
	of tftypes.Type) tftypes.Value) *tfprotov6.DynamicValue {
	t.Helper()
	of, ok := s.ValueType().(tftypes.Object)
	if !ok {
		t.Fatalf("%T is no object", s.ValueType())
	}
	fields := map[string]tftypes.Value{}
	for _, a := range s.Block.Attributes {
		of := of.AttributeTypes[a.Name]
		if fields[a.Name] = value(a.Name, of); a.WriteOnly { // no state has it
			fields[a.Name] = tftypes.NewValue(of, nil)
		}
	}
	packed, err := tfprotov6.NewDynamicValue(of, tftypes.NewValue(of, fields))
	if err != nil {
		t.Fatal(err)
	}
	return &packed
}

// same reports whether two values of a schema are equal, in whatever order they are packed.
func same(t *testing.T, s *tfprotov6.Schema, a, b *tfprotov6.DynamicValue) bool {
	t.Helper()
	first, err := a.Unmarshal(s.ValueType())
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.Unmarshal(s.ValueType())
	return err == nil && first.Equal(second)
}

func texts(all []*tfprotov6.Diagnostic) string {
	var text strings.Builder
	for _, d := range all {
		text.WriteString(d.Severity.String() + ": " + d.Summary + ": " + d.Detail + "\n")
	}
	return text.String()
}
