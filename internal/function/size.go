package function

import (
	"context"
	"math"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// sizeUnits is a size in each unit.
type sizeUnits struct {
	Bytes int64   `tfsdk:"bytes"`
	KiB   float64 `tfsdk:"kib"`
	MiB   float64 `tfsdk:"mib"`
	GiB   float64 `tfsdk:"gib"`
	TiB   float64 `tfsdk:"tib"`
}

func parseSize() pure {
	return pure{name: "parse_size",
		definition: function.Definition{
			Summary: "Reads a size as PVE writes it.",
			MarkdownDescription: "Reads a size as PVE writes it (`10G`, `10.5G`, `528K`, `4194304`) and gives it in each " +
				"unit: `parse_size(\"10G\").gib` is 10. The result has `bytes`, `kib`, `mib`, `gib` and `tib`. Units are powers " +
				"of 1024; a number without a unit is bytes.",
			Parameters: []function.Parameter{text("size", "Number with one of the units `K`, `M`, `G`, `T`, or none.")},
			Return: function.ObjectReturn{AttributeTypes: map[string]attr.Type{"bytes": types.Int64Type,
				"kib": types.Float64Type,
				"mib": types.Float64Type, "gib": types.Float64Type, "tib": types.Float64Type}},
		},
		run: func(ctx context.Context, req function.RunRequest, resp *function.RunResponse) *function.FuncError {
			var size string
			if err := req.Arguments.Get(ctx, &size); err != nil {
				return err
			}
			bytes, err := property.ParseSize(size)
			if err != nil {
				return function.NewArgumentFuncError(0, err.Error())
			}
			in := func(unit int) float64 { return math.Ldexp(float64(bytes), -10*unit) }
			return resp.Result.Set(ctx, sizeUnits{Bytes: bytes, KiB: in(1), MiB: in(2), GiB: in(3), TiB: in(4)})
		}}
}

func formatSize() pure {
	return pure{name: "format_size",
		definition: function.Definition{
			Summary: "Writes a number of bytes as a size that PVE takes.",
			MarkdownDescription: "Writes a number of bytes as a size that PVE takes, in the largest unit that holds it " +
				"exactly: `format_size(10737418240)` is `10G`. `parse_size` is the inverse.",
			Parameters: []function.Parameter{whole("bytes", "Number of bytes, 0 or more.")},
			Return:     function.StringReturn{},
		},
		run: func(ctx context.Context, req function.RunRequest, resp *function.RunResponse) *function.FuncError {
			var bytes int64
			if err := req.Arguments.Get(ctx, &bytes); err != nil {
				return err
			}
			if bytes < 0 {
				return function.NewArgumentFuncError(0, "a size is 0 or more")
			}
			return resp.Result.Set(ctx, property.FormatSize(bytes))
		}}
}
