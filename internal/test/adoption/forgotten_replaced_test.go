package adoption_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestReplacementTellsOfDisksNeverNamed: a VM with two disks is imported, and its configuration names one. A plan that replaces it
// says that the other disk is destroyed, and one of -replace, in which the VM's own plan knows nothing of a replacement, that this
// does. An apply without a replacement leaves the disk there.
func TestReplacementTellsOfDisksNeverNamed(t *testing.T) {
	t.Parallel()
	const own, disk = "node = \"pve1\"\nname = \"x\"\nvmid = 400\n", "{ storage = \"local-zfs\", size = \"1G\" }"
	for name, c := range map[string]struct {
		before, after string
		lost, replace bool
		says, never   string
	}{
		"a template, lost": {"template = true\n", "template = false\n", true, false, "  scsi1: local-zfs:base-400-disk-1", "stay on the VM"},
		"-replace":         {"", "", false, true, "-replace destroys disks", "stay on the VM as they are."},
		"-replace, lost":   {"", "", true, true, "-replace destroys disks", "stay on the VM."},
		"no replacement":   {"", "", false, false, "stay on the VM as they are, unless it is replaced", "are destroyed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			rig.Must(t, w.Session(t, rig.TokenNoSSH, rig.VMBlock(own+c.before+"disks = { scsi0 = "+disk+", scsi1 = "+disk+" }\n")).
				Converge(t.Context()))
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(own+c.after+"disks = { scsi0 = "+disk+" }\n"))
			rig.Must(t, s.Import(t.Context(), rig.VMAddress, "400"))
			if c.lost {
				rig.Must(t, s.Refresh(t.Context()))
				s.SetPrivate(rig.VMAddress, nil)
			}
			var with []terraformtest.PlanOption
			if c.replace {
				with = append(with, terraformtest.Replacing(rig.VMAddress))
			}
			pl, err := s.Plan(t.Context(), with...)
			rig.Must(t, err)
			if said := s.Diagnostics().String(); !strings.Contains(said, c.says) || strings.Contains(said, c.never) {
				t.Errorf("the plan says %s", said)
			}
			rig.Must(t, s.Apply(t.Context(), pl))
			if there := rig.GuestOf(w, 400).Config["scsi1"] != ""; there != (c.never == "are destroyed") {
				t.Errorf("the disk is there: %t", there)
			}
		})
	}
}
