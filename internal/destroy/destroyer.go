// Package destroy removes VMs and their volumes until nothing of them is left: a VM in state, a create that is rolled
// back, and the VM of a dead create. It acts only on what is proven to be ours, looks again before each act, and
// names what it could not remove.
package destroy

import (
	"context"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Destroyer removes the VMs of one cluster. Through its guard it can also free what a VM that stays no longer needs.
type Destroyer struct {
	*guard.Guard
	*volumeuse.Loans
	api    *pve.Client
	clock  pve.Clock
	jobs   *request.Runner
	guests *guest.Guests
	// Destroys that run at the same time share the answers to these questions.
	use         *volumeuse.Reader
	replication *request.Shared[[]pve.ReplicationJob]
	backups     *request.Shared[[]pve.BackupJob]
	rules       *request.Shared[[]pve.HARule]
	storages    *request.SharedBy[string, []pve.Storage] // by node
}

// New makes a Destroyer. shell may be nil: no SSH. exclusive are the shared storages that no other cluster uses.
func New(jobs *request.Runner, guests *guest.Guests, shell guard.Shell, exclusive ...string) *Destroyer {
	order := &request.Order{}
	use := volumeuse.New(jobs, order)
	jobs.Written = use.Wrote
	return &Destroyer{Guard: guard.New(jobs, guests, use, shell, exclusive), Loans: volumeuse.NewLoans(use),
		api: jobs.API, clock: jobs.Clock, jobs: jobs,
		guests: guests,
		use:    use, replication: request.NewSharedIn[[]pve.ReplicationJob](order),
		backups:  request.NewSharedIn[[]pve.BackupJob](order),
		rules:    request.NewSharedIn[[]pve.HARule](order),
		storages: request.NewSharedBy[string, []pve.Storage](order)}
}

// together does several things at the same time. It returns the error of the first that failed, in the order given.
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
