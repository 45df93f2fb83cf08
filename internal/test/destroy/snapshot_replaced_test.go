package destroy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestSnapshotIsNotReplacedByNone: a replacement removes the old snapshot before it takes the new one. The plan refuses one whose new
// snapshot cannot be taken, and no other: not where the same apply starts the guest first.
func TestSnapshotIsNotReplacedByNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attrs, power string
		says         string // "": the apply succeeds
	}{
		"memory of a guest that is off":         {"name = \"before\"\nvmstate = true\n", "stopped", "does not run"},
		"another name, of a guest that is off":  {"name = \"after\"\nvmstate = true\n", "stopped", "does not run"},
		"a name that is free":                   {"name = \"after\"\n", "stopped", ""},
		"memory of a guest that is started now": {"name = \"before\"\nvmstate = true\n", "running", ""},
		"a disk without the feature":            {"name = \"after\"\n", "stopped", "on a storage that takes no snapshots"},
		"a description":                         {"name = \"before\"\ndescription = \"x\"\n", "stopped", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			block := func(power, attrs string) string {
				return rig.NodeVMBlock("power_state = \""+power+"\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n") +
					"resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.x.vmid\n" + attrs + "}\n"
			}
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, block("stopped", "name = \"before\"\n"))
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				theirs := map[string]string{}
				for option, value := range world.Guests[400].Snaps["before"] {
					theirs[option] = value
				}
				theirs["snaptime"] = "1700000000"
				world.Guests[400].Snaps["theirs"] = theirs
				if name == "a disk without the feature" { // which was added by hand
					world.Storages["lvm-thick"] = &state.Storage{ID: "lvm-thick", Type: "lvm", Path: "thick", Content: []string{"images"}, Total: 20 << 30}
					added := &state.Volume{Storage: "lvm-thick", Node: "pve1", Name: "vm-400-disk-5", VMID: 400, Content: "images", Format: "raw", Size: 1 << 30}
					world.Put(added)
					world.Guests[400].Config["scsi5"] = added.Volid() + ",size=1G"
				}
			})
			w.Reconfigure(t, s, rig.TokenNoSSH, block(c.power, c.attrs))
			pl, err := s.Plan(t.Context())
			if c.says != "" {
				if err == nil {
					err = s.Apply(t.Context(), pl)
					t.Errorf("the plan refuses nothing, and the apply says %v", err)
				}
				wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), []string{c.says, "none would be left"}, nil)
			} else {
				rig.Must(t, err)
				rig.Must(t, s.Apply(t.Context(), pl))
			}
			w.Change(func(world *state.World) {
				if has := len(world.Guests[400].Snaps); has != 2 {
					t.Errorf("the VM has %d snapshots", has)
				}
			})
		})
	}
}

// TestSnapshotOfAChangedVMIsNotReplacedByNone: a snapshot whose name has the version, in the apply that also changes its VM. That a change of
// the VM is planned is no reason to look at nothing: its name, its guest's power and its disks are as the plan has them.
func TestSnapshotOfAChangedVMIsNotReplacedByNone(t *testing.T) {
	t.Parallel()
	const tag = "tags = [\"x\"]\n"
	memory := "name = \"before\"\nvmstate = true\n"
	for name, c := range map[string]struct {
		before, after, snapshot string
		raw                     bool   // a disk without snapshots was made by hand
		says                    string // "": the apply succeeds
	}{
		"a free name":                      {after: tag, snapshot: "name = \"next\"\n"},
		"memory of a guest that stays off": {before: rig.Stopped, after: rig.Stopped + tag, snapshot: memory, says: "will not run by then"},
		"memory of a guest that goes off":  {after: rig.Stopped, snapshot: memory, says: "will not run by then"},
		"memory of a guest that comes on":  {before: rig.Stopped, after: "power_state = \"running\"\n" + tag, snapshot: memory},
		"memory of a guest that runs":      {after: tag, snapshot: memory},
		"a disk without the feature":       {after: tag, snapshot: "name = \"next\"\n", raw: true, says: "takes no snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			block := func(lines, snapshot string) string {
				return rig.NodeVMBlock("disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"+lines) +
					"resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.x.vmid\n" + snapshot + "}\n"
			}
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, block(c.before, "name = \"before\"\n"))
			rig.Must(t, s.Converge(t.Context()))
			if c.raw {
				w.Change(func(world *state.World) {
					added := &state.Volume{Storage: "local", Node: "pve1", Name: "400/vm-400-disk-9.raw", VMID: 400, Content: "images", Format: "raw",
						Size: 1 << 30}
					world.Put(added)
					world.Guests[400].Config["scsi5"] = added.Volid() + ",size=1G"
				})
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, block(c.after, c.snapshot))
			pl, err := s.Plan(t.Context())
			switch {
			case c.says == "":
				rig.Must(t, err)
				rig.Must(t, s.Apply(t.Context(), pl))
			case err == nil:
				t.Errorf("the plan refuses nothing, and the apply says %v", s.Apply(t.Context(), pl))
			default:
				wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), []string{c.says, "none would be left"}, nil)
			}
			has := rig.GuestOf(w, 400).Snaps
			if is := has["before"] != nil || has["next"] != nil; !is {
				t.Errorf("the snapshot is lost: %v", has)
			}
		})
	}
}

// TestSnapshotMovesToAnotherVM: a change of vmid takes a snapshot of the other VM and removes the old one. The uuid that
// the configuration does not have is known after that. One that it has refuses the other VM, and says the way out.
func TestSnapshotMovesToAnotherVM(t *testing.T) {
	t.Parallel()
	disk := "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	vms := rig.NodeVMBlock(rig.Stopped+disk) + strings.NewReplacer(`"x"`, `"y"`, "400", "401").Replace(rig.NodeVMBlock(rig.Stopped+disk))
	block := func(of, lines string) string {
		return vms + "resource \"proxmox_vm_snapshot\" \"s\" {\n  name = \"before\"\n  vmid = proxmox_vm." + of + ".vmid\n" + lines + "}\n"
	}
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, block("x", ""))
	rig.Must(t, s.Converge(t.Context()))
	old := s.Attr("proxmox_vm_snapshot.s", "uuid")
	w.Reconfigure(t, s, rig.TokenNoSSH, block("y", "uuid = proxmox_vm.x.uuid\n"))
	if _, err := s.Plan(t.Context()); err == nil {
		t.Error("a snapshot of another VM than the configuration says is not refused")
	}
	wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), []string{"is another VM", "none would be left", "correct vmid or uuid"}, nil)
	w.Reconfigure(t, s, rig.TokenNoSSH, block("y", ""))
	w.Change(func(world *state.World) {
		world.Guests[401].Snaps = map[string]map[string]string{"before": {"snaptime": "1700000000"}}
	})
	if _, err := s.Plan(t.Context()); err == nil {
		t.Error("a name that a third party's snapshot of the other VM has is not refused")
	}
	wantSaid(t, "the plan", fmt.Sprint(s.Diagnostics()), []string{"VM 401 on node pve1 has a snapshot before already", "none would be left"}, nil)
	w.Change(func(world *state.World) { delete(world.Guests[401].Snaps, "before") })
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	if c := pl.Change("proxmox_vm_snapshot.s"); c == nil || terraformtest.At(c.Planned, "uuid").IsKnown() {
		t.Errorf("planned %s", pl)
	}
	rig.Must(t, s.Apply(t.Context(), pl))
	if is := s.Attr("proxmox_vm_snapshot.s", "uuid"); is.RawEquals(old) || !is.RawEquals(s.Attr("proxmox_vm.y", "uuid")) {
		t.Errorf("the uuid is %#v, was %#v", is, old)
	}
	w.Change(func(world *state.World) {
		if x, y := len(world.Guests[400].Snaps), len(world.Guests[401].Snaps); x != 0 || y != 1 {
			t.Errorf("the old VM has %d snapshots, the new one has %d", x, y)
		}
	})
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}
