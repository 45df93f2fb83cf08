package destroy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestDestroyOfAnUntaintedVM: a create fails at its start and keeps the VM, or cannot take it back. Its user untaints it
// and works with it. A destroy is that of any other VM then: it obeys the protection, and asks the guest to shut down.
func TestDestroyOfAnUntaintedVM(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]string{"kept": "on_failure = \"keep\"\n", "left": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.DestroyBlock(failure))
			w.Sim.SetFaults([]fault.Rule{
				{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"}, Phase: fault.Before,
					Status: 500, Reason: "no such bridge"},
				{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Before, Status: 500,
					Reason: "not now", Times: 60}})
			if err := s.Run(t.Context()); err == nil {
				t.Fatal("the create has not failed")
			}
			w.Sim.SetFaults(nil)
			s.Taint("proxmox_vm.x", false)
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.DestroyBlock(failure+"protection = true\npower_state = \"running\"\ndescription = \"in use\"\n"))
			if err := s.Converge(t.Context()); err != nil || rig.GuestOf(w, 400).Running == nil {
				t.Fatal("the untainted VM does not run:", err)
			}
			w.Sim.ResetPowerOffs()
			if err := s.Destroy(t.Context()); err == nil || rig.GuestOf(w, 400).Running == nil {
				t.Fatalf("the protected VM was touched: %v", err)
			}
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.DestroyBlock(failure+"protection = false\npower_state = \"running\"\ndescription = \"in use\"\n"))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Destroy(t.Context()); err != nil || len(rig.TracesOf(w, 400)) > 0 {
				t.Errorf("%v, left %v", err, rig.TracesOf(w, 400))
			}
			for _, off := range w.Sim.PowerOffs() {
				if off.Hard {
					t.Errorf("the guest was cut off: %+v", off)
				}
			}
		})
	}
}

// TestUntaintedDisk: the create of a proxmox_disk fails and cannot take its VM back. Its user untaints it. The first
// apply makes it an ordinary disk, and it grows like one.
func TestUntaintedDisk(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]string{"as configured": rig.SmallDisk,
		"larger": strings.Replace(rig.SmallDisk, "1G", "2G", 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.DiskBlock(rig.SmallDisk))
			w.Sim.SetFaults([]fault.Rule{
				{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Before,
					Status: 500, Reason: "no", Times: -1},
				{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Before,
					Status: 500, Reason: "not now", Times: -1}})
			if err := s.Run(t.Context()); err == nil || len(s.Addresses()) != 1 {
				t.Fatal("the create has left nothing:", err)
			}
			w.Sim.SetFaults(nil)
			s.Taint(rig.DiskAddress, false)
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.DiskBlock(lines))
			rig.Must(t, s.Converge(t.Context()))
			if is := rig.GuestOf(w, 300).Config; is["protection"] != "1" {
				t.Errorf("the VM is not protected: %v", is)
			}
			rig.Must(t, s.Destroy(t.Context()))
			if left := rig.TracesOf(w, 300); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestUntaintedDiskWhoseResumeFailed: a run was killed right before its commit. The next apply goes on with its disk, and
// PVE refuses the commit. The disk is complete and stays, in state, and its user can keep it.
func TestUntaintedDiskWhoseResumeFailed(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	no := fault.Rule{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}, Phase: fault.Before,
		Status: 500, Reason: "no", Times: -1}
	cut := fault.Rule{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"}, Phase: fault.Before,
		Status: 500, Reason: "not now", Times: -1}
	w.Sim.SetFaults([]fault.Rule{no, cut})
	if err := w.Session(t, rig.TokenNoSSH, rig.DiskBlock(rig.SmallDisk)).Run(t.Context()); err == nil {
		t.Fatal("the create has not failed")
	}
	cred := w.Sim.Credentials()
	w.Change(func(world *state.World) {
		g := world.Guests[300]
		g.Config["description"] = rig.Resign(cred, g.Config["description"], rig.OfADeadProcess)
	})
	no.Match.Nth = 2 // the first takes the VM over
	w.Sim.SetFaults([]fault.Rule{no})
	s := w.Session(t, rig.TokenNoSSH, rig.DiskBlock(rig.SmallDisk))
	rig.MustSay(t, s.Run(t.Context()), "VM 300 was complete before this run went on with it", "terraform untaint")
	w.Sim.SetFaults(nil)
	uuid := rig.GuestOf(w, 300).Config["smbios1"]
	s.Taint(rig.DiskAddress, false)
	rig.Must(t, s.Converge(t.Context()))
	if is := rig.GuestOf(w, 300).Config; is["protection"] != "1" || is["smbios1"] != uuid {
		t.Errorf("it is %v", is)
	}
	rig.Must(t, s.Destroy(t.Context()))
	if left := rig.TracesOf(w, 300); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestUntaintedDiskThatAnotherRunCompletes: between the plan and the apply of such a disk the create of another state
// completes its VM, and a VM of that state attaches it. The apply changes nothing, and a destroy leaves it.
func TestUntaintedDiskThatAnotherRunCompletes(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]string{"as configured": "1G", "larger": "2G"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.DiskBlock(rig.SmallDisk))
			no := func(method, path string) fault.Rule {
				return fault.Rule{Match: fault.Match{Method: method, Path: "/nodes/{node}/qemu/{vmid}" + path}, Phase: fault.Before,
					Status: 500, Reason: "no", Times: -1}
			}
			w.Sim.SetFaults([]fault.Rule{no(http.MethodPut, "/config"), no(http.MethodDelete, "")})
			if err := s.Run(t.Context()); err == nil || len(s.Addresses()) != 1 {
				t.Fatal("the create has left nothing:", err)
			}
			w.Sim.SetFaults(nil)
			s.Taint(rig.DiskAddress, false)
			cred := w.Sim.Credentials()
			w.Change(func(world *state.World) {
				g := world.Guests[300]
				g.Config["description"] = rig.Resign(cred, g.Config["description"], rig.OfADeadProcess)
			})
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.DiskBlock(strings.Replace(rig.SmallDisk, "1G", size, 1)))
			planned, err := s.Plan(t.Context())
			rig.Must(t, err)
			other := w.Session(t, rig.TokenNoSSH, rig.DiskBlock(rig.SmallDisk))
			rig.Must(t, other.Run(t.Context()))
			w.Reconfigure(t, other, rig.TokenNoSSH, rig.DiskBlock(rig.SmallDisk)+rig.DiskAttached("a", 400, rig.DiskVolume))
			rig.Must(t, other.Run(t.Context()))
			rig.MustSay(t, s.Apply(t.Context(), planned), "has changed since the plan", "Its configuration was not changed")
			rig.Must(t, s.Refresh(t.Context()))
			rig.Must(t, s.Destroy(t.Context()))
			if is := rig.GuestOf(w, 300); !strings.Contains(is.Config["scsi0"], "size=1G") || len(s.Addresses()) > 0 {
				t.Errorf("the VM is %v; in state is %v", is, s.Addresses())
			}
			rig.Must(t, other.Converge(t.Context()))
		})
	}
}
