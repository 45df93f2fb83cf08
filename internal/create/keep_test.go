package create

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestKeptHalfMadeVMIsKnownAgain: the worker of a create is killed, and its leftover is to be kept. The destroy that
// follows takes it away, but not the VM that a third party is making in its place, which looks the same.
func TestKeptHalfMadeVMIsKnownAgain(t *testing.T) {
	size := int64(1 << 30)
	for _, replaced := range []bool{false, true} {
		b := newBench(t, ticket)
		b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.KillTask}})
		created, err := b.Create(t.Context(), Request{Node: "pve1", VMID: 900, OnFailure: Keep,
			Spec: vm.Spec{Disks: map[string]vm.Disk{"scsi0": {Storage: "local-zfs", Size: &size}}}})
		b.sim.SetFaults(nil)
		if err == nil || created.Proof == nil || created.Proof.HalfMade == "" || b.vms()[900] == nil {
			t.Fatalf("proof %+v: %v", created.Proof, err)
		}
		if replaced {
			b.change(func(w *state.World) {
				w.Guests[900] = &state.Guest{VMID: 900, Type: "qemu", Node: "pve1", LockCause: "state",
					Config: map[string]string{"lock": "create", "memory": "96"}}
			})
		}
		_, _, err = b.destroyer.Delete(t.Context(), destroy.Request{Ref: guest.Ref{VMID: 900, Node: "pve1",
			Proof: created.Proof}, Left: created.Left})
		if there := b.vms()[900] != nil; there != replaced || (err != nil) != replaced {
			t.Errorf("replaced by a third party's %t: there %t, %v", replaced, there, err)
		}
	}
}

// TestLeftoverWhoseStartIsForgotten: a failed create has left its VM, whose guest runs, and the task of the start has left the lists. A
// guest that the create has not started is in use: the next refresh names it, and the destroy goes by that. One that the create
// has started is not, nor one that this identity has started, as a task still tells, nor one that a backup runs.
func TestLeftoverWhoseStartIsForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		starts, listed, backup bool
		named                  string
	}{
		"by a user":           {named: "a user has begun qmstart on it since (no task that can be seen shows it, but its guest runs: process"},
		"by the create":       {starts: true},
		"by its own identity": {listed: true},
		"by a backup":         {backup: true},
	} {
		b := newBench(t, token)
		r := onZFS()
		r.VMID, r.OnFailure, r.Start = 150, Keep, c.starts
		b.sim.SetFaults([]fault.Rule{commitRefused})
		created, err := b.Create(t.Context(), r)
		b.sim.SetFaults(nil)
		if created.Proof == nil {
			t.Fatal(err)
		}
		if !c.starts {
			upid, err := b.api.QEMU("pve1", 150).Start(t.Context(), pve.Params{})
			if err == nil {
				_, err = b.api.Tasks().Wait(t.Context(), upid)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		b.sim.Advance(30 * 24 * time.Hour)
		b.change(func(w *state.World) {
			for upid, task := range w.Tasks {
				if task.Type == "qmstart" && !c.listed {
					delete(w.Tasks, upid)
				}
			}
			if c.backup {
				w.Guests[150].Config["lock"], w.Guests[150].LockCause = "backup", "state"
			}
		})
		next := creatorOf(t, b.sim, token)
		tasks, err := next.guests.UsesOf(t.Context(), created.Proof, "pve1")
		if said := guest.NameUses(tasks); err != nil || (said == "") != (c.named == "") || !strings.HasPrefix(said, c.named) {
			t.Errorf("%s: %q, %v", name, said, err)
		}
		if c.named == "" {
			continue
		}
		ref := guest.Ref{VMID: 150, Node: "pve1", Proof: created.Proof}
		if left, _, err := next.destroyer.Delete(t.Context(), destroy.Request{Ref: ref}); err == nil || b.vms()[150] == nil {
			t.Errorf("%s, not named: left %v, %v", name, left, err)
		}
		for _, task := range tasks {
			ref.Proof.Used = append(ref.Proof.Used, task.UPID)
		}
		if left, _, err := next.destroyer.Delete(t.Context(), destroy.Request{Ref: ref}); err != nil || b.vms()[150] != nil {
			t.Errorf("%s, named: left %v, %v", name, left, err)
		}
	}
}

// TestCreateThatLosesTheQuorum: without quorum PVE cannot write the configuration of a new VM, nor put it into a pool,
// and removes no configuration. The cluster has its quorum again, and the VM is taken back, or named, or kept where it
// is whole; nothing is destroyed that was to be kept.
func TestCreateThatLosesTheQuorum(t *testing.T) {
	pooled := onZFS()
	pooled.Pool = "web"
	for name, c := range map[string]struct {
		r     Request
		whole bool // as PVE leaves it
	}{"with a pool": {pooled, true}, "without one": {onZFS(), false}, "a clone": {ofTemplate(), false}} {
		for _, who := range []struct {
			name string
			may  func(*pve.Config, pvesim.Credentials)
		}{{"token", token}, {"root", ticket}} {
			for _, failure := range []OnFailure{Rollback, Keep} {
				b := newBench(t, who.may)
				path := map[bool]string{true: "/nodes/{node}/qemu/{vmid}/clone", false: "/nodes/{node}/qemu"}[c.r.Clone != nil]
				b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "POST", Path: path}, Phase: fault.NoQuorum}})
				r := c.r
				r.VMID, r.OnFailure = 150, failure
				created, err := b.Create(t.Context(), r)
				what := fmt.Sprintf("%s, %s, on_failure %v", name, who.name, failure)
				there, disks := b.vms()[150] != nil, len(b.volumesOf(150))
				isNamed := len(created.Left) > 0 && created.Left[0].Kind == "guest" && created.Left[0].ID == "150"
				removes := failure == Rollback && (c.whole || who.name == "root") // else it is locked
				switch {
				case err == nil || b.sim.FaultsFired() != 1:
					t.Errorf("%s: %v", what, err)
				case removes && (there || disks > 0 || len(created.Left) > 0):
					t.Errorf("%s: is there %t, has %d disks, named %v: %v", what, there, disks, created.Left, err)
				case !removes && (!there || !isNamed && created.Guest.VMID != 150 || c.whole && disks == 0):
					t.Errorf("%s: is there %t, has %d disks, named %v, %v: %v", what, there, disks, created.Left, created.Guest, err)
				case strings.Contains(fmt.Sprint(err, created.Warnings), "another user"):
					t.Errorf("%s: %v %v", what, err, created.Warnings)
				}
			}
		}
	}
}
