package volumeuse

import (
	"fmt"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// Taken is a disk that a VM held for another one, and whose data that one has in a volume of its own id: a third party
// has moved the disk to another storage within the VM that had it attached (qemu-server API2/Qemu.pm move_vm_disk makes
// the volume for that VM, and frees the other whichever id it carries), or has restored that VM from a backup.
type Taken struct {
	VMID      int // that has the data now
	Node      string
	Slot      string
	Held, Own string // the volume that was attached, and the one that is in the slot now
	Entry     string // the unusedN of the VM that names the volume Held; "": none is known
}

// IsTaken reports whether a slot of a VM had a volume of another id, and has one of the VM's own now.
func IsTaken(vmid int, held, own string) bool {
	of, isHeld := volid.Owner(held)
	by, isOwn := volid.Owner(own)
	return isHeld && isOwn && of != vmid && by == vmid
}

// Summary says it in one line.
func (t Taken) Summary() string {
	of, _ := volid.Owner(t.Held)
	return fmt.Sprintf("%s of VM %d has the data of a disk that VM %d holds", t.Slot, t.VMID, of)
}

// Detail names both volumes and both ways out. PVE reassigns a detached disk of a running VM, too, to a VM of the same
// node, and renames its volume (API2/Qemu.pm load_and_check_reassign_configs, disk_reassignfn). The protection of the
// holder forbids to empty its slot, not to exchange what is in it (update_vm_api).
func (t Taken) Detail(untouched string) string {
	of, _ := volid.Owner(t.Held)
	holder := strconv.Itoa(of)
	back := shell.VM("qm disk move {vmid} unusedN --target-vmid {}", t.VMID, holder)
	put := shell.VM("qm set {vmid} --{} VOLUME,backup=0", of, vm.HolderSlot)
	drop := ""
	if t.Entry != "" {
		drop = fmt.Sprintf(", and then %s, which leaves %s to VM %d",
			shell.Or(shell.VM("qm set {vmid} --delete {}", t.VMID, t.Entry), "empty its "+t.Entry), t.Held, of)
	}
	return fmt.Sprintf("%s, a disk of proxmox_disk, was attached there. The slot has %s now, which carries the id of "+
		"VM %d and would be destroyed with it. Outside Terraform the disk was moved to another storage within that VM, or "+
		"the VM was restored: then this may be the only copy of the data. If instead the VM was rolled back, or a change of "+
		"the slot was reverted, it is a disk of the VM's own. Compare the contents first. %s, and neither is put in the "+
		"place of the other.\nTo give the data back to VM %d, stop VM %d, detach %s (in PVE's interface: Hardware, "+
		"Detach), and on node %s, where both VMs must be, run `%s`, with the entry that it has become, and `%s`, with the "+
		"name that it has in VM %d by then%s. Give the proxmox_disk the storage where it is now, or the next apply moves "+
		"it back.\nTo leave the data to VM %d, as a disk that is destroyed with it, give %s its storage and size in the "+
		"place of imported_disk; a tainted VM needs `terraform untaint` first.\nThen apply again",
		t.Held, t.Own, t.VMID, untouched, of, t.VMID, t.Slot, t.Node, back, put, of, drop, t.VMID, t.Slot)
}
