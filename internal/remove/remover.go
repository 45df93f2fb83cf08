// Package remove takes VMs away, and their volumes, until nothing of them is left: the destroy of a VM in state, the
// rollback of a create, what a dead create left. It acts only on what is proven to be ours, looks anew before each step,
// and names what it could not remove.
package remove

import (
	"context"
	"fmt"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove/usage"
)

// Shell is what only root on a node can do; package host provides it over SSH. A nil Shell means that no SSH is
// configured.
type Shell interface {
	// Unlock takes the configuration lock away (qm unlock).
	Unlock(ctx context.Context, node string, vmid int) error
	// FreeVolume removes a volume by its id (pvesm free). A volume that does not exist is no error.
	FreeVolume(ctx context.Context, node, volume string) error
	// RemoveFile removes a file of the node by its path, if its SHA-256 is the one given. A file that does not exist is no error.
	RemoveFile(ctx context.Context, node, path, sha256 string) error
}

// Remover removes VMs of one cluster.
type Remover struct {
	api    *pve.Client
	clock  pve.Clock
	jobs   *job.Runner
	guests *guest.Guests
	shell  Shell
	// What destroys that are under way at the same time ask alike is asked once.
	surveyor    *usage.Surveyor
	replication *job.Shared[[]pve.ReplicationJob]
	storages    *job.SharedBy[string, []pve.Storage] // by node
}

// New makes a Remover. shell may be nil: no SSH.
func New(jobs *job.Runner, guests *guest.Guests, shell Shell) *Remover {
	order := &job.Order{}
	return &Remover{api: jobs.API, clock: jobs.Clock, jobs: jobs, guests: guests, shell: shell, surveyor: usage.New(jobs, order),
		replication: job.NewSharedIn[[]pve.ReplicationJob](order), storages: job.NewSharedBy[string, []pve.Storage](order)}
}

// MayBorrow is nil where a VM on a node may attach a volume that another VM holds for it, by a look at the guests made now. vmid is that
// VM, 0 if it is not there yet. ErrNotHeld and BorrowedError of package usage are what the look has shown; any other error is that it
// could not be looked.
func (s *Remover) MayBorrow(ctx context.Context, node string, vmid int, volume string) error {
	survey, err := s.usersNow(ctx, node, volume)
	if err != nil {
		return err
	}
	return survey.Borrow(volume, vmid)
}

// UsersOf are the guests but vmid that use a volume on a node, by a look made now. An identity that may not see all of them cannot
// tell, which is an error.
func (s *Remover) UsersOf(ctx context.Context, node string, vmid int, volume string) ([]usage.User, error) {
	survey, err := s.usersNow(ctx, node, volume)
	if err == nil && survey.Unseen != nil {
		err = fmt.Errorf("look who uses %s: %w", volume, survey.Unseen)
	}
	if err != nil {
		return nil, err
	}
	return survey.UsersOf(volume, vmid), nil
}

// usersNow looks at the guests that can use a volume on a node.
func (s *Remover) usersNow(ctx context.Context, node, volume string) (*usage.Survey, error) {
	resources, err := s.api.SharedResources(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the cluster's guests: %w", err)
	}
	survey, err := s.surveyor.Since(ctx, s.surveyor.Ask(), scopeOf(resources, node, []string{volume}))
	if err != nil {
		return nil, fmt.Errorf("look who uses %s: %w", volume, err)
	}
	return survey, nil
}

// together does several things at the same time, and gives the first of them that failed in the order given.
func together(ctx context.Context, all ...func(context.Context) error) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, do := range all {
		group.Go(func() { errs[i] = do(ctx) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
