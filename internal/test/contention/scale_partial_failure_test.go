package contention_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestScaleSet: of eight equal VMs three fail, each in another way. The five others stand, nothing of the three is left, and the next apply makes
// them without touching the five. Then the set shrinks, from its end and in its middle.
func TestScaleSet(t *testing.T) {
	t.Parallel()
	const size = 8
	w := rig.ExampleWorld(t)
	before := rig.GuestsNamed(w)
	workers := func() map[string]int {
		named := rig.GuestsNamed(w)
		maps.DeleteFunc(named, func(name string, vmid int) bool { return before[name] == vmid })
		return named
	}
	s := w.Session(t, rig.TokenSSH, rig.Examples(t)["guides/scale-set"])
	s.Parallelism = 4
	s.SetVariable("size", cty.NumberIntVal(size))
	clone, start := "/nodes/{node}/qemu/{vmid}/clone", "/nodes/{node}/qemu/{vmid}/status/start"
	w.Sim.SetFaults([]fault.Rule{
		{Match: fault.Match{Method: "POST", Path: clone, Nth: 2}, Phase: fault.Task, Reason: "no space left"},
		{Match: fault.Match{Method: "POST", Path: clone, Nth: 5}, Phase: fault.KillTask},
		{Match: fault.Match{Method: "POST", Path: start, Nth: 3}, Phase: fault.Task, Reason: "QEMU exited with code 1"},
	})
	err := s.Run(t.Context())
	if fired := w.Sim.FaultsFired(); fired != 3 {
		t.Fatalf("%d of 3 faults fired", fired)
	}
	w.Sim.SetFaults(nil)
	rig.MustSayAll(t, err.Error(), "no space left", "QEMU exited with code 1")
	stand := workers()
	if len(stand) != size-3 || !slices.Equal(s.Addresses(), addressesOf(stand)) {
		t.Fatalf("in the state: %v; on the cluster: %v", s.Addresses(), stand)
	}
	uuids := uuidsOf(s)
	if len(uuids) != len(stand) {
		t.Fatalf("uuids: %v", uuids)
	}
	rig.Must(t, s.Converge(t.Context()))
	all := workers()
	if len(all) != size || len(s.Addresses()) != size {
		t.Errorf("after the second apply: %v", all)
	}
	for name, vmid := range stand {
		if all[name] != vmid {
			t.Errorf("%s was VM %d and is VM %d", name, vmid, all[name])
		}
	}
	for address, uuid := range uuids {
		if is := terraformtest.ShowValue(s.Attr(address, "uuid")); is != uuid {
			t.Errorf("%s was %s and is %s", address, uuid, is)
		}
	}
	s.SetVariable("size", cty.NumberIntVal(4))
	s.SetVariable("retired", cty.ListVal([]cty.Value{cty.StringVal("worker-02")}))
	rig.Must(t, s.Converge(t.Context()))
	want := map[string]int{"worker-01": all["worker-01"], "worker-03": all["worker-03"], "worker-04": all["worker-04"]}
	if is := workers(); !maps.Equal(is, want) {
		t.Errorf("there are %v, want %v", is, want)
	}
	rig.Must(t, s.Destroy(t.Context()))
	w.MustBeClean(t)
}

// addressesOf are those that workers of these names have.
func addressesOf(named map[string]int) []string {
	var all []string
	for name := range named {
		all = append(all, `proxmox_vm.worker["`+name+`"]`)
	}
	slices.Sort(all)
	return all
}

func uuidsOf(s *terraformtest.Session) map[string]string {
	all := map[string]string{}
	for _, address := range s.Addresses() {
		if uuid := terraformtest.ShowValue(s.Attr(address, "uuid")); strings.Contains(uuid, "-") {
			all[address] = uuid
		}
	}
	return all
}
