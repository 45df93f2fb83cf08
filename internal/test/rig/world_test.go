package rig

import (
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
)

// TestWritesOfReadingCalls: a request that changes something is noted in a call that only reads, but not in an apply, and
// not while one is at work.
func TestWritesOfReadingCalls(t *testing.T) {
	w, err := OpenWorld(pvesim.Options{})
	Must(t, err)
	t.Cleanup(w.Close)
	write := func(act string) { RunTask(t, w, "/nodes/pve1/qemu/8000/status/"+act, "") }
	plan := w.record("PlanResourceChange", "it")
	plan()
	apply := w.record("ApplyResourceChange", "it")
	beside := w.record("ReadResource", "other")
	write("start")
	beside()
	apply()
	if len(w.written) > 0 {
		t.Errorf("without a write in a plan: %v", w.written)
	}
	plan = w.record("PlanResourceChange", "it")
	write("reset")
	plan()
	if want := "PlanResourceChange of it has sent POST /nodes/{node}/qemu/{vmid}/status/reset"; !slices.Contains(w.written, want) {
		t.Errorf("noted %v, want %s", w.written, want)
	}
}
