package vm

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"pgregory.net/rapid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// maybe draws a value or nothing.
func maybe[V any](t *rapid.T, g *rapid.Generator[V], label string) *V {
	if !rapid.Bool().Draw(t, label+" set") {
		return nil
	}
	v := g.Draw(t, label)
	return &v
}

func oneOf[V any](values ...V) *rapid.Generator[V] { return rapid.SampledFrom(values) }

func maybeBool(t *rapid.T, label string) *bool { return maybe(t, rapid.Bool(), label) }

func maybeList(t *rapid.T, label string, from ...string) []string {
	if !rapid.Bool().Draw(t, label+" set") {
		return nil
	}
	chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, len(from), rapid.ID[string]).Draw(t, label)
	return append([]string{}, chosen...)
}

// drawConfig draws a configuration that the schema accepts. With clone everything may be left to the template.
func drawConfig(t *rapid.T, label string, clone bool) model.Model {
	m := model.Model{
		Options: vm.Options{Name: maybe(t, oneOf("web-1", "Db.lan"), label+" name"),
			Description: maybe(t, oneOf("notes", "two\nlines\n", ""), label+" description"),
			Tags:        maybeList(t, label+" tags", "prod", "Web", "a_b"), OnBoot: maybeBool(t, label+" onboot"),
			Protection: maybeBool(t, label+" protection"),
			Machine:    maybe(t, oneOf("q35", "pc"), label+" machine"), BIOS: maybe(t, oneOf("ovmf", "seabios"), label+" bios"),
			OSType: maybe(t, oneOf("l26", "win11"), label+" ostype"), SCSIHW: maybe(t, oneOf("virtio-scsi-single", "lsi"), label+" scsihw"),
			BootOrder: maybeList(t, label+" boot", "scsi0", "net0")},
		Pool:       maybe(t, oneOf("web"), label+" pool"),
		PowerState: maybe(t, oneOf("running", "stopped"), label+" power"), OnFailure: maybe(t, oneOf("keep", "rollback"), label+" failure"),
	}
	if rapid.Bool().Draw(t, label+" cpu") {
		m.CPU = &vm.CPU{Type: maybe(t, oneOf("host", "kvm64"), label+" type"), Flags: maybeList(t, label+" flags", "+aes", "-pcid"),
			Cores: maybe(t, rapid.Int64Range(1, 8), label+" cores"), Limit: maybe(t, oneOf(0, 0.1, 1.5, 2), label+" limit"),
			NUMA: maybeBool(t, label+" numa")}
		cpu := reflect.ValueOf(m.CPU).Elem()
		for _, field := range []string{"Sockets", "VCPUs", "Units", "Affinity", "Hidden", "HVVendorID", "PhysBits", "GuestPhysBits", "Level",
			"ReportedModel"} {
			drawField(t, label+" "+field, cpu.FieldByName(field))
		}
	}
	if rapid.Bool().Draw(t, label+" memory") {
		m.Memory = &vm.Memory{Size: maybe(t, rapid.Int64Range(16, 8192), label+" size"), Balloon: maybe(t, oneOf[int64](0, 16), label+" balloon"),
			AllowKSM: maybeBool(t, label+" ksm"), KeepHugepages: maybeBool(t, label+" keep"),
			Shares: maybe(t, rapid.Int64Range(0, 50000), label+" shares"), Hugepages: maybe(t, oneOf("any", "2"), label+" hugepages")}
	}
	if rapid.Bool().Draw(t, label+" agent") {
		m.Agent = &vm.Agent{Enabled: maybeBool(t, label+" enabled"), Type: maybe(t, oneOf("virtio", "isa"), label+" agent type"),
			FreezeFSOnBackup: maybeBool(t, label+" freeze fs"), FSTrimClonedDisks: maybeBool(t, label+" fstrim")}
	}
	for _, slot := range maybeList(t, label+" disks", "scsi0", "scsi1", "virtio0") {
		model.Put(&m.Disks, slot, drawDisk(t, label+" "+slot, clone))
	}
	for _, slot := range maybeList(t, label+" cdroms", "ide0", "sata1") {
		model.Put(&m.CDROMs, slot, model.CDROM{File: new(oneOf("none", "cdrom", "local:iso/debian.iso").Draw(t, label+" "+slot))})
	}
	for _, slot := range maybeList(t, label+" nets", "net0", "net1") {
		n := drawNIC(t, label+" "+slot)
		if clone && n.Model == nil { // whether the template has the device is not known here
			n.Model = new("virtio")
		}
		model.Put(&m.Networks, slot, n)
	}
	drawSpecial(t, label, &m, clone)
	drawOptions(t, label, &m)
	if clone {
		m.Clone = &model.Clone{VMID: new(int64(9000)), Full: new(true)}
	}
	return m
}

func drawDisk(t *rapid.T, label string, clone bool) model.Disk {
	d := model.Disk{Storage: new("local-zfs"), Size: new(oneOf("1G", "1024M", "10.5G", "32G").Draw(t, label+" size")),
		DiskOptions: vm.DiskOptions{Cache: maybe(t, oneOf("none", "writeback"), label+" cache"), Discard: maybeBool(t, label+" discard"),
			SSD:      maybeBool(t, label+" ssd"),
			IOThread: maybeBool(t, label+" iothread"), Backup: maybeBool(t, label+" backup"), Serial: maybe(t, oneOf("abc"), label+" serial")}}
	details := reflect.ValueOf(&d).Elem()
	for _, field := range []string{"Model", "WWN", "Vendor", "Product", "Queues", "SCSIBlock", "Snapshot", "Shared", "DetectZeroes",
		"RError", "WError", "Throttle"} {
		drawField(t, label+" "+field, details.FieldByName(field))
	}
	if strings.Contains(label, "virtio") {
		d.SSD = nil
	}
	if clone && rapid.Bool().Draw(t, label+" left to the template") {
		d.Storage, d.Size = nil, nil
	}
	return d
}

func drawNIC(t *rapid.T, label string) model.NIC {
	return model.NIC{Model: maybe(t, oneOf("virtio", "e1000"), label+" model"),
		NICOptions: vm.NICOptions{Bridge: maybe(t, oneOf("vmbr0", "vmbr1"), label+" bridge"),
			MACAddr: maybe(t, oneOf("BC:24:11:00:00:01", "bc:24:11:00:00:02"), label+" mac"), Tag: maybe(t, rapid.Int64Range(1, 4094), label+" tag"),
			Trunks: maybeList(t, label+" trunks", "5", "10-20"), Firewall: maybeBool(t, label+" firewall"), LinkDown: maybeBool(t, label+" down"),
			Rate: maybe(t, oneOf(0.3, 10), label+" rate"), HostTunnel: maybeBool(t, label+" tunnel"),
			MTU: maybe(t, oneOf[int64](1, 1400), label+" mtu"), Queues: maybe(t, oneOf[int64](0, 4), label+" queues")}}
}

func drawSpecial(t *rapid.T, label string, m *model.Model, clone bool) {
	if rapid.Bool().Draw(t, label+" efi") {
		m.EFIDisk = &model.EFIDisk{Storage: new("local-zfs"), EFIOptions: vm.EFIOptions{Type: new("4m"), PreEnrolledKeys: new(false),
			MSCert: new("2023")}}
	}
	if rapid.Bool().Draw(t, label+" tpm") {
		m.TPMState = &model.TPMState{Storage: new("local-zfs"), Version: new("v2.0")}
	}
	if !rapid.Bool().Draw(t, label+" ci") {
		return
	}
	m.CloudInit = &model.CloudInit{Storage: new("local-zfs"), Slot: maybe(t, oneOf("ide2", "scsi9"), label+" slot"),
		CloudInitOptions: vm.CloudInitOptions{User: maybe(t, oneOf("ops"), label+" user"),
			SSHKeys:     maybeList(t, label+" keys", "ssh-ed25519 AAAA a", "ssh-ed25519 AAAB b\n"),
			Nameservers: maybeList(t, label+" dns", "10.0.0.1", "10.0.0.2"),
			Upgrade:     maybeBool(t, label+" upgrade")}}
	if clone && rapid.Bool().Draw(t, label+" drive left to the template") {
		m.CloudInit.Storage, m.CloudInit.Slot = nil, nil
	}
	for _, slot := range maybeList(t, label+" addresses", "net0", "net1") {
		model.Put(&m.CloudInit.Addresses, slot, vm.Address{IPv4: maybe(t, oneOf("dhcp", "10.0.0.5/24"), label+slot+" v4"), IPv6: new("auto")})
	}
	if rapid.Bool().Draw(t, label+" custom") {
		m.CloudInit.Custom = &vm.CustomData{User: new("local:snippets/u.yaml"), Vendor: maybe(t, oneOf("local:snippets/v.yaml"), label+" vendor")}
	}
}

// stored is what a server makes of a Spec: volumes are allocated, MAC addresses made up, values printed and read again.
func stored(s vm.Spec) vm.Spec {
	volumes := 0
	volume := func(existing, storage, name string) string {
		if existing != "" {
			return existing
		}
		volumes++
		return fmt.Sprintf("%s:vm-100-%s%d", storage, name, volumes)
	}
	s.Disks, s.Networks = maps.Clone(s.Disks), maps.Clone(s.Networks)
	for _, slot := range slices.Sorted(maps.Keys(s.Disks)) {
		d := s.Disks[slot]
		d.Volume, d.ImportFrom = volume(d.Volume, d.Storage, "disk-"+slot), nil
		s.Disks[slot] = d
	}
	for i, slot := range slices.Sorted(maps.Keys(s.Networks)) {
		n := s.Networks[slot]
		if n.MACAddr == nil {
			n.MACAddr = new(fmt.Sprintf("BC:24:11:AA:00:%02X", i))
		}
		s.Networks[slot] = n
	}
	if e := s.EFIDisk; e != nil {
		disk := *e
		disk.Volume = volume(e.Volume, e.Storage, "efi-")
		s.EFIDisk = &disk
	}
	if p := s.TPMState; p != nil {
		disk := *p
		disk.Volume = volume(p.Volume, p.Storage, "tpm-")
		s.TPMState = &disk
	}
	if s.CloudInit.Slot != "" && s.CloudInit.Volume == "" {
		s.CloudInit.Volume = s.CloudInit.Storage + ":vm-100-cloudinit"
	}
	s.CloudInit.PasswordHash = nil
	return vm.Decode(vm.Encode(s))
}

func guestOf(s vm.Spec, pool string) guest.Guest {
	return guest.Guest{VMID: 100, Node: "pve1", Spec: s, Pool: pool, Status: "running", Identity: guest.Identity{UUID: "u-1"}}
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

var (
	_ fataler = (*testing.T)(nil)
	_ fataler = (*rapid.T)(nil)
)

// rawOf writes a model as a value.
func rawOf(t fataler, v model.Values, m model.Model) tftypes.Value {
	t.Helper()
	raw, diags := v.Raw(context.Background(), m)
	if diags.HasError() {
		t.Fatalf("%v", diags)
	}
	return raw
}

func modelOf(t fataler, v model.Values, raw tftypes.Value) model.Model {
	t.Helper()
	m, diags := v.Model(context.Background(), raw)
	if diags.HasError() {
		t.Fatalf("%v", diags)
	}
	return m
}
