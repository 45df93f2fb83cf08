package planning

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/run"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/source"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/validation"
)

// Plan computes the whole plan from configuration, state and private state, and checks it against the server.
func Plan(ctx context.Context, server Server, v model.Values, req resource.ModifyPlanRequest,
	resp *resource.ModifyPlanResponse) {
	p := &Planning{Server: server, Values: v, Config: model.Configuration{Raw: req.Config.Raw}, State: req.State.Raw,
		Value: req.Plan.Raw,
		out:   resp.Private, left: server.Session.LeavesToCreate(req)}
	var diags diag.Diagnostics
	p.Prior, diags = p.Model(ctx, req.State.Raw)
	p.diags.Append(diags...)
	p.private, diags = model.ReadPrivateState(ctx, req.Private)
	p.diags.Append(diags...)
	p.Prior.About(ctx)
	if !req.State.Raw.IsNull() && !p.diags.HasError() {
		p.Run.NoteInState(int(model.Value(p.Prior.VMID)))
		p.Run.NoteFormer(int(model.Value(p.Prior.VMID)), p.Prior.FormerNames(func(slot string) string {
			return model.Value(p.Prior.Disks[slot].Volume)
		}))
		p.Run.NoteShown(run.ShownVM{VMID: model.Value(p.Prior.VMID), Thing: p.Prior.Thing(),
			Protected: model.Value(p.Prior.Protection), Taken: p.Prior.Taken()}, run.KeyOf(p.private))
		verb := "change"
		if req.Plan.Raw.IsNull() {
			verb = "destroy"
		}
		p.diags.Append(p.Prior.Unread(p.Prior.Attempt(server.Session.Identity(), verb, nil), p.private)...)
		p.private.Unproven = p.private.Unproven || p.Prior.IsLost(p.private)
		p.noteAgain(ctx)
		p.private.OwnMark(&p.Prior)
	}
	p.Config.Raw = p.withDefaults(p.Config.Raw)
	if !req.State.Raw.IsNull() || p.Run.Acts() { // else it is the second plan of a replacement
		_, diags = kit.TakeForetold(ctx, resp.Private)
		p.diags.Append(diags...)
	}
	switch {
	case p.diags.HasError():
	case req.Plan.Raw.IsNull():
		p.destroy(ctx)
	case req.State.Raw.IsNull():
		mayGo := p.Run.NotShown()
		if p.create(ctx); !p.diags.HasError() {
			passFailed(ctx, p, mayGo)
		}
	default:
		p.update(ctx, req.Private)
	}
	meetOthers(p)
	p.diags.Append(noteSources(ctx, p, req.Private)...)
	resp.Plan.Raw, resp.RequiresReplace = p.Value, p.replace
	resp.Diagnostics.Append(p.diags...)
}

// destroy refuses what PVE would refuse. The rest of a failed create may have its template's protection; it is
// removed all the same.
func (p *Planning) destroy(ctx context.Context) {
	p.Run.NoteChanging(int(model.Value(p.Prior.VMID)))
	warnings{p}.warnAddedDisks()
	warnLeavingSources(ctx, p)
	if p.private.Proof == nil {
		refusals{p}.refuseProtected("destroy")
		refusals{p}.refuseTaken(p.Prior.Taken())
		warnings{p}.warnOfDestroy(ctx)
		serverCheck{p}.checkDestroy(ctx)
	} else if p.Machines != nil && !p.Run.Acts() { // of an object without configuration Terraform notes no refresh
		_, diags := NameUses(ctx, p.Machines, p.private.Proof, model.Value(p.Prior.Node), p.out)
		p.diags.Append(diags...)
	}
}

// create plans a VM that is not there. The second plan of a replacement is one, too.
func (p *Planning) create(ctx context.Context) {
	p.volumes = p.volumesOfNewVM(ctx)
	p.compute(ctx, p.volumes.withAttached(p.Config.Raw))
	if p.diags.HasError() {
		return
	}
	p.PlanTags()
	p.knowMachineOfNewVM()
	p.knowDefaultsOfNewVM()
	cloning{p}.planCopied(ctx)
	p.foretellNewVM()
	c := &validation.Validation{Configuration: p.Config, Borrowed: p.volumes.borrowed}
	c.NewVM()
	p.diags.Append(c.Diags...)
	refusals{p}.refuseLimits()
	refusals{p}.refuseCombinations()
	p.refuseReplacingAdopted(ctx)
	serverCheck{p}.warnUnnamedOrphans()
	warnLeavingSources(ctx, p)
	if !p.diags.HasError() { // a request tells nothing about a plan that is wrong by itself
		serverCheck{p}.checkServer(ctx)
	}
}

// update plans what becomes of a VM that is there.
func (p *Planning) update(ctx context.Context, prior kit.PrivateReader) {
	// First what makes two values equal that are spelt differently, since everything else follows from the differences.
	p.useTagStyle(ctx)
	p.volumes = p.resolveVolumes(ctx)
	p.compute(ctx, p.withGrownSizes(p.withPinnedMachine(p.volumes.withAttached(p.Config.Raw))))
	if p.diags.HasError() {
		return
	}
	warnings{p}.warnFormer()
	warnings{p}.warnMarked()
	// Then what is a change although no attribute of the configuration differs.
	p.PlanTags()
	p.chooseNode(ctx)
	p.planPendingChanges()
	p.planNotes()
	if p.private.Gone {
		p.replaceDestroyed(ctx)
		return
	}
	if !p.changed {
		restart{p}.warnUnclaimed()
		return
	}
	if p.private.IsUnproven() {
		p.diags.Append(kit.RefuseUnproven(p.Prior.Attempt(p.Session.Identity(), "change", nil)))
		return
	}
	p.Run.NoteChanging(int(model.Value(p.Prior.VMID)))
	// Then what follows from the changes. From here on the plan is complete.
	p.planReplacement()
	p.PlanConsequences()
	p.foretell()
	p.warnForgotten()
	if len(p.replace) > 0 { // Terraform plans again, without the state
		refuseImported(ctx, p, prior)
		refusals{p}.refuseProtected("replace")
		refusals{p}.refuseTaken(p.Prior.Taken())
		p.diags.Append(source.WarnOwn(p.Config, p.Prior, p.Plan)...)
		warnings{p}.warnAddedDisks()
		warnings{p}.warnOfDestroy(ctx)
		noteLinkedClones(ctx, p)
		warnOfOtherClones(p)
		serverCheck{p}.checkDestroy(ctx)
		p.diags.Append(model.WriteReplaced(ctx, p.out, p.Prior)...)
		p.warnOfReplacement(ctx)
		return
	}
	noteInPlace(p)
	// Then the errors in it by itself, and the warnings. The server is asked last.
	essence, diags := p.Essence(ctx, p.Value, p.State)
	essence.WishPower(p.Config)
	p.diags.Append(diags...)
	p.before, p.after = model.Normalized(p.Prior, essence, p.private.Managed)
	refusals{p}.refuseChanges()
	refusals{p}.refuseSlotChanges(ctx)
	refuseRecordedSources(ctx, p)
	warnLeavingSources(ctx, p)
	if p.Config.At("disks").IsKnown() { // else the apply looks
		p.diags.Append(RefuseTaken(p.Prior, p.Plan)...)
	}
	warnings{p}.warnResets()
	warnings{p}.warnRemovedDisks(ctx)
	warnings{p}.warnTakenOver()
	warnings{p}.warnEjected()
	warnings{p}.warnNewEmptyDisks(ctx)
	warnings{p}.warnNewFirmware()
	warnings{p}.refuseWaitWithoutAgent()
	restart{p}.warn(ctx)
	restart{p}.warnOfCloudInit(ctx)
	restart{p}.warnOfLostDisks(ctx)
	warnings{p}.warnMigrationUnderHA()
	warnings{p}.warnStopByHA()
	warnings{p}.warnUnknownFirewall(ctx)
	serverCheck{p}.warnAsleep()
	if !p.diags.HasError() {
		serverCheck{p}.checkServer(ctx)
	}
}

// compute plans attribute by attribute.
func (p *Planning) compute(ctx context.Context, config tftypes.Value) {
	planned := p.Shape.Plan(plan.Input{Config: config, Prior: p.State, Managed: p.private.Managed,
		Inherits: p.Config.Copies(), MayExist: func(slot string) bool { // a disk that is there brings its options along
			return p.private.MayHave(slot) || !p.Config.At(slot+".imported_disk").IsNull()
		}})
	p.Value, p.changed, p.forgotten = p.volumes.withUnknowns(planned.Value), planned.Changed, planned.Forgotten
	if p.private.Lost {
		p.doubtful = p.Shape.Doubtful(plan.Input{Config: config, Prior: p.State, Managed: p.private.Managed,
			Inherits: p.Config.Copies()})
	}
	if p.creating() && p.Config.IsNull("power_state") { // a copy is started, too
		p.Value = plan.Edit(p.Value, nil, map[string]bool{"power_state": true})
	}
	var diags diag.Diagnostics
	p.Plan, diags = p.Model(ctx, p.Value)
	p.Plan.WishPower(p.Config)
	p.diags.Append(diags...)
}

// noteAgain takes the present configuration for the former one, where Terraform has lost the notes about it. A value
// that is not configured may have been found by an import, so no update may remove it.
func (p *Planning) noteAgain(ctx context.Context) {
	p.private.Lost = p.private.Lost && !p.Value.IsNull() && !p.Prior.IsUnseen(p.private)
	if p.private.Lost {
		p.private.Managed = p.Shape.Managed(p.Config.Raw)
		p.diags.Append(p.out.SetKey(ctx, model.KeyManaged, p.private.Managed.JSON())...)
	}
}

// planNotes has Terraform keep the new notes, which it does of an update only.
func (p *Planning) planNotes() {
	if p.private.Lost {
		p.Value, p.changed = plan.Edit(p.Value, map[string]bool{"pending_changes": true}, nil), true
	}
}

// warnLost tells what the update leaves alone since nothing tells whether it was configured.
func (p *Planning) warnLost(forgotten []string) {
	text := "Terraform forgets what a provider has noted beside the state when the provider is killed during an update. " +
		"This apply notes again what is configured."
	if len(forgotten) > 0 {
		text += " Devices that are not configured, and of which it is not known whether they were: " +
			strings.Join(forgotten, ", ") +
			". They leave the state and stay on the VM, unless it is replaced: -replace destroys disks with the VM. One that " +
			"is to go must be in the configuration for one apply, and out of it for the next."
	}
	if len(p.doubtful) > 0 {
		text += " Values of which the same is not known: " + strings.Join(p.doubtful, ", ") +
			". They stay as they are. Where one is to be another, say so in the configuration, or change it on the server."
	}
	if waiting := p.private.Foreign(p.Prior); len(waiting) > 0 {
		text += " Options that wait for a restart, and of which it is not known who has changed them: " +
			strings.Join(waiting, ", ") + ". No apply restarts the VM for them; its next stop and start puts them in force."
	}
	p.diags.AddWarning("What the provider knew of "+p.Prior.Thing()+" is lost", text)
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
		refusals{p}.refuseUntold()
	} else {
		maps.DeleteFunc(mayGo, func(vmid int, _ *run.Refreshed) bool { return p.Run.Seen(vmid).Shown })
		for _, vmid := range slices.Sorted(maps.Keys(mayGo)) {
			warnings{p}.warnDisksOf(int64(vmid), model.Thing(int64(vmid), "", ""), mayGo[vmid].Knows.Added,
				"The plan shows none of them. Where it replaces this VM, since that is tainted, they are destroyed with it")
		}
		id, name := int(model.Value(p.Plan.VMID)), model.Value(p.Plan.Name)
		for _, vmid := range run.Replaceable(mayGo, id, name, p.Config.At("name").IsKnown()) {
			pass[vmid] = mayGo[vmid].Knows
			warnings{p}.warnUnshown(ctx, mayGo[vmid].Goes)
		}
	}
	if len(pass) > 0 {
		p.diags.Append(kit.Note[map[int]model.FailedVM](model.KeyFailed).Write(ctx, p.out, pass)...)
	}
}
