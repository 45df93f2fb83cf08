package vm

import "testing"

// BenchmarkDiff is the work of one update: two Specs printed and compared.
func BenchmarkDiff(b *testing.B) {
	config := map[string]string{
		"name": "web", "memory": "2048", "cores": "4", "cpu": "host,flags=+aes", "scsi0": "a1:vm-100-disk-0,iops=100,size=32G,ssd=1",
		"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "ide2": "a1:vm-100-cloudinit,media=cdrom",
		"smbios1":  "uuid=6f4fa7b2-f022-48c4-8346-876f8d66b359",
		"hostpci0": "mapping=gpu,pcie=1", "vga": "std", "boot": "order=scsi0;net0", "ipconfig0": "ip=dhcp",
	}
	for b.Loop() {
		s := Decode(config)
		if c := Diff(s, s); !c.Empty() {
			b.Fatal(c)
		}
	}
}
