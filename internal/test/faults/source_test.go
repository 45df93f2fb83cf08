package faults_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestSweepSource fails every request and every command of a create whose disks are named by their paths, in every way, and then every
// one of the undo of an import that was killed or whose end was not seen. `make test` plays one in
// three, and of the first import only.
func TestSweepSource(t *testing.T) {
	t.Parallel()
	for _, who := range engine.FaultIdentities() {
		if !who.Ticket && !who.SSH {
			continue // the plan refuses it, and so does the create: TestSourceMatrix
		}
		t.Run(who.Name, func(t *testing.T) {
			t.Parallel()
			b, counts, sc := engine.NewCreateBench(t, who), tally{}, engine.FromISO()
			ops := b.CleanRun(sc)
			isCommand := func(op pvesim.Op) bool { return op.Method == "SSH" && op.Path == "qm set" }
			if n := len(slices.DeleteFunc(slices.Clone(ops), func(op pvesim.Op) bool { return !isCommand(op) })); n != 2 && who.SSH || n != 0 && !who.SSH {
				t.Fatalf("%d disks were imported over SSH", n)
			}
			imports, whole := 0, share.IsWhole()
			for at, op := range ops {
				if isCommand(op) {
					imports++
				}
				for p, phase := range engine.FaultPhases {
					if !whole && (at+p+who.Number())%sourceShare != 0 {
						continue
					}
					first := engine.FaultAt(op, phase)
					o := counts.play(t, b, who, sc, fmt.Sprintf("%-16s %-10s %s", who.Name, phase, engine.OpName(op)), op, first)
					if o == rolledBack && isCommand(op) && (imports == 1 || whole) {
						for _, undo := range b.UndoOf(sc, first) {
							counts.play(t, b, who, sc, fmt.Sprintf("%-16s %-10s %s", who.Name, "undo of "+phase, engine.OpName(op)), undo,
								first, engine.FaultAt(undo, fault.After))
						}
					}
				}
			}
			if total := counts.print(t, "sources"); total < 20/sourceShare || whole && total < 20 {
				t.Errorf("only %d effective cases", total)
			}
		})
	}
}

// sourceShare is the part of the faults of a create from paths that `make test` plays.
const sourceShare = 3

// TestSweepSourceInOVA fails the request that makes a VM of a disk in an OVA, which PVE unpacks to a volume of the VM's id first, on a storage
// that the VM has nothing on.
func TestSweepSourceInOVA(t *testing.T) {
	t.Parallel()
	who, counts := engine.FaultIdentities()[0], tally{}
	b := engine.NewCreateBench(t, who)
	b.Also = func(world *state.World) {
		world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "import/web.ova", Content: "import", Format: "ova", Size: 71680, Raw: rig.OVA()})
	}
	b.Reset()
	b.Base = b.Sim.Snapshot()
	sc := engine.FromISO()
	sc.Name, sc.Request.ImportStorage = "from an OVA", "local2"
	sc.Request.Spec.Disks = map[string]vm.Disk{
		"scsi0": {Storage: "local-zfs", Size: rig.Pointer(int64(4 << 30)), ImportFrom: rig.Pointer("local:import/web.ova/disk1.vmdk")}}
	posts := slices.DeleteFunc(b.CleanRun(sc), func(op pvesim.Op) bool { return op.Method != http.MethodPost })
	for _, op := range posts {
		if op.Path == "/nodes/{node}/qemu" && op.Params["import-working-storage"] != "local2" {
			t.Errorf("sent %v", op.Params)
		}
	}
	counts.sweep(t, b, who, sc, posts, byOperation)
	if total := counts.print(t, "OVA"); total < 8 {
		t.Errorf("only %d effective cases", total)
	}
}

// byOperation names a cell by its phase and operation.
func byOperation(op pvesim.Op, phase fault.Phase) string {
	return fmt.Sprintf("%-10s %s", phase, engine.OpName(op))
}
