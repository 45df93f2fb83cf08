package destroy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestLeftoverThatAnotherRunCompleted: a create fails and cannot take its VM back, so the state has it, tainted. A run with
// another state completes that very VM, and its disk gets data. The first state replaces its leftover, without a refresh
// and with one: the other one's VM stays. Without such a run the leftover goes.
func TestLeftoverThatAnotherRunCompleted(t *testing.T) {
	t.Parallel()
	configs := map[string]string{"disk": rig.DiskBlock(rig.SmallDisk),
		"VM": strings.Replace(rig.VMBlock("node = \"pve1\"\nname = \"x\"\n"+rig.OneDisk), "{\n", "{\nvmid = 300\n", 1)}
	for what, config := range configs {
		for _, completed := range []bool{false, true} {
			for _, refreshed := range []bool{false, true} {
				name := what
				if completed {
					name += ", completed by another run"
				}
				if refreshed {
					name += ", refreshed before"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					replaceLeftover(t, config, completed, refreshed)
				})
			}
		}
	}
}

func replaceLeftover(t *testing.T, config string, completed, refreshed bool) {
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, config)
	w.Sim.SetFaults([]fault.Rule{
		{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Before, Status: 500,
			Reason: "no", Times: -1},
		{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Before, Status: 500,
			Reason: "not now", Times: -1}})
	if err := s.Run(t.Context()); err == nil || len(s.Addresses()) != 1 {
		t.Fatal("the create has left nothing:", err)
	}
	w.Sim.SetFaults(nil)
	if refreshed {
		rig.Must(t, s.Refresh(t.Context()))
	}
	if !completed {
		rig.Must(t, s.Converge(t.Context()))
		rig.Must(t, s.Destroy(t.Context()))
		if left := rig.TracesOf(w, 300); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		return
	}
	rig.Must(t, w.Session(t, rig.TokenNoSSH, config).Converge(t.Context()))
	const data = "the other state's data"
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.VMID == 300 {
				v.Data = data
			}
		}
	})
	unrefreshed, err := s.Plan(t.Context(), terraformtest.WithoutRefresh())
	if err == nil {
		err = s.Apply(t.Context(), unrefreshed)
	}
	if is := rig.DataOf(w, "vm-300-disk-0"); is != data {
		t.Fatalf("without a refresh: the other state's disk has %q: %v", is, err)
	}
	err = s.Run(t.Context())
	if is := rig.DataOf(w, "vm-300-disk-0"); is != data {
		t.Errorf("the other state's disk has %q: %v", is, err)
	}
}
