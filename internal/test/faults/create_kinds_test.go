package faults_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/kinds"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// kindsOf are creates of all kinds.
func kindsOf(engine.FaultIdentity) (all []engine.Scenario) {
	for name, k := range share.Rows(kinds.All(rig.WebBackup), 1) {
		r := create.Request{VMID: 300, Node: k.Node, Clone: k.Clone, Restore: k.Restore, Spec: k.Spec, Start: k.Start}
		r.Spec.Name = rig.Pointer("web")
		all = append(all, engine.Scenario{Name: name, VMID: 300, Request: r})
	}
	return all
}

// TestSweepKinds makes VMs of all kinds, and fails every operation of them in every way, for every identity; `make test` plays a share,
// each with another identity, and every death of a worker with one that can take its lock away.
func TestSweepKinds(t *testing.T) {
	t.Parallel()
	eachIdentity(t, "kinds", 2000, kindsOf, func(t *testing.T, b *engine.CreateBench, who engine.FaultIdentity, sc engine.Scenario, counts tally) {
		b.Begin(kinds.World)
		sweepKind(t, b, who, sc, counts)
	})
}

// TestSweepKindsWhileANodeIsOff: another node is off, and with it a guest that cannot be read. That keeps no create from its end. It
// keeps no roll-back either, unless that guest may have a disk of the VM, on a shared storage.
func TestSweepKindsWhileANodeIsOff(t *testing.T) {
	t.Parallel()
	here := func(who engine.FaultIdentity) []engine.Scenario {
		return slices.DeleteFunc(kindsOf(who), func(sc engine.Scenario) bool { return sc.Node() != "pve1" })
	}
	eachIdentity(t, "kinds, with a node off", 1500, here, func(t *testing.T, b *engine.CreateBench, who engine.FaultIdentity, sc engine.Scenario, counts tally) {
		b.Begin(kinds.World)
		b.Also = func(w *state.World) { w.Nodes["pve2"].Online = false }
		if sc.Request.Spec.Disks["scsi0"].Storage == "shared-nfs" {
			b.CleanRun(sc)
			return
		}
		sweepKind(t, b, who, sc, counts)
	})
}

func sweepKind(t *testing.T, b *engine.CreateBench, who engine.FaultIdentity, sc engine.Scenario, counts tally) {
	at := 0
	for op, phase := range engine.Cells(b.CleanRun(sc), engine.InPhases(engine.FaultPhases...)) {
		if at++; engine.IsDrawn(at, who.Number()) || phase == fault.KillTask && who.Ticket {
			counts.play(t, b, who, sc, fmt.Sprintf("%-32s %s", who.Name, phase), op, engine.FaultAt(op, phase))
		}
	}
}

// TestSweepKindsUndo fails every operation of the undos as well; `make test` those of two kinds for each identity.
func TestSweepKindsUndo(t *testing.T) {
	t.Parallel()
	drawn := func(who engine.FaultIdentity) (list []engine.Scenario) {
		for n, sc := range kindsOf(who) {
			if share.IsWhole() || (n+who.Number())%6 == 0 {
				list = append(list, sc)
			}
		}
		return list
	}
	eachIdentity(t, "undos of kinds", 2400, drawn, func(t *testing.T, b *engine.CreateBench, who engine.FaultIdentity, sc engine.Scenario, counts tally) {
		b.Begin(kinds.World)
		n := 0
		for _, first := range b.Triggers(b.CleanRun(sc)) {
			for op, phase := range engine.Cells(b.UndoOf(sc, first), engine.InPhases(engine.FaultPhases...)) {
				if n++; share.IsWhole() || n%12 == who.Number() {
					counts.play(t, b, who, sc, fmt.Sprintf("%-32s %s", who.Name, phase), op, first, engine.FaultAt(op, phase))
				}
			}
		}
	})
}
