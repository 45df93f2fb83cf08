package vm

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
)

// Create makes the VM whole. When it fails, either nothing is left and the state stays empty, or the state holds the
// VM, which makes Terraform taint it, and the private state remembers what is left.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	r.run.Act()
	if !r.CheckFirst(ctx, r, req, resp) {
		return
	}
	v := model.SchemaValues()
	plan, diags := v.Model(ctx, r.server().Asked(v, req.Plan.Raw, req.Config.Raw))
	resp.Diagnostics.Append(diags...)
	password := readPassword(ctx, req.Config, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.About(ctx)
	attempt := plan.Attempt(r.Session.Identity(), "create", password)
	if r.machines == nil {
		resp.Diagnostics.Append(kit.NotConfigured(attempt.Verb, attempt.Thing))
		return
	}
	limit := kit.Duration(plan.Timeouts.Limits().Create, kit.CreateTimeout)
	ctx, cancel := context.WithTimeout(maskPassword(ctx, password), limit)
	defer cancel()

	first := plan
	if len(plan.Adopts()) > 0 {
		first = plan.WithoutAdopted()
	}
	request := first.CreateRequest(password)
	request.Range, request.Adopts = r.Session.Range, plan.Adopts()
	config := model.Configuration{Raw: req.Config.Raw}
	request.Wait = first.AwaitedByCreate(config)
	if request.Clone != nil {
		request.AsPlanned = r.server().AsPlanned(ctx, v, req.Plan.Raw, req.Config.Raw, request.Clone)
	}
	made, err := r.machines.Create(ctx, request)
	made, diags, err = r.adoptAfter(ctx, plan, plan.AwaitedByCreate(config), made, err)
	resp.Diagnostics.Append(diags...)

	attempt.Kept, attempt.Doubt = request.OnFailure == create.Keep && made.Guest.VMID != 0, made.Doubt
	attempt.Stays = made.Stays
	if made.Guest.VMID != 0 {
		attempt.Thing = model.Thing(int64(made.Guest.VMID), "", made.Guest.Node)
	}
	resp.Diagnostics.Append(kit.Warn(made.Warnings)...)
	resp.Diagnostics.Append(kit.Diagnose(model.NamedAfterWaiting(attempt, err), model.ExplainTaint(err))...)
	if made.Guest.VMID == 0 {
		return
	}
	resp.State.Raw, diags = newState(ctx, v, req.Plan.Raw, made.Guest)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(identify(ctx, resp.Identity, new(int64(made.Guest.VMID)))...)
	private := model.PrivateState{Managed: v.Shape.Managed(req.Config.Raw), Identity: made.Guest.Identity, Made: true,
		Residues: made.Left, Proof: made.Proof}
	if state, diags := v.Model(ctx, resp.State.Raw); !diags.HasError() {
		if made.Proof != nil {
			resp.State.Raw = state.WithoutBorrowed(resp.State.Raw)
		}
		private.Others, private.Drives = model.OthersOf(&state, made.Guest), model.DrivesOf(&state, made.Guest)
		private.Sizes = model.SizesOf(private.Others, made.Guest)
		private.Added = model.AddedOf(private.Others, made.Inherited)
	}
	resp.Diagnostics.Append(private.Write(ctx, resp.Private)...)
}

// newState is the state after a create or an update that did what was planned.
func newState(ctx context.Context, v model.Values, planned tftypes.Value, g guest.Guest) (tftypes.Value,
	diag.Diagnostics) {
	server, diags := v.Server(ctx, g)
	if diags.HasError() { // a bug, but the VM exists: its id must not be lost
		server = tftypes.NewValue(planned.Type(), nil)
	}
	return v.Shape.Settle(planned, server), diags
}

// readPassword reads the write-only password, which stands in the configuration only.
func readPassword(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) *string {
	var password *string
	diags.Append(config.GetAttribute(ctx, path.Root("cloud_init_password_wo"), &password)...)
	return password
}
