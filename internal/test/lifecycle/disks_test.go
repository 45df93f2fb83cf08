package lifecycle_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDisksChangeTheirSlots: disks move and swap slots with their data and their options, on running and stopped guests.
func TestDisksChangeTheirSlots(t *testing.T) {
	t.Parallel()
	bases := map[string]func(t *testing.T) *rig.VM{rig.ThreeDisks: rig.NewVM(t, rig.ThreeDisks).Again(), rig.Stopped + rig.ThreeDisks: rig.NewVM(t, rig.Stopped+rig.ThreeDisks).Again()}
	for name, c := range map[string]struct {
		before, after string
		want          map[string]string
		running, off  []string // requests
	}{
		"move": {rig.ThreeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi3 = { imported_disk = { volume = <scsi1> } }, scsi2 = { storage = "local-zfs", size = "3G" } }`,
			map[string]string{"scsi0": "scsi0", "scsi3": "scsi1", "scsi2": "scsi2"},
			[]string{"PUT config delete=scsi1", "PUT config scsi3"}, []string{"PUT config delete=scsi1 scsi3"}},
		"move with storage and size": {rig.ThreeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, virtio3 = { imported_disk = { volume = <scsi1> }, storage = "local-zfs", size = "2G", iothread = true }, scsi2 = { storage = "local-zfs", size = "3G" } }`,
			map[string]string{"scsi0": "scsi0", "virtio3": "scsi1", "scsi2": "scsi2"},
			[]string{"PUT config delete=scsi1", "PUT config virtio3"}, []string{"PUT config delete=scsi1 virtio3"}},
		"move and grow": {rig.ThreeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi3 = { imported_disk = { volume = <scsi1> }, size = "4G" }, scsi2 = { storage = "local-zfs", size = "3G" } }`,
			map[string]string{"scsi0": "scsi0", "scsi3": "scsi1", "scsi2": "scsi2"},
			[]string{"PUT config delete=scsi1", "PUT config scsi3", "PUT resize disk=scsi3 size=4G"}, []string{"PUT config delete=scsi1 scsi3", "PUT resize disk=scsi3 size=4G"}},
		"swap": {rig.ThreeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { imported_disk = { volume = <scsi2> } }, scsi2 = { imported_disk = { volume = <scsi1> } } }`,
			map[string]string{"scsi0": "scsi0", "scsi1": "scsi2", "scsi2": "scsi1"},
			[]string{"PUT config delete=scsi1,scsi2", "PUT config scsi1 scsi2"}, []string{"PUT config scsi1 scsi2"}},
		"swap and grow one": {rig.ThreeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { imported_disk = { volume = <scsi2> }, storage = "local-zfs", size = "5G" }, scsi2 = { imported_disk = { volume = <scsi1> }, size = "2G" } }`,
			map[string]string{"scsi0": "scsi0", "scsi1": "scsi2", "scsi2": "scsi1"},
			[]string{"PUT config delete=scsi1,scsi2", "PUT config scsi1 scsi2", "PUT resize disk=scsi1 size=5G"}, []string{"PUT config scsi1 scsi2", "PUT resize disk=scsi1 size=5G"}},
		"rotate": {`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "2G" }, scsi2 = { storage = "local-lvm", size = "3G" }, virtio4 = { storage = "local", size = "4G", format = "qcow2" } }`,
			`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { imported_disk = { volume = <scsi2> } }, scsi2 = { imported_disk = { volume = <virtio4> } }, virtio4 = { imported_disk = { volume = <scsi1> } } }`,
			map[string]string{"scsi0": "scsi0", "scsi1": "scsi2", "scsi2": "virtio4", "virtio4": "scsi1"},
			[]string{"PUT config delete=scsi1,scsi2,virtio4", "PUT config scsi1 scsi2 virtio4"}, []string{"PUT config scsi1 scsi2 virtio4"}},
		"one moves storage, one its slot, one comes": {rig.ThreeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-lvm", size = "2G", backup = false }, scsi3 = { imported_disk = { volume = <scsi2> } }, scsi9 = { storage = "local", size = "1G" } }`,
			map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi3": "scsi2", "scsi9": ""},
			[]string{"POST move_disk delete=1 disk=scsi1 storage=local-lvm", "PUT config delete=scsi2", "POST config scsi3 scsi9"},
			[]string{"POST move_disk delete=1 disk=scsi1 storage=local-lvm", "POST config delete=scsi2 scsi3 scsi9"}},
	} {
		for _, power := range []string{"running", "stopped"} {
			t.Run(name+", "+power, func(t *testing.T) {
				with, sent := "", c.running
				if power == "stopped" {
					with, sent = rig.Stopped, c.off
				}
				begin := bases[with+c.before]
				if begin == nil {
					begin = func(t *testing.T) *rig.VM { return rig.NewVM(t, with+c.before) }
				}
				l := begin(t)
				l.To(l.Named(with + c.after))
				l.Want(c.want)
				l.WantSent(sent...)
				l.WantRunning()
				if waiting := l.Waiting(); len(waiting) > 0 {
					t.Errorf("waits for a restart: %v", waiting)
				}
				if name == "move" && !strings.Contains(l.Config()["scsi3"], "backup=0") {
					t.Errorf("the disk has lost its options: %s", l.Config()["scsi3"])
				}
			})
		}
	}
}

// TestBootAndColdDisksMove: a running guest keeps the disks in its boot order, and IDE and SATA disks, which the plan says; a
// stopped one takes everything, and one that restarts moves within IDE and SATA.
func TestBootAndColdDisksMove(t *testing.T) {
	t.Parallel()
	before := `boot_order = ["scsi0"]
disks = { scsi0 = { storage = "local-zfs", size = "1G" }, ide0 = { storage = "local-zfs", size = "2G" } }
`
	boot := `boot_order = ["virtio0"]
disks = { virtio0 = { imported_disk = { volume = <scsi0> } }, ide0 = { storage = "local-zfs", size = "2G" } }
`
	cold := `boot_order = ["scsi0"]
disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi5 = { imported_disk = { volume = <ide0> } } }
`
	l := rig.NewVM(t, before)
	l.Refuses(l.Named(boot), `disks["virtio0"].imported_disk`, "boot order", "power_state")
	l.Refuses(l.Named(cold), `disks["scsi5"].imported_disk`, "at the next stop only", "power_state")
	l.To(l.Named(`boot_order = ["scsi0"]
disks = { scsi0 = { storage = "local-zfs", size = "1G" }, sata3 = { imported_disk = { volume = <ide0> } } }
`))
	l.Want(map[string]string{"scsi0": "scsi0", "sata3": "ide0"})
	if off := l.World.Sim.PowerOffs(); len(off) != 1 || off[0].Kind != state.PowerReboot {
		t.Errorf("one restart brings an IDE disk to SATA, not %v", off)
	}

	l = rig.NewVM(t, rig.Stopped+before)
	l.To(rig.Stopped + l.Named(boot))
	l.Want(map[string]string{"virtio0": "scsi0", "ide0": "ide0"})
	if boot := l.Config()["boot"]; boot != "order=virtio0" {
		t.Errorf("boot order %q", boot)
	}

	l = rig.NewVM(t, strings.Replace(before, "ide0", "scsi5", 1))
	l.Refuses(l.Named(strings.NewReplacer("scsi5", "ide0", "<ide0>", "<scsi5>").Replace(cold)), `disks["ide0"].imported_disk`,
		"at the next start only", "power_state")

	l = rig.NewVM(t, before)
	l.To(rig.Stopped + l.Named(cold))
	l.Want(map[string]string{"scsi0": "scsi0", "scsi5": "ide0"})
}

// TestDiskThatCameAfterThePlan: the plan adds a disk to an empty slot, and an administrator puts one there before the apply. It is not
// taken for the new one. The next plan says that the slot is not empty, and its apply takes the disk over with its content.
func TestDiskThatCameAfterThePlan(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, rig.Stopped+"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n")
	more := rig.Stopped + "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" }, scsi1 = { storage = \"local-zfs\", size = \"2G\" } }\n"
	pl := l.Plan(more)
	l.World.Change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", VMID: 400, Content: "images", Format: "raw",
			Size: 1 << 30, Data: "his"})
		w.Guests[400].Config["scsi1"] = "local-zfs:vm-400-disk-7,size=1G"
	})
	l.World.ResetCalls()
	rig.MustSay(t, l.Session.Apply(t.Context(), pl), "scsi1 of VM 400 has changed since the plan", "local-zfs:vm-400-disk-7")
	l.WantSent()
	l.To(more)
	l.Warned(`disks["scsi1"]`, "scsi1", "is not empty", "local-zfs:vm-400-disk-7", "takes this one over")
	l.Want(map[string]string{"scsi0": "scsi0", "scsi1": "his"})
}

// TestDetachAndAttachAgain: a disk that leaves the configuration stays with the VM, which the plan says, and comes back by its
// name with its data. The name is kept through a move, and says where the disk was.
func TestDetachAndAttachAgain(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, rig.ThreeDisks)
	volume := l.Volume("scsi1")
	const scsi7 = `disks["scsi7"].imported_disk.volume`
	less := `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "3G" } }
`
	l.To(less)
	l.Warned(`disks["scsi1"]`, volume, "2G", "stays with the VM", "scsi1")
	l.Want(map[string]string{"scsi0": "scsi0", "unused0": "scsi1", "scsi2": "scsi2"})
	l.WantSent("PUT config delete=scsi1")
	l.Plan(rig.ThreeDisks) // as by a revert of the configuration
	l.Warned(`disks["scsi1"]`, "will be a new, empty disk", "Detached disks of the VM", "imported_disk", volume)

	with := func(disk string) string {
		return strings.Replace(less, "disks = {", "disks = { scsi7 = { "+disk+" },", 1)
	}
	l.Refuses(with(fmt.Sprintf("imported_disk = { volume = %q }, size = \"1G\"", volume)), `disks["scsi7"].size`, "cannot be shrunk", "2G")
	l.Refuses(with(fmt.Sprintf("imported_disk = { volume = %q }, storage = \"local-lvm\"", volume)), `disks["scsi7"].storage`, "is not there", "a move is a change of its own")
	l.Refuses(with(`imported_disk = { volume = "local-zfs:vm-400-disk-9" }`), scsi7, "no volume local-zfs:vm-400-disk-9", volume)
	l.Refuses(with(fmt.Sprintf("imported_disk = { volume = %q }", l.Volume("scsi2"))), scsi7, "which keeps it")
	l.Refuses(with(`imported_disk = { volume = "local-zfs:vm-200-disk-0" }`), scsi7, "does not carry the id of this VM")
	l.Refuses(with(fmt.Sprintf("imported_disk = { volume = %q }, import_from = \"local:import/disk.qcow2\"", volume)), scsi7, "either a volume that exists or a copy")

	l.To(with(fmt.Sprintf("imported_disk = { volume = %q }, size = \"4G\"", volume)))
	l.Want(map[string]string{"scsi0": "scsi0", "scsi7": "scsi1", "scsi2": "scsi2"})
	l.WantSent("PUT config scsi7", "PUT resize disk=scsi7 size=4G")

	l.To(with(fmt.Sprintf("imported_disk = { volume = %q }, size = \"4G\", storage = \"local-lvm\"", volume)))
	l.Want(map[string]string{"scsi0": "scsi0", "scsi7": "scsi1", "scsi2": "scsi2"})
	l.WantSent("POST move_disk delete=1 disk=scsi7 storage=local-lvm")
	if now := l.Volume("scsi7"); !strings.HasPrefix(now, "local-lvm:") || l.Attr("disks.scsi7.volume") == "" {
		t.Errorf("the disk is %s, in state %s", now, l.Attr("disks.scsi7.volume"))
	}
	if err := l.Session.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if was, now := l.Attr("disks.scsi7.volume"), l.Volume("scsi7"); was != now {
		t.Errorf("after a refresh the state says %s, the server %s", was, now)
	}
	l.To(with(fmt.Sprintf("imported_disk = { volume = %q }, size = \"5G\", storage = \"local-lvm\", discard = true", volume)) + rig.Stopped)
	l.Want(map[string]string{"scsi0": "scsi0", "scsi7": "scsi1", "scsi2": "scsi2"})
	l.To(with(`size = "5G", storage = "local-lvm", discard = true`) + rig.Stopped)
	l.WantSent()
}

// TestVolumesOfANewVM: a VM that is to be made adopts volumes of its own id only, so that the id has to be configured.
func TestVolumesOfANewVM(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.NodeVMBlock(`disks = { scsi0 = { imported_disk = { volume = "local-zfs:vm-200-disk-0" } } }`))
	if _, err := s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "Set vmid = 200") {
		t.Errorf("plan: %v", err)
	}
	w.MustBeClean(t)
}

// TestRemovedDisksDestroyed: removed_disks = "destroy" destroys what leaves, and nothing else.
func TestRemovedDisksDestroyed(t *testing.T) {
	t.Parallel()
	destroy := "removed_disks = \"destroy\"\n"
	one := `disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
`
	l := rig.NewVM(t, destroy+rig.ThreeDisks)
	l.Guest(func(world *state.World, g *state.Guest) { // not ours, and not to be touched
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-8", Content: "images", VMID: 400, Format: "raw", Size: 1 << 30, Data: "a third party's"})
		g.Config["unused0"] = "local-zfs:vm-400-disk-8"
	})
	l.To(destroy + one)
	l.Warned(`disks["scsi1"]`, "scsi1", "destroyed with its data", "2G")
	l.Warned(`disks["scsi2"]`, "scsi2", "destroyed with its data", "3G")
	l.Want(map[string]string{"scsi0": "scsi0", "unused0": "a third party's"})
	l.WantSent("PUT config delete=scsi1,scsi2", "POST config delete=unused1", "POST config delete=unused2")
	l.WantRunning()

	l = rig.NewVM(t, destroy+rig.ThreeDisks+"efi_disk = { storage = \"local-zfs\", type = \"4m\", pre_enrolled_keys = false }\ntpm_state = { storage = \"local-zfs\", version = \"v2.0\" }\nbios = \"ovmf\"")
	l.To(destroy + one)
	l.Want(map[string]string{"scsi0": "scsi0"})

	l = rig.NewVM(t, destroy+rig.ThreeDisks)
	l.To(destroy + l.Named(`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi5 = { imported_disk = { volume = <scsi1> } } }`))
	l.Want(map[string]string{"scsi0": "scsi0", "scsi5": "scsi1"})
}

// TestRemovedDisksThatAreNotDestroyed: a snapshot that needs the volume, a volume of another VM, a storage that refuses, a
// guest that lets nothing go.
func TestRemovedDisksThatAreNotDestroyed(t *testing.T) {
	t.Parallel()
	destroy := "removed_disks = \"destroy\"\n"
	one := destroy + `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "3G" } }
`
	all := map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi2": "scsi2"}
	t.Run("snapshot", func(t *testing.T) {
		l := rig.NewVM(t, destroy+rig.ThreeDisks)
		l.Guest(func(_ *state.World, g *state.Guest) {
			g.Snaps = map[string]map[string]string{"before": {"scsi1": g.Config["scsi1"], "snaptime": "1"}}
		})
		l.Fails(one+"description = \"more\"", "Snapshot before needs it", "removed_disks")
		l.Want(all)
		l.WantSent()
		l.To(strings.Replace(one, "destroy", "detach", 1))
		l.Want(map[string]string{"scsi0": "scsi0", "unused0": "scsi1", "scsi2": "scsi2"})
	})
	t.Run("storage", func(t *testing.T) {
		for _, power := range []string{"", rig.Stopped} {
			l := rig.NewVM(t, power+destroy+rig.ThreeDisks)
			l.Guest(func(world *state.World, g *state.Guest) {
				world.Volume("pve1", l.File(g, "scsi1")).Busy = "dataset is busy"
			})
			l.Fails(power+one, "dataset is busy", "not destroyed")
			l.Want(all)
			l.Guest(func(world *state.World, g *state.Guest) { world.Volume("pve1", l.File(g, "scsi1")).Busy = "" })
			l.To(power + one)
			l.Want(map[string]string{"scsi0": "scsi0", "scsi2": "scsi2"})
		}
	})
	t.Run("another VM's", func(t *testing.T) {
		l := rig.NewVM(t, destroy+`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "3G" } }`)
		l.Guest(func(world *state.World, g *state.Guest) {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-399-disk-0", Content: "images", VMID: 399, Format: "raw", Size: 2 << 30, Data: "another's"})
			g.Config["scsi1"] = "local-zfs:vm-399-disk-0,size=2G"
		})
		l.To(destroy + rig.ThreeDisks)
		l.To(one)
		l.Warned(`disks["scsi1"]`, "vm-399-disk-0", "another VM", "does not destroy it")
		l.Want(map[string]string{"scsi0": "scsi0", "scsi2": "scsi2"})
		l.Guest(func(world *state.World, _ *state.Guest) {
			if v := world.Volume("pve1", "local-zfs:vm-399-disk-0"); v == nil || v.Data != "another's" {
				t.Error("the other VM's volume is gone")
			}
		})
	})
	t.Run("no unplug", func(t *testing.T) {
		const single = "scsihw = \"virtio-scsi-single\"\n" // a controller of its own for each disk, which the guest must let go
		one := single + one
		l := rig.NewVM(t, single+destroy+rig.ThreeDisks)
		l.Guest(func(_ *state.World, g *state.Guest) { g.Ignores = []string{"unplug"} })
		l.Fails(one, "error on hot-unplugging device 'virtioscsi1'")
		l.Want(all)
		if waiting := l.Waiting(); len(waiting) > 0 {
			t.Errorf("waits for a restart: %v", waiting)
		}
		if l.Attr("disks.scsi1.volume") != l.Volume("scsi1") {
			t.Errorf("state has lost the disk")
		}
		l.Guest(func(_ *state.World, g *state.Guest) { g.Ignores = nil })
		l.To(one)
		l.Want(map[string]string{"scsi0": "scsi0", "scsi2": "scsi2"})
	})
	t.Run("protected", func(t *testing.T) {
		l := rig.NewVM(t, destroy+"protection = true\n"+rig.ThreeDisks)
		l.Refuses("protection = true\n"+one, `disks["scsi1"]`, "protected")
		l.Want(all)
	})
}

// TestANewEmptyDiskWhereOneLeaves: a slot that is renamed without the volume's name makes an empty disk; the plan says how to
// keep the data.
func TestANewEmptyDiskWhereOneLeaves(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, rig.ThreeDisks)
	volume := l.Volume("scsi1")
	l.Plan(strings.Replace(rig.ThreeDisks, "scsi1", "scsi4", 1))
	l.Warned(`disks["scsi4"]`, "scsi4", "new, empty disk", fmt.Sprintf("disks.scsi4.imported_disk = { volume = %q }", volume))
}

// TestDisksChangeInPlace: disks grow and move, with a running guest and their data kept, and nothing else is sent.
func TestDisksChangeInPlace(t *testing.T) {
	t.Parallel()
	body := `boot_order = ["scsi0"]
disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local", size = "2G", format = "raw" } }
bios = "ovmf"
efi_disk = { storage = "local-zfs", type = "4m", pre_enrolled_keys = false }
tpm_state = { storage = "local-zfs", version = "v2.0" }
`
	all := map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "efidisk0": "efidisk0", "tpmstate0": "tpmstate0"}
	change := func(old, to string) string {
		if !strings.Contains(body, old) {
			t.Fatalf("the configuration has no %q", old)
		}
		return strings.Replace(body, old, to, 1)
	}
	running, off := rig.NewVM(t, body).Again(), rig.NewVM(t, rig.Stopped+body).Again()
	for name, c := range map[string]struct {
		old, to string
		still   bool // PVE does it with a stopped guest only
		sent    []string
	}{
		"grow":            {`"1G"`, `"1536M"`, false, []string{"PUT resize disk=scsi0 size=1536M"}},
		"move":            {`scsi0 = { storage = "local-zfs"`, `scsi0 = { storage = "local-lvm"`, false, []string{"POST move_disk delete=1 disk=scsi0 storage=local-lvm"}},
		"convert":         {`"raw"`, `"qcow2"`, false, []string{"POST move_disk delete=1 disk=scsi1 format=qcow2 storage=local"}},
		"move, convert":   {`scsi1 = { storage = "local", size = "2G", format = "raw"`, `scsi1 = { storage = "shared-nfs", size = "2G", format = "qcow2"`, false, []string{"POST move_disk delete=1 disk=scsi1 format=qcow2 storage=shared-nfs"}},
		"move and grow":   {`scsi0 = { storage = "local-zfs", size = "1G"`, `scsi0 = { storage = "local-lvm", size = "3G"`, false, []string{"POST move_disk delete=1 disk=scsi0 storage=local-lvm", "PUT resize disk=scsi0 size=3G"}},
		"backup":          {`size = "1G"`, `size = "1G", backup = false`, false, []string{"PUT config scsi0"}},
		"move EFI":        {`efi_disk = { storage = "local-zfs"`, `efi_disk = { storage = "local-lvm"`, false, []string{"POST move_disk delete=1 disk=efidisk0 storage=local-lvm"}},
		"move TPM":        {`tpm_state = { storage = "local-zfs"`, `tpm_state = { storage = "local-lvm"`, true, []string{"POST move_disk delete=1 disk=tpmstate0 storage=local-lvm"}},
		"spelling of 2 G": {`"2G"`, `"2048M"`, false, nil},
	} {
		for _, power := range []string{"running", "stopped"} {
			if c.still && power == "running" {
				continue
			}
			t.Run(name+", "+power, func(t *testing.T) {
				with, begin := "", running
				if power == "stopped" {
					with, begin = rig.Stopped, off
				}
				l := begin(t)
				l.To(with + change(c.old, c.to))
				l.Want(all)
				l.WantSent(c.sent...)
				l.WantRunning()
			})
		}
	}
	l := running(t)
	l.Refuses(change(`"2G"`, `"1G"`), `disks["scsi1"].size`, "cannot be shrunk")
	l.Refuses(change(`"4m"`, `"2m"`), "efi_disk.type", "cannot be changed")
	l.Refuses(change(`tpm_state = { storage = "local-zfs"`, `tpm_state = { storage = "local-lvm"`), "tpm_state.storage", "stopped VM only")
	l.Refuses(change(`"v2.0"`, `"v1.2"`), "tpm_state.version", "cannot be changed")
	l.Want(all)
	l.WantRunning()
}

// TestDisksThatOthersChange: a third party's change of the disks between plan and apply is not lost.
func TestDisksThatOthersChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after string
		meanwhile     func(world *state.World, g *state.Guest)
		words         []string // of the error; none: the apply succeeds
		want          map[string]string
	}{
		"the volume that is wanted is gone": {`disks = { scsi0 = { storage = "local-zfs", size = "1G" } }`,
			`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { imported_disk = { volume = "local-zfs:vm-400-disk-7" } } }`,
			func(world *state.World, g *state.Guest) {
				delete(g.Config, "unused0")
				maps.DeleteFunc(world.Volumes, func(_ state.VolumeKey, v *state.Volume) bool { return v.Name == "vm-400-disk-7" })
			},
			[]string{"The VM has no"}, map[string]string{"scsi0": "scsi0"}},
		"the slot that is wanted is taken": {`disks = { scsi0 = { storage = "local-zfs", size = "1G" } }`,
			`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { imported_disk = { volume = "local-zfs:vm-400-disk-7" } } }`,
			func(world *state.World, g *state.Guest) {
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-9", Content: "images", VMID: 400, Format: "raw", Size: 1 << 30, Data: "hers"})
				g.Config["scsi1"] = "local-zfs:vm-400-disk-9,size=1G"
			},
			[]string{"The slot is not empty", "vm-400-disk-9"}, map[string]string{"scsi0": "scsi0", "scsi1": "hers", "unused0": "his"}},
		"another volume is in the slot that is destroyed": {`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "1G" } }`,
			"removed_disks = \"destroy\"\n" + `disks = { scsi0 = { storage = "local-zfs", size = "1G" } }`,
			func(world *state.World, g *state.Guest) {
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-9", Content: "images", VMID: 400, Format: "raw", Size: 1 << 30, Data: "hers"})
				g.Config["unused1"] = strings.TrimSuffix(g.Config["scsi1"], ",size=1G")
				g.Config["scsi1"] = "local-zfs:vm-400-disk-9,size=1G"
			},
			[]string{"scsi1 of VM 400 does not have the disk of the plan", "vm-400-disk-9"},
			map[string]string{"scsi0": "scsi0", "scsi1": "hers", "unused0": "his", "unused1": "scsi1"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := rig.NewVM(t, c.before)
			l.Guest(func(world *state.World, g *state.Guest) {
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: 400, Format: "raw", Size: 1 << 30, Data: "his"})
				g.Config["unused0"] = "local-zfs:vm-400-disk-7"
			})
			pl := l.Plan(c.after)
			l.Guest(c.meanwhile)
			err := l.Session.Apply(t.Context(), pl)
			for _, word := range c.words {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("want %q, got %v", word, err)
				}
			}
			if c.words == nil && err != nil {
				t.Fatal(err)
			}
			l.Guest(func(world *state.World, g *state.Guest) { // where "gone" means gone
				if g.Config["unused0"] == "" {
					for key, v := range world.Volumes {
						if v.Data == "his" {
							delete(world.Volumes, key)
						}
					}
				}
			})
			l.Want(c.want)
		})
	}
}

// TestDigestConflict: PVE refuses an update if another change comes between its read and its write. Nothing is written, and the next
// plan starts from the present configuration.
func TestDigestConflict(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, rig.ThreeDisks)
	less := `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "3G" } }
description = "more"
`
	l.World.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT", Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Before, Reason: "checksum mismatch (file change by other user?)"}})
	l.Configure(less)
	pl, err := l.Session.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.Guest(func(_ *state.World, g *state.Guest) { g.Config["onboot"] = "1" })
	_ = l.Session.Apply(t.Context(), pl)
	l.To(less)
	l.Want(map[string]string{"scsi0": "scsi0", "unused0": "scsi1", "scsi2": "scsi2"})
	if l.Config()["onboot"] != "1" {
		t.Error("the other's change is lost")
	}
}

// TestRemovedColdDisks: a running VM lets go of an IDE disk at its restart only: with one it is destroyed after it, without one
// it is detached later, and a warning says that it is not destroyed.
func TestRemovedColdDisks(t *testing.T) {
	t.Parallel()
	before := `boot_order = ["scsi0"]
removed_disks = "destroy"
disks = { scsi0 = { storage = "local-zfs", size = "1G" }, ide1 = { storage = "local-zfs", size = "2G" } }
`
	after := strings.Replace(before, `, ide1 = { storage = "local-zfs", size = "2G" }`, "", 1)
	begin := rig.NewVM(t, before).Again()
	l := begin(t)
	l.To(after)
	l.Want(map[string]string{"scsi0": "scsi0"})
	if off := l.World.Sim.PowerOffs(); len(off) != 1 || off[0].Kind != state.PowerReboot {
		t.Errorf("want one restart, got %v", off)
	}
	l = begin(t)
	volume := l.Volume("ide1")
	l.To(after + "reboot_policy = \"never\"\n")
	l.Warned("", volume, "was not destroyed", "next stop")
	l.Want(map[string]string{"scsi0": "scsi0", "ide1": "ide1"})
	l.WantWaiting("ide1")
	l.WantRunning()
}

// TestPlansThatNameVolumes: a volume that is where it is said to be costs a plan no request, and one that was renamed by a
// conversion to a template is the same.
func TestPlansThatNameVolumes(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, rig.Stopped+rig.ThreeDisks)
	body := rig.Stopped + l.Named(`disks = { scsi0 = { imported_disk = { volume = <scsi0> } }, scsi1 = { imported_disk = { volume = <scsi1> }, storage = "local-zfs", size = "2G", backup = false }, scsi2 = { imported_disk = { volume = <scsi2> }, size = "3G" } }
`)
	reads := func(body string) int {
		l.Configure(body)
		l.World.ResetCalls()
		pl, err := l.Session.Plan(t.Context())
		if err != nil || !pl.Empty() {
			t.Errorf("%v\n%v", err, pl)
		}
		return l.World.Sim.LastOp()
	}
	plain := reads(rig.Stopped + rig.ThreeDisks)
	l.To(body)
	l.WantSent()
	if named := reads(body); plain != named {
		t.Errorf("a plan makes %d requests, one that names its volumes %d", plain, named)
	}
	l.To(body + "template = true\n")
	if volume := l.Volume("scsi1"); !strings.Contains(volume, "base-400-disk-") {
		t.Errorf("the template has %s", volume)
	}
	l.To(body + "template = true\n")
	l.WantSent()
}

// TestImportWithNamedVolumes: a configuration may name the volumes of an imported VM; the plan stays empty.
func TestImportWithNamedVolumes(t *testing.T) {
	t.Parallel()
	l := rig.NewVM(t, rig.Stopped+rig.ThreeDisks)
	l.Configure(rig.Stopped + l.Named(`disks = { scsi0 = { imported_disk = { volume = <scsi0> } }, scsi1 = { imported_disk = { volume = <scsi1> }, size = "2G" }, scsi2 = { imported_disk = { volume = <scsi2> } } }
`))
	l.Session.Forget(rig.VMAddress)
	if err := l.Session.Import(t.Context(), rig.VMAddress, "pve1/400"); err != nil {
		t.Fatal(err)
	}
	l.World.ResetCalls()
	if err := l.Session.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.WantSent()
	l.Want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi2": "scsi2"})
}
