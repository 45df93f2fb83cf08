package destroy

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestCommandsForCopies: volumes that a dead task may have left are named after the destroy. A command frees one only
// where no configuration mentions it by then, and none is given where another cluster may have the volume.
func TestCommandsForCopies(t *testing.T) {
	const local, shared = "local-zfs:vm-300-disk-7", "shared-nfs:300/vm-300-disk-7.qcow2"
	r := newRig(t, asRoot)
	ref := r.vm(300)
	r.sim.StaleLock(300, "backup", "root@pam")
	r.change(func(w *state.World) {
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-7", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
		w.Put(&state.Volume{Storage: "shared-nfs", Name: "300/vm-300-disk-7.qcow2", VMID: 300, Content: "images", Format: "qcow2", Size: 1 << 30})
	})
	_, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, w := range warnings {
		said += w.Detail + "\n"
	}
	if !strings.Contains(said, "`grep -rF -- "+local+" /etc/pve/nodes; [ $? = 1 ] && pvesm free "+local+"`") {
		t.Errorf("no command that looks first: %s", said)
	}
	if !strings.Contains(said, shared) || strings.Contains(said, "free "+shared) || !strings.Contains(said, "another cluster") {
		t.Errorf("of the shared storage: %s", said)
	}
}
