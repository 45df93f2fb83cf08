// Package change takes a VM in place from what state says to what the plan says: exactly what differs is sent, in the order
// of a table of steps. There is no undo: what was done stays, and the guest that is returned says so. It creates no VM and
// removes none.
package change

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
)

// Changer changes VMs of one cluster.
type Changer struct {
	api     *pve.Client
	clock   pve.Clock
	jobs    *job.Runner
	guests  *guest.Guests
	remover *remove.Remover
}

// New makes a Changer.
func New(jobs *job.Runner, guests *guest.Guests, remover *remove.Remover) *Changer {
	return &Changer{api: jobs.API, clock: jobs.Clock, jobs: jobs, guests: guests, remover: remover}
}
