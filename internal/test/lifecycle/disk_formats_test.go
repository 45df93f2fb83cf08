package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDiskMovesToBlockStorage: what moves from a directory with qcow2 to a storage that has raw only, where no configuration has
// configured a format, moves once. The simulator, as PVE, refuses a second move.
func TestDiskMovesToBlockStorage(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"disk":             `disks = { scsi0 = { storage = "STORAGE", size = "1G" FORMAT } }`,
		"EFI disk":         "bios = \"ovmf\"\nefi_disk = { storage = \"STORAGE\" FORMAT }\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }",
		"cloud-init drive": "cloud_init = { storage = \"STORAGE\", user = \"me\" }\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }",
	}
	formats := map[string]string{"disk": `, format = "qcow2"`, "EFI disk": `, format = "qcow2"`}
	for name, body := range bodies {
		for _, to := range []string{"local-zfs", "local-lvm"} {
			for _, power := range []string{"", rig.Stopped} {
				t.Run(strings.TrimSpace(name+" to "+to+" "+power), func(t *testing.T) {
					t.Parallel()
					on := func(storage, format string) string {
						return power + strings.NewReplacer("STORAGE", storage, " FORMAT", format).Replace(body) + "\n"
					}
					l := rig.NewVM(t, on("local", formats[name]))
					l.To(on(to, ""))
					moves := 0
					for _, op := range l.World.Sim.Ops() {
						if strings.HasSuffix(op.Path, "/move_disk") {
							moves++
						}
					}
					if moves != 1 {
						t.Errorf("moved %d times", moves)
					}
					l.WantRunning()
				})
			}
		}
	}
}

// TestDiskFormatThatTheStorageLacks: a format that is configured and that the storage does not have is an error once the disk
// is there, never a second move. The next apply without it changes nothing.
func TestDiskFormatThatTheStorageLacks(t *testing.T) {
	t.Parallel()
	disk := func(storage, format string) string {
		return `disks = { scsi0 = { storage = "` + storage + `", size = "1G"` + format + " } }\n"
	}
	l := rig.NewVM(t, disk("local", `, format = "qcow2"`))
	l.Fails(disk("local-zfs", `, format = "qcow2"`), "has no format qcow2 on storage local-zfs")
	l.To(disk("local-zfs", ""))
	l.WantRunning()
}

// TestPlanTellsThatAReplicatedVMGetsNoSuchDisk: PVE adds no disk to a VM with a replication job that it cannot replicate,
// and says so only once the apply has come to the options. Other disks are added without a word.
func TestPlanTellsThatAReplicatedVMGetsNoSuchDisk(t *testing.T) {
	t.Parallel()
	vm := func(more string) string {
		return rig.NodeVMBlock(rig.Stopped + "\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }\n" + more + "}")
	}
	for name, c := range map[string]struct {
		more              string
		unreplicated, bad bool
	}{
		"on LVM":                 {more: `scsi1 = { storage = "local-lvm", size = "1G" }`, bad: true},
		"on LVM, not replicated": {more: `scsi1 = { storage = "local-lvm", size = "1G", replicate = false }`},
		"on ZFS":                 {more: `scsi1 = { storage = "local-zfs", size = "1G" }`},
		"on a share":             {more: `scsi1 = { storage = "shared-nfs", size = "1G" }`},
		"without a job":          {more: `scsi1 = { storage = "local-lvm", size = "1G" }`, unreplicated: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, vm(""))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				for vmid := range world.Guests {
					id := fmt.Sprintf("%d-0", vmid)
					if !c.unreplicated {
						world.Replication[id] = &state.ReplicationJob{ID: id, Guest: vmid, Target: "pve2"}
					}
				}
			})
			w.Reconfigure(t, s, rig.TokenNoSSH, vm(c.more))
			_, err := s.Plan(t.Context())
			rig.Must(t, err)
			said := s.Diagnostics().String()
			if strings.Contains(said, "is replicated and gets no scsi1") != c.bad {
				t.Errorf("the plan says %q", said)
			}
			if err := s.Run(t.Context()); (err != nil) != c.bad {
				t.Errorf("the apply: %v", err)
			}
		})
	}
}

// TestPlanTellsThatAReplicatedVMDoesNotMoveThere: PVE migrates a running VM with replication jobs only to the target of one, also where HA manages it,
// and says so only once the apply has come to the migration. One that is to be off migrates anywhere.
func TestPlanTellsThatAReplicatedVMDoesNotMoveThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more, targets string
		bad           bool
	}{
		"to another node":            {"", "pve3", true},
		"to another node, under HA":  {"ha = { state = \"started\" }\n", "pve3", true},
		"to the target":              {"", "pve2", false},
		"to the target of the other": {"", "pve3 pve2", false},
		"switched off":               {rig.Stopped, "pve3", false},
		"without a job":              {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := threeNodes(t)
			w.ExpectPowerOffs(state.PowerShutdown)
			block := func(node, more string) string {
				return rig.VMBlock(fmt.Sprintf("vmid = 400\nnode = %q\nname = \"x\"\n%sdisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n", node,
					more))
			}
			ha := c.more
			if ha == rig.Stopped {
				ha = ""
			}
			s := w.Session(t, rig.RootTicket, block("pve1", ha))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				for i, target := range strings.Fields(c.targets) {
					id := fmt.Sprintf("400-%d", i)
					world.Replication[id] = &state.ReplicationJob{ID: id, Guest: 400, Target: target, Schedule: "*/15"}
				}
			})
			w.Reconfigure(t, s, rig.RootTicket, block("pve2", c.more))
			pl, err := s.Plan(t.Context())
			rig.Must(t, err)
			said := strings.Contains(pl.Diagnostics.String(), "VM 400 is replicated, and is not migrated to node pve2 while it runs")
			if err := s.Apply(t.Context(), pl); said != c.bad || (err != nil) != c.bad {
				t.Errorf("said %t: %s; the apply: %v", said, pl.Diagnostics, err)
			}
		})
	}
}

// TestGrowthOfAVolumeThatHasTheSize: an earlier growth was cut off when it had grown the volume, or the volume was grown on its node. PVE's
// resize ends well then and writes nothing. The VM has the size after one apply, and a running guest is said to need a restart.
func TestGrowthOfAVolumeThatHasTheSize(t *testing.T) {
	t.Parallel()
	for _, power := range []string{"", rig.Stopped} {
		for _, storage := range []string{"local-zfs", "local-lvm"} {
			t.Run(storage+power, func(t *testing.T) {
				t.Parallel()
				body := func(size string) string {
					return power + "disks = {\nscsi0 = { storage = \"" + storage + "\", size = \"" + size + "\", backup = false }\n" +
						"scsi1 = { storage = \"" + storage + "\", size = \"" + size + "\" }\n}\n"
				}
				l := rig.NewVM(t, body("2G"))
				l.Guest(func(world *state.World, g *state.Guest) { world.Volume("pve1", l.File(g, "scsi0")).Size = 3 << 30 })
				l.Configure(body("3G"))
				l.World.ResetCalls()
				rig.Must(t, l.Session.Run(t.Context()))
				l.WantSent("PUT resize disk=scsi0 size=3G", "PUT resize disk=scsi1 size=3G", "PUT config scsi0")
				said := l.Session.Diagnostics().String()
				if tells := strings.Contains(said, "may not see the new size of scsi0 before its restart"); tells != (power == "") {
					t.Errorf("said %q", said)
				}
				if is := l.Config()["scsi0"]; !strings.Contains(is, "size=3G") || !strings.Contains(is, "backup=0") || l.Attr("disks.scsi0.size") != "3G" {
					t.Errorf("%s, state %s", is, l.Attr("disks.scsi0.size"))
				}
				if pl := l.Plan(body("3G")); !pl.Empty() || len(l.Waiting()) > 0 {
					t.Errorf("planned %s, waits %v", pl, l.Waiting())
				}
			})
		}
	}
}

// TestOldMachineOnAStorageOfChains: PVE starts no guest of a machine before 10.0 from a qcow2 disk on a storage with
// snapshot-as-volume-chain. The plan says so before a disk moves there, or a VM is replaced by one on it.
func TestOldMachineOnAStorageOfChains(t *testing.T) {
	t.Parallel()
	const old, chained = "machine = \"pc-q35-9.2\"\n", "disks = { scsi0 = { storage = \"chain\", format = \"qcow2\", size = \"1G\" } }\n"
	const plain = "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	for name, c := range map[string]struct {
		from, to string
		taint    bool
		fits     bool
	}{
		"a disk moves, and the guest starts": {from: old + plain + "power_state = \"stopped\"\n", to: old + chained + "power_state = \"running\"\n"},
		"a disk of a running guest moves":    {from: old + plain, to: old + chained},
		"it stays off":                       {from: old + plain + "power_state = \"stopped\"\n", to: old + chained + "power_state = \"stopped\"\n", fits: true},
		"the VM is replaced":                 {from: old + plain, to: old + chained, taint: true},
		"a new enough machine":               {from: plain, to: chained, taint: true, fits: true},
		"the machine gets older":             {from: chained, to: old + chained},
		"nothing of it changes":              {from: old + chained + "power_state = \"stopped\"\n", to: old + chained + "power_state = \"stopped\"\ntags = [\"a\"]\n", fits: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				world.Storages["chain"] = &state.Storage{ID: "chain", Type: "dir", Path: "/mnt/chain", Content: []string{"images"}, Total: 1 << 40,
					Options: map[string]string{"snapshot-as-volume-chain": "1"}}
			})
			const base = "name = \"x\"\nnode = \"pve1\"\nvmid = 400\n"
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(base+c.from))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(base+c.to))
			s.Taint(rig.VMAddress, c.taint)
			pl, err := s.Plan(t.Context())
			if !c.fits {
				rig.MustSay(t, err, "Machine pc-q35-9.2 cannot run from storage chain", "snapshot-as-volume-chain")
				return
			}
			rig.Must(t, err)
			rig.Must(t, s.Apply(t.Context(), pl))
		})
	}
}
