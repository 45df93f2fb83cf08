package acctest_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/acctest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const (
	threeDisks = `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "2G", backup = false }, scsi2 = { storage = "local-zfs", size = "3G" } }
`
	stopped = "power_state = \"stopped\"\n"
)

// named puts the ids of the volumes that the VM has now in the place of <scsi1>.
func (l *life) named(body string) string {
	for slot := range l.config() {
		body = strings.ReplaceAll(body, "<"+slot+">", fmt.Sprintf("%q", l.volume(slot)))
	}
	return body
}

// TestDisksChangeTheirSlots: disks move and swap slots with their data and their options, on running and stopped guests.
func TestDisksChangeTheirSlots(t *testing.T) {
	t.Parallel()
	bases := map[string]func(t *testing.T) *life{threeDisks: newLife(t, threeDisks).again(), stopped + threeDisks: newLife(t, stopped+threeDisks).again()}
	for name, c := range map[string]struct {
		before, after string
		want          map[string]string
		running, off  []string // requests
	}{
		"move": {threeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi3 = { imported_disk = { volume = <scsi1> } }, scsi2 = { storage = "local-zfs", size = "3G" } }`,
			map[string]string{"scsi0": "scsi0", "scsi3": "scsi1", "scsi2": "scsi2"},
			[]string{"PUT config delete=scsi1", "PUT config scsi3"}, []string{"PUT config delete=scsi1 scsi3"}},
		"move with storage and size": {threeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, virtio3 = { imported_disk = { volume = <scsi1> }, storage = "local-zfs", size = "2G", iothread = true }, scsi2 = { storage = "local-zfs", size = "3G" } }`,
			map[string]string{"scsi0": "scsi0", "virtio3": "scsi1", "scsi2": "scsi2"},
			[]string{"PUT config delete=scsi1", "PUT config virtio3"}, []string{"PUT config delete=scsi1 virtio3"}},
		"move and grow": {threeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi3 = { imported_disk = { volume = <scsi1> }, size = "4G" }, scsi2 = { storage = "local-zfs", size = "3G" } }`,
			map[string]string{"scsi0": "scsi0", "scsi3": "scsi1", "scsi2": "scsi2"},
			[]string{"PUT config delete=scsi1", "PUT config scsi3", "PUT resize disk=scsi3 size=4G"}, []string{"PUT config delete=scsi1 scsi3", "PUT resize disk=scsi3 size=4G"}},
		"swap": {threeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { imported_disk = { volume = <scsi2> } }, scsi2 = { imported_disk = { volume = <scsi1> } } }`,
			map[string]string{"scsi0": "scsi0", "scsi1": "scsi2", "scsi2": "scsi1"},
			[]string{"PUT config delete=scsi1,scsi2", "PUT config scsi1 scsi2"}, []string{"PUT config scsi1 scsi2"}},
		"swap and grow one": {threeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { imported_disk = { volume = <scsi2> }, storage = "local-zfs", size = "5G" }, scsi2 = { imported_disk = { volume = <scsi1> }, size = "2G" } }`,
			map[string]string{"scsi0": "scsi0", "scsi1": "scsi2", "scsi2": "scsi1"},
			[]string{"PUT config delete=scsi1,scsi2", "PUT config scsi1 scsi2", "PUT resize disk=scsi1 size=5G"}, []string{"PUT config scsi1 scsi2", "PUT resize disk=scsi1 size=5G"}},
		"rotate": {`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-zfs", size = "2G" }, scsi2 = { storage = "local-lvm", size = "3G" }, virtio4 = { storage = "local", size = "4G", format = "qcow2" } }`,
			`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { imported_disk = { volume = <scsi2> } }, scsi2 = { imported_disk = { volume = <virtio4> } }, virtio4 = { imported_disk = { volume = <scsi1> } } }`,
			map[string]string{"scsi0": "scsi0", "scsi1": "scsi2", "scsi2": "virtio4", "virtio4": "scsi1"},
			[]string{"PUT config delete=scsi1,scsi2,virtio4", "PUT config scsi1 scsi2 virtio4"}, []string{"PUT config scsi1 scsi2 virtio4"}},
		"one moves storage, one its slot, one comes": {threeDisks, `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi1 = { storage = "local-lvm", size = "2G", backup = false }, scsi3 = { imported_disk = { volume = <scsi2> } }, scsi9 = { storage = "local", size = "1G" } }`,
			map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi3": "scsi2", "scsi9": ""},
			[]string{"POST move_disk delete=1 disk=scsi1 storage=local-lvm", "PUT config delete=scsi2", "POST config scsi3 scsi9"},
			[]string{"POST move_disk delete=1 disk=scsi1 storage=local-lvm", "POST config delete=scsi2 scsi3 scsi9"}},
	} {
		for _, power := range []string{"running", "stopped"} {
			t.Run(name+", "+power, func(t *testing.T) {
				with, sent := "", c.running
				if power == "stopped" {
					with, sent = stopped, c.off
				}
				begin := bases[with+c.before]
				if begin == nil {
					begin = func(t *testing.T) *life { return newLife(t, with+c.before) }
				}
				l := begin(t)
				l.to(l.named(with + c.after))
				l.want(c.want)
				l.wantSent(sent...)
				l.steady()
				if waiting := l.waiting(); len(waiting) > 0 {
					t.Errorf("waits for a restart: %v", waiting)
				}
				if name == "move" && !strings.Contains(l.config()["scsi3"], "backup=0") {
					t.Errorf("the disk has lost its options: %s", l.config()["scsi3"])
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
	l := newLife(t, before)
	l.refuses(l.named(boot), "boot order", "power_state")
	l.refuses(l.named(cold), "at the next stop only", "power_state")
	l.to(l.named(`boot_order = ["scsi0"]
disks = { scsi0 = { storage = "local-zfs", size = "1G" }, sata3 = { imported_disk = { volume = <ide0> } } }
`))
	l.want(map[string]string{"scsi0": "scsi0", "sata3": "ide0"})
	if off := l.w.Sim.PowerOffs(); len(off) != 1 || off[0].Kind != state.PowerReboot {
		t.Errorf("one restart brings an IDE disk to SATA, not %v", off)
	}

	l = newLife(t, stopped+before)
	l.to(stopped + l.named(boot))
	l.want(map[string]string{"virtio0": "scsi0", "ide0": "ide0"})
	if boot := l.config()["boot"]; boot != "order=virtio0" {
		t.Errorf("boot order %q", boot)
	}

	l = newLife(t, before)
	l.to(stopped + l.named(cold))
	l.want(map[string]string{"scsi0": "scsi0", "scsi5": "ide0"})
}

// TestDetachAndAttachAgain: a disk that leaves the configuration stays with the VM, which the plan says, and comes back by its
// name with its data. The name is kept through a move, and says where the disk was.
func TestDetachAndAttachAgain(t *testing.T) {
	t.Parallel()
	l := newLife(t, threeDisks)
	volume := l.volume("scsi1")
	less := `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "3G" } }
`
	l.to(less)
	l.warned(volume, "2G", "stays with the VM", "scsi1")
	l.want(map[string]string{"scsi0": "scsi0", "unused0": "scsi1", "scsi2": "scsi2"})
	l.wantSent("PUT config delete=scsi1")

	with := func(disk string) string {
		return strings.Replace(less, "disks = {", "disks = { scsi7 = { "+disk+" },", 1)
	}
	l.refuses(with(fmt.Sprintf("imported_disk = { volume = %q }, size = \"1G\"", volume)), "cannot be shrunk", "2G")
	l.refuses(with(fmt.Sprintf("imported_disk = { volume = %q }, storage = \"local-lvm\"", volume)), "is not there", "a move is a change of its own")
	l.refuses(with(`imported_disk = { volume = "local-zfs:vm-400-disk-9" }`), "no volume local-zfs:vm-400-disk-9", volume)
	l.refuses(with(fmt.Sprintf("imported_disk = { volume = %q }", l.volume("scsi2"))), "which keeps it")
	l.refuses(with(`imported_disk = { volume = "local-zfs:vm-200-disk-0" }`), "does not carry the id of this VM")
	l.refuses(with(fmt.Sprintf("imported_disk = { volume = %q }, import_from = \"local:import/disk.qcow2\"", volume)), "either a volume that exists or a copy")

	l.to(with(fmt.Sprintf("imported_disk = { volume = %q }, size = \"4G\"", volume)))
	l.want(map[string]string{"scsi0": "scsi0", "scsi7": "scsi1", "scsi2": "scsi2"})
	l.wantSent("PUT config scsi7", "PUT resize disk=scsi7 size=4G")

	l.to(with(fmt.Sprintf("imported_disk = { volume = %q }, size = \"4G\", storage = \"local-lvm\"", volume)))
	l.want(map[string]string{"scsi0": "scsi0", "scsi7": "scsi1", "scsi2": "scsi2"})
	l.wantSent("POST move_disk delete=1 disk=scsi7 storage=local-lvm")
	if now := l.volume("scsi7"); !strings.HasPrefix(now, "local-lvm:") || l.attr("disks.scsi7.volume") == "" {
		t.Errorf("the disk is %s, in state %s", now, l.attr("disks.scsi7.volume"))
	}
	if err := l.s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if was, now := l.attr("disks.scsi7.volume"), l.volume("scsi7"); was != now {
		t.Errorf("after a refresh the state says %s, the server %s", was, now)
	}
	l.to(with(fmt.Sprintf("imported_disk = { volume = %q }, size = \"5G\", storage = \"local-lvm\", discard = true", volume)) + stopped)
	l.want(map[string]string{"scsi0": "scsi0", "scsi7": "scsi1", "scsi2": "scsi2"})
	l.to(with(`size = "5G", storage = "local-lvm", discard = true`) + stopped)
	l.wantSent()
}

// TestVolumesOfANewVM: a VM that is to be made adopts volumes of its own id only, so that the id has to be configured.
func TestVolumesOfANewVM(t *testing.T) {
	t.Parallel()
	w := acctest.NewWorld(t)
	s := w.Session(t, acctest.TokenNoSSH, lifeBlock(`disks = { scsi0 = { imported_disk = { volume = "local-zfs:vm-200-disk-0" } } }`))
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
	l := newLife(t, destroy+threeDisks)
	l.guest(func(world *state.World, g *state.Guest) { // not ours, and not to be touched
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-8", Content: "images", VMID: 400, Format: "raw", Size: 1 << 30, Data: "a stranger's"})
		g.Config["unused0"] = "local-zfs:vm-400-disk-8"
	})
	l.to(destroy + one)
	l.warned("scsi1", "destroyed with its data", "2G")
	l.warned("scsi2", "destroyed with its data", "3G")
	l.want(map[string]string{"scsi0": "scsi0", "unused0": "a stranger's"})
	l.wantSent("PUT config delete=scsi1,scsi2", "POST config delete=unused1", "POST config delete=unused2")
	l.steady()

	l = newLife(t, destroy+threeDisks+"efi_disk = { storage = \"local-zfs\", type = \"4m\", pre_enrolled_keys = false }\ntpm_state = { storage = \"local-zfs\", version = \"v2.0\" }\nbios = \"ovmf\"")
	l.to(destroy + one)
	l.want(map[string]string{"scsi0": "scsi0"})

	l = newLife(t, destroy+threeDisks)
	l.to(destroy + l.named(`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi5 = { imported_disk = { volume = <scsi1> } } }`))
	l.want(map[string]string{"scsi0": "scsi0", "scsi5": "scsi1"})
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
		l := newLife(t, destroy+threeDisks)
		l.guest(func(_ *state.World, g *state.Guest) {
			g.Snaps = map[string]map[string]string{"before": {"scsi1": g.Config["scsi1"], "snaptime": "1"}}
		})
		l.fails(one+"description = \"more\"", "Snapshot before needs it", "removed_disks")
		l.want(all)
		l.wantSent()
		l.to(strings.Replace(one, "destroy", "detach", 1))
		l.want(map[string]string{"scsi0": "scsi0", "unused0": "scsi1", "scsi2": "scsi2"})
	})
	t.Run("storage", func(t *testing.T) {
		for _, power := range []string{"", stopped} {
			l := newLife(t, power+destroy+threeDisks)
			l.guest(func(world *state.World, g *state.Guest) {
				world.Volume("pve1", l.file(g, "scsi1")).Busy = "dataset is busy"
			})
			l.fails(power+one, "dataset is busy", "not destroyed")
			l.want(all)
			l.guest(func(world *state.World, g *state.Guest) { world.Volume("pve1", l.file(g, "scsi1")).Busy = "" })
			l.to(power + one)
			l.want(map[string]string{"scsi0": "scsi0", "scsi2": "scsi2"})
		}
	})
	t.Run("another VM's", func(t *testing.T) {
		l := newLife(t, destroy+`disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "3G" } }`)
		l.guest(func(world *state.World, g *state.Guest) {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-399-disk-0", Content: "images", VMID: 399, Format: "raw", Size: 2 << 30, Data: "another's"})
			g.Config["scsi1"] = "local-zfs:vm-399-disk-0,size=2G"
		})
		l.to(destroy + threeDisks)
		l.to(one)
		l.warned("vm-399-disk-0", "another VM", "never destroyed")
		l.want(map[string]string{"scsi0": "scsi0", "scsi2": "scsi2"})
		l.guest(func(world *state.World, _ *state.Guest) {
			if v := world.Volume("pve1", "local-zfs:vm-399-disk-0"); v == nil || v.Data != "another's" {
				t.Error("the other VM's volume is gone")
			}
		})
	})
	t.Run("no unplug", func(t *testing.T) {
		l := newLife(t, destroy+threeDisks)
		l.guest(func(_ *state.World, g *state.Guest) { g.Ignores = []string{"unplug"} })
		l.fails(one, "error on hot-unplugging device 'scsi1'")
		l.want(all)
		if waiting := l.waiting(); len(waiting) > 0 {
			t.Errorf("waits for a restart: %v", waiting)
		}
		if l.attr("disks.scsi1.volume") != l.volume("scsi1") {
			t.Errorf("state has lost the disk")
		}
		l.guest(func(_ *state.World, g *state.Guest) { g.Ignores = nil })
		l.to(one)
		l.want(map[string]string{"scsi0": "scsi0", "scsi2": "scsi2"})
	})
	t.Run("protected", func(t *testing.T) {
		l := newLife(t, destroy+"protection = true\n"+threeDisks)
		l.refuses("protection = true\n"+one, "protected")
		l.want(all)
	})
}

// file is the volume in a slot of a guest whose world is locked.
func (l *life) file(g *state.Guest, slot string) string {
	file, _, _ := strings.Cut(g.Config[slot], ",")
	return file
}

// TestANewEmptyDiskWhereOneLeaves: a slot that is renamed without the volume's name makes an empty disk; the plan says how to
// keep the data.
func TestANewEmptyDiskWhereOneLeaves(t *testing.T) {
	t.Parallel()
	l := newLife(t, threeDisks)
	volume := l.volume("scsi1")
	l.plan(strings.Replace(threeDisks, "scsi1", "scsi4", 1))
	l.warned("scsi4", "new, empty disk", fmt.Sprintf("disks.scsi4.imported_disk = { volume = %q }", volume))
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
	running, off := newLife(t, body).again(), newLife(t, stopped+body).again()
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
					with, begin = stopped, off
				}
				l := begin(t)
				l.to(with + change(c.old, c.to))
				l.want(all)
				l.wantSent(c.sent...)
				l.steady()
			})
		}
	}
	l := running(t)
	l.refuses(change(`"2G"`, `"1G"`), "cannot be shrunk")
	l.refuses(change(`"4m"`, `"2m"`), "cannot be changed")
	l.refuses(change(`tpm_state = { storage = "local-zfs"`, `tpm_state = { storage = "local-lvm"`), "stopped VM only")
	l.refuses(change(`"v2.0"`, `"v1.2"`), "cannot be changed")
	l.want(all)
	l.steady()
}

// TestDisksThatOthersChange: what somebody else does to the disks between plan and apply is not lost.
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
			nil, map[string]string{"scsi0": "scsi0", "unused0": "his", "unused1": "scsi1", "unused2": "hers"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, c.before)
			l.guest(func(world *state.World, g *state.Guest) {
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: 400, Format: "raw", Size: 1 << 30, Data: "his"})
				g.Config["unused0"] = "local-zfs:vm-400-disk-7"
			})
			pl := l.plan(c.after)
			l.guest(c.meanwhile)
			err := l.s.Apply(t.Context(), pl)
			for _, word := range c.words {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("want %q, got %v", word, err)
				}
			}
			if c.words == nil && err != nil {
				t.Fatal(err)
			}
			l.guest(func(world *state.World, g *state.Guest) { // where "gone" means gone
				if g.Config["unused0"] == "" {
					for key, v := range world.Volumes {
						if v.Data == "his" {
							delete(world.Volumes, key)
						}
					}
				}
			})
			l.want(c.want)
		})
	}
}

// TestDigestConflict: a change that comes between reading and writing makes PVE refuse, nothing is written, and the next plan
// goes on from what is true.
func TestDigestConflict(t *testing.T) {
	t.Parallel()
	l := newLife(t, threeDisks)
	less := `disks = { scsi0 = { storage = "local-zfs", size = "1G" }, scsi2 = { storage = "local-zfs", size = "3G" } }
description = "more"
`
	l.w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT", Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Before, Reason: "checksum mismatch (file change by other user?)"}})
	l.configure(less)
	pl, err := l.s.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.guest(func(_ *state.World, g *state.Guest) { g.Config["onboot"] = "1" })
	_ = l.s.Apply(t.Context(), pl)
	l.to(less)
	l.want(map[string]string{"scsi0": "scsi0", "unused0": "scsi1", "scsi2": "scsi2"})
	if l.config()["onboot"] != "1" {
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
	begin := newLife(t, before).again()
	l := begin(t)
	l.to(after)
	l.want(map[string]string{"scsi0": "scsi0"})
	if off := l.w.Sim.PowerOffs(); len(off) != 1 || off[0].Kind != state.PowerReboot {
		t.Errorf("want one restart, got %v", off)
	}
	l = begin(t)
	volume := l.volume("ide1")
	l.to(after + "reboot_policy = \"never\"\n")
	l.warned(volume, "was not destroyed", "next stop")
	l.want(map[string]string{"scsi0": "scsi0", "ide1": "ide1"})
	l.wantWaiting("ide1")
	l.steady()
}

// TestPlansThatNameVolumes: a volume that is where it is said to be costs a plan no request, and one that was renamed by a
// conversion to a template is the same.
func TestPlansThatNameVolumes(t *testing.T) {
	t.Parallel()
	l := newLife(t, stopped+threeDisks)
	body := stopped + l.named(`disks = { scsi0 = { imported_disk = { volume = <scsi0> } }, scsi1 = { imported_disk = { volume = <scsi1> }, storage = "local-zfs", size = "2G", backup = false }, scsi2 = { imported_disk = { volume = <scsi2> }, size = "3G" } }
`)
	reads := func(body string) int {
		l.configure(body)
		l.w.ResetCalls()
		pl, err := l.s.Plan(t.Context())
		if err != nil || !pl.Empty() {
			t.Errorf("%v\n%v", err, pl)
		}
		return l.w.Sim.LastOp()
	}
	plain := reads(stopped + threeDisks)
	l.to(body)
	l.wantSent()
	if named := reads(body); plain != named {
		t.Errorf("a plan makes %d requests, one that names its volumes %d", plain, named)
	}
	l.to(body + "template = true\n")
	if volume := l.volume("scsi1"); !strings.Contains(volume, "base-400-disk-") {
		t.Errorf("the template has %s", volume)
	}
	l.to(body + "template = true\n")
	l.wantSent()
}

// TestImportWithNamedVolumes: a configuration may name the volumes of an imported VM; the plan stays empty.
func TestImportWithNamedVolumes(t *testing.T) {
	t.Parallel()
	l := newLife(t, stopped+threeDisks)
	l.configure(stopped + l.named(`disks = { scsi0 = { imported_disk = { volume = <scsi0> } }, scsi1 = { imported_disk = { volume = <scsi1> }, size = "2G" }, scsi2 = { imported_disk = { volume = <scsi2> } } }
`))
	l.s.Forget(lifeAddress)
	if err := l.s.Import(t.Context(), lifeAddress, "pve1/400"); err != nil {
		t.Fatal(err)
	}
	l.w.ResetCalls()
	if err := l.s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantSent()
	l.want(map[string]string{"scsi0": "scsi0", "scsi1": "scsi1", "scsi2": "scsi2"})
}
