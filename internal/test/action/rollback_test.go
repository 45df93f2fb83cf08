package action_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestRollBackPastAYoungerSnapshot: ZFS, and disks with chains of volumes, go back to their newest snapshot only. The action names the younger
// ones and says that nothing was done, on ZFS before it tells of any loss. A younger snapshot without the disk is not in the way.
func TestRollBackPastAYoungerSnapshot(t *testing.T) {
	t.Parallel()
	const younger = "cannot be taken back past younger snapshots (second, third)"
	for name, c := range map[string]struct {
		refused  bool
		announce bool
		then     func(a *actor)
		says     string
	}{
		"on ZFS": {refused: true},
		"of zfs itself": {refused: true, announce: true, says: "`zfs list -t snapshot -s creation` on node pve1", then: func(a *actor) {
			a.w.Change(func(world *state.World) {
				g := world.Guests[500]
				file, _, _ := strings.Cut(g.Config["scsi0"], ",")
				delete(g.Snaps["second"], "scsi0")
				delete(g.Snaps["third"], "scsi0")
				world.Volume("pve1", file).Snaps = []string{"first", "autosnap_daily"}
			})
		}},
		"of another disk alone": {then: func(a *actor) {
			a.w.Change(func(world *state.World) {
				g := world.Guests[500]
				file, _, _ := strings.Cut(g.Config["scsi0"], ",")
				delete(g.Snaps["second"], "scsi0")
				delete(g.Snaps["third"], "scsi0")
				world.Volume("pve1", file).Snaps = []string{"first"}
			})
		}},
		"a storage that only PVE knows": {refused: true, announce: true, then: func(a *actor) {
			a.w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback"},
				Phase: fault.Before, Status: 500, Reason: "can't rollback, 'first' is not most recent snapshot on 'vm-500-disk-0.qcow2'"}})
			a.w.Change(func(world *state.World) {
				for _, name := range []string{"second", "third"} {
					delete(world.Guests[500].Snaps[name], "scsi0")
				}
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newActor(t, rig.RootTicket)
			for _, snapshot := range []string{"first", "second", "third"} {
				rig.RunTask(t, a.w, "/nodes/pve1/qemu/500/snapshot", "snapname="+snapshot)
				a.w.Sim.Advance(2 * time.Second)
			}
			if c.then != nil {
				c.then(a)
			}
			a.w.ExpectPowerOffs(state.PowerRollback)
			told, err := rig.Invoke(t, a.s, "proxmox_vm_snapshot_rollback", "vmid = 500\nname = \"first\"", nil)
			if !c.refused {
				rig.Must(t, err)
				return
			}
			rig.MustSay(t, err, cmp.Or(c.says, younger), "Nothing was done")
			if announced := strings.Contains(told, "is lost"); announced != c.announce || a.guest() != "running" {
				t.Errorf("told %q, the guest is %s", told, a.guest())
			}
		})
	}
}
