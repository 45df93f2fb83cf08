package contention_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
)

// scene is something that the provider does while third parties are about.
type scene struct {
	name string
	vmid int
	// before is the configuration that was applied, "" for a create; after the one at hand, "" for a destroy.
	before, after string
	prepare       func(*state.World)
	ticket        bool
	ssh           bool // with a token and SSH alone
	offs          []state.PowerKind
	faults        []fault.Rule // of an undo: what makes the apply fail
	do            func(context.Context, *adversaryBench) error
	fails         bool // also without a third party
	reads         bool // nothing is written
	plans         bool // the plan is made while third parties act
	taskTime      time.Duration
}

func (s scene) isDisk() bool { return !strings.Contains(s.before+s.after, "proxmox_vm\"") }

// destroys tells whether the scene's object must not exist afterwards.
func (s scene) destroys() bool {
	return s.after == "" || !s.isDisk() && !strings.Contains(s.after, "proxmox_vm\"")
}

func applies(ctx context.Context, b *adversaryBench) error { return b.s.Apply(ctx, b.plan) }

// plansAndApplies makes the plan, too, while third parties act.
func plansAndApplies(ctx context.Context, b *adversaryBench) (err error) {
	if b.renewed, err = b.s.Plan(ctx); err != nil {
		return err
	}
	return b.s.Apply(ctx, b.renewed)
}

// scenes are those of the sweeps: creates, undos, changes and destroys, and what only reads.
func scenes() []scene {
	list := append(createScenes(), kindScenes()...)
	for _, l := range engine.Steps() {
		list = append(list, scene{name: l.Name, vmid: engine.ChangedVMID, before: l.Before, after: l.After, prepare: l.Prepare, ticket: l.Ticket, ssh: l.SSH,
			offs: l.Offs, do: applies})
		planned := list[len(list)-1]
		planned.name, planned.do, planned.plans = "plan and "+planned.name, plansAndApplies, true
		list = append(list, planned)
	}
	list = append(list, heldDiskScenes()...)
	return append(append(list, updateScenes()...),
		scene{name: "plan", vmid: engine.ChangedVMID, before: engine.PopulatedVM, after: engine.Replace(engine.PopulatedVM, "cores = 2", "cores = 4", `"4G"`, `"5G"`), reads: true,
			do: func(ctx context.Context, b *adversaryBench) error {
				_, err := b.s.Plan(ctx)
				return err
			}},
		scene{name: "plan of a create", vmid: 200, after: scratchBy(200), reads: true,
			do: func(ctx context.Context, b *adversaryBench) error {
				_, err := b.s.Plan(ctx)
				return err
			}},
		scene{name: "refresh", vmid: engine.ChangedVMID, before: engine.PopulatedVM, after: engine.PopulatedVM, reads: true,
			do: func(ctx context.Context, b *adversaryBench) error { return b.s.Refresh(ctx) }},
		scene{name: "import", vmid: engine.ChangedVMID, before: engine.PopulatedVM, after: engine.PopulatedVM, reads: true,
			do: func(ctx context.Context, b *adversaryBench) error {
				b.s.Forget("proxmox_vm.x")
				return b.s.Import(ctx, "proxmox_vm.x", fmt.Sprintf("pve1/%d", engine.ChangedVMID))
			}},
	)
}

// scratchBy is a VM with a bit of everything, made from scratch; 0 leaves the choice of the id to the provider.
func scratchBy(vmid int) string {
	config := engine.Replace(engine.PopulatedVM, "  vmid     = 101\n", "")
	if vmid != 0 {
		config = engine.Replace(config, `name     = "web"`, fmt.Sprintf("vmid     = %d\n  name     = \"web\"", vmid))
	}
	return config
}

func createScenes() []scene {
	const cloned = `
resource "proxmox_vm" "x" {
  vmid        = 200
  name        = "web-2"
  node        = "pve1"
  pool        = "web"
  clone       = { vmid = 9000, full = %v }
  protection  = false
  cpu         = { cores = 4 }
  disks       = {
    scsi0 = { size = "8G" }
    scsi1 = { storage = "local-lvm", size = "1G" }
  }
  cloud_init  = { user = "ops", addresses = { net0 = { ipv4 = "10.0.0.5/24" } } }
  power_state = "running"
}
`
	const restored = `
resource "proxmox_vm" "x" {
  vmid        = 200
  name        = "web-3"
  node        = "pve1"
  pool        = "web"
  restore     = { archive = "local:backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst" }
  protection  = false
  cpu         = { cores = 4 }
  disks       = { scsi0 = { size = "4G" } }
  power_state = "running"
}
`
	backup := func(w *state.World) { w.AddBackup("pve1") }
	commit := []fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Task}}
	killed := []fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.KillTask}}
	failed := []fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.Partial}}
	stuck := []fault.Rule{{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu/{vmid}/clone"}, Phase: fault.KillTask}}
	torn := []fault.Rule{{Match: fault.Match{Method: "SSH", Path: "qm set"}, Phase: fault.KillTask}}
	return []scene{
		{name: "create", vmid: 200, after: scratchBy(200), do: applies},
		{name: "create from an ISO file", vmid: 200, after: engine.WithISODisk(scratchBy(200)), ssh: true, do: applies},
		{name: "undo of a killed import", vmid: 200, after: engine.WithISODisk(scratchBy(200)), ssh: true, faults: torn, do: applies},
		{name: "create, next free id", vmid: 100, after: scratchBy(0), do: applies},
		{name: "linked clone", vmid: 200, after: fmt.Sprintf(cloned, false), do: applies},
		{name: "full clone", vmid: 200, after: fmt.Sprintf(cloned, true), do: applies},
		{name: "undo after a start that failed", vmid: 200, after: scratchBy(200), faults: commit, do: applies},
		{name: "undo of a killed create", vmid: 200, after: scratchBy(200), faults: killed, do: applies},
		{name: "undo of a killed clone", vmid: 200, after: fmt.Sprintf(cloned, true), faults: stuck, do: applies},
		{name: "restore", vmid: 200, after: restored, prepare: backup, do: applies},
		{name: "undo of a restore after a start that failed", vmid: 200, after: restored, prepare: backup, faults: commit, do: applies},
		{name: "undo of a killed restore", vmid: 200, after: restored, prepare: backup, faults: killed, do: applies},
		{name: "undo of a failed restore", vmid: 200, after: restored, prepare: backup, faults: failed, do: applies},
	}
}
