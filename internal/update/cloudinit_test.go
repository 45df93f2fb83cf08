package update

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestCloudInitDriveThatOthersUse: PVE frees a cloud-init drive with the option, even if another guest has it.
func TestCloudInitDriveThatOthersUse(t *testing.T) {
	for _, shared := range []bool{true, false} {
		w := newWorld(t, pve.Params{"ide2": "local-zfs:cloudinit"})
		const drive = "local-zfs:vm-400-cloudinit"
		if shared {
			all := w.sim.World()
			all.Lock()
			all.Guests[600] = &state.Guest{VMID: 600, Type: "qemu", Node: "pve1",
				Config: map[string]string{"memory": "512", "ide0": drive + ",media=cdrom"}}
			all.Unlock()
		}
		r := w.request()
		r.Planned.CloudInit = vm.CloudInit{}
		_, _, err := w.update(r)
		if shared != (err != nil) || shared && !strings.Contains(err.Error(), "VM 600") {
			t.Errorf("used by another %t: %v", shared, err)
		}
		if kept := slices.Contains(w.everyVolume(), drive); kept != shared || (w.config()["ide2"] != "") != shared {
			t.Errorf("used by another %t: drive %t, config %v", shared, kept, w.config())
		}
		if shared && len(w.writes()) > 0 {
			t.Errorf("sent %v", w.writes())
		}
	}
}
