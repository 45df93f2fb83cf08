package provision

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Shell is what only root on a node can do; package host provides it over SSH. A nil Shell means that no SSH is
// configured.
type Shell interface {
	// Unlock takes the configuration lock away (qm unlock).
	Unlock(ctx context.Context, node string, vmid int) error
	// FreeVolume removes a volume by its id (pvesm free). A volume that does not exist is no error.
	FreeVolume(ctx context.Context, node, volume string) error
}

// Service creates, reads, changes, adopts and deletes VMs of one cluster.
type Service struct {
	api   *pve.Client
	shell Shell
	clock pve.Clock
}

// New makes a Service. shell and clock may be nil: no SSH, the real clock.
func New(api *pve.Client, shell Shell, clock pve.Clock) *Service {
	if clock == nil {
		clock = realClock{}
	}
	return &Service{api: api, shell: shell, clock: clock}
}
