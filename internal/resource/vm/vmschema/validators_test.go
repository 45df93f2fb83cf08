package vmschema

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// TestValidators holds those of package kit too.
func TestValidators(t *testing.T) {
	disks := slotName("must be a slot", "scsi", "ide")
	for name, tt := range map[string]struct {
		v         validator.String
		good, bad []string
	}{
		"bridge":   {bridgeName(), []string{"vmbr0", "vnet1"}, []string{"", "a b", "averyverylongbridgename"}},
		"dns name": {kit.DNSName(), []string{"web-1", "a.b.c", "Web"}, []string{"bad_name!", "-a", "a..b", "", "a."}},
		"trunk":    {vlanTrunk(), []string{"5", "10-20"}, []string{"a", "5;6", "10-"}},
		"flag":     {cpuFlag(), []string{"+aes", "-pcid"}, []string{"aes", "+"}},
		"cpus":     {hostCPUs(), []string{"0", "0,4-7"}, []string{"", "a", "0,"}},
		"machine":  {machineType(), []string{"q35", "pc", "pc-q35-9.0", "pc-i440fx-9.2+pve1"}, []string{"x", "q35,viommu=intel"}},
		"mac": {macAddress(), []string{"BC:24:11:00:00:01", "bc:24:11:00:00:01"},
			[]string{"01:00:5e:00:00:01", "BC-24-11-00-00-01", "x", "BC:24:11:00:00:01:02:03"}},
		"ipv4":    {networkAddress(false, false, "dhcp"), []string{"10.0.0.5/24", "dhcp"}, []string{"10.0.0.5", "2001:db8::1/64", "auto", ""}},
		"ipv6":    {networkAddress(true, false, "auto"), []string{"2001:db8::5/64", "auto"}, []string{"10.0.0.5/24", "2001:db8::5"}},
		"gateway": {networkAddress(false, true), []string{"10.0.0.1"}, []string{"10.0.0.1/24", "fe80::1", "dhcp"}},
		"ip":      {ipAddress(), []string{"10.0.0.1", "::1"}, []string{"x", "10.0.0.1/8"}},
		"slot":    {disks, []string{"scsi0", "scsi30", "ide3"}, []string{"scsi31", "ide4", "scsi", "scsi01", "sata0", "net0", "", "scsi100"}},
		"node":    {kit.NodeName(), []string{"pve1", "a-b", "9"}, []string{"", "a_b", "-a", "a.b"}},
		"storage": {kit.StorageID(), []string{"local", "local-zfs", "a.b_1"}, []string{"1a", "local:x", "a-", "x"}},
		"tag":     {kit.Tag(), []string{"prod", "a_b", "v1.2+x"}, []string{"", "a b", "-a", "a;b"}},
		"pool":    {kit.PoolID(), []string{"web", "a/b/c"}, []string{"", "a/b/c/d", "a b"}},
		"size":    {kit.Size(), []string{"32G", "10.5G", "528K", "1T"}, []string{"32", "32g", "G", "32 G", "-1G"}},
		"volume":  {kit.VolumeID(), []string{"local:iso/x.iso", "local-zfs:vm-1-disk-0"}, []string{"x", "/etc/passwd", "local:", "local:a b"}},
		"source": {kit.ImportSource(), []string{"local:import/x.qcow2", "esxi:ha-datacenter/store 1/My Web/My Web.vmdk", "a:b"},
			[]string{"x", "/etc/passwd", "local:", "local: a", "local:a ", "local:a\nb", "local:a\x00b"}},
		"duration": {kit.PositiveDuration(), []string{"90s", "1h30m"}, []string{"90", "-1s", "0s", "x"}},
	} {
		for _, value := range tt.good {
			if diags := validate(tt.v, value); diags != "" {
				t.Errorf("%s refuses %q: %s", name, value, diags)
			}
		}
		for _, value := range tt.bad {
			if validate(tt.v, value) == "" {
				t.Errorf("%s accepts %q", name, value)
			}
		}
		if tt.v.Description(context.Background()) == "" || tt.v.MarkdownDescription(context.Background()) == "" {
			t.Errorf("%s is not described", name)
		}
		for _, open := range []types.String{types.StringNull(), types.StringUnknown()} {
			var resp validator.StringResponse
			tt.v.ValidateString(context.Background(), validator.StringRequest{Path: path.Root("x"), ConfigValue: open}, &resp)
			if resp.Diagnostics.HasError() {
				t.Errorf("%s refuses %s", name, open)
			}
		}
	}
}

func validate(v validator.String, value string) string {
	var resp validator.StringResponse
	v.ValidateString(context.Background(), validator.StringRequest{Path: path.Root("x"), ConfigValue: types.StringValue(value)}, &resp)
	if resp.Diagnostics.HasError() {
		return resp.Diagnostics[0].Detail()
	}
	return ""
}
