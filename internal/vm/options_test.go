package vm

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestSpellings: pairs of configurations that mean the same decode to the same.
func TestSpellings(t *testing.T) {
	for option, pairs := range map[string][][2]string{
		"hotplug":          {{"1", "network,disk,usb"}, {"usb;disk", "disk,usb"}},
		"startup":          {{"1,up=30", "up=30,order=1"}},
		"vga":              {{"std,memory=32", "memory=32,type=std"}},
		"rng0":             {{"/dev/urandom,period=5", "period=5,source=/dev/urandom"}},
		"watchdog":         {{"i6300esb,action=none", "action=none,model=i6300esb"}},
		"usb0":             {{"spice,usb3=1", "host=spice,usb3=yes"}},
		"hostpci0":         {{"01:00.0,pcie=1", "pcie=on,host=01:00.0"}},
		"virtiofs0":        {{"share,direct-io=1", "dirid=share,direct-io=true"}},
		"amd-sev":          {{"snp,no-debug=1", "no-debug=yes,type=snp"}},
		"machine":          {{"q35,viommu=intel", "viommu=intel,type=q35"}},
		"agent":            {{"1,freeze-fs=0", "1,freeze-fs-on-backup=0"}},
		"scsi0":            {{"a1:vm-1-disk-0,iops_rd_length=5", "a1:vm-1-disk-0,iops_rd_max_length=5"}},
		"migrate_downtime": {{"1.50", "1.5"}},
	} {
		for _, pair := range pairs {
			one, other := Decode(map[string]string{option: pair[0]}), Decode(map[string]string{option: pair[1]})
			if d := cmp.Diff(one, other); d != "" || one.Rest != nil {
				t.Errorf("%s: %q and %q differ:\n%s", option, pair[0], pair[1], d)
			}
		}
	}
}

func TestSMBIOS(t *testing.T) {
	for _, v := range []struct {
		stored, printed string
		want            SMBIOS
	}{
		{"uuid=7D4E83A9", "uuid=7D4E83A9", SMBIOS{UUID: new("7D4E83A9")}},
		{"serial=QQ==,base64=1", "base64=1,serial=QQ==", SMBIOS{Serial: new("A"), Base64: true}},
		{"base64=0,family=abc", "family=abc", SMBIOS{Family: new("abc")}},
		{"base64=1", "", SMBIOS{}},
	} {
		s := Decode(map[string]string{"smbios1": v.stored})
		if d := cmp.Diff(v.want, s.SMBIOS); d != "" || Encode(s)["smbios1"] != v.printed {
			t.Errorf("%s is printed as %s\n%s", v.stored, Encode(s)["smbios1"], d)
		}
	}
	if got := encodeSMBIOS(SMBIOS{Serial: new("a b"), SKU: new("x")}); got != "base64=1,serial=YSBi,sku=eA==" {
		t.Errorf("a text with a blank: %s", got)
	}
	for _, unreadable := range []string{"serial=a b", "base64=1,serial=?", "base64=x", "base64=1,serial=a"} {
		if s := Decode(map[string]string{"smbios1": unreadable}); s.Rest["smbios1"] != unreadable {
			t.Errorf("%s: %+v", unreadable, s.SMBIOS)
		}
	}
}

// TestDiffOfWhatPVEMakes: generated ids, clamped values and spellings are no difference; a value of one's own is.
func TestDiffOfWhatPVEMakes(t *testing.T) {
	const id = "6f4fa7b2-f022-48c4-8346-876f8d66b359"
	server := Decode(map[string]string{
		"smbios1": "uuid=" + id + ",base64=1,serial=QQ==", "vmgenid": id, "cpuunits": "10000", "usb0": "1D6B:0002",
		"hostpci0": "01:00,vendor-id=0xAB12",
		"efidisk0": "a1:vm-100-disk-0,efitype=4m,ms-cert=2023,pre-enrolled-keys=1,size=4M",
		"scsi0":    "a1:vm-100-disk-1,size=1G,wwn=0x1234567890ABCDEF",
	})
	want := Spec{
		SMBIOS: SMBIOS{Serial: new("A")}, Options: Options{VMGenID: new("1")}, CPU: CPU{Units: new(int64(262144))},
		USB: map[string]USB{"usb0": {Host: new("1d6b:0002")}}, PCI: map[string]PCI{"hostpci0": {Host: new("01:00"), VendorID: new("0xab12")}},
		EFIDisk: &EFIDisk{Storage: "a1", EFIOptions: EFIOptions{Type: new("4m"), PreEnrolledKeys: new(true)}},
		Disks:   map[string]Disk{"scsi0": {Storage: "a1", DiskOptions: DiskOptions{WWN: new("0x1234567890abcdef")}}},
	}
	if c := Diff(server, want); !c.Empty() {
		t.Errorf("%+v", c)
	}
	want.SMBIOS.UUID, want.VMGenID, want.CPU.Units = new("d6d8dd5e-4bb1-4a4c-a3c6-57f7d04a8f1a"), new("0"), new(int64(500))
	c := Diff(server, want)
	if d := cmp.Diff(map[string]string{
		"smbios1": "base64=1,serial=QQ==,uuid=d6d8dd5e-4bb1-4a4c-a3c6-57f7d04a8f1a", "vmgenid": "0", "cpuunits": "500",
	}, c.Set); d != "" || len(c.Delete) > 0 {
		t.Errorf("%+v\n%s", c, d)
	}
}

func TestImportsOfEFIAndTPM(t *testing.T) {
	s := Spec{EFIDisk: &EFIDisk{Storage: "a1", EFIOptions: EFIOptions{Type: new("4m"), PreEnrolledKeys: new(true)},
		ImportFrom: new("local:import/vars.raw")},
		TPMState: &TPMState{Storage: "a1", Version: new("v2.0"), ImportFrom: new("b1:vm-9-disk-1")}}
	config := Encode(s)
	if d := cmp.Diff(map[string]string{
		"efidisk0":  "a1:0,efitype=4m,import-from=local:import/vars.raw,pre-enrolled-keys=1",
		"tpmstate0": "a1:0,import-from=b1:vm-9-disk-1,version=v2.0",
	}, config); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(s, Decode(config)); d != "" {
		t.Error(d)
	}
	if !(Change{Set: config}).Allocates() {
		t.Error("an import does not allocate")
	}
}

// TestWithRestKeepsWhatIsNotSaid: a Spec of a narrower model changes what it says and nothing else.
func TestWithRestKeepsWhatIsNotSaid(t *testing.T) {
	server := Decode(map[string]string{
		"scsi0": "a1:vm-100-disk-0,iops=100,size=1G,snapshot=1", "vga": "qxl,memory=32", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0,rate=5",
		"cpu": "host,hidden=1", "hostpci0": "mapping=gpu,pcie=1", "tablet": "0", "agent": "1,freeze-fs-on-backup=0",
		"smbios1": "base64=1,serial=QQ==,sku=QQ==",
	})
	prior := Spec{
		Disks: map[string]Disk{"scsi0": {Storage: "a1", Volume: "a1:vm-100-disk-0", Size: new(int64(1 << 30))}}, VGA: VGA{Type: new("qxl")},
		Networks: map[string]NIC{"net0": {Model: "virtio", NICOptions: NICOptions{Bridge: new("vmbr0")}}}, CPU: CPU{Type: new("host")},
		PCI:   map[string]PCI{"hostpci0": {Mapping: new("gpu")}},
		Agent: Agent{Enabled: new(true)}, SMBIOS: SMBIOS{Serial: new("A")},
	}
	planned := Spec{
		Disks:    map[string]Disk{"scsi0": {Storage: "a1", DiskOptions: DiskOptions{SSD: new(true), Snapshot: new(false)}}},
		VGA:      VGA{Type: new("virtio")},
		Networks: map[string]NIC{"net0": {Model: "virtio", NICOptions: NICOptions{Bridge: new("vmbr1")}}}, CPU: CPU{},
		PCI:   map[string]PCI{"hostpci0": {Mapping: new("gpu"), ROMBar: new(false)}},
		Agent: Agent{}, SMBIOS: SMBIOS{Serial: new("B")},
	}
	want := Change{Set: map[string]string{
		"scsi0": "a1:vm-100-disk-0,iops=100,size=1G,snapshot=0,ssd=1", "vga": "virtio,memory=32",
		"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr1,rate=5",
		"cpu":  "kvm64,hidden=1", "hostpci0": "mapping=gpu,pcie=1,rombar=0", "agent": "0,freeze-fs-on-backup=0", "smbios1": "serial=B,sku=A",
	}}
	if d := cmp.Diff(want, Diff(WithRest(prior, server), planned)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if c := Diff(WithRest(prior, server), prior); !c.Empty() {
		t.Errorf("no change planned: %+v", c)
	}
}

// TestWithRestLaws: what the server says of itself adds nothing; an older state that plans nothing changes nothing.
func TestWithRestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		server, prior := genSpec(t), genSpec(t)
		same(t, "WithRest(s, s)", WithRest(server, server), server)
		before := Encode(prior)
		from := WithRest(prior, server)
		if d := cmp.Diff(before, Encode(prior)); d != "" {
			t.Fatalf("WithRest changed its argument:\n%s", d)
		}
		if c := Diff(from, prior); !c.Empty() {
			t.Fatalf("a plan that equals the state changes something: %+v", c)
		}
	})
}

// TestLegacyBoot: the deprecated ways to say a boot order are read as the order that they mean, and no change writes them
// again unless the order changes.
func TestLegacyBoot(t *testing.T) {
	devices := map[string]string{"ide2": "local:iso/x.iso,media=cdrom", "sata1": "none,media=cdrom", "scsi0": "a1:vm-1-disk-0",
		"scsi1": "a1:vm-1-disk-1",
		"ide0":  "a1:vm-1-cloudinit,media=cdrom", "net0": "virtio=BC:24:11:00:00:01", "net10": "virtio=BC:24:11:00:00:02"}
	for _, tt := range []struct {
		boot, bootdisk string
		want           []string
	}{
		{"cdn", "scsi1", []string{"scsi1", "ide2", "sata1", "net0", "net10"}},
		{"legacy=ndc", "scsi0", []string{"net0", "net10", "ide2", "sata1", "scsi0"}},
		{"", "scsi0", []string{"scsi0", "ide2", "sata1", "net0", "net10"}},
		{"c", "scsi7", []string{}},
		{"ad", "", []string{"ide2", "sata1"}},
		{"order=net0", "scsi0", []string{"net0"}},
		{"", "", nil},
		{"xyz", "scsi0", nil},
	} {
		config := maps.Clone(devices)
		for option, value := range map[string]string{"boot": tt.boot, "bootdisk": tt.bootdisk} {
			if value != "" {
				config[option] = value
			}
		}
		s := Decode(config)
		if !slices.Equal(s.BootOrder, tt.want) || (s.BootOrder == nil) != (tt.want == nil) {
			t.Errorf("boot %q, bootdisk %q: %q, want %q", tt.boot, tt.bootdisk, s.BootOrder, tt.want)
		}
		if c := Diff(s, s); !c.Empty() {
			t.Errorf("boot %q, bootdisk %q: %+v", tt.boot, tt.bootdisk, c)
		}
		next := s
		next.BootOrder = []string{"scsi1"}
		if c := Diff(s, next); c.Set["boot"] != "order=scsi1" {
			t.Errorf("boot %q, bootdisk %q: another order sends %+v", tt.boot, tt.bootdisk, c)
		}
	}
}
