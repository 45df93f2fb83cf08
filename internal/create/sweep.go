package create

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// No create may ever ask again for the VMID or the name of a VM that a dead create left. So each process searches once
// for such VMs, in the listing that its work has fetched, and takes them back.

// sweeping is the search for what dead creates left. It runs beside the first request of Terraform about a VM, which
// ends when the search has ended: afterwards Terraform may stop the provider.
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
	// Wanted says that it is to be made. Its create itself looks for leftovers under its VMID and its name.
	Wanted bool
}

// Sweep accompanies a request of Terraform. The first one in this process searches meanwhile for what dead creates
// left, and end returns the warnings about that.
func (c *Creator) Sweep(ctx context.Context, about Attended) (end func() []guest.Warning) {
	w := &c.sweeping
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
		go func() { said <- c.sweep(ctx) }()
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
func (s *sweeping) isQuiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy == 0
}

// isWanted reports whether a VM of that name is to be made.
func (s *sweeping) isWanted(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	inState, there := s.names[name]
	return there && !inState
}

// suspects are the listed VMs that a killed create may have left and that are in no state here: those without a name,
// which includes all of the last ten seconds; those with the name that PVE gives to a clone without one (qemu-server
// API2/Qemu.pm, clone_vm); and those with a name that is in state.
func (s *sweeping) suspects(resources pve.Resources) (found []pve.Resource) {
	unnamed := map[int]bool{}
	for _, g := range resources.Unnamed() {
		unnamed[g.VMID] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range resources.Guests() {
		if g.Type == "qemu" && g.Lock == "" && !s.known[g.VMID] &&
			(unnamed[g.VMID] || strings.HasPrefix(g.Name, "Copy-of-VM-") || s.names[g.Name]) {
			found = append(found, g)
		}
	}
	return found
}

// sweep takes back the listed VMs that dead creates may have left. VMs in state are refreshed meanwhile and are not
// read here: each read is a request.
func (c *Creator) sweep(ctx context.Context) (warnings []guest.Warning) {
	const patience = 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resources, _, err := c.api.Listing().Recent(ctx)
	if err != nil {
		return nil // the request that needs the listing reports the error
	}
	for calm := 0; calm < 3 && len(c.suspects(resources)) > 0; {
		if c.jobs.Clock.Sleep(ctx, 50*time.Millisecond) != nil {
			return nil
		}
		if calm++; !c.sweeping.isQuiet() {
			calm = 0
		}
	}
	for _, listed := range c.suspects(resources) {
		warnings = append(warnings, c.takeBack(ctx, resources, listed)...)
	}
	return warnings
}

// suspects are those of the listing that no create of this process has made.
func (c *Creator) suspects(resources pve.Resources) []pve.Resource {
	return slices.DeleteFunc(c.sweeping.suspects(resources), func(g pve.Resource) bool { return c.made(g.VMID) })
}

// takeBack removes a VM that a dead create of this identity left, and says so. It leaves alone VMs of other identities,
// VMs whose run may live, and VMs whose name a create is about to ask for.
func (c *Creator) takeBack(ctx context.Context, resources pve.Resources, listed pve.Resource) []guest.Warning {
	u := unfinished{listed: listed}
	var config pve.GuestConfig
	u.mark, config, u.marked = c.guests.Unfinished(ctx, resources, listed)
	u.config, u.digest = config.Values, config.Digest
	if ctx.Err() != nil || !u.marked || !c.guests.IsOurs(u.mark) || c.sweeping.isWanted(u.config["name"]) {
		return nil
	}
	vm := fmt.Sprintf("VM %d", listed.VMID)
	if name := u.config["name"]; name != "" {
		vm += " (" + name + ")"
	}
	v, err := c.judge(ctx, resources, u)
	if err == nil && !v.Dead {
		return nil
	}
	if err == nil {
		err = c.removeDead(ctx, resources, u, "", nil)
	}
	var complete *completeError
	switch {
	case err == nil:
		return []guest.Warning{{Summary: vm + " was taken back",
			Detail: fmt.Sprintf("A run of this provider that began it on node %s (transaction %s) is over, and had not "+
				"finished it: %s. It was removed, and nothing of it is left", listed.Node, u.mark.Saga, v.Seen)}}
	case errors.As(err, &complete):
		return []guest.Warning{{Summary: complete.summary(), Detail: complete.detail()}}
	case errors.Is(err, guard.ErrChanged), ctx.Err() != nil:
		return nil
	}
	return []guest.Warning{{Summary: vm + " is left of a run that was killed, and was not removed",
		Detail: fmt.Sprintf("A run of this provider began it on node %s (transaction %s) and has not finished it. "+
			"proxmox_orphans shows what is "+
			"left, with the commands that remove it\n\n%v", listed.Node, u.mark.Saga, err)}}
}
