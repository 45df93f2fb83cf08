package drive

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
)

// shelf is the toy with a list of its things, which gives the events that a test chooses.
type shelf struct {
	tfprotov6.ProviderServer
	events []tfprotov6.ListResourceResult
	asked  *tfprotov6.ListResourceRequest
	taken  int
}

func (s *shelf) GetProviderSchema(ctx context.Context, req *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	resp, err := s.ProviderServer.GetProviderSchema(ctx, req)
	if err == nil {
		resp.ListResourceSchemas = map[string]*tfprotov6.Schema{"toy_thing": {Block: &tfprotov6.SchemaBlock{
			Attributes: []*tfprotov6.SchemaAttribute{{Name: "name", Type: tftypes.String, Optional: true}}}}}
	}
	return resp, err
}

func (*shelf) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (
	*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{IdentitySchemas: map[string]*tfprotov6.ResourceIdentitySchema{"toy_thing": {
		IdentityAttributes: []*tfprotov6.ResourceIdentitySchemaAttribute{{Name: "id", Type: tftypes.String}}}}}, nil
}

func (s *shelf) ValidateListResourceConfig(_ context.Context, req *tfprotov6.ValidateListResourceConfigRequest) (
	*tfprotov6.ValidateListResourceConfigResponse, error) {
	config, err := decode(req.Config, cty.Object(map[string]cty.Type{"name": cty.String}))
	resp := &tfprotov6.ValidateListResourceConfigResponse{}
	if err == nil && Text(config, "name") == "bad" {
		resp.Diagnostics = []*tfprotov6.Diagnostic{{Severity: tfprotov6.DiagnosticSeverityError, Summary: "no such name, please"}}
	}
	return resp, err
}

func (s *shelf) ListResource(_ context.Context, req *tfprotov6.ListResourceRequest) (*tfprotov6.ListResourceServerStream, error) {
	s.asked = req
	return &tfprotov6.ListResourceServerStream{Results: func(push func(tfprotov6.ListResourceResult) bool) {
		for _, event := range s.events {
			if s.taken++; !push(event) {
				return
			}
		}
	}}, nil
}

func listedThing(t *testing.T, id cty.Value) tfprotov6.ListResourceResult {
	t.Helper()
	packed, err := encode(cty.ObjectVal(map[string]cty.Value{"id": id}), cty.Object(map[string]cty.Type{"id": cty.String}))
	must(t, err)
	return tfprotov6.ListResourceResult{DisplayName: "thing", Identity: &tfprotov6.ResourceIdentityData{IdentityData: packed}}
}

// TestQuery: a list block is read, asked for and answered as Terraform does: a warning without a result is no result, the first error ends
// the list, and no more is taken than the limit says.
func TestQuery(t *testing.T) {
	t.Parallel()
	say := func(severity tfprotov6.DiagnosticSeverity, summary string) tfprotov6.ListResourceResult {
		return tfprotov6.ListResourceResult{Diagnostics: []*tfprotov6.Diagnostic{{Severity: severity, Summary: summary}}}
	}
	one, two := listedThing(t, cty.StringVal("1")), listedThing(t, cty.StringVal("2"))
	warning, failure := say(tfprotov6.DiagnosticSeverityWarning, "left out"), say(tfprotov6.DiagnosticSeverityError, "told to fail")
	const block = `list "toy_thing" "a" { provider = toy }`
	for name, c := range map[string]struct {
		events []tfprotov6.ListResourceResult
		query  string
		found  string
		fails  string
		taken  int
	}{
		"nothing":                    {query: block},
		"two":                        {events: []tfprotov6.ListResourceResult{one, two}, query: block, found: "1 2", taken: 2},
		"a warning":                  {events: []tfprotov6.ListResourceResult{warning, two}, query: block, found: "2", taken: 2},
		"an error":                   {events: []tfprotov6.ListResourceResult{one, failure, two}, query: block, found: "1", taken: 2, fails: "told to fail"},
		"enough":                     {events: []tfprotov6.ListResourceResult{warning, one, two}, query: `list "toy_thing" "a" { limit = 1 }`, found: "1", taken: 2},
		"none wanted":                {events: []tfprotov6.ListResourceResult{one}, query: `list "toy_thing" "a" { limit = 0 }`},
		"no identity":                {events: []tfprotov6.ListResourceResult{{DisplayName: "x"}, one}, query: block, taken: 1, fails: "without an identity"},
		"an unknown identity":        {events: []tfprotov6.ListResourceResult{listedThing(t, cty.UnknownVal(cty.String))}, query: block, taken: 1, fails: "is unknown"},
		"refused":                    {events: []tfprotov6.ListResourceResult{one}, query: "list \"toy_thing\" \"a\" {\n  config {\n    name = \"bad\"\n  }\n}", fails: "no such name"},
		"another filter":             {query: "list \"toy_thing\" \"a\" {\n  config {\n    size = 1\n  }\n}", fails: "Unsupported argument"},
		"what cannot be listed":      {query: `list "toy_other" "a" {}`, fails: "toy_other"},
		"another block":              {query: `resource "toy_thing" "a" {}`, fails: "resource blocks"},
		"another argument":           {query: `list "toy_thing" "a" { order = 1 }`, fails: "order"},
		"a limit that is no number":  {query: `list "toy_thing" "a" { limit = "x" }`, fails: "limit"},
		"two blocks, one after one":  {events: []tfprotov6.ListResourceResult{one}, query: block + "\n" + `list "toy_thing" "b" {}`, found: "1 1", taken: 2},
		"the second after an error":  {events: []tfprotov6.ListResourceResult{failure}, query: block + "\n" + `list "toy_thing" "b" {}`, taken: 1, fails: "told to fail"},
		"two blocks of the one name": {query: block + "\n" + block, fails: "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			shelf := &shelf{events: c.events}
			s := start(t, func() (server tfprotov6.ProviderServer, err error) {
				shelf.ProviderServer, err = newToy().factory()()
				return shelf, err
			}, "provider \"toy\" {}\n")
			found, err := s.Query(t.Context(), c.query, false)
			var ids []string
			for _, f := range found {
				ids = append(ids, Text(f.Identity, "id"))
			}
			if strings.Join(ids, " ") != c.found || shelf.taken != c.taken || (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("found %v, took %d: %v", ids, shelf.taken, err)
			}
		})
	}
}

// TestQueryAsks: the resources are asked for where the block says so, and where their configuration is to be generated.
func TestQueryAsks(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][2]bool{`list "toy_thing" "a" {}`: {false, true}, `list "toy_thing" "a" { include_resource = true }`: {true, true}} {
		for n, generating := range []bool{false, true} {
			shelf := &shelf{}
			s := start(t, func() (server tfprotov6.ProviderServer, err error) {
				shelf.ProviderServer, err = newToy().factory()()
				return shelf, err
			}, "provider \"toy\" {}\n")
			_, err := s.Query(t.Context(), query, generating)
			must(t, err)
			if shelf.asked.IncludeResource != want[n] || shelf.asked.Limit != defaultLimit || shelf.asked.TypeName != "toy_thing" {
				t.Errorf("%s, generating %t: asked %+v", query, generating, shelf.asked)
			}
		}
	}
}
