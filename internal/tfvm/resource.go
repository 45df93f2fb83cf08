package tfvm

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// machines is what the resource needs of package provision.
type machines interface {
	Create(ctx context.Context, r create.Request) (create.Created, error)
	Read(ctx context.Context, ref guest.Ref) (guest.Guest, guest.Seen, error)
	Sweep(ctx context.Context, about create.Attended) (end func() []guest.Warning)
	Recheck(ctx context.Context, ref guest.Ref, left []tx.Residue) ([]tx.Residue, error)
	Update(ctx context.Context, r change.Request) (guest.Guest, []guest.Warning, error)
	Delete(ctx context.Context, r remove.Request) ([]tx.Residue, []guest.Warning, error)
	Adopt(ctx context.Context, node string, vmid int) (guest.Guest, error)
	AdoptListed(ctx context.Context, resources pve.Resources, listed pve.Resource) (guest.Guest, error)
	Check(ctx context.Context, r preflight.Request) preflight.Findings
	Place(ctx context.Context, nodes []string) string
	Holdings(ctx context.Context, ref guest.Ref, sized, named []string) (guest.Holdings, error)
	MayBorrow(ctx context.Context, node string, vmid int, volume string) error
}

// Resource is proxmox_vm.
type Resource struct {
	tfkit.ResourceBase
	machines machines // nil while the provider's configuration is not known
	run      *Run
	values   func() values
}

var (
	_ resource.ResourceWithConfigure      = &Resource{}
	_ resource.ResourceWithIdentity       = &Resource{}
	_ resource.ResourceWithImportState    = &Resource{}
	_ resource.ResourceWithModifyPlan     = &Resource{}
	_ resource.ResourceWithMoveState      = &Resource{}
	_ resource.ResourceWithValidateConfig = &Resource{}
	_ machines                            = &provision.Service{}
)

// New makes the resource, for one run of the provider.
func New(run *Run) resource.Resource { return Factory()(run) }

// Factory makes a New whose resources share what follows from the schema, built at its first use: Terraform has a new resource
// made for every request.
func Factory() func(*Run) *Resource {
	once := sync.OnceValue(func() values { return newValues(context.Background()) })
	return func(run *Run) *Resource { return &Resource{run: run, values: once} }
}

// Metadata names the resource.
func (r *Resource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_vm"
}

// Schema is the shape of the configuration.
func (r *Resource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.values().schema
}

// Configure takes the session of the configured provider.
func (r *Resource) Configure(ctx context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.ResourceBase.Configure(ctx, req, resp)
	if r.Session.Known() {
		r.machines = r.Session.VMs
	}
}

// thing names a VM for people.
func thing(vmid int64, name, node string) string {
	text := "a VM"
	switch {
	case vmid != 0:
		text = fmt.Sprintf("VM %d", vmid)
	case name != "":
		text = fmt.Sprintf("VM %q", name)
	}
	if node != "" {
		text += " on " + node
	}
	return text
}

func (m *model) thing() string { return thing(value(m.VMID), value(m.Name), value(m.Node)) }

// about notes in the account of the operation which VM it is about.
func (m *model) about(ctx context.Context) {
	o := account.From(ctx)
	o.About(int(value(m.VMID)), value(m.Node))
	if m.VMID != nil || m.Name != nil {
		o.Thing(m.thing())
	}
}

// attempt is what is tried with a VM. The password stands neither in state nor in the plan, so it is given.
func (r *Resource) attempt(verb string, m *model, password *string) tfkit.Attempt {
	return tfkit.Attempt{Verb: verb, Thing: m.thing(), At: m.locator(), As: r.Session.User(), Secrets: []string{value(password)}}
}

// maskPassword keeps a password out of the log, should PVE repeat it.
func maskPassword(ctx context.Context, password *string) context.Context {
	if value(password) == "" {
		return ctx
	}
	return tfkit.Mask(ctx, *password)
}

// sweep accompanies a request about a VM, which is to be made or is in state: beside the first one what dead creates left is taken back,
// and what there is to be said of that is a warning of this request.
func (r *Resource) sweep(ctx context.Context, about *model, wanted bool) (end func(*diag.Diagnostics)) {
	if r.machines == nil {
		return func(*diag.Diagnostics) {}
	}
	swept := r.machines.Sweep(ctx, create.Attended{VMID: int(value(about.VMID)), Name: value(about.Name), Wanted: wanted})
	return func(diags *diag.Diagnostics) { diags.Append(tfkit.Warn(swept())...) }
}
