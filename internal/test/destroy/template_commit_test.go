package destroy_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestTemplateWhoseCommitFails: a clone gets a further disk and becomes a template, which renames its disks. Whichever change of its
// configuration PVE refuses, the roll-back leaves nothing.
func TestTemplateWhoseCommitFails(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprint("full ", full), func(t *testing.T) {
			t.Parallel()
			refused := 0
			for n := 1; ; n++ {
				w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
				s := w.Session(t, rig.RootTicket, rig.NodeVMBlock(fmt.Sprintf("clone = { vmid = 9000, full = %t }\ntemplate = true\n"+
					"disks = { scsi1 = { storage = \"local-zfs\", size = \"2G\" } }\n", full)))
				w.Sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config", Nth: n},
					Phase: fault.Before, Status: 500, Reason: "refused"}})
				if s.Run(t.Context()) == nil {
					break
				}
				if refused++; len(s.Addresses()) > 0 {
					t.Errorf("PUT %d was refused, and this is left: %v, %s", n, s.Addresses(), s.Diagnostics())
				}
				w.MustBeClean(t)
			}
			if refused == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}
