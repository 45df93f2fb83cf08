package kill_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestKilledMoveOfACloudInitDrive: a running guest has the old cloud-init drive open, so PVE does not free it at the end of a move, and the
// provider is killed before it does. PVE gives the drive of a VM one name: the next drive on that storage frees the old one.
func TestKilledMoveOfACloudInitDrive(t *testing.T) {
	t.Parallel()
	const left = "local-zfs:vm-400-cloudinit"
	config := func(storage, more string) string {
		return rig.NodeVMBlock("disks = { scsi0 = { storage = \"local-lvm\", size = \"1G\" } }\n" + more +
			"cloud_init = { storage = \"" + storage + "\", user = \"a\" }\n")
	}
	for name, c := range map[string]struct {
		at     string
		before string // a configuration before the drive comes back
		disk   string // another one, which comes with it
	}{
		"after the move":          {at: "POST /nodes/pve1/qemu/400/move_disk"},
		"after the regeneration":  {at: "PUT /nodes/pve1/qemu/400/cloudinit"},
		"a new drive":             {at: "PUT /nodes/pve1/qemu/400/cloudinit", before: "none"},
		"a new drive and a disk":  {at: "PUT /nodes/pve1/qemu/400/cloudinit", before: "none", disk: ", ide0 = { storage = \"local-lvm\", size = \"1G\" }"},
		"a new drive of a VM off": {at: "POST /nodes/pve1/qemu/400/move_disk", before: rig.Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newKillBench(t, rig.TokenNoSSH)
			b.unkilled()
			if c.before != "" {
				b.w.ExpectPowerOffs(state.PowerShutdown, state.PowerReboot)
			}
			b.s.TrustPlans = true
			b.configure(t, config("local-zfs", ""))
			rig.Must(t, b.s.Run(t.Context()))
			b.configure(t, config("local-lvm", ""))
			pl, err := b.s.Plan(t.Context())
			rig.Must(t, err)
			if !b.kill(t, engine.Moment{Request: c.at, Nth: 1, Served: true}, func() error { return b.s.Apply(t.Context(), pl) }) {
				t.Fatal("not killed")
			}
			isThere := func() (is bool) {
				b.w.Change(func(world *state.World) { is = world.Volume("pve1", left) != nil })
				return is
			}
			b.w.Sim.Advance(time.Minute)
			rig.Must(t, b.s.Run(t.Context()))
			if !isThere() {
				t.Fatal("the old drive is not there any more: the test shows nothing")
			}
			switch c.before {
			case "":
			case "none":
				body, _, _ := strings.Cut(config("local-lvm", ""), "cloud_init = ")
				b.configure(t, body+"}\n")
				rig.Must(t, b.s.Run(t.Context()))
				b.w.Sim.Advance(time.Minute)
			default:
				b.configure(t, config("local-lvm", c.before))
				rig.Must(t, b.s.Run(t.Context()))
			}
			b.configure(t, strings.Replace(config("local-zfs", strings.TrimPrefix(c.before, "none")), "\"1G\" }", "\"1G\" }"+c.disk, 1))
			if err := b.s.Run(t.Context()); err != nil {
				t.Fatalf("back: %v", err)
			}
			b.w.Sim.Advance(time.Minute)
			if pl, err := b.s.Plan(t.Context()); err != nil || !pl.Empty() {
				t.Errorf("%v, planned %s", err, pl)
			}
			if drive := rig.GuestOf(b.w, 400).Config["ide2"]; !strings.HasPrefix(drive, left) {
				t.Errorf("the drive is %s", drive)
			}
			b.w.Change(func(world *state.World) {
				for key := range world.Volumes {
					if strings.HasPrefix(key.Name, "vm-400-disk-") && !strings.Contains(fmt.Sprint(world.Guests[400].Config), key.Name) {
						t.Errorf("%s is in no slot", key.Name)
					}
				}
				if unused := world.Guests[400].Config["unused0"]; unused != "" {
					t.Errorf("%s is left", unused)
				}
			})
		})
	}
}

// TestCloudInitDriveInTheWayOnASharedStorage: a volume with the name of the drive may be another cluster's there. It is named, and stays.
func TestCloudInitDriveInTheWayOnASharedStorage(t *testing.T) {
	t.Parallel()
	config := func(storage string) string {
		return rig.NodeVMBlock("disks = { scsi0 = { storage = \"local-lvm\", size = \"1G\" } }\ncloud_init = { storage = \"" + storage + "\", user = \"a\" }\n")
	}
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, config("local-zfs"))
	rig.Must(t, s.Converge(t.Context()))
	theirs := &state.Volume{Storage: "shared-nfs", Name: "400/vm-400-cloudinit.raw", VMID: 400, Content: "images", Format: "raw", Size: 4 << 20}
	w.Change(func(world *state.World) { world.Put(theirs) })
	w.Reconfigure(t, s, rig.TokenNoSSH, config("shared-nfs"))
	err := s.Run(t.Context())
	rig.MustSay(t, err, theirs.Volid()+" is in the way of the cloud-init drive", "`pvesm free "+theirs.Volid()+"`", "another cluster")
	if strings.Contains(err.Error(), "on_orphaned_volumes") {
		t.Errorf("names an attribute of creates: %v", err)
	}
	w.Change(func(world *state.World) {
		if world.Volume("pve1", theirs.Volid()) == nil {
			t.Error("it was removed")
		}
	})
}
