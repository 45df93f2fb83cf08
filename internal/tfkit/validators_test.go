package tfkit

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func TestValidators(t *testing.T) {
	disks := Slot(map[string]int{"scsi": 31, "ide": 4}, "must be a slot")
	for name, tt := range map[string]struct {
		v         validator.String
		good, bad []string
	}{
		"node":     {NodeName(), []string{"pve1", "a-b", "9"}, []string{"", "a_b", "-a", "a.b"}},
		"storage":  {StorageID(), []string{"local", "local-zfs", "a.b_1"}, []string{"1a", "local:x", "a-", "x"}},
		"bridge":   {Bridge(), []string{"vmbr0", "vnet1"}, []string{"", "a b", "averyverylongbridgename"}},
		"dns name": {DNSName(), []string{"web-1", "a.b.c", "Web"}, []string{"bad_name!", "-a", "a..b", "", "a."}},
		"tag":      {Tag(), []string{"prod", "a_b", "v1.2+x"}, []string{"", "a b", "-a", "a;b"}},
		"pool":     {PoolID(), []string{"web", "a/b/c"}, []string{"", "a/b/c/d", "a b"}},
		"size":     {Size(), []string{"32G", "10.5G", "528K", "1T"}, []string{"32", "32g", "G", "32 G", "-1G"}},
		"volume":   {VolumeID(), []string{"local:iso/x.iso", "local-zfs:vm-1-disk-0"}, []string{"x", "/etc/passwd", "local:", "local:a b"}},
		"trunk":    {Trunk(), []string{"5", "10-20"}, []string{"a", "5;6", "10-"}},
		"flag":     {CPUFlag(), []string{"+aes", "-pcid"}, []string{"aes", "+"}},
		"cpus":     {CPUSet(), []string{"0", "0,4-7"}, []string{"", "a", "0,"}},
		"machine":  {Machine(), []string{"q35", "pc", "pc-q35-9.0", "pc-i440fx-9.2+pve1"}, []string{"x", "q35,viommu=intel"}},
		"mac":      {MAC(), []string{"BC:24:11:00:00:01", "bc:24:11:00:00:01"}, []string{"01:00:5e:00:00:01", "BC-24-11-00-00-01", "x", "BC:24:11:00:00:01:02:03"}},
		"ipv4":     {Address(false, false, "dhcp"), []string{"10.0.0.5/24", "dhcp"}, []string{"10.0.0.5", "2001:db8::1/64", "auto", ""}},
		"ipv6":     {Address(true, false, "auto"), []string{"2001:db8::5/64", "auto"}, []string{"10.0.0.5/24", "2001:db8::5"}},
		"gateway":  {Address(false, true), []string{"10.0.0.1"}, []string{"10.0.0.1/24", "fe80::1", "dhcp"}},
		"ip":       {IP(), []string{"10.0.0.1", "::1"}, []string{"x", "10.0.0.1/8"}},
		"duration": {Positive(), []string{"90s", "1h30m"}, []string{"90", "-1s", "0s", "x"}},
		"slot":     {disks, []string{"scsi0", "scsi30", "ide3"}, []string{"scsi31", "ide4", "scsi", "scsi01", "sata0", "net0", "", "scsi100"}},
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

func TestDuration(t *testing.T) {
	for given, want := range map[string]time.Duration{"5m": 5 * time.Minute, "x": time.Hour, "-1s": time.Hour} {
		if got := Duration(&given, time.Hour); got != want {
			t.Errorf("%q is %s, want %s", given, got, want)
		}
	}
	if Duration(nil, time.Hour) != time.Hour {
		t.Error("nothing is not the default")
	}
}

func TestSessionMemory(t *testing.T) {
	var none *Session
	none.Remember(1)
	none.Announce(Announcement{VMID: 1})
	if none.Remembers(1) || none.Announced(Announcement{VMID: 1}) || none.Known() || none.User() != "" || none.Bounds() != [2]int{} || none.Close() != nil {
		t.Error("no session knows something")
	}
	s := &Session{}
	s.Remember(101)
	s.Announce(Announcement{VMID: 9000, Name: "tpl", Tags: []string{"Base", "linux"}})
	if !s.Remembers(101) || s.Remembers(102) {
		t.Error("refreshed ids are not remembered")
	}
	for _, like := range []Announcement{{VMID: 9000}, {Name: "tpl"}, {Tags: []string{"base"}}, {Tags: []string{"linux", "base"}}} {
		if !s.Announced(like) {
			t.Errorf("%+v was announced", like)
		}
	}
	for _, other := range []Announcement{{}, {VMID: 9001}, {Name: "x"}, {Tags: []string{"base", "windows"}}} {
		if s.Announced(other) {
			t.Errorf("%+v was not announced", other)
		}
	}
}
