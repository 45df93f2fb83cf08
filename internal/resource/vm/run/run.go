// Package run keeps the notes of one run: what this provider process has seen of a configuration while it refreshed and
// planned. It asks no server and judges no plan.
package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/source"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snapshot"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Notes are those of a run, which begins with the provider's configuration. Terraform shows a provider one resource at
// a time, and some checks against the server are wrong without the others.
type Notes struct {
	acting    atomic.Bool
	mu        sync.Mutex
	planned   []PlannedVM
	vms       map[int]*VM
	open      map[int]*Refreshed // the VMs of NotShown
	shown     map[ShownKey]ShownVM
	growing   map[string]bool // ids of volumes
	copies    []source.Copy
	leaving   []source.Leaving
	sources   map[string]*sourceRead
	refreshes int // the VMs that were refreshed
}

// VM is what a run has seen of a VM.
type VM struct {
	InState  bool // the id is not a third party's: a plan that creates the VM again replaces it
	Gone     bool // and a refresh has found that it is not there any more
	Changing bool // the configuration changes, replaces or destroys it, so what is read of it may not be so later
	// Becomes is what it is after the plan, where that changes it in place
	Becomes snapshot.Until
	Shown   bool // Terraform has shown its state to a plan, so it is not tainted
	told    bool // the plan tells of its disks that go with it
	named   bool // and of its jobs and settings, where they were looked for
	Asleep  bool // its guest was suspended to disk when it was refreshed
	// Former are names by which its disks were attached, and that they do not have any more
	Former []string
	Lost   map[string]model.LostDisk // by slot
	// Snapshots are those that a proxmox_vm_snapshot removes: when each was taken, by name. Another user may have taken
	// one of its name since.
	Snapshots map[string]int64
	Snapped   bool            // a proxmox_vm_snapshot takes one
	Rules     map[string]bool // the ids of each proxmox_ha_rule that names it
	Clones    []destroy.LinkedClone
}

// New begins the notes.
func New() *Notes {
	return &Notes{vms: map[int]*VM{}, open: map[int]*Refreshed{}, shown: map[ShownKey]ShownVM{},
		growing: map[string]bool{}, sources: map[string]*sourceRead{}}
}

// of is what the run has seen of a VM, for a holder of mu.
func (n *Notes) of(vmid int) *VM {
	if n.vms[vmid] == nil {
		n.vms[vmid] = &VM{}
	}
	return n.vms[vmid]
}

// Note changes what the run has seen of a VM.
func (n *Notes) Note(vmid int, change func(*VM)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n.of(vmid))
}

// Seen is what the run has seen of a VM by now.
func (n *Notes) Seen(vmid int) VM {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.vms[vmid] == nil {
		return VM{}
	}
	seen := *n.vms[vmid]
	seen.Snapshots, seen.Rules = maps.Clone(seen.Snapshots), maps.Clone(seen.Rules)
	return seen
}

// Act notes that the apply has begun: Terraform plans each change once more in it.
func (n *Notes) Act() { n.acting.Store(true) }

// Acts reports whether the apply has begun.
func (n *Notes) Acts() bool { return n.acting.Load() }

// NoteInState notes that the VM with this id is in state. Terraform plans the replacement of a tainted resource without
// its prior state.
func (n *Notes) NoteInState(vmid int) { n.Note(vmid, func(vm *VM) { vm.InState = true }) }

// NoteGone notes that a refresh has found nothing of the VM with this id, which has left the state. No destroy of this
// run accounts for the volumes that are left under the id.
func (n *Notes) NoteGone(vmid int) { n.Note(vmid, func(vm *VM) { vm.Gone = true }) }

// NoteAsleep notes of a VM that was refreshed whether its guest is suspended to disk.
func (n *Notes) NoteAsleep(vmid int, asleep bool) { n.Note(vmid, func(vm *VM) { vm.Asleep = asleep }) }

// NoteChanging notes that the configuration changes, replaces or destroys the VM with this id.
func (n *Notes) NoteChanging(vmid int) {
	n.Note(vmid, func(vm *VM) { vm.Changing, vm.Becomes = true, snapshot.Until{Another: true} })
}

// UntilSnapshot is what this run does to a VM before a snapshot of it is taken.
func (n *Notes) UntilSnapshot(vmid int) snapshot.Until {
	if _, made := n.Planned(PlannedVM{VMID: vmid}); made {
		return snapshot.Until{Another: true}
	}
	return n.Seen(vmid).Becomes
}

// NoteSnapshotGoes notes that a plan removes a snapshot. In a plan to destroy all, Terraform plans it before the VM, on
// which it depends. Of blocks that leave the configuration it plans either first (terraform internal/terraform,
// OrphanResourceInstanceTransformer): then the warning names the snapshot, and says that it may go by itself.
func (n *Notes) NoteSnapshotGoes(vmid int, name string, taken int64) {
	n.Note(vmid, func(vm *VM) {
		if vm.Snapshots == nil {
			vm.Snapshots = map[string]int64{}
		}
		vm.Snapshots[name] = taken
	})
}

// SnapshotsGo are those that NoteSnapshotGoes noted of a VM.
func (n *Notes) SnapshotsGo(vmid int) map[string]int64 { return n.Seen(vmid).Snapshots }

// NoteSnapshotComes notes that a plan takes a snapshot, which a clone may be made of.
func (n *Notes) NoteSnapshotComes(vmid int) { n.Note(vmid, func(vm *VM) { vm.Snapped = true }) }

// NoteRule notes an HA rule that is in state, and is on the server as the state has it or goes by this plan. The next
// plan tells of a VM that left it by its destroy.
func (n *Notes) NoteRule(id string, resources []string) {
	for _, sid := range resources {
		if vmid, err := strconv.Atoi(strings.TrimPrefix(sid, "vm:")); err == nil {
			n.Note(vmid, func(vm *VM) {
				if vm.Rules == nil {
					vm.Rules = map[string]bool{}
				}
				vm.Rules[id] = true
			})
		}
	}
}

// NoteFormer notes former names of the disks of a VM in state.
func (n *Notes) NoteFormer(vmid int, names []string) {
	n.Note(vmid, func(vm *VM) { vm.Former = append(vm.Former, names...) })
}

// NoteDisks notes former names of the disks of a VM in state, and which slots have lost theirs since the state was
// written.
func (n *Notes) NoteDisks(prior *model.Model, now guest.Guest) {
	n.NoteFormer(now.VMID, prior.FormerNames(func(slot string) string { return now.Spec.Disks[slot].Volume }))
	if lost := prior.LostDisks(now); len(lost) > 0 {
		n.Note(now.VMID, func(vm *VM) { vm.Lost = lost })
	}
}

// IsFirstToTell reports whether nothing was told yet of a VM's disks that go with it.
func (n *Notes) IsFirstToTell(vmid int64) (first bool) {
	n.Note(int(vmid), func(vm *VM) { first, vm.told = !vm.told, true })
	return first
}

// IsFirstToName reports whether the run looks for the first time for the jobs and settings of a VM that may be tainted.
func (n *Notes) IsFirstToName(vmid int64) (first bool) {
	n.Note(int(vmid), func(vm *VM) { first, vm.named = !vm.named, true })
	return first
}

// PlannedVM is a VM that a plan is going to make.
type PlannedVM struct {
	VMID int // 0 = not known yet
	Name string
	Tags []string

	Pool string
	// Spec is what it is to be; nil: not all of that is known, or it comes from a source of its own.
	Spec *vm.Spec
}

// NotePlanned notes a VM that is planned. Resources that depend on it are planned later, and will not find it on the
// server yet.
func (n *Notes) NotePlanned(vm PlannedVM) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.planned = append(n.planned, vm)
}

// Planned is the last planned VM that has this id, or this name, or all of these tags, if there is one; zero values
// match nothing.
func (n *Notes) Planned(like PlannedVM) (found PlannedVM, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, vm := range slices.Backward(n.planned) {
		if like.VMID != 0 && like.VMID == vm.VMID || like.Name != "" && like.Name == vm.Name ||
			hasTags(vm.Tags, like.Tags) {
			return vm, true
		}
	}
	return found, false
}

// hasTags reports whether all has every one of some tags; PVE does not tell upper from lower case in them.
func hasTags(all, some []string) bool {
	return len(some) > 0 && !slices.ContainsFunc(some, func(tag string) bool {
		return !slices.ContainsFunc(all, func(other string) bool { return strings.EqualFold(tag, other) })
	})
}

// NoteGrowing notes that a plan grows a volume that a VM may have as well: the disk of a proxmox_disk.
func (n *Notes) NoteGrowing(volume string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.growing[volume] = true
}

// Grows reports whether NoteGrowing noted a volume.
func (n *Notes) Grows(volume string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.growing[volume]
}

// NoteCopies notes the sources of one plan and the VM that leaves by it, and returns those of all plans of the run
// before it.
func (n *Notes) NoteCopies(c source.Copy, l *source.Leaving) ([]source.Copy, []source.Leaving) {
	n.mu.Lock()
	defer n.mu.Unlock()
	copies, leave := slices.Clip(n.copies), slices.Clip(n.leaving) // no copies: they are only appended to
	if len(c.Sources) > 0 || c.VMID != 0 || c.Name != "" {
		n.copies = append(n.copies, c)
	}
	if l != nil {
		n.leaving = append(n.leaving, *l)
	}
	return copies, leave
}

// sourceRead is one reading of a source; the holder of the turn may read and write it.
type sourceRead struct {
	turn   chan struct{}
	known  bool
	source guest.Source
	values string // see source.ValuesOf
}

// Source reads what a clone is copied of, once for the whole run, and makes a hash of its values. Those who want the
// same one meanwhile wait for it. An error is the answer of its own caller only.
func (n *Notes) Source(ctx context.Context, how *guest.Clone,
	read func(context.Context, *guest.Clone) (guest.Source, error)) (found guest.Source, values string, err error) {
	key := fmt.Sprintf("%d %q %q %q %q", how.VMID, how.Name, how.Tags, how.Node, how.Snapshot)
	n.mu.Lock()
	one := n.sources[key]
	if one == nil {
		one = &sourceRead{turn: make(chan struct{}, 1)}
		n.sources[key] = one
	}
	n.mu.Unlock()
	select {
	case one.turn <- struct{}{}:
		defer func() { <-one.turn }()
	case <-ctx.Done():
		return found, "", ctx.Err()
	}
	if one.known {
		return one.source, one.values, nil
	}
	one.source, err = read(ctx, how)
	if one.known = err == nil; one.known {
		one.values = source.ValuesOf(ctx, one.source, how)
	}
	return one.source, one.values, err
}
