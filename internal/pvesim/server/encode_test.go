package server

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/encode"
)

// TestEncode compares with encoding/json, which is what the answers were recorded with.
func TestEncode(t *testing.T) {
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.String(), boxed),
		rapid.Map(rapid.StringMatching(`[ -~]*`), boxed),
		rapid.Map(rapid.Int(), boxed), rapid.Map(rapid.Int64(), boxed), rapid.Map(rapid.Bool(),
			boxed), rapid.Map(rapid.Float64(), boxed),
		rapid.Map(rapid.SliceOf(rapid.String()),
			boxed), rapid.Just[any]("<&>\u2028\xff"), rapid.Just[any](map[string]any(nil)), rapid.Just[any]([]any(nil)))
	document := rapid.Deferred(func() *rapid.Generator[any] {
		return rapid.OneOf(leaf, rapid.Map(rapid.SliceOfN(leaf, 0, 4), boxed),
			rapid.Map(rapid.MapOfN(rapid.String(), leaf, 0, 4), boxed))
	})
	nested := rapid.MapOfN(rapid.String(), rapid.OneOf(document, rapid.Map(rapid.SliceOfN(document, 0, 3), boxed)), 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		v := nested.Draw(t, "document")
		got, err := encode.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		if string(got)+"\n" != want.String() {
			t.Fatalf("%s, want %s", got, want.String())
		}
	})
	if _, err := encode.Encode(map[string]any{"f": func() {}}); err == nil {
		t.Error("a function was written")
	}
}

func boxed[T any](v T) any { return v }
