// Package provision puts together what packages job, guest, remove, create, change, preflight and orphan do with the VMs of one cluster.
package provision

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/orphan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// Service creates, reads, changes, adopts and deletes VMs of one cluster.
type Service struct {
	*job.Runner
	*guest.Guests
	*remove.Remover
	*create.Creator
	*change.Changer
	*preflight.Checker
	Orphans *orphan.Finder
}

// New makes a Service. shell and clock may be nil: no SSH, the real clock.
func New(api *pve.Client, shell remove.Shell, clock pve.Clock) *Service {
	jobs := job.New(api, clock)
	guests := guest.New(jobs)
	remover := remove.New(jobs, guests, shell)
	return &Service{Runner: jobs, Guests: guests, Remover: remover, Creator: create.New(jobs, guests, remover),
		Changer: change.New(jobs, guests, remover), Checker: preflight.New(jobs, guests),
		Orphans: orphan.New(jobs, guests)}
}
