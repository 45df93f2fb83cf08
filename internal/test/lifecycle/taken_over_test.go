package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// putDisk puts a disk of 1 GiB into a slot of a guest by hand, and returns its volume.
func putDisk(world *state.World, g *state.Guest, slot string) string {
	name := fmt.Sprintf("vm-%d-by-hand-%s", g.VMID, slot)
	world.Put(&state.Volume{Storage: "local-zfs", Node: g.Node, Name: name, Content: "images", VMID: g.VMID, Format: "raw", Size: 1 << 30})
	g.Config[slot] = "local-zfs:" + name + ",size=1G"
	return "local-zfs:" + name
}

// TestNoWordOfDevicesThatAreNotTakenOver: a plan tells of devices that were added by hand only where it is known that
// the configuration names them and gives them other settings.
func TestNoWordOfDevicesThatAreNotTakenOver(t *testing.T) {
	l := rig.NewVM(t, "")
	l.Guest(func(world *state.World, g *state.Guest) {
		g.Config["serial0"], g.Config["net1"] = "socket", "virtio=BC:24:11:00:00:07,bridge=vmbr0"
		putDisk(world, g, "scsi3")
		putDisk(world, g, "ide2")
	})
	object := func(keys ...string) cty.Value {
		types := map[string]cty.Type{}
		for _, key := range keys {
			types[key] = cty.String
		}
		return cty.UnknownVal(cty.Map(cty.Object(types)))
	}
	for name, c := range map[string]struct {
		body string
		open cty.Value
		told bool
	}{
		"networks that are not known":     {"networks = var.open\n", object("bridge"), false},
		"disks that are not known":        {"disks = var.open\n", object("storage", "size"), false},
		"serial ports that are not known": {"serial = var.open\n", object("device"), false},
		"a slot that is not known": {"cloud_init = { storage = \"local-zfs\", slot = var.open }\n", cty.UnknownVal(cty.String),
			false},
		"a port that is as planned": {"serial = { serial0 = { device = var.open } }\n", cty.StringVal("socket"), false},
		"a device that changes":     {"networks = { net1 = { bridge = var.open } }\n", cty.StringVal("vmbr1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			l.World.Reconfigure(t, l.Session, rig.TokenNoSSH, "variable \"open\" {}\n"+rig.NodeVMBlock(c.body))
			l.Session.SetVariable("open", c.open)
			_, err := l.Session.Plan(t.Context())
			rig.Must(t, err)
			said := l.Session.Diagnostics().String()
			if told := strings.Contains(said, "is not empty"); told != c.told || strings.Contains(said, "PVE changes serial0") {
				t.Errorf("the plan says %v", l.Session.Diagnostics())
			}
		})
	}
}

// TestDriveOverADiskOfAnImportedVM: the state has the disk from the import, and the plan that forgets it puts an optical
// drive into its slot.
func TestDriveOverADiskOfAnImportedVM(t *testing.T) {
	for attribute, drive := range map[string]string{
		`cdroms["ide2"]`:  `cdroms = { ide2 = { file = "none" } }`,
		"cloud_init.slot": `cloud_init = { storage = "local-zfs" }`,
	} {
		w := rig.NewWorld(t)
		var volume string
		w.Change(func(world *state.World) { volume = putDisk(world, world.Guests[8000], "ide2") })
		s := w.Session(t, rig.TokenNoSSH, `
resource "proxmox_vm" "x" {
  vmid  = 8000
  disks = { scsi0 = { storage = "local-lvm", size = "4G" } }
  `+drive+`
}
`)
		rig.Must(t, s.Import(t.Context(), "proxmox_vm.x", "8000"))
		_, err := s.Plan(t.Context())
		rig.MustSay(t, err, "The slot is not empty: "+volume+" is in ide2", "proxmox_vm.x."+attribute)
	}
}
