package planning

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/change"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/run"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/source"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/validation"
)

// Plan computes the whole plan from configuration, state and private state, and checks it against the server.
func Plan(ctx context.Context, server Server, v model.Values, req resource.ModifyPlanRequest,
	resp *resource.ModifyPlanResponse) {
	p := &Planning{Server: server, out: resp.Private, left: server.Session.LeavesToCreate(req),
		Change: change.Change{Values: v, Config: model.Configuration{Raw: req.Config.Raw}, State: req.State.Raw,
			Value: req.Plan.Raw, Acting: server.Run.Acts()}}
	if p.Machines != nil {
		p.Facts = &facts{Planning: p}
	}
	var diags diag.Diagnostics
	p.Prior, diags = p.Model(ctx, req.State.Raw)
	p.Diags.Append(diags...)
	p.Private, diags = model.ReadPrivateState(ctx, req.Private)
	p.Diags.Append(diags...)
	p.Prior.About(ctx)
	if !req.State.Raw.IsNull() && !p.Diags.HasError() {
		vmid := int(model.Value(p.Prior.VMID))
		p.Run.NoteInState(vmid)
		p.Lost = p.Run.Seen(vmid).Lost
		p.Run.NoteFormer(vmid, p.Prior.FormerNames(func(slot string) string {
			return model.Value(p.Prior.Disks[slot].Volume)
		}))
		p.Run.NoteShown(run.ShownVM{VMID: model.Value(p.Prior.VMID), Thing: p.Prior.Thing(),
			Protected: model.Value(p.Prior.Protection), Taken: p.Prior.Taken()}, run.KeyOf(p.Private))
		verb := "change"
		if req.Plan.Raw.IsNull() {
			verb = "destroy"
		}
		p.Diags.Append(p.Prior.Unread(p.Prior.Attempt(server.Session.Identity(), verb, nil), p.Private)...)
		p.Private.Unproven = p.Private.Unproven || p.Prior.IsLost(p.Private)
		p.noteAgain(ctx)
		p.Private.OwnMark(&p.Prior)
	}
	p.Config.Raw = p.withDefaults(p.Config.Raw)
	if !req.State.Raw.IsNull() || p.Acting { // else it is the second plan of a replacement
		_, diags = kit.TakeForetold(ctx, resp.Private)
		p.Diags.Append(diags...)
	}
	if p.Machines == nil { // also for a tainted VM, of which Terraform shows the plan of a new one no state
		p.Diags.Append(kit.NoteUnlooked(ctx, resp.Private)...)
	}
	switch {
	case p.Diags.HasError():
	case req.Plan.Raw.IsNull():
		p.destroy(ctx)
	case req.State.Raw.IsNull():
		mayGo := p.Run.NotShown()
		if p.create(ctx); !p.Diags.HasError() {
			passFailed(ctx, p, mayGo)
		}
	default:
		p.update(ctx, req.Private)
	}
	meetOthers(p)
	p.Diags.Append(noteSources(ctx, p, req.Private)...)
	resp.Plan.Raw, resp.RequiresReplace = p.Value, p.replace
	resp.Diagnostics.Append(p.Diags...)
}

// destroy refuses what PVE would refuse. The rest of a failed create may have its template's protection; it is
// removed all the same.
func (p *Planning) destroy(ctx context.Context) {
	p.Run.NoteChanging(int(model.Value(p.Prior.VMID)))
	going{p}.warnAddedDisks()
	warnLeavingSources(ctx, p)
	if p.Private.Proof == nil {
		p.RefuseRemoval("destroy")
		going{p}.warnOfDestroy(ctx)
		serverCheck{p}.checkDestroy(ctx)
	} else if p.Machines != nil && !p.Acting { // of an object without configuration Terraform notes no refresh
		_, diags := NameUses(ctx, p.Machines, p.Private.Proof, model.Value(p.Prior.Node), p.out)
		p.Diags.Append(diags...)
	}
}

// create plans a VM that is not there. The second plan of a replacement is one, too.
func (p *Planning) create(ctx context.Context) {
	p.volumes = p.volumesOfNewVM(ctx)
	p.compute(ctx, p.volumes.withAttached(p.Config.Raw))
	if p.Diags.HasError() {
		return
	}
	p.PlanTags()
	p.KnowNewVM()
	cloning{p}.planCopied(ctx)
	p.ForetellNewVM()
	c := &validation.Validation{Configuration: p.Config, Borrowed: p.volumes.borrowed}
	c.NewVM()
	p.Diags.Append(c.Diags...)
	p.RefuseLimits()
	if !p.left {
		p.RefuseCombinations()
	}
	p.refuseReplacingAdopted(ctx)
	serverCheck{p}.warnUnnamedOrphans()
	warnLeavingSources(ctx, p)
	if !p.Diags.HasError() { // a request tells nothing about a plan that is wrong by itself
		serverCheck{p}.checkServer(ctx)
	}
}

// update plans what becomes of a VM that is there.
func (p *Planning) update(ctx context.Context, prior kit.PrivateReader) {
	// First what makes two values equal that are spelt differently, since everything else follows from the differences.
	p.useTagStyle(ctx)
	p.volumes = p.resolveVolumes(ctx)
	config := p.withNodeOfHA(p.volumes.withAttached(p.Config.Raw))
	config = p.WithGrownSizes(p.WithPinnedMachine(config))
	p.compute(ctx, config)
	if order, isReset := change.DefaultBootOrder(&p.Change); isReset {
		p.compute(ctx, plan.Replace(config, "boot_order", order))
	}
	if p.Diags.HasError() {
		return
	}
	p.WarnFormer()
	p.WarnMarked()
	change.WarnNotDestroyed(&p.Change)
	// Then what is a change although no attribute of the configuration differs.
	p.PlanTags()
	p.chooseNode(ctx)
	p.changed = p.PlanPendingChanges() || p.changed
	if p.Private.Gone {
		p.replaceDestroyed(ctx)
		return
	}
	if !p.changed {
		p.WarnUnclaimed()
		return
	}
	if p.Private.IsUnproven() {
		p.Diags.Append(kit.RefuseUnproven(p.Prior.Attempt(p.Session.Identity(), "change", nil)))
		return
	}
	p.Run.NoteChanging(int(model.Value(p.Prior.VMID)))
	// Then what follows from the changes. From here on the plan is complete.
	p.planReplacement()
	p.PlanConsequences(p.Run.Grows)
	p.Foretell()
	p.WarnForgotten(len(p.replace) > 0)
	if len(p.replace) > 0 { // Terraform plans again, without the state
		refuseImported(ctx, p, prior)
		p.RefuseRemoval("replace")
		p.Diags.Append(source.WarnOwn(p.Config, p.Prior, p.Plan)...)
		going{p}.warnAddedDisks()
		going{p}.warnOfDestroy(ctx)
		noteLinkedClones(ctx, p)
		warnOfOtherClones(p)
		serverCheck{p}.checkDestroy(ctx)
		p.Diags.Append(model.WriteReplaced(ctx, p.out, p.Prior)...)
		p.warnOfReplacement(ctx)
		return
	}
	becomes := p.InPlace()
	p.Run.Note(int(model.Value(p.Prior.VMID)), func(seen *run.VM) { seen.Becomes = becomes })
	// Then the errors in it by itself, and the warnings. The server is asked last.
	essence, diags := p.Essence(ctx, p.Value, p.State, p.Private.Others)
	essence.WishPower(p.Config)
	p.Diags.Append(diags...)
	p.Before, p.After = model.Normalized(p.Prior, essence, p.Private.Managed)
	p.RefuseInPlace(ctx)
	refuseRecordedSources(ctx, p)
	warnLeavingSources(ctx, p)
	p.WarnInPlace(ctx)
	serverCheck{p}.warnAsleep()
	if !p.Diags.HasError() {
		serverCheck{p}.checkServer(ctx)
	}
}

// compute plans attribute by attribute.
func (p *Planning) compute(ctx context.Context, config tftypes.Value) {
	planned := p.Shape.Plan(plan.Input{Config: config, Prior: p.State, Managed: p.Private.Managed,
		Inherits: p.Config.Copies(), MayExist: func(slot string) bool { // a disk that is there brings its options along
			return p.Private.MayHave(slot) || !p.Config.At(slot+".imported_disk").IsNull()
		}})
	p.Value, p.changed, p.Forgotten = p.volumes.withUnknowns(planned.Value), planned.Changed, planned.Forgotten
	if p.Private.Lost {
		p.Doubtful = p.Shape.Doubtful(plan.Input{Config: config, Prior: p.State, Managed: p.Private.Managed,
			Inherits: p.Config.Copies()})
	}
	if p.Creating() && p.Config.IsNull("power_state") { // a copy is started, too
		p.Value = plan.Edit(p.Value, nil, map[string]bool{"power_state": true})
	}
	var diags diag.Diagnostics
	p.Plan, diags = p.Model(ctx, p.Value)
	p.Plan.WishPower(p.Config)
	p.Diags.Append(diags...)
}

// noteAgain takes the present configuration for the former one, where Terraform has lost the notes about it. A value
// that is not configured may have been found by an import, so no update may remove it.
func (p *Planning) noteAgain(ctx context.Context) {
	p.Private.Lost = p.Private.Lost && !p.Value.IsNull() && !p.Prior.IsUnseen(p.Private)
	if p.Private.Lost {
		p.Private.Managed = p.Shape.Managed(p.Config.Raw)
		p.Diags.Append(p.out.SetKey(ctx, model.KeyManaged, p.Private.Managed.JSON())...)
	}
}

// passFailed writes what is known of VMs in state into the plan of a new VM, for the destroy of a tainted one: of those
// that have failed, and of those that this one may replace. Terraform does not tell which that is, if any, and name and
// id of the new one may be others: it is one of mayGo, which no plan was shown when this one began, nor is at its end.
// A VM that is not tainted is shown right after its refresh.
func passFailed(ctx context.Context, p *Planning, mayGo map[int]*run.Refreshed) {
	pass := map[int]model.FailedVM{}
	for vmid, vm := range mayGo {
		if vm.Knows.IsFailed() {
			pass[vmid] = vm.Knows
		}
	}
	if (cloning{p}).replaces() { // the destroy is handed all
		refuseUntold(p)
	} else {
		maps.DeleteFunc(mayGo, func(vmid int, _ *run.Refreshed) bool { return p.Run.Seen(vmid).Shown })
		for _, vmid := range slices.Sorted(maps.Keys(mayGo)) {
			going{p}.warnDisksOf(int64(vmid), model.Thing(int64(vmid), "", ""), mayGo[vmid].Knows.Added,
				"The plan shows none of them. Where it replaces this VM, since that is tainted, they are destroyed with it")
		}
		name, isKnown := model.Value(p.Plan.Name), p.Config.At("name").IsKnown()
		for _, vmid := range run.Replaceable(mayGo, int(model.Value(p.Plan.VMID)), name, isKnown) {
			pass[vmid] = mayGo[vmid].Knows
			going{p}.warnUnshown(ctx, mayGo[vmid].Goes)
		}
	}
	if len(pass) > 0 {
		p.Diags.Append(kit.Note[map[int]model.FailedVM](model.KeyFailed).Write(ctx, p.out, pass)...)
	}
}
