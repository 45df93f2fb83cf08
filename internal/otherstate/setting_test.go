package otherstate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestSettings: which arguments of a state were set, with their names here, in each form of a state.
func TestSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ typ, state, want string }{
		"defaults": {"proxmox_virtual_environment_vm", `"cpu": [{"cores": 1, "units": 1024, "type": "qemu64"}], "on_boot": true,
			"network_device": [{"model": "virtio", "vlan_id": 0, "trunks": "", "mac_address": "BC:24:11:00:00:01"}], "tags": []`, ""},
		"blocks": {"proxmox_virtual_environment_vm", `"cpu": [{"cores": 2}], "network_device": [{}, {"vlan_id": 20}], "tags": ["a"],
			"disk": [{"interface": "scsi1", "discard": "on", "speed": [{"read": 100}]}], "description": "secret", "on_boot": false`,
			"cpu[0].cores=2>cpu.cores disk[0].discard=on>disks.scsi1.discard disk[0].speed[0].read=100>disks.scsi1.throttle.mbps_rd " +
				"description=>description network_device[1].vlan_id=20>networks.net1.tag on_boot=false>onboot tags=>tags"},
		"cloud-init": {"proxmox_virtual_environment_vm", `"initialization": [{"dns": [{"domain": "lan", "servers": ["a"]}],
			"ip_config": [{}, {"ipv4": [{"address": "10.0.0.1/24"}]}], "user_account": [{"password": "x", "username": "ops"}]}]`,
			"initialization[0].dns[0].domain=lan>cloud_init.searchdomain initialization[0].dns[0].servers=>cloud_init.nameservers " +
				"initialization[0].ip_config[1].ipv4[0].address=10.0.0.1/24>cloud_init.addresses.net1.ipv4 " +
				"initialization[0].user_account[0].username=ops>cloud_init.user"},
		"maps": {"proxmox_cloned_vm", `"cpu": {"cores": 4, "units": null}, "network": {"net2": {"tag": 7}}, "disk": {"scsi0": {"size_gb": 6}}`,
			"cpu.cores=4>cpu.cores disk.scsi0.size_gb=6>disks.scsi0.size network.net2.tag=7>networks.net2.tag"},
		"Telmate's disks": {"proxmox_vm_qemu", `"disks": [{"scsi": [{"scsi0": [{"disk": [{"emulatessd": true, "mbps_r_burst": 2}]}], "scsi1": []}]}],
			"disk": [{"slot": "0", "type": "virtio", "cache": "writeback"}]`,
			"disk[0].cache=writeback>disks.virtio0.cache disks[0].scsi[0].scsi0[0].disk[0].emulatessd=true>disks.scsi0.ssd " +
				"disks[0].scsi[0].scsi0[0].disk[0].mbps_r_burst=2>disks.scsi0.throttle.mbps_rd_max"},
		"Telmate's devices": {"proxmox_vm_qemu", `"network": [{"id": 3, "tag": 20}, {"tag": -1}], "pcis": [{"pci1": [{"mapping": [{"mapping_id": "gpu"}]}]}],
			"memory": 2048, "vm_state": "running", "startup_shutdown": [{"order": -1}], "description": "Managed by Terraform."`,
			"memory=2048>memory.size network[0].tag=20>networks.net3.tag pcis[0].pci1[0].mapping[0].mapping_id=gpu>pci.hostpci1.mapping"},
		"Telmate's disk by default": {"proxmox_vm_qemu", `"disks": [{"scsi": [{"scsi0": [{"disk": [{"replicate": false, "backup": true}]}]}]}],
			"disk": [{"slot": "scsi1", "replicate": true}, {"slot": "0", "type": "ide", "replicate": 0}]`, ""},
		"kept stopped by bpg":     {"proxmox_virtual_environment_vm", `"started": false`, "started=false>power_state"},
		"a template of bpg":       {"proxmox_virtual_environment_vm", `"started": false, "template": true`, "template=true>template"},
		"kept stopped by Telmate": {"proxmox_vm_qemu", `"vm_state": "stopped", "power_state": null`, "vm_state=stopped>power_state"},
		"of another form":         {"proxmox_vm_qemu", `"network": "x", "memory": {"size": 1}, "disk": [[]]`, ""},
	} {
		got, err := Read("p", c.typ, []byte(`{"id": "a/qemu/101", "vm_id": 101, "node_name": "a", `+c.state+`}`))
		var lines []string
		for _, s := range got.Settings {
			lines = append(lines, fmt.Sprintf("%s=%s>%s", s.Theirs, s.Value, s.Ours))
		}
		slices.Sort(lines)
		want := strings.Fields(c.want)
		slices.Sort(want)
		if err != nil || !slices.Equal(lines, want) {
			t.Errorf("%s: %v\n got %v\nwant %v", name, err, lines, want)
		}
	}
}

func TestRenamed(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{{"networks.*", "vlan_id", "tag"}, {"memory", "dedicated", "size"}, {"disks.*", "emulatessd", "ssd"},
		{"disks.*", "datastore_id", "storage"}, {"networks.*", "nothing", ""}, {"cpu", "vlan_id", ""}} {
		if got := Renamed(c[0], c[1]); got != c[2] {
			t.Errorf("%v: %q", c, got)
		}
	}
}
