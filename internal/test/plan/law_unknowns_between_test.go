package plan_test

import (
	"fmt"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestLawUnknownsBetween holds a VM to the law whose values another resource of the provider computes, while an argument
// of that one is not known: an image to import, a disk that outlives it. It also leaves the source of a restore unknown.
func TestLawUnknownsBetween(t *testing.T) {
	t.Parallel()
	files := rig.ServeFiles(t, map[string][]byte{"/odd1.qcow2": rig.QCOW2("one"), "/odd2.qcow2": rig.QCOW2("two")})
	text := cty.StringVal
	const vm = "\nresource \"proxmox_vm\" \"it\" {\n  vmid = 300\n  node = \"pve1\"\n  name = \"it\"\n  power_state = \"stopped\"\n"
	const image = "resource \"proxmox_image\" \"it\" {\n  node = \"pve1\"\n  storage = \"local\"\n  url = var.it\n}" + vm +
		"  disks = { scsi0 = { storage = \"local-zfs\", size = \"4G\", import_from = proxmox_image.it.volume } }\n}\n"
	const disk = "resource \"proxmox_disk\" \"it\" {\n  vmid = 301\n  node = \"pve1\"\n  size = \"1G\"\n  storage = \"local-zfs\"\n  %s = var.it\n}" + vm +
		"  disks = { scsi0 = { imported_disk = { volume = proxmox_disk.it.volume } } }\n}\n"
	const restore = vm + "  protection = false\n  restore = { archive = var.it }\n}\n"
	one, two, none := text(files+"/odd1.qcow2"), text(files+"/odd2.qcow2"), cty.NilVal
	for name, c := range map[string]struct {
		hcl     string
		was, is cty.Value
	}{
		"image, made": {image, none, one}, "image, the same": {image, one, one}, "image, another": {image, one, two},
		"disk by format, made": {fmt.Sprintf(disk, "format"), none, text("raw")}, "disk by format, the same": {fmt.Sprintf(disk, "format"), text("raw"), text("raw")},
		"disk by name, the same": {fmt.Sprintf(disk, "name"), text("one"), text("one")}, "disk by name, another": {fmt.Sprintf(disk, "name"), text("one"), text("two")},
		"disk by pool, null": {fmt.Sprintf(disk, "pool"), text("web"), cty.NullVal(cty.String)},
		"restore, made":      {restore, none, text(rig.WebBackup)}, "restore, the same": {restore, text(rig.WebBackup), text(rig.WebBackup)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := driftWorld(t, "pve1", "pve2")
			w.Change(func(world *state.World) { world.Put(state.WebBackup("pve1")) })
			s := w.Session(t, rig.RootTicket, "variable \"it\" {}\n"+c.hcl)
			if c.was != none {
				s.SetVariable("it", c.was)
				rig.Must(t, s.Converge(t.Context()))
			}
			s.SetVariable("it", cty.DynamicVal)
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			s.SetVariable("it", c.is)
			rig.Must(t, s.Apply(t.Context(), pl))
			after, err := s.Plan(t.Context())
			rig.Must(t, err)
			if !after.Empty() {
				t.Errorf("the plan after the apply:\n%sit was planned:\n%s", after, pl)
			}
		})
	}
}
