package vm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// diffCase is what a server has, what is configured on top of it, and the change.
type diffCase struct {
	have map[string]string
	want Spec
	c    Change
}

func TestDiffOfConfigurations(t *testing.T) {
	for _, table := range []map[string]diffCase{diskCases(), newDriveCases(), otherCases()} {
		for name, v := range table {
			t.Run(name, func(t *testing.T) {
				from := Decode(v.have)
				got := Diff(from, Merge(from, v.want))
				if d := cmp.Diff(v.c, got, cmpopts.EquateEmpty()); d != "" {
					t.Errorf("-want +got:\n%s", d)
				}
			})
		}
	}
}

// diskCases are changes of disks that exist.
func diskCases() map[string]diffCase {
	const disk = "local-zfs:vm-100-disk-0,discard=on,iops=100,size=10G"
	return map[string]diffCase{
		"meaning, not spelling": {
			map[string]string{
				"tags": "a;b", "description": "x", "cpulimit": "2", "memory": "current=2048", "agent": "enabled=1",
				"cpu":  "cputype=host,flags=-pcid;+aes",
				"net0": "virtio=bc:24:11:00:00:01,bridge=vmbr0", "sshkeys": "k%20a%0A", "scsi0": "local-zfs:vm-100-disk-0,size=10240M",
				"nameserver": "10.0.0.1,10.0.0.2", "ipconfig0": "gw=10.0.0.1,ip=10.0.0.2/24", "ide2": "local-zfs:vm-100-cloudinit,media=cdrom,size=4M",
				"machine": "pc-q35-9.0+pve1", "ostype": "win11", "efidisk0": "local-zfs:vm-100-disk-1,size=1M",
			},
			Spec{
				Options:  Options{Tags: []string{"B", "a", "a"}, Description: new("x\n\n"), Machine: new("q35"), Template: new(false)},
				Networks: map[string]NIC{"net0": {NICOptions: NICOptions{MACAddr: new("BC:24:11:00:00:01")}}},
				CPU:      CPU{Limit: new(2.0), Flags: []string{"-pcid", "+aes"}}, Memory: Memory{Size: new(int64(2048))},
				Agent: Agent{Enabled: new(true)},
				Disks: map[string]Disk{"scsi0": {Storage: "local-zfs", Size: new(int64(10 << 30)), Format: new("raw"),
					ImportFrom: new("local:import/x.qcow2")}},
				CloudInit: CloudInit{Slot: "ide2", Storage: "local-zfs",
					CloudInitOptions: CloudInitOptions{SSHKeys: []string{"k a "}, Nameservers: []string{"10.0.0.1", "10.0.0.2"},
						Addresses: map[string]Address{"net0": {IPv4: new("10.0.0.2/24"), Gateway4: new("10.0.0.1")}}}},
				EFIDisk: &EFIDisk{Storage: "local-zfs", EFIOptions: EFIOptions{Type: new("2m"), PreEnrolledKeys: new(false)}},
			},
			Change{},
		},
		"one sub-key": {
			map[string]string{"scsi0": disk, "name": "a"}, Spec{Disks: map[string]Disk{"scsi0": {DiskOptions: DiskOptions{SSD: new(true)}}}},
			Change{Set: map[string]string{"scsi0": "local-zfs:vm-100-disk-0,discard=on,iops=100,size=10G,ssd=1"}},
		},
		"options before move before growth": {
			map[string]string{"scsi0": disk}, Spec{Disks: map[string]Disk{"scsi0": {Storage: "local2", Format: new("qcow2"),
				Size: new(int64(20 << 30)), DiskOptions: DiskOptions{Discard: new(false)}}}},
			Change{
				Set:   map[string]string{"scsi0": "local-zfs:vm-100-disk-0,discard=ignore,iops=100,size=10G"},
				Moves: []Move{{"scsi0", "local2", "qcow2"}}, Grow: []Growth{{"scsi0", 20 << 30}},
			},
		},
		"format alone is a move": {
			map[string]string{"scsi0": "local2:100/vm-100-disk-0.raw,size=1G"}, Spec{Disks: map[string]Disk{"scsi0": {Format: new("qcow2")}}},
			Change{Moves: []Move{{"scsi0", "local2", "qcow2"}}},
		},
		"shrink": {
			map[string]string{"scsi0": disk}, Spec{Disks: map[string]Disk{"scsi0": {Size: new(int64(5 << 30))}}},
			Change{Problems: []Problem{{"scsi0", "disks.scsi0.size", "the disk has 10G and cannot be shrunk to 5G"}}},
		},
		"another volume": {
			map[string]string{"scsi0": disk}, Spec{Disks: map[string]Disk{"scsi0": {Volume: "local-zfs:vm-100-disk-7"}}},
			Change{Set: map[string]string{"scsi0": "local-zfs:vm-100-disk-7,discard=on,iops=100,size=10G"}},
		},
	}
}

// newDriveCases are drives made or moved.
func newDriveCases() map[string]diffCase {
	return map[string]diffCase{
		"new disks": {
			map[string]string{}, Spec{Disks: map[string]Disk{
				"scsi0": {Storage: "a1", Size: new(int64(32 << 30)), DiskOptions: DiskOptions{Discard: new(true)}},
				"scsi1": {Storage: "a1", Size: new(int64(528 << 10)), Format: new("qcow2")},
				"scsi2": {Storage: "a1", Size: new(int64(4 << 30)), ImportFrom: new("local:import/x.qcow2")}, "scsi3": {Volume: "a1:vm-100-disk-9"},
				"scsi4": {},
			}},
			Change{
				Set: map[string]string{
					"scsi0": "a1:32,discard=on", "scsi1": "a1:0.0005035400390625,format=qcow2", "scsi2": "a1:0,import-from=local:import/x.qcow2",
					"scsi3": "a1:vm-100-disk-9", "scsi4": ":0",
				},
				Grow:     []Growth{{"scsi2", 4 << 30}},
				Problems: []Problem{{"scsi4", "disks.scsi4", "a new disk needs a size or something to import"}, {"scsi4", "disks.scsi4.storage", "a new volume needs a storage"}},
			},
		},
		"EFI, TPM and cloud-init drives": {
			map[string]string{}, Spec{
				EFIDisk:   &EFIDisk{Storage: "a1", EFIOptions: EFIOptions{Type: new("4m"), PreEnrolledKeys: new(true)}},
				TPMState:  &TPMState{Storage: "a1", Version: new("v2.0")},
				CloudInit: CloudInit{Slot: "ide2", Storage: "a1", Format: new("qcow2"), PasswordHash: new("$6$x")},
			},
			Change{Set: map[string]string{
				"efidisk0": "a1:1,efitype=4m,pre-enrolled-keys=1", "tpmstate0": "a1:1,version=v2.0", "ide2": "a1:cloudinit,format=qcow2",
				"cipassword": "$6$x",
			}},
		},
		"what is fixed at creation": {
			map[string]string{"efidisk0": "a1:vm-100-disk-0,efitype=4m", "tpmstate0": "a1:vm-100-disk-1,version=v2.0", "template": "0"}, Spec{
				EFIDisk: &EFIDisk{EFIOptions: EFIOptions{Type: new("2m"), PreEnrolledKeys: new(true)}}, TPMState: &TPMState{Version: new("v1.2")},
				Options: Options{Template: new(true)},
			},
			Change{Set: map[string]string{"template": "1"}, Problems: []Problem{
				{"efidisk0", "efi_disk.pre_enrolled_keys", "pre-enrolled keys are put on the EFI disk when it is made and cannot be changed afterwards"},
				{"efidisk0", "efi_disk.type", "the EFI disk was made with efitype 4m, which cannot be changed to 2m"},
				{"tpmstate0", "tpm_state.version", "the TPM state has version v2.0, which cannot be changed to v1.2"},
			}},
		},
		"EFI disk, TPM state and cloud-init drive move": {
			map[string]string{"efidisk0": "a1:vm-100-disk-0", "tpmstate0": "a1:vm-100-disk-1", "ide2": "a1:vm-100-cloudinit,media=cdrom"},
			Spec{EFIDisk: &EFIDisk{Storage: "b1"}, TPMState: &TPMState{Storage: "b1"}, CloudInit: CloudInit{Storage: "b1"}},
			Change{Moves: []Move{{"efidisk0", "b1", ""}, {"ide2", "b1", ""}, {"tpmstate0", "b1", ""}}},
		},
		"cloud-init drive in another slot": {
			map[string]string{"ide0": "a1:vm-100-cloudinit,media=cdrom,size=4M"},
			Spec{CloudInit: CloudInit{Slot: "ide2", CloudInitOptions: CloudInitOptions{User: new("ops")}}},
			Change{DeleteFirst: []string{"ide0"}, Set: map[string]string{"ide2": "a1:cloudinit", "ciuser": "ops"}},
		},
	}
}

// otherCases are other devices and options.
func otherCases() map[string]diffCase {
	return map[string]diffCase{
		"a disc in the drive": {
			map[string]string{"ide2": "local:iso/a.iso,media=cdrom,size=700M", "ide3": "none,media=cdrom"},
			Spec{CDROMs: map[string]CDROM{"ide2": {File: "none"}, "ide3": {}}},
			Change{Set: map[string]string{"ide2": "none,media=cdrom"}},
		},
		"another kind of drive": {
			map[string]string{"ide2": "a1:vm-100-cloudinit,media=cdrom", "ciuser": "x"}, Spec{CDROMs: map[string]CDROM{"ide2": {File: "none"}}},
			Change{Set: map[string]string{"ide2": "none,media=cdrom"}},
		},
		"a NIC keeps what it has": {
			map[string]string{"net0": "e1000=BC:24:11:00:00:01,bridge=vmbr0,host-tunnel=1"},
			Spec{Networks: map[string]NIC{"net0": {NICOptions: NICOptions{Bridge: new("vmbr1"), Tag: new(int64(5))}}}},
			Change{Set: map[string]string{"net0": "e1000=BC:24:11:00:00:01,bridge=vmbr1,host-tunnel=1,tag=5"}},
		},
		"empty means none": {
			map[string]string{"description": "x", "tags": "a", "ciuser": "u", "boot": "order=net0"},
			Spec{Options: Options{Description: new(""), Tags: []string{}, BootOrder: []string{}},
				CloudInit: CloudInit{CloudInitOptions: CloudInitOptions{User: new("")}, PasswordHash: new("")}},
			Change{Set: map[string]string{"boot": " "}, Delete: []string{"cipassword", "ciuser", "description", "tags"}},
		},
		"the unreadable is replaced only when asked": {
			map[string]string{"boot": "cdn", "cpulimit": "many", "net0": "bridge=vmbr0"}, Spec{Options: Options{BootOrder: []string{"net0"}}},
			Change{Set: map[string]string{"boot": "order=net0"}},
		},
	}
}

// TestDiffRemoves: what from has and to has not is reset, detached, or taken out of its property string.
func TestDiffRemoves(t *testing.T) {
	from := Decode(map[string]string{
		"name": "a", "agent": "1,later=0,type=isa", "cpu": "host,flags=+aes,hidden=1,later=x", "scsi0": "a1:vm-100-disk-0,size=1G,ssd=1",
		"scsi1": "a1:vm-100-disk-1,size=1G", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=5", "net1": "virtio=BC:24:11:00:00:02",
		"ide2": "a1:vm-100-cloudinit,media=cdrom", "efidisk0": "a1:vm-100-disk-2", "tpmstate0": "a1:vm-100-disk-3", "ipconfig0": "ip=dhcp",
		"ide0": "none,media=cdrom", "args": "-no-hpet", "unused0": "a1:vm-100-disk-4", "cicustom": "user=local:snippets/u.yaml",
		"cipassword": "**********",
	})
	to := Spec{
		Disks:    map[string]Disk{"scsi0": {Storage: "a1"}},
		Networks: map[string]NIC{"net0": {Model: "virtio", NICOptions: NICOptions{Bridge: new("vmbr0")}}},
		CPU:      CPU{Type: new("host")},
	}
	want := Change{
		Set: map[string]string{
			"agent": "0,later=0", "cpu": "host,later=x", "scsi0": "a1:vm-100-disk-0,size=1G", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0",
		},
		Delete: []string{"args", "cicustom", "efidisk0", "ide0", "ide2", "ipconfig0", "name", "net1", "scsi1", "tpmstate0"},
	}
	if d := cmp.Diff(want, Diff(from, to)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestDiffNeverAllocatesTwice: an existing disk whose volume is not known must not be written, since that would make one.
func TestDiffNeverAllocatesTwice(t *testing.T) {
	from := Spec{Disks: map[string]Disk{"scsi0": {Storage: "a1", Size: new(int64(1 << 30))}}}
	to := Spec{Disks: map[string]Disk{"scsi0": {Storage: "a1", Size: new(int64(1 << 30)), DiskOptions: DiskOptions{SSD: new(true)}}}}
	if c := Diff(from, to); len(c.Set) > 0 || len(c.Problems) != 1 {
		t.Errorf("%+v", c)
	}
	if c := Diff(from, from); !c.Empty() {
		t.Errorf("%+v", c)
	}
}

func TestDiffTemplateStaysOne(t *testing.T) {
	if c := Diff(Spec{Options: Options{Template: new(true)}}, Spec{}); len(c.Problems) != 1 || len(c.Delete) > 0 {
		t.Errorf("%+v", c)
	}
}

func TestPasswordIsWriteOnly(t *testing.T) {
	if s := Decode(map[string]string{"cipassword": "**********"}); s.CloudInit.PasswordHash != nil || s.Rest != nil {
		t.Errorf("the mask was decoded: %+v", s)
	}
	hash := Spec{CloudInit: CloudInit{PasswordHash: new("$6$a$b")}}
	if c := Diff(hash, Spec{}); !c.Empty() {
		t.Errorf("from with a password, to without: %+v", c)
	}
	if c := Diff(Spec{}, hash); c.Set["cipassword"] != "$6$a$b" {
		t.Errorf("to with a password: %+v", c)
	}
}

func TestAllocates(t *testing.T) {
	for value, want := range map[string]bool{
		"a1:32,ssd=1": true, "a1:10.5": true, "a1:0,import-from=local:import/x.qcow2": true, "a1:cloudinit": true,
		"a1:vm-100-disk-0,ssd=1": false, "none,media=cdrom": false, "a1:vm-100-cloudinit,media=cdrom": false, "/dev/sdb": false,
	} {
		if got := (Change{Set: map[string]string{"ide0": value}}).Allocates(); got != want {
			t.Errorf("%s: %t", value, got)
		}
	}
	if (Change{Set: map[string]string{"name": "a1:32"}}).Allocates() {
		t.Error("a name allocates")
	}
}
