package guest

import (
	"errors"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

func TestFindSource(t *testing.T) {
	cluster := pve.Resources{
		{Type: "qemu", VMID: 9000, Name: "golden", Node: "pve1", Template: true, Tags: "debian;golden"},
		{Type: "qemu", VMID: 9001, Name: "golden", Node: "pve2", Template: true, Tags: "golden"},
		{Type: "qemu", VMID: 100, Name: "web", Node: "pve1", Tags: "debian"},
		{Type: "lxc", VMID: 101, Name: "box", Node: "pve1"},
	}
	cases := []struct {
		name  string
		clone Clone
		vmid  int
		path  string
	}{
		{"by id", Clone{VMID: 9001}, 9001, ""},
		{"by name and node", Clone{Name: "golden", Node: "pve2"}, 9001, ""},
		{"by tags: templates only", Clone{Tags: []string{"debian"}}, 9000, ""},
		{"several", Clone{Name: "golden"}, 0, "clone.name"},
		{"none", Clone{VMID: 4711}, 0, "clone.vmid"},
		{"a container", Clone{VMID: 101}, 0, "clone.vmid"},
	}
	for _, c := range cases {
		got, err := FindSource(cluster, &c.clone)
		var field *FieldError
		switch {
		case c.path == "" && (err != nil || got.VMID != c.vmid):
			t.Errorf("%s: %v, %v", c.name, got.VMID, err)
		case c.path != "" && (!errors.As(err, &field) || field.Path != c.path):
			t.Errorf("%s: got %v, want an error on %s", c.name, err, c.path)
		}
	}
	_, err := FindSource(cluster, &Clone{Name: "golden"})
	if !strings.Contains(err.Error(), "9000") || !strings.Contains(err.Error(), "9001") {
		t.Errorf("the matches are not listed: %v", err)
	}
}

func TestTarget(t *testing.T) {
	two := pve.Resources{{Type: "node", Node: "pve1", Status: "online"}, {Type: "node", Node: "pve2", Status: "offline"}}
	one := two[:1]
	cases := []struct {
		name      string
		resources pve.Resources
		node      string
		source    string
		want      string
		fails     string
	}{
		{"configured", two, "pve1", "", "pve1", ""},
		{"the only one", one, "", "", "pve1", ""},
		{"the template's", two, "", "pve1", "pve1", ""},
		{"none of several", two, "", "", "", "No node given"},
		{"unknown", two, "pve9", "", "", "Unknown node"},
		{"offline", two, "pve2", "", "", "not online"},
	}
	for _, c := range cases {
		got, err := Target(c.resources, c.node, c.source)
		if c.fails == "" && (err != nil || got != c.want) || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// TestClonesThatMigrate: PVE's own way where all is shared, a migration where it is not, and a refusal where that
// cannot be done.
func TestClonesThatMigrate(t *testing.T) {
	resources := pve.Resources{
		{Type: "storage", Node: "pve1", Storage: "local-zfs"}, {Type: "storage", Node: "pve2", Storage: "local-zfs"},
		{Type: "storage", Node: "pve1", Storage: "only1"}, {Type: "storage", Node: "pve1", Storage: "local"},
		{Type: "storage", Node: "pve2", Storage: "only2"},
		{Type: "storage", Node: "pve1", Storage: "nfs", Shared: true}, {Type: "storage", Node: "pve2", Storage: "nfs", Shared: true},
	}
	yes, no := true, false
	for name, c := range map[string]struct {
		disk, medium string
		clone        Clone
		node         string
		migrates     bool
		refused      string
	}{
		"the same node":              {"local-zfs:base-1-disk-0", "", Clone{}, "pve1", false, ""},
		"shared":                     {"nfs:1/base-1-disk-0.qcow2", "", Clone{}, "pve2", false, ""},
		"to a shared storage":        {"local-zfs:base-1-disk-0", "", Clone{Full: &yes, Storage: "nfs"}, "pve2", true, ""},
		"local":                      {"local-zfs:base-1-disk-0", "", Clone{Full: &yes}, "pve2", true, ""},
		"to a local storage":         {"nfs:1/base-1-disk-0.qcow2", "", Clone{Full: &yes, Storage: "local-zfs"}, "pve2", true, ""},
		"linked by default":          {"local-zfs:base-1-disk-0", "", Clone{}, "pve2", false, "clone.full"},
		"linked":                     {"local-zfs:base-1-disk-0", "", Clone{Full: &no}, "pve2", false, "clone.full"},
		"a storage of one node":      {"only1:base-1-disk-0", "", Clone{Full: &yes}, "pve2", false, "clone.storage"},
		"a storage of the other one": {"nfs:1/base-1-disk-0.qcow2", "", Clone{Full: &yes, Storage: "only2"}, "pve2", false, "clone.storage"},
		"a medium of one node":       {"nfs:1/base-1-disk-0.qcow2", "local:iso/a.iso,media=cdrom", Clone{Full: &yes}, "pve2", false, "node"},
		"storages that are not seen": {"hidden:base-1-disk-0", "", Clone{}, "pve2", false, ""},
	} {
		config := map[string]string{"scsi0": c.disk + ",size=1G", "name": "local-zfs:x"}
		if c.medium != "" {
			config["ide2"] = c.medium
		}
		migrates, err := c.clone.Migrates(resources, pve.Resource{VMID: 1, Node: "pve1", Template: true}, config, c.node)
		var field *FieldError
		if errors.As(err, &field); migrates != c.migrates || (err != nil) != (c.refused != "") || err != nil && field.Path != c.refused {
			t.Errorf("%s: %t, %v", name, migrates, err)
		}
	}
}

func TestNamed(t *testing.T) {
	for want, g := range map[string]pve.Resource{
		"VM 100 (web)":  {Type: "qemu", VMID: 100, Name: "web"},
		"Container 101": {Type: "lxc", VMID: 101},
		"VM 102":        {Type: "qemu", VMID: 102, Name: "VM 102"},
	} {
		if got := Named(g); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestFirstOnline(t *testing.T) {
	cluster := pve.Resources{{Type: "node", Node: "pve1", Status: "offline"}, {Type: "node", Node: "pve2", Status: "online"}}
	if node, err := FirstOnline(cluster, []string{"pve1", "pve2"}); err != nil || node != "pve2" {
		t.Errorf("%q, %v", node, err)
	}
	_, err := FirstOnline(cluster, []string{"pve1", "pve9"})
	var field *FieldError
	if !errors.As(err, &field) || field.Path != "nodes" || field.Detail != `Node pve1 is not online. Unknown node "pve9"` {
		t.Errorf("%v", err)
	}
}

// TestSourceConfig: plan and create read a source once for all clones of a moment.
func TestSourceConfig(t *testing.T) {
	w := newWorld(t, nil)
	w.sim.ResetOps()
	for range 3 {
		if config, err := w.s.SourceConfig(t.Context(), "pve1", 9000); err != nil || config["name"] != "template" {
			t.Errorf("%v, %v", config, err)
		}
	}
	w.mustHaveAsked("three clones", "/nodes/{node}/qemu/{vmid}/config")
	if _, err := w.s.SourceConfig(t.Context(), "pve2", 8000); !pve.IsKind(err, pve.NotFound) {
		t.Errorf("a source that is not there: %v", err)
	}
}
