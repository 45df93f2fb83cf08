package function

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

const kinds = "`scsi`, `virtio`, `sata`, `ide`, `net`, `hostpci`, `usb`, `serial`, `parallel`, `numa`, `virtiofs`"

func slots() pure {
	return pure{name: "slots",
		definition: function.Definition{
			Summary: "Lists the slots of a kind of device.",
			MarkdownDescription: "Lists slots of a kind of device, in order: `slots(\"scsi\", 3)` is `[\"scsi0\", \"scsi1\", " +
				"\"scsi2\"]`, `slots(\"net\", 2, 4)` begins with `net4`. With `zipmap` a list becomes the map that `disks` or " +
				"`networks` take: `zipmap(slots(\"scsi\", length(var.sizes)), [for size in var.sizes : { storage = " +
				"\"local-zfs\", size = size }])`. More slots than PVE has are an error.",
			Parameters: []function.Parameter{text("kind", "One of "+kinds+"."), whole("count", "How many, 0 or more.")},
			VariadicParameter: whole("first",
				"At most one: the number of the first slot. Default: 0."),
			Return: function.ListReturn{ElementType: types.StringType},
		},
		run: func(ctx context.Context, req function.RunRequest, resp *function.RunResponse) *function.FuncError {
			var kind string
			var count int64
			var firsts []int64
			if err := req.Arguments.Get(ctx, &kind, &count, &firsts); err != nil {
				return err
			}
			if len(firsts) > 1 {
				return function.NewArgumentFuncError(3, "there is only one first slot")
			}
			var first int64
			if len(firsts) == 1 {
				first = firsts[0]
			}
			names, err := slotsOf(kind, first, count)
			if err != nil {
				return err
			}
			return resp.Result.Set(ctx, names)
		}}
}

func slotsOf(kind string, first, count int64) ([]string, *function.FuncError) {
	last := int64(vm.SlotCount(kind)) - 1
	switch {
	case last < 0:
		return nil, function.NewArgumentFuncError(0, fmt.Sprintf("%q is none of %s", kind, strings.ReplaceAll(kinds, "`",
			"")))
	case first < 0 || first > last:
		return nil, function.NewArgumentFuncError(2, fmt.Sprintf("the slots are %s0 to %s%d", kind, kind, last))
	case count < 0 || count > last-first+1:
		return nil, function.NewArgumentFuncError(1, fmt.Sprintf("from %s%d on there are %d slots: the last is "+
			"%s%d", kind, first, last-first+1, kind, last))
	}
	names := make([]string, 0, count)
	for n := first; n < first+count; n++ {
		names = append(names, kind+strconv.FormatInt(n, 10))
	}
	return names, nil
}

// slotParts are the parts of a slot.
type slotParts struct {
	Kind   string `tfsdk:"kind"`
	Number int64  `tfsdk:"number"`
}

func parseSlot() pure {
	return pure{name: "parse_slot",
		definition: function.Definition{
			Summary: "Takes a slot apart.",
			MarkdownDescription: "Takes a slot apart: `parse_slot(\"scsi10\")` is `{ kind = \"scsi\", number = 10 }`. Any " +
				"other text is an error. Sort slots by `number`: `scsi10` comes before `scsi2` in a map.",
			Parameters: []function.Parameter{text("slot", "Slot, such as `scsi0` or `net1`.")},
			Return: function.ObjectReturn{AttributeTypes: map[string]attr.Type{"kind": types.StringType,
				"number": types.Int64Type}},
		},
		run: func(ctx context.Context, req function.RunRequest, resp *function.RunResponse) *function.FuncError {
			var slot string
			if err := req.Arguments.Get(ctx, &slot); err != nil {
				return err
			}
			kind := strings.TrimRight(slot, "0123456789")
			number, err := strconv.Atoi(slot[len(kind):])
			if err != nil || number >= vm.SlotCount(kind) || slot != kind+strconv.Itoa(number) {
				return function.NewArgumentFuncError(0, fmt.Sprintf("%q is no slot of a VM, such as \"scsi0\" or \"net1\"", slot))
			}
			return resp.Result.Set(ctx, slotParts{Kind: kind, Number: int64(number)})
		}}
}
