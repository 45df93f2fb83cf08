package snapshot

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// retake removes a snapshot of VM 300 and takes another of that name.
func retake(w *state.World) {
	g := w.Guests[ours]
	if g == nil || g.Config["lock"] != "" { // PVE refuses it
		return
	}
	g.Snaps = map[string]map[string]string{"before": {"snaptime": "7", "description": "theirs",
		"scsi0": g.Config["scsi0"]}}
	for _, v := range w.Volumes {
		if v.VMID == ours && strings.Contains(v.Name, "disk") {
			v.Snaps = []string{"before"}
		}
	}
	g.Config["parent"] = "before"
}

// replace puts another VM in the place of VM 300, with a snapshot of its own.
func replace(w *state.World) {
	if g := w.Guests[ours]; g != nil && g.Config["lock"] == "" {
		g.Config["smbios1"], g.Config["meta"], g.Config["name"] = "uuid="+uuidOf(9), "creation-qemu=9.2.0,ctime=9", "theirs"
		retake(w)
	}
}

// TestSnapshotOfAThirdParty: after whichever answer a third party takes a snapshot of the same name, or makes another
// VM of the id with such a snapshot, it stays: while ours is taken, described, and removed. PVE binds none of these
// requests to what was seen, so the time between the last look and the request itself is left, and nothing more: the
// looks come right before.
func TestSnapshotOfAThirdParty(t *testing.T) {
	acts := map[string]func(*state.World){"retake": retake, "replace": replace}
	for name, act := range acts {
		for _, verb := range []string{"take", "describe", "remove"} {
			came := 0
			for at := 1; ; at++ {
				r := newRig(t, false)
				ref := Ref{VM: guest.Ref{VMID: ours, Node: "pve1", Identity: guest.Identity{UUID: uuidOf(ours)}}, Name: "before"}
				if verb != "take" {
					taken, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"})
					if err != nil {
						t.Fatal(err)
					}
					ref.Taken = taken.Taken
				}
				var asked []string
				did := false
				r.answered = func(method, _ string) {
					if asked = append(asked, method); len(asked) == at {
						r.change(func(w *state.World) {
							act(w)
							did = w.Guests[ours] != nil && w.Guests[ours].Snaps["before"]["description"] == "theirs"
						})
					}
				}
				var err error
				switch verb {
				case "take":
					_, err = r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before", Description: "ours"})
				case "describe":
					_, err = r.s.Describe(t.Context(), ref, "", "ours, too")
				case "remove":
					_, err = r.s.Delete(t.Context(), ref)
				}
				if len(asked) < at {
					break
				}
				if !did || len(asked) > at && (asked[at] == "PUT" || asked[at] == "DELETE") {
					continue
				}
				came++
				r.change(func(w *state.World) {
					if got := w.Guests[ours].Snaps["before"]["description"]; got != "theirs" {
						t.Errorf("%s, %s, after answer %d of %d: the third party's snapshot has the description %q; %v", name, verb, at,
							len(asked), got, err)
					}
				})
			}
			if came < 2 {
				t.Errorf("%s, %s: the third party came %d times", name, verb, came)
			}
		}
	}
}

// TestNameTakenSinceTheLook: a run that was killed, or a third party, takes a snapshot of the name after the look. The
// error has the command that removes it, or the one that adopts it.
func TestNameTakenSinceTheLook(t *testing.T) {
	for description, says := range map[string]string{
		string(newMark(ours)): "`qm delsnapshot 300 before --force` as root on node pve1",
		"theirs":              "its import id is 300/before",
	} {
		r := newRig(t, false)
		r.startGuest()
		r.answered = func(method, path string) {
			if method == "GET" && strings.HasSuffix(path, "/config") {
				r.answered = nil
				r.change(func(w *state.World) {
					retake(w)
					memory := &state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-state-before", VMID: ours,
						Content: "images", Format: "raw", Size: 1 << 30}
					w.Put(memory)
					snap := w.Guests[ours].Snaps["before"]
					snap["description"], snap["vmstate"] = description, memory.Volid()
				})
			}
		}
		_, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before", Memory: true})
		var at *guest.FieldError
		if !errors.As(err, &at) || at.Path != "name" || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "vm-300-state-before") {
			t.Errorf("by %q: %v", description, err)
		}
		r.change(func(w *state.World) {
			if got := w.Guests[ours].Snaps["before"]["description"]; got != description {
				t.Errorf("the snapshot of %q has the description %q", description, got)
			}
		})
	}
}

// TestSnapshotNamesake: another VM has a snapshot of the same name on the same volume, which would go with ours.
func TestSnapshotNamesake(t *testing.T) {
	for _, same := range []bool{true, false} {
		r := newRig(t, false)
		taken, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"})
		if err != nil {
			t.Fatal(err)
		}
		r.change(func(w *state.World) {
			g := w.Guests[theirs]
			g.Config["scsi1"] = w.Guests[ours].Config["scsi0"]
			name := map[bool]string{true: "before", false: "other"}[same]
			g.Snaps = map[string]map[string]string{name: {"snaptime": "7", "scsi0": g.Config["scsi0"],
				"scsi1": g.Config["scsi1"]}}
		})
		_, err = r.s.Delete(t.Context(), Ref{VM: guest.Ref{VMID: ours, Node: "pve1", Identity: taken.VM}, Name: "before",
			Taken: taken.Taken})
		if refused := err != nil && strings.Contains(err.Error(), "VM 301 (vm301)"); refused != same {
			t.Errorf("same name %t: %v", same, err)
		}
	}
}

// TestRollBackOfSharedDisk: another VM has the disk attached, or in the memory of a snapshot: what that VM
// has written to it since is not ours to take back.
func TestRollBackOfSharedDisk(t *testing.T) {
	for _, where := range []string{"scsi1", "unused0", "snapshot", ""} {
		r := newRig(t, false)
		if _, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"}); err != nil {
			t.Fatal(err)
		}
		r.change(func(w *state.World) {
			g, disk := w.Guests[theirs], w.Guests[ours].Config["scsi0"]
			switch where {
			case "snapshot": // under another name it stays, whatever the disk is taken back to
				g.Snaps = map[string]map[string]string{"other": {"snaptime": "7", "scsi1": disk}}
			case "":
			default:
				g.Config[where] = disk
			}
		})
		_, err := r.s.Do(t.Context(), RollBack{Choice: guest.Choice{VMID: ours}, Name: "before"})
		shared := where == "scsi1" || where == "unused0"
		if refused := err != nil && strings.Contains(err.Error(), "VM 301 (vm301) on node pve1 ("+where+
			")"); refused != shared || !refused && err != nil {
			t.Errorf("%q: %v", where, err)
		}
	}
}

// TestRollBackTakesNoDiskOfAnotherVM: a VM has got the disk of another one since the snapshot. PVE would cut the guest
// off and make the disk an unused one of the VM. The roll-back is refused, and the guest runs on with its disk.
func TestRollBackTakesNoDiskOfAnotherVM(t *testing.T) {
	for _, later := range []bool{true, false} {
		r := newRig(t, false)
		const disk = "local-zfs:vm-301-disk-7"
		r.change(func(w *state.World) {
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-301-disk-7", VMID: theirs, Content: "images",
				Format: "raw", Size: 1 << 30})
			if !later {
				w.Guests[ours].Config["scsi1"] = disk + ",size=1G"
			}
		})
		if _, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"}); err != nil {
			t.Fatal(err)
		}
		r.change(func(w *state.World) {
			g := w.Guests[ours]
			g.Config["scsi1"], g.Running = disk+",size=1G", &state.Running{PID: 7, StartedAt: w.Clock.Now(), Booted: maps.Clone(g.Config)}
		})
		_, err := r.s.Do(t.Context(), RollBack{Choice: guest.Choice{VMID: ours}, Name: "before"})
		r.change(func(w *state.World) {
			g := w.Guests[ours]
			if (g.Running != nil) != later || !strings.HasPrefix(g.Config["scsi1"], disk) {
				t.Errorf("later %t: the guest runs: %t, with %v", later, g.Running != nil, g.Config)
			}
		})
		if later != (err != nil && strings.Contains(err.Error(), "it has "+disk+" of VM 301 in scsi1")) {
			t.Errorf("later %t: %v", later, err)
		}
	}
}

// TestRollBackOfACloudInitDrive: PVE destroys a cloud-init drive that the snapshot has not, also one that carries the id
// of another VM, as in a configuration that was copied by hand (qemu-server QemuConfig.pm add_unused_volume).
func TestRollBackOfACloudInitDrive(t *testing.T) {
	for _, where := range []string{"ide2", "snapshot", ""} {
		r := newRig(t, false)
		if _, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"}); err != nil {
			t.Fatal(err)
		}
		const drive = "local-zfs:vm-301-cloudinit"
		r.change(func(w *state.World) {
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-301-cloudinit", VMID: theirs, Content: "images",
				Format: "raw", Size: 4 << 20})
			w.Guests[ours].Config["ide2"] = drive + ",media=cdrom"
			switch where {
			case "ide2":
				w.Guests[theirs].Config["ide2"] = drive + ",media=cdrom"
			case "snapshot":
				w.Guests[theirs].Snaps = map[string]map[string]string{"other": {"snaptime": "7", "ide2": drive + ",media=cdrom"}}
			}
		})
		_, err := r.s.Do(t.Context(), RollBack{Choice: guest.Choice{VMID: ours}, Name: "before"})
		there := false
		r.change(func(w *state.World) {
			for _, v := range w.Volumes {
				there = there || v.Volid() == drive
			}
		})
		if used := where != ""; used != there || used != (err != nil && strings.Contains(err.Error(), "VM 301 (vm301)")) {
			t.Errorf("%q: the drive is there: %t; %v", where, there, err)
		}
	}
}

// TestRollBackDropsPendingChanges: a roll-back forgets changes that wait for a restart, and with them a volume that only
// such a change names. It is said before, since nothing shows it afterwards.
func TestRollBackDropsPendingChanges(t *testing.T) {
	r := newRig(t, false)
	if _, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"}); err != nil {
		t.Fatal(err)
	}
	r.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-7", VMID: ours, Content: "images",
			Format: "raw", Size: 1 << 30})
		w.Guests[ours].Pending = map[string]string{"sata1": "local-zfs:vm-300-disk-7,size=1G", "cores": "4"}
	})
	var told []string
	r.s.jobs.Log = func(_ context.Context, text string, _ map[string]string) { told = append(told, text) }
	if _, err := r.s.Do(t.Context(), RollBack{Choice: guest.Choice{VMID: ours}, Name: "before"}); err != nil {
		t.Error(err)
	}
	all := strings.Join(told, "\n")
	if !strings.Contains(all, "cores, sata1") || !strings.Contains(all, "local-zfs:vm-300-disk-7") {
		t.Errorf("said %s", all)
	}
}

// TestRollBackStart: PVE's task ends when it has begun the start, which is a task of its own and may fail
// (qemu-server API2/Qemu.pm rollback, vm_start). That the guest runs is not claimed unseen.
func TestRollBackStart(t *testing.T) {
	for _, fails := range []bool{false, true} {
		r := newRig(t, false)
		if _, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"}); err != nil {
			t.Fatal(err)
		}
		sent := false
		r.answered = func(method, path string) {
			if sent = sent || method == "POST" && strings.HasSuffix(path, "/rollback"); sent && fails {
				r.change(func(w *state.World) {
					if g := w.Guests[ours]; g.Config["lock"] == "" {
						g.Running = nil
					}
				})
			}
		}
		warnings, err := r.s.Do(t.Context(), RollBack{Choice: guest.Choice{VMID: ours}, Name: "before", Start: true})
		if err != nil {
			t.Fatal(err)
		}
		if warned := len(warnings) == 1 && strings.Contains(warnings[0].Summary, "VM 300 does not run"); warned != fails {
			t.Errorf("the start fails %t: %v", fails, warnings)
		}
	}
}

// TestRollBackMemory: the start from the memory comes after all else, and its failure undoes nothing: the
// error must not let the VM stand as it was.
func TestRollBackMemory(t *testing.T) {
	r := newRig(t, false)
	r.startGuest()
	if _, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before", Memory: true}); err != nil {
		t.Fatal(err)
	}
	r.change(func(w *state.World) {
		w.Guests[ours].Snaps["before"]["net0"] = "virtio=02:00:00:00:00:01,bridge=vmbr99"
	})
	_, err := r.s.Do(t.Context(), RollBack{Choice: guest.Choice{VMID: ours}, Name: "before"})
	if err == nil || !strings.Contains(err.Error(), "either nothing was taken back, or everything was") {
		t.Errorf("%v", err)
	}
}

// TestLeftoverKeepsTheIdentityOfItsVM: what is left of a snapshot goes into state with the VM that has it: without its
// identity the next destroy would take any VM of the id for it.
func TestLeftoverKeepsTheIdentityOfItsVM(t *testing.T) {
	r := newRig(t, false)
	r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST"}, Phase: fault.KillTask}})
	taken, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before"})
	if left, _ := leftovers(err); len(left) != 1 || taken.Taken == 0 {
		t.Fatalf("%v, %v", taken, err)
	}
	if taken.VM.UUID != uuidOf(ours) || taken.Node != "pve1" {
		t.Errorf("node %q, VM %v", taken.Node, taken.VM)
	}
}

// TestSnapshotPrivileges: VM.Snapshot and VM.Audit are enough, and both are needed.
func TestSnapshotPrivileges(t *testing.T) {
	for _, c := range []struct {
		privileges []string
		want       string // "" = it works
	}{
		{[]string{"VM.Snapshot", "VM.Audit"}, ""},
		{[]string{"VM.Audit"}, "VM.Snapshot"},
		{[]string{"VM.Snapshot"}, "There is no VM 300, or this identity may not see it (VM.Audit)"},
	} {
		r := newRig(t, false)
		r.change(func(w *state.World) {
			for name := range w.Roles {
				if name != "Administrator" {
					w.Roles[name] = c.privileges
				}
			}
		})
		taken, err := r.s.Take(t.Context(), Wanted{VMID: ours, Name: "before", Description: "one"})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: %v", c.privileges, err)
			}
			continue
		}
		ref := Ref{VM: guest.Ref{VMID: ours, Node: "pve1", Identity: taken.VM}, Name: "before", Taken: taken.Taken}
		if err == nil {
			_, err = r.s.Describe(t.Context(), ref, "one", "two")
		}
		if err == nil {
			_, err = r.s.Delete(t.Context(), ref)
		}
		if err != nil || len(r.what()) > 0 {
			t.Errorf("%v: %v; the cluster has %q", c.privileges, err, r.what())
		}
	}
}
