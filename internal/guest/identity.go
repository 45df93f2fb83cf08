package guest

import (
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// HalfDestroyed is the error for a VM of which a destroy that died has left only a lock.
func HalfDestroyed(ref Ref, node string, err error) error {
	text := fmt.Sprintf("VM %d on node %s is half destroyed: all that is left of its configuration is the lock of a destroy, so nothing proves that it is the VM in state. "+
		"It was not touched. If no task is at work on it, `qm unlock %d && qm destroy %d --purge` as root on node %s removes it; "+
		"volumes that are left over then show in `pvesm list STORAGE --vmid %d`", ref.VMID, node, ref.VMID, ref.VMID, node, ref.VMID)
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return fmt.Errorf("%s", text)
}

// IsStub reports whether all that is left of a configuration is the lock of a destroy that died, or is at work: PVE puts it
// in the configuration's place before it takes the VM out of pools, jobs and HA (qemu-server API2/Qemu.pm destroy_vm).
func IsStub(config map[string]string) bool {
	return config["lock"] == "destroyed" && IdentityOf(config).IsZero()
}

// IdentityOf reads what tells a VM from a later one with the same id.
func IdentityOf(config map[string]string) Identity {
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

// Proves reports whether a configuration carries this uuid, which PVE gives to one VM only. The creation time proves
// nothing: clones have their template's.
func (i Identity) Proves(config map[string]string) bool {
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

// Guard is the check before every read, change and removal of a VM in state.
func Guard(ref Ref, node string, config map[string]string) error {
	seen := IdentityOf(config)
	if ref.Identity.IsZero() || ref.Identity.Matches(seen) {
		return nil
	}
	if IsStub(config) {
		return HalfDestroyed(ref, node, nil)
	}
	return &IdentityError{VMID: ref.VMID, Node: node, State: ref.Identity, Seen: seen}
}

// IsOwnLock reports whether a lock is one that a dead worker of ours leaves.
func IsOwnLock(lock string) bool { return lock == "create" || lock == "clone" || lock == "destroyed" }

// HalfMade reports whether a configuration is what a dead worker leaves: locked, or, when the lock was taken away since,
// without the options that PVE writes into every VM that it finishes (qemu-server API2/Qemu.pm, smbios1 and meta).
func HalfMade(config map[string]string) bool {
	return IsOwnLock(config["lock"]) || config["lock"] == "" && config["smbios1"] == "" && config["meta"] == ""
}

// Identity tells one VM from another that later got the same id: the SMBIOS uuid, else the creation time in meta.
type Identity struct {
	UUID  string `json:"uuid,omitempty"`
	CTime string `json:"ctime,omitempty"`
}
