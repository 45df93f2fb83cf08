// Package guard sends every request that destroys something, or that removes what protects it. Each request takes
// evidence, which only a fresh look at the server can make: the target is ours, no other guest uses its volumes, and no
// live task holds it. docs/design/destroy.md lists the requests and their senders.
package guard

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Shell does what only root on a node can do; package ssh implements it. A nil Shell means that no SSH is configured.
type Shell interface {
	// Hold calls do when a command can be run on the node, which may be busy for long. The commands in do do not wait.
	Hold(ctx context.Context, node string, do func(context.Context) error) error
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
	// bases are the images with a backing file, by their storage.
	bases request.Recent[[]pve.Volume]
}

// New makes a Guard. shell may be nil: no SSH. It shares the reader of volume use with package destroy, so that
// operations which run at the same time read the guests once. exclusive are the shared storages that no other cluster
// uses.
func New(jobs *request.Runner, guests *guest.Guests, use *volumeuse.Reader, shell Shell, exclusive []string) *Guard {
	return &Guard{api: jobs.API, clock: jobs.Clock, jobs: jobs, guests: guests, shell: shell, use: use,
		exclusive: exclusive, bases: request.Recent[[]pve.Volume]{Life: basesLife}}
}

// HasShell reports whether SSH is configured.
func (g *Guard) HasShell() bool { return g.shell != nil }

// Places reads what the storages are, to compare volumes by.
func (g *Guard) Places(ctx context.Context) (volumeuse.Places, error) { return g.use.Places(ctx) }
