package create

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// What a dead create left is nobody's, whatever name and id it has, so nobody may ever ask for it again. Each process looks once, in the
// listing that its work has fetched, for what may be such a VM, and takes it back.

// sweeping is that look. It is done beside the first request of Terraform about a VM, which ends when it has ended: afterwards the provider
// may be stopped.
type sweeping struct {
	mu    sync.Mutex
	begun bool
	busy  int             // requests of Terraform under way
	known map[int]bool    // VMIDs that a state has, or a create is to have
	names map[string]bool // of VMs in state; false for those of VMs that are to be made
}

// Attended is a VM that a request of Terraform is about.
type Attended struct {
	VMID int    // 0 for none yet
	Name string // "" for none
	// Wanted: it is to be made. Whoever makes it looks himself at what is left under its id and its name.
	Wanted bool
}

// Sweep accompanies a request of Terraform. The first one in this process looks for what dead creates left meanwhile, and end returns what
// there is to be said of that.
func (s *Creator) Sweep(ctx context.Context, about Attended) (end func() []guest.Warning) {
	w := &s.sweeping
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.begun
	w.begun, w.known[about.VMID] = true, true
	if inState, there := w.names[about.Name]; about.Name != "" && (!there || inState) {
		w.names[about.Name] = !about.Wanted
	}
	w.busy++
	said := make(chan []guest.Warning, 1)
	if first {
		go func() { said <- s.sweep(ctx) }()
	}
	return func() []guest.Warning {
		w.mu.Lock()
		w.busy--
		w.mu.Unlock()
		if !first {
			return nil
		}
		return <-said
	}
}

// isQuiet reports whether no request of Terraform is under way.
func (w *sweeping) isQuiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy == 0
}

// isWanted reports whether a VM of that name is to be made.
func (w *sweeping) isWanted(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	inState, there := w.names[name]
	return there && !inState
}

// suspects are the virtual machines of a listing that may be what a create left which was killed, and are in no state here: those without a
// name, which are also all of the last ten seconds, those with the name that PVE gives to a clone without one (qemu-server API2/Qemu.pm,
// clone_vm), and those of a name that is in state.
func (w *sweeping) suspects(resources pve.Resources) (found []pve.Resource) {
	unnamed := map[int]bool{}
	for _, g := range resources.Unnamed() {
		unnamed[g.VMID] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range resources.Guests() {
		if g.Type == "qemu" && g.Lock == "" && !w.known[g.VMID] &&
			(unnamed[g.VMID] || strings.HasPrefix(g.Name, "Copy-of-VM-") || w.names[g.Name]) {
			found = append(found, g)
		}
	}
	return found
}

// sweep takes back what the listing shows that may be left of creates. What is in state is refreshed meanwhile, and is looked at by nobody
// else: each look is a request.
func (s *Creator) sweep(ctx context.Context) (warnings []guest.Warning) {
	const patience = 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resources, _, err := s.api.RecentResources(ctx)
	if err != nil {
		return nil // whose work needs it says so
	}
	for calm := 0; calm < 3 && len(s.suspects(resources)) > 0; {
		if s.jobs.Clock.Sleep(ctx, 50*time.Millisecond) != nil {
			return nil
		}
		if calm++; !s.sweeping.isQuiet() {
			calm = 0
		}
	}
	for _, listed := range s.suspects(resources) {
		warnings = append(warnings, s.takeBack(ctx, resources, listed)...)
	}
	return warnings
}

// suspects are those of the listing that no create here has made.
func (s *Creator) suspects(resources pve.Resources) []pve.Resource {
	return slices.DeleteFunc(s.sweeping.suspects(resources), func(g pve.Resource) bool { return s.made(g.VMID) })
}

// takeBack takes a VM away that a dead create of this identity left, and says so. A VM of anybody else is nobody's business here, nor is
// one whose run may live, or whose name a create is about to ask for.
func (s *Creator) takeBack(ctx context.Context, resources pve.Resources, listed pve.Resource) []guest.Warning {
	u := unfinished{listed: listed}
	var config pve.GuestConfig
	u.mark, config, u.stamped = s.guests.Unfinished(ctx, resources, listed)
	u.config, u.digest = config.Values, config.Digest
	if ctx.Err() != nil || !u.stamped || !s.guests.IsOurs(u.mark) || s.sweeping.isWanted(u.config["name"]) {
		return nil
	}
	vm := fmt.Sprintf("VM %d", listed.VMID)
	if name := u.config["name"]; name != "" {
		vm += " (" + name + ")"
	}
	v, err := s.judge(ctx, resources, u)
	if err == nil && !v.Dead {
		return nil
	}
	if err == nil {
		err = s.removeDead(ctx, resources, u, "", nil)
	}
	var complete *completeError
	switch {
	case err == nil:
		return []guest.Warning{{Summary: vm + " was taken back",
			Detail: fmt.Sprintf("A run of this provider that began it on node %s (transaction %s) is over, and had not finished it: %s. It was "+
				"removed, and nothing of it is left", listed.Node, u.mark.TX, v.Seen)}}
	case errors.As(err, &complete):
		return []guest.Warning{{Summary: complete.summary(), Detail: complete.detail()}}
	case errors.Is(err, remove.ErrChanged), ctx.Err() != nil:
		return nil
	}
	return []guest.Warning{{Summary: vm + " is left of a run that was killed, and was not removed",
		Detail: fmt.Sprintf("A run of this provider began it on node %s (transaction %s) and has not finished it. proxmox_orphans shows what is "+
			"left, with the commands that remove it\n\n%v", listed.Node, u.mark.TX, err)}}
}
