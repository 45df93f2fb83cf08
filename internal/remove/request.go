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
	// ForceStop has PVE stop the guest hard when it does not shut down in StopTimeout (zero: three minutes), and one that is paused.
	// GracefulOnly forbids a hard stop. With neither a guest that was asked and did not obey is stopped hard, with a warning.
	ForceStop, GracefulOnly bool

	StopTimeout time.Duration
	// KeepReferences leaves the VM's entries in backup and replication jobs and in HA; PVE refuses to destroy a VM that
	// HA or a replication job names (qemu-server API2/Qemu.pm destroy_vm).
	KeepReferences bool
}
