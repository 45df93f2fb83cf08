package destroy_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestUntaintedLeftoverWithoutProof: a create leaves a VM, another state completes it, and an apply without a refresh
// loses the proof of whose it is. Once it is untainted, no plan changes it. The way out that the errors name takes it over.
func TestUntaintedLeftoverWithoutProof(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ address, id, was, changed string }{
		"disk": {rig.DiskAddress, "300", rig.DiskBlock(rig.SmallDisk), rig.DiskBlock(strings.Replace(rig.SmallDisk, "1G", "2G", 1))},
		"VM": {rig.VMAddress, "pve1/300",
			rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\n" + rig.OneDisk),
			rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\nremoved_disks = \"destroy\"\nmemory = { size = 1024 }\n")},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, c.was)
			w.Sim.SetFaults([]fault.Rule{refuseAll(http.MethodPut, "/config"), refuseAll(http.MethodDelete, "")})
			if err := s.Run(t.Context()); err == nil || len(s.Addresses()) != 1 {
				t.Fatal("the create has left nothing:", err)
			}
			w.Sim.SetFaults(nil)
			rig.Must(t, s.Refresh(t.Context()))
			rig.Must(t, w.Session(t, rig.TokenNoSSH, c.was).Converge(t.Context()))
			was := rig.GuestOf(w, 300)
			blind, err := s.Plan(t.Context(), terraformtest.WithoutRefresh())
			rig.Must(t, err)
			rig.MustSay(t, s.Apply(t.Context(), blind), "State does not tell which VM 300 it means", c.address+".vmid", "state rm")
			s.Taint(c.address, false)
			w.Reconfigure(t, s, rig.TokenNoSSH, c.changed)
			for _, options := range [][]terraformtest.PlanOption{nil, {terraformtest.WithoutRefresh()}} {
				_, err = s.Plan(t.Context(), options...)
				rig.MustSay(t, err, "Cannot change", c.address+".vmid", "Nothing was changed", "state rm")
			}
			if is := rig.GuestOf(w, 300); !maps.Equal(is.Config, was.Config) {
				t.Errorf("the VM was %v, and is %v", was.Config, is.Config)
			}
			s.Forget(c.address)
			rig.Must(t, s.Import(t.Context(), c.address, c.id))
			rig.Must(t, s.Converge(t.Context()))
		})
	}
}

// refuseAll lets every request of a kind for a VM fail.
func refuseAll(method, path string) fault.Rule {
	return fault.Rule{Match: fault.Match{Method: method, Path: "/nodes/{node}/qemu/{vmid}" + path}, Phase: fault.Before,
		Status: 500, Reason: "no", Times: -1}
}
