package change

import (
	"context"
	"maps"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// bound applies a change to the configuration as it was read. A lock that came since then changes the digest too, and PVE
// compares that before it looks at the lock (qemu-server API2/Qemu.pm update_vm_api): where nothing but a lock came, or came
// and went, nobody has changed anything.
func (u *update) bound(ctx context.Context, change vm.Change) error {
	for attempt := 0; ; attempt++ {
		err := u.s.jobs.Apply(ctx, &u.ledger, u.node, u.vmid, change, u.config.Digest)
		if !pve.IsKind(err, pve.DigestMismatch) || attempt == 2 {
			return err
		}
		ref := u.r.Ref
		ref.Node = u.node
		node, now, lookErr := u.s.guests.Unlocked(ctx, ref)
		if pve.IsKind(lookErr, pve.Locked) {
			return lookErr
		}
		if lookErr != nil || node != u.node || !sameButLock(u.config, now) {
			return err
		}
		u.config = now
	}
}

// sameButLock tells whether two readings of a configuration differ in nothing but its lock.
func sameButLock(a, b pve.PendingConfig) bool {
	less := func(values map[string]string) map[string]string {
		values = maps.Clone(values)
		delete(values, "lock")
		return values
	}
	return maps.Equal(less(a.Current()), less(b.Current())) && maps.Equal(less(a.Merged()), less(b.Merged()))
}
