package kill_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestAdoptAfterAKill: the provider dies before any of the requests of a create that adopts a volume, so no state knows of it. The next
// apply makes the VM, or says that it is there and how it is taken over, and then an import and an apply do what is missing. The volume
// has its data whatever happens.
func TestAdoptAfterAKill(t *testing.T) {
	t.Parallel()
	config := rig.Adopting(rig.AdoptedDisk, "")
	died := func(from int) (*rig.World, *terraformtest.Session) {
		w := rig.DisksWithoutVM(t, "vm-200-disk-0")
		s := w.Session(t, rig.TokenNoSSH, config)
		pl, err := s.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.Sim.ResetOps()
		if from > 0 {
			w.Sim.SetFaults(nothingFrom(from))
		}
		if err := s.Apply(t.Context(), pl); (err != nil) != (from > 0) {
			t.Fatalf("killed at request %d: %v", from, err)
		}
		w.Sim.SetFaults(nil)
		cred := w.Sim.Credentials()
		w.Change(func(world *state.World) { // another process has the number now
			if guest := world.Guests[200]; guest != nil {
				guest.Config["description"] = rig.Resign(cred, guest.Config["description"], rig.OfADeadProcess)
			}
		})
		s = w.Session(t, rig.TokenNoSSH, config)
		return w, s
	}
	clean, _ := died(0)
	imported := 0
	for n, op := range clean.Sim.Ops() {
		if op.Method == http.MethodGet {
			continue
		}
		t.Run(fmt.Sprintf("%d %s %s", n, op.Method, op.Path), func(t *testing.T) {
			w, s := died(n + 1)
			err := s.Run(t.Context())
			if err != nil {
				imported++
				rig.MustRefuse(t, err, []string{"VMID 200 is taken", "terraform import", "local-zfs:vm-200-disk-0"})
				w.Reconfigure(t, s, rig.TokenNoSSH, rig.Adopting(rig.AdoptedDisk, "boot_order = [\"scsi0\", \"net0\"]\npower_state = \"running\""))
				if err := s.Import(t.Context(), "proxmox_vm.x", "200"); err != nil {
					t.Fatal(err)
				}
				if err := s.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			pl, err := s.Plan(t.Context())
			if err != nil || !pl.Empty() {
				t.Errorf("afterwards the plan is %s, %v", pl, err)
			}
			guest := rig.GuestOf(w, 200)
			if !strings.HasPrefix(guest.Config["scsi0"], "local-zfs:vm-200-disk-0") || guest.Config["boot"] != "order=scsi0;net0" || guest.Running == nil {
				t.Errorf("the VM is %v, running %t", guest.Config, guest.Running != nil)
			}
			if data := rig.DataOf(w, "vm-200-disk-0"); data != "data of vm-200-disk-0" {
				t.Errorf("the disk holds %q", data)
			}
		})
	}
	if imported == 0 {
		t.Error("no kill has left a VM that no state knows")
	}
}

// TestCopyOfBeforeTheKill: the provider dies after a held disk was copied, or cloned with its holder, and another guest starts with that disk. The
// next apply goes on with the VM, which has its copy.
func TestCopyOfBeforeTheKill(t *testing.T) {
	t.Parallel()
	t.Run("disk", func(t *testing.T) {
		t.Parallel()
		copyBeforeTheKill(t, "disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\", import_from = "+rig.DiskVolume+" } }", engine.Moment{Request: "POST /nodes/pve1/qemu", Nth: 1, Served: true})
	})
	t.Run("holder", func(t *testing.T) {
		t.Parallel()
		copyBeforeTheKill(t, "clone = { vmid = proxmox_disk.data.vmid }", engine.Moment{Request: "POST /nodes/pve1/qemu/401/status/start", Nth: 1})
	})
}

func copyBeforeTheKill(t *testing.T, source string, at engine.Moment) {
	t.Helper()
	held := rig.DiskBlock(rig.SmallDisk)
	config := held + rig.DiskAttached("a", 400, rig.DiskVolume)
	copying := config + "resource \"proxmox_vm\" \"b\" {\n  vmid = 401\n  node = \"pve1\"\n  " + source + "\n}\n"
	b := newKillBench(t, rig.TokenNoSSH)
	b.configure(t, config)
	b.unkilled()
	if err := b.s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.w.Change(func(world *state.World) { world.Guests[400].Running = nil })
	b.configure(t, copying)
	if !b.kill(t, at, func() error { return b.s.Run(t.Context()) }) {
		t.Fatal("the create was not killed")
	}
	b.unkilled()
	b.w.Change(func(world *state.World) {
		a := world.Guests[400]
		a.Running = &state.Running{QMPStatus: "running", StartedAt: world.Clock.Now(), Booted: maps.Clone(a.Config), PID: 4000}
	})
	rig.Must(t, b.s.Run(t.Context()))
	if volume := rig.GuestOf(b.w, 401).Config["scsi0"]; !strings.HasPrefix(volume, "local-zfs:vm-401-") {
		t.Errorf("VM 401 has %q", volume)
	}
}

// nothingFrom has every request fail from one on, as if the process were gone.
func nothingFrom(n int) []fault.Rule {
	var rules []fault.Rule
	for k := range 400 {
		rules = append(rules, fault.Rule{Match: fault.Match{Nth: n + k}, Phase: fault.Before})
	}
	return rules
}

// TestAppliedAgainWhileTheMoveRuns: the provider dies while PVE moves a disk, and is run again at once. Its plan has the old storage, and the apply finds
// the disk where it is to be. That may be the first run's own move, and the error says so; the apply after it has nothing left to do.
func TestAppliedAgainWhileTheMoveRuns(t *testing.T) {
	b := newKillBench(t, rig.TokenNoSSH)
	b.unkilled()
	b.s.TrustPlans = true
	config := rig.NodeVMBlock("disks = { scsi0 = { storage = \"local-lvm\", size = \"1G\" }, scsi1 = { storage = \"local-lvm\", size = \"2G\" } }\n")
	b.configure(t, config)
	rig.Must(t, b.s.Run(t.Context()))
	b.configure(t, strings.Replace(config, `"local-lvm", size = "2G"`, `"local-zfs", size = "2G"`, 1))
	pl, err := b.s.Plan(t.Context())
	rig.Must(t, err)
	move := engine.Moment{Request: "POST /nodes/pve1/qemu/400/move_disk", Nth: 1, Served: true}
	if !b.kill(t, move, func() error { return b.s.Apply(t.Context(), pl) }) {
		t.Fatal("not killed")
	}
	rig.MustSay(t, b.s.Run(t.Context()), "a move of an earlier apply has ended", "Make a new plan")
	rig.Must(t, b.s.Run(t.Context()))
}
