package adoption_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestAdoptedDiskOfAReplacedVM: PVE destroys an adopted disk with its VM. So no plan replaces a VM that has a disk which
// the new one is to adopt: whatever asks for the replacement, with and without a refresh, and wherever the disk is by
// now.
func TestAdoptedDiskOfAReplacedVM(t *testing.T) {
	t.Parallel()
	const adopted = "local-zfs:vm-200-disk-0"
	cases := map[string]struct {
		config string
		change func(*state.World, *state.Guest)
		says   string
	}{
		"in its slot": {says: "is a disk of VM 200"},
		"detached": {says: "is a disk of VM 200", config: `power_state = "stopped"`, change: func(_ *state.World, g *state.Guest) {
			delete(g.Config, "scsi0")
			g.Config["unused0"] = adopted
		}},
		"moved to another storage": {says: "may have moved", change: func(w *state.World, g *state.Guest) {
			v := *w.Volume("pve1", adopted)
			delete(w.Volumes, w.Storages["local-zfs"].Key("pve1", v.Name))
			v.Storage = "local-lvm"
			w.Put(&v)
			g.Config["scsi0"] = strings.Replace(g.Config["scsi0"], "local-zfs:", "local-lvm:", 1)
		}},
	}
	for name, c := range cases {
		for _, how := range []string{"tainted", "-replace"} {
			for _, refresh := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, refresh %t", name, how, refresh), func(t *testing.T) {
					w := rig.DisksWithoutVM(t, "vm-200-disk-0")
					s := w.Session(t, rig.TokenNoSSH, rig.Adopting(rig.AdoptedDisk, c.config))
					rig.Must(t, s.Converge(t.Context()))
					if c.change != nil {
						w.Change(func(world *state.World) { c.change(world, world.Guests[200]) })
					}
					var options []terraformtest.PlanOption
					if s.Taint(rig.VMAddress, how == "tainted"); how == "-replace" {
						options = append(options, terraformtest.Replacing(rig.VMAddress))
					}
					if !refresh {
						options = append(options, terraformtest.WithoutRefresh())
					}
					_, err := s.Plan(t.Context(), options...)
					rig.MustRefuse(t, err, []string{"VM 200", adopted, c.says, "terraform untaint"})
				})
			}
		}
	}
}

// TestAdoptOfAReplacedVM: a volume that the replaced VM does not have is adopted by the new one.
func TestAdoptOfAReplacedVM(t *testing.T) {
	t.Parallel()
	for _, refresh := range []bool{true, false} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.TokenNoSSH, rig.Adopting(`{ storage = "local-zfs", size = "1G" }`, ""))
		rig.Must(t, s.Converge(t.Context()))
		w.Change(func(world *state.World) {
			world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-200-disk-5", Content: "images", VMID: 200, Format: "raw",
				Size: 4 << 30, Data: "data"})
		})
		w.Reconfigure(t, s, rig.TokenNoSSH, rig.Adopting(strings.Replace(rig.AdoptedDisk, "disk-0", "disk-5", 1), ""))
		options := []terraformtest.PlanOption{}
		if !refresh {
			options = append(options, terraformtest.WithoutRefresh())
		}
		s.Taint(rig.VMAddress, true)
		pl, err := s.Plan(t.Context(), options...)
		rig.Must(t, err)
		rig.Must(t, s.Apply(t.Context(), pl))
		if data := rig.DataOf(w, "vm-200-disk-5"); data != "data" || !strings.Contains(rig.GuestOf(w, 200).Config["scsi0"], "disk-5") {
			t.Errorf("refresh %t: the volume has %q, the VM %v", refresh, data, rig.GuestOf(w, 200).Config)
		}
	}
}

// TestAdoptOfAVMWithAnUnknownID: the id comes from a resource that changes in the same plan, so the VM is replaced, and
// may get its old id again.
func TestAdoptOfAVMWithAnUnknownID(t *testing.T) {
	t.Parallel()
	w := rig.DisksWithoutVM(t, "vm-200-disk-0")
	s := w.NewSession()
	s.SetVariable("id", cty.NumberIntVal(200))
	rig.Must(t, s.Configure(w.ProviderBlock(rig.TokenNoSSH), "variable \"id\" { type = number }\n"+
		strings.Replace(rig.Adopting(rig.AdoptedDisk, ""), "vmid = 200", "vmid = var.id", 1)))
	rig.Must(t, s.Converge(t.Context()))
	s.SetVariable("id", cty.UnknownVal(cty.Number))
	_, err := s.Plan(t.Context())
	rig.MustRefuse(t, err, []string{"Cannot replace", "local-zfs:vm-200-disk-0 is a disk of VM 200"})
}

// TestAdoptUnderAnotherName: two storages name one place, so the volume to adopt is listed under another name, too. It
// counts as no leftover under either.
func TestAdoptUnderAnotherName(t *testing.T) {
	t.Parallel()
	for _, id := range []rig.Identity{rig.TokenNoSSH, rig.RootTicket} {
		for _, alias := range []string{"a-alias", "z-alias"} {
			for _, orphans := range []string{"", `on_orphaned_volumes = "destroy"`} {
				w := rig.DisksWithoutVM(t, "vm-200-disk-0", "vm-200-disk-7")
				w.Change(func(world *state.World) {
					twin := *world.Storages["local-zfs"]
					twin.ID, twin.Same = alias, "local-zfs"
					world.Storages[twin.ID] = &twin
					if orphans == "" {
						delete(world.Volumes, world.Storages["local-zfs"].Key("pve1", "vm-200-disk-7"))
					}
				})
				s := w.Session(t, id, rig.Adopting(rig.AdoptedDisk, orphans))
				pl, err := s.Plan(t.Context())
				rig.Must(t, err)
				if said := says(s, "vm-200-disk-0"); said {
					t.Errorf("%s, %q: %v", id, orphans, s.Diagnostics())
				}
				if warned := says(s, "vm-200-disk-7"); warned != (orphans != "") {
					t.Errorf("%s: the plan says %v", id, s.Diagnostics())
				}
				rig.Must(t, s.Apply(t.Context(), pl))
				if data := rig.DataOf(w, "vm-200-disk-0"); data != "data of vm-200-disk-0" {
					t.Errorf("%s, %q: the disk has %q", id, orphans, data)
				}
				if data := rig.DataOf(w, "vm-200-disk-7"); data != "" {
					t.Errorf("%s, %q: the leftover is there", id, orphans)
				}
			}
		}
	}
}

// TestAdoptedDiskOfAReplacedVMUnderAnotherName: the VM has the disk by one storage, and the configuration names it by
// another one that is the same place: the user has written the new name, or an administrator has put it into the VM.
func TestAdoptedDiskOfAReplacedVMUnderAnotherName(t *testing.T) {
	t.Parallel()
	for _, byUser := range []bool{true, false} {
		for _, refresh := range []bool{true, false} {
			w := rig.DisksWithoutVM(t, "vm-200-disk-0")
			w.Change(func(world *state.World) {
				twin := *world.Storages["local-zfs"]
				twin.ID, twin.Same = "a-alias", "local-zfs"
				world.Storages[twin.ID] = &twin
			})
			s := w.Session(t, rig.TokenNoSSH, rig.Adopting(rig.AdoptedDisk, ""))
			rig.Must(t, s.Converge(t.Context()))
			if byUser {
				w.Reconfigure(t, s, rig.TokenNoSSH, rig.Adopting(strings.Replace(rig.AdoptedDisk, "local-zfs", "a-alias", 1), ""))
			} else {
				w.Change(func(world *state.World) {
					g := world.Guests[200]
					g.Config["scsi0"] = strings.Replace(g.Config["scsi0"], "local-zfs:", "a-alias:", 1)
				})
			}
			var options []terraformtest.PlanOption
			if s.Taint(rig.VMAddress, true); !refresh {
				options = append(options, terraformtest.WithoutRefresh())
			}
			_, err := s.Plan(t.Context(), options...)
			rig.MustRefuse(t, err, []string{"vm-200-disk-0 is a disk of VM 200"})
		}
	}
}

// TestAdoptOnAnotherNode: the replacement goes to another node, on which the volume is.
func TestAdoptOnAnotherNode(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.Adopting(`{ storage = "local-zfs", size = "1G" }`, ""))
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve2", Name: "vm-200-disk-5", Content: "images", VMID: 200, Format: "raw",
			Size: 4 << 30, Data: "data"})
	})
	s.Taint(rig.VMAddress, true)
	other := rig.Adopting(strings.Replace(rig.AdoptedDisk, "disk-0", "disk-5", 1), "")
	w.Reconfigure(t, s, rig.TokenNoSSH, strings.Replace(other, "pve1", "pve2", 1))
	rig.Must(t, s.Converge(t.Context()))
	if data := rig.DataOf(w, "vm-200-disk-5"); data != "data" || rig.GuestOf(w, 200).Node != "pve2" {
		t.Errorf("the volume has %q, the VM is on %s", data, rig.GuestOf(w, 200).Node)
	}
}

// TestOrphansOfACopyOnTheNodeOfItsSource: a copy is first made on the node of its source. Volumes with the id there are
// refused; those on the VM's own node are named by the plan, and destroyed.
func TestOrphansOfACopyOnTheNodeOfItsSource(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"local-zfs", "shared-nfs"} {
		for _, node := range []string{"pve1", "pve2"} {
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				world.Put(&state.Volume{Storage: "local-zfs", Node: node, Name: "vm-200-disk-7", Content: "images", VMID: 200, Format: "raw",
					Size: 3 << 30, Data: "theirs"})
			})
			s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf("resource \"proxmox_vm\" \"x\" {\n  vmid = 200\n  node = \"pve2\"\n  name = \"x\"\n"+
				"  power_state = \"stopped\"\n  on_orphaned_volumes = \"destroy\"\n  clone = { vmid = 9000, full = true, storage = %q }\n}\n", storage))
			pl, err := s.Plan(t.Context())
			if node == "pve1" {
				rig.MustSay(t, err, "on which the copy is made first: local-zfs:vm-200-disk-7")
				continue
			}
			rig.Must(t, err)
			named := says(s, "vm-200-disk-7")
			err = s.Apply(t.Context(), pl)
			if gone := rig.DataOf(w, "vm-200-disk-7") == ""; !gone || !named || err != nil {
				t.Errorf("%s: named by the plan %t, gone %t: %v", storage, named, gone, err)
			}
		}
	}
}

// TestReplacedVMWithVolumesOfOthers: a replacement leaves the volumes with the VM's id that its destroy has spared, or
// that were beside the VM, though the configuration says that orphaned volumes are to be destroyed.
func TestReplacedVMWithVolumesOfOthers(t *testing.T) {
	t.Parallel()
	const config = "resource \"proxmox_vm\" \"x\" {\n  vmid = 400\n  node = \"pve1\"\n  power_state = \"stopped\"\n" +
		"  on_orphaned_volumes = \"destroy\"\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n}\n"
	const theirs = "local-zfs:vm-400-disk-7"
	for name, give := range map[string]func(*state.Guest){
		"beside it": func(*state.Guest) {},
		"detached":  func(g *state.Guest) { g.Config["unused0"] = theirs },
		"in a snapshot": func(g *state.Guest) {
			section := maps.Clone(g.Config)
			section["scsi3"], section["snaptime"] = theirs+",size=3G", "1700000000"
			g.Snaps = map[string]map[string]string{"theirs": section}
			g.Config["parent"] = "theirs"
		},
	} {
		for _, how := range []string{"tainted", "-replace"} {
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, config)
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-7", Content: "images", VMID: 400, Format: "raw",
					Size: 3 << 30, Data: "theirs"})
				give(world.Guests[400])
			})
			var options []terraformtest.PlanOption
			if s.Taint(rig.VMAddress, how == "tainted"); how == "-replace" {
				options = append(options, terraformtest.Replacing(rig.VMAddress))
			}
			before := rig.GuestOf(w, 400).Config["smbios1"]
			pl, err := s.Plan(t.Context(), options...)
			rig.Must(t, err)
			rig.Must(t, s.Apply(t.Context(), pl))
			if data := rig.DataOf(w, "vm-400-disk-7"); data != "theirs" || rig.GuestOf(w, 400).Config["smbios1"] == before {
				t.Errorf("%s, %s: the volume has %q, the VM %v", name, how, data, rig.GuestOf(w, 400).Config)
			}
			if !says(s, "Volumes with the id 400 were left") {
				t.Errorf("%s, %s: the apply says %v", name, how, s.Diagnostics())
			}
		}
	}
}

// says reports whether the diagnostics of the last command contain some words.
func says(s *terraformtest.Session, words string) bool {
	return strings.Contains(fmt.Sprint(s.Diagnostics()), words)
}
