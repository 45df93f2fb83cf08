package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDiskGrownByHand: a disk that has grown by hand stops no plan, no change of something else and no destroy.
func TestDiskGrownByHand(t *testing.T) {
	t.Parallel()
	const body = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	l := rig.NewVM(t, body)
	l.Guest(func(world *state.World, g *state.Guest) {
		g.Config["scsi0"] = strings.Replace(g.Config["scsi0"], "size=1G", "size=3G", 1)
		for _, v := range world.Volumes {
			if v.VMID == 400 {
				v.Size = 3 << 30
			}
		}
	})
	if pl := l.Plan(body); !pl.Empty() {
		t.Errorf("planned:\n%s", pl)
	}
	l.Warned(`disks["scsi0"].size`, "scsi0", "3G, not 1G", `ignore_changes = [disks["scsi0"].size]`)
	l.To("description = \"x\"\n" + body)
	l.WantRunning()
	l.Refuses("description = \"x\"\n"+strings.Replace(body, "1G", "2G", 1), `disks["scsi0"].size`, "cannot be shrunk", "ignore_changes")
	l.Configure("description = \"x\"\n" + body)
	if err := l.Session.Destroy(t.Context()); err != nil {
		t.Errorf("the destroy fails: %v", err)
	}
	l.GuestIsGone()
}
