package planning

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
)

// Machines is what the resource needs of package service.
type Machines interface {
	Create(ctx context.Context, r create.Request) (create.Created, error)
	Read(ctx context.Context, ref guest.Ref) (guest.Guest, guest.Presence, error)
	Recheck(ctx context.Context, ref guest.Ref, left []saga.Residue) ([]saga.Residue, error)
	Update(ctx context.Context, r update.Request) (guest.Guest, []guest.Warning, error)
	Delete(ctx context.Context, r destroy.Request) ([]saga.Residue, []guest.Warning, error)
	Adopt(ctx context.Context, node string, vmid int) (guest.Guest, error)
	AdoptListed(ctx context.Context, listed pve.Resource) (guest.Guest, error)
	Check(ctx context.Context, r preflight.Request) preflight.Findings
	Place(ctx context.Context, nodes []string) string
	Holdings(ctx context.Context, ref guest.Ref, sized, named []string) (guest.Holdings, error)
	InForce(ctx context.Context, node string, vmid int, waits bool) (guest.InForce, error)
	MayBorrow(ctx context.Context, node string, vmid int, volume string) error
}

// Server is what a plan asks: the server, and what this run of the provider has seen.
type Server struct {
	Session  *kit.Session
	Machines Machines // nil while the provider's configuration is not known
	Run      *Run
}
