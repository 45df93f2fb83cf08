package tfvm

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Run is what one provider process has seen of a configuration while it refreshed and planned. Terraform shows a provider
// one resource at a time, and some checks against the server are wrong without the others. A nil Run has seen nothing.
type Run struct {
	mu        sync.Mutex
	refreshed map[int]bool
	planned   []plannedVM
	failed    map[int]failedVM
	held      map[int][]string
	acting    atomic.Bool
}

// NewRun begins one.
func NewRun() *Run {
	return &Run{refreshed: map[int]bool{}, failed: map[int]failedVM{}, held: map[int][]string{}}
}

// act notes that the apply has begun: Terraform plans each change once more in it.
func (r *Run) act() {
	if r != nil {
		r.acting.Store(true)
	}
}

func (r *Run) acts() bool { return r != nil && r.acting.Load() }

// plannedVM is a VM that a plan is going to make.
type plannedVM struct {
	VMID int // 0 = not known yet
	Name string
	Tags []string
}

// noteRefreshed notes that the VM with this id is in state.
func (r *Run) noteRefreshed(vmid int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refreshed[vmid] = true
}

// wasRefreshed reports whether the VM with this id was refreshed before. A plan that creates it anew replaces it, so the id
// is not a stranger's. Terraform plans the replacement of a tainted resource without its prior state.
func (r *Run) wasRefreshed(vmid int) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refreshed[vmid]
}

// noteFailed notes what is known of a VM that was refreshed and of which a failed create or destroy left something.
func (r *Run) noteFailed(vmid int, what failedVM) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed[vmid] = what
}

// allFailed is what noteFailed noted, by VMID.
func (r *Run) allFailed() map[int]failedVM {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.failed)
}

// noteHeld notes the volumes of a VM that was refreshed.
func (r *Run) noteHeld(vmid int, disks map[string]vm.Disk) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range disks {
		r.held[vmid] = append(r.held[vmid], d.Volume)
	}
}

// heldBy are the volumes that noteHeld noted.
func (r *Run) heldBy(vmid int) []string {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held[vmid]
}

// notePlanned notes a VM that is planned. What depends on it is planned later, and will not find it on the server yet.
func (r *Run) notePlanned(vm plannedVM) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.planned = append(r.planned, vm)
}

// isPlanned reports whether a VM is planned that has this id, or this name, or all of these tags; zero values match
// nothing.
func (r *Run) isPlanned(like plannedVM) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.planned, func(vm plannedVM) bool {
		return like.VMID != 0 && like.VMID == vm.VMID || like.Name != "" && like.Name == vm.Name || hasTags(vm.Tags, like.Tags)
	})
}

// hasTags reports whether all has every one of some tags; PVE does not tell upper from lower case in them.
func hasTags(all, some []string) bool {
	return len(some) > 0 && !slices.ContainsFunc(some, func(tag string) bool {
		return !slices.ContainsFunc(all, func(other string) bool { return strings.EqualFold(tag, other) })
	})
}

// failedVM is what the destroy of a tainted VM must know and Terraform does not hand it: it plans the replacement as that of
// a new VM, without state and private state, and gives the destroy what that plan wrote. So the plan passes on what the
// refresh before it, in the same process, has seen. The VMID in state tells which is meant.
type failedVM struct {
	Identity guest.Identity
	Residues []tx.Residue
	Proof    *guest.Proof
}
