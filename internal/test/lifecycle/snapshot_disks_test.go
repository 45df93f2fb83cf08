package lifecycle_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDisksOfSnapshotsOfADestroyedVM: a third party gives a VM a disk, takes a snapshot, and takes the disk out again.
// The disk stays, and a warning names it. One that the VM had in state when the snapshot was taken goes.
func TestDisksOfSnapshotsOfADestroyedVM(t *testing.T) {
	t.Parallel()
	two := strings.Replace(madeVM, "scsi0 = {", "scsi1 = { storage = \"local-zfs\", size = \"2G\" }, scsi0 = {", 1)
	snapshot := func(g *state.Guest, without string) {
		g.Snaps = map[string]map[string]string{"one": maps.Clone(g.Config)}
		g.Snaps["one"]["snaptime"], g.Config["parent"] = "1767225600", "one"
		delete(g.Config, without)
	}
	for name, c := range map[string]struct {
		planned, since func(*state.World, *state.Guest) // done before the plan, and after it
		known          bool
	}{
		"detached": {since: func(world *state.World, g *state.Guest) {
			theirs := putDisk(world, g, "scsi5")
			snapshot(g, "scsi5")
			g.Config["unused0"] = theirs
		}},
		"detached, before the plan": {planned: func(world *state.World, g *state.Guest) {
			theirs := putDisk(world, g, "scsi5")
			snapshot(g, "scsi5")
			g.Config["unused0"] = theirs
		}},
		"the snapshot alone": {since: func(world *state.World, g *state.Guest) {
			putDisk(world, g, "scsi5")
			snapshot(g, "scsi5")
		}},
		"ours, detached": {planned: func(_ *state.World, g *state.Guest) {
			g.Config["unused0"] = strings.Split(g.Config["scsi1"], ",")[0]
			snapshot(g, "scsi1")
		}, known: true},
		"ours, the snapshot alone": {since: func(_ *state.World, g *state.Guest) { snapshot(g, "scsi1") }, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(two))
			rig.Must(t, s.Converge(t.Context()))
			change := func(by func(*state.World, *state.Guest)) {
				if by != nil {
					w.Change(func(world *state.World) { by(world, world.Guests[400]) })
				}
			}
			change(c.planned)
			if c.since != nil { // else the destroy refuses a snapshot that was taken since
				w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/snapshot"}, Times: -1, Phase: fault.Before, Status: 403}})
			}
			planned, err := s.Plan(t.Context(), terraformtest.ToDestroy())
			rig.Must(t, err)
			w.Sim.SetFaults(nil)
			change(c.since)
			rig.Must(t, s.Apply(t.Context(), planned))
			said := strings.Count(s.Diagnostics().String(), "vm-400-by-hand-scsi5")
			left := strings.Join(rig.TracesOf(w, 400), " ")
			if stays := strings.Contains(left, "vm-400-by-hand-scsi5"); stays == c.known || said != map[bool]int{false: 1}[c.known] ||
				c.known && left != "" {
				t.Errorf("left: %s; said %d times: %s", left, said, s.Diagnostics())
			}
		})
	}
}

// TestCloudInitDriveOfASnapshot: the VM has let go of its cloud-init drive, and PVE has freed it. A snapshot that names it
// makes no disk of others of it.
func TestCloudInitDriveOfASnapshot(t *testing.T) {
	t.Parallel()
	const drive = "cloud_init = { storage = \"local-zfs\", user = \"a\" }\n"
	for name, next := range map[string]string{"removed": "", "moved": strings.Replace(drive, "local-zfs", "local-lvm", 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(madeVM+drive))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				g := world.Guests[400]
				g.Snaps = map[string]map[string]string{"one": maps.Clone(g.Config)}
				g.Snaps["one"]["snaptime"], g.Config["parent"] = "1767225600", "one"
			})
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.VMBlock(madeVM+next))
			rig.Must(t, s.Converge(t.Context()))
			planned, err := s.Plan(t.Context(), terraformtest.ToDestroy())
			rig.Must(t, err)
			rig.Must(t, s.Apply(t.Context(), planned))
			if left, said := rig.TracesOf(w, 400), s.Diagnostics().String(); len(left) > 0 || strings.Contains(said, "cloudinit") {
				t.Errorf("left %v; said %s", left, said)
			}
		})
	}
}

// TestDeviceOfASnapshot: another VM has the device of a snapshot, to get files out of it. Neither the snapshot nor its VM
// is destroyed under it, since PVE asks for no user of that. One of another snapshot goes.
func TestDeviceOfASnapshot(t *testing.T) {
	t.Parallel()
	config := strings.ReplaceAll(withSnapshot(rig.Stopped, ""), "local-zfs", "local-lvm")
	alone, _, _ := strings.Cut(config, "resource \"proxmox_vm_snapshot")
	for device, c := range map[string]struct{ snapshot, vm bool }{ // is it refused
		"/dev/pve/snap_vm-200-disk-0_before":           {true, true},
		"/dev/mapper/pve-snap_vm--200--disk--0_before": {true, true},
		"/dev/pve/snap_vm-200-disk-0_other":            {false, true},
		"/dev/pve/snap_vm-201-disk-0_before":           {false, false},
	} {
		for what, refused := range map[string]bool{"snapshot": c.snapshot, "VM": c.vm} {
			t.Run(what+device, func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				s := w.Session(t, rig.TokenNoSSH, config)
				rig.Must(t, s.Converge(t.Context()))
				w.Change(func(world *state.World) {
					world.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: "pve1", Config: map[string]string{
						"name": "other", "memory": "512", "scsi1": device + ",size=1G"}}
				})
				after := map[string]string{"snapshot": alone}[what]
				w.Reconfigure(t, s, rig.TokenNoSSH, after)
				err := s.Run(t.Context())
				left := rig.GuestOf(w, 200).Snaps["before"] != nil
				if what == "VM" && c.snapshot != c.vm { // the snapshot itself may go first
					left = rig.GuestOf(w, 200).Config != nil
				}
				if left != refused || (err != nil) != refused {
					t.Errorf("it is there: %t; said: %v", left, err)
				}
				if refused {
					rig.MustSay(t, err, "VM 600 (other) on node pve1 (scsi1")
				}
			})
		}
	}
}

// TestChainsKeepTheBaseOfALinkedClone: the disk of a template is to go to another storage or node, and PVE would free its
// base. A linked clone with a snapshot needs that, on a storage with snapshot-as-volume-chain, where no listing and no
// check of PVE's tells it: see TestDestroySparesTheBaseBelowAChain.
func TestChainsKeepTheBaseOfALinkedClone(t *testing.T) {
	t.Parallel()
	vm := func(node, storage string) string {
		return strings.Replace(rig.NodeVMBlock("template = true\npower_state = \"stopped\"\ndisks = { scsi0 = { storage = \""+storage+
			"\", size = \"1G\", format = \"qcow2\" } }\n"), `"pve1"`, `"`+node+`"`, 1)
	}
	for name, after := range map[string]string{"storage": vm("pve1", "local-two"), "node": vm("pve2", "local")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: "9.2", Violated: func(error) {}})
			w.Change(func(world *state.World) {
				world.Storages["local"].Content = append(world.Storages["local"].Content, "images")
				world.Storages["local"].Options = map[string]string{"snapshot-as-volume-chain": "1"}
				world.Storages["local-two"] = &state.Storage{ID: "local-two", Type: "dir", Path: "/mnt/two", Content: []string{"images"}, Total: 1 << 40}
			})
			s := w.Session(t, rig.RootTicket, vm("pve1", "local"))
			rig.Must(t, s.Converge(t.Context()))
			const clone = "local:400/base-400-disk-0.qcow2/401/vm-401-disk-0.qcow2,size=1G"
			w.Change(func(world *state.World) {
				world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "401/vm-401-disk-0.qcow2", VMID: 401, Content: "images", Format: "qcow2",
					Size: 1 << 30, Backing: "snap-before-vm-401-disk-0.qcow2"})
				world.Guests[401] = &state.Guest{VMID: 401, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "web", "memory": "512",
					"parent": "before", "scsi0": clone, "smbios1": "uuid=99999999-0000-0000-0000-000000000000", "meta": "creation-qemu=9.2.0,ctime=2"},
					Snaps: map[string]map[string]string{"before": {"scsi0": clone, "memory": "512", "snaptime": "1700000000"}}}
			})
			w.Reconfigure(t, s, rig.RootTicket, after)
			rig.MustSay(t, s.Run(t.Context()), "VM 401 (web) on node pve1 (scsi0, the linked clone local:400/base-400-disk-0.qcow2/401/")
			w.Change(func(world *state.World) {
				if world.Volume("pve1", "local:400/base-400-disk-0.qcow2") == nil {
					t.Error("the base is gone")
				}
			})
		})
	}
}

// TestPlanTellsThatASnapshotChainKeepsADisk: on a storage with snapshot-as-volume-chain (Proxmox VE 9) the snapshots of a
// qcow2 file are files of their own, and PVE migrates no such disk, whether its guest runs or not ("non-migratable
// snapshot exists", qemu-server QemuMigrate.pm scan_local_volumes).
func TestPlanTellsThatASnapshotChainKeepsADisk(t *testing.T) {
	t.Parallel()
	const snapshot = `
resource "proxmox_vm_snapshot" "s" {
  vmid = proxmox_vm.x.vmid
  name = "before"
}
`
	vm := func(head string) string {
		return rig.NodeVMBlock(head+"\ndisks = { scsi0 = { storage = \"local\", size = \"1G\", format = \"qcow2\" } }") + snapshot
	}
	for name, head := range map[string]string{"off": rig.Stopped, "running": ""} {
		w := rig.NewWorld(t)
		w.Change(func(world *state.World) {
			world.Storages["local"].Content = append(world.Storages["local"].Content, "images")
			world.Storages["local"].Options = map[string]string{"snapshot-as-volume-chain": "1"}
		})
		s := w.Session(t, rig.TokenNoSSH, vm(head))
		rig.Must(t, s.Converge(t.Context()))
		w.Reconfigure(t, s, rig.TokenNoSSH, strings.Replace(vm(head), `"pve1"`, `"pve2"`, 1))
		_, err := s.Plan(t.Context())
		rig.Must(t, err)
		said := s.Diagnostics().String()
		if strings.Count(said, "Snapshot before keeps") != 1 || strings.Contains(said, "Or shut the VM down") {
			t.Errorf("%s: the plan says %q", name, said)
		}
		if err := s.Run(t.Context()); err == nil {
			t.Errorf("%s: it was migrated", name)
		}
	}
}

// TestRollBackNamesDetachedDisks: a roll-back detaches each disk that no drive of the snapshot has, and the action names it
// first: one in a slot that the snapshot has with another disk, too, and the state of a TPM. A disk that changed its slot
// is none of them.
func TestRollBackNamesDetachedDisks(t *testing.T) {
	t.Parallel()
	const first = `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "2G" } }` + "\n"
	for slot, change := range map[string]func(*state.World, *state.Guest) string{
		"scsi1": func(w *state.World, g *state.Guest) string {
			v := &state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-400-disk-9", VMID: 400, Content: "images", Format: "raw", Size: 5 << 30}
			w.Put(v)
			g.Config["scsi1"] = v.Volid() + ",size=5G"
			return "scsi1 (" + v.Volid() + ")"
		},
		"tpmstate0": func(w *state.World, g *state.Guest) string {
			v := &state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-9", VMID: 400, Content: "images", Format: "raw", Size: 4 << 20}
			w.Put(v)
			g.Config["tpmstate0"] = v.Volid() + ",size=4M,version=v2.0"
			return "tpmstate0 (" + v.Volid() + ")"
		},
		"": func(_ *state.World, g *state.Guest) string {
			g.Config["scsi7"] = g.Config["scsi1"]
			delete(g.Config, "scsi1")
			return ""
		},
	} {
		t.Run(slot, func(t *testing.T) {
			t.Parallel()
			l, want := rig.NewVM(t, rig.Stopped+first), ""
			l.World.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Snapshot, VMID: 400})
			l.Guest(func(w *state.World, g *state.Guest) { want = change(w, g) })
			told, err := rig.Invoke(t, l.Session, "proxmox_vm_snapshot_rollback", "vmid = 400\nname = \"thirdparty1\"\n", nil)
			rig.Must(t, err)
			const line = "Disks that came later are detached and kept as unusedN: "
			if want == "" && strings.Contains(told, line) || !strings.Contains(told, want) || want != "" && !strings.Contains(told, line+want) {
				t.Errorf("told:\n%s\nwant %q; then %v", told, want, l.Config())
			}
			if detached := l.Config()["unused0"]; (detached != "") != (want != "") || !strings.Contains(want, detached) {
				t.Errorf("unused0 is %q", detached)
			}
		})
	}
}

// TestDiskThatARollBackDropsIsNamed: a new disk waits for its place in a running guest, and a roll-back by hand drops it: PVE
// forgets the volume. The plan says where it is, and how it comes back or goes, and names another volume of its name nowhere.
func TestDiskThatARollBackDropsIsNamed(t *testing.T) {
	t.Parallel()
	body := func(second string) string {
		return "reboot_policy = \"never\"\ndisks = {\nscsi0 = { storage = \"local-zfs\", size = \"1G\" }\n" + second + "}\n"
	}
	waits := func(l *rig.VM) (volume string) {
		l.Guest(func(_ *state.World, g *state.Guest) { volume, _, _ = strings.Cut(g.Pending["sata1"], ",") })
		return volume
	}
	const again = "sata1 = { storage = \"local-zfs\", size = \"2G\" }\n"
	for name, grown := range map[string]int64{"it": 0, "another of its name": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, body(""))
			l.World.ExpectPowerOffs(state.PowerRollback)
			l.World.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Snapshot, VMID: 400})
			l.To(body(again))
			volume := waits(l)
			l.World.Sim.ThirdParty(thirdparty.Order{Act: thirdparty.Rollback, VMID: 400})
			l.Guest(func(w *state.World, g *state.Guest) { w.Volume(g.Node, volume).Size += grown })
			l.Plan(body(again))
			if grown > 0 {
				l.Warned(`disks["sata1"]`, "will be a new, empty disk", "another VM may have got it")
				return
			}
			l.Warned(`disks["sata1"]`, "will be a new, empty disk", volume, "still on its storage", "pvesm free "+volume, "disks.sata1.imported_disk")
			l.To(body("sata1 = { imported_disk = { volume = \"" + volume + "\" } }\n"))
			if is := l.Volume("sata1"); is != volume { // the roll-back has cut the guest off
				t.Errorf("sata1 has %q, not %s", is, volume)
			}
		})
	}
}
