package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestPendingByHandInAGroup: an administrator changes a running VM in a group or a map of which the configuration sets
// other parts, and the change waits for the next start. The unchanged configuration plans nothing. A change of the
// configuration itself is put in force as soon as its policy allows a restart.
func TestPendingByHandInAGroup(t *testing.T) {
	t.Parallel()
	const body = "cpu = { cores = 2 }\nmemory = { size = 512 }\ncdroms = { ide0 = { file = \"none\" } }\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, sata1 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	again := rig.NewVM(t, body).Again()
	for option, value := range map[string]string{"sockets": "2", "balloon": "256", "numa": "1", "sata3": "", "ide2": "local:iso/debian.iso,media=cdrom"} {
		t.Run(option, func(t *testing.T) {
			l := again(t)
			l.Guest(func(world *state.World, g *state.Guest) {
				wants := value
				if wants == "" {
					wants = putDisk(world, g, option) + ",size=1G"
					delete(g.Config, option)
				}
				g.Pending = map[string]string{option: wants}
			})
			if pl := l.Plan(body); !pl.Empty() {
				t.Errorf("the plan is\n%s", pl)
			}
			l.WantOffs()
		})
	}
	for name, c := range map[string]struct{ before, after string }{
		"a new value":     {body, strings.Replace(body, "cores = 2", "cores = 2, sockets = 2", 1)},
		"another value":   {body, strings.Replace(body, "cores = 2", "cores = 4", 1)},
		"a removed value": {strings.Replace(body, "cores = 2", "cores = 2, sockets = 2", 1), body},
		"a removed disk":  {body, strings.Replace(body, ", sata1 = { storage = \"local-zfs\", size = \"1G\" }", "", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			l := rig.NewVM(t, c.before)
			l.To(c.after + "reboot_policy = \"never\"\n")
			l.WantOffs()
			l.To(c.after + "description = \"x\"\nreboot_policy = \"never\"\n")
			l.WantOffs()
			l.To(c.after)
			l.WantOffs(state.PowerReboot)
		})
	}
}
