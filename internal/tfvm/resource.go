package tfvm

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfvalue"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// machines is what the resource needs of package provision.
type machines interface {
	Create(ctx context.Context, r create.Request) (create.Created, error)
	Read(ctx context.Context, ref guest.Ref) (guest.Guest, guest.Seen, error)
	Recheck(ctx context.Context, ref guest.Ref, left []tx.Residue) ([]tx.Residue, error)
	Update(ctx context.Context, r change.Request) (guest.Guest, []guest.Warning, error)
	Delete(ctx context.Context, r remove.Request) ([]tx.Residue, []guest.Warning, error)
	Adopt(ctx context.Context, node string, vmid int) (guest.Guest, error)
	AdoptListed(ctx context.Context, resources pve.Resources, listed pve.Resource) (guest.Guest, error)
	Check(ctx context.Context, r preflight.Request) preflight.Findings
	Place(ctx context.Context, nodes []string) string
	Holdings(ctx context.Context, ref guest.Ref, sized, named []string) (guest.Holdings, error)
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

// GeneratedConfig is what is written down of an imported VM: not PVE's defaults, and not the generation id, which is root's to set and
// which PVE gives every VM (package fastpath).
func (r *Resource) GeneratedConfig(all tftypes.Value) tftypes.Value {
	said := tfplan.Replace(r.values().shape.Said(all), "vmgenid", tftypes.NewValue(tftypes.String, nil))
	keep := func(group, key string) {
		said = tfplan.Replace(said, group, tfplan.Replace(tfplan.At(said, group), key, tfplan.At(all, group, key)))
	}
	if c := (configuration{said}); c.isSet("agent") { // PVE takes the rest only together with these
		keep("agent", "enabled")
	}
	if c := (configuration{said}); c.hasCPUDetails() {
		keep("cpu", "type")
	}
	return said
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

// values converts between raw values and models.
type values struct {
	schema schema.Schema
	typ    tftypes.Type
	shape  tfplan.Shape
	codec  tfvalue.Codec[model]
}

func newValues(ctx context.Context) values {
	s := vmSchema(ctx)
	v := values{schema: s, typ: s.Type().TerraformType(ctx), shape: tfplan.NewShape(ctx, s, rules())}
	v.codec, _ = tfvalue.NewCodec[model](v.typ) // a test sees to it that it can be made
	return v
}

// model reads a configuration, a plan or a state. Unknown becomes nil, and no state an empty model.
func (v values) model(ctx context.Context, raw tftypes.Value) (model, diag.Diagnostics) {
	var m model
	if raw.IsNull() {
		return m, nil
	}
	raw = tfplan.Known(raw)
	m, err := v.codec.Decode(raw)
	if err == nil {
		return m, nil
	}
	m = model{}
	plan := tfsdk.Plan{Raw: raw, Schema: v.schema} // it says where and why
	diags := plan.Get(ctx, &m)
	return m, diags
}

// raw writes a model.
func (v values) raw(ctx context.Context, m model) (tftypes.Value, diag.Diagnostics) {
	if raw, err := v.codec.Encode(m); err == nil {
		return raw, nil
	}
	state := tfsdk.State{Raw: tftypes.NewValue(v.typ, nil), Schema: v.schema} // it says where and why
	diags := state.Set(ctx, &m)
	return state.Raw, diags
}

// server is what the server says about a guest, as a raw value.
func (v values) server(ctx context.Context, g guest.Guest) (tftypes.Value, diag.Diagnostics) {
	return v.raw(ctx, fromGuest(g))
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

// attempt is what is tried with a VM. The password stands neither in state nor in the plan, so it is given.
func (r *Resource) attempt(verb string, m *model, password *string) tfkit.Attempt {
	return tfkit.Attempt{Verb: verb, Thing: m.thing(), At: m.locator(), As: r.Session.User(), Secrets: []string{value(password)}}
}

// maskPassword keeps a password out of the log, should PVE repeat it.
func maskPassword(ctx context.Context, password *string) context.Context {
	if value(password) == "" {
		return ctx
	}
	return tflog.MaskMessageStrings(tflog.MaskAllFieldValuesStrings(ctx, *password), *password)
}

// ref is the VM in state.
func (m *model) ref(private privateState) guest.Ref {
	unseen := m.isUnseen(private)
	identity := private.Identity
	if identity.IsZero() && private.Proof == nil { // Terraform hands the destroy of a tainted resource no private state
		identity.UUID = value(m.UUID)
	}
	next := ""
	if m.SMBIOS != nil && slices.Contains(m.PendingChanges, "smbios1") {
		next = value(m.SMBIOS.UUID)
	}
	return guest.Ref{VMID: int(value(m.VMID)), Node: value(m.Node), Identity: identity, NextUUID: next, Proof: private.Proof,
		Status: value(m.Status),
		Agent: agent.Memory{Enabled: m.Agent != nil && value(m.Agent.Enabled) && !slices.Contains(m.PendingChanges, "agent"),
			Silent: private.Silent},
		Firewall: m.Firewall != nil || private.Managed["firewall"] || unseen, HA: m.HA != nil || private.Managed["ha"]}
}

// isUnseen reports whether the server was never asked about a VM in state: the next refresh fills everything in.
func (m *model) isUnseen(private privateState) bool {
	return private.Moved != nil || m.UUID == nil && len(private.Managed) == 0
}

// timeouts are the configured timeouts.
func (m *model) timeouts() tfkit.Timeouts {
	if m.Timeouts == nil {
		return tfkit.Timeouts{}
	}
	return *m.Timeouts
}
