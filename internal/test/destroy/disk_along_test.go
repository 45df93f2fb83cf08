package destroy_test

import (
	"fmt"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestPlanOfADiskNamesWhatGoesWithIt: a VM holds a proxmox_disk, and an administrator takes a snapshot of it, has a job back it up, and lets
// another user see it. The plan of a destroy or of a replacement names all that goes, like that of a VM; after -replace, of which Terraform
// shows no warning, the destroy does. A snapshot that was taken since the plan is not destroyed.
func TestPlanOfADiskNamesWhatGoesWithIt(t *testing.T) {
	t.Parallel()
	const job, has, went = "backup job nightly, removed", "goes with more than its disks", "VM 300 went with more than its disks"
	disk := rig.DiskBlock(rig.SmallDisk)
	for name, c := range map[string]struct {
		to                  string
		taint, forced, late bool
		planned, says, not  []string
	}{
		"destroy": {planned: []string{job, has, "snapshot theirs"}, not: []string{went, "on_destroy"}},
		"taint": {to: disk, taint: true, planned: []string{job, "snapshot theirs", "permissions on /vms/300"},
			says: []string{job, went}},
		"-replace":                      {to: disk, forced: true, says: []string{job, went}},
		"taken since":                   {late: true, planned: []string{"snapshot theirs"}},
		"an unchanged one":              {to: disk},
		"an unchanged one, and another": {to: disk + "resource \"proxmox_disk\" \"b\" {\n  node = \"pve1\"\n  vmid = 301\n  " + rig.SmallDisk + "\n}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
			s := w.Session(t, rig.RootTicket, disk)
			rig.Must(t, s.Converge(t.Context()))
			snap := func(name string) {
				w.Change(func(world *state.World) { world.Guests[300].Snaps[name] = map[string]string{"snaptime": "1700000000"} })
			}
			w.Change(func(world *state.World) {
				world.Guests[300].Snaps = map[string]map[string]string{}
				world.Backups = map[string]*state.BackupJob{"nightly": {ID: "nightly", VMIDs: []int{300}, Storage: "local"}}
				world.ACL = append(world.ACL, state.ACLEntry{Path: "/vms/300", Subject: "auditor@pve", Role: "PVEVMUser"})
			})
			snap("theirs")
			w.Reconfigure(t, s, rig.RootTicket, c.to)
			var options []terraformtest.PlanOption
			if c.taint {
				s.Taint(rig.DiskAddress, true)
			} else if c.forced {
				options = append(options, terraformtest.Replacing(rig.DiskAddress))
			}
			plan, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			not := []string{"on_destroy"}
			if len(c.planned) == 0 {
				not = append(not, "theirs", "nightly")
			}
			wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), c.planned, not)
			if c.late {
				snap("since")
				rig.MustSay(t, s.Apply(t.Context(), plan), "has a snapshot that the plan does not name")
				plan, err = s.Plan(t.Context())
				rig.Must(t, err)
				wantSaid(t, "the next plan", fmt.Sprint(s.Diagnostics()), []string{"snapshot since", "snapshot theirs"}, nil)
			}
			rig.Must(t, s.Apply(t.Context(), plan))
			wantSaid(t, "the apply", fmt.Sprint(s.Diagnostics()), c.says, c.not)
		})
	}
}
