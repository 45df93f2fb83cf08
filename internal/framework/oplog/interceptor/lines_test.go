package interceptor

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// TestLinesOfNestedAttributes: a diagnostic within an attribute stands on that attribute, whose line Terraform knows, and
// names the rest. One on an attribute, or on none, stays as it is.
func TestLinesOfNestedAttributes(t *testing.T) {
	root := tftypes.NewAttributePath().WithAttributeName("disks")
	for name, c := range map[string]struct {
		at     *tftypes.AttributePath
		detail string
	}{
		"none":         {nil, "no"},
		"an attribute": {root, "no"},
		"an element":   {root.WithElementKeyString("virtio0"), "disks.virtio0: no"},
		"nested":       {root.WithElementKeyString("virtio0").WithAttributeName("ssd"), "disks.virtio0.ssd: no"},
	} {
		said := []*tfprotov6.Diagnostic{{Summary: "s", Detail: "no", Attribute: c.at}}
		shownOn(said)
		if d := said[0]; d.Detail != c.detail || c.at != nil && !d.Attribute.Equal(root) || c.at == nil && d.Attribute != nil {
			t.Errorf("%s: %q on %s", name, d.Detail, d.Attribute)
		}
	}
}
