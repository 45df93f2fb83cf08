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
	for name, tt := range map[string]struct {
		v         validator.String
		good, bad []string
	}{
		"node":     {NodeName(), []string{"pve1", "a-b", "9"}, []string{"", "a_b", "-a", "a.b"}},
		"storage":  {StorageID(), []string{"local", "local-zfs", "a.b_1"}, []string{"1a", "local:x", "a-", "x"}},
		"tag":      {Tag(), []string{"prod", "a_b", "v1.2+x"}, []string{"", "a b", "-a", "a;b"}},
		"pool":     {PoolID(), []string{"web", "a/b/c"}, []string{"", "a/b/c/d", "a b"}},
		"size":     {Size(), []string{"32G", "10.5G", "528K", "1T"}, []string{"32", "32g", "G", "32 G", "-1G"}},
		"volume":   {VolumeID(), []string{"local:iso/x.iso", "local-zfs:vm-1-disk-0"}, []string{"x", "/etc/passwd", "local:", "local:a b"}},
		"duration": {PositiveDuration(), []string{"90s", "1h30m"}, []string{"90", "-1s", "0s", "x"}},
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

func TestNoSession(t *testing.T) {
	var none *Session
	if none.Known() || none.User() != "" || none.Close() != nil {
		t.Error("no session knows something")
	}
}
