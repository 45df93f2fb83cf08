package provision

import (
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// identityOf reads what tells a VM from a later one with the same id.
func identityOf(config map[string]string) Identity {
	return Identity{UUID: vm.UUID(config), CTime: vm.CTime(config)}
}

// IsZero reports whether there is nothing to compare.
func (i Identity) IsZero() bool { return i.UUID == "" && i.CTime == "" }

// Matches reports whether other can be the same VM. The uuid decides where both have one. The creation time decides only
// where a uuid is missing, since a clone inherits its template's (qemu-server API2/Qemu.pm keeps meta in clone_vm).
func (i Identity) Matches(other Identity) bool {
	if i.UUID != "" && other.UUID != "" {
		return i.UUID == other.UUID
	}
	return i.CTime != "" && i.CTime == other.CTime
}

// proves reports whether a configuration carries this uuid, which PVE gives to one VM only. The creation time proves
// nothing: clones have their template's.
func (i Identity) proves(config map[string]string) bool {
	return i.UUID != "" && i.UUID == vm.UUID(config)
}

// String is the uuid, or the creation time where there is none.
func (i Identity) String() string {
	if i.UUID != "" {
		return "uuid " + i.UUID
	}
	if i.CTime != "" {
		return "no uuid, created at " + i.CTime
	}
	return "no uuid"
}

// IdentityError says that the VM under an id is not the one in state: somebody destroyed ours and made another.
type IdentityError struct {
	VMID        int
	Node        string
	State, Seen Identity
}

// Error names both identities.
func (e *IdentityError) Error() string {
	return fmt.Sprintf("VM %d on node %s is not the VM in state: state has %s, the server has %s",
		e.VMID, e.Node, e.State, e.Seen)
}

// guard is the check before every read, change and removal of a VM in state.
func guard(ref Ref, node string, config map[string]string) error {
	seen := identityOf(config)
	if ref.Identity.IsZero() || ref.Identity.Matches(seen) {
		return nil
	}
	if isStub(config) {
		return halfDestroyed(ref, node, nil)
	}
	return &IdentityError{VMID: ref.VMID, Node: node, State: ref.Identity, Seen: seen}
}
