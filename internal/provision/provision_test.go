package provision

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

func TestStampProvesOnlyItsOwnVM(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster := rapid.StringMatching(`pve[0-9](,pve[0-9]){0,2}`).Draw(t, "cluster")
		vmid := rapid.IntRange(100, 999999999).Draw(t, "vmid")
		s := newStamp(cluster, vmid, time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "deadline"), 0))
		back, ok := parseStamp(s.String())
		if !ok || back != s {
			t.Fatalf("%q reads back as %+v, %t", s.String(), back, ok)
		}
		// PVE strips trailing newlines, and a human may add one.
		config := map[string]string{"description": s.String() + "\n"}
		if !s.proves(vmid, config) {
			t.Fatal("does not prove its own VM")
		}
		if s.proves(vmid+1, config) {
			t.Fatal("proves a clone under another id")
		}
		other := newStamp(cluster, vmid, s.Deadline)
		if other.proves(vmid, config) {
			t.Fatal("proves another transaction's VM")
		}
		config["description"] = "mine\n" + s.String()
		if s.proves(vmid, config) {
			t.Fatal("proves a description that only contains it")
		}
	})
}

func TestParseStampRefuses(t *testing.T) {
	good := newStamp("pve1", 100, time.Unix(0, 0)).String()
	for _, text := range []string{"", "golden image", stampTitle, strings.Replace(good, "vmid: 100", "vmid: x", 1),
		strings.Replace(good, "deadline: ", "deadline: never ", 1), strings.Replace(good, "cluster", "Cluster", 1)} {
		if _, ok := parseStamp(text); ok {
			t.Errorf("took %q for a stamp", text)
		}
	}
}

func TestIdentityMatches(t *testing.T) {
	cases := []struct {
		name        string
		state, seen Identity
		want        bool
	}{
		{"same uuid", Identity{UUID: "a", CTime: "1"}, Identity{UUID: "a", CTime: "2"}, true},
		{"other uuid, same ctime (a clone of the same template)", Identity{UUID: "a", CTime: "1"}, Identity{UUID: "b", CTime: "1"}, false},
		{"no uuid, same ctime", Identity{CTime: "1"}, Identity{CTime: "1"}, true},
		{"no uuid, other ctime", Identity{CTime: "1"}, Identity{CTime: "2"}, false},
		{"uuid gone, same ctime", Identity{UUID: "a", CTime: "1"}, Identity{CTime: "1"}, true},
	}
	for _, c := range cases {
		if got := c.state.Matches(c.seen); got != c.want {
			t.Errorf("%s: got %t", c.name, got)
		}
	}
}

func TestGuard(t *testing.T) {
	config := map[string]string{"smbios1": "uuid=bbb", "meta": "creation-qemu=9.0,ctime=1"}
	ref := Ref{VMID: 100, Node: "pve1", Identity: Identity{UUID: "aaa"}}
	var stranger *IdentityError
	if err := guard(ref, "pve1", config); !errors.As(err, &stranger) || !strings.Contains(err.Error(), "aaa") || !strings.Contains(err.Error(), "bbb") {
		t.Errorf("a stranger passed, or is not named: %v", err)
	}
	ref.Identity = Identity{UUID: "bbb"}
	if err := guard(ref, "pve1", config); err != nil {
		t.Error(err)
	}
	ref.Identity = Identity{}
	if err := guard(ref, "pve1", config); err != nil {
		t.Error(err)
	}
}

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
		got, err := findSource(cluster, &c.clone)
		var field *FieldError
		switch {
		case c.path == "" && (err != nil || got.VMID != c.vmid):
			t.Errorf("%s: %v, %v", c.name, got.VMID, err)
		case c.path != "" && (!errors.As(err, &field) || field.Path != c.path):
			t.Errorf("%s: got %v, want an error on %s", c.name, err, c.path)
		}
	}
	_, err := findSource(cluster, &Clone{Name: "golden"})
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
		got, err := target(c.resources, c.node, c.source)
		if c.fails == "" && (err != nil || got != c.want) || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func TestUses(t *testing.T) {
	config := map[string]string{"scsi0": "local-zfs:vm-100-disk-0,size=1G", "unused0": "local-zfs:vm-100-disk-1", "ide2": "file=local:100/vm-100-cloudinit.qcow2,media=cdrom"}
	for volume, want := range map[string]bool{"local-zfs:vm-100-disk-0": true, "local-zfs:vm-100-disk-1": true,
		"local:100/vm-100-cloudinit.qcow2": true, "local-zfs:vm-100-disk-10": false, "local-zfs:vm-100-disk": false} {
		if uses(config, volume) != want {
			t.Errorf("uses(%s) = %t", volume, !want)
		}
	}
}
