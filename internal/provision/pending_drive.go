package provision

import (
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// keepDrive takes back the removal of a cloud-init drive that waits for the guest's stop, where a drive on the same storage
// is wanted in the same slot again. Its volume is still there and has the one name that a new one would get
// (qemu-server API2/Qemu.pm create_disks).
func keepDrive(change *vm.Change, current map[string]string) {
	for slot, value := range change.Set {
		file, _, _ := strings.Cut(value, ",")
		storage, isNew := strings.CutSuffix(file, ":cloudinit")
		has := vm.Decode(map[string]string{slot: current[slot]}).CloudInit
		if isNew && has.Slot == slot && has.Storage == storage && has.Volume != "" {
			change.Set[slot] = current[slot]
		}
	}
}
