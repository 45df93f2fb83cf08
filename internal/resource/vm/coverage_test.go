package vm

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/planning"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/vmschema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// otherNames are the options and sub-keys of PVE whose attribute is called otherwise. Without an attribute stands why.
func otherNames() map[string]string {
	return map[string]string{
		"machine.type": "machine", "memory.current": "memory.size", "cpu.cputype": "cpu.type", "boot.order": "boot_order",
		"boot.legacy": "boot_order", "bootdisk": "boot_order",
		"efidisk0.file": "efi_disk.storage", "efidisk0.efitype": "efi_disk.type", "efidisk0.size": "", // PVE decides
		"tpmstate0.file": "tpm_state.storage", "tpmstate0.size": "", // PVE decides
		"ipconfig[n].ip": "cloud_init.addresses.*.ipv4", "ipconfig[n].gw": "cloud_init.addresses.*.gateway4",
		"ipconfig[n].ip6": "cloud_init.addresses.*.ipv6", "ipconfig[n].gw6": "cloud_init.addresses.*.gateway6",
		"serial[n]": "serial.*.device", "parallel[n]": "parallel.*.device",
		"smbios1.base64":  "", // the spelling of the texts, which the codec chooses
		"agent.freeze-fs": "agent.freeze_fs_on_backup", "agent.guest-fsfreeze": "agent.freeze_fs_on_backup",
	}
}

// driveNames are the sub-keys of all buses whose attribute is called otherwise.
func driveNames() map[string]string {
	return map[string]string{
		"file": "disks.*.storage", "media": "cdroms.*.file",
		"bps_max_length": "disks.*.throttle.mbps_max_length", "bps_rd_max_length": "disks.*.throttle.mbps_rd_max_length",
		"bps_wr_max_length": "disks.*.throttle.mbps_wr_max_length",
		"bps_rd_length":     "disks.*.throttle.mbps_rd_max_length", "bps_wr_length": "disks.*.throttle.mbps_wr_max_length",
		"iops_rd_length": "disks.*.throttle.iops_rd_max_length", "iops_wr_length": "disks.*.throttle.iops_wr_max_length",
	}
}

// attributeFor is the attribute that expresses an option or a sub-key; "" and true: none is needed.
func attributeFor(option string) (string, bool) {
	if name, ok := otherNames()[option]; ok {
		return name, true
	}
	option, key, nested := strings.Cut(option, ".")
	if models := "e1000 e1000-82540em e1000-82544gc e1000-82545em e1000e " +
		"i82551 i82557b i82559er ne2k_isa ne2k_pci pcnet rtl8139 virtio vmxnet3"; option == "net[n]" &&
		slices.Contains(strings.Fields(models), key) {
		return "networks.*.macaddr", true // "virtio=BC:24:…"
	}
	key = strings.ReplaceAll(key, "-", "_")
	family, slotted := strings.CutSuffix(option, "[n]")
	base, known := model.AttributeOf(option)
	switch isDrive := model.IsDisk(family); {
	case slotted && isDrive:
		base, known = "disks.*", true
		if name, ok := driveNames()[strings.ReplaceAll(key, "-", "_")]; ok {
			return name, true
		}
		if strings.HasPrefix(key, "mbps") || strings.HasPrefix(key, "iops") {
			base = "disks.*.throttle"
		}
	case slotted:
		var a vm.Attribute
		a, known = vm.AttributeOf(family + "0")
		base = a.Path
	case option == "machine" && nested:
		base = "machine_options"
	}
	if nested {
		base += "." + key
	}
	return strings.TrimSuffix(base, ".*"), known
}

// expressedOptions are the options and sub-keys that package vm expresses. Its tests keep the list.
func expressedOptions(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile("../../vm/testdata/options.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(raw))
}

// documentedArguments are the attributes behind the parameters of the API that are no options of a VM, by the table in
// docs/design/values.md. The tests of package vm hold it to the API.
func documentedArguments(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("../../../docs/design/values.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "| parameter | attribute | what it is |")
	attributes := map[string]string{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "`"); strings.HasPrefix(line, "| `") && len(cells) > 4 && cells[2] == " | " {
			attributes[cells[1]] = cells[3]
		}
	}
	if len(attributes) < 7 {
		t.Fatalf("the table has %d parameters with an attribute: it is not what it was", len(attributes))
	}
	return attributes
}

// TestCoverage: what the codec expresses can be configured.
func TestCoverage(t *testing.T) {
	ctx := context.Background()
	attributes := plan.NewShape(ctx, vmschema.New(ctx), nil).Rules()
	options, missing := expressedOptions(t), 0
	for _, option := range options {
		path, ok := attributeFor(option)
		if !ok || path != "" && !attributes[path] {
			missing++
			t.Errorf("no attribute expresses %s (looked for %q)", option, path)
		}
	}
	for name, at := range documentedArguments(t) {
		if path := strings.TrimSuffix(at, ".*"); !attributes[path] {
			t.Errorf("no attribute %s expresses the argument %s", path, name)
		}
	}
	t.Logf("%d options and sub-keys of PVE: %d have an attribute, %d have none", len(options), len(options)-missing, missing)
}

// rootOnly lists the options and sub-keys that PVE lets only root@pam set, never a token (qemu-server API2/Qemu.pm
// check_vm_modify_config_perm). serial[n] and usb[n].host are free for the values "socket" and "spice".
func rootOnly() []string {
	return []string{
		"affinity", "amd-sev", "arch", "args", "hookscript", "hostpci[n].host", "hostpci[n].romfile", "hugepages",
		"intel-tdx", "ivshmem", "keephugepages", "parallel[n]", "serial[n]", "spice_enhancements", "usb[n].host", "vmgenid",
	}
}

// TestRestrictionsNameAttributes: the table and the codec's agree, and every path of it exists.
func TestRestrictionsNameAttributes(t *testing.T) {
	ctx := context.Background()
	attributes := plan.NewShape(ctx, vmschema.New(ctx), nil).Rules()
	root := map[string]bool{}
	for _, r := range planning.Restrictions() {
		if !attributes[strings.TrimSuffix(r.At, ".*")] {
			t.Errorf("there is no attribute %s to restrict", r.At)
		}
		if r.Root.Instead != "" {
			root[strings.TrimSuffix(r.At, ".*")] = true
		}
	}
	expressed := expressedOptions(t)
	for _, option := range rootOnly() {
		if !slices.Contains(expressed, option) {
			t.Errorf("%s is for root only and not expressed", option)
		}
		path, _ := attributeFor(option)
		group, _, _ := strings.Cut(path, ".")
		if !root[path] && !root[group] {
			t.Errorf("only root may set %s, and %s is not restricted", option, path)
		}
	}
}

// TestSlotMapsHaveAFamily: every map by slot is one of PVE's rows of slots.
func TestSlotMapsHaveAFamily(t *testing.T) {
	for _, a := range vm.Attributes() {
		if at, slotted := strings.CutSuffix(a.Path, ".*"); slotted && !strings.Contains(at, ".") && !model.IsBySlot(at) {
			t.Errorf("%s is no map by slot", at)
		}
	}
}
