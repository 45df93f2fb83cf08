package vm

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/validation"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

func throttled(limits vm.Throttle) model.Disk {
	return model.Disk{Storage: new("a"), Size: new("1G"), Throttle: &limits}
}

func size(s string) model.Disk { return model.Disk{Storage: new("local-zfs"), Size: new(s)} }

func TestValidateConfig(t *testing.T) {
	type disks = map[string]model.Disk
	clone, unsuited := &model.Clone{VMID: new(int64(9000))}, model.Disk{Storage: new("a"), Size: new("1G"), DiskOptions: vm.DiskOptions{SSD: new(false)}}
	for name, tt := range map[string]struct {
		config model.Model
		open   []string // attributes that are not known yet
		want   string   // the attribute, a colon and words of the text; empty: accepted
	}{
		"nothing":                  {},
		"a disk":                   {config: model.Model{Disks: disks{"scsi0": size("1G")}}},
		"no size":                  {config: model.Model{Disks: disks{"scsi0": {Storage: new("a")}}}, want: `disks["scsi0"].size: imported_disk = { volume = … } for one that is there`},
		"no size but an image":     {config: model.Model{Disks: disks{"scsi0": {Storage: new("a"), ImportFrom: new("local:import/x.qcow2")}}}},
		"no size but a clone":      {config: model.Model{Clone: clone, Disks: disks{"scsi0": {}}}},
		"a size that is not known": {config: model.Model{Disks: disks{"scsi0": size("1G")}}, open: []string{"disks.scsi0.size"}},
		"no storage": {config: model.Model{Disks: disks{"scsi0": {Size: new("1G")}}},
			want: `disks["scsi0"].storage: needs a storage`},
		"an image on a clone, no place": {config: model.Model{Clone: clone, Disks: disks{"scsi1": {ImportFrom: new("local:import/x.qcow2")}}},
			want: `disks["scsi1"].storage: needs a storage`},
		"HA off and running": {config: model.Model{PowerState: new("running"), HA: &guest.HA{State: new("disabled")}},
			want: `power_state: keep the VM off`},
		"HA on and stopped":    {config: model.Model{PowerState: new("stopped"), HA: &guest.HA{}}, want: `power_state: keep the VM running`},
		"HA that is not known": {config: model.Model{PowerState: new("stopped"), HA: &guest.HA{}}, open: []string{"ha.state"}},
		"a group's action in a rule": {config: model.Model{Firewall: &firewall.Settings{Rules: []firewall.Rule{{Type: new("in"),
			Action: new("web")}}}}, want: `firewall.rules[0].action: ACCEPT, DROP or REJECT, not web`},
		"a rule that names a group": {config: model.Model{Firewall: &firewall.Settings{Rules: []firewall.Rule{{Type: new("group"),
			Action: new("web")}}}}},
		"ports without a protocol": {config: model.Model{Firewall: &firewall.Settings{Rules: []firewall.Rule{{Type: new("in"),
			Action: new("DROP"), DPort: new("80")}}}}, want: `firewall.rules[0].dport: dport needs a protocol`},
		"two sources": {config: model.Model{Clone: &model.Clone{VMID: new(int64(9000)), Name: new("t")}},
			want: `clone.name: exactly one source, but vmid and name`},
		"no source":                  {config: model.Model{Clone: &model.Clone{Full: new(true)}}, want: `clone: needs a source`},
		"a source that is not known": {config: model.Model{Clone: &model.Clone{Full: new(true)}}, open: []string{"clone.vmid"}},
		"a linked clone elsewhere": {config: model.Model{Clone: &model.Clone{VMID: new(int64(9000)), Full: new(false), Storage: new("x")}},
			want: `clone.storage: linked clone`},
		"ssd on virtio": {config: model.Model{Disks: disks{"virtio0": {Storage: new("a"), Size: new("1G"),
			DiskOptions: vm.DiskOptions{SSD: new(true)}}}}, want: `disks["virtio0"].ssd: solid-state`},
		"no ssd on virtio": {config: model.Model{Disks: disks{"virtio0": unsuited}}, want: `disks["virtio0"].ssd: write null, for false too`},
		"iothread on sata": {config: model.Model{Disks: disks{"sata0": {Storage: new("a"), Size: new("1G"),
			DiskOptions: vm.DiskOptions{IOThread: new(true)}}}}, want: `disks["sata0"].iothread: only for scsi and virtio`},
		"EFI disk without firmware": {config: model.Model{EFIDisk: &model.EFIDisk{Storage: new("a")}}, want: `efi_disk: ovmf`},
		"EFI disk with it":          {config: model.Model{Options: vm.Options{BIOS: new("ovmf")}, EFIDisk: &model.EFIDisk{Storage: new("a")}}},
		"EFI disk without storage": {config: model.Model{Options: vm.Options{BIOS: new("ovmf")},
			EFIDisk: &model.EFIDisk{EFIOptions: vm.EFIOptions{Type: new("4m")}}}, want: `efi_disk.storage: needs a storage`},
		"TPM without storage": {config: model.Model{TPMState: &model.TPMState{}}, want: `tpm_state.storage: needs a storage`},
		"cloud-init without storage": {config: model.Model{CloudInit: &model.CloudInit{CloudInitOptions: vm.CloudInitOptions{User: new("ops")}}},
			want: `cloud_init.storage: needs a storage`},
		"cloud-init of a template": {config: model.Model{Clone: clone,
			CloudInit: &model.CloudInit{CloudInitOptions: vm.CloudInitOptions{User: new("ops")}}}},
		"an address without its NIC": {config: model.Model{Networks: map[string]model.NIC{"net0": {}},
			CloudInit: addresses("net1", vm.Address{IPv4: new("dhcp")})}, want: `cloud_init.addresses["net1"]: no network device net1`},
		"an address, NICs not known": {config: model.Model{Networks: map[string]model.NIC{"net0": {}},
			CloudInit: addresses("net1", vm.Address{IPv4: new("dhcp")})}, open: []string{"networks"}},
		"an address, NICs the template's": {config: model.Model{Clone: clone, CloudInit: addresses("net1", vm.Address{IPv4: new("dhcp")})}},
		"a gateway with dhcp": {config: model.Model{CloudInit: addresses("net0",
			vm.Address{IPv4: new("dhcp"), Gateway4: new("10.0.0.1")})}, want: `cloud_init.addresses["net0"].gateway4: fixed address`},
		"a gateway alone": {config: model.Model{CloudInit: addresses("net0", vm.Address{Gateway6: new("fe80::1")})},
			want: `cloud_init.addresses["net0"].gateway6: fixed address`},
		"a slot twice": {config: model.Model{Disks: disks{"ide0": size("1G")},
			CDROMs: map[string]model.CDROM{"ide0": {File: new("none")}}}, want: `cdroms["ide0"]: used twice`},
		"the cloud-init slot twice": {config: model.Model{CDROMs: map[string]model.CDROM{"ide2": {File: new("none")}},
			CloudInit: &model.CloudInit{Storage: new("a")}}, want: `cloud_init.slot: used twice`},
		"a PCI device by no name": {config: model.Model{PCI: map[string]vm.PCI{"hostpci0": {}}}, want: `pci["hostpci0"]: names no device`},
		"a PCI device by two names": {config: model.Model{PCI: map[string]vm.PCI{"hostpci0": {Mapping: new("gpu"), Host: new("01:00.0")}}},
			want: `pci["hostpci0"].host: either mapping or host`},
		"PCI Express without q35": {config: model.Model{PCI: map[string]vm.PCI{"hostpci0": {Mapping: new("gpu"), PCIe: new(true)}}},
			want: `pci["hostpci0"].pcie: needs machine = "q35"`},
		"PCI Express with q35": {config: model.Model{Options: vm.Options{Machine: new("q35")},
			PCI: map[string]vm.PCI{"hostpci0": {Mapping: new("gpu"), PCIe: new(true)}}}},
		"PCI Express, machine unknown": {config: model.Model{Options: vm.Options{Machine: new("q35")},
			PCI: map[string]vm.PCI{"hostpci0": {Mapping: new("gpu"), PCIe: new(true)}}}, open: []string{"machine"}},
		"a USB device by no name": {config: model.Model{USB: map[string]vm.USB{"usb0": {USB3: new(true)}}},
			want: `usb["usb0"]: names no device`},
		"a sound card of no kind":    {config: model.Model{Audio: &vm.Audio{Driver: new("none")}}, want: `audio.device: needs a device`},
		"a console without its port": {config: model.Model{VGA: &vm.VGA{Type: new("serial0")}}, want: `vga.type: no serial port serial0`},
		"a console with its port": {config: model.Model{VGA: &vm.VGA{Type: new("serial0")},
			Serial: map[string]model.Port{"serial0": {Device: new("socket")}}}},
		"two kinds of limits": {config: model.Model{Disks: disks{"scsi0": throttled(vm.Throttle{MBps: new(1.0), MBpsRead: new(1.0)})}},
			want: `disks["scsi0"].throttle.mbps_rd: limits both directions already`},
		"a burst without a limit": {config: model.Model{Disks: disks{"scsi0": throttled(vm.Throttle{IOPSMax: new(int64(9))})}},
			want: `disks["scsi0"].throttle.iops_max: needs iops`},
		"a length without a burst": {config: model.Model{Disks: disks{"scsi0": throttled(vm.Throttle{IOPS: new(int64(9)),
			IOPSMaxLength: new(int64(9))})}}, want: `disks["scsi0"].throttle.iops_max_length: needs iops_max`},
		"a model on scsi": {config: model.Model{Disks: disks{"scsi0": {Storage: new("a"), Size: new("1G"),
			DiskOptions: vm.DiskOptions{Model: new("x")}}}}, want: `disks["scsi0"].model: only for ide`},
		"NUMA nodes of another size": {config: model.Model{CPU: &vm.CPU{NUMA: new(true)}, Memory: &vm.Memory{Size: new(int64(1024))},
			NUMANodes: map[string]vm.NUMANode{"numa0": {CPUs: new("0"), Memory: new(int64(512))}}}, want: `numa_nodes: the two must be equal`},
		"a NUMA node without memory": {config: model.Model{CPU: &vm.CPU{NUMA: new(true)}, NUMANodes: map[string]vm.NUMANode{"numa0": {CPUs: new("0")}}},
			want: `numa_nodes["numa0"].memory: each NUMA node has memory`},
		"host nodes without a policy": {config: model.Model{NUMANodes: map[string]vm.NUMANode{"numa0": {CPUs: new("0"), HostNodes: new("0")}}},
			want: `numa_nodes["numa0"].policy: needs a policy`},
		"huge pages without NUMA": {config: model.Model{Memory: &vm.Memory{Hugepages: new("any")}},
			want: `memory.hugepages: need cpu.numa = true`},
		"more processors than there are": {config: model.Model{CPU: &vm.CPU{Cores: new(int64(2)), VCPUs: new(int64(3))}},
			want: `cpu.vcpus: only 2 processors`},
		"an IOMMU without q35": {config: model.Model{MachineOptions: &vm.MachineOptions{VIOMMU: new("intel")}},
			want: `machine_options.viommu: only for machine = "q35"`},
		"SMBIOS texts that are too long": {config: model.Model{SMBIOS: &vm.SMBIOS{Product: new(strings.Repeat("x y", 90)),
			Family: new(strings.Repeat("x y", 90))}}, want: `smbios.family: too long`},
		"a balloon above the memory": {config: model.Model{Memory: &vm.Memory{Size: new(int64(512)), Balloon: new(int64(1024))}},
			want: `memory.balloon: larger than the memory`},
	} {
		t.Run(name, func(t *testing.T) {
			v := model.SchemaValues()
			raw := rawOf(t, v, tt.config)
			open := map[string]bool{}
			for _, dotted := range tt.open {
				open[dotted] = true
			}
			raw = plan.Edit(raw, open, nil)
			var resp resource.ValidateConfigResponse
			(&Resource{}).ValidateConfig(context.Background(), resource.ValidateConfigRequest{Config: tfsdk.Config{Raw: raw, Schema: v.Schema}},
				&resp)
			if c := (&validation.Validation{Configuration: model.Configuration{Raw: raw}}); !c.Copies() { // the plan does, which knows the provider's defaults
				c.Storages()
				resp.Diagnostics.Append(c.Diags...)
			}
			expect(t, resp.Diagnostics, tt.want)
		})
	}
}

func addresses(nic string, a vm.Address) *model.CloudInit {
	return &model.CloudInit{Storage: new("a"), CloudInitOptions: vm.CloudInitOptions{Addresses: map[string]vm.Address{nic: a}}}
}

// expect wants exactly one diagnostic, on an attribute and with some words; or none.
func expect(t *testing.T, diags diag.Diagnostics, want string) {
	t.Helper()
	if want == "" {
		if len(diags) > 0 {
			t.Errorf("refused: %v", diags)
		}
		return
	}
	at, words, _ := strings.Cut(want, ": ")
	if len(diags) != 1 {
		t.Fatalf("%d diagnostics, want one: %v", len(diags), diags)
	}
	where := ""
	if located, ok := diags[0].(diag.DiagnosticWithPath); ok {
		where = located.Path().String()
	}
	if where != at || !strings.Contains(diags[0].Detail(), words) {
		t.Errorf("%q: %s\nwant %q: … %s …", where, diags[0].Detail(), at, words)
	}
}

func TestBootOrderOfANewVM(t *testing.T) {
	v := model.SchemaValues()
	for name, tt := range map[string]struct {
		config model.Model
		want   string
	}{
		"devices that exist": {config: model.Model{Disks: map[string]model.Disk{"scsi0": size("1G")}, Networks: map[string]model.NIC{"net0": {}},
			CloudInit: &model.CloudInit{Storage: new("a")}, Options: vm.Options{BootOrder: []string{"scsi0", "net0", "ide2"}}}},
		"one that does not": {config: model.Model{Disks: map[string]model.Disk{"scsi0": size("1G")},
			Options: vm.Options{BootOrder: []string{"scsi1"}}}, want: "boot_order: no device scsi1"},
		"the template's device": {config: model.Model{Clone: &model.Clone{VMID: new(int64(9000))}, Options: vm.Options{BootOrder: []string{"scsi1"}}}},
		"nothing to boot from":  {config: model.Model{Options: vm.Options{BootOrder: []string{}}}},
	} {
		c := &validation.Validation{Configuration: model.Configuration{Raw: rawOf(t, v, tt.config)}}
		c.NewVM()
		t.Run(name, func(t *testing.T) { expect(t, c.Diags, tt.want) })
	}
}
