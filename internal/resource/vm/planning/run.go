package planning

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snapshot"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Run is what one provider process has seen of a configuration while it refreshed and planned. Terraform shows a
// provider one resource at a time, and some checks against the server are wrong without the others.
type Run struct {
	acting  atomic.Bool
	mu      sync.Mutex
	planned []PlannedVM
	vms     map[int]*seenVM
	// open are the VMs of notShown
	open      map[int]*refreshedVM
	shown     map[shownKey]shownVM
	growing   map[string]bool // ids of volumes
	copies    []newCopy
	leaving   []leaving
	sources   map[sourceKey]*sourceRead
	refreshes int // the VMs that were refreshed
}

// seenVM is what a run has seen of a VM.
type seenVM struct {
	inState  bool
	gone     bool // and a refresh has found that it is not there any more
	changing bool // the configuration changes, replaces or destroys it
	// becomes is what it is after the plan, where that changes it in place
	becomes snapshot.Until
	shown   bool // Terraform has shown its state to a plan, so it is not tainted
	told    bool // the plan tells of its disks that go with it
	named   bool // and of its jobs and settings, where they were looked for
	asleep  bool // its guest was suspended to disk when it was refreshed
	// former are names by which its disks were attached, and that they do not have any more
	former    []string
	lost      map[string]lostDisk // by slot
	snapshots map[string]int64    // those that a proxmox_vm_snapshot removes
	snapped   bool                // a proxmox_vm_snapshot takes one
	rules     map[string]bool     // the ids of each proxmox_ha_rule that names it
	clones    []destroy.LinkedClone
}

// refreshedVM is not changed once it is noted: the plans of many new VMs share it.
type refreshedVM struct {
	at    int // its place among the refreshes
	name  string
	knows model.FailedVM
	goes  destroy.Request // its destroy, should it be tainted
}

type shownVM struct {
	vmid      int64
	thing     string
	protected bool
	taken     []volumeuse.Taken
}

// shownKey is that by which the second plan of a replacement knows the VM that is replaced: it has the private state of
// that one, and not its state. The create that left a leftover may not have seen its identity.
type shownKey struct {
	identity guest.Identity
	leftover int // VMID
}

func keyOf(private model.PrivateState) shownKey {
	key := shownKey{identity: private.Identity}
	if private.Proof != nil {
		key.leftover = private.Proof.VMID
	}
	return key
}

// isKnown reports whether it tells a VM from others: an old one that has no identity is like any such.
func (k shownKey) isKnown() bool { return k.leftover != 0 || !k.identity.IsZero() }

// NewRun begins one.
func NewRun() *Run {
	return &Run{vms: map[int]*seenVM{}, open: map[int]*refreshedVM{}, shown: map[shownKey]shownVM{},
		growing: map[string]bool{}, sources: map[sourceKey]*sourceRead{}}
}

// of is what the run has seen of a VM, for a holder of mu.
func (r *Run) of(vmid int) *seenVM {
	if r.vms[vmid] == nil {
		r.vms[vmid] = &seenVM{}
	}
	return r.vms[vmid]
}

// note changes what the run has seen of a VM.
func (r *Run) note(vmid int, change func(*seenVM)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r.of(vmid))
}

// seen is what the run has seen of a VM by now.
func (r *Run) seen(vmid int) seenVM {
	r.mu.Lock()
	defer r.mu.Unlock()
	if vm := r.vms[vmid]; vm != nil {
		return *vm
	}
	return seenVM{}
}

// Act notes that the apply has begun: Terraform plans each change once more in it.
func (r *Run) Act() {
	r.acting.Store(true)
}

func (r *Run) acts() bool { return r.acting.Load() }

// PlannedVM is a VM that a plan is going to make.
type PlannedVM struct {
	VMID int // 0 = not known yet
	Name string
	Tags []string

	Pool string
	// Spec is what it is to be; nil: not all of that is known, or it comes from a source of its own.
	Spec *vm.Spec
}

// NoteInState notes that the VM with this id is in state.
func (r *Run) NoteInState(vmid int) { r.note(vmid, func(vm *seenVM) { vm.inState = true }) }

// NoteGone notes that a refresh has found nothing of the VM with this id, which has left the state. No destroy of this
// run accounts for the volumes that are left under the id.
func (r *Run) NoteGone(vmid int) { r.note(vmid, func(vm *seenVM) { vm.gone = true }) }

// WasInState reports whether the VM with this id was in state. A plan that creates it again replaces it, so the id is
// not a third party's. Terraform plans the replacement of a tainted resource without its prior state.
func (r *Run) WasInState(vmid int) bool { return r.seen(vmid).inState }

// NoteRefreshed notes what is known of a VM that was refreshed, should it be tainted. Terraform plans a VM right after
// its refresh.
func (r *Run) NoteRefreshed(name string, what model.FailedVM, goes destroy.Request) {
	vmid := goes.Ref.VMID
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshes++
	if delete(r.open, vmid); !r.of(vmid).shown || what.IsFailed() {
		r.open[vmid] = &refreshedVM{r.refreshes, name, what, goes}
	}
}

// noteShown notes that Terraform has shown the state of a VM to a plan, so that it is not tainted.
func (r *Run) noteShown(vm shownVM, key shownKey) {
	r.note(int(vm.vmid), func(seen *seenVM) {
		seen.shown = true
		if open := r.open[int(vm.vmid)]; open != nil && !open.knows.IsFailed() {
			delete(r.open, int(vm.vmid))
		}
		if key.isKnown() {
			r.shown[key] = vm
		}
	})
}

// shownAs is the VM of a key that was shown.
func (r *Run) shownAs(key shownKey) (shownVM, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	vm, ok := r.shown[key]
	return vm, ok
}

// isFirstToTell reports whether nothing was told yet of a VM's disks that go with it.
func (r *Run) isFirstToTell(vmid int64) (first bool) {
	r.note(int(vmid), func(vm *seenVM) { first, vm.told = !vm.told, true })
	return first
}

// isFirstToName reports whether the run looks for the first time for the jobs and settings of a VM that may be tainted.
func (r *Run) isFirstToName(vmid int64) (first bool) {
	r.note(int(vmid), func(vm *seenVM) { first, vm.named = !vm.named, true })
	return first
}

// failed are those of some VMs of which a failed create or destroy left something.
func failed(vms map[int]*refreshedVM) map[int]model.FailedVM {
	all := map[int]model.FailedVM{}
	for vmid, vm := range vms {
		if vm.knows.IsFailed() {
			all[vmid] = vm.knows
		}
	}
	return all
}

// notShown are the refreshed VMs whose state no plan was shown, and those that have failed, by VMID.
func (r *Run) notShown() map[int]*refreshedVM {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.open)
}

// NoteFormer notes former names of the disks of a VM in state.
func (r *Run) NoteFormer(vmid int, names []string) {
	r.note(vmid, func(vm *seenVM) { vm.former = append(vm.former, names...) })
}

// NotePlanned notes a VM that is planned. Resources that depend on it are planned later, and will not find it on the
// server yet.
func (r *Run) NotePlanned(vm PlannedVM) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.planned = append(r.planned, vm)
}

// Planned is the last planned VM that has this id, or this name, or all of these tags, if there is one; zero values
// match nothing.
func (r *Run) Planned(like PlannedVM) (found PlannedVM, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, vm := range slices.Backward(r.planned) {
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

// mostPassed is how many VMs a plan passes on that need not be the one which it replaces. That one was refreshed right
// before its plan, with hardly more than Terraform's parallelism in between. Without a limit the plan of a thousand
// tainted VMs would hold a million of them.
const mostPassed = 64

// passFailed writes what is known of VMs in state into the plan of a new VM, for the destroy of a tainted one: of those
// that have failed, and of those that this one may replace. Terraform does not tell which that is, if any, and name and
// id of the new one may be others: it is one of mayGo, which no plan was shown when this one began, nor is at its end.
// A VM that is not tainted is shown right after its refresh.
func (r *Run) passFailed(ctx context.Context, p *Planning, mayGo map[int]*refreshedVM) {
	pass := failed(mayGo)
	if (cloning{p}).replaces() { // the destroy is handed all
		refusals{p}.refuseUntold()
	} else {
		maps.DeleteFunc(mayGo, func(vmid int, _ *refreshedVM) bool { return r.seen(vmid).shown })
		for _, vmid := range slices.Sorted(maps.Keys(mayGo)) {
			warnings{p}.warnDisksOf(int64(vmid), model.Thing(int64(vmid), "", ""), mayGo[vmid].knows.Added,
				"The plan shows none of them. Where it replaces this VM, since that is tainted, they are destroyed with it")
		}
		for _, vmid := range replaceable(p, mayGo) {
			pass[vmid] = mayGo[vmid].knows
			warnings{p}.warnUnshown(ctx, mayGo[vmid].goes)
		}
	}
	if len(pass) > 0 {
		p.diags.Append(kit.Note[map[int]model.FailedVM](model.KeyFailed).Write(ctx, p.out, pass)...)
	}
}

// replaceable are the VMs of some that a new one may replace: that of its id and name, or else those of its id or its
// name, and the last ones that were refreshed.
func replaceable(p *Planning, vms map[int]*refreshedVM) []int {
	named, name, id := p.Config.At("name").IsKnown(), model.Value(p.Plan.Name), int(model.Value(p.Plan.VMID))
	if same, ok := vms[id]; ok && named && same.name == name {
		return []int{id}
	}
	latest := slices.SortedFunc(maps.Keys(vms), func(a, b int) int { return vms[b].at - vms[a].at })
	var all []int
	for i, vmid := range latest {
		if i < mostPassed || vmid == id || named && vms[vmid].name == name {
			all = append(all, vmid)
		}
	}
	return all
}

// sourceKey is a source of clones on one cluster.
type sourceKey struct {
	session *kit.Session
	named   string
}

// sourceRead is one reading of a source; the holder of the turn may read and write it.
type sourceRead struct {
	turn   chan struct{}
	known  bool
	source guest.Source
	values string // see valuesOf
}

// source reads what a clone is copied of, once for the whole run. Those who want the same one meanwhile wait for it. An
// error is the answer of its own caller only.
func (r *Run) source(ctx context.Context, session *kit.Session, how *guest.Clone,
	read func(context.Context, *guest.Clone) (guest.Source, error)) (guest.Source, error) {
	key := keyOfSource(session, how)
	r.mu.Lock()
	one := r.sources[key]
	if one == nil {
		one = &sourceRead{turn: make(chan struct{}, 1)}
		r.sources[key] = one
	}
	r.mu.Unlock()
	select {
	case one.turn <- struct{}{}:
		defer func() { <-one.turn }()
	case <-ctx.Done():
		return guest.Source{}, ctx.Err()
	}
	if one.known {
		return one.source, nil
	}
	var err error
	one.source, err = read(ctx, how)
	if one.known = err == nil; one.known {
		one.values = valuesOf(ctx, one.source, how)
	}
	return one.source, err
}

// NoteGrowing notes that a plan grows a volume that a VM may have as well: the disk of a proxmox_disk.
func (r *Run) NoteGrowing(volume string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.growing[volume] = true
}

// grows reports whether NoteGrowing noted a volume.
func (r *Run) grows(volume string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.growing[volume]
}
