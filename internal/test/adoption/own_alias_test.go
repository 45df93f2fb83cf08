package adoption_test

import (
	"cmp"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const ownDisks = `scsi0 = { storage = "local-zfs", size = "1G" }, `

// twice is a storage with a second id, and how PVE sees it.
type twice struct {
	id, second string
	alter      func(twin *state.Storage)
}

// twiceNamed are a directory that two storages have, an export that two mount, and one whose server has another address by now.
func twiceNamed() map[string]twice {
	return map[string]twice{
		"two directories": {"local2", "local2-alias", func(*state.Storage) {}},
		"two mounts":      {"shared-nfs", "nfs-new", func(s *state.Storage) { s.Path = "/mnt/pve/nfs-new" }},
		"a new address": {"shared-nfs", "nfs-new", func(s *state.Storage) {
			s.Path, s.Options = "/mnt/pve/nfs-new", map[string]string{"server": "nas.example.org"}
		}},
	}
}

// add adds the second id.
func (s twice) add(w *state.World) {
	w.Storages["shared-nfs"].Export = "/srv/vms"
	twin := *w.Storages[s.id]
	twin.ID, twin.Same = s.second, s.id
	s.alter(&twin)
	w.Storages[twin.ID] = &twin
}

// alias is the name of a volume on the other storage.
func (s twice) alias(volume string) string { return strings.Replace(volume, s.id+":", s.second+":", 1) }

// newTwice makes VM 400 with scsi1 on such a storage, which has its second id by then.
func newTwice(t *testing.T, s twice, body string) (l *rig.VM, volume string) {
	t.Helper()
	l = rig.NewVM(t, body+"disks = { "+ownDisks+`scsi1 = { storage = "`+s.id+"\", size = \"2G\", format = \"raw\" } }\n")
	l.World.Change(s.add)
	volume = l.Volume("scsi1")
	return l, volume
}

// drives are the disks of the VM, in slots and detached.
func drives(l *rig.VM) map[string]string {
	config := l.Config()
	maps.DeleteFunc(config, func(option, value string) bool {
		return !strings.HasPrefix(option, "scsi") && !strings.HasPrefix(option, "unused") || option == "scsihw"
	})
	return config
}

// wantOwnDisks fails the test if a disk of the VM has changed, or a volume is gone.
func wantOwnDisks(l *rig.VM, volume string, was map[string]string) {
	l.Helper()
	if is := drives(l); !maps.Equal(is, was) {
		l.Errorf("%v, and it was %v", is, was)
	}
	if l.World.Sim.World().Volume("pve1", volume) == nil {
		l.Errorf("%s was destroyed", volume)
	}
}

// TestOwnDiskUnderAnotherName: a storage has two ids, and a configuration names a disk of its VM by the other one. The plan refuses
// it, and tells the name that the VM has: in a second slot both would write to one file, and with the first name PVE would free it.
func TestOwnDiskUnderAnotherName(t *testing.T) {
	t.Parallel()
	const alias = `{ imported_disk = { volume = "<alias>" } }`
	for name, c := range map[string]struct{ slot, more, disks string }{
		"beside it":                {"scsi3", "", `scsi1 = { storage = "<id>", size = "2G", format = "raw" }, scsi3 = ` + alias},
		"its slot leaves":          {"scsi3", "", `scsi3 = ` + alias},
		"its slot leaves for good": {"scsi3", "removed_disks = \"destroy\"\n", `scsi3 = ` + alias},
		"in its slot":              {"scsi1", "", `scsi1 = ` + alias},
	} {
		for kind, s := range twiceNamed() {
			for _, power := range []string{"", rig.Stopped} {
				t.Run(strings.Join([]string{name, kind, cmp.Or(strings.TrimSpace(power), "running")}, ", "), func(t *testing.T) {
					t.Parallel()
					l, volume := newTwice(t, s, power)
					was := drives(l)
					disks := strings.NewReplacer("<id>", s.id, "<alias>", s.alias(volume)).Replace(c.disks)
					l.Refuses(power+c.more+"disks = { "+ownDisks+disks+" }\n", `disks["`+c.slot+`"].imported_disk.volume`, s.alias(volume),
						volume+", which VM 400 has in scsi1")
					wantOwnDisks(l, volume, was)
				})
			}
		}
	}
}

// TestCopyOfAnOwnDiskUnderAnotherName: a plan destroys or moves a disk that a new one is to be copied of, by the name of its storage's other
// id. It is refused as one by the disk's own name: the copy would be of another disk, or both would be gone. So is such a name for a
// disk that is there, into which nothing is copied.
func TestCopyOfAnOwnDiskUnderAnotherName(t *testing.T) {
	t.Parallel()
	const copied, stays = `scsi5 = { storage = "local-lvm", import_from = "<alias>" }`, `scsi1 = { storage = "<id>", size = "2G", format = "raw" }`
	for name, c := range map[string]struct{ at, disks, says string }{
		"moves":         {"scsi5", `scsi1 = { storage = "local-lvm", size = "2G", format = "raw" }, ` + copied, "That disk moves first"},
		"is destroyed":  {"scsi5", copied, "neither is left"},
		"into a disk":   {"scsi0", `scsi0 = { storage = "local-zfs", size = "1G", import_from = "<alias>" }`, "import_from is only recorded"},
		"stays":         {"", stays + ", " + copied, ""},
		"to a new slot": {"", `scsi3 = { imported_disk = { volume = "<own>" } }, ` + copied, ""},
	} {
		for kind, s := range twiceNamed() {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				l, volume := newTwice(t, s, rig.Stopped)
				was := drives(l)
				disks := strings.NewReplacer("<id>", s.id, "<own>", volume, "<alias>", s.alias(volume)).Replace(c.disks)
				if !strings.Contains(disks, "scsi0") {
					disks = ownDisks + disks
				}
				to := rig.Stopped + "removed_disks = \"destroy\"\ndisks = { " + disks + " }\n"
				if c.at == "" {
					l.To(to)
					return
				}
				l.Refuses(to, `disks["`+c.at+`"].import_from`, s.alias(volume)+" (which is, or may be, "+volume+")", c.says)
				wantOwnDisks(l, volume, was)
			})
		}
	}
}

// own7 is a volume of VM 400 that no configuration names.
func own7(w *state.World, storage string) string {
	v := &state.Volume{Storage: storage, Name: "400/vm-400-disk-7.raw", Content: "images", VMID: 400, Format: "raw", Size: 2 << 30, Data: "another"}
	if !w.Storages[storage].Shared {
		v.Node = "pve1"
	}
	w.Put(v)
	return v.Volid()
}

// ownAlias7 is a configuration that attaches it by a name.
func ownAlias7(s twice, more, volume string) string {
	return more + "disks = { " + ownDisks + `scsi1 = { storage = "` + s.id + `", size = "2G", format = "raw" }, scsi3 = { imported_disk = { volume = "` +
		volume + "\" } } }\n"
}

// TestAnotherVolumeOfASecondNameIsAttached: by either id of a storage a VM gets a volume that it does not have.
func TestAnotherVolumeOfASecondNameIsAttached(t *testing.T) {
	t.Parallel()
	for kind, s := range twiceNamed() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l, _ := newTwice(t, s, "")
			var volume string
			l.World.Change(func(w *state.World) { volume = own7(w, s.id) })
			l.To(ownAlias7(s, "", s.alias(volume)))
			if got := l.Volume("scsi3"); got != s.alias(volume) || l.Contents()["scsi3"] != "another" {
				t.Errorf("scsi3 has %s, %v", got, l.Contents())
			}
		})
	}
}

// TestVolumesOfOneNameOnTwoServers: each of two servers may have a volume of one name, and nothing tells whether they are one. A
// detached disk was one beside the other. Another volume differs in its size, or in the time of its last change.
func TestVolumesOfOneNameOnTwoServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size          int64
		later         time.Duration
		detached, one bool
	}{
		"another size": {size: 3 << 30}, "another time": {size: 2 << 30, later: -time.Hour},
		"alike": {size: 2 << 30, one: true}, "alike, while the guest writes": {size: 2 << 30, later: time.Minute, one: true},
		"alike, detached": {size: 2 << 30, detached: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := twice{"shared-nfs", "nfs-new", func(s *state.Storage) {
				s.Same, s.Path, s.Options = "", "/mnt/pve/nfs-new", map[string]string{"server": "nas2.example"}
			}}
			l, volume := newTwice(t, s, rig.Stopped)
			l.Guest(func(w *state.World, g *state.Guest) {
				first := w.Volume("pve1", volume)
				second := &state.Volume{Storage: s.second, Name: first.Name, Content: "images", VMID: 400, Format: "raw", Size: c.size, Data: "another"}
				w.Put(second)
				second.Created = first.Created.Add(c.later)
				if c.detached {
					g.Config["unused0"] = s.alias(volume)
				}
			})
			body := ownAlias7(s, rig.Stopped, s.alias(volume))
			if c.one {
				l.Refuses(body, `disks["scsi3"].imported_disk.volume`, "may be "+volume, "qm disk rescan --vmid 400")
				return
			}
			if l.To(body); l.Contents()["scsi3"] != "another" {
				t.Errorf("%v", l.Contents())
			}
		})
	}
}

// TestOwnDiskInUseIsNotDestroyed: the VM has a disk by two names, since its file was edited. Nothing that would free the one is
// done: PVE sees no other use on two mounts, nor in a pending change.
func TestOwnDiskInUseIsNotDestroyed(t *testing.T) {
	t.Parallel()
	const destroy = "removed_disks = \"destroy\"\n"
	for has, option := range map[string]string{"in a slot": "scsi5", "detached": "unused0", "pending": "scsi5", "in a snapshot": "scsi5"} {
		for kind, s := range twiceNamed() {
			if kind == "a new address" { // it may be any other volume
				continue
			}
			t.Run(has+", "+kind, func(t *testing.T) {
				t.Parallel()
				l, volume := newTwice(t, s, destroy)
				l.Guest(func(_ *state.World, g *state.Guest) {
					switch drive := s.alias(volume) + ",size=2G"; has {
					case "in a snapshot":
						g.Snaps = map[string]map[string]string{"before": {option: drive, "snaptime": "1"}}
					case "pending":
						g.Pending = map[string]string{option: drive}
					case "detached":
						g.Config[option] = s.alias(volume)
					default:
						g.Config[option] = drive
					}
				})
				was := drives(l)
				words := []string{"Volume " + volume + " of VM 400 is not destroyed", "Nothing was changed"}
				line := "scsi1"
				if has == "detached" {
					line = option
				}
				if has != "in a snapshot" {
					words = append(words, option+", as "+s.alias(volume), "take the line "+line+" out of /etc/pve/qemu-server/400.conf")
				}
				l.Fails(destroy+"disks = { "+ownDisks+"}\n", words...)
				wantOwnDisks(l, volume, was)
				if has == "in a slot" {
					l.Fails(destroy+"disks = { "+ownDisks+"scsi1 = { storage = \"local-lvm\", size = \"2G\" } }\n", "was not moved", option+", as "+s.alias(volume))
					wantOwnDisks(l, volume, was)
				}
			})
		}
	}
}

// TestOwnDiskIsRenamedByHand: what the refusals tell to do. A line with the new name is the disk for the next plan, and one that
// is taken out frees nothing.
func TestOwnDiskIsRenamedByHand(t *testing.T) {
	t.Parallel()
	for kind, s := range twiceNamed() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l, volume := newTwice(t, s, rig.Stopped)
			l.Guest(func(_ *state.World, g *state.Guest) { g.Config["scsi1"] = s.alias(g.Config["scsi1"]) })
			l.To(rig.Stopped + "disks = { " + ownDisks + `scsi1 = { storage = "` + s.second + "\", size = \"2G\", format = \"raw\" } }\n")
			named := rig.Stopped + "disks = { " + ownDisks + `scsi1 = { imported_disk = { volume = "` + s.alias(volume) + "\" } } }\n"
			l.To(named)
			if has := l.Volume("scsi1"); has != s.alias(volume) || l.Contents()["scsi1"] != "scsi1" {
				t.Errorf("scsi1 has %s, %v", has, l.Contents())
			}
			l.Guest(func(_ *state.World, g *state.Guest) { g.Config["scsi1"] = volume + ",size=2G" })
			if pl := l.Plan(named); !pl.Empty() || len(l.Session.Diagnostics()) > 0 {
				t.Errorf("back to its first name: %v", l.Session.Diagnostics())
			}
			l.Guest(func(_ *state.World, g *state.Guest) { delete(g.Config, "scsi1") })
			l.To(rig.Stopped + "removed_disks = \"destroy\"\ndisks = { " + ownDisks + "}\n")
			if l.World.Sim.World().Volume("pve1", volume) == nil {
				t.Error("the volume was destroyed")
			}
		})
	}
}

// TestVolumeIsNotAdoptedTwice: a new VM gets no volume in two slots, by two names.
func TestVolumeIsNotAdoptedTwice(t *testing.T) {
	t.Parallel()
	s := twiceNamed()["two mounts"]
	w := rig.NewWorld(t)
	var volume string
	w.Change(func(all *state.World) {
		s.add(all)
		volume = own7(all, s.id)
	})
	disk := func(slot, volume string) string {
		return slot + ` = { imported_disk = { volume = "` + volume + "\" } }\n"
	}
	session := w.Session(t, rig.TokenNoSSH, rig.NodeVMBlock("disks = {\n"+disk("scsi0", volume)+disk("scsi1", s.alias(volume))+"}\n"))
	rig.MustSay(t, session.Run(t.Context()), s.alias(volume)+" cannot be adopted twice", volume, "No VM was created")
	if rig.GuestOf(w, 400).VMID != 0 {
		t.Error("a VM was made")
	}
}
