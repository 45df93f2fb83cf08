package acctest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// optionOf is the option of PVE that holds an attribute; "" for what is no option, or has a request of its own.
func optionOf(path string) string {
	group, key, nested := strings.Cut(path, ".")
	slot, _, _ := strings.Cut(key, ".")
	names := map[string]string{"audio": "audio0", "rng": "rng0", "smbios": "smbios1", "amd_sev": "amd-sev", "intel_tdx": "intel-tdx", "machine_options": "machine",
		"boot_order": "boot", "cpu.limit": "cpulimit", "cpu.units": "cpuunits", "memory.size": "memory", "memory.allow_ksm": "allow-ksm",
		"cloud_init.type": "citype", "cloud_init.user": "ciuser", "cloud_init.ssh_keys": "sshkeys", "cloud_init.nameservers": "nameserver",
		"cloud_init.searchdomain": "searchdomain", "cloud_init.upgrade": "ciupgrade", "cloud_init.custom": "cicustom"}
	switch {
	case slices.Contains([]string{"vmid", "node", "pool", "clone", "timeouts", "on_destroy", "on_failure", "on_orphaned_volumes", "power_state", "template", "firewall", "ha",
		"efi_disk", "tpm_state", "cloud_init_password_wo", "cloud_init_password_wo_version"}, group):
		return ""
	case group == "cloud_init" && strings.HasPrefix(key, "addresses."):
		return "ipconfig" + strings.TrimPrefix(strings.Split(key, ".")[1], "net")
	case group == "cloud_init" && slices.Contains([]string{"storage", "slot", "format"}, key):
		return "" // the drive
	case slices.Contains([]string{"disks", "cdroms", "networks", "pci", "usb", "numa_nodes", "virtiofs", "serial", "parallel"}, group):
		return slot
	case strings.HasPrefix(path, "cloud_init.custom"):
		return "cicustom"
	case names[path] != "":
		return names[path]
	case names[group] != "":
		return names[group]
	case group == "cpu" && slices.Contains([]string{"sockets", "cores", "vcpus", "affinity", "numa"}, key), group == "memory":
		return key
	case nested:
		return group
	}
	return path
}

// changeable are the attributes with another value that is as good, in a configuration that has a bit of everything.
func changeable() (flat, map[string]cty.Value) {
	f, other := flat{}, map[string]cty.Value{}
	values := scalarValues()
	for path, all := range deviceValues() {
		family, key, _ := strings.Cut(path, ".*.")
		values[family+"."+deviceSlots()[family][0]+"."+key] = all
	}
	for path, all := range values {
		f[path] = all[0]
		if len(all) > 1 {
			other[path] = all[1]
		}
	}
	for path, v := range map[string]string{"machine": "q35", "power_state": "stopped", "ostype": "l26", "vmgenid": "6F4FA7B2-f022-48c4-8346-876f8d66b359",
		"description": "notes", "cloud_init.addresses.net0.ipv4": "10.0.0.5/24", "cloud_init.addresses.net0.ipv6": "2001:db8::5/64"} {
		f[path] = cty.StringVal(v)
	}
	f.drop("disks.scsi0.import_from", "protection", "cloud_init_password_wo", "cloud_init_password_wo_version", "firewall", "ha", "pci.hostpci0.host", "disks.scsi0.throttle")
	for path, v := range map[string]float64{"mbps": 1, "mbps_max": 2, "mbps_max_length": 3, "iops_rd": 100, "iops_rd_max": 200, "iops_rd_max_length": 3, "iops_wr": 100} {
		f["disks.scsi0.throttle."+path], other["disks.scsi0.throttle."+path] = cty.NumberFloatVal(v), cty.NumberFloatVal(v+1)
	}
	f.repair()
	for path := range other {
		if _, ok := f[path]; !ok || fixed(path) || slices.Contains([]string{"machine", "ostype", "vga.type", "disks.scsi0.size", "disks.scsi0.storage", "disks.scsi0.format",
			"cpu.numa", "memory.hugepages", "machine_options.viommu", "hotplug", "tags"}, path) || optionOf(path) == "" {
			delete(other, path)
		}
	}
	for path, v := range map[string]cty.Value{"hotplug": cty.ListVal(texts("usb")), "tags": cty.ListVal(texts("b")), "cpu.flags": cty.ListVal(texts("+aes")),
		"cloud_init.user": cty.StringVal("root"), "smbios.serial": cty.StringVal("x"), "networks.net0.trunks": cty.ListVal(texts("7")), "args": cty.StringVal("-x"),
		"startup.down": cty.NumberIntVal(7), "audio.driver": cty.StringVal("none")} {
		other[path] = v
	}
	return f, other
}

// TestOneChange: the change of one attribute sends the one option that holds it, with the digest of what was read. Each
// group of attributes has a VM of its own, which keeps the plans small.
func TestOneChange(t *testing.T) {
	w := acctest.NewWorld(t, pvesim.Options{Profile: "9.2", Nodes: []string{"pve1"}})
	everything, other := changeable()
	groups := map[string][]string{}
	for path := range other {
		group, _, nested := strings.Cut(path, ".")
		if !nested {
			group = ""
		}
		groups[group] = append(groups[group], path)
	}
	vmid, changes := int64(500), 0
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		vmid++
		config := maps.Clone(everything)
		maps.DeleteFunc(config, func(path string, _ cty.Value) bool {
			of, _, nested := strings.Cut(path, ".")
			return of != group && (nested || group != "") && !slices.Contains([]string{"machine", "power_state", "ostype", "node"}, of)
		})
		config["vmid"] = cty.NumberIntVal(vmid)
		config.repair()
		s := w.NewSession()
		if err := s.Configure(w.ProviderBlock(acctest.RootTicket)); err != nil {
			t.Fatal(err)
		}
		if err := apply(t.Context(), s, config); err != nil {
			t.Errorf("create: %v\n%s", err, config)
			continue
		}
		slices.Sort(groups[group])
		for _, path := range groups[group] {
			if config[path] != cty.NilVal && config[path].Type().Equals(other[path].Type()) && config[path].RawEquals(other[path]) {
				continue
			}
			config = maps.Clone(config)
			config[path] = other[path]
			w.ResetCalls()
			if err := apply(t.Context(), s, config); err != nil {
				t.Errorf("%s: %v", path, err)
				break
			}
			changes++
			if err := sentOnly(w.Sim.Ops(), optionOf(path)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	t.Logf("%d attributes changed, each alone", changes)
	if changes < 110 {
		t.Errorf("only %d attributes were changed", changes)
	}
}

func apply(ctx context.Context, s *acctest.Session, config flat) error {
	if err := s.SetResource(driftAddress, config.tree()); err != nil {
		return err
	}
	return s.Run(ctx)
}

// sentOnly wants one write, which sets or deletes one option and names the digest.
func sentOnly(ops []pvesim.Op, option string) error {
	var writes []pvesim.Op
	for _, op := range ops {
		if op.Method != http.MethodGet && op.Path != "/access/ticket" {
			writes = append(writes, op)
		}
	}
	if len(writes) != 1 {
		return fmt.Errorf("%d writes: %v", len(writes), writes)
	}
	var sent []string
	for name, value := range writes[0].Params {
		switch name {
		case "digest", "node", "vmid", "background_delay":
		case "delete":
			sent = append(sent, strings.Split(value, ",")...)
		default:
			sent = append(sent, name)
		}
	}
	switch {
	case !slices.Equal(sent, []string{option}):
		return fmt.Errorf("sent %v, want %s", sent, option)
	case writes[0].Params["digest"] == "":
		return errors.New("sent without a digest")
	}
	return nil
}

// TestChangeFromOutsideIsNotOverwritten: what somebody else changes between a plan and its apply stays, and the next plan
// reports it.
func TestChangeFromOutsideIsNotOverwritten(t *testing.T) {
	w := acctest.NewWorld(t, pvesim.Options{Nodes: []string{"pve1"}})
	s := w.NewSession()
	if err := s.Configure(w.ProviderBlock(acctest.RootTicket)); err != nil {
		t.Fatal(err)
	}
	config := flat{"name": cty.StringVal("x"), "vmid": cty.NumberIntVal(500), "vga.type": cty.StringVal("std")}
	if err := apply(t.Context(), s, config); err != nil {
		t.Fatal(err)
	}
	config["keyboard"] = cty.StringVal("de")
	if err := s.SetResource(driftAddress, config.tree()); err != nil {
		t.Fatal(err)
	}
	pl, err := s.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) { world.Guests[500].Config["vga"] = "qxl,memory=32" })
	if err := s.Apply(t.Context(), pl); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		if has := world.Guests[500].Config["vga"]; has != "qxl,memory=32" {
			t.Errorf("vga is %q", has)
		}
	})
	if pl, err = s.Plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := pl.String(); !strings.Contains(text, "vga.type") || !strings.Contains(text, "qxl") {
		t.Errorf("the plan does not report what was changed from outside:\n%s", text)
	}
}

// TestRestrictedOptions: what PVE gives to root@pam only, to newer versions or with a permission, is refused in the plan.
func TestRestrictedOptions(t *testing.T) {
	old := acctest.NewWorld(t, pvesim.Options{Profile: "8.0", Nodes: []string{"pve1"}})
	present := acctest.NewWorld(t, pvesim.Options{Profile: "9.2", Nodes: []string{"pve1"}})
	present.Change(func(world *state.World) {
		for name, privileges := range world.Roles {
			world.Roles[name] = slices.DeleteFunc(slices.Clone(privileges), func(p string) bool { return p == "Mapping.Use" })
		}
	})
	for name, tt := range map[string]struct {
		w      *acctest.World
		id     acctest.Identity
		config flat
		want   []string
	}{
		"args by a token":         {present, acctest.TokenNoSSH, flat{"args": cty.StringVal("-x")}, []string{"Only root@pam may set args", "qm set"}},
		"a PCI address, a token":  {present, acctest.TokenNoSSH, flat{"pci.hostpci0.host": cty.StringVal("01:00.0")}, []string{"Only root@pam may set pci.hostpci0.host", "mapping", "Mapping.Use"}},
		"a USB device, a token":   {present, acctest.TokenNoSSH, flat{"usb.usb0.host": cty.StringVal("1234:abcd")}, []string{"Only root@pam may set usb.usb0.host", "mapping"}},
		"SPICE USB by a token":    {present, acctest.TokenNoSSH, flat{"usb.usb0.host": cty.StringVal("spice")}, nil},
		"a serial port, a token":  {present, acctest.TokenNoSSH, flat{"serial.serial0.device": cty.StringVal("/dev/ttyS0")}, []string{"Only root@pam may set serial.serial0.device", "socket"}},
		"a socket by a token":     {present, acctest.TokenNoSSH, flat{"serial.serial0.device": cty.StringVal("socket")}, nil},
		"a mapping by a token":    {present, acctest.TokenNoSSH, flat{"virtiofs.virtiofs0.dirid": cty.StringVal("share")}, []string{"No permission", "Mapping.Use on /mapping/dir/share"}},
		"all of it by root":       {present, acctest.RootTicket, flat{"args": cty.StringVal("-x"), "pci.hostpci0.host": cty.StringVal("01:00.0"), "virtiofs.virtiofs0.dirid": cty.StringVal("share")}, nil},
		"virtiofs on 8.0":         {old, acctest.RootTicket, flat{"virtiofs.virtiofs0.dirid": cty.StringVal("share")}, []string{"virtiofs.virtiofs0 needs Proxmox VE 8.4 or later"}},
		"KSM on 8.0":              {old, acctest.RootTicket, flat{"memory.allow_ksm": cty.False}, []string{"memory.allow_ksm needs Proxmox VE 9.1 or later"}},
		"the clipboard on 8.0":    {old, acctest.RootTicket, flat{"vga.clipboard": cty.StringVal("vnc")}, []string{"vga.clipboard needs Proxmox VE 8.1 or later"}},
		"a virtual IOMMU on 8.0":  {old, acctest.RootTicket, flat{"machine_options.viommu": cty.StringVal("virtio")}, []string{"machine_options.viommu needs Proxmox VE 8.2 or later"}},
		"confidential VMs on 8.0": {old, acctest.RootTicket, flat{"amd_sev.type": cty.StringVal("std")}, []string{"amd_sev needs Proxmox VE 8.3 or later"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := tt.w.NewSession()
			if err := s.Configure(tt.w.ProviderBlock(tt.id)); err != nil {
				t.Fatal(err)
			}
			if err := s.SetResource(driftAddress, tt.config.tree()); err != nil {
				t.Fatal(err)
			}
			_, err := s.Plan(t.Context())
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("plan: %v", err)
			}
			for _, words := range tt.want {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("the plan says %v, want %q", err, words)
				}
			}
		})
	}
}
