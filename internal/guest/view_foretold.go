package guest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Written is a change that PVE has made of the configuration as it was read.
type Written struct {
	view   *View
	change vm.Change
	read   pve.PendingConfig
	began  time.Time
}

// Foretold is the configuration after the change, if a running guest leaves all of it to its next start, and the status
// shows that this one ran at the time: the process is older than the change. Such a process also proves that the VM is
// still the one whose digest PVE compared, since PVE neither destroys a running VM nor restores over one (qemu-server
// API2/Qemu.pm destroy_vm, create_vm), and a roll-back ends its process. Values are as they were sent, and the digest
// is not known.
func (w *Written) Foretold(status pve.GuestStatus) (config pve.PendingConfig, ok bool) {
	since := pve.Elapsed(w.began, w.view.jobs.Clock.Now())
	const margin = time.Second // two clocks measure it
	if !w.Waits() || !status.IsRunning() || since < 0 ||
		time.Duration(status.Uptime)*time.Second <= since+margin {
		return pve.PendingConfig{}, false
	}
	w.view.proved = true
	return w.read.WithWaiting(w.change.Set, w.change.Delete), true
}

// Waits reports whether a running guest leaves all of the change to its next start.
func (w *Written) Waits() bool {
	before := w.read.Current()
	after := w.read.With(w.change.Set, w.change.Delete).Current()
	waits := vm.NeedsRestart(vm.Decode(before), vm.Decode(after))
	for _, option := range slices.Concat(slices.Collect(maps.Keys(w.change.Set)), w.change.Delete) {
		if !slices.Contains(waits, option) || vm.IsSlot(option) || option == "smbios1" {
			return false
		}
	}
	return len(w.change.DeleteFirst) == 0 && len(w.read.Waiting()) == 0
}

// isImmediate reports whether all of a change is in force once PVE has taken it, and nothing else is by that. With any
// request PVE puts in force whatever waits on a stopped guest (qemu-server API2/Qemu.pm update_vm_api, QemuServer.pm
// vmconfig_apply_pending).
func isImmediate(c vm.Change, read pve.PendingConfig) bool {
	for option, value := range c.Set {
		if !vm.IsImmediate(option) || value == "" || strings.TrimSpace(value) != value {
			return false
		}
	}
	waits := slices.ContainsFunc(c.Delete, func(option string) bool { return !vm.IsImmediate(option) })
	return !waits && len(c.DeleteFirst) == 0 && len(read.Waiting()) == 0
}

// disturbed is the error for an option that a third party has changed meanwhile.
func disturbed(vmid int, option string) error {
	return &pve.Error{Op: fmt.Sprintf("change VM %d", vmid), Kind: pve.DigestMismatch,
		Message: option + " was changed by a third party since it was read, and is left as it is"}
}

// sameOption reports whether an option is the same in two readings, in force and as it waits.
func sameOption(option string, a, b pve.PendingConfig) bool {
	return a.Current()[option] == b.Current()[option] && a.Merged()[option] == b.Merged()[option]
}

// sameButLock reports whether two readings of a configuration differ in nothing but its lock.
func sameButLock(a, b pve.PendingConfig) bool {
	less := func(values map[string]string) map[string]string {
		values = maps.Clone(values)
		delete(values, "lock")
		return values
	}
	return maps.Equal(less(a.Current()), less(b.Current())) && maps.Equal(less(a.Merged()), less(b.Merged()))
}
