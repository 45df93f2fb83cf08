package vm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// FuzzDecode: Decode takes anything, and understands its own understanding again.
func FuzzDecode(f *testing.F) {
	for _, seed := range [][2]string{
		{"scsi0", "local-zfs:vm-100-disk-0,discard=on,size=32G"}, {"ide2", "local-zfs:cloudinit"}, {"scsi1", "a1:10.5,format=qcow2"},
		{"scsi1", "local:0,import-from=local:import/x.qcow2"}, {"net0", "model=e1000,macaddr=BC:24:11:00:00:01"}, {"net1", "virtio"},
		{"ide0", "none,media=cdrom"}, {"efidisk0", "a1:1,efitype=4m"}, {"tpmstate0", "volume=a1:vm-1-disk-0,version=v2.0"},
		{"cpu", "flags=+aes;-pcid"}, {"memory", "current=2048"}, {"boot", " "}, {"boot", "order=a;b"}, {"tags", "B,a  c"},
		{"sshkeys", "a%0Ab%zz"}, {"ipconfig0", "ip=dhcp,gw6=x"}, {"agent", "type=isa"}, {"cpulimit", "1.50"}, {"description", "x \n"},
		{"scsi0", "none"}, {"scsi0", "file=a=b,size=1T"}, {"machine", "type=q35,viommu=intel"}, {"cicustom", "user=a"}, {"smbios1", ""},
		{"smbios1", "base64=1,serial=QQ==,uuid=x"}, {"smbios1", "serial=a b"}, {"hotplug", "1"}, {"hotplug", "usb,,disk"},
		{"vga", "std,memory=x"},
		{"hostpci0", "01:00;02:00,pcie=1"}, {"usb13", "SPICE"}, {"numa7", "cpus=0;2-3,memory=1.5"}, {"startup", "1,up=5"}, {"serial0", " "},
		{"scsi0", "a1:vm-1-disk-0,iops_rd_length=5,iops_rd_max_length=6"}, {"agent", "1,freeze-fs=0"}, {"virtiofs0", "x,expose-acl=yes"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		config := map[string]string{key: value}
		s := Decode(config)
		again := Decode(Encode(s))
		if d := cmp.Diff(s, again, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%q=%q (-once +twice):\n%s", key, value, d)
		}
		if raw, ok := s.Rest[key]; ok && raw != value {
			t.Errorf("%q=%q became %q in Rest", key, value, raw)
		}
		if c := Diff(s, s); !c.Empty() {
			t.Errorf("%q=%q: Diff(s, s) = %+v", key, value, c)
		}
		UUID(config)
		CTime(config)
		volid.Owner(value)
		volid.Valid(value)
	})
}

// FuzzProperties: what parses prints to something that parses to the same.
func FuzzProperties(f *testing.F) {
	for _, seed := range []string{"a,b=c", "file=x=y", ",,a", "a=1,a=2", "=x", "x=", "a,b", " ,a=b"} {
		f.Add(seed, "file")
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, value, defaultKey string) {
		properties, ok := property.Parse(value, defaultKey)
		if !ok {
			return
		}
		again, ok := property.Parse(property.Print(properties, defaultKey), defaultKey)
		if d := cmp.Diff(properties, again); !ok || d != "" {
			t.Errorf("%q, default %q: %t\n%s", value, defaultKey, ok, d)
		}
	})
}

// FuzzParseSize: a size that parses prints to something of the same size.
func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"32G", "10.5G", "528K", "1TiB", "0", "1.5", "iB", "9999999999T", "1e3", ".5G", "0.1K"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bytes, err := property.ParseSize(text)
		if err != nil {
			return
		}
		if again, err := property.ParseSize(property.FormatSize(bytes)); err != nil || again != bytes {
			t.Errorf("%q is %d, printed %q, read %d, %v", text, bytes, property.FormatSize(bytes), again, err)
		}
	})
}
