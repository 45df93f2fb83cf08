// Package service puts together what the packages below it do with the VMs, disks, snapshots and files of one cluster.
package service

import (
	"context"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/disk"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/harule"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/orphan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snapshot"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
)

// Service creates, reads, changes, adopts and deletes VMs of one cluster.
type Service struct {
	*request.Runner
	*guest.Guests
	*destroy.Destroyer
	*create.Creator
	*update.Changer
	*preflight.Checker
	// Orphans finds objects without an owner, and OrphanDeleter removes one of them.
	OrphanDeleter *orphan.Deleter
	Orphans       *orphan.Finder
	Snapshots     *snapshot.Snapshots
	Power         *power.Switch
	Files         *file.Files
	Disks         *disk.Disks
	HARules       *harule.Rules
}

// Shell is what is done on the nodes over SSH.
type Shell interface {
	guard.Shell
	create.Hasher
	file.Shell
	request.Root
	diskimport.Shell
}

// New makes a Service. shell and clock may be nil: no SSH, the real clock. exclusive are the shared storages that no
// other cluster uses.
func New(api *pve.Client, shell Shell, clock pve.Clock, exclusive ...string) *Service {
	jobs := request.New(api, clock)
	guests := guest.New(jobs)
	var removing guard.Shell // nil, and no interface of nothing
	var hasher create.Hasher
	var files file.Shell
	var reach diskimport.Shell
	if shell != nil {
		removing, hasher, files, jobs.Root, reach = shell, shell, shell, shell, shell
	}
	sources := diskimport.New(api.Reader(), reach)
	remover := destroy.New(jobs, guests, removing, exclusive...)
	orphans := orphan.New(jobs, guests, exclusive...)
	creator, changer := create.New(jobs, guests, remover, sources, hasher), update.New(jobs, guests, remover, sources)
	return &Service{Runner: jobs, Guests: guests, Destroyer: remover, Creator: creator, Changer: changer,
		Disks:   disk.New(jobs, guests, remover, creator, changer),
		Checker: preflight.New(jobs, guests, sources, remover.Guard, exclusive...),
		Orphans: orphans, OrphanDeleter: orphan.NewDeleter(orphans, remover),
		Snapshots: snapshot.New(jobs, guests, remover.Guard),
		HARules:   harule.New(jobs, remover.Guard),
		Power:     power.New(jobs, guests, remover.Guard), Files: file.New(jobs, remover.Guard, files)}
}

// CheckAlias returns a *guard.AliasError if a volume that a VM is to get is one that it has under another name.
func (s *Service) CheckAlias(ctx context.Context, node string, vmid int, volume string, held guest.Holdings) error {
	return guard.CheckAlias(ctx, s.Guard, node, vmid, volume, held)
}

// CutOff is guest.CutOff.
func (s *Service) CutOff(ctx context.Context, node string, vmid int) pve.Task {
	return guest.CutOff(ctx, s.Guests, node, vmid)
}
