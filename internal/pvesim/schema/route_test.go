package schema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
)

func TestRoute(t *testing.T) {
	set := schema.Load()
	for _, c := range []struct {
		method, path, template string // template "" = unknown
		vars                   map[string]string
	}{
		{"GET", "/nodes/pve1/qemu/100/config/", "/nodes/{node}/qemu/{vmid}/config",
			map[string]string{"node": "pve1", "vmid": "100"}},
		{"GET", "nodes//pve1/qemu", "/nodes/{node}/qemu", map[string]string{"node": "pve1"}},
		{"DELETE", "/nodes/pve1/storage/local/content/local:100/vm-100-disk-0.qcow2",
			"/nodes/{node}/storage/{storage}/content/{volume}",
			map[string]string{"node": "pve1", "storage": "local", "volume": "local:100/vm-100-disk-0.qcow2"}},
		{"GET", "/nodes/pve1/storage/local/content", "/nodes/{node}/storage/{storage}/content",
			map[string]string{"node": "pve1", "storage": "local"}},
		{"GET", "/cluster/nextid", "/cluster/nextid", map[string]string{}},
		{"GET", "/", "/", map[string]string{}},
		{"POST", "/nodes/pve1/qemu/100/importdisk", "", nil},
		{"PATCH", "/nodes/pve1/qemu", "", nil},
		{"GET", "/nodes/pve1/qemu/100/config/x", "", nil},
		{"GET", "", "/", map[string]string{}},
	} {
		r, vars, known := set.Route(c.method, c.path)
		if known != (c.template != "") {
			t.Errorf("%s %s: known = %v", c.method, c.path, known)
			continue
		}
		if !known {
			continue
		}
		if r.Template != c.template || r.Method != c.method {
			t.Errorf("%s %s: found %s %s", c.method, c.path, r.Method, r.Template)
		}
		if diff := cmp.Diff(c.vars, vars); diff != "" {
			t.Errorf("%s %s: variables (-want +got):\n%s", c.method, c.path, diff)
		}
	}
}

func TestRouteFacts(t *testing.T) {
	set := schema.Load()
	find := func(method, path string) *schema.Route {
		t.Helper()
		r, _, known := set.Route(method, path)
		if !known {
			t.Fatalf("no %s %s", method, path)
		}
		return r
	}
	create := find("POST", "/nodes/n/qemu")
	if !create.Protected || !create.ProxyToNode || !create.AllowToken || create.Permissions.User != "all" {
		t.Errorf("create: %+v", create)
	}
	for _, name := range []string{"net31", "scsi30", "unused255", "usb13", "virtiofs9", "numa", "numa7", "vmid", "node"} {
		if create.Params[name] == nil {
			t.Errorf("create has no %s", name)
		}
	}
	for _, name := range []string{"net[n]", "net32", "scsi31", "ide4", "usb14", "delete"} {
		if create.Params[name] != nil {
			t.Errorf("create has %s", name)
		}
	}
	if r := find("POST", "/access/ticket"); r.Permissions.User != "world" || r.AllowToken {
		t.Errorf("ticket: %+v, permissions %+v", r, r.Permissions)
	}
	want := &schema.Check{Op: "and", Options: map[string]string{}, Args: []*schema.Check{
		{Op: "perm", Path: "/vms/{vmid}", Privs: []string{"VM.Clone"}, Options: map[string]string{}},
		{Op: "or", Options: map[string]string{}, Args: []*schema.Check{
			{Op: "perm", Path: "/vms/{newid}", Privs: []string{"VM.Allocate"}, Options: map[string]string{}},
			{Op: "perm", Path: "/pool/{pool}", Privs: []string{"VM.Allocate"},
				Options: map[string]string{"require_param": "pool"}},
		}},
	}}
	if diff := cmp.Diff(want, find("POST", "/nodes/n/qemu/1/clone").Permissions.Check); diff != "" {
		t.Errorf("clone (-want +got):\n%s", diff)
	}
	if c := find("GET", "/nodes/n/storage/s/status").Permissions.Check; !c.Any || len(c.Privs) != 2 {
		t.Errorf("storage status: %+v", c)
	}
	if c := find("PUT", "/access/acl").Permissions.Check; c.Op != "perm-modify" || c.Path != "{path}" {
		t.Errorf("acl: %+v", c)
	}
}

func TestValidate(t *testing.T) {
	set := schema.Load()
	type m = map[string]string
	const (
		put    = "PUT /nodes/n/qemu/100/config"
		create = "POST /nodes/n/qemu"
	)
	for _, c := range []struct {
		call   string
		params m
		want   m
	}{
		{put, m{"vmid": "100", "node": "n", "cores": "2"}, nil},
		{put, m{"vmid": "101"}, m{"vmid": "duplicate parameter (already defined in URI) with conflicting values!"}},
		{put, m{"force": "1"}, m{"delete": "missing property - 'force' requires this property"}},
		{create, m{"vmid": "100", "force": "1", "unique": "1"},
			m{"archive": "missing property - 'force' requires this property" +
				`\n` + "missing property - 'unique' requires this property"}},
		{create, m{"vmid": "100", "cores": "1.5", "cpulimit": "1e3", "kvm": "on", "description": strings.Repeat("é", 8193)},
			m{
				"cores": "type check ('integer') failed - got '1.5'", "cpulimit": "value must have a maximum value of 128",
				"kvm": "type check ('boolean') failed - got 'on'", "description": "value may only be 8192 characters long"}},
		{create, m{"vmid": "100", "description": strings.Repeat("é", 8192), "cpulimit": ".5", "cores": "+4"}, nil},
		{create, m{"vmid": "0100", "storage": "x", "pool": "a/b/c/d", "hotplug": "1,x"}, m{
			"vmid": "invalid format - value does not look like a valid VM ID\n", "storage": "invalid format - storage ID 'x' " +
				"contains illegal characters\n",
			"pool":    "invalid format - pool name 'a/b/c/d' nested too deeply (max levels = 3)\n",
			"hotplug": "invalid format - invalid hotplug feature '1'\n"}},
		{create, m{"vmid": "100", "startup": "order=a", "affinity": "3-1", "nameserver": "10.0.0.1 _", "tags": "a;b,c d"}, m{
			"startup": "invalid format - unable to parse startup options\n", "affinity": "invalid format - unable to parse " +
				"cpuset option\n",
			"nameserver": "invalid format - value does not look like a valid address: _\n"}},
		{create, m{"vmid": "100", "net32": "virtio"},
			m{"net32": "property is not defined in schema and the schema does not allow additional properties"}},
		// The pattern is not grouped in PVE's match: the first alternative is anchored at the start only.
		{create, m{"vmid": "100", "parallel0": "/dev/parport0xyz", "parallel1": "x/dev/usb/lp0", "parallel2": "/dev/usb/lpx"},
			m{
				"parallel2": "value does not match the regex pattern"}},
		{"GET /nodes/n_/qemu", m{}, m{"node": "invalid format - value does not look like a valid node name\n"}},
		{"POST /cluster/backup", m{"all": "1", "exclude-path": "/a\x00/b"}, nil},
		{"POST /cluster/mapping/dir", m{"id": "dir1", "map": "node=n,path=/x\x00path=/y"}, m{
			"map[1]": "invalid format - format error\nmap[1].node: property is missing and it is not optional\n"}},
		{"POST /nodes/n/qemu/100/migrate", m{"target": "m", "targetstorage": "a1:b1,a1:_"}, m{
			"targetstorage": "invalid format - entry 'a1:_' contains invalid ID - storage ID '_' contains illegal " +
				"characters\n\n\n"}},
		{"POST /access/users", m{"userid": "ab"}, m{"userid": "invalid format - user name 'ab' is too short\n"}},
		{"POST /access/users", m{"userid": "ops@pve", "email": ""}, nil},
		{"PUT /access/roles/R", m{"privs": "VM.Audit,VM.Nope"}, m{"privs": "invalid format - invalid privilege 'VM.Nope'\n"}},
		{"POST /storage", m{"storage": "s1", "type": "dir", "path": "x", "content": "images,nope"}, m{
			"path":    "invalid format - value does not look like a valid absolute path\n",
			"content": "invalid format - invalid content type 'nope'\n"}},
		{"GET /nodes/n/qemu/100/agent", m{"whatever": "1"}, nil},
	} {
		method, path, _ := strings.Cut(c.call, " ")
		route, vars, known := set.Route(method, path)
		if !known {
			t.Errorf("no %s", c.call)
			continue
		}
		if diff := cmp.Diff(c.want, route.Validate(c.params, vars)); diff != "" {
			t.Errorf("%s %v (-want +got):\n%s", c.call, c.params, diff)
		}
	}
}

// FuzzValidate: no request breaks the rules, and every error has a text and belongs to a parameter of the request or of
// the rule.
func FuzzValidate(f *testing.F) {
	set := schema.Load()
	seeds(f, "calls.jsonl", func(row recorded) {
		method, path, _ := strings.Cut(row.Do, " ")
		for name, value := range row.With {
			f.Add(method, strings.ReplaceAll(path, "{node}", "pve1"), name, value)
		}
	})
	seeds(f, "values.jsonl", func(row recorded) {
		f.Add("PUT", "/nodes/pve1/qemu/800/config", row.Option, row.Sent)
	})
	f.Fuzz(func(t *testing.T, method, path, name, value string) {
		route, vars, known := set.Route(method, path)
		if !known {
			return
		}
		for param, text := range route.Validate(map[string]string{name: value}, vars) {
			base, _, _ := strings.Cut(param, "[")
			if text == "" || param != name && base != name && route.Params[param] == nil {
				t.Errorf("%s %s %s=%q: error %q for %q", method, path, name, value, text, param)
			}
		}
	})
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "1024": 1024, "528K": 528 << 10, "10.5G": 10752 << 20, "1.0000001K": 1024, "2T": 2 << 40,
		"3GiB": 3 << 30,
	} {
		if got, ok := schema.ParseSize(text); !ok || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "G", "-1", "1.", ".5G", "1g", "1 G", "1P", "1GB", "1Gi", "99999999999999999999",
		"9999999T", "9999999.5T"} {
		if got, ok := schema.ParseSize(text); ok {
			t.Errorf("ParseSize(%q) = %d", text, got)
		}
	}
	for bytes, want := range map[int64]string{
		0: "0T", 1: "1", 1023: "1023", 1024: "1K", 1536: "1536", 10752 << 20: "10752M", 1 << 30: "1G", 1024 << 30: "1T",
		4096 << 40: "4096T",
	} {
		if got := schema.FormatSize(bytes); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", bytes, got, want)
		}
	}
}

func TestOptionIndex(t *testing.T) {
	for key, want := range map[string]int{"scsi0": 0, "scsi30": 30, "unused255": 255, "efidisk0": 0, "net12": 12} {
		base, n, ok := schema.OptionIndex(key)
		if !ok || n != want || !strings.HasPrefix(key, base) || strings.ContainsAny(base, "0123456789") {
			t.Errorf("OptionIndex(%q) = %q, %d, %v", key, base, n, ok)
		}
	}
	for _, key := range []string{"", "scsi", "scsi31", "scsi01", "smbios1", "12", "net-1", "efidisk1", "ide4", "net0x",
		"unused99999999999999999999"} {
		if base, n, ok := schema.OptionIndex(key); ok {
			t.Errorf("OptionIndex(%q) = %q, %d", key, base, n)
		}
	}
}

// recorded is what a row of the conformance suite's tables sends.
type recorded struct {
	Do, Option, Sent string
	With             map[string]string
}

// seeds reads a table of the conformance suite, which asks a whole server.
func seeds(f *testing.F, table string, add func(recorded)) {
	f.Helper()
	raw, err := os.ReadFile("../../test/conformance/testdata/" + table)
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var row recorded
		if err := json.Unmarshal(line, &row); err != nil {
			f.Fatal(err)
		}
		add(row)
	}
}
