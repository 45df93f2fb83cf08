package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
)

// names are snapshots by VM and name: when each was taken.
type names struct {
	mu      sync.Mutex
	inState map[string]int64
	awaited map[string]int64
	follows map[string]string // removals that wait, and the snapshot in the way of each
}

func newNames() names {
	return names{inState: map[string]int64{}, awaited: map[string]int64{}, follows: map[string]string{}}
}

func nameOf(vmid int, name string) string { return fmt.Sprintf("%d/%s", vmid, name) }

// InState notes a snapshot that an object in state has.
func (s *Snapshots) InState(vmid int, name string, taken int64) {
	s.names.note(s.names.inState, vmid, name, taken)
}

func (n *names) note(in map[string]int64, vmid int, name string, taken int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	in[nameOf(vmid, name)] = taken
}

func (n *names) has(in map[string]int64, vmid int, found *pve.Snapshot) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return found.Taken != 0 && in[nameOf(vmid, found.Name)] == found.Taken
}

const (
	// stateTime is how long a removal waits until Terraform shows the object that has the name of the new snapshot.
	stateTime = time.Minute
	// removalTime is how long a create waits for the removal of the snapshot in its way.
	removalTime = 5 * time.Minute
)

// InTheWay is a snapshot that has the name of one that is to replace another. The zero value is none.
type InTheWay struct {
	VMID  int    `json:"vmid"`
	Node  string `json:"node"`
	Name  string `json:"name"`
	Taken int64  `json:"taken"`
	// Known: an object in state has it. It may stay all the same.
	Known bool `json:"known"`
	// Says is for the plan of one that may be a third party's.
	Says *guest.FieldError `json:"-"`
}

// MayFollow waits, before the old snapshot goes, until the one in the way of the new one is gone: that one may be
// released, or its removal may fail. Of snapshots that swap their names, one goes first. Terraform shows an apply the
// state of an object when its turn comes.
func (s *Snapshots) MayFollow(ctx context.Context, old Ref, way InTheWay) error {
	at := old.VM
	if way.VMID != at.VMID {
		at = guest.Ref{VMID: way.VMID, Node: way.Node}
	}
	defer s.names.follow(old, way)()
	for since, try := s.jobs.Clock.Now(), 1; ; try++ {
		seen, err := s.look(ctx, at)
		i := slices.IndexFunc(seen.all, func(found pve.Snapshot) bool {
			return found.Name == way.Name && found.Taken == way.Taken
		})
		switch {
		case errors.Is(err, ErrGone) || err == nil && i < 0:
			return nil
		case err != nil:
			return err
		case s.names.isRing(old):
			s.names.note(s.names.awaited, way.VMID, way.Name, way.Taken)
			return nil
		}
		limit := stateTime
		if way.Known || s.names.has(s.names.inState, way.VMID, &seen.all[i]) {
			limit = removalTime
		}
		if pve.Elapsed(since, s.jobs.Clock.Now()) > limit {
			refused := errTaken(way.VMID, seen.node, &seen.all[i])
			refused.Detail = "A new snapshot was to get this name. Nothing was touched: the old one was not removed. Where " +
				"an object in state has the name and goes, Terraform did not come to it in time (-parallelism), or it was " +
				"not removed: apply again"
			return refused
		}
		if err := s.jobs.Pause(ctx, try); err != nil {
			return err
		}
	}
}

// follow notes that a removal waits for the one of the snapshot in its way, until the returned function is called.
func (n *names) follow(old Ref, way InTheWay) (end func()) {
	own := nameOf(old.VM.VMID, old.Name)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.follows[own] = nameOf(way.VMID, way.Name)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.follows, own)
	}
}

// isRing reports whether the removals that wait for one another end at the first: no other object has its name.
func (n *names) isRing(old Ref) bool {
	own := nameOf(old.VM.VMID, old.Name)
	n.mu.Lock()
	defer n.mu.Unlock()
	next := n.follows[own]
	for range n.follows {
		if next == own {
			return true
		}
		next = n.follows[next]
	}
	return false
}

// inTheWay is the snapshot that has the wanted name and is not this one; nil for none.
func (t *taking) inTheWay(ctx context.Context) (*pve.Snapshot, error) {
	all, err := t.api.QEMU(t.node, t.want.VMID).Snapshots(ctx)
	i := slices.IndexFunc(all, func(found pve.Snapshot) bool {
		return found.Name == t.want.Name && !t.mark.isOn(found.Description)
	})
	if err != nil || i < 0 {
		return nil, err
	}
	return &all[i], nil
}

// lookAtName refuses a name that is taken: a snapshot of that name is not this one. It waits for one that goes.
func (t *taking) lookAtName(ctx context.Context) error {
	for since, try := t.jobs.Clock.Now(), 1; ; try++ {
		found, err := t.inTheWay(ctx)
		if err != nil || found == nil {
			return err
		}
		isAwaited := t.names.has(t.names.awaited, t.want.VMID, found)
		if refused := errTaken(t.want.VMID, t.node, found); !isAwaited {
			if !isMarked(found.Description) {
				refused.Summary += fmt.Sprintf(", or take that one over: its import id is %d/%s", t.want.VMID, found.Name)
			}
			return refused
		} else if pve.Elapsed(since, t.jobs.Clock.Now()) > removalTime {
			refused.Detail = "Its removal is part of this apply, and may come after this create where Terraform does few " +
				"things at a time (-parallelism). Apply again"
			return refused
		}
		if err := t.jobs.Pause(ctx, try); err != nil {
			return err
		}
	}
}

// foreseeName looks for a snapshot that has the wanted name. One that goes in the same apply is in no way. It may
// be in state without a sign of it so far, so no import is advised. On another VM that is no usual case: refused.
func (t *taking) foreseeName(ctx context.Context, old Ref) (way InTheWay, err error) {
	found, err := t.inTheWay(ctx)
	if err != nil || found == nil {
		return InTheWay{}, err
	}
	says := errTaken(t.want.VMID, t.node, found)
	isKnown := t.names.has(t.names.inState, t.want.VMID, found)
	if !isKnown && t.want.VMID != old.VM.VMID {
		return InTheWay{}, says
	}
	says.Detail = "Where another object in state has it, and lets go of it in the same apply, the new snapshot waits " +
		"for that. Otherwise the apply refuses the change, and leaves the old snapshot"
	return InTheWay{VMID: t.want.VMID, Node: t.node, Name: found.Name, Taken: found.Taken, Says: says, Known: isKnown}, nil
}

func errTaken(vmid int, node string, found *pve.Snapshot) *guest.FieldError {
	text := fmt.Sprintf("VM %d on node %s has a snapshot %s already, taken at %s", vmid, node, found.Name,
		moment(found.Taken))
	if isMarked(found.Description) {
		text = fmt.Sprintf("%s by a run of Terraform that is at work, or was killed. If no task is at work "+
			"on the VM, %s as root on node %s removes it", text,
			shell.Or(removal(vmid, found.Name), "a command that you write yourself"), node)
	} else {
		text += ". Take another name"
	}
	return &guest.FieldError{Path: "name", Summary: text}
}
