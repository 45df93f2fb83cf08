// Package provision puts together what the packages below it do with the VMs of one cluster: job, guest, remove, create, change,
// preflight, orphan, snapshot, power and disk, and package image with files.
package provision

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/disk"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/image"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/orphan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snapshot"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/snippet"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/source"
)

// Service creates, reads, changes, adopts and deletes VMs of one cluster.
type Service struct {
	*job.Runner
	*guest.Guests
	*remove.Remover
	*create.Creator
	*change.Changer
	*preflight.Checker
	// Orphans finds what nobody owns, and OrphanDeleter removes one item of it.
	OrphanDeleter *orphan.Deleter
	Orphans       *orphan.Finder
	Snapshots     *snapshot.Snapshots
	Power         *power.Switch
	Images        *image.Images
	Disks         *disk.Disks
	Snippets      *snippet.Snippets
}

// Shell is what is done on the nodes over SSH.
type Shell interface {
	remove.Shell
	create.Hasher
	snippet.Shell
	job.Root
}

// New makes a Service. shell and clock may be nil: no SSH, the real clock.
func New(api *pve.Client, shell Shell, clock pve.Clock) *Service {
	jobs := job.New(api, clock)
	guests := guest.New(jobs)
	var removing remove.Shell // nil, and no interface of nothing
	var hasher create.Hasher
	var files snippet.Shell
	if shell != nil {
		removing, hasher, files, jobs.Root = shell, shell, shell, shell
	}
	sources := source.New(api, shell != nil)
	remover := remove.New(jobs, guests, removing)
	orphans := orphan.New(jobs, guests)
	creator, changer := create.New(jobs, guests, remover, sources, hasher), change.New(jobs, guests, remover, sources)
	return &Service{Runner: jobs, Guests: guests, Remover: remover, Creator: creator, Changer: changer,
		Disks: disk.New(jobs, guests, remover, creator, changer), Checker: preflight.New(jobs, guests, sources),
		Orphans: orphans, OrphanDeleter: orphan.NewDeleter(orphans, remover), Snapshots: snapshot.New(jobs, guests, remover),
		Power: power.New(jobs, guests, remover), Images: image.New(jobs, remover),
		Snippets: snippet.New(jobs, remover, files)}
}
