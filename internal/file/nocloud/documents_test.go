package nocloud_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file/nocloud"
)

func TestCheck(t *testing.T) {
	for _, row := range []struct {
		kind  nocloud.Kind
		text  string
		fails string // part of the error; "" = none
	}{
		{nocloud.User, "", ""},
		{nocloud.User, "#cloud-config\nhostname: a\n", ""},
		{nocloud.User, "#cloud-config", ""},
		{nocloud.User, "\n  #Cloud-Config\nusers: [a]\n", ""},
		{nocloud.User, "#cloud-config # of the web servers\nusers: [a]\n", ""},
		{nocloud.User, "#!/bin/sh\n: not { yaml\n", ""},
		{nocloud.User, "#include\nhttps://example.org/a\n", ""},
		{nocloud.User, "#cloud-config-archive\n- type: text/cloud-boothook\n", ""},
		{nocloud.User, "## template: jinja\n#cloud-config\n{% if a %}\n", ""},
		{nocloud.User, "Content-Type: multipart/mixed; boundary=\"x\"\nMIME-Version: 1.0\n\n--x--\n", ""},
		{nocloud.User, "hostname: a\n", "first line"},
		{nocloud.User, "# cloud-config\nhostname: a\n", "first line"},
		{nocloud.User, strings.Repeat("é", 30) + "\n", "first line"},
		{nocloud.User, "#cloud-config\nusers:\n - a\n  b: [\n", "no YAML: at or after line 4: "},
		{nocloud.User, "#cloud-config\na: 1\nb: 2\nc: [1\nd: 3\n", "no YAML: at or after line 4: did not find expected"},
		{nocloud.User, "#cloud-config\na: 1\n\tb: 2\n", "no YAML: at or after line 2: found a tab"},
		{nocloud.User, "#cloud-config\na: 1\nb: c: d\n", "no YAML: at or after line 3: mapping values"},
		{nocloud.User, "#cloud-config\n- a\n", "no mapping"},
		{nocloud.Vendor, "just text", "first line"},
		{nocloud.Vendor, "#cloud-config\na: 1\n", ""},
		{nocloud.Meta, "instance-id: a\n", ""},
		{nocloud.Meta, `{"instance-id": "a"}`, ""},
		{nocloud.Meta, "a", "no mapping"},
		{nocloud.Meta, "a: b: c", "no YAML"},
		{nocloud.Network, "version: 2\nethernets: {}\n", ""},
		{nocloud.Network, "network:\n  version: 1\n  config: []\n", ""},
		{nocloud.Network, "network: {config: disabled}\n", ""},
		{nocloud.Network, "all: &all {version: 2}\nnetwork: *all\n", ""},
		{nocloud.Network, "two: &two 2\nnetwork: {version: *two}\n", ""},
		{nocloud.Network, "all: &all {version: 2}\nnetwork:\n  <<: *all\n  ethernets: {}\n", ""},
		{nocloud.Network, "a: &a {version: 3}\nb: &b {version: 2}\nnetwork: {<<: [*b, *a]}\n", ""},
		{nocloud.Network, "all: &all {version: 2}\nnetwork: {<<: *all, version: 3}\n", "neither 1 nor 2"},
		{nocloud.Network, "network: &all {<<: *all}\n", `no "version"`},
		{nocloud.Network, "ethernets: {}\n", `no "version"`},
		{nocloud.Network, "version: 3\n", "neither 1 nor 2"},
		{nocloud.Network, "- 1\n", "no mapping"},
		{nocloud.User, "password: hunter22\nchpasswd: { expire: false }\n", "first line"},
		{nocloud.User, "#cloud-config\npassword: *hunter22\n", "needs quotes"},
		{nocloud.User, "#cloud-config\npassword: hunter22: x: y\n", "no YAML"},
		{nocloud.User, "#cloud-config\nhostname: a\nusers\n- name: hunter22\n", "could not find expected ':'"},
		{nocloud.User, "#cloud-config\npassword: \"hunter22\n", "no YAML"},
		{nocloud.User, "#cloud-config\npassword: @hunter22\n", "no YAML"},
		{nocloud.User, "#cloud-config\na: &hunter22\n  - *hunter22\n", ""},
		{nocloud.User, "#cloud-config\nhunter22\n", "no mapping"},
		{nocloud.Network, "version: hunter22\n", "neither 1 nor 2"},
	} {
		err := nocloud.Check(row.kind, row.text)
		switch {
		case err != nil && strings.Contains(err.Error(), "hunter22"):
			t.Errorf("%q shows a password: %v", row.text, err)
		case row.fails == "" && err != nil:
			t.Errorf("%s %q: %v", row.kind, row.text, err)
		case row.fails != "" && (err == nil || !strings.Contains(err.Error(), row.fails)):
			t.Errorf("%s %q: %v, want %q", row.kind, row.text, err, row.fails)
		}
	}
}
