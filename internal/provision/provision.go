// Package provision is the old door to what packages job, guest, remove, create, change and preflight do: their types and
// one Service under the names from before they were parted. It is about to go; new code imports those packages.
package provision

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

//nolint:revive // each is documented where it is made
type (
	Address          = agent.Address
	AgentMemory      = agent.Memory
	Clone            = guest.Clone
	CreateRequest    = create.Request
	Created          = create.Created
	DeleteRequest    = remove.Request
	FieldError       = guest.FieldError
	Firewall         = guest.Firewall
	FirewallRule     = guest.FirewallRule
	Guest            = guest.Guest
	HA               = guest.HA
	Holdings         = guest.Holdings
	Identity         = guest.Identity
	IdentityError    = guest.IdentityError
	Interface        = agent.Interface
	InterruptedError = job.InterruptedError
	LockedError      = job.LockedError
	Moving           = preflight.Moving
	OnFailure        = create.OnFailure
	OnOrphans        = create.OnOrphans
	PlanRequest      = preflight.Request
	PowerState       = guest.PowerState
	Proof            = guest.Proof
	Ref              = guest.Ref
	Residue          = tx.Residue
	Restart          = change.Restart
	Seen             = guest.Seen
	Shell            = remove.Shell
	UpdateRequest    = change.Request
	Wait             = guest.Wait
	WaitError        = guest.WaitError
	Warning          = guest.Warning
)

// Rollback and the others are their constants.
const (
	Rollback          = create.Rollback
	Keep              = create.Keep
	FailOnOrphans     = create.FailOnOrphans
	DestroyOrphans    = create.DestroyOrphans
	Unmanaged         = guest.Unmanaged
	Running           = guest.Running
	Stopped           = guest.Stopped
	RestartGracefully = change.RestartGracefully
	RestartNever      = change.RestartNever
	RestartForcibly   = change.RestartForcibly
	Found             = guest.Found
	Gone              = guest.Gone
	Unknown           = guest.Unknown
)

// Service creates, reads, changes, adopts and deletes VMs of one cluster.
type Service struct {
	*job.Runner
	*guest.Guests
	*remove.Remover
	*create.Creator
	*change.Changer
	*preflight.Checker
}

// New makes a Service. shell and clock may be nil: no SSH, the real clock.
func New(api *pve.Client, shell Shell, clock pve.Clock) *Service {
	jobs := job.New(api, clock)
	guests := guest.New(jobs)
	remover := remove.New(jobs, guests, shell)
	return &Service{Runner: jobs, Guests: guests, Remover: remover, Creator: create.New(jobs, guests, remover),
		Changer: change.New(jobs, guests, remover), Checker: preflight.New(jobs, guests)}
}
