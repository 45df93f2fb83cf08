package schema_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
)

// propertyOptions are VM options that are property strings, one of each kind.
func propertyOptions() []string {
	return []string{
		"agent", "amd-sev", "audio0", "boot", "cicustom", "cpu", "efidisk0", "hostpci0", "ide2", "ipconfig0", "ivshmem",
		"machine",
		"memory", "net0", "numa0", "rng0", "sata1", "scsi30", "smbios1", "spice_enhancements", "tpmstate0", "unused255",
		"usb1",
		"vga", "virtio15", "virtiofs0", "watchdog",
	}
}

func format(t testing.TB, set *schema.Set, option string) *schema.Format {
	t.Helper()
	f, ok := set.Format(option)
	if !ok {
		t.Fatalf("no format for %s", option)
	}
	return f
}

func TestParse(t *testing.T) {
	set := schema.Load()
	for _, c := range []struct {
		option, value string
		want          map[string]string
		err           string
	}{
		{option: "net0", value: "virtio=bc:24:11:AA:bb:cc,bridge=vmbr0,firewall=ON",
			want: map[string]string{"model": "virtio", "macaddr": "bc:24:11:AA:bb:cc", "bridge": "vmbr0", "firewall": "1"}},
		{option: "net0", value: "model=virtio,e1000=BC:24:11:00:00:01", err: "key alias 'model' is already defined\n"},
		{option: "net3", value: "bridge=v,tag=0",
			err: "format error\nnet3.model: property is missing and it is not optional\n" +
				"net3.tag: value must have a minimum value of 1\n"},
		{option: "scsi0", value: "volume=local:1,,discard=on,", want: map[string]string{"file": "local:1", "discard": "on"}},
		{option: "scsi0", value: "local:1,format", err: "duplicate key in comma-separated list property: file\n"},
		{option: "scsi0", value: "local:1,=x", err: "missing key in comma-separated list property\n"},
		{option: "scsi0", value: "local:1,ssd=", err: "missing key in comma-separated list property\n"},
		{option: "scsi0", value: "", err: "format error\nscsi0.file: property is missing and it is not optional\n"},
		{option: "scsi0", value: "x", err: "format error\nscsi0.file: invalid format - unable to parse volume ID 'x'\n\n"},
		{option: "scsi0", value: "none,media=cdrom", want: map[string]string{"file": "none", "media": "cdrom"}},
		{option: "scsi0", value: "local:1,size=10Q",
			err: "format error\nscsi0.size: invalid format - value does not look like a valid disk size: 10Q\n\n"},
		{option: "agent", value: "0", want: map[string]string{"enabled": "0"}},
		{option: "agent", value: "enabled=off,type=isa", want: map[string]string{"enabled": "0", "type": "isa"}},
		{option: "agent", value: "yes", err: "format error\nagent.enabled: type check ('boolean') failed - got 'yes'\n"},
		{option: "cpu", value: "flags=+aes", err: "CPU is missing cputype\n"},
		{option: "cpu", value: "host,flags=+nope",
			err: "VM-specific CPU flags must be a subset of: pcid, spec-ctrl, ibpb, ssbd, virt-ssbd, " +
				"amd-ssbd, amd-no-ssb, pdpe1gb, md-clear, hv-tlbflush, hv-evmcs, aes\n"},
		{option: "cpu", value: "custom-mine", err: "Custom cputype 'mine' not found\n"},
		{option: "cpu", value: "host,reported-model=kvm64",
			err: "Property 'reported-model' not allowed in VM-specific CPU config.\n"},
		{option: "cpu", value: "host,phys-bits=65",
			err: "format error\ncpu.phys-bits: invalid format - value must be an integer between 8 and 64 or 'host'\n\n"},
		{option: "boot", value: "order=scsi0;tpmstate0",
			err: "format error\nboot.order: invalid format - invalid boot device 'tpmstate0'\n\n"},
		{option: "ipconfig1", value: "ip=10.0.0.1",
			err: "format error\nipconfig1.ip: invalid format - value does not look like a valid ipv4 network configuration\n\n"},
		{option: "prune-backups", value: "keep-all=1,keep-last=2",
			err: "keep-all cannot be set together with other options.\n"},
		{option: "prune-backups", value: "keep-all=1,keep-last=0",
			want: map[string]string{"keep-all": "1", "keep-last": "0"}},
	} {
		got, err := format(t, set, c.option).Parse(c.value)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != c.err {
			t.Errorf("%s=%q: error %q, want %q", c.option, c.value, text, c.err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s=%q (-want +got):\n%s", c.option, c.value, diff)
		}
	}
	for _, plain := range []string{"cores", "name", "tags", "startup", "net32", "nope"} {
		if _, ok := set.Format(plain); ok {
			t.Errorf("%s has a format", plain)
		}
	}
}

func TestPrint(t *testing.T) {
	set := schema.Load()
	for _, c := range []struct {
		option string
		m      map[string]string
		want   string
	}{
		{"net0", map[string]string{"model": "virtio", "bridge": "vmbr0", "tag": "5"}, "virtio,bridge=vmbr0,tag=5"},
		{"scsi0", map[string]string{"file": "a:b", "ssd": "1", "size": "10.5G", "aio": "native"},
			"a:b,aio=native,size=10752M,ssd=1"},
		{"ivshmem", map[string]string{"name": "x", "size": "32"}, "size=32,name=x"},
		{"ipconfig0", map[string]string{}, ""},
	} {
		if got := format(t, set, c.option).Print(c.m); got != c.want {
			t.Errorf("%s: %q, want %q", c.option, got, c.want)
		}
	}
}

// drawValue makes a value that a key accepts and that can stand in a property string.
func drawValue(t *rapid.T, key string, p *schema.Param) string {
	samples := map[string][]string{
		"pve-volume-id-or-qm-path": {"none", "local-zfs:vm-1-disk-0", "local:32",
			"/dev/sdb"}, "pve-volume-id": {"local:snippets/a b.yaml"},
		"pve-volume-id-or-absolute-path": {"/tmp/x.img", "local:import/x.qcow2"}, "disk-size": {"1", "528K", "10752M", "2G",
			"3T"},
		"urlencoded": {"a%20b", "~x"}, "mac-addr": {"bc:24:11:00:00:01", "BC:24:11:FF:FF:FE"}, "pve-bridge-id": {"vmbr0",
			"a.b_c"},
		"pve-configid": {"gpu1", "a-_b"}, "pve-qm-bootdev-list": {"scsi0;net0", "ide2"}, "pve-phys-bits": {"host", "40"},
		"pve-ipv4-config": {"dhcp", "10.0.0.5/24"}, "pve-ipv6-config": {"auto",
			"fd00::1/64"}, "ipv4": {"10.0.0.1"}, "ipv6": {"fe80::1"},
	}[p.Format]
	switch {
	case key == "cputype":
		samples = []string{"host", "x86-64-v2-AES", "486"}
	case key == "flags":
		samples = []string{"+aes", "-pcid;+ibpb"}
	case len(p.Enum) > 0:
		samples = p.Enum
	case p.Type == "boolean":
		samples = []string{"0", "1"}
	}
	if samples != nil {
		return rapid.SampledFrom(samples).Draw(t, key)
	}
	if p.Type == "integer" || p.Type == "number" {
		low, high := 0, 100000
		if p.Minimum != nil {
			low = int(*p.Minimum)
		}
		if p.Maximum != nil {
			high = int(*p.Maximum)
		}
		return fmt.Sprint(rapid.IntRange(low, high).Draw(t, key))
	}
	if p.Pattern == "" {
		t.Fatalf("the test knows no values for %s with format %q", key, p.Format)
	}
	return rapid.StringMatching(strings.Trim(p.Pattern, "^$")).Filter(func(s string) bool {
		return s != "" && s != "0" && !strings.ContainsAny(s, ",\n=") && strings.TrimSpace(s) != "" &&
			(p.MaxLength == nil || len(s) <= *p.MaxLength)
	}).Draw(t, key)
}

// TestParsePrintLaw: what Print writes, Parse reads back unchanged.
func TestParsePrintLaw(t *testing.T) {
	set := schema.Load()
	for _, option := range propertyOptions() {
		t.Run(option, func(t *testing.T) {
			f := format(t, set, option)
			rapid.Check(t, func(t *rapid.T) {
				m := map[string]string{}
				keys := slices.Sorted(maps.Keys(f.Params))
				for _, key := range keys {
					p := f.Params[key]
					needed := !p.Optional || key == "cputype"
					if p.Alias != "" || key == "reported-model" || !needed && !rapid.Bool().Draw(t, "has "+key) {
						continue
					}
					m[key] = drawValue(t, key, p)
					if other := p.Requires; other != "" && m[other] == "" {
						m[other] = drawValue(t, other, f.Params[other])
					}
				}
				text := f.Print(m)
				again, err := f.Parse(text)
				if err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				if diff := cmp.Diff(m, again); diff != "" {
					t.Fatalf("%q (-printed +parsed):\n%s", text, diff)
				}
				route, vars, _ := set.Route("PUT", "/nodes/n/qemu/100/config")
				if errs := route.Validate(map[string]string{option: text}, vars); errs != nil && len(text) <= 512 {
					t.Fatalf("%q: %v", text, errs)
				}
			})
		})
	}
}

// FuzzParse: no input breaks the parser, an error ends with a line break as PVE's do, and Print is stable on what Parse
// accepts, unless the bare value has an equals sign: PVE cannot read that back either.
func FuzzParse(f *testing.F) {
	set := schema.Load()
	for i, option := range propertyOptions() {
		f.Add(i, "virtio=BC:24:11:00:00:01,bridge=vmbr0")
		f.Add(i, "local:vm-1-disk-0,size=10.5G,ssd=on")
		f.Add(i, option+"=1,,x=\n,=")
	}
	f.Fuzz(func(t *testing.T, n int, value string) {
		options := propertyOptions()
		option := options[int(uint(n)%uint(len(options)))]
		f := format(t, set, option)
		m, err := f.Parse(value)
		if err != nil {
			if !strings.HasSuffix(err.Error(), "\n") {
				t.Errorf("%s=%q: error without line break %q", option, value, err)
			}
			return
		}
		for key, v := range m {
			if p := f.Params[key]; p == nil || p.DefaultKey && (strings.Contains(v, "=") || strings.TrimSpace(v) == "") {
				return
			}
		}
		text := f.Print(m)
		again, err := f.Parse(text)
		if err != nil {
			t.Fatalf("%s=%q prints %q: %v", option, value, text, err)
		}
		if second := f.Print(again); second != text {
			t.Errorf("%s=%q prints %q and then %q", option, value, text, second)
		}
	})
}
