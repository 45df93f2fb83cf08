// Package planning plans a VM: it completes the values, derives the consequences of changes, and refuses or warns
// before the apply.
package planning

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/run"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// Planning is the plan of one VM in the making: what it is made from, and how far it is. Its three ways are create,
// update and destroy; their steps are in the other files of this package.
type Planning struct {
	Server
	model.Values
	Config  model.Configuration // as it is written
	State   tftypes.Value       // before; null for a VM that is to be made
	Prior   model.Model         // the state
	private model.PrivateState
	out     kit.PrivateWriter // where the next step of Terraform finds what this one notes

	volumes   *volumeNames  // what the volumes that the configuration names mean
	Value     tftypes.Value // what is planned
	Plan      model.Model   // the same, as far as it is known
	changed   bool          // the plan differs from the state
	forgotten []string      // devices that leave the state and stay on the server
	doubtful  []string      // values that stay since nothing tells any more whether they were configured
	before    model.Model   // the state without what is no difference to the server
	after     model.Model   // the plan, likewise
	replace   path.Paths    // what cannot change in place
	restarts  bool          // the apply restarts the VM, as far as the plan can know
	unheard   bool          // Terraform shows no error of this plan
	left      bool          // what the server says of the new VM is left to its create
	diags     diag.Diagnostics
}

// creating reports whether the VM is to be made.
func (p *Planning) creating() bool { return p.State.IsNull() }

// refuse is the error of a change that cannot be made.
func (p *Planning) refuse(at path.Path, why string) {
	p.diags.AddAttributeError(at, "Cannot change "+p.Prior.Thing(), why)
}

// managed reports whether the configuration of the last create or update set an attribute.
func (p *Planning) managed(at string) bool { return p.private.Managed[at] }

// volumeNames is what the volumes that a configuration names mean for a VM in state.
//
// A volume that the VM has, detached or in another slot that gives it up, is attached. A name that is not where the
// disk is any more, since the disk has moved to another storage, was converted or migrated, says where it was: it
// changes nothing.
type volumeNames struct {
	*Planning
	attached map[string]string // volumes by the slot that gets them
	borrowed map[string]bool   // volumes that another VM holds for this one
	held     *guest.Holdings
	asked    bool
	now      *preflight.InForce // what decides whether a change restarts the guest, once it was asked for
}

// Machines is what the resource needs of package service.
type Machines interface {
	Create(ctx context.Context, r create.Request) (create.Created, error)
	Read(ctx context.Context, ref guest.Ref) (guest.Guest, guest.Presence, error)
	UsesOf(ctx context.Context, p *guest.Proof, node string) ([]ownership.Task, error)
	SnapshotsOf(ctx context.Context, ref guest.Ref) (map[string]int64, error)
	Recheck(ctx context.Context, ref guest.Ref, left []saga.Residue) ([]saga.Residue, error)
	Update(ctx context.Context, r update.Request) (guest.Guest, []guest.Warning, error)
	Delete(ctx context.Context, r destroy.Request) ([]saga.Residue, []guest.Warning, error)
	Adopt(ctx context.Context, node string, vmid int) (guest.Guest, error)
	AdoptListed(ctx context.Context, listed pve.Resource) (guest.Guest, error)
	Check(ctx context.Context, r preflight.Request) preflight.Findings
	Place(ctx context.Context, nodes []string) string
	CloneSource(ctx context.Context, clone *guest.Clone) (guest.Source, error)
	BackupGone(ctx context.Context, node, archive string) bool
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
