package function

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// call calls a function as the framework does: variadic arguments in a tuple.
func call(t *testing.T, name string, args []attr.Value, more ...attr.Value) (string, string) {
	t.Helper()
	ctx := context.Background()
	for _, construct := range All() {
		f := construct()
		var named function.MetadataResponse
		f.Metadata(ctx, function.MetadataRequest{}, &named)
		if named.Name != name {
			continue
		}
		var defined function.DefinitionResponse
		f.Definition(ctx, function.DefinitionRequest{}, &defined)
		var valid function.DefinitionValidateResponse
		defined.Definition.ValidateImplementation(ctx, function.DefinitionValidateRequest{FuncName: name}, &valid)
		if valid.Diagnostics.HasError() {
			t.Fatal(valid.Diagnostics)
		}
		if v := defined.Definition.VariadicParameter; v != nil {
			all := make([]attr.Type, len(more))
			for i := range more {
				all[i] = v.GetType()
			}
			args = append(args, types.TupleValueMust(all, more))
		}
		result, err := defined.Definition.Return.NewResultData(ctx)
		if err != nil {
			t.Fatal(err)
		}
		resp := function.RunResponse{Result: result}
		f.Run(ctx, function.RunRequest{Arguments: function.NewArgumentsData(args)}, &resp)
		if resp.Error != nil {
			return "", resp.Error.Error()
		}
		return resp.Result.Value().String(), ""
	}
	t.Fatalf("there is no function %s", name)
	return "", ""
}

func words(all ...string) []attr.Value {
	var out []attr.Value
	for _, s := range all {
		out = append(out, types.StringValue(s))
	}
	return out
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		args, more  []attr.Value
		want, fails string
	}{
		{name: "volume_id", args: words("local", "iso"), more: words("debian.iso"), want: `"local:iso/debian.iso"`},
		{name: "volume_id", args: words("local-zfs", "vm-100-disk-0"), want: `"local-zfs:vm-100-disk-0"`},
		{name: "volume_id", args: words("local:", "x"), fails: "is not the id of a storage"},
		{name: "volume_id", args: words("local", ""), fails: "is not the id of a volume"},
		{name: "volume_id", args: words("local", "iso"), more: words(""), fails: "is not the id of a volume"},
		{name: "volume_id", args: words("local", "a,size=1G"), fails: "is not the id of a volume"},
		{name: "volume_id", args: words("local", "32"), fails: "is not the id of a volume"}, // PVE would allocate 32 GiB
		{name: "parse_volume_id", args: words("local-zfs:base-9000-disk-0/vm-100-disk-1"),
			want: `{"content":"images","file":"vm-100-disk-1",` +
				`"format":"raw","name":"base-9000-disk-0/vm-100-disk-1","storage":"local-zfs","vmid":100}`},
		{name: "parse_volume_id", args: words("local:100/vm-100-disk-0.qcow2"),
			want: `{"content":"images","file":"vm-100-disk-0.qcow2",` +
				`"format":"qcow2","name":"100/vm-100-disk-0.qcow2","storage":"local","vmid":100}`},
		{name: "parse_volume_id", args: words("local-zfs:subvol-101-disk-0"),
			want: `{"content":"images","file":"subvol-101-disk-0",` +
				`"format":"subvol","name":"subvol-101-disk-0","storage":"local-zfs","vmid":101}`},
		{name: "parse_volume_id", args: words("local:iso/debian.iso"),
			want: `{"content":"iso","file":"debian.iso","format":"iso",` +
				`"name":"iso/debian.iso","storage":"local","vmid":<null>}`},
		{name: "parse_volume_id", args: words("local:snippets/user"),
			want: `{"content":"snippets","file":"user","format":<null>,` +
				`"name":"snippets/user","storage":"local","vmid":<null>}`},
		{name: "parse_volume_id", args: words("/dev/sda"), fails: "is not the id of a volume"},
		{name: "parse_size", args: words("10G"),
			want: `{"bytes":10737418240,"gib":10.000000,"kib":10485760.000000,"mib":10240.000000,"tib":0.009766}`},
		{name: "parse_size", args: words("10 G"), fails: "want a number with an optional unit"},
		{name: "format_size", args: []attr.Value{types.Int64Value(10737418240)}, want: `"10G"`},
		{name: "format_size", args: []attr.Value{types.Int64Value(1610612736)}, want: `"1536M"`},
		{name: "format_size", args: []attr.Value{types.Int64Value(0)}, want: `"0"`},
		{name: "format_size", args: []attr.Value{types.Int64Value(-1)}, fails: "a size is 0 or more"},
		{name: "mac_address", args: words("web-1/net0"), want: `"BC:24:11:B6:E8:06"`},
		{name: "mac_address", args: words("web-1/net0"), more: words("02"), want: `"02:B6:E8:06:07:47"`},
		{name: "mac_address", args: words("web-1/net0"), more: words("bc:24:11:00:00"), want: `"BC:24:11:00:00:B6"`},
		{name: "mac_address", args: words("x"), more: words("01"), fails: "multicast"},
		{name: "mac_address", args: words("x"), more: words("bc2411"), fails: "pairs of hexadecimal digits"},
		{name: "mac_address", args: words("x"), more: words("bc:24:11:00:00:01"), fails: "pairs of hexadecimal digits"},
		{name: "mac_address", args: words("x"), more: words(""), fails: "pairs of hexadecimal digits"},
		{name: "mac_address", args: words("x"), more: words("02", "06"), fails: "only one prefix"},
		{name: "slots", args: []attr.Value{types.StringValue("scsi"), types.Int64Value(3)},
			want: `["scsi0","scsi1","scsi2"]`},
		{name: "slots", args: []attr.Value{types.StringValue("net"), types.Int64Value(2)},
			more: []attr.Value{types.Int64Value(30)}, want: `["net30","net31"]`},
		{name: "slots", args: []attr.Value{types.StringValue("ide"), types.Int64Value(0)}, want: `[]`},
		{name: "slots", args: []attr.Value{types.StringValue("ide"), types.Int64Value(5)},
			fails: "from ide0 on there are 4 slots: the last is ide3"},
		{name: "slots", args: []attr.Value{types.StringValue("ide"), types.Int64Value(1)},
			more: []attr.Value{types.Int64Value(4)}, fails: "the slots are ide0 to ide3"},
		{name: "slots", args: []attr.Value{types.StringValue("disk"), types.Int64Value(1)}, fails: "is none of scsi"},
		{name: "parse_slot", args: words("scsi10"), want: `{"kind":"scsi","number":10}`},
		{name: "parse_slot", args: words("scsi01"), fails: "is no slot"},
		{name: "parse_slot", args: words("scsi31"), fails: "is no slot"},
		{name: "parse_slot", args: words("7"), fails: "is no slot"},
		{name: "parse_slot", args: words("net"), fails: "is no slot"},
	} {
		got, err := call(t, c.name, c.args, c.more...)
		if got != c.want || c.fails != "" && !strings.Contains(err, c.fails) || c.fails == "" && err != "" {
			t.Errorf("%s%v%v: %s, error %q; want %s, error %q", c.name, c.args, c.more, got, err, c.want, c.fails)
		}
	}
}
