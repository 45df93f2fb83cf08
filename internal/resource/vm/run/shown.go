package run

import (
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Terraform shows no plan the state of a tainted VM. So the refreshed VMs that no plan was shown are those that may be
// tainted, and that the plan of a new VM may replace.

// Refreshed is a VM that was refreshed. It is not changed once it is noted: the plans of many new VMs share it.
type Refreshed struct {
	at    int // its place among the refreshes
	Name  string
	Knows model.FailedVM
	Goes  destroy.Request // its destroy, should it be tainted
}

// ShownVM is a VM whose state Terraform has shown to a plan.
type ShownVM struct {
	VMID      int64
	Thing     string
	Protected bool
	Taken     []volumeuse.Taken
}

// ShownKey is that by which the second plan of a replacement knows the VM that is replaced: it has the private state of
// that one, and not its state. The create that left a leftover may not have seen its identity.
type ShownKey struct {
	identity guest.Identity
	leftover int // VMID
}

// KeyOf is the key of a VM.
func KeyOf(private model.PrivateState) ShownKey {
	key := ShownKey{identity: private.Identity}
	if private.Proof != nil {
		key.leftover = private.Proof.VMID
	}
	return key
}

// isKnown reports whether it tells a VM from others: an old one that has no identity is like any such.
func (k ShownKey) isKnown() bool { return k.leftover != 0 || !k.identity.IsZero() }

// NoteRefreshed notes what is known of a VM that was refreshed, should it be tainted. Terraform plans a VM right after
// its refresh.
func (n *Notes) NoteRefreshed(name string, knows model.FailedVM, goes destroy.Request) {
	vmid := goes.Ref.VMID
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refreshes++
	if delete(n.open, vmid); !n.of(vmid).Shown || knows.IsFailed() {
		n.open[vmid] = &Refreshed{n.refreshes, name, knows, goes}
	}
}

// NoteShown notes that Terraform has shown the state of a VM to a plan, so that it is not tainted.
func (n *Notes) NoteShown(vm ShownVM, key ShownKey) {
	n.Note(int(vm.VMID), func(seen *VM) {
		seen.Shown = true
		if open := n.open[int(vm.VMID)]; open != nil && !open.Knows.IsFailed() {
			delete(n.open, int(vm.VMID))
		}
		if key.isKnown() {
			n.shown[key] = vm
		}
	})
}

// ShownAs is the VM of a key that was shown.
func (n *Notes) ShownAs(key ShownKey) (ShownVM, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	vm, ok := n.shown[key]
	return vm, ok
}

// NotShown are the refreshed VMs whose state no plan was shown, and those that have failed, by VMID.
func (n *Notes) NotShown() map[int]*Refreshed {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.open)
}

// mostPassed is how many VMs a plan passes on that need not be the one which it replaces. That one was refreshed right
// before its plan, with hardly more than Terraform's parallelism in between. Without a limit the plan of a thousand
// tainted VMs would hold a million of them.
const mostPassed = 64

// Replaceable are the VMs of some that a new one may replace: that of its id and name, or else those of its id or its
// name, and the last ones that were refreshed. named: its name is known.
func Replaceable(vms map[int]*Refreshed, id int, name string, named bool) []int {
	if same, ok := vms[id]; ok && named && same.Name == name {
		return []int{id}
	}
	latest := slices.SortedFunc(maps.Keys(vms), func(a, b int) int { return vms[b].at - vms[a].at })
	var all []int
	for i, vmid := range latest {
		if i < mostPassed || vmid == id || named && vms[vmid].Name == name {
			all = append(all, vmid)
		}
	}
	return all
}
