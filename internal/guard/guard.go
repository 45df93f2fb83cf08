// Package guard sends every request that destroys something, or that removes what protects it. Each request takes
// evidence, which only a fresh look at the server can make: the target is ours, no other guest uses its volumes, and no
// live task holds it. docs/design/destroy.md lists the requests and their senders.
package guard

import (
	"context"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Shell does what only root on a node can do; package ssh implements it. A nil Shell means that no SSH is configured.
type Shell interface {
	// Unlock takes the configuration lock away (qm unlock).
	Unlock(ctx context.Context, node string, vmid int) error
	// FreeVolume removes a volume by its id (pvesm free). A missing volume is no error.
	FreeVolume(ctx context.Context, node, volume string) error
	// RemoveFile removes a file of the node by its path if it has this SHA-256. A missing file is no error.
	RemoveFile(ctx context.Context, node, path, sha256 string) error
}

// Guard makes evidence and sends the destructive requests of one cluster.
type Guard struct {
	api    *pve.Client
	clock  pve.Clock
	jobs   *request.Runner
	guests *guest.Guests
	shell  Shell
	use    *volumeuse.Reader
	// exclusive are the shared storages that no other cluster uses.
	exclusive []string
}

// New makes a Guard. shell may be nil: no SSH. It shares the reader of volume use with package destroy, so that
// operations which run at the same time read the guests once. exclusive are the shared storages that no other cluster
// uses.
func New(jobs *request.Runner, guests *guest.Guests, use *volumeuse.Reader, shell Shell, exclusive []string) *Guard {
	return &Guard{api: jobs.API, clock: jobs.Clock, jobs: jobs, guests: guests, shell: shell, use: use,
		exclusive: exclusive}
}

// HasShell reports whether SSH is configured.
func (g *Guard) HasShell() bool { return g.shell != nil }

// MayBorrow returns nil if a VM on a node may attach a volume that another VM holds for it, by a fresh look at the
// guests. vmid is that VM, or 0 if it does not exist yet. ErrNotHeld and BorrowedError of package volumeuse are
// results of the look; any other error means that the look failed.
func (g *Guard) MayBorrow(ctx context.Context, node string, vmid int, volume string) error {
	use, err := useNow(ctx, g, node, volume)
	if err != nil {
		return err
	}
	holder, _ := use.Holder(volume)
	runs := holder.Guest.Status == "running"
	if runs && holder.Guest.Type == "qemu" { // the listing is up to ten seconds old
		now, err := g.api.QEMU(holder.Guest.Node, holder.Guest.VMID).Status(ctx)
		if err != nil {
			return err
		}
		runs = now.IsRunning()
	}
	return use.Borrow(volume, vmid, runs)
}

// UsersOf returns the guests other than vmid that use a volume on a node, by a fresh look. It is an error if this
// identity may not see all guests.
func (g *Guard) UsersOf(ctx context.Context, node string, vmid int, volume string) ([]volumeuse.User, error) {
	use, err := useNow(ctx, g, node, volume)
	if err == nil && use.Unseen != nil {
		err = fmt.Errorf("look who uses %s: %w", volume, use.Unseen)
	}
	if err != nil {
		return nil, err
	}
	return use.UsersOf(volume, vmid), nil
}

// Places reads what the storages are, to compare volumes by.
func (g *Guard) Places(ctx context.Context) (volumeuse.Places, error) { return g.use.Places(ctx) }

// useNow reads the guests that can use a volume on a node.
func useNow(ctx context.Context, g *Guard, node, volume string) (*volumeuse.Use, error) {
	resources, err := g.api.Listing().Shared(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the cluster's guests: %w", err)
	}
	scope, err := g.use.Scope(ctx, resources, node, []string{volume})
	if err != nil {
		return nil, err
	}
	use, err := g.use.Since(ctx, g.use.Ask(), scope)
	if err == nil {
		use, err = g.use.Confirm(ctx, use, 0, volume)
	}
	if err != nil {
		return nil, fmt.Errorf("look who uses %s: %w", volume, err)
	}
	return use, nil
}
