package adoption_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestOrphanThatIsCopied: a volume that the VM before has left is the source of a disk, so on_orphaned_volumes = "destroy" destroys
// neither it, under whatever name, nor those beside it. The plan says so, or the create if the plan does
// not know the id.
func TestOrphanThatIsCopied(t *testing.T) {
	t.Parallel()
	const orphan, beside = "vm-200-disk-7", "vm-200-disk-8"
	put := func(w *rig.World) {
		w.Change(func(world *state.World) {
			twin := *world.Storages["local-zfs"]
			twin.ID, twin.Same = "a-alias", "local-zfs"
			world.Storages[twin.ID] = &twin
			for _, name := range []string{orphan, beside} {
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, Content: "images", VMID: 200, Format: "raw",
					Size: 528 << 10, Data: "precious"})
			}
		})
	}
	const disk = `disks = { scsi0 = { storage = "local-lvm", import_from = "SOURCE:vm-200-disk-7" } }`
	for name, c := range map[string]struct {
		body string
		late bool
	}{
		"disk":               {body: disk},
		"disk of a later id": {body: disk, late: true},
		"EFI disk": {body: `bios = "ovmf"` + "\n" +
			`efi_disk = { storage = "local-lvm", type = "4m", pre_enrolled_keys = false, import_from = "SOURCE:vm-200-disk-7" }`},
		"TPM": {body: `tpm_state = { storage = "local-lvm", version = "v2.0", import_from = "SOURCE:vm-200-disk-7" }`},
	} {
		for _, source := range []string{"local-zfs", "a-alias"} {
			t.Run(name+" from "+source, func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				vm := func(vmid string) string {
					return fmt.Sprintf("resource \"proxmox_vm\" \"x\" {\n  vmid = %s\n  node = \"pve1\"\n  power_state = \"stopped\"\n"+
						"  on_orphaned_volumes = \"destroy\"\n%s\n}\n", vmid, strings.ReplaceAll(c.body, "SOURCE", source))
				}
				put(w)
				first := vm("200")
				if c.late {
					first = vm("proxmox_vm.y.vmid > 0 ? 200 : 201") + strings.Replace(rig.VMBlock("node = \"pve1\""), `"x"`, `"y"`, 1)
				}
				s := w.Session(t, rig.RootTicket, first)
				pl, err := s.Plan(t.Context())
				if c.late {
					rig.Must(t, err)
					err = s.Apply(t.Context(), pl)
				}
				rig.MustSay(t, err, "Volumes of another VM 200 are still there", orphan, beside, "import_from names one of them", "imported_disk")
				if rig.DataOf(w, orphan) != "precious" || rig.DataOf(w, beside) != "precious" || rig.GuestOf(w, 200).VMID != 0 {
					t.Errorf("the source has %q, the other one %q, VM 200 is %v", rig.DataOf(w, orphan), rig.DataOf(w, beside), rig.GuestOf(w, 200))
				}
				w.Reconfigure(t, s, rig.RootTicket, vm("201")) // as the error says
				rig.Must(t, s.Converge(t.Context()))
				if rig.DataOf(w, "vm-201-disk-0") != "precious" || rig.DataOf(w, orphan) != "precious" {
					t.Errorf("VM 201 has %q, the source %q", rig.DataOf(w, "vm-201-disk-0"), rig.DataOf(w, orphan))
				}
			})
		}
	}
}
