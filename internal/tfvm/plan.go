package tfvm

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
)

// PlansAlone says that ModifyPlan looks at nothing in the plan that it is handed but whether it is null (package fastpath).
func (r *Resource) PlansAlone() {}

// ModifyPlan computes the whole plan from configuration, state and private state, and checks it against the server.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	p := &planning{r: r, values: r.values(), config: configuration{req.Config.Raw}, state: req.State.Raw, value: req.Plan.Raw,
		out: resp.Private}
	var diags diag.Diagnostics
	p.prior, diags = p.model(ctx, req.State.Raw)
	p.diags.Append(diags...)
	p.private, diags = readPrivateState(ctx, req.Private)
	p.diags.Append(diags...)
	p.prior.about(ctx)
	if !req.State.Raw.IsNull() && !p.diags.HasError() {
		verb := "change"
		if req.Plan.Raw.IsNull() {
			verb = "destroy"
		}
		p.diags.Append(p.prior.unread(r.attempt(verb, &p.prior, nil), p.private)...)
		p.noteAnew(ctx)
	}
	p.config.raw = p.withDefaults(p.config.raw)
	switch {
	case p.diags.HasError():
	case req.Plan.Raw.IsNull():
		p.destroy()
	case req.State.Raw.IsNull():
		p.create(ctx)
	default:
		p.update(ctx)
	}
	resp.Plan.Raw, resp.RequiresReplace = p.value, p.replace
	resp.Diagnostics.Append(p.diags...)
}

// destroy refuses what PVE would refuse. What a failed create left may have its template's protection; it is removed all
// the same.
func (p *planning) destroy() {
	if p.private.Proof == nil {
		p.refuseProtected("destroy")
	}
}

// create plans a VM that is not there. The second plan of a replacement is one, too.
func (p *planning) create(ctx context.Context) {
	p.diags.Append(p.r.run.passFailed(ctx, p.out)...)
	p.volumes = p.volumesOfNewVM(ctx)
	p.compute(ctx, p.volumes.withAttached(p.config.raw))
	if p.diags.HasError() {
		return
	}
	p.knowMachineOfNewVM()
	p.knowDefaultsOfNewVM()
	c := &validation{configuration: p.config, borrowed: p.volumes.borrowed}
	c.newVM()
	p.diags.Append(c.diags...)
	p.refuseReplacingAdopted()
	if !p.diags.HasError() { // a request tells nothing about a plan that is wrong by itself
		defer p.r.sweep(ctx, &p.plan, true)(&p.diags)
		p.checkServer(ctx)
	}
}

// update plans what becomes of a VM that is there.
func (p *planning) update(ctx context.Context) {
	// First what makes two values equal that are spelt differently, since everything else follows from the differences.
	p.useTagStyle(ctx)
	p.volumes = p.resolveVolumes(ctx)
	p.compute(ctx, p.withGrownSizes(p.withPinnedMachine(p.volumes.withAttached(p.config.raw))))
	if p.diags.HasError() {
		return
	}
	// Then what is a change although no attribute of the configuration differs.
	p.chooseNode(ctx)
	p.planPendingChanges()
	p.planNotes()
	if p.private.Gone {
		p.replaceDestroyed(ctx)
		return
	}
	if !p.changed {
		return
	}
	// Then what follows from the changes. From here on the plan is complete.
	p.planReplacement()
	p.planConsequences()
	p.keepAddresses()
	p.keepUnconcerned()
	p.warnForgotten()
	if len(p.replace) > 0 { // Terraform plans again, without the state
		p.refuseProtected("replace")
		p.diags.Append(writeReplaced(ctx, p.out, p.prior)...)
		p.warnOfReplacement(ctx)
		return
	}
	// Then what is wrong with it by itself, and what the reader is to know. The server is asked last.
	essence, diags := p.essence(ctx, p.value, p.state)
	p.diags.Append(diags...)
	p.before, p.after = normalized(p.prior, essence, p.private.Managed)
	p.refuseChanges()
	p.refuseSlotChanges()
	p.warnResets()
	p.warnRemovedDisks()
	p.warnNewEmptyDisks()
	p.refuseWaitWithoutAgent()
	p.warnRestart()
	p.warnMigrationUnderHA()
	if !p.diags.HasError() {
		p.checkServer(ctx)
	}
}

// compute plans attribute by attribute.
func (p *planning) compute(ctx context.Context, config tftypes.Value) {
	planned := p.shape.Plan(tfplan.Input{Config: config, Prior: p.state, Managed: p.private.Managed, Inherits: p.config.copies()})
	p.value, p.changed, p.forgotten = p.volumes.withUnknowns(planned.Value), planned.Changed, planned.Forgotten
	if p.private.Lost {
		p.doubtful = p.shape.Doubtful(tfplan.Input{Config: config, Prior: p.state, Managed: p.private.Managed, Inherits: p.config.copies()})
	}
	var diags diag.Diagnostics
	p.plan, diags = p.model(ctx, p.value)
	p.diags.Append(diags...)
}
