package adoption_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// doubles are objects that can be in state under two addresses: their type, the id of an import, and their block.
var doubles = map[string]struct{ typ, id, body string }{
	"vm":       {"proxmox_vm", "400", "name = \"web\"\nvmid = 400\nnode = \"pve1\"\npower_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"},
	"disk":     {"proxmox_disk", "400", "vmid = 400\nnode = \"pve1\"\nstorage = \"local-zfs\"\nsize = \"1G\"\n"},
	"snapshot": {"proxmox_vm_snapshot", "9001/keep", "vmid = 9001\nname = \"keep\"\n"},
	"snippet":  {"proxmox_snippet", "pve1/local:snippets/x.yaml", "node = \"pve1\"\nstorage = \"local\"\nname = \"x.yaml\"\ncontent = \"#cloud-config\\n\"\n"},
	"HA rule":  {"proxmox_ha_rule", "apart", "rule = \"apart\"\ntype = \"node-affinity\"\nresources = [\"vm:8000\"]\nnodes = { pve1 = 0 }\n"},
}

// TestPlanRefusesToDestroyWhatAnotherAddressKeeps: a block got another name and an import in the place of a moved block, so one object is
// in state twice. The plan that destroys it at the old address and keeps it at the new one is refused, whichever comes first. Both
// addresses may stay, both may go, and the ways out of the error work.
func TestPlanRefusesToDestroyWhatAnotherAddressKeeps(t *testing.T) {
	t.Parallel()
	for name, c := range doubles {
		for _, labels := range [][2]string{{"a", "b"}, {"b", "a"}} {
			t.Run(name+" "+labels[0], func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
				as := rig.TokenSSH
				if name == "HA rule" {
					as = rig.RootTicket
					w.Change(func(world *state.World) { world.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored"} })
				}
				host := "resource \"proxmox_vm\" \"h\" {\nname = \"h\"\nvmid = 9001\nnode = \"pve1\"\npower_state = \"stopped\"\n" +
					"disks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n}\n"
				block := func(label string) string {
					return fmt.Sprintf("resource %q %q {\n%s%s}\n", c.typ, label, c.body, dependsOn(name))
				}
				was, is := c.typ+"."+labels[0], c.typ+"."+labels[1]
				s := w.Session(t, as, host+block(labels[0]))
				rig.Must(t, s.Converge(t.Context()))
				w.Sim.Advance(20e9)
				w.Reconfigure(t, s, as, host+block(labels[1]))
				rig.Must(t, s.Import(t.Context(), is, c.id))
				_, err := s.Plan(t.Context())
				said := fmt.Sprint(s.Diagnostics())
				if err == nil || !strings.Contains(said, "is in state twice") || !strings.Contains(said, "moved {") || !strings.Contains(said, "terraform state rm") {
					t.Errorf("%v; it says %s", err, said)
				}

				w.Reconfigure(t, s, as, host+block(labels[0])+block(labels[1])) // both stay
				rig.Must(t, s.Converge(t.Context()))
				if _, err := s.Plan(t.Context(), terraformtest.ToDestroy()); err != nil {
					t.Errorf("both go: %v", err)
				}

				w.Reconfigure(t, s, as, host+block(labels[1]))
				s.Forget(was)
				rig.Must(t, s.Converge(t.Context()))
				if _, err := s.Instance(is); err != nil {
					t.Error(err)
				}
				rig.Must(t, s.Destroy(t.Context()))
			})
		}
	}
}

func dependsOn(name string) string {
	if name == "snapshot" || name == "HA rule" {
		return "depends_on = [proxmox_vm.h]\n"
	}
	return ""
}
