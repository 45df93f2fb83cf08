package terraformtest

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
)

// MoveResourceState makes an object of what another provider had; the type of that says what goes wrong.
func (g *wireProvider) MoveResourceState(_ context.Context, q *tfprotov6.MoveResourceStateRequest) (*tfprotov6.MoveResourceStateResponse, error) {
	null := schemaOf(wireSchema()).AllNull()
	moved := with(with(null, "name", cty.StringVal(string(q.SourceState.JSON))), "id", cty.StringVal(q.SourceProviderAddress))
	switch q.SourceTypeName {
	case "null":
		moved = cty.NullVal(null.Type())
	case "unknown":
		moved = with(moved, "comp", cty.UnknownVal(cty.String))
	case "secret":
		moved = with(moved, "secret", cty.StringVal("s"))
	case "refused":
		return &tfprotov6.MoveResourceStateResponse{Diagnostics: []*tfprotov6.Diagnostic{
			{Severity: tfprotov6.DiagnosticSeverityError, Summary: "not this one"}}}, nil
	}
	return &tfprotov6.MoveResourceStateResponse{TargetState: pack(moved), TargetPrivate: append([]byte("of "), q.SourcePrivate...)}, nil
}

func TestMove(t *testing.T) {
	sample := newWireProvider()
	session := func() *Session {
		s := NewSession(func() (tfprotov6.ProviderServer, error) { return sample, nil })
		must(t, s.Configure(`resource "sample_gadget" "g" { name = "n" }`))
		return s
	}
	s := session()
	must(t, s.Move(t.Context(), "sample_gadget.g", Foreign{Provider: "other", Type: "thing", JSON: []byte("n"), Private: []byte("theirs")}))
	i, err := s.Instance("sample_gadget.g")
	if err != nil || Text(i.Value, "name") != "n" || Text(i.Value, "id") != "other" || string(i.Private) != "of theirs" {
		t.Errorf("%+v, %v", i, err)
	}
	if err := s.Move(t.Context(), "sample_gadget.g", Foreign{Type: "thing"}); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("a second one: %v", err)
	}
	if err := session().Move(t.Context(), "sample_gadget.other", Foreign{Type: "thing"}); err == nil {
		t.Error("it moves to an address that is not configured")
	}
	for _, wrong := range []string{"null", "unknown", "secret", "refused"} {
		s := session()
		err := s.Move(t.Context(), "sample_gadget.g", Foreign{Type: wrong, JSON: []byte("n")})
		said := s.Diagnostics()
		if err == nil || len(s.Addresses()) > 0 || len(said) == 0 || said[0].Violation == (wrong == "refused") {
			t.Errorf("%s: %v, %v, %v", wrong, err, s.Addresses(), said)
		}
	}
}
