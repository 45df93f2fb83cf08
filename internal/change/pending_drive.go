package change

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// twoDrives refuses a second cloud-init drive beside one that a running guest has not let go of.
func (u *update) twoDrives(slot string) *guest.FieldError {
	return &guest.FieldError{Path: "cloud_init.slot", Summary: fmt.Sprintf("The cloud-init drive of VM %d cannot leave %s while the VM runs", u.vmid, slot),
		Detail: "PVE detaches it at the next stop only, and takes no second cloud-init drive before. Stop the VM, then apply"}
}

// oneDrive finds a cloud-init drive whose removal waits for the guest's stop, where one in another slot is wanted.
func (u *update) oneDrive() error {
	wanted, has := u.r.Planned.CloudInit.Slot, vm.Decode(u.config.Current()).CloudInit.Slot
	if _, made := u.change.Set[wanted]; made && has != "" && has != wanted && slices.Contains(u.config.Waiting(), has) {
		return u.twoDrives(has)
	}
	return nil
}

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
