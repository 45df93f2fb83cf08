package tfvm

import (
	"math/big"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
)

func text(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }

func truth(b bool) tftypes.Value { return tftypes.NewValue(tftypes.Bool, b) }

func number(n int64) tftypes.Value { return tftypes.NewValue(tftypes.Number, n) }

func stringOf(v tftypes.Value) (s string) { _ = v.As(&s); return s }

func texts(v tftypes.Value) []string {
	var elements []tftypes.Value
	_ = v.As(&elements)
	all := make([]string, len(elements))
	for i, e := range elements {
		all[i] = stringOf(e)
	}
	return all
}

// floatOf is a known number; 0 for anything else.
func floatOf(v tftypes.Value) float64 {
	var x *big.Float
	if v.As(&x) != nil || x == nil {
		return 0
	}
	f, _ := x.Float64()
	return f
}

// eachDisk changes the disks in a configuration or a plan.
func eachDisk(v tftypes.Value, change func(slot string, disk map[string]tftypes.Value)) tftypes.Value {
	disks := map[string]tftypes.Value{}
	if all := tfplan.At(v, "disks"); !all.IsKnown() || all.IsNull() || all.As(&disks) != nil {
		return v
	}
	for slot, d := range disks {
		fields := map[string]tftypes.Value{}
		if !d.IsKnown() || d.IsNull() || d.As(&fields) != nil {
			continue
		}
		change(slot, fields)
		disks[slot] = tftypes.NewValue(d.Type(), fields)
	}
	return tfplan.Replace(v, "disks", tftypes.NewValue(tfplan.At(v, "disks").Type(), disks))
}
