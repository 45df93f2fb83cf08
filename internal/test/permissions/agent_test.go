package permissions_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestOneDeniedAgentLeavesTheOthersAsked: PVE asks for the privilege on one VM (qemu-server API2/Qemu/Agent.pm). An
// agent that the identity may not ask says nothing of the others, whose addresses a refresh still brings.
func TestOneDeniedAgentLeavesTheOthersAsked(t *testing.T) {
	t.Parallel()
	const first, all, denied = 150, 6, 150
	w, block := rig.NewWorld(t), ""
	for id := first; id < first+all; id++ {
		block += fmt.Sprintf("resource \"proxmox_vm\" \"v%d\" {\n  node = \"pve1\"\n  vmid = %d\n  agent = { enabled = true }\n"+
			"  networks = { net0 = { model = \"virtio\", bridge = \"vmbr0\" } }\n}\n", id, id)
	}
	s := w.Session(t, rig.TokenSSH, block)
	rig.Must(t, s.Converge(t.Context()))
	w.Change(func(world *state.World) {
		world.Roles["Less"] = slices.DeleteFunc(slices.Clone(world.Roles["TerraformProvider"]), func(p string) bool {
			return strings.HasPrefix(p, "VM.GuestAgent") || p == "VM.Monitor"
		})
		for _, who := range []string{"terraform@pve", "terraform@pve!prov"} {
			world.ACL = append(world.ACL, state.ACLEntry{Path: fmt.Sprint("/vms/", denied), Subject: who, Role: "Less", Propagate: true})
		}
		for id := first; id < first+all; id++ {
			world.Guests[id].Agent = &state.Agent{Interfaces: []state.AgentInterface{
				{Name: "net0", Addresses: []string{fmt.Sprintf("10.9.9.%d/24", id)}}}}
		}
	})
	s.Parallelism = 1 // the denied one is asked first
	rig.Must(t, s.Refresh(t.Context()))
	for id := first; id < first+all; id++ {
		is, want := s.Attr(fmt.Sprintf("proxmox_vm.v%d", id), "ipv4_address"), fmt.Sprintf("10.9.9.%d", id)
		if has := !is.IsNull() && is.AsString() == want; has != (id != denied) {
			t.Errorf("VM %d has the address %#v in state", id, is)
		}
	}
}
