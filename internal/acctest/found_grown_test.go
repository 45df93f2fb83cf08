package acctest_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestFound23GrownByHand: a disk that has grown by hand stops no plan, no change of something else and no destroy.
func TestFound23GrownByHand(t *testing.T) {
	t.Parallel()
	const body = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	l := newLife(t, body)
	l.guest(func(world *state.World, g *state.Guest) {
		g.Config["scsi0"] = strings.Replace(g.Config["scsi0"], "size=1G", "size=3G", 1)
		for _, v := range world.Volumes {
			if v.VMID == 400 {
				v.Size = 3 << 30
			}
		}
	})
	if pl := l.plan(body); !pl.Empty() {
		t.Errorf("planned:\n%s", pl)
	}
	l.warned("scsi0", "3G, not 1G", `ignore_changes = [disks["scsi0"].size]`)
	l.to("description = \"x\"\n" + body)
	l.steady()
	l.refuses("description = \"x\"\n"+strings.Replace(body, "1G", "2G", 1), "cannot be shrunk", "ignore_changes")
	l.configure("description = \"x\"\n" + body)
	if err := l.s.Destroy(t.Context()); err != nil {
		t.Errorf("the destroy fails: %v", err)
	}
	l.guestIsGone()
}

func (l *life) guestIsGone() {
	l.Helper()
	l.w.Change(func(world *state.World) {
		if world.Guests[400] != nil {
			l.Error("the VM is still there")
		}
	})
}
