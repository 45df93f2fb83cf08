package rig

import (
	"iter"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
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
