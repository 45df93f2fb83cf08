package engine

import (
	"fmt"
	"iter"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// Cells are the cases of a sweep: each operation of a run without faults, in each of its phases.
func Cells(ops []pvesim.Op, phases func(pvesim.Op) []fault.Phase) iter.Seq2[pvesim.Op, fault.Phase] {
	return func(yield func(pvesim.Op, fault.Phase) bool) {
		for _, op := range ops {
			for _, phase := range phases(op) {
				if !yield(op, phase) {
					return
				}
			}
		}
	}
}

// InPhases gives every operation the same phases.
func InPhases(phases ...fault.Phase) func(pvesim.Op) []fault.Phase {
	return func(pvesim.Op) []fault.Phase { return phases }
}

// FaultAt fails one operation of a run, by its place in it, which counts from 1.
func FaultAt(op pvesim.Op, phase fault.Phase) fault.Rule {
	return fault.Rule{Match: fault.Match{Seq: op.Seq}, Phase: phase}
}

// FaultPhases are all ways in which an operation can go wrong.
var FaultPhases = []fault.Phase{fault.Before, fault.After, fault.Task, fault.KillTask, fault.Partial, fault.Rival}

// Outcome is the result of a case.
type Outcome string

// OpName returns an operation's method and path.
func OpName(op pvesim.Op) string { return fmt.Sprintf("%s %s", op.Method, op.Path) }

// cellShare is the part of a sweep's cells that `make test` plays: one in so many.
const cellShare = 60

// IsDrawn reports whether a cell of a sweep, counted by at, is played for an identity, counted by who. Identities in
// sequence play different cells, so that a cell that several have is played by one of them.
func IsDrawn(at, who int) bool { return IsOneIn(cellShare, at, who) }

// IsOneIn is IsDrawn with another share, for a sweep of which few cells are effective.
func IsOneIn(every, at, who int) bool { return share.IsWhole() || (at+who)%every == 0 }

// Enough is the least number of cases that a sweep plays, of so many in the whole.
func Enough(whole int) int {
	if share.IsWhole() {
		return whole
	}
	return whole / (2 * cellShare)
}
