package storage_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// alias adds a second name of a storage.
func alias(world *state.World, of string) {
	twin := *world.Storages[of]
	twin.ID += "-alias"
	world.Storages[twin.ID] = &twin
}

// other adds VM 600 of a third party with an option, and the volume that the option names.
func other(world *state.World, option, value string) {
	world.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "other",
		"memory": "512", option: value, "smbios1": "uuid=66666666-2222-3333-4444-555555555555"}}
	if storage, name, ok := strings.Cut(value, ":"); ok && world.Storages[storage] != nil {
		world.Put(&state.Volume{Storage: storage, Node: "pve1", Name: strings.Split(name, ",")[0], Content: "images",
			VMID: 300, Format: "raw", Size: 1 << 30})
	}
}

// TestVolumesAliasKeepsADisk: a guest that has the disk under another name keeps it from being destroyed, or given to a
// VM, and a volume without a guest from being an orphan.
func TestVolumesAliasKeepsADisk(t *testing.T) {
	t.Parallel()
	const of300 = "vm-300-disk-0"
	for name, c := range map[string]struct{ option, value string }{
		"another storage name": {"scsi1", "local-lvm-alias:" + of300 + ",size=1G"},
		"the device mapper":    {"scsi1", "/dev/mapper/pve-vm--300--disk--0,size=1G"},
		"a link by id":         {"scsi1", "/dev/disk/by-id/dm-name-pve-vm--300--disk--0"},
		"a path":               {"scsi1", "/dev/pve/" + of300},
		"an argument of QEMU":  {"args", "-drive file=/dev/mapper/pve-vm--300--disk--0,if=virtio"},
		"a number":             {"scsi1", "/dev/dm-7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := rig.DiskBlock(`storage = "local-lvm"`, `size = "1G"`)
			d := newDataDisk(t, disk)
			d.World.Change(func(world *state.World) {
				alias(world, "local-lvm")
				other(world, c.option, c.value)
			})
			d.World.Mark()
			d.Configure(disk + rig.DiskAttached("a", 400, rig.DiskVolume))
			rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"VM 600 (other)"})
			d.Configure("")
			rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"VM 600 (other)", "not touched"})
			if _, there := d.World.Sim.World().Guests[300]; !there {
				t.Fatal("the disk was destroyed")
			}
			d.World.Change(func(world *state.World) { delete(world.Guests, 300) })
			d.World.Sim.Advance(48 * time.Hour)
			v, err := d.Session.ReadDataSource(t.Context(), "proxmox_orphans", "")
			d.Must(err)
			for it := terraformtest.At(v, "orphans").ElementIterator(); it.Next(); {
				_, o := it.Element()
				if id := terraformtest.Text(o, "id"); strings.HasSuffix(id, of300) && terraformtest.Text(o, "command") != "" {
					t.Errorf("%s is an orphan: %s", id, terraformtest.ShowValue(o))
				}
			}
		})
	}
}

// TestVolumesAliasUnclear: an export that an administrator has mounted may be the one of a storage; a guest that uses a
// volume of that name there may use this one.
func TestVolumesAliasUnclear(t *testing.T) {
	t.Parallel()
	disk := rig.DiskBlock(`storage = "shared-nfs"`, `size = "1G"`, `format = "raw"`)
	d := newDataDisk(t, disk)
	d.World.Change(func(world *state.World) {
		world.Storages["mounted"] = &state.Storage{ID: "mounted", Type: "cifs", Path: "/mnt/pve/mounted", Shared: true,
			Content: []string{"images"}, Total: 1 << 40}
		world.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: "pve2", Config: map[string]string{"name": "other",
			"memory": "512", "scsi1": "mounted:300/vm-300-disk-0.raw,size=1G", "smbios1": "uuid=66666666-2222-3333-4444-555555555555"}}
		world.Put(&state.Volume{Storage: "mounted", Name: "300/vm-300-disk-0.raw", Content: "images", VMID: 300, Format: "raw", Size: 1 << 30})
	})
	d.Configure("")
	rig.MustRefuse(t, d.Session.Run(t.Context()), []string{"VM 600 (other)", "may be the same volume"})
	if volume := d.World.Sim.World().Volume("pve1", "shared-nfs:300/vm-300-disk-0.raw"); volume == nil {
		t.Error("the disk was destroyed")
	}
}

// TestVolumesAliasAdvice: after a failed move between two names of one directory, the advice does not name the VM's only
// disk as a leftover.
func TestVolumesAliasAdvice(t *testing.T) {
	t.Parallel()
	vm := func(storage string) string {
		return "resource \"proxmox_vm\" \"mine\" {\n  name = \"mine\"\n  vmid = 400\n  node = \"pve1\"\n  disks = { scsi0 = { storage = \"" +
			storage + "\", size = \"1G\", format = \"raw\" } }\n}\n"
	}
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, vm("local2"))
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) {
		alias(world, "local2")
		world.Put(&state.Volume{Storage: "local2-alias", Node: "pve1", Name: "400/vm-400-disk-0.raw", Content: "images", VMID: 400,
			Format: "raw", Size: 1 << 30})
	})
	w.Reconfigure(t, s, rig.TokenNoSSH, vm("local2-alias"))
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/move_disk"}, Phase: fault.KillTask}})
	if err := s.Run(t.Context()); err == nil {
		t.Fatal("the move did not fail")
	}
	for _, d := range s.Diagnostics() {
		if text := d.Summary + d.Detail; strings.Contains(text, "pvesm free local2-alias:400/vm-400-disk-0.raw") {
			t.Errorf("the advice frees the VM's only disk: %s", text)
		}
	}
}

// sameDirectory gives storage local a second name, and the content types of files.
func sameDirectory(w *rig.World) {
	w.Change(func(world *state.World) {
		local := world.Storages["local"]
		local.Content = []string{"iso", "snippets", "images"}
		alias(world, local.ID)
		world.Storages["local-alias"].Same = local.ID
	})
}

// TestFileUnderAnotherNameOfItsStorage: the configuration names the storage of a file by its other name. It is the same
// file, which is there afterwards, by that name.
func TestFileUnderAnotherNameOfItsStorage(t *testing.T) {
	t.Parallel()
	const vm = "resource \"proxmox_vm\" \"web\" {\n  node = \"pve1\"\n  vmid = 300\n  cdroms = { ide3 = { file = FILE } }\n}\n"
	const first = "lifecycle { create_before_destroy = true }"
	source := filepath.Join(t.TempDir(), "disc.iso")
	rig.Must(t, os.WriteFile(source, append(make([]byte, 32769), "CD001 web"...), 0o600))
	image := fmt.Sprintf("resource \"proxmox_image\" \"web\" {\n  node = \"pve1\"\n  storage = \"local\"\n  content = \"iso\"\n"+
		"  source_file = %q\n  %s\n}\n", source, first)
	iso, snippet := rig.CloudInitISOBlock("hostname: one"), rig.SnippetBlock("one")
	for name, c := range map[string]struct {
		address, before, after string
		owned                  string // afterwards
	}{
		"disc":                 {"proxmox_cloud_init_iso.web", iso, iso, "true"},
		"disc of a VM":         {"proxmox_cloud_init_iso.web", iso + vm, iso + vm, "true"},
		"disc of a new VM":     {"proxmox_cloud_init_iso.web", iso, iso + vm, "true"},
		"image, made before":   {"proxmox_image.web", image, image, "false"},
		"snippet":              {"proxmox_snippet.web", snippet, snippet, "true"},
		"snippet, changed":     {"proxmox_snippet.web", snippet, rig.SnippetBlock("two"), "true"},
		"snippet, made before": {"proxmox_snippet.web", rig.SnippetBlock("one", first), rig.SnippetBlock("one", first), "false"},
		"disc with other data": {"proxmox_cloud_init_iso.web", iso, rig.CloudInitISOBlock("hostname: two"), "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			sameDirectory(w)
			file := strings.NewReplacer("FILE", c.address+".volume")
			s := w.Session(t, rig.TokenSSH, file.Replace(c.before))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenSSH, strings.Replace(file.Replace(c.after), `storage = "local"`, `storage = "local-alias"`, 1))
			rig.Must(t, s.Run(t.Context()))
			node, volume := s.Attr(c.address, "node").AsString(), s.Attr(c.address, "volume").AsString()
			w.Change(func(world *state.World) {
				if !strings.HasPrefix(volume, "local-alias:") || world.Volume(node, volume) == nil {
					t.Errorf("%s is gone", volume)
				}
			})
			if is := terraformtest.ShowValue(s.Attr(c.address, "owned")); is != c.owned {
				t.Errorf("owned: %s", is)
			}
			rig.Must(t, s.Converge(t.Context()))
			rig.Must(t, s.Destroy(t.Context()))
			w.Change(func(world *state.World) {
				if left := world.Volume(node, volume) != nil; left != (c.owned == "false") {
					t.Errorf("after the destroy %s is there: %v", volume, left)
				}
			})
		})
	}
}

// TestFileOfTwoNamesOfItsStorage: two resources have one file by two names of its storage. A plan that takes it from one
// of them says so.
func TestFileOfTwoNamesOfItsStorage(t *testing.T) {
	t.Parallel()
	two := strings.NewReplacer(`"web" {`, `"two" {`, `storage = "local"`, `storage = "local-alias"`)
	for name, one := range map[string]string{"disc": rig.CloudInitISOBlock("hostname: one"), "snippet": rig.SnippetBlock("one")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			sameDirectory(w)
			s := w.Session(t, rig.TokenSSH, one)
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenSSH, one+two.Replace(one))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenSSH, two.Replace(one))
			_, err := s.Plan(t.Context())
			rig.Must(t, err)
			if said := s.Diagnostics().String(); strings.Count(said, "A file of two resources goes: local:") != 1 {
				t.Errorf("the plan says %s", said)
			}
		})
	}
}
