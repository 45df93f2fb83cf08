package fastpath

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// TestIdentities: an identity is taken over from a message and into one; one that changes, or is missing where it must
// be there, is the framework's to refuse.
func TestIdentities(t *testing.T) {
	k := newType(t.Context(), withIdentity{newThing()})
	if k == nil {
		t.Fatal("not served")
	}
	i := k.identities
	of := func(number any) *tfsdk.ResourceIdentity {
		object := i.wire.(tftypes.Object)
		return &tfsdk.ResourceIdentity{Schema: i.schema, Raw: tftypes.NewValue(object,
			map[string]tftypes.Value{"number": tftypes.NewValue(tftypes.Number, number)})}
	}
	none, answer, ok := i.unpack(nil)
	if !ok || !none.Raw.IsNull() || !answer.Raw.IsNull() {
		t.Errorf("without an identity: %v, %v, %t", none, answer, ok)
	}
	packed, ok := i.pack(none, of(100), true)
	if !ok {
		t.Fatal("a new identity is not packed")
	}
	told, _, ok := i.unpack(packed)
	if !ok || !told.Raw.Equal(of(100).Raw) {
		t.Errorf("unpacked %v, %t", told, ok)
	}
	for what, c := range map[string]struct {
		was, is *tfsdk.ResourceIdentity
		must    bool
	}{
		"another":  {of(100), of(101), true},
		"missing":  {none, none, true},
		"lost":     {of(100), none, false},
		"all null": {none, of(nil), true},
	} {
		if _, ok := i.pack(c.was, c.is, c.must); ok {
			t.Errorf("%s: packed", what)
		}
	}
	if _, ok := i.pack(none, none, false); !ok {
		t.Error("no identity in a plan is not packed")
	}
	var without *identities
	if _, _, ok := without.unpack(packed); ok {
		t.Error("a resource without identities takes one")
	}
}
