package model

import (
	"maps"
	"math/big"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// Text is a string as a value of Terraform.
func Text(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }

func truth(b bool) tftypes.Value { return tftypes.NewValue(tftypes.Bool, b) }

func number(n int64) tftypes.Value { return tftypes.NewValue(tftypes.Number, n) }

// StringOf is the text of a value, "" if it is null, unknown or of another type.
func StringOf(v tftypes.Value) (s string) { _ = v.As(&s); return s }

// Texts are the strings of a list or set; an unknown one is empty.
func Texts(v tftypes.Value) []string {
	var elements []tftypes.Value
	_ = v.As(&elements)
	all := make([]string, len(elements))
	for i, e := range elements {
		all[i] = StringOf(e)
	}
	return all
}

// FloatOf is a known number; 0 for anything else.
func FloatOf(v tftypes.Value) float64 {
	var x *big.Float
	if v.As(&x) != nil || x == nil {
		return 0
	}
	f, _ := x.Float64()
	return f
}

// EachDisk changes the disks in a configuration or a plan.
func EachDisk(v tftypes.Value, change func(slot string, disk map[string]tftypes.Value)) tftypes.Value {
	disks := map[string]tftypes.Value{}
	if all := plan.At(v, "disks"); !all.IsKnown() || all.IsNull() || all.As(&disks) != nil {
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
	return plan.Replace(v, "disks", tftypes.NewValue(plan.At(v, "disks").Type(), disks))
}

// ObjectOf is what is in an object, to be changed.
func ObjectOf(v tftypes.Value) map[string]tftypes.Value {
	values := map[string]tftypes.Value{}
	_ = v.As(&values)
	return maps.Clone(values)
}

// SetNull gives a text where there is none.
func SetNull(object map[string]tftypes.Value, name, value string) {
	if has := object[name]; value != "" && has.IsKnown() && has.IsNull() {
		object[name] = Text(value)
	}
}

// SetOf is a set of strings as a value of Terraform.
func SetOf(words []string) tftypes.Value {
	elements := make([]tftypes.Value, len(words))
	for i, word := range words {
		elements[i] = Text(word)
	}
	return tftypes.NewValue(tftypes.Set{ElementType: tftypes.String}, elements)
}

// IsLarger compares two sizes; what is none is not larger.
func IsLarger(a, b string) bool {
	x, errX := property.ParseSize(a)
	y, errY := property.ParseSize(b)
	return errX == nil && errY == nil && x > y
}
