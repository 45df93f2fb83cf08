package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestCreateBeforeDestroy: in the apply of a replacement with create_before_destroy Terraform plans the create without the
// state of the VM that it replaces, in a process that has refreshed nothing. Where that plan fails, the VM is lost to Terraform;
// where the create does, it is kept. So the id of the VM itself is the create's to refuse.
func TestCreateBeforeDestroy(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"with a name": "name = \"mine\"\nvmid = 400\nnode = \"pve1\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n",
		"nameless":    "vmid = 400\nnode = \"pve1\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(body))
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Sim.Advance(20e9) // pvestatd has seen it
			w.Mark()
			s.Forget(rig.VMAddress) // what the second plan knows of it
			pl, err := s.Plan(t.Context())
			if err != nil {
				t.Fatalf("the plan within the apply fails: %v", err)
			}
			err = s.Apply(t.Context(), pl)
			if err == nil || !strings.Contains(err.Error(), "VMID 400 is taken") || !strings.Contains(err.Error(), "create_before_destroy") ||
				strings.Contains(err.Error(), "()") {
				t.Errorf("the create says: %v", err)
			}
			w.MustBeClean(t)
		})
	}
	w := rig.NewWorld(t) // another's id is refused in the plan as before
	w.Change(func(world *state.World) {
		world.Guests[400] = &state.Guest{VMID: 400, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "theirs"}}
	})
	w.Sim.Advance(20e9)
	if _, err := w.Session(t, rig.TokenNoSSH, rig.VMBlock("name = \"mine\"\nvmid = 400\nnode = \"pve1\"\n")).Plan(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "VMID 400 is taken") {
		t.Errorf("the id of another VM is planned: %v", err)
	}
}
