package lifecycle_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestRestoreOptions: where the disks of a backup go, and how fast, counts when the VM is made; a change of it sends nothing.
func TestRestoreOptions(t *testing.T) {
	t.Parallel()
	config := func(storage string, limit int) string {
		return rig.VMBlock(fmt.Sprintf("node = \"pve1\"\nvmid = 200\nprotection = false\nrestore = { archive = %q, storage = %q, bwlimit = %d }",
			rig.WebBackup, storage, limit))
	}
	w := restoreWorld(t, func(*state.World) {})
	s := w.Session(t, rig.TokenNoSSH, config("local-lvm", 10240))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, op := range w.Sim.Ops() {
		if op.Method == http.MethodPost && op.Path == "/nodes/{node}/qemu" {
			made++
			if op.Params["storage"] != "local-lvm" || op.Params["bwlimit"] != "10240" {
				t.Errorf("sent %v", op.Params)
			}
		}
	}
	if made != 1 {
		t.Errorf("%d VMs were made", made)
	}
	w.Sim.ResetOps()
	w.Reconfigure(t, s, rig.TokenNoSSH, config("local-zfs", 20480))
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	rig.OnlyReads(t, w.Sim.Ops())
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}
