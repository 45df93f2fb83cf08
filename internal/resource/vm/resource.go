package vm

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog/interceptor"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/planning"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/run"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/validation"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/service"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
)

// Machines is what the resource needs of package service.
type Machines interface {
	planning.Machines
	Create(ctx context.Context, r create.Request) (create.Created, error)
	Read(ctx context.Context, ref guest.Ref) (guest.Guest, guest.Presence, error)
	OffNodes(ctx context.Context, nodes []string) (off []string, known bool)
	Recheck(ctx context.Context, ref guest.Ref, left []saga.Residue) ([]saga.Residue, error)
	Update(ctx context.Context, r update.Request) (guest.Guest, []guest.Warning, error)
	Delete(ctx context.Context, r destroy.Request) ([]saga.Residue, []guest.Warning, error)
	Adopt(ctx context.Context, node string, vmid int) (guest.Guest, error)
	AdoptListed(ctx context.Context, listed pve.Resource) (guest.Guest, error)
}

// Resource is proxmox_vm.
type Resource struct {
	kit.ResourceBase
	machines Machines // nil while the provider's configuration is not known
	run      *run.Notes
}

var (
	_ resource.ResourceWithConfigure      = &Resource{}
	_ resource.ResourceWithIdentity       = &Resource{}
	_ resource.ResourceWithImportState    = &Resource{}
	_ resource.ResourceWithModifyPlan     = &Resource{}
	_ resource.ResourceWithMoveState      = &Resource{}
	_ resource.ResourceWithValidateConfig = &Resource{}
	_ Machines                            = &service.Service{}
)

// New makes the resource, for one run of the provider.
func New(run *run.Notes) *Resource { return &Resource{run: run} }

// Metadata names the resource.
func (r *Resource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_vm"
}

// Schema is the shape of the configuration.
func (r *Resource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = model.SchemaValues().Schema
}

// Configure takes the session of the configured provider.
func (r *Resource) Configure(ctx context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.ResourceBase.Configure(ctx, req, resp)
	if r.Session.Known() {
		r.machines = r.Session.VMs
	}
}

// maskPassword keeps a password out of the log, should PVE repeat it.
func maskPassword(ctx context.Context, password *string) context.Context {
	if model.Value(password) == "" {
		return ctx
	}
	return interceptor.Mask(ctx, *password)
}

func (r *Resource) server() planning.Server {
	return planning.Server{Session: r.Session, Machines: r.machines, Run: r.run}
}

// InState notes a VM that a state file has (package fastpath).
func (r *Resource) InState(stored []byte) {
	var object struct {
		VMID int `json:"vmid"`
	}
	if json.Unmarshal(stored, &object) == nil && object.VMID != 0 {
		r.run.NoteInState(object.VMID)
	}
}

// PrivateKeys are what a VM notes in private state (package fastpath).
func (r *Resource) PrivateKeys() []string {
	return []string{model.KeyManaged, model.KeyIdentity, model.KeyResidues, model.KeyProof, model.KeyFailed,
		model.KeySilent, model.KeyGone, model.KeyGrown, model.KeyMoved, model.KeyFormer, model.KeyMade, model.KeyDetached,
		model.KeyOthers, model.KeySizes, model.KeyAdded, model.KeyDrives, model.KeyLegacy, model.KeyReplaces,
		model.KeyOwed, model.KeyAstray, model.KeyOff, model.KeyFrozen, model.KeyUnproven, string(kit.Foretold),
		string(kit.Imported)}
}

// PlansAlone says that ModifyPlan looks at nothing in the plan that it is handed but whether it is null (package
// fastpath).
func (r *Resource) PlansAlone() {}

// ModifyPlan plans the resource; see Modify.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	planning.Plan(ctx, r.server(), model.SchemaValues(), req, resp)
}

// ValidateConfig refuses what no server could accept, by the known part of the configuration.
func (r *Resource) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest,
	resp *resource.ValidateConfigResponse) {
	c := &validation.Validation{Configuration: model.Configuration{Raw: req.Config.Raw}}
	c.EmptyObjects()
	c.Nodes()
	c.CloneSource()
	c.Backup()
	c.Disks()
	c.EfiDisk()
	c.CloudInit()
	c.SlotsUsedOnce()
	c.Memory()
	c.Processors()
	c.Groups()
	c.HostDevices()
	c.PowerState()
	c.WaitFor()
	c.Firewall()
	c.Ha()
	resp.Diagnostics.Append(c.Diags...)
}
