// Package harule holds the resource proxmox_ha_rule.
package harule

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// Resource is proxmox_ha_rule.
type Resource struct {
	kit.ResourceBase
	run Run
}

// Run is told of the rules in state, so that the plans of the VMs that they name need not name them.
type Run interface {
	NoteRule(id string, resources []string)
}

var (
	_ resource.ResourceWithConfigure      = &Resource{}
	_ resource.ResourceWithImportState    = &Resource{}
	_ resource.ResourceWithModifyPlan     = &Resource{}
	_ resource.ResourceWithValidateConfig = &Resource{}
)

// New makes the resource.
func New(run Run) resource.Resource { return &Resource{run: run} }

// Metadata names the resource.
func (r *Resource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_ha_rule"
}

// Schema returns the attributes of the resource.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = ruleSchema(ctx)
}

func (r *Resource) attempt(verb string, m *model) kit.Attempt {
	return kit.Attempt{Verb: verb, Thing: "HA rule " + m.Rule.ValueString(), At: locator{}, As: r.Session.Identity()}
}

// InState notes a rule that a state file has (package fastpath).
func (r *Resource) InState(stored []byte) {
	var object struct {
		Rule string `json:"rule"`
	}
	if r.Session.Known() && json.Unmarshal(stored, &object) == nil {
		r.Session.VMs.HARules.NoteKnown(object.Rule)
	}
}

// ValidateConfig refuses a configuration that no server accepts.
func (r *Resource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest,
	resp *resource.ValidateConfigResponse,
) {
	var m model
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(m.invalid()...)
	}
}

// ModifyPlan refuses what the server would refuse: a version without rules, nodes that are not there, an id that is
// taken, a missing privilege.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	m, prior, ok := kit.Planned[model](ctx, req, resp)
	if req.Plan.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
		r.run.NoteRule(prior.Rule.ValueString(), prior.rule().Resources)
	}
	if !req.State.Raw.IsNull() && !resp.Diagnostics.HasError() {
		thing := r.attempt("", &prior).Thing
		resp.Diagnostics.Append(kit.RefuseSplit(r.Session, thing, thing, thing, !ok || m.replaces(&prior))...)
		if ok && m.replaces(&prior) {
			resp.Diagnostics.Append(kit.RefuseImported(ctx, req.Private, thing, r.attempt("", &m).Thing)...)
			resp.Diagnostics.Append(retyped(thing, &m, &prior)...)
		}
	}
	if resp.Diagnostics.HasError() || !r.Session.Known() || req.Plan.Raw.Equal(req.State.Raw) ||
		r.Session.LeavesToCreate(req) {
		return
	}
	resp.Diagnostics.Append(kit.Diagnose(r.attempt("change", &prior), r.Session.CheckCluster(ctx, req.Private))...)
	rules, verb := r.Session.VMs.HARules, "change HA rules"
	var refused []*guest.FieldError
	if ok {
		refused = rules.Check(ctx, m.Rule.ValueString(), m.nodes(), req.State.Raw.IsNull())
	} else {
		m, verb = prior, "remove HA rules"
	}
	if len(refused) == 0 {
		refused = r.Session.VMs.Permit(ctx,
			preflight.Take{Path: "rule", What: "see HA rules", On: "/", AnyOf: []string{"Sys.Audit"}},
			preflight.Take{Path: "rule", What: verb, On: "/", AnyOf: []string{"Sys.Console"}})
	}
	resp.Diagnostics.Append(kit.Verdicts(r.attempt("check", &m), refused, nil)...)
}

// retyped tells of a rule that another type takes out of HA for a while, or for longer: PVE changes no type, and judges
// the new rule beside all others (pve-ha-manager API2/HA/Rules.pm, $assert_feasibility).
func retyped(thing string, m, prior *model) (diags diag.Diagnostics) {
	if m.Rule.Equal(prior.Rule) && !m.Type.IsUnknown() && !m.Type.Equal(prior.Type) {
		diags.AddAttributeWarning(path.Root("type"), thing+" is removed before it is made with the other type",
			"PVE changes no type of a rule. HA may move the guests while there is none. Where another rule, also one of "+
				"another configuration, has the same guests, PVE may refuse the new one, and then none is there until an apply "+
				"succeeds. Look at the other rules of these guests first")
	}
	return diags
}

// Create makes the rule.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	if !r.CheckFirst(ctx, r, req, resp) {
		return
	}
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	limit := kit.Duration(plan.Timeouts.Limits().Create, kit.CreateTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("create", &plan), func(ctx context.Context) error {
		resp.Diagnostics.Append(plan.invalid()...)
		if resp.Diagnostics.HasError() {
			return nil
		}
		err := r.Session.VMs.HARules.Create(ctx, plan.rule())
		if err == nil {
			resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
			resp.Diagnostics.Append(r.Session.NoteCluster(ctx, r.attempt("create", &plan), resp.Private, resp.Private)...)
		}
		return err
	})
}

// Read refreshes the state. A rule that does not exist leaves it.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit := kit.Duration(state.Timeouts.Limits().Read, kit.ReadTimeout)
	r.Refresh(ctx, &resp.Diagnostics, limit, r.attempt("read", &state), func(ctx context.Context) error {
		rules := r.Session.VMs.HARules
		now, err := rules.Read(ctx, state.Rule.ValueString())
		switch {
		case pve.IsKind(err, pve.NotFound):
			resp.State.RemoveResource(ctx)
			resp.Diagnostics.Append(kit.NotInCluster(r.attempt("read", &state), ""))
			return nil
		case err != nil:
			return err
		}
		if len(now.Problems) > 0 {
			resp.Diagnostics.AddWarning("HA does not follow rule "+now.ID,
				"PVE says of it: "+strings.Join(now.Problems, "; ")+". HA passes over the rule until that is mended.")
		}
		resp.Diagnostics.Append(r.Session.NoteCluster(ctx, r.attempt("read", &state), req.Private, resp.Private)...)
		r.run.NoteRule(now.ID, now.Resources)
		resp.Diagnostics.Append(state.set(now)...)
		resp.Diagnostics.Append(kit.AgeImport(ctx, req.Private, resp.Private)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
		return nil
	})
}

// Update changes the rule in place.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(kit.ForgetImport(ctx, req.Private, resp.Private)...)
	limit := kit.Duration(plan.Timeouts.Limits().Update, kit.UpdateTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("change", &state), func(ctx context.Context) error {
		resp.Diagnostics.Append(plan.invalid()...)
		if resp.Diagnostics.HasError() {
			return nil
		}
		err := r.Session.VMs.HARules.Update(ctx, state.rule(), plan.rule())
		if err == nil {
			resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
		}
		return err
	})
}

// Delete removes the rule. A rule that is gone is a success.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	limit := kit.Duration(state.Timeouts.Limits().Delete, kit.DeleteTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("remove", &state), func(ctx context.Context) error {
		return r.Session.VMs.HARules.Delete(ctx, state.rule(), func() error {
			return r.Session.CheckCluster(ctx, req.Private)
		})
	})
}

// ImportState adopts a rule by its id. It writes nothing to the server.
func (r *Resource) ImportState(ctx context.Context, req resource.ImportStateRequest,
	resp *resource.ImportStateResponse) {
	if !ruleID.MatchString(req.ID) {
		resp.Diagnostics.AddError("Cannot import "+strconv.Quote(req.ID), "The id is that of the HA rule: \"apart\".")
		return
	}
	m := model{Rule: types.StringValue(req.ID)}
	r.Do(ctx, &resp.Diagnostics, kit.ReadTimeout, r.attempt("import", &m), func(ctx context.Context) error {
		found, err := r.Session.VMs.HARules.Read(ctx, req.ID)
		if err != nil {
			return err
		}
		resp.Diagnostics.Append(m.set(found)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		resp.Diagnostics.Append(kit.NoteImport(ctx, resp.Private)...)
		resp.Diagnostics.Append(r.Session.NoteCluster(ctx, r.attempt("import", &m), resp.Private, resp.Private)...)
		return nil
	})
}
