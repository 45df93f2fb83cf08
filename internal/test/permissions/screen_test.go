package permissions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestTextsOfThirdPartiesAreShownAsTheyAre: what third parties write cannot clear the screen, conceal a line or turn its
// direction. The test driver itself fails a diagnostic with such a character.
func TestTextsOfThirdPartiesAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	const (
		forged = "x\x1b[2J\x1b[H\x1b[32mDone!\x1b[0m\x1b[8m\u202e"
		shown  = `x\x1b[2J\x1b[H\x1b[32mDone!\x1b[0m\x1b[8m\u202e`
	)
	faulty := func(match fault.Match, phase fault.Phase) func(*rig.World) {
		return func(w *rig.World) {
			w.Sim.SetFaults([]fault.Rule{{Match: match, Phase: phase, Status: 500, Reason: forged, Times: -1}})
		}
	}
	create := fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}
	for name, c := range map[string]struct {
		prepare func(*rig.World)
		source  string
		later   func(*rig.World) // between the create and a destroy
	}{
		"the names of a VM": {later: func(w *rig.World) {
			w.Change(func(world *state.World) {
				world.Guests[8000].Config["name"], world.Guests[8000].Config["description"] = forged, forged
				world.Guests[8000].Config["scsi5"] = world.Guests[400].Config["scsi0"]
			})
		}},
		"a volume's name": {prepare: func(w *rig.World) {
			w.Change(func(world *state.World) {
				world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "400/vm-400-" + forged + ".raw", VMID: 400, Content: "images",
					Format: "raw", Size: 1 << 30})
			})
		}},
		"a reason phrase":   {prepare: faulty(create, fault.Before)},
		"the log of a task": {prepare: faulty(create, fault.Task)},
		"stderr of SSH":     {prepare: faulty(fault.Match{Method: "SSH", Path: "qm set"}, fault.Before), source: ", import_from = \"local:iso/debian.iso\""},
		"a UPID":            {later: func(w *rig.World) { w.Sim.StaleLock(400, "backup", forged+"@pve") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			if c.prepare != nil {
				c.prepare(w)
			}
			who := rig.TokenNoSSH
			if c.source != "" {
				who = rig.TokenSSH
			}
			s := w.Session(t, who, fmt.Sprintf("resource \"proxmox_vm\" \"web\" {\n  node = \"pve1\"\n  vmid = 400\n"+
				"  disks = { scsi0 = { storage = \"local\", size = \"5G\"%s } }\n}\n", c.source))
			err := s.Run(t.Context())
			if c.later != nil {
				rig.Must(t, err)
				c.later(w)
				err = s.Destroy(t.Context())
			}
			told := shown
			if name == "a volume's name" { // a listing encodes the bytes of a file's name once more
				told = strings.TrimSuffix(shown, `\u202e`) + `â\x80®`
			}
			if err == nil || !strings.Contains(err.Error(), told) {
				t.Errorf("said %v", err)
			}
		})
	}
}
