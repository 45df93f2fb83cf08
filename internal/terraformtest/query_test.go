package terraformtest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
)

// shelf is the sample with a list of its things, which gives the events that a test chooses.
type shelf struct {
	tfprotov6.ProviderServer
	events []tfprotov6.ListResourceResult
	asked  *tfprotov6.ListResourceRequest
	taken  int
}

func newShelf(t *testing.T, events []tfprotov6.ListResourceResult) *shelf {
	t.Helper()
	server, err := newSample().factory()()
	must(t, err)
	return &shelf{ProviderServer: server, events: events}
}

func (s *shelf) GetProviderSchema(ctx context.Context, req *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	resp, err := s.ProviderServer.GetProviderSchema(ctx, req)
	if err == nil {
		resp.ListResourceSchemas = map[string]*tfprotov6.Schema{"sample_thing": {Block: &tfprotov6.SchemaBlock{
			Attributes: []*tfprotov6.SchemaAttribute{{Name: "name", Type: tftypes.String, Optional: true}}}}}
	}
	return resp, err
}

func (*shelf) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (
	*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{IdentitySchemas: map[string]*tfprotov6.ResourceIdentitySchema{"sample_thing": {
		IdentityAttributes: []*tfprotov6.ResourceIdentitySchemaAttribute{{Name: "id", Type: tftypes.String, RequiredForImport: true}}}}}, nil
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

// queryCase is a query of a shelf.
type queryCase struct {
	events []tfprotov6.ListResourceResult
	query  string
	found  string
	fails  string
	taken  int
	// strict: the driver refuses what Terraform does not see.
	strict bool
}

func queryCases(t *testing.T) map[string]queryCase {
	t.Helper()
	say := func(severity tfprotov6.DiagnosticSeverity, summary string) tfprotov6.ListResourceResult {
		return tfprotov6.ListResourceResult{Diagnostics: []*tfprotov6.Diagnostic{{Severity: severity, Summary: summary}}}
	}
	one, two := listedThing(t, cty.StringVal("1")), listedThing(t, cty.StringVal("2"))
	warning, failure := say(tfprotov6.DiagnosticSeverityWarning, "left out"), say(tfprotov6.DiagnosticSeverityError, "told to fail")
	const block = `list "sample_thing" "a" { provider = sample }`
	return map[string]queryCase{
		"nothing":                    {query: block},
		"two":                        {events: []tfprotov6.ListResourceResult{one, two}, query: block, found: "1 2", taken: 2},
		"a warning":                  {events: []tfprotov6.ListResourceResult{warning, two}, query: block, found: "2", taken: 2},
		"an error":                   {events: []tfprotov6.ListResourceResult{one, failure, two}, query: block, found: "1", taken: 2, fails: "told to fail"},
		"enough":                     {events: []tfprotov6.ListResourceResult{warning, one, two}, query: "list \"sample_thing\" \"a\" {\n  provider = sample\n  limit = 1\n}", found: "1", taken: 2},
		"none wanted":                {events: []tfprotov6.ListResourceResult{one}, query: "list \"sample_thing\" \"a\" {\n  provider = sample\n  limit = 0\n}"},
		"no identity":                {events: []tfprotov6.ListResourceResult{{DisplayName: "x"}, one}, query: block, taken: 1, fails: "identity"},
		"an unknown identity":        {events: []tfprotov6.ListResourceResult{listedThing(t, cty.UnknownVal(cty.String))}, query: block, taken: 1, fails: "is unknown", strict: true},
		"refused":                    {events: []tfprotov6.ListResourceResult{one}, query: "list \"sample_thing\" \"a\" {\n  provider = sample\n  config {\n    name = \"bad\"\n  }\n}", fails: "no such name"},
		"another filter":             {query: "list \"sample_thing\" \"a\" {\n  provider = sample\n  config {\n    size = 1\n  }\n}", fails: "Unsupported argument"},
		"what cannot be listed":      {query: `list "sample_other" "a" { provider = sample }`, fails: "sample_other"},
		"another block":              {query: `resource "sample_thing" "a" {}`, fails: "not expected here"},
		"another argument":           {query: "list \"sample_thing\" \"a\" {\n  provider = sample\n  order = 1\n}", fails: "order"},
		"a limit that is no number":  {query: "list \"sample_thing\" \"a\" {\n  provider = sample\n  limit = \"x\"\n}", fails: "limit"},
		"two blocks, one after one":  {events: []tfprotov6.ListResourceResult{one}, query: block + "\n" + `list "sample_thing" "b" { provider = sample }`, found: "1 1", taken: 2},
		"the second after an error":  {events: []tfprotov6.ListResourceResult{failure}, query: block + "\n" + `list "sample_thing" "b" { provider = sample }`, taken: 1, fails: "told to fail"},
		"two blocks of the one name": {query: block + "\n" + block, fails: "already has a list block"},
	}
}

// TestQuery: a list block is read, asked for and answered as Terraform does: a warning without a result is no result, the first error ends
// the list, and no more is taken than the limit says.
func TestQuery(t *testing.T) {
	t.Parallel()
	for name, c := range queryCases(t) {
		t.Run(name, func(t *testing.T) {
			shelf := newShelf(t, c.events)
			s := start(t, func() (tfprotov6.ProviderServer, error) { return shelf, nil }, "provider \"sample\" {}\n")
			found, err := s.Query(t.Context(), c.query, false)
			var ids []string
			for _, f := range found {
				ids = append(ids, Text(f.Identity, "id"))
			}
			failed := err != nil && strings.Contains(err.Error(), c.fails)
			if strings.Join(ids, " ") != c.found || shelf.taken != c.taken || failed != (c.fails != "") || err != nil != failed {
				t.Errorf("found %v, took %d: %v", ids, shelf.taken, err)
			}
		})
	}
}

// TestCalibrateQuery puts the same through each real CLI that has a query.
func TestCalibrateQuery(t *testing.T) {
	t.Setenv("TF_LOG_SDK", "off") // else the plugin library logs each call, and no one reads it
	if testing.Short() {
		t.Skip("runs CLIs")
	}
	tried := 0
	for _, binary := range binaries(t) {
		if out, _ := exec.CommandContext(t.Context(), binary, "query", "-help").CombinedOutput(); strings.Contains(string(out), "has no command named") {
			continue
		}
		tried++
		for name, c := range queryCases(t) {
			if c.strict {
				continue
			}
			t.Run(filepath.Base(binary)+"/"+name, func(t *testing.T) {
				t.Parallel()
				shelf := newShelf(t, c.events)
				real := commandWith(t, binary, shelf)
				must(t, os.WriteFile(filepath.Join(real.dir, "main.tfquery.hcl"), []byte(c.query), 0o600))
				out, err := real.try("query", "-json")
				if found := foundIDs(out); (err != nil) != (c.fails != "") || err == nil && found != c.found || !strings.Contains(string(out), c.fails) {
					t.Errorf("found %q: %v\n%s", found, err, out)
				}
			})
		}
	}
	if tried == 0 {
		t.Skip("no program on PATH or in TF_CLI has a query (Terraform 1.14): the driver's is not compared with a real one")
	}
}

// foundIDs are the identities of a query's results.
func foundIDs(out []byte) string {
	var ids []string
	for line := range bytes.Lines(out) {
		var said struct {
			Type  string `json:"type"`
			Found struct {
				Identity struct {
					ID string `json:"id"`
				} `json:"identity"`
			} `json:"list_resource_found"`
		}
		if json.Unmarshal(line, &said) == nil && said.Type == "list_resource_found" {
			ids = append(ids, said.Found.Identity.ID)
		}
	}
	return strings.Join(ids, " ")
}

// TestQueryAsks: the resources are asked for where the block says so, and where their configuration is to be generated.
func TestQueryAsks(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][2]bool{`list "sample_thing" "a" { provider = sample }`: {false, true},
		"list \"sample_thing\" \"a\" {\n  provider = sample\n  include_resource = true\n}": {true, true}} {
		for n, generating := range []bool{false, true} {
			shelf := newShelf(t, nil)
			s := start(t, func() (tfprotov6.ProviderServer, error) { return shelf, nil }, "provider \"sample\" {}\n")
			_, err := s.Query(t.Context(), query, generating)
			must(t, err)
			if shelf.asked.IncludeResource != want[n] || shelf.asked.Limit != defaultLimit || shelf.asked.TypeName != "sample_thing" {
				t.Errorf("%s, generating %t: asked %+v", query, generating, shelf.asked)
			}
		}
	}
}
