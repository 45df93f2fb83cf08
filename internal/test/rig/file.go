package rig

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// CloudInitISOBlock is a disc whose user data is one line, and discWithVM the same with a VM that has it in a drive.
func CloudInitISOBlock(line string) string {
	return fmt.Sprintf("resource \"proxmox_cloud_init_iso\" \"web\" {\n  node = \"pve1\"\n  storage = \"local\"\n  name = \"web-1\"\n"+
		"  user_data = \"#cloud-config\\n%s\\n\"\n}\n", line)
}

// CloudInitISOs are the discs of this test on the storage.
func CloudInitISOs(w *World) (names []string) {
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if strings.HasPrefix(v.Name, "iso/web-1-") {
				names = append(names, v.Name)
			}
		}
	})
	return names
}

// SnippetBlock is a snippet on the second node, so that a mistake about nodes shows.
func SnippetBlock(content string, lines ...string) string {
	return fmt.Sprintf("resource \"proxmox_snippet\" \"web\" {\n  node = \"pve2\"\n  storage = \"local\"\n  name = \"web.yaml\"\n  content = %q\n  %s\n}\n",
		content, strings.Join(lines, "\n  "))
}

// SnippetsLeft are files of nodes that the snippet's writes have left, hidden ones too.
func SnippetsLeft(w *World) (left []string) {
	w.Change(func(world *state.World) {
		for _, n := range world.Nodes {
			for name := range n.Files {
				if strings.Contains(name, "web.yaml") {
					left = append(left, n.Name+":"+name)
				}
			}
			if world.Volume(n.Name, "local:snippets/web.yaml") != nil {
				left = append(left, n.Name+":web.yaml")
			}
		}
	})
	return left
}

// OVA is an OVA with one disk of 64 KiB.
func OVA() []byte {
	const described = `<Envelope xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"><References><File ovf:id="f" ovf:href="disk1.vmdk"/>` +
		`</References></Envelope>`
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range map[string]string{"a.ovf": described, "disk1.vmdk": "KDMV" + strings.Repeat("\x00", 1<<16-4)} {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}) // into memory
		_, _ = w.Write([]byte(text))
	}
	_ = w.Close()
	return b.Bytes()
}

// FromISO is a VM with two disks that are made of a file which PVE takes by its path only, and one that is not.
func FromISO() Scenario {
	iso := func(storage string) vm.Disk {
		return vm.Disk{Storage: storage, Size: Pointer(int64(4 << 30)), ImportFrom: Pointer("local:iso/debian.iso"), DiskOptions: vm.DiskOptions{Discard: Pointer(true)}}
	}
	return Scenario{Name: "from an ISO file", VMID: 101, Request: create.Request{Node: "pve1", Start: true, Spec: vm.Spec{
		Options: vm.Options{Name: Pointer("web-1"), Description: Pointer("web server"), Protection: Pointer(true)},
		Disks: map[string]vm.Disk{"scsi0": iso("local-zfs"), "scsi1": {Storage: "local-lvm", Size: Pointer(int64(2 << 30))},
			"scsi2": iso("local2")},
		Networks: map[string]vm.NIC{"net0": {Model: "virtio", NICOptions: vm.NICOptions{Bridge: Pointer("vmbr0")}}},
	}}}
}
