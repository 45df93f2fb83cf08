package faults_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// interruptedVM is the VM of the tests: something of every kind that a task may be at work on.
func interruptedVM(options string) string {
	return `resource "proxmox_vm" "web" {
  vmid     = 300
  name     = "web"
  memory   = { size = 1024 }
  networks = { net0 = { bridge = "vmbr0" } }
  ` + options + "\n}"
}

func newStage(t *testing.T, id rig.Identity, options string) *engine.InterruptStage {
	t.Helper()
	w := rig.NewWorld(t, pvesim.Options{Clock: rig.NewFastClock()})
	w.Change(func(world *state.World) {
		world.Pools["other"] = &state.Pool{ID: "other"}
		world.AddBackup("pve1")
	})
	w.Mark()
	st := &engine.InterruptStage{T: t, World: w, ID: id, Keys: &engine.Interrupter{World: w}, Ended: map[string]int{}}
	w.LogTo(st.Keys)
	st.Session = w.Session(t, id, interruptedVM(options))
	if err := st.Session.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	st.Saved, st.Snapshot = st.Session.SaveState(), w.Sim.Snapshot()
	w.Sim.SetTaskTime(engine.InterruptTaskTime)
	return st
}

// TestCancelUpdate: Ctrl-C at every request of a change. No task is left at work, nothing is locked or lost, and the next
// apply finishes the change.
func TestCancelUpdate(t *testing.T) {
	t.Parallel()
	disks := `disks = { scsi0 = { storage = "local-zfs", size = "2G" } }`
	cases := []struct {
		name          string
		id            rig.Identity
		before, after string
	}{
		{"options, disks and pool", rig.TokenSSH, `node = "pve1"
  power_state = "stopped"
  ` + disks + `
  pool = "web"`, `node = "pve1"
  power_state = "running"
  pool = "other"
  description = "changed"
  disks = {
    scsi0 = { storage = "local-lvm", size = "4G" }
    scsi1 = { storage = "local-zfs", size = "1G" }
  }
  firewall = { enabled = true, rules = [{ type = "in", action = "ACCEPT" }] }`},
		{"restart", rig.TokenNoSSH, `node = "pve1"
  ` + disks, `node = "pve1"
  cpu = { cores = 2 }
  ` + disks},
		{"migration", rig.TokenNoAllocate, `node = "pve1"
  ` + disks, `node = "pve2"
  ` + disks},
		{"template", rig.RootTicket, `node = "pve1"
  ` + disks, `node = "pve1"
  power_state = "stopped"
  template = true
  ` + disks},
		{"HA", rig.RootTicket, `node = "pve1"
  ` + disks, `node = "pve1"
  ha = { state = "started" }
  ` + disks},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, c.id, c.before)
			st.World.Reconfigure(t, st.Session, c.id, interruptedVM(c.after))
			st.Again()
			if err := st.Session.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := st.Guest()
			st.Each(c.name, st.Session.Run, func(name string, err error) {
				if addresses := st.Session.Addresses(); len(addresses) != 1 {
					t.Errorf("%s: in state: %v (%v)", name, addresses, err)
					return
				}
				if err := st.Session.Converge(t.Context()); err != nil {
					t.Errorf("%s: the next apply: %v\nafter: %v", name, err, err)
				}
				if diff := cmp.Diff(want, st.Guest()); diff != "" {
					t.Errorf("%s: after the next apply (-want +got):\n%s", name, diff)
				}
				st.NothingAtWork(name + ", next apply")
			})
		})
	}
}

// TestCancelDelete: Ctrl-C at every request of a destroy. Either the VM is gone, whole and also from state, or it is in
// state, and the next destroy finishes.
func TestCancelDelete(t *testing.T) {
	t.Parallel()
	for _, id := range rig.Identities() {
		if (id == rig.TokenSSH || id == rig.TokenNoAllocate) && !share.IsWhole() {
			continue // they destroy as the token without SSH does
		}
		t.Run(string(id), func(t *testing.T) {
			t.Parallel()
			ha := ""
			if id == rig.RootTicket {
				ha = `ha = { state = "started" }`
			}
			st := newStage(t, id, `node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "2G" }, scsi1 = { storage = "local-lvm", size = "1G" } }
  pool = "web"
  `+ha)
			gone := 0
			cases := st.Each("destroy, "+string(id), st.Session.Destroy, func(name string, err error) {
				if len(st.Session.Addresses()) == 0 {
					gone++
				} else if err == nil {
					t.Errorf("%s: no error, and still in state", name)
				}
				err = st.Session.Destroy(t.Context())
				if ha != "" && err != nil && strings.Contains(err.Error(), "runs again after it was shut down") {
					err = st.Session.Destroy(t.Context()) // HA has its entry back, and was about to start the guest
				}
				if err != nil {
					t.Errorf("%s: the next destroy: %v", name, err)
				}
				if ha != "" { // HA may have begun to start the guest before it was destroyed: that task fails
					st.World.Sim.Advance(30 * time.Second)
				}
				for _, line := range st.World.Leaks() {
					t.Errorf("%s: left: %s", name, line)
				}
			})
			t.Logf("%d of %d interrupted destroys had taken the VM away whole", gone, cases)
		})
	}
}

// TestCancelCreate: Ctrl-C at every request of a create leaves nothing, or a VM in state.
func TestCancelCreate(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]string{
		"scratch": `node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "2G" } }
  pool = "web"`,
		"clone": `node = "pve1"
  clone = { vmid = 9000 }
  protection = false
  disks = { scsi0 = { size = "4G" } }`,
		"restore": `node = "pve1"
  restore = { archive = "` + rig.WebBackup + `" }
  protection = false
  disks = { scsi0 = { size = "4G" } }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, rig.TokenSSH, options)
			if err := st.Session.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			st.Saved, st.Snapshot = st.Session.SaveState(), st.World.Sim.Snapshot()
			made := 0
			cases := st.Each("create, "+name, st.Session.Run, func(name string, err error) {
				if len(st.Session.Addresses()) > 0 {
					made++
					if err := st.Session.Converge(t.Context()); err != nil {
						t.Errorf("%s: the next apply: %v", name, err)
					}
					return
				}
				for _, line := range st.World.Leaks() {
					t.Errorf("%s: left: %s (%v)", name, line, err)
				}
			})
			t.Logf("%d of %d interrupted creates were complete", made, cases)
		})
	}
}

// TestCancelReadAndImport: Ctrl-C at every request of a refresh and of an import changes neither the server nor what is known.
func TestCancelReadAndImport(t *testing.T) {
	t.Parallel()
	st := newStage(t, rig.TokenNoSSH, `node = "pve1"
  disks = { scsi0 = { storage = "local-zfs", size = "2G" } }
  agent = { enabled = true }`)
	before := st.Guest()
	known := func() string { return terraformtest.ShowValue(st.Session.Attr("proxmox_vm.web", "disks")) }
	disks := known()
	untouched := func(name string) {
		if diff := cmp.Diff(before, st.Guest()); diff != "" {
			t.Errorf("%s: the VM has changed (-want +got):\n%s", name, diff)
		}
	}
	st.Each("refresh", st.Session.Refresh, func(name string, _ error) {
		untouched(name)
		if got := known(); got != disks {
			t.Errorf("%s: state has %s, had %s", name, got, disks)
		}
		pl, err := st.Session.Plan(t.Context())
		if err != nil || !pl.Empty() {
			t.Errorf("%s: the next plan: %v %s", name, err, pl)
		}
	})
	st.Again()
	st.Session.Forget("proxmox_vm.web")
	st.Saved = st.Session.SaveState()
	st.Each("import", func(ctx context.Context) error { return st.Session.Import(ctx, "proxmox_vm.web", "pve1/300") }, func(name string, err error) {
		untouched(name)
		if err == nil != (len(st.Session.Addresses()) == 1) {
			t.Errorf("%s: %v, and in state: %v", name, err, st.Session.Addresses())
		}
	})
}

// TestATimeoutEndsTheTask: when the time of an update is over its task is ended like by an interrupt, and the error says so.
func TestATimeoutEndsTheTask(t *testing.T) {
	for range 10 { // on a clock that moves by itself the task may be over before the interrupt is heard
		h := engine.NewHookedBench(t, engine.TokenIdentity())
		r := h.Updating(t, h.Existing(t, engine.SmallCreate(300)))
		engine.ContendedChanges()["a move"](&r)
		h.Sim.SetTaskTime(time.Hour)
		ctx, cancel := context.WithCancelCause(t.Context())
		h.Once(http.MethodPost, "/move_disk", func() { cancel(context.DeadlineExceeded) })
		guest, _, err := h.Service.Update(ctx, r)
		cancel(nil)
		if guest.Spec.Disks["scsi0"].Storage != "local-zfs" {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "qmmove") || !strings.Contains(err.Error(), "was stopped: ") {
			t.Error(err)
		}
		return
	}
	t.Error("the task was over before each interrupt")
}
