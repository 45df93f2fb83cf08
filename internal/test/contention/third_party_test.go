package contention_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// sharedGuest is a third party's VM with a disk on the shared storage.
func sharedGuest(w *state.World, vmid int, node string) {
	name := fmt.Sprintf("%d/vm-%d-disk-0.qcow2", vmid, vmid)
	w.Put(&state.Volume{Storage: "shared-nfs", Name: name, VMID: vmid, Content: "images", Format: "qcow2", Size: 1 << 30, Data: "theirs"})
	w.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: node, Config: map[string]string{"name": "theirs", "memory": "512",
		"scsi0": "shared-nfs:" + name + ",size=1G", "smbios1": "uuid=" + rig.OtherUUID, "meta": "creation-qemu=9.2.0,ctime=1"}}
}

// TestThirdPartyOnAnotherNode: our create fails, and before it is undone a third party takes the id on another node, with a
// volume on a storage that both nodes have. It is theirs, and is neither removed nor named for removal.
func TestThirdPartyOnAnotherNode(t *testing.T) {
	t.Parallel()
	for _, who := range engine.FaultIdentities() {
		h := engine.NewHookedBench(t, who)
		var before []byte
		h.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", VMID: 300}, Phase: fault.Task}})
		h.Once("GET", "/log", func() {
			h.Change(func(w *state.World) { sharedGuest(w, 300, "pve2") })
			before = h.Sim.Snapshot()
		})
		created, err := h.Service.Create(t.Context(), engine.SmallCreate(300))
		if !saga.RolledBack(err) || created.Guest.VMID != 0 || len(created.Left) > 0 {
			t.Errorf("%s: want it rolled back, got %+v, %v", who.Name, created, err)
		}
		h.MustBeAsBefore(t, before)
	}
}

// TestPoolPrivilegesShowNoOrphans: the identity may only do what its pool gives. Before its VM is in the pool it cannot see
// the orphan that a third party left under the id, and afterwards it can: that makes the orphan none of ours.
func TestPoolPrivilegesShowNoOrphans(t *testing.T) {
	t.Parallel()
	h := engine.PoolOnly(t)
	h.Change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-7", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30, Data: "theirs"})
	})
	before := h.Sim.Snapshot()
	h.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "PUT", VMID: 300}, Phase: fault.Before}})
	r := engine.SmallCreate(300)
	r.Pool = "web"
	created, err := h.Service.Create(t.Context(), r)
	if !saga.RolledBack(err) || !strings.Contains(err.Error(), "commit") {
		t.Errorf("want a rolled back commit, got %+v, %v", created, err)
	}
	if len(created.Warnings) == 0 || !strings.Contains(created.Warnings[0].Detail, "were not looked for") {
		t.Errorf("no warning says that volumes were not looked for: %+v", created.Warnings)
	}
	h.MustBeAsBefore(t, before)
}

// TestOrphansInUseAreNotDestroyed: the volume carries the configured id, and another VM uses it.
func TestOrphansInUseAreNotDestroyed(t *testing.T) {
	t.Parallel()
	h := engine.NewHookedBench(t, engine.TokenIdentity())
	h.Change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "shared-nfs", Name: "300/vm-300-disk-0.qcow2", VMID: 300, Content: "images", Format: "qcow2", Size: 1 << 30, Data: "theirs"})
		sharedGuest(w, 555, "pve2")
		w.Guests[555].Config["scsi3"] = "shared-nfs:300/vm-300-disk-0.qcow2,size=1G"
	})
	before := h.Sim.Snapshot()
	r := engine.SmallCreate(300)
	r.OnOrphans = create.DestroyOrphans
	_, err := h.Service.Create(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), "VM 555") || !strings.Contains(err.Error(), "300/vm-300-disk-0.qcow2") {
		t.Errorf("want an error that names VM 555 and the volume, got %v", err)
	}
	h.MustBeAsBefore(t, before)
	h.Change(func(w *state.World) { delete(w.Guests[555].Config, "scsi3") })
	if _, err := h.Service.Create(t.Context(), r); err == nil || !strings.Contains(err.Error(), "exclusive_storages") {
		t.Errorf("no guest of this cluster uses it any more, one of another cluster may: %v", err)
	}
}

// TestLeftoversOfACloneToAnotherNode: the clone lands on another node, and a disk is added to it on a storage of its own
// there when its worker dies. That volume is taken back too.
func TestLeftoversOfACloneToAnotherNode(t *testing.T) {
	t.Parallel()
	for _, phase := range []fault.Phase{fault.Task, fault.KillTask, fault.Partial} {
		h := engine.NewHookedBench(t, engine.FaultIdentities()[0])
		h.Change(func(w *state.World) {
			sharedGuest(w, 9100, "pve1")
			w.Guests[9100].Config["name"] = "shared"
		})
		before := h.Sim.Snapshot()
		h.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/config", VMID: 300}, Phase: phase}})
		created, err := h.Service.Create(t.Context(), create.Request{Node: "pve2", VMID: 300, Clone: &guest.Clone{VMID: 9100, Full: rig.Pointer(true)},
			Spec: vm.Spec{Options: vm.Options{Name: rig.Pointer("mine")}, Disks: map[string]vm.Disk{"scsi1": {Storage: "local-zfs", Size: rig.Pointer(int64(1 << 30))}}}})
		if h.Sim.FaultsFired() != 1 && phase != fault.Partial {
			t.Errorf("%s: the fault did not fire: %v", phase, err)
		}
		if err == nil || created.Guest.VMID != 0 {
			t.Errorf("%s: want an error with nothing left, got %+v, %v", phase, created, err)
		}
		h.MustBeAsBefore(t, before)
	}
}

// TestDestroyFollowsAMigration: the VM moves to another node while it is being destroyed. A destroy never reports a success
// while the VM is there.
func TestDestroyFollowsAMigration(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"/cluster/resources", "/pending", "/config"} {
		h := engine.NewHookedBench(t, engine.TokenIdentity())
		r := engine.SmallCreate(300)
		r.Spec.Disks["scsi0"] = vm.Disk{Storage: "shared-nfs", Size: rig.Pointer(int64(1 << 30))}
		ref := h.Existing(t, r)
		h.Once("GET", at, func() { h.Change(func(w *state.World) { w.Guests[300].Node = "pve2" }) })
		left, _, err := h.Service.Delete(t.Context(), destroy.Request{Ref: ref})
		if err != nil { // nothing is claimed, so the resource stays in state and the next destroy finds it
			left, _, err = h.Service.Delete(t.Context(), destroy.Request{Ref: ref})
		}
		if err != nil || len(left) > 0 {
			t.Errorf("moved after GET %s: left %v, %v", at, left, err)
		}
		h.MustBeAsBefore(t, h.Base)
	}
}

// TestDestroyRespectsConcurrentChanges: while the guest shuts down a third party protects it, starts it again, or locks it
// with a backup. It is not destroyed, and no message gives a command that would override the third party.
func TestDestroyRespectsConcurrentChanges(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(*state.Guest)
		want   string
	}{
		"protected": {func(g *state.Guest) { g.Config["protection"] = "1" }, "protected"},
		"started":   {func(g *state.Guest) { g.Running = &state.Running{QMPStatus: "running"} }, "runs again"},
		"backup":    {func(g *state.Guest) { g.SetLock("backup", "state") }, "locked (backup)"},
	}
	for name, c := range cases {
		h := engine.NewHookedBench(t, engine.TokenIdentity())
		r := engine.SmallCreate(300)
		r.Start = true
		ref := h.Existing(t, r)
		h.Once("GET", "/status", func() { h.Change(func(w *state.World) { c.change(w.Guests[300]) }) })
		left, _, err := h.Service.Delete(t.Context(), destroy.Request{Ref: ref})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want an error that says %q, got %v", name, c.want, err)
		}
		for _, l := range left {
			if strings.Contains(l.Command, "unlock") || strings.Contains(l.Command, "protection") {
				t.Errorf("%s: the command %q breaks in", name, l.Command)
			}
		}
		if _, ok := h.Content(h.Sim.Snapshot()).Guest(300); !ok {
			t.Errorf("%s: destroyed", name)
		}
	}
}

// TestDestroyOfSuspendedAndManagedVMs: PVE destroys a VM that is suspended to disk; one that HA manages, and that we may not
// take out, shuts down some time after PVE took the request, and is given that time. HA's manager cuts it off at the end of
// it, so this needs the policy that allows that.
func TestDestroyOfSuspendedAndManagedVMs(t *testing.T) {
	t.Parallel()
	h := engine.NewHookedBench(t, engine.TokenIdentity())
	ref := h.Existing(t, engine.SmallCreate(300))
	h.Change(func(w *state.World) { w.Guests[300].SetLock("suspended", "state") })
	if left, _, err := h.Service.Delete(t.Context(), destroy.Request{Ref: ref}); err != nil || len(left) > 0 {
		t.Errorf("suspended: left %v, %v", left, err)
	}
	h.MustBeAsBefore(t, h.Base)

	h = engine.NewHookedBench(t, engine.TokenIdentity())
	r := engine.SmallCreate(300)
	r.Start = true
	ref = h.Existing(t, r)
	h.Sim.SetTaskTime(20 * time.Second)
	h.Change(func(w *state.World) { w.HA["vm:300"] = &state.HAResource{SID: "vm:300", State: "started"} })
	if left, _, err := h.Service.Delete(t.Context(), destroy.Request{Ref: ref, ForceStop: true}); err != nil || len(left) > 0 {
		t.Errorf("managed by HA: left %v, %v", left, err)
	}
	for _, op := range h.Sim.Ops() {
		if strings.HasSuffix(op.Path, "/status/stop") {
			t.Error("stopped hard, although only a shutdown is allowed")
		}
	}
	h.MustBeAsBefore(t, h.Base)
}

// TestDiskThatCameAfterThePlanOfADestroy: a third party gives the VM a disk between the plan of its destroy, or of its replacement, and the
// apply. PVE would destroy that disk with the VM. Nothing is touched, and a new plan destroys both.
func TestDiskThatCameAfterThePlanOfADestroy(t *testing.T) {
	t.Parallel()
	const his = "local-zfs:vm-400-disk-9"
	for name, plan := range map[string]terraformtest.PlanOption{"destroy": terraformtest.ToDestroy(), "replace": terraformtest.Replacing("proxmox_vm.mine")} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.GuardedVM)
			if err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			pl, err := s.Plan(t.Context(), plan)
			if err != nil {
				t.Fatal(err)
			}
			w.Change(func(world *state.World) {
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-9", VMID: 400, Content: "images",
					Format: "raw", Size: 1 << 30, Data: "the third party's data"})
				world.Guests[400].Config["scsi5"] = his + ",size=1G"
			})
			err = s.Apply(t.Context(), pl)
			there := false
			w.Change(func(world *state.World) {
				for v := range maps.Values(world.Volumes) {
					there = there || v.Volid() == his
				}
			})
			if err == nil || !strings.Contains(err.Error(), his) || !there {
				t.Errorf("his disk is there: %t; %v", there, err)
			}
			if err := s.Destroy(t.Context()); err != nil {
				t.Errorf("a new plan: %v", err)
			}
		})
	}
}

// TestDiskThatCameBeforeThePlanOfADestroy: a third party gives the VM a disk in a slot that no configuration names. The plans of its destroy
// and of its replacement name it, since the state does not show it. The disk that a clone has from its template is none of these.
func TestDiskThatCameBeforeThePlanOfADestroy(t *testing.T) {
	t.Parallel()
	const his = "local-zfs:vm-400-disk-9"
	clone := rig.VMBlock("  vmid = 400\n  name = \"copy\"\n  node = \"pve1\"\n  protection = false\n  clone = { vmid = 9000 }")
	for name, config := range map[string]string{"made": rig.GuardedVM, "cloned": clone} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, config)
			rig.Must(t, s.Run(t.Context()))
			names := func(when string, want bool) {
				t.Helper()
				for how, options := range map[string][]terraformtest.PlanOption{"destroy": {terraformtest.ToDestroy()}, "replace": nil} {
					body := config
					if how == "replace" {
						body = strings.Replace(config, "= 400", "= 401", 1)
					}
					w.Reconfigure(t, s, rig.TokenNoSSH, body)
					pl, err := s.Plan(t.Context(), options...)
					rig.Must(t, err)
					said := fmt.Sprint(pl.Diagnostics)
					if named := strings.Contains(said, his); named != want || want && !strings.Contains(said, "disks that the state does not have") ||
						strings.Contains(said, "vm-400-disk-0") {
						t.Errorf("%s, %s: the disk is named: %t, want %t\n%s", when, how, named, want, said)
					}
				}
			}
			names("before", false)
			w.Change(func(world *state.World) {
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-9", VMID: 400, Content: "images",
					Format: "raw", Size: 1 << 30, Data: "the third party's data"})
				world.Guests[400].Config["scsi5"] = his + ",size=1G"
			})
			names("before a refresh that is kept", true)
			rig.Must(t, s.Refresh(t.Context()))
			names("after it", true)
			w.Change(func(world *state.World) { delete(world.Guests[400].Config, "scsi5") })
			rig.Must(t, s.Refresh(t.Context()))
			names("without it", false)
		})
	}
}

// TestDisksOfATemplateGoWithTheClone: a clone has its template's disks in slots that no configuration names. They are known from its create
// on, so it is destroyed without a refresh, too. A disk that a third party has moved to another slot goes after a refresh.
func TestDisksOfATemplateGoWithTheClone(t *testing.T) {
	t.Parallel()
	for name, moved := range map[string]bool{"as it was made": false, "in another slot": true} {
		t.Run(name, func(t *testing.T) {
			w := rig.NewWorld(t)
			config := rig.VMBlock("  vmid = 400\n  name = \"copy\"\n  node = \"pve1\"\n  protection = false\n  clone = { vmid = 9000 }")
			if moved {
				config = rig.GuardedVM
			}
			s := w.Session(t, rig.TokenNoSSH, config)
			if err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			pl, err := s.Plan(t.Context(), terraformtest.ToDestroy(), terraformtest.WithoutRefresh())
			if err != nil {
				t.Fatal(err)
			}
			if moved {
				w.Change(func(world *state.World) {
					has := world.Guests[400].Config
					has["scsi5"] = has["scsi0"]
					delete(has, "scsi0")
				})
			}
			if moved { // under its name there may be another disk by now
				rig.MustSay(t, s.Apply(t.Context(), pl), "is in scsi5, and the plan knows it in scsi0")
				pl, err = s.Plan(t.Context(), terraformtest.ToDestroy())
				rig.Must(t, err)
			}
			rig.Must(t, s.Apply(t.Context(), pl))
			w.MustBeClean(t)
		})
	}
}
