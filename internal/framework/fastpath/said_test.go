package fastpath

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// TestReadAfterImport: the refresh after an import answers what the framework does, without its note of the import.
func TestReadAfterImport(t *testing.T) {
	for what, noted := range map[string]map[string][]byte{
		"nothing else is noted":         {importKey: []byte(`true`)},
		"something else is":             {importKey: []byte(`true`), "mark": []byte(`1`)},
		"no import":                     {"mark": []byte(`1`)},
		"another note of the framework": {importKey: []byte(`true`), ".other": []byte(`1`)},
	} {
		for _, marks := range []bool{false, true} {
			r := newThing()
			r.read = func(ctx context.Context, _ resource.ReadRequest, resp *resource.ReadResponse) {
				resp.Diagnostics.AddAttributeWarning(path.Root("slots").AtMapKey("a").AtListIndex(1), "look", "here")
				if marks {
					resp.Diagnostics.Append(resp.Private.SetKey(ctx, "mark", []byte(`2`))...)
				}
			}
			s := serve(t, r, noting{r})
			req := &tfprotov6.ReadResourceRequest{TypeName: "toy_thing", Private: private(t, noted),
				CurrentState: packed(t, r.schema, map[string]tftypes.Value{"name": str("it")})}
			fast, err := s.ReadResource(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			asked := slices.Clone(*r.asked)
			if want := map[bool]string{false: "read", true: "framework"}[noted[".other"] != nil]; asked[0] != want ||
				len(asked) != 1 && want == "read" {
				t.Errorf("%s: asked %s", what, asked)
			}
			plain, err := behindOf(t, s).ReadResource(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(fast, plain) {
				t.Errorf("%s: %s %v, want %s %v", what, fast.Private, fast.Diagnostics, plain.Private, plain.Diagnostics)
			}
		}
	}
}

// behindOf is the framework's server behind a fast path.
func behindOf(t *testing.T, s tfprotov6.ProviderServer) tfprotov6.ProviderServer {
	t.Helper()
	known, ok := s.(*server)
	if !ok {
		t.Fatalf("%T", s)
	}
	return known.backend
}
