package plan_test

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

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// optionOf is the option of PVE that holds an attribute; "" if it is no option or has a request of its own.
func optionOf(path string) string {
	group, key, nested := strings.Cut(path, ".")
	slot, _, _ := strings.Cut(key, ".")
	names := map[string]string{"audio": "audio0", "rng": "rng0", "smbios": "smbios1", "amd_sev": "amd-sev", "intel_tdx": "intel-tdx", "machine_options": "machine",
		"boot_order": "boot", "cpu.limit": "cpulimit", "cpu.units": "cpuunits", "memory.size": "memory", "memory.allow_ksm": "allow-ksm",
		"cloud_init.type": "citype", "cloud_init.user": "ciuser", "cloud_init.ssh_keys": "sshkeys", "cloud_init.nameservers": "nameserver",
		"cloud_init.searchdomain": "searchdomain", "cloud_init.upgrade": "ciupgrade", "cloud_init.custom": "cicustom"}
	switch {
	case slices.Contains([]string{"vmid", "node", "pool", "clone", "timeouts", "on_destroy", "on_failure", "on_orphaned_volumes", "import_working_storage", "power_state", "template", "firewall", "ha",
		"efi_disk", "tpm_state", "cloud_init_password_wo", "cloud_init_password_wo_version", "cloud_init_trigger"}, group):
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

// addOthers makes the objects that the changes refer to.
func addOthers(world *state.World) {
	for _, m := range []state.Mapping{{Kind: "pci", ID: "gpu2"}, {Kind: "usb", ID: "other"}, {Kind: "dir", ID: "other"}} {
		m.Nodes = []string{"pve1", "pve2"}
		world.Mappings = append(world.Mappings, &m)
	}
	for _, v := range []state.Volume{
		{Name: "snippets/other.yaml", Content: "snippets", Format: "snippet"}, {Name: "snippets/other.pl", Content: "snippets", Format: "snippet"},
		{Name: "import/other.qcow2", Content: "import", Format: "qcow2"},
	} {
		v.Storage, v.Node, v.Size, v.Data = "local", "pve1", 1<<30, "other"
		world.Put(&v)
	}
	world.AddBackup("pve1")
	later := state.WebBackup("pve1")
	_, later.Name, _ = strings.Cut(laterBackup, ":")
	world.Put(later)
}

// TestOneChange: the change of one attribute alone sends exactly the option that holds it, with the digest of the configuration
// that was read. It walks the schema: an attribute without a change needs a reason. `make test` plays one in three.
func TestOneChange(t *testing.T) {
	t.Parallel()
	cases, exempt := oneChanges(t), noChange()
	for _, path := range attributes(t) {
		_, changed := cases[path]
		switch reason, excused := exempt[path]; {
		case changed && excused:
			t.Errorf("%s has a change and a reason to have none", path)
		case !changed && reason == "":
			t.Errorf("%s has neither a change nor a reason to have none", path)
		}
	}
	twins := newComparison(t)
	open := func() *rig.World {
		w := driftWorld(t, "pve1", "pve2")
		w.Change(addOthers)
		return w
	}
	changes := play(t, slices.Sorted(maps.Keys(cases)), func(n int, path string) bool { return share.Plays(n, 8, path) }, open,
		func(w *rig.World, n int, path string) bool {
			vmid := 500 + n
			w.Serve = nil
			if vmid%5 == 0 { // the framework takes its time
				w.Serve = twins.serve
			}
			err := cases[path].try(t.Context(), w, vmid)
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			w.Change(func(world *state.World) { forget(world, vmid) })
			return err == nil
		})
	twins.agree(t)
	t.Logf("%d of %d attributes changed, each alone; %d exempt", len(changes), len(cases), len(exempt))
	for _, path := range slices.Sorted(maps.Keys(exempt)) {
		t.Logf("exempt: %-32s %s", path, exempt[path])
	}
}

// TestReplacingAttributes: the documentation says of an attribute that a change replaces the VM where TestOneChange has a
// change of it that does, and only there.
func TestReplacingAttributes(t *testing.T) {
	replaces := map[string]bool{}
	for name, c := range oneChanges(t) {
		path, _, _ := strings.Cut(name, ",")
		replaces[path] = replaces[path] || c.want == replacedBy
	}
	for path, says := range described(t) {
		if documented := strings.Contains(says, "replaces the VM"); documented != replaces[path] {
			t.Errorf("%s: a change replaces the VM: %t, and the documentation says so: %t", path, replaces[path], documented)
		}
	}
}

// try applies a configuration and the change.
func (c oneChange) try(ctx context.Context, w *rig.World, vmid int) error {
	before, after := c.configs(vmid)
	s := w.NewSession()
	s.TrustPlans = true
	if err := s.Configure(w.ProviderBlock(rig.RootTicket)); err != nil {
		return err
	}
	if err := apply(ctx, s, before); err != nil {
		return fmt.Errorf("create: %w\n%s", err, before)
	}
	w.ResetCalls()
	if err := s.SetResource(driftAddress, after.tree()); err != nil {
		return err
	}
	pl, err := s.Plan(ctx)
	switch change := pl.Change(driftAddress); {
	case c.want == refusedChange:
		if err == nil {
			return errors.New("the plan does not refuse it")
		}
		return nil
	case err != nil:
		return err
	case c.want == replacedBy:
		if change == nil || change.Action != terraformtest.Replace {
			return fmt.Errorf("the plan does not replace the VM:\n%s", pl)
		}
		if why := strings.NewReplacer(`["`, ".", `"]`, "").Replace(strings.Join(change.RequiresReplace, ", ")); why != c.path {
			return fmt.Errorf("the plan replaces the VM because of %s, not of %s", why, c.path)
		}
		return nil
	}
	if err := s.Apply(ctx, pl); err != nil {
		return err
	}
	return c.sent(w.Sim.Ops())
}

// sent wants the expected writes, each with the digest of the last read if PVE guards that write with one.
func (c oneChange) sent(ops []pvesim.Op) error {
	var writes []string
	for _, op := range ops {
		if op.Method == http.MethodGet || op.Path == "/access/ticket" {
			continue
		}
		_, tail, _ := strings.Cut(op.Path, "/qemu/")
		if _, rest, ok := strings.Cut(tail, "/"); ok {
			tail = rest
		} else {
			tail = strings.TrimPrefix(op.Path, "/")
		}
		var keys []string
		for name, value := range op.Params {
			switch {
			case slices.Contains([]string{"digest", "node", "vmid", "sid", "background_delay"}, name):
			case name == "delete" && tail == "config":
				keys = append(keys, strings.FieldsFunc(value, func(r rune) bool { return r == ',' })...)
			default:
				keys = append(keys, name)
			}
		}
		slices.Sort(keys)
		write := strings.TrimSpace(op.Method + " " + tail + " " + strings.Join(keys, ","))
		if guarded := tail == "config" || strings.HasPrefix(tail, "firewall/") || strings.HasPrefix(tail, "cluster/ha/resources"); guarded && op.Params["digest"] == "" {
			write += " without a digest"
		}
		writes = append(writes, write)
	}
	if got := strings.Join(writes, "; "); got != c.want {
		return fmt.Errorf("sent %q, want %q", got, c.want)
	}
	return nil
}

func apply(ctx context.Context, s *terraformtest.Session, config flat) error {
	if err := s.SetResource(driftAddress, config.tree()); err != nil {
		return err
	}
	return s.Run(ctx)
}

// TestChangeFromOutsideIsNotOverwritten: a change by a third party between a plan and its apply stays, and the next plan
// reports it.
func TestChangeFromOutsideIsNotOverwritten(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1"}})
	s := w.NewSession()
	if err := s.Configure(w.ProviderBlock(rig.RootTicket)); err != nil {
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
		t.Errorf("the plan does not report the change from outside:\n%s", text)
	}
}

// TestRestrictedOptions: what PVE gives to root@pam only, to newer versions or with a permission, is refused in the plan.
func TestRestrictedOptions(t *testing.T) {
	t.Parallel()
	old := rig.NewWorld(t, pvesim.Options{Profile: "8.0", Nodes: []string{"pve1"}})
	middle := rig.NewWorld(t, pvesim.Options{Profile: "9.0", Nodes: []string{"pve1"}})
	late := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1"}}) // 8.4
	present := rig.NewWorld(t, pvesim.Options{Profile: "9.2", Nodes: []string{"pve1"}})
	present.Change(func(world *state.World) {
		for name, privileges := range world.Roles {
			world.Roles[name] = slices.DeleteFunc(slices.Clone(privileges), func(p string) bool { return p == "Mapping.Use" })
		}
	})
	enrolled := flat{"bios": cty.StringVal("ovmf"), "efi_disk.storage": cty.StringVal("local-zfs"), "efi_disk.type": cty.StringVal("4m"), "efi_disk.ms_cert": cty.StringVal("2023")}
	for name, tt := range map[string]struct {
		w      *rig.World
		id     rig.Identity
		config flat
		want   []string
	}{
		"args by a token":         {present, rig.TokenNoSSH, flat{"args": cty.StringVal("-x")}, []string{"Only root@pam may set args", "qm set"}},
		"a PCI address, a token":  {present, rig.TokenNoSSH, flat{"pci.hostpci0.host": cty.StringVal("01:00.0")}, []string{"Only root@pam may set pci.hostpci0.host", "mapping", "Mapping.Use"}},
		"a USB device, a token":   {present, rig.TokenNoSSH, flat{"usb.usb0.host": cty.StringVal("1234:abcd")}, []string{"Only root@pam may set usb.usb0.host", "mapping"}},
		"SPICE USB by a token":    {present, rig.TokenNoSSH, flat{"usb.usb0.host": cty.StringVal("spice")}, nil},
		"a serial port, a token":  {present, rig.TokenNoSSH, flat{"serial.serial0.device": cty.StringVal("/dev/ttyS0")}, []string{"Only root@pam may set serial.serial0.device", "socket"}},
		"a socket by a token":     {present, rig.TokenNoSSH, flat{"serial.serial0.device": cty.StringVal("socket")}, nil},
		"a mapping by a token":    {present, rig.TokenNoSSH, flat{"virtiofs.virtiofs0.dirid": cty.StringVal("share")}, []string{"No permission", "Mapping.Use on /mapping/dir/share"}},
		"all of it by root":       {present, rig.RootTicket, flat{"args": cty.StringVal("-x"), "pci.hostpci0.host": cty.StringVal("01:00.0"), "virtiofs.virtiofs0.dirid": cty.StringVal("share")}, nil},
		"virtiofs on 8.0":         {old, rig.RootTicket, flat{"virtiofs.virtiofs0.dirid": cty.StringVal("share")}, []string{"virtiofs.virtiofs0 needs Proxmox VE 8.4 or later"}},
		"KSM on 8.0":              {old, rig.RootTicket, flat{"memory.allow_ksm": cty.False}, []string{"memory.allow_ksm needs Proxmox VE 9.1 or later"}},
		"the clipboard on 8.0":    {old, rig.RootTicket, flat{"vga.clipboard": cty.StringVal("vnc")}, []string{"vga.clipboard needs Proxmox VE 8.1 or later"}},
		"a virtual IOMMU on 8.0":  {old, rig.RootTicket, flat{"machine_options.viommu": cty.StringVal("virtio")}, []string{"machine_options.viommu needs Proxmox VE 8.2 or later"}},
		"certificates on 9.0":     {middle, rig.RootTicket, enrolled, []string{"efi_disk.ms_cert needs Proxmox VE 9.1 or later (of 8: 8.4.17 or later)"}},
		"certificates on 8.4":     {late, rig.RootTicket, enrolled, nil},
		"certificates on 9.2":     {present, rig.RootTicket, enrolled, nil},
		"confidential VMs on 8.0": {old, rig.RootTicket, flat{"bios": cty.StringVal("ovmf"), "amd_sev.type": cty.StringVal("std")}, []string{"amd_sev needs Proxmox VE 8.3 or later"}},
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
