// Package planning plans a VM: it completes the values, derives the consequences of changes, and refuses or warns
// before the apply.
package planning

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/run"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/source"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Planning is the plan of one VM in the making: the change, and how far its plan is. Its three ways are create, update
// and destroy; their steps are in the other files of this package.
type Planning struct {
	Server
	change.Change
	out     kit.PrivateWriter // where the next step of Terraform finds what this one notes
	volumes *volumeNames      // what the volumes that the configuration names mean
	changed bool              // the plan differs from the state
	replace path.Paths        // what cannot change in place
	unheard bool              // Terraform shows no error of this plan
	left    bool              // what the server says of the new VM is left to its create
}

// volumeNames is what the volumes that a configuration names mean for a VM in state.
//
// A volume that the VM has, detached or in another slot that gives it up, is attached. A name that is not where the
// disk is any more, since the disk has moved to another storage, was converted or migrated, says where it was: it
// changes nothing.
type volumeNames struct {
	*Planning
	borrowed map[string]bool // volumes that another VM holds for this one
	held     *guest.Holdings
	asked    bool
}

// Machines is what a plan needs of package service.
type Machines interface {
	source.Server
	UsesOf(ctx context.Context, p *guest.Proof, node string) ([]ownership.Task, error)
	CutOff(ctx context.Context, node string, vmid int) pve.Task
	SnapshotsOf(ctx context.Context, ref guest.Ref) (map[string]int64, error)
	Check(ctx context.Context, r preflight.Request) preflight.Findings
	Place(ctx context.Context, nodes []string) string
	Holdings(ctx context.Context, ref guest.Ref, sized, named []string) (guest.Holdings, error)
	HoldingsListed(ctx context.Context, vmid int, beside string, named []string) (held guest.Holdings, there bool,
		err error)
	Places(ctx context.Context) (volumeuse.Places, error)
	CheckAlias(ctx context.Context, node string, vmid int, volume string, held guest.Holdings) error
	InForce(ctx context.Context, node string, vmid int, waits bool) (preflight.InForce, error)
	ReadFirewall(ctx context.Context, node string, vmid int) (*firewall.Settings, error)
	IsHeld(ctx context.Context, node string, vmid int, volume string) error
	TakesAlong(ctx context.Context, r destroy.Request) destroy.Along
	LinkedClones(ctx context.Context, node string, bases []string) ([]destroy.LinkedClone, error)
}

// Server is what a plan asks: the server, and what this run of the provider has seen.
type Server struct {
	Session  *kit.Session
	Machines Machines // nil while the provider's configuration is not known
	Run      *run.Notes
}

// facts asks the server for package change.
type facts struct {
	*Planning
	now *preflight.InForce
}

// InForce asks once.
func (f *facts) InForce(ctx context.Context) (preflight.InForce, error) {
	if f.now != nil {
		return *f.now, nil
	}
	waits := len(f.Prior.PendingChanges) > 0
	now, err := f.Machines.InForce(ctx, model.Value(f.Prior.Node), int(model.Value(f.Prior.VMID)), waits)
	if err == nil {
		f.now = &now
	}
	return now, err
}

// IsShared asks for the storages of the cluster.
func (f *facts) IsShared(ctx context.Context, storage string) (bool, error) {
	places, err := f.Machines.Places(ctx)
	return err == nil && places.IsShared(storage), err
}

// LooseSize asks for the volumes of the VM on the storage.
func (f *facts) LooseSize(ctx context.Context, volume string) (size int64, isLoose bool) {
	held, err := f.Machines.Holdings(ctx, f.Prior.Ref(f.Private), nil, []string{volume})
	size, isLoose = held.Loose[volume]
	return size, isLoose && err == nil
}

// Firewall asks for the rules and options that the VM has.
func (f *facts) Firewall(ctx context.Context) (*firewall.Settings, error) {
	return f.Machines.ReadFirewall(ctx, model.Value(f.Prior.Node), int(model.Value(f.Prior.VMID)))
}
