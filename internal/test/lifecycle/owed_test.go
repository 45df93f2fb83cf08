package lifecycle_test

import (
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestRestartThatIsOwed: with reboot_policy = "never" a removal waits for a restart that no apply makes. Without it the
// next apply restarts the guest, once, and nothing waits any more.
func TestRestartThatIsOwed(t *testing.T) {
	t.Parallel()
	const disk = "scsi0 = { storage = \"local-zfs\", size = \"1G\" }"
	const one = "disks = { " + disk + " }\n"
	for name, was := range map[string]string{
		"disk":       "disks = { " + disk + ", sata1 = { storage = \"local-zfs\", size = \"1G\" } }\n",
		"CD-ROM":     one + "cdroms = { ide0 = { file = \"local:iso/debian.iso\" } }\n",
		"cloud-init": one + "cloud_init = { storage = \"local-zfs\", user = \"a\" }\n",
		"part":       one + "cpu = { cores = 1, sockets = 2 }\n",
		"group":      one + "watchdog = { model = \"i6300esb\" }\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			configure := func(s *terraformtest.Session, lines string) {
				w.Reconfigure(t, s, rig.RootTicket, rig.NodeVMBlock("power_state = \"running\"\n"+lines))
				rig.Must(t, s.Converge(t.Context()))
			}
			s := w.Session(t, rig.RootTicket, "")
			configure(s, "reboot_policy = \"never\"\n"+was)
			is := one
			if name == "part" {
				is += "cpu = { cores = 1 }\n"
			}
			configure(s, "reboot_policy = \"never\"\n"+is)
			if waits := terraformtest.ShowValue(s.Attr(rig.VMAddress, "pending_changes")); waits == "[]" {
				t.Fatal("nothing waits for a restart")
			}
			w.Sim.ResetPowerOffs()
			configure(s, is)
			if waits, offs := terraformtest.ShowValue(s.Attr(rig.VMAddress, "pending_changes")), w.Sim.PowerOffs(); waits != "[]" ||
				len(offs) != 1 {
				t.Errorf("%s waits after %v", waits, offs)
			}
		})
	}
}
