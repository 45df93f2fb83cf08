package destroy_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestRestoredSinceThePlanIsNotDestroyed: between a plan and its apply an administrator restores the VM from a backup over
// itself. Names, sizes and uuid are the same, and the disks hold other data: the plan of their destruction is refused. The
// next plan destroys them.
func TestRestoredSinceThePlanIsNotDestroyed(t *testing.T) {
	t.Parallel()
	const one, two = `removed_disks = "destroy"
disks = { scsi0 = { storage = "local-lvm", size = "1G" } }
`, `removed_disks = "destroy"
disks = { scsi0 = { storage = "local-lvm", size = "1G" }, scsi1 = { storage = "local-lvm", size = "2G" } }
`
	for _, what := range []string{"destroyed", "replaced", "disk removed"} {
		l := rig.NewVM(t, two)
		rig.RunTask(t, l.World, "/nodes/pve1/vzdump", "vmid=400&storage=local")
		archive := ""
		l.World.Change(func(w *state.World) {
			for _, v := range w.Volumes {
				if v.Backup != nil && v.VMID == 400 {
					archive = v.Volid()
					for slot, drive := range v.Backup.Drives {
						drive.Data = "restored"
						v.Backup.Drives[slot] = drive
					}
				}
			}
		})
		plan := func() (*terraformtest.Plan, error) {
			if what == "destroyed" {
				return l.Session.Plan(t.Context(), terraformtest.ToDestroy())
			}
			return l.Session.Plan(t.Context())
		}
		switch what {
		case "replaced":
			l.Session.Taint(rig.VMAddress, true)
		case "disk removed":
			l.Configure(one)
		}
		pl, err := plan()
		rig.Must(t, err)
		l.World.Change(func(w *state.World) { w.Guests[400].Running = nil })
		rig.RunTask(t, l.World, "/nodes/pve1/qemu", "vmid=400&force=1&archive="+archive)
		l.World.Sim.ResetPowerOffs()
		restored := func() (disks int) {
			l.World.Change(func(w *state.World) {
				for _, v := range w.Volumes {
					if v.Content == "images" && v.Data == "restored" {
						disks++
					}
				}
			})
			return disks
		}
		err = l.Session.Apply(t.Context(), pl)
		if err == nil || !strings.Contains(err.Error(), "VM 400 was restored or rolled back since the plan") || restored() != 2 {
			t.Errorf("%s: %d of 2 disks are left: %v", what, restored(), err)
		}
		if pl, err = plan(); err == nil {
			err = l.Session.Apply(t.Context(), pl)
		}
		if err != nil || restored() == 2 {
			t.Errorf("%s: the next plan leaves %d of 2 disks: %v", what, restored(), err)
		}
	}
}
