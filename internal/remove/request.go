package remove

import (
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// Request destroys a VM, or retries what an earlier create or delete left.
type Request struct {
	Ref  guest.Ref    // with the Proof that the create returned, if it failed
	Left []tx.Residue // remembered residues
	Pool string       // that state knows the VM to be in
	// ForceStop allows a hard stop when the guest does not shut down in StopTimeout (zero: three minutes).
	ForceStop   bool
	StopTimeout time.Duration
	// KeepReferences leaves the VM's entries in backup and replication jobs and in HA; PVE refuses to destroy a VM that
	// HA or a replication job names (qemu-server API2/Qemu.pm destroy_vm).
	KeepReferences bool
}
