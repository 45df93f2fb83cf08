package terraformtest

import (
	"context"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

func (g *wireProvider) PlanResourceChange(_ context.Context, q *tfprotov6.PlanResourceChangeRequest,
) (*tfprotov6.PlanResourceChangeResponse, error) {
	schema := wireSchema()
	prior, proposed, config := open(schema, q.PriorState), open(schema, q.ProposedNewState), open(schema, q.Config)
	_, order := g.hear("Plan", q.PriorPrivate, map[string]cty.Value{"prior": prior, "proposed": proposed, "config": config})
	resp := &tfprotov6.PlanResourceChangeResponse{PlannedPrivate: q.PriorPrivate, Diagnostics: said(order, "plan")}
	if order == "replan-error" && prior.IsNull() && q.PriorPrivate == nil { // in the apply of a replacement
		resp.Diagnostics = said("plan-error", "plan")
	}
	if proposed.IsNull() {
		resp.Diagnostics = said(order, "plan-destroy")
		resp.PlannedState = pack(proposed)
		return resp, nil
	}
	plan := with(proposed, "secret", cty.NullVal(cty.String))
	if !prior.RawEquals(plan) {
		plan = unknownWhereComputed(schemaOf(schema).Object, plan)
		if order == "volatile" {
			plan = with(plan, "comp", cty.UnknownVal(cty.String))
		}
	}
	resp.PlannedState = pack(misplanned(plan, prior, config, order))
	resp.PlannedPrivate = []byte(`"planned ` + order + `"`)
	if order == "plan-private-null" {
		resp.PlannedPrivate = nil
	}
	resp.RequiresReplace = replaced(prior, proposed, order)
	return resp, nil
}

// unknownWhereComputed leaves to the apply what is computed and has no value yet.
func unknownWhereComputed(o *objchange.Object, plan cty.Value) cty.Value {
	out, err := cty.Transform(plan, func(path cty.Path, v cty.Value) (cty.Value, error) {
		if a := attributeAt(o, path); a != nil && a.Computed && v.IsNull() {
			return cty.UnknownVal(v.Type()), nil
		}
		return v, nil
	})
	if err != nil {
		panic(err)
	}
	return out
}

// replaced are the paths of which a change takes a new object.
func replaced(prior, proposed cty.Value, order string) []*tftypes.AttributePath {
	root := tftypes.NewAttributePath()
	var paths []*tftypes.AttributePath
	if prior.IsNull() {
		if order == "replace-at-create" {
			paths = append(paths, root.WithAttributeName("name"))
		}
		return paths
	}
	for _, name := range []string{"force", "force_oc"} {
		if !prior.GetAttr(name).RawEquals(proposed.GetAttr(name)) {
			paths = append(paths, root.WithAttributeName(name))
		}
	}
	if !At(prior, "group.force").RawEquals(At(proposed, "group.force")) {
		paths = append(paths, root.WithAttributeName("group").WithAttributeName("force"))
	}
	switch order {
	case "replace-unchanged":
		paths = append(paths, root.WithAttributeName("name"))
	case "replace-opt":
		paths = append(paths, root.WithAttributeName("opt"))
	case "replace-group":
		paths = append(paths, root.WithAttributeName("group"))
	case "replace-slot":
		paths = append(paths, root.WithAttributeName("slots").WithElementKeyString("a").WithAttributeName("opt"))
	case "replace-gone-slot":
		paths = append(paths, root.WithAttributeName("slots").WithElementKeyString("gone").WithAttributeName("opt"))
	case "replace-nowhere":
		paths = append(paths, root.WithAttributeName("nonesuch"))
	}
	return paths
}

// misplanned is a plan with the fault that was ordered. Some are none.
func misplanned(plan, prior, config cty.Value, order string) cty.Value {
	other, unknown, none := cty.StringVal("other"), cty.UnknownVal(cty.String), cty.NullVal(cty.String)
	switch order {
	case "plan-name":
		return with(plan, "name", other)
	case "plan-opt-filled", "plan-opt":
		return with(plan, "opt", other)
	case "plan-opt-unknown":
		return with(plan, "opt", unknown)
	case "plan-opt-null":
		return with(plan, "opt", none)
	case "plan-opt-prior":
		if prior.IsNull() {
			return plan
		}
		return with(plan, "opt", prior.GetAttr("opt"))
	case "plan-oc", "plan-oc-filled":
		return with(plan, "oc", other)
	case "plan-comp":
		return with(plan, "comp", other)
	case "plan-comp-null":
		return with(plan, "comp", none)
	case "plan-secret":
		return with(plan, "secret", config.GetAttr("secret"))
	case "plan-hidden":
		return with(plan, "hidden", other)
	case "plan-group":
		return with(plan, "group.opt", other)
	case "plan-group-comp":
		return with(plan, "group.comp", other)
	case "plan-group-null":
		return with(plan, "group", cty.NullVal(plan.GetAttr("group").Type()))
	case "plan-group-unknown":
		return with(plan, "group", cty.UnknownVal(plan.GetAttr("group").Type()))
	case "plan-slot":
		return with(plan, "slots.a.opt", other)
	case "plan-slot-more":
		return with(plan, "slots.more", plan.GetAttr("slots").Index(cty.StringVal("a")))
	case "plan-slot-unknown":
		return with(plan, "slots.a", cty.UnknownVal(plan.GetAttr("slots").Type().ElementType()))
	case "plan-items":
		return with(plan, "items", cty.ListVal(append(plan.GetAttr("items").AsValueSlice(), plan.GetAttr("items").Index(cty.Zero))))
	case "plan-tags":
		return with(plan, "tags", cty.ListVal([]cty.Value{other}))
	case "plan-null":
		return cty.NullVal(plan.Type())
	case "plan-early": // known before it can be
		if !plan.GetAttr("opt").IsKnown() {
			return with(plan, "comp", cty.StringVal("early"))
		}
		return with(plan, "comp", cty.StringVal("late"))
	case "plan-late": // a promise that the second plan narrows
		if plan.GetAttr("opt").IsKnown() {
			return with(plan, "comp", cty.StringVal("late"))
		}
	}
	return plan
}

func (g *wireProvider) ApplyResourceChange(_ context.Context, q *tfprotov6.ApplyResourceChangeRequest,
) (*tfprotov6.ApplyResourceChangeResponse, error) {
	schema := wireSchema()
	prior, plan, config := open(schema, q.PriorState), open(schema, q.PlannedState), open(schema, q.Config)
	_, order := g.hear("Apply", q.PlannedPrivate, map[string]cty.Value{"prior": prior, "planned": plan, "config": config})
	if plan.IsNull() {
		resp := &tfprotov6.ApplyResourceChangeResponse{NewState: pack(plan), Diagnostics: said(order, "delete")}
		switch {
		case len(resp.Diagnostics) > 0 && order == "delete-error", order == "delete-stays":
			resp.NewState, resp.Private = pack(prior), []byte(`"left"`)
		case order == "delete-null-error":
			resp.Diagnostics = said("delete-error", "delete")
		}
		return resp, nil
	}
	made, err := cty.Transform(plan, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if v.IsKnown() {
			return v, nil
		}
		return filled(v.Type()), nil
	})
	if err != nil {
		panic(err)
	}
	told := string(q.PlannedPrivate[:max(0, len(q.PlannedPrivate)-1)])
	resp := &tfprotov6.ApplyResourceChangeResponse{Private: []byte(told + ` and applied"`)}
	resp.Diagnostics = said(order, "apply")
	resp.NewState = pack(misapplied(made, prior, plan, order))
	if order == "apply-partial" || order == "apply-null-error" || order == "apply-unknown-error" {
		resp.Diagnostics = said("apply-error", "apply")
	}
	return resp, nil
}

// filled is what becomes of an unknown value.
func filled(ty cty.Type) cty.Value {
	switch {
	case ty == cty.String:
		return cty.StringVal("made")
	case ty == cty.Number:
		return cty.NumberIntVal(7)
	case ty == cty.Bool:
		return cty.True
	case ty.IsObjectType():
		parts := map[string]cty.Value{}
		for name, part := range ty.AttributeTypes() {
			parts[name] = filled(part)
			if name == "opt" || name == "force" { // what only a configuration gives
				parts[name] = cty.NullVal(part)
			}
		}
		return cty.ObjectVal(parts)
	case ty.IsListType():
		return cty.ListVal([]cty.Value{filled(ty.ElementType())})
	case ty.IsSetType():
		return cty.SetVal([]cty.Value{filled(ty.ElementType())})
	}
	return cty.MapVal(map[string]cty.Value{"made": filled(ty.ElementType())})
}

// misapplied is a result with the fault that was ordered.
func misapplied(made, prior, plan cty.Value, order string) cty.Value {
	other, none := cty.StringVal("other"), cty.NullVal(cty.String)
	switch order {
	case "apply-opt", "apply-opt-filled":
		return with(made, "opt", other)
	case "apply-opt-null":
		return with(made, "opt", none)
	case "apply-comp":
		return with(made, "comp", other)
	case "apply-hidden":
		return with(made, "hidden", other)
	case "apply-secret":
		return with(made, "secret", other)
	case "apply-unknown", "apply-unknown-error":
		return plan
	case "apply-group":
		return with(made, "group.opt", other)
	case "apply-group-null":
		return with(made, "group", cty.NullVal(made.GetAttr("group").Type()))
	case "apply-slot":
		return with(made, "slots.a.opt", other)
	case "apply-slot-more":
		return with(made, "slots.more", made.GetAttr("slots").Index(cty.StringVal("a")))
	case "apply-slot-less":
		return with(made, "slots", cty.MapValEmpty(made.GetAttr("slots").Type().ElementType()))
	case "apply-units":
		return with(made, "units", cty.SetVal([]cty.Value{filled(made.GetAttr("units").Type().ElementType())}))
	case "apply-tags":
		return with(made, "tags", cty.ListVal([]cty.Value{other}))
	case "apply-members":
		return with(made, "members", cty.SetVal([]cty.Value{other}))
	case "apply-null", "apply-null-error":
		return cty.NullVal(made.Type())
	case "apply-partial":
		return with(made, "opt", none)
	case "apply-nothing":
		return prior
	}
	return made
}

func (g *wireProvider) ImportResourceState(_ context.Context, q *tfprotov6.ImportResourceStateRequest,
) (*tfprotov6.ImportResourceStateResponse, error) {
	name := q.ID
	null := schemaOf(wireSchema()).AllNull()
	order := g.orderOf(name)
	one := &tfprotov6.ImportedResource{TypeName: "sample_gadget", Private: []byte(`"imported"`),
		State: pack(with(with(null, "name", cty.StringVal(name)), "id", cty.StringVal("imported")))}
	resp := &tfprotov6.ImportResourceStateResponse{ImportedResources: []*tfprotov6.ImportedResource{one}, Diagnostics: said(order, "import")}
	switch order {
	case "import-none":
		resp.ImportedResources = nil
	case "import-null":
		one.State = pack(cty.NullVal(null.Type()))
	case "import-unknown":
		one.State = pack(with(with(null, "name", cty.StringVal(name)), "comp", cty.UnknownVal(cty.String)))
	}
	return resp, nil
}

func (g *wireProvider) orderOf(name string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.orders[name]
}
