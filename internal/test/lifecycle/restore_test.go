package lifecycle_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

func restoreWorld(t *testing.T, change func(*state.World)) *rig.World {
	t.Helper()
	w := rig.NewWorld(t)
	w.Change(func(world *state.World) {
		world.AddBackup("pve1")
		if change != nil {
			change(world)
		}
	})
	w.Mark()
	return w
}

func restoredVM(body string) string {
	return rig.VMBlock("node = \"pve1\"\nrestore = { archive = \"" + rig.WebBackup + "\" }\n" + body)
}

// TestRestoreLife makes a VM of a backup, changes it and destroys it, as every identity.
func TestRestoreLife(t *testing.T) {
	t.Parallel()
	for _, id := range rig.Identities() {
		t.Run(string(id), func(t *testing.T) {
			t.Parallel()
			w := restoreWorld(t, nil)
			s := w.Session(t, id, restoredVM(`protection = false
  disks = { scsi0 = { size = "4G", discard = true } }
  power_state = "running"`))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			vmid, err := strconv.Atoi(terraformtest.ShowValue(s.Attr("proxmox_vm.x", "vmid")))
			if err != nil {
				t.Fatal(err)
			}
			g := rig.GuestOf(w, vmid)
			if !strings.HasSuffix(g.Config["scsi0"], "discard=on,size=4G") || g.Config["description"] != "golden image" || g.Running == nil ||
				strings.Contains(g.Config["net0"], "BC:24:11:00:07:00") {
				t.Errorf("VM %d is %v", vmid, g.Config)
			}
			w.Reconfigure(t, s, id, restoredVM(`protection = false
  cpu = { cores = 2 }
  disks = { scsi0 = { size = "5G", discard = true } }
  description = "restored"
  power_state = "running"`))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			if is := rig.GuestOf(w, vmid); !strings.HasSuffix(is.Config["scsi0"], "size=5G") || is.Config["smbios1"] != g.Config["smbios1"] {
				t.Errorf("VM %d is %v", vmid, is.Config)
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.MustBeClean(t)
		})
	}
}

// TestRestorePlan: a backup that cannot be restored is refused before anything is made.
func TestRestorePlan(t *testing.T) {
	t.Parallel()
	server := &state.Storage{ID: "pbs", Type: "pbs", Shared: true, Content: []string{"backup"}, Total: 1 << 40}
	for name, c := range map[string]struct {
		change        func(*state.World)
		body          string
		archive, want string
	}{
		"no such backup":     {archive: "local:backup/vzdump-qemu-701-2026_01_01-00_00_00.vma.zst", want: "There is no local:backup/vzdump-qemu-701"},
		"of a container":     {archive: "local:backup/vzdump-lxc-701-2026_01_01-00_00_00.tar.zst", want: "backup of a container"},
		"no backup":          {archive: "local:iso/debian.iso", want: "no backup on a storage"},
		"no such storage":    {archive: "nowhere:backup/vm/700/2026-01-01T00:00:00Z", want: `Unknown storage "nowhere"`},
		"smaller than it is": {body: `disks = { scsi0 = { size = "1G" } }`, want: "scsi0"},
		"no privilege": {want: "VM.Backup on the VM", change: func(w *state.World) {
			w.Roles["TerraformProvider"] = rig.Except(w.Roles["TerraformProvider"], "VM.Backup")
		}},
		"its storage is gone": {want: "Set restore.storage", change: func(w *state.World) {
			v := state.WebBackup("pve1")
			v.Backup.Config["scsi1"] = "gone:vm-700-disk-1,size=1G"
			w.Put(v)
		}},
		"on a backup server, none": {archive: "pbs:backup/vm/700/2026-01-01T00:00:00Z", want: "There is no pbs:backup/vm/700",
			change: func(w *state.World) { w.Storages["pbs"] = server }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := restoreWorld(t, c.change)
			config := restoredVM(c.body)
			if c.archive != "" {
				config = strings.Replace(config, rig.WebBackup, c.archive, 1)
			}
			s := w.Session(t, rig.TokenNoSSH, config)
			if err := s.Run(t.Context()); err == nil || !strings.Contains(strings.Join(strings.Fields(err.Error()), " "), c.want) {
				t.Errorf("said %v, want %q", err, c.want)
			}
			w.MustBeClean(t)
		})
	}
}

// TestRestoreFromServer: a backup on a Proxmox Backup Server is restored like one in a file, and a killed restore is taken back.
func TestRestoreFromServer(t *testing.T) {
	t.Parallel()
	w := restoreWorld(t, func(w *state.World) {
		w.Storages["pbs"] = &state.Storage{ID: "pbs", Type: "pbs", Shared: true, Content: []string{"backup"}, Total: 1 << 40}
		v := state.WebBackup("pve1")
		v.Storage, v.Node, v.Name, v.Format = "pbs", "", "backup/vm/700/2026-01-01T00:00:00Z", "pbs-vm"
		w.Put(v)
	})
	config := strings.Replace(restoredVM("protection = false"), rig.WebBackup, "pbs:backup/vm/700/2026-01-01T00:00:00Z", 1)
	s := w.Session(t, rig.RootTicket, config)
	for _, phase := range []fault.Phase{fault.KillTask, fault.Task} {
		w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: phase}})
		if err := s.Run(t.Context()); err == nil || len(s.Addresses()) > 0 {
			t.Errorf("%s: said %v, in state %v", phase, err, s.Addresses())
		}
		w.MustBeClean(t)
	}
	w.Sim.SetFaults(nil)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}

// TestRestoreReplaces: another backup is another VM; on a VM that is there already restore is only recorded.
func TestRestoreReplaces(t *testing.T) {
	t.Parallel()
	const later = "local:backup/vzdump-qemu-700-2026_02_01-00_00_00.vma.zst"
	w := restoreWorld(t, func(w *state.World) {
		v := state.WebBackup("pve1")
		_, v.Name, _ = strings.Cut(later, ":")
		v.Backup.Config["description"] = "later"
		w.Put(v)
	})
	s := w.Session(t, rig.TokenNoSSH, restoredVM("vmid = 200\nprotection = false"))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	was := rig.GuestOf(w, 200).Config["smbios1"]
	w.Reconfigure(t, s, rig.TokenNoSSH, strings.Replace(restoredVM("vmid = 200\nprotection = false"), rig.WebBackup, later, 1))
	if pl, err := s.Plan(t.Context()); err != nil || !strings.Contains(pl.String(), "replace proxmox_vm.x") {
		t.Errorf("%v, %v", pl, err)
	}
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	is := rig.GuestOf(w, 200).Config
	if is["smbios1"] == was || is["description"] != "later" {
		t.Errorf("the VM is %v", is)
	}
	s.Forget("proxmox_vm.x")
	w.Reconfigure(t, s, rig.TokenNoSSH, restoredVM("vmid = 200\nprotection = false"))
	if err := s.Import(t.Context(), "proxmox_vm.x", "pve1/200"); err != nil {
		t.Fatal(err)
	}
	if err := s.Converge(t.Context()); err != nil || rig.GuestOf(w, 200).Config["smbios1"] != is["smbios1"] {
		t.Errorf("%v, and the VM is %v", err, rig.GuestOf(w, 200).Config)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}

// TestRestorePlanCannotLook: a backup that cannot be read at the moment is no reason to refuse the plan, and one that is gone by the time of
// the apply makes nothing.
func TestRestorePlanCannotLook(t *testing.T) {
	t.Parallel()
	w := restoreWorld(t, nil)
	s := w.Session(t, rig.TokenNoSSH, restoredVM("protection = false"))
	w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "GET", Path: "/nodes/{node}/vzdump/extractconfig"}, Phase: fault.Before, Times: -1}})
	if _, err := s.Plan(t.Context()); err != nil {
		t.Errorf("the plan says %v", err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Cannot read the backup") {
		t.Errorf("the apply says %v", err)
	}
	w.MustBeClean(t)
	w.Sim.SetFaults(nil)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}

// TestReplacementWhoseBackupIsGoneSinceThePlan: a nightly prune takes the backup between plan and apply. The destroy that begins the
// replacement looks for it once more, and leaves the old VM.
func TestReplacementWhoseBackupIsGoneSinceThePlan(t *testing.T) {
	t.Parallel()
	for name, pruned := range map[string]bool{"it is there": false, "it is gone": true} {
		w := restoreWorld(t, nil)
		s := w.Session(t, rig.TokenNoSSH, restoredVM("vmid = 400\nprotection = false\n"))
		rig.Must(t, s.Converge(t.Context()))
		s.Taint(rig.VMAddress, true)
		pl, err := s.Plan(t.Context())
		rig.Must(t, err)
		made := rig.GuestOf(w, 400).Config["smbios1"]
		w.Change(func(world *state.World) {
			for key, v := range world.Volumes {
				if pruned && v.Content == "backup" {
					delete(world.Volumes, key)
				}
			}
		})
		err = s.Apply(t.Context(), pl)
		if stays := rig.GuestOf(w, 400).Config["smbios1"] == made; stays != pruned || (err != nil) != pruned {
			t.Errorf("%s: the old VM stays: %t, %v", name, stays, err)
		}
		if pruned {
			rig.MustSay(t, err, "The storage does not list that backup any more", "Nothing was touched")
		}
	}
}

// TestReplacementWhoseBackupIsNotVerified: the backup server has found a damaged chunk in the backup, maybe before the plan. A replacement
// would destroy the old VM before the restore fails. A new VM loses nothing.
func TestReplacementWhoseBackupIsNotVerified(t *testing.T) {
	t.Parallel()
	w := restoreWorld(t, nil)
	const upid = "UPID:pbs:000A:0001:00000001:6A000000:verify_snapshot:x:root@pam:"
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.Content == "backup" {
				v.Unverified = upid
			}
		}
	})
	s := w.Session(t, rig.TokenNoSSH, restoredVM("vmid = 400\nprotection = false\n"))
	rig.Must(t, s.Converge(t.Context()))
	made := rig.GuestOf(w, 400).Config["smbios1"]
	s.Taint(rig.VMAddress, true)
	rig.MustSay(t, s.Run(t.Context()), "could not verify that backup", upid, "Nothing was touched")
	if now := rig.GuestOf(w, 400).Config["smbios1"]; now != made {
		t.Error("the old VM is gone")
	}
}

// TestRestoredOverItself plans, changes and destroys a VM while an administrator restores it over itself, or after that
// failed: PVE writes an empty configuration first (qemu-server QemuServer.pm restore_vma_archive,
// restore_proxmox_backup_archive). It is no third party's VM, and no advice is given to forget or adopt it.
func TestRestoredOverItself(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]string{"file": "", "backup server": "create"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := rig.NewVM(t, rig.OneDisk)
			var was map[string]string
			l.Guest(func(_ *state.World, g *state.Guest) {
				was, g.Config, g.Running = g.Config, map[string]string{"memory": "128"}, nil
				if lock != "" {
					g.SetLock(lock, "by hand")
				}
			})
			const says = "is being restored from a backup, or such a restore has failed"
			check := func(said string) {
				t.Helper()
				if !strings.Contains(said, says) || strings.Contains(said, "state rm") || strings.Contains(said, "import") {
					t.Errorf("said: %s", said)
				}
			}
			l.Configure(rig.OneDisk)
			plan, err := l.Session.Plan(t.Context())
			rig.Must(t, err)
			if !plan.Empty() {
				t.Errorf("the plan is %s", plan)
			}
			check(l.Session.Diagnostics().String())
			l.Configure(rig.OneDisk + "\ncpu = { cores = 2 }")
			check(fmt.Sprint(l.Session.Converge(t.Context())))
			check(fmt.Sprint(l.Session.Destroy(t.Context())))
			l.Guest(func(_ *state.World, g *state.Guest) {
				g.Config = was
				g.SetLock("", "")
			})
			l.To(rig.OneDisk + "\ncpu = { cores = 2 }")
		})
	}
}

// TestReplacementByItsOwnBackupTakesItsRights: PVE removes the permissions on a VMID, and those of its pool, together with the VM. An
// identity that has VM.Backup by these alone may not read the VM's own backup once the VM is destroyed: the plan says so.
func TestReplacementByItsOwnBackupTakesItsRights(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path  string
		holds bool
	}{
		"by the pool": {path: "/pool/web"}, "by the VMID": {path: "/vms/400"}, "by all VMs": {path: "/vms", holds: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				world.Roles["Backup"] = slices.Concat(world.Roles["TerraformProvider"], []string{"VM.Backup"})
				for _, who := range []string{"terraform@pve", "terraform@pve!prov"} {
					world.ACL = append(world.ACL, state.ACLEntry{Path: c.path, Subject: who, Role: "Backup", Propagate: true})
				}
			})
			body := "name = \"x\"\nvmid = 400\nnode = \"pve1\"\npool = \"web\"\n"
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(body+rig.OneDisk))
			rig.Must(t, s.Converge(t.Context()))
			config := rig.VMBlock(body + "restore = { archive = \"" + backupOf(t, w, 400) + "\" }\n")
			w.Reconfigure(t, s, rig.TokenNoSSH, config)
			s.Taint(rig.VMAddress, true)
			pl, err := s.Plan(t.Context())
			if c.holds {
				rig.Must(t, err)
				rig.Must(t, s.Apply(t.Context(), pl))
			} else {
				rig.MustSay(t, err, "VM.Backup on /vms,", "once VM 400 is destroyed", "under another address")
			}
			if rig.GuestOf(w, 400).VMID == 0 {
				t.Error("VM 400 is destroyed")
			}
		})
	}
}

// backupOf makes a backup of a VM.
func backupOf(t *testing.T, w *rig.World, vmid int) (archive string) {
	t.Helper()
	rig.RunTask(t, w, "/nodes/pve1/vzdump", "vmid="+strconv.Itoa(vmid)+"&storage=local")
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.Content == "backup" && v.VMID == vmid {
				archive = v.Volid()
			}
		}
	})
	return archive
}

// TestReplacementByABackupThatPVERefuses: another backup takes the place of a VM's, and PVE does not restore it, or does not start the VM.
func TestReplacementByABackupThatPVERefuses(t *testing.T) {
	t.Parallel()
	const later = "local:backup/vzdump-qemu-700-2026_02_02-00_00_00.vma.zst"
	for name, c := range map[string]struct {
		change func(w *state.World, b *state.Backup)
		want   string
		warns  bool
	}{
		"a usb device": {change: func(_ *state.World, b *state.Backup) { b.Config["usb0"] = "host=1234:5678" }, want: "Its usb0 is a device of a node"},
		"a pci device": {change: func(_ *state.World, b *state.Backup) { b.Config["hostpci0"] = "0000:01:00.0" }, want: "Its hostpci0 is a device"},
		"spice":        {change: func(_ *state.World, b *state.Backup) { b.Config["usb0"] = "spice" }},
		"a mapping":    {change: func(_ *state.World, b *state.Backup) { b.Config["hostpci0"] = "mapping=nosuch" }, want: "nosuch"},
		"a bridge": {change: func(_ *state.World, b *state.Backup) { b.Config["net0"] = "virtio=BC:24:11:00:07:00,bridge=vmbr7" },
			want: `Unknown bridge "vmbr7"`, warns: true},
		"a storage without images": {want: "Storage other is not for disks", change: func(w *state.World, b *state.Backup) {
			w.Storages["other"] = &state.Storage{ID: "other", Type: "dir", Path: "/mnt/other", Content: []string{"iso"}, Total: 1 << 40}
			b.Config["scsi1"] = "other:700/vm-700-disk-1.raw,size=1G"
			drive := b.Drives["scsi1"]
			drive.Storage = "other"
			b.Drives["scsi1"] = drive
		}},
		"a device": {want: "Storage local is not for disks", change: func(w *state.World, b *state.Backup) {
			b.Config["scsi2"] = "/dev/sdb,size=1G"
			b.Drives["scsi2"] = state.BackupDrive{Storage: "local", Format: "raw", Size: 1 << 30}
			w.Storages["local"].Content = []string{"iso", "vztmpl", "backup"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := restoreWorld(t, func(w *state.World) {
				v := state.WebBackup("pve1")
				_, v.Name, _ = strings.Cut(later, ":")
				c.change(w, v.Backup)
				w.Put(v)
			})
			config := restoredVM("vmid = 400\nprotection = false")
			s := w.Session(t, rig.TokenNoSSH, config)
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, strings.Replace(config, rig.WebBackup, later, 1))
			_, err := s.Plan(t.Context())
			switch {
			case c.want == "" || c.warns:
				rig.Must(t, err)
			default:
				rig.MustSay(t, err, c.want)
			}
			if said := s.Diagnostics().String(); c.warns && !strings.Contains(said, c.want) {
				t.Errorf("the plan says %s", said)
			}
		})
	}
}

// TestRestoreBesideADisk: a disk takes the slot of one in the backup, whose data become an unused disk. The plan says so.
func TestRestoreBesideADisk(t *testing.T) {
	t.Parallel()
	for slot, warns := range map[string]bool{"scsi1": true, "scsi9": false} {
		w := restoreWorld(t, nil)
		s := w.Session(t, rig.TokenNoSSH, rig.DiskBlock(`size = "1G"`, `storage = "local-zfs"`)+restoredVM("vmid = 400\nprotection = false\n"+
			"disks = { "+slot+" = { imported_disk = { volume = proxmox_disk.data.volume } } }\n"))
		pl, err := s.Plan(t.Context())
		rig.Must(t, err)
		if said := s.Diagnostics().String(); strings.Contains(said, "The disk that the copy has in scsi1 is detached") != warns {
			t.Errorf("%s: the plan says %q", slot, said)
		}
		rig.Must(t, s.Apply(t.Context(), pl))
		if unused := rig.GuestOf(w, 400).Config["unused0"]; (unused != "") != warns {
			t.Errorf("%s: unused0 is %q", slot, unused)
		}
	}
}
