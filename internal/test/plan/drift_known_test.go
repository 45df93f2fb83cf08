package plan_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// story is a row of configurations of one VM, each applied with an empty plan after it.
type story struct {
	name    string
	version string // of PVE; empty: the newest
	running bool
	never   bool // reboot_policy
	exact   bool // the case of tags counts
	outside func(config map[string]string)
	steps   []string // lines of the configuration; outside happens before the last
	want    map[string]string
	refused []string // the last step is refused in the plan, with these words
	failing []string // … in the apply, which changes nothing
}

const (
	systemDisk = `disks = { scsi0 = { storage = "local-zfs", size = "4G" } }` + "\n"
	imported   = `disks = { scsi0 = { storage = "local-zfs", size = "4G" }, sata1 = { storage = "local-zfs", size = "8G", import_from = "local:import/disk.qcow2" } }` + "\n"
	efi        = "bios = \"ovmf\"\nefi_disk = { storage = \"local-zfs\", type = \"4m\" }\n"
)

func stories() []story {
	return []story{
		{name: "the cloud-init drive comes back elsewhere while it leaves", running: true, never: true,
			steps: []string{systemDisk + `cloud_init = { storage = "local-zfs" }`, systemDisk, systemDisk + `cloud_init = { storage = "local" }`},
			want:  map[string]string{"ide2": "local:"}},
		{name: "the cloud-init drive comes back in another slot while it leaves", running: true, never: true,
			steps: []string{systemDisk + `cloud_init = { storage = "local-zfs" }`, systemDisk, systemDisk + `cloud_init = { storage = "local-zfs", user = "ops" }`},
			want:  map[string]string{"ide2": "local-zfs:vm-500-cloudinit", "ciuser": "ops"}},
		{name: "an imported disk comes back while it leaves", running: true, never: true,
			steps: []string{imported, systemDisk, imported},
			want:  map[string]string{"sata1": "local-zfs:vm-500-disk-0,size=8G", "unused0": ""}},
		{name: "an imported disk comes back elsewhere while it leaves", running: true, never: true,
			steps: []string{imported, systemDisk, strings.Replace(imported, `sata1 = { storage = "local-zfs"`, `sata1 = { storage = "local-lvm"`, 1)},
			want:  map[string]string{"sata1": "local-lvm:vm-500-disk-0,size=8G", "unused0": ""}},
		{name: "an imported disk on a bus without hotplug", running: true,
			steps: []string{systemDisk, imported},
			want:  map[string]string{"sata1": "local-zfs:vm-500-disk-1,size=8G"}},
		{name: "an imported disk on a bus without hotplug, and no restart", running: true, never: true,
			steps: []string{systemDisk, imported}, refused: []string{"sata1"}},
		{name: "the cloud-init drive comes back in another slot while it leaves, without restart", running: true, never: true,
			steps:   []string{systemDisk + `cloud_init = { storage = "local-zfs" }`, systemDisk, systemDisk + `cloud_init = { storage = "local-zfs", slot = "scsi9" }`},
			failing: []string{"cloud_init.slot", "ide2", "Stop the VM"}},
		{name: "another medium in a drive beside the boot order", running: true, never: true,
			steps: []string{
				systemDisk + "boot_order = [\"scsi0\"]\ncdroms = { ide3 = { file = \"none\" } }",
				systemDisk + "boot_order = [\"scsi0\"]\ncdroms = { ide3 = { file = \"local:iso/debian.iso\" } }"},
			want: map[string]string{"boot": "order=scsi0"}},
		{name: "another medium in a drive beside the boot order, stopped",
			steps: []string{
				systemDisk + "boot_order = [\"scsi0\"]\ncdroms = { ide3 = { file = \"none\" } }",
				systemDisk + "boot_order = [\"scsi0\"]\ncdroms = { ide3 = { file = \"local:iso/debian.iso\" }, sata4 = { file = \"none\" } }"},
			want: map[string]string{"boot": "order=scsi0"}},
		{name: "a drive beside the boot order of a clone",
			steps: []string{"clone = { vmid = 9000 }\nboot_order = [\"scsi0\"]\ncdroms = { ide3 = { file = \"local:iso/debian.iso\" } }"},
			want:  map[string]string{"boot": "order=scsi0"}},
		{name: "a device that the server has is configured, not replaced",
			steps: []string{systemDisk, systemDisk + `pci = { hostpci0 = { mapping = "gpu", rombar = false } }
usb = { usb1 = { host = "spice", usb3 = true } }
virtiofs = { virtiofs0 = { dirid = "share", cache = "never" } }
serial = { serial0 = { device = "socket" } }
numa_nodes = { numa0 = { cpus = "0", memory = 512 } }`},
			outside: func(config map[string]string) {
				config["hostpci0"], config["usb1"], config["virtiofs0"] = "mapping=gpu,x-vga=1", "host=spice", "share,direct-io=1"
				config["serial0"], config["numa0"] = "socket", "cpus=0,policy=bind,hostnodes=0"
			},
			want: map[string]string{"hostpci0": "mapping=gpu,rombar=0,x-vga=1", "usb1": "spice,usb3=1", "virtiofs0": "share,cache=never,direct-io=1",
				"serial0": "socket", "numa0": "cpus=0,hostnodes=0,memory=512,policy=bind"}},
		{name: "the case of tags is none", steps: []string{`tags = ["Web", "db"]`, `tags = ["web", "DB"]`}, want: map[string]string{"tags": "db;web"}},
		{name: "the case of tags, stored as sent", version: "8.4", steps: []string{`tags = ["Web", "db"]`, `tags = ["web", "DB"]`, `tags = ["web", "DB", "x"]`}, want: map[string]string{"tags": "db;web;x"}},
		{name: "the case of tags counts", exact: true, steps: []string{`tags = ["Web", "db"]`, `tags = ["web", "Web", "db"]`, `tags = ["web", "DB"]`},
			want: map[string]string{"tags": "DB;web"}},
		{name: "another type of EFI disk", steps: []string{efi, strings.Replace(efi, "4m", "2m", 1)}, refused: []string{"efi_disk", "4m", "efi_disk out"}},
		{name: "keys on the EFI disk", steps: []string{efi, strings.Replace(efi, "\"4m\"", "\"4m\", pre_enrolled_keys = true", 1)}, refused: []string{"efi_disk", "efi_disk out"}},
		{name: "a CD-ROM drive of a protected VM", steps: []string{"protection = true\ncdroms = { ide3 = { file = \"none\" } }", "protection = true"}, refused: []string{`cdroms["ide3"]`, "protected"}},
		{name: "another version of TPM", steps: []string{`tpm_state = { storage = "local-zfs", version = "v2.0" }`, `tpm_state = { storage = "local-zfs", version = "v1.2" }`},
			refused: []string{"tpm_state", "v2.0", "tpm_state out"}},
		{name: "the boot disk of a running guest", running: true,
			steps:   []string{systemDisk, `disks = { virtio1 = { storage = "local-zfs", size = "1G" } }`},
			refused: []string{`disks["scsi0"]`, "boots from scsi0", "stopped"}},
		{name: "the boot disk of a guest that is stopped with it", running: true,
			steps: []string{systemDisk, "power_state = \"stopped\""}, want: map[string]string{"scsi0": "", "unused0": "local-zfs:vm-500-disk-0"}},
	}
}

// TestKnownDrift: what once made a plan after its apply that was not empty, or an error of the apply that the plan can
// tell.
func TestKnownDrift(t *testing.T) {
	t.Parallel()
	for _, tt := range stories() {
		t.Run(tt.name, func(t *testing.T) {
			version := tt.version
			if version == "" {
				version = "9.2"
			}
			w := rig.NewWorld(t, pvesim.Options{Profile: version, Nodes: []string{"pve1"}})
			w.Change(func(world *state.World) { world.CaseSensitiveTags = tt.exact })
			var s *terraformtest.Session
			for i, lines := range tt.steps {
				last := i == len(tt.steps)-1
				if last && tt.outside != nil {
					w.Change(func(world *state.World) { tt.outside(world.Guests[500].Config) })
				}
				if !tt.running && !strings.Contains(lines, "clone") {
					lines += "\npower_state = \"stopped\""
				}
				if tt.never {
					lines += "\nreboot_policy = \"never\""
				}
				hcl := "resource \"proxmox_vm\" \"it\" {\n  vmid = 500\n  name = \"it\"\n" + lines + "\n}\n"
				if s == nil {
					s = w.Session(t, rig.RootTicket, hcl)
				} else {
					w.Reconfigure(t, s, rig.RootTicket, hcl)
				}
				if last && tt.refused != nil {
					_, err := s.Plan(t.Context())
					rig.MustRefuse(t, err, tt.refused)
				} else if last && tt.failing != nil {
					rig.MustRefuse(t, s.Run(t.Context()), tt.failing)
				} else if err := s.Converge(t.Context()); err != nil {
					t.Fatalf("step %d: %v", i+1, err)
				}
			}
			w.Change(func(world *state.World) {
				guest := world.Guests[500]
				for option, want := range tt.want {
					has, waits := guest.Pending[option]
					if !waits {
						has = guest.Config[option]
					}
					if !strings.HasPrefix(has, want) || want == "" && has != "" {
						t.Errorf("%s is %q, want %q", option, has, want)
					}
				}
			})
		})
	}
}

// TestUnusedVolumes: a disk that was taken out is told by its volume.
func TestUnusedVolumes(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{Profile: "9.2", Nodes: []string{"pve1"}})
	config := "resource \"proxmox_vm\" \"it\" {\n  vmid = 500\n  power_state = \"stopped\"\n  %s\n}\n"
	s := w.Session(t, rig.RootTicket, strings.Replace(config, "%s", systemDisk, 1))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if unused := s.Attr(driftAddress, "unused_volumes"); !unused.IsNull() {
		t.Errorf("unused_volumes of a new VM: %s", terraformtest.ShowValue(unused))
	}
	w.Reconfigure(t, s, rig.RootTicket, strings.Replace(config, "%s", "", 1))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if unused := terraformtest.ShowValue(s.Attr(driftAddress, "unused_volumes")); !strings.Contains(unused, "unused0") || !strings.Contains(unused, "local-zfs:vm-500-disk-0") {
		t.Errorf("unused_volumes after a disk was taken out: %s", unused)
	}
}

// TestLegacyBootOrder: an old VM, with letters for a boot order, is imported with the order that they mean and without a
// change, and another order takes the place of all of it.
func TestLegacyBootOrder(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t, pvesim.Options{Profile: "8.4", Nodes: []string{"pve1"}})
	hcl := "resource \"proxmox_vm\" \"it\" {\n  vmid = 500\n  power_state = \"stopped\"\n  networks = { net0 = { bridge = \"vmbr0\" } }\n  boot_order = [\"scsi0\", \"net0\"]\n" + systemDisk + "}\n"
	s := w.Session(t, rig.RootTicket, hcl)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		world.Guests[500].Config["boot"], world.Guests[500].Config["bootdisk"] = "cn", "scsi0"
	})
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		if has := world.Guests[500].Config["boot"]; has != "cn" {
			t.Errorf("boot was written: %q", has)
		}
	})
	w.Reconfigure(t, s, rig.RootTicket, strings.Replace(hcl, `["scsi0", "net0"]`, `["net0"]`, 1))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Change(func(world *state.World) {
		if has := world.Guests[500].Config; has["boot"] != "order=net0" || has["bootdisk"] != "" {
			t.Errorf("boot %q, bootdisk %q", has["boot"], has["bootdisk"])
		}
	})
}
