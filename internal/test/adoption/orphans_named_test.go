package adoption_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestOrphansThatAPlanNames: a plan names the volumes which on_orphaned_volumes = "destroy" is going to destroy, also
// those of a VM that its own refresh has found gone, or says that it cannot name them.
func TestOrphansThatAPlanNames(t *testing.T) {
	t.Parallel()
	const orphan = "vm-400-disk-7"
	vm := func(vmid string) string {
		return "resource \"proxmox_vm\" \"x\" {\n  vmid = " + vmid + "\n  node = \"pve1\"\n  power_state = \"stopped\"\n" +
			"  on_orphaned_volumes = \"destroy\"\n  disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n}\n"
	}
	for name, c := range map[string]struct {
		hcl  string
		was  string // another VM, which this one replaces
		gone bool   // the VM was in state
		says string
	}{
		"of a free id":  {hcl: vm("400"), says: orphan},
		"of a VM gone":  {hcl: vm("400"), gone: true, says: orphan},
		"of a later id": {hcl: strings.Replace(rig.VMBlock("node = \"pve1\"\n"), `"x"`, `"y"`, 1) + vm("proxmox_vm.y.vmid + 300"), says: "not known yet"},
		"of a later id, replaced": {hcl: strings.Replace(rig.VMBlock("node = \"pve1\"\n"), `"x"`, `"y"`, 1) + vm("proxmox_vm.y.vmid + 300"), was: vm("300"),
			says: "not known yet"},
		"on a later node": {hcl: strings.Replace(rig.VMBlock("node = \"pve1\"\n"), `"x"`, `"y"`, 1) +
			strings.Replace(vm("400"), `node = "pve1"`, `nodes = [proxmox_vm.y.vmid > 0 ? "pve1" : "pve2"]`, 1), says: "not known yet"},
		"by a later option": {hcl: strings.Replace(rig.VMBlock("node = \"pve1\"\n"), `"x"`, `"y"`, 1) +
			strings.Replace(vm("400"), `= "destroy"`, `= proxmox_vm.y.vmid > 0 ? "destroy" : "fail"`, 1), says: orphan},
		"of no id at all": {hcl: vm("null")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, c.hcl)
			if c.was != "" {
				w.Reconfigure(t, s, rig.TokenNoSSH, c.was)
				rig.Must(t, s.Converge(t.Context()))
				w.Reconfigure(t, s, rig.TokenNoSSH, c.hcl)
			}
			if c.gone {
				rig.Must(t, s.Converge(t.Context()))
			}
			w.Change(func(world *state.World) {
				delete(world.Guests, 400)
				world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: orphan, Content: "images", VMID: 400, Format: "raw",
					Size: 3 << 30, Data: "precious"})
			})
			plan, err := s.Plan(t.Context())
			rig.Must(t, err)
			if said := fmt.Sprint(s.Diagnostics()); c.says == "" && said != "" || !says(s, c.says) {
				t.Errorf("want %q, the plan says: %v", c.says, said)
			}
			rig.Must(t, s.Apply(t.Context(), plan))
			if kept := rig.DataOf(w, orphan) == "precious"; kept != (c.says == "") {
				t.Errorf("the volume is kept: %t", kept)
			}
		})
	}
}
