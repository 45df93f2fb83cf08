package otherstate

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	bpg     = "registry.terraform.io/bpg/proxmox"
	telmate = "registry.opentofu.org/telmate/proxmox"
)

func TestMoveStateReadsWhatNoServerTells(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		provider, typ, state string
		want                 VM
	}{
		"of bpg, all defaults": {bpg, "proxmox_virtual_environment_vm", `{"id": "101", "vm_id": 101, "node_name": "pve1", "name": "",
			"clone": [], "started": true, "stop_on_destroy": false, "purge_on_destroy": true, "reboot_after_update": true,
			"timeout_clone": 1800, "timeout_create": 1800, "timeout_shutdown_vm": 1800, "smbios": [], "disk": [], "mac_addresses": []}`,
			VM{VMID: 101, Node: "pve1", Slots: []string{}, Images: map[string]string{}}},
		"of bpg, nothing by default": {bpg, "proxmox_virtual_environment_vm", `{"id": "101", "node_name": "pve1", "name": "web",
			"clone": [{"vm_id": 9000, "full": false, "node_name": "pve2", "datastore_id": "", "retries": 1}], "started": false,
			"stop_on_destroy": true, "purge_on_destroy": false, "reboot_after_update": false, "timeout_clone": 600, "timeout_create": 1800,
			"timeout_migrate": 3600, "timeout_shutdown_vm": 90, "smbios": [{"uuid": "ABCDEF00-0000-4000-8000-000000000001"}],
			"disk": [{"interface": "scsi0", "import_from": "local:import/a.qcow2", "file_id": ""},
				{"interface": "scsi1", "file_id": "local:import/b.qcow2"}, {"interface": "scsi2", "file_id": "local:iso/c.img"}],
			"mac_addresses": ["bc:24:11:00:00:01", "00:00:00:00:00:00"], "network_device": [{"mac_address": "BC:24:11:00:00:01"}]}`,
			VM{VMID: 101, Node: "pve1", UUID: "abcdef00-0000-4000-8000-000000000001", Name: "web",
				MACs: []string{"BC:24:11:00:00:01"}, Slots: []string{"net0", "scsi0", "scsi1", "scsi2"},
				Clone:  &Clone{VMID: 9000, Source: 9000, Node: "pve2"},
				Images: map[string]string{"scsi0": "local:import/a.qcow2", "scsi1": "local:import/b.qcow2"}, Stopped: true,
				NoReboot:  true,
				OnDestroy: OnDestroy{Force: true, Timeout: 90 * time.Second, KeepReferences: true},
				Timeouts:  Timeouts{Create: "10m0s", Update: "1h0m0s"}}},
		"a template of bpg does not run": {bpg, "proxmox_virtual_environment_vm",
			`{"vm_id": 101, "node_name": "pve1", "template": true, "started": false}`,
			VM{VMID: 101, Node: "pve1", Slots: []string{}, Images: map[string]string{}}},
		"of bpg, the new one": {bpg, "proxmox_vm", `{"id": 102, "node_name": "pve2", "name": "db", "timeouts": {"create": "5m", "read": null},
			"stop_on_destroy": true, "purge_on_destroy": true, "vga": null}`,
			VM{VMID: 102, Node: "pve2", Name: "db", Slots: []string{}, Images: map[string]string{},
				OnDestroy: OnDestroy{Force: true}, Timeouts: Timeouts{Create: "5m"}}},
		"of bpg, the clone": {bpg, "proxmox_cloned_vm", `{"id": 103, "node_name": "pve1", "started": true, "clone": {"source_vm_id": 9000,
			"source_node_name": "pve2", "full": true, "target_datastore": "local-zfs", "target_format": null, "snapshot_name": "s",
			"bandwidth_limit": 1024, "retries": 3}, "network": {"net0": {"mac_address": "BC:24:11:00:00:03"}},
			"disk": {"scsi1": {"import_from": "local:import/a.qcow2"}, "scsi0": {"import_from": null}}, "timeouts": null}`,
			VM{VMID: 103, Node: "pve1", MACs: []string{"BC:24:11:00:00:03"}, Slots: []string{"net0", "scsi0", "scsi1"},
				Images: map[string]string{"scsi1": "local:import/a.qcow2"},
				Clone: &Clone{VMID: 9000, Source: 9000, Node: "pve2", Full: true, Storage: "local-zfs", Snapshot: "s",
					BWLimit: 1024}}},
		"of Telmate": {telmate, "proxmox_vm_qemu", `{"id": "pve2/qemu/104", "vmid": 104, "target_node": "pve1", "current_node": "pve2", "name": "app",
			"clone": "template", "clone_id": null, "full_clone": true, "linked_vmid": 0, "power_state": "running", "vm_state": null,
			"automatic_reboot": true, "target_nodes": null, "network": [{"id": 0, "macaddr": "bc:24:11:00:00:04"}],
			"smbios": [{"uuid": "ABCDEF00-0000-4000-8000-000000000004"}], "timeouts": null}`,
			VM{VMID: 104, Node: "pve2", Name: "app", UUID: "abcdef00-0000-4000-8000-000000000004",
				MACs: []string{"BC:24:11:00:00:04"}, Slots: []string{"net0"},
				Clone: &Clone{Name: "template", Full: true}}},
		"of Telmate, nothing by default": {telmate, "proxmox_vm_qemu", `{"id": "pve2/qemu/105", "target_nodes": ["pve1", "pve2"], "clone_id": 9000,
			"full_clone": false, "linked_vmid": 9000, "vm_state": "stopped", "automatic_reboot": false, "timeouts": {"create": "1h", "default": null}}`,
			VM{VMID: 105, Node: "pve2", Slots: []string{}, Nodes: []string{"pve1", "pve2"}, Stopped: true, NoReboot: true,
				Timeouts: Timeouts{Create: "1h"},
				Clone:    &Clone{VMID: 9000, Source: 9000}}},
	} {
		got, err := Read(c.provider, c.typ, []byte(c.state))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got.Settings = nil // TestSettings
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, c.want)
		}
	}
}

// TestMoveStateSlots: which devices a state names, in each of the forms that there are.
func TestMoveStateSlots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ provider, typ, devices, want string }{
		{bpg, "proxmox_virtual_environment_vm", `"disk": [{"interface": "virtio0"}, {"interface": "sata1"}], "cdrom": [{"interface": "ide3"}],
			"network_device": [{}, {}], "usb": [{}], "hostpci": [{"device": "hostpci1"}], "serial_device": [{}], "virtiofs": [{}],
			"numa": [{"device": "numa0"}]`, "hostpci1 ide3 net0 net1 sata1 serial0 usb0 virtio0 virtiofs0"},
		{bpg, "proxmox_vm", `"cdrom": {"ide1": {"file_id": "none"}}`, "ide1"},
		{bpg, "proxmox_cloned_vm", `"disk": {"scsi0": {"size_gb": 5}}, "network": {"net3": {}}`, "net3 scsi0"},
		{telmate, "proxmox_vm_qemu", `"disk": [{"slot": "scsi1", "type": "disk"}, {"slot": "ide2", "type": "cloudinit"}, {"slot": "sata0", "type": "ignore"}],
			"network": [{"id": 1}], "serial": [{"id": 0}], "usb": [{"id": 2}], "pci": [{"id": 3}]`, "hostpci3 ide2 net1 scsi1 serial0 usb2"},
		{telmate, "proxmox_vm_qemu", `"disks": [{"ide": [{"ide2": [{"cdrom": [{"iso": "a"}], "ignore": false}]}], "scsi": [{"scsi0": [{"disk": [{}]}],
			"scsi1": [{"passthrough": [{}]}], "scsi2": [{"disk": [], "ignore": true}], "scsi3": []}], "sata": []}], "network": [{}, {}],
			"pcis": [{"pci0": [{"mapping": [{}], "raw": []}], "pci1": []}], "usbs": [{"usb1": [{"device": [{}]}]}]`,
			"hostpci0 ide2 net0 net1 scsi0 scsi1 usb1"},
		{telmate, "proxmox_vm_qemu", `"disk": [{"slot": 3, "type": "scsi"}, {"type": "virtio"}, {"type": "virtio"}]`,
			"scsi3 virtio0 virtio1"},
	} {
		got, err := Read(c.provider, c.typ, []byte(`{"id": "a/qemu/101", "vm_id": 101, "node_name": "a", `+c.devices+`}`))
		if strings.HasPrefix(c.typ, "proxmox_vm_qemu") == (c.provider == bpg) {
			t.Fatalf("%s is not of %s", c.typ, c.provider)
		}
		if text := strings.Join(got.Slots, " "); err != nil || len(got.Odd) > 0 || text != c.want {
			t.Errorf("%s: %q, %v, %v, want %q", c.devices, text, got.Odd, err, c.want)
		}
	}
}

// TestMoveStateOfLaterVersions: what another version writes in another form is named and not guessed at; without id or
// node there is no VM.
func TestMoveStateOfLaterVersions(t *testing.T) {
	t.Parallel()
	got, err := Read(bpg, "proxmox_virtual_environment_vm", []byte(`{"vm_id": "101", "node_name": "pve1", "new": {"a": [1]}, "clone": {"vm_id": 9000},
		"name": ["a"], "started": "perhaps", "disk": "none", "mac_addresses": [{"a": 1}], "smbios": 7, "timeout_create": 1.5}`))
	want := []string{"disk", "mac_addresses", "name", "smbios", "started"}
	if err != nil || got.VMID != 101 || got.Slots != nil || got.Clone == nil || got.Clone.VMID != 9000 ||
		!slices.Equal(got.Odd, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range []struct{ provider, typ, state, says string }{
		{bpg, "proxmox_virtual_environment_vm", `{"node_name": "pve1"}`, "id of the VM, vm_id or id"},
		{bpg, "proxmox_virtual_environment_vm", `{"vm_id": 101}`, "node of VM 101, node_name"},
		{bpg, "proxmox_virtual_environment_vm", `{"vm_id": {"value": 101}, "node_name": "pve1"}`, "id of the VM"},
		{telmate, "proxmox_vm_qemu", `{"id": "101"}`, "id of the VM, vmid or id"},
		{telmate, "proxmox_vm_qemu", `{"vmid": 101}`, "node of VM 101, current_node"},
		{bpg, "proxmox_virtual_environment_vm", `[]`, "cannot be read"},
		{bpg, "proxmox_virtual_environment_vm", ``, "Terraform 0.11"},
		{bpg, "proxmox_virtual_environment_container", `{}`, "does not become a virtual machine: only proxmox_cloned_vm, " +
			"proxmox_virtual_environment_cloned_vm"},
		{telmate, "proxmox_lxc", `{}`, "proxmox_lxc of the provider registry.opentofu.org/telmate/proxmox does not become"},
		{"registry.terraform.io/hashicorp/vsphere", "vsphere_virtual_machine", `{}`, "only proxmox_cloned_vm, " +
			"proxmox_virtual_environment_cloned_vm, "},
	} {
		if got, err := Read(c.provider, c.typ, []byte(c.state)); err == nil || !strings.Contains(err.Error(), c.says) ||
			got.VMID != 0 {
			t.Errorf("%s: %+v, %v, want %q", c.state, got, err, c.says)
		}
	}
}

// FuzzMoveState: whatever a state says, reading it ends, and without an error there is a VM.
func FuzzMoveState(f *testing.F) {
	for _, seed := range []string{`{"vm_id":101,"node_name":"a","clone":[null],"disk":{"scsi0":null}}`,
		`{"id":"a/qemu/1","smbios":[{"uuid":[]}]}`, `null`, `{"vm_id":1e400}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		for typ := range readers() {
			if got, err := Read("", typ, state); err == nil && (got.VMID <= 0 || got.Node == "") {
				t.Errorf("%s of %s: %+v", state, typ, got)
			}
		}
	})
}
