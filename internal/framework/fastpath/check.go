package fastpath

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// call is what every validator is told beside its value.
type call struct {
	config       tfsdk.Config
	capabilities validator.ValidateSchemaClientCapabilities
	path         path.Path
	expression   path.Expression
}

// check has the validators of one attribute look at its value. False: one of them has something to say.
type check func(ctx context.Context, at call, p *place, v tftypes.Value) bool

// each is the check of some validators, nil if there are none. silent has one of them look and reports whether it says
// nothing.
func each[C any, V attr.Value](validators []C, silent func(ctx context.Context, at call, validator C, v V) bool) check {
	if len(validators) == 0 {
		return nil
	}
	return func(ctx context.Context, at call, p *place, v tftypes.Value) bool {
		converted, err := p.typ.ValueFromTerraform(ctx, v)
		value, ok := converted.(V)
		if err != nil || !ok {
			return false
		}
		for _, validator := range validators {
			if !silent(ctx, at, validator, value) {
				return false
			}
		}
		return true
	}
}

// checkOf is what the validators of an attribute check. ok is false for an attribute that the framework does more with
// than to validate it: defaults and plan modifiers.
func checkOf(a schema.Attribute) (c check, ok bool) {
	switch a := a.(type) {
	case schema.StringAttribute:
		return plain(each(a.Validators, checkString), a.Default != nil, len(a.PlanModifiers))
	case schema.BoolAttribute:
		return plain(each(a.Validators, checkBool), a.Default != nil, len(a.PlanModifiers))
	case schema.Int64Attribute:
		return plain(each(a.Validators, checkInt64), a.Default != nil, len(a.PlanModifiers))
	case schema.Float64Attribute:
		return plain(each(a.Validators, checkFloat64), a.Default != nil, len(a.PlanModifiers))
	case schema.ListAttribute:
		return plain(each(a.Validators, checkList), a.Default != nil, len(a.PlanModifiers))
	case schema.SetAttribute:
		return plain(each(a.Validators, checkSet), a.Default != nil, len(a.PlanModifiers))
	case schema.MapAttribute:
		return plain(each(a.Validators, checkMap), a.Default != nil, len(a.PlanModifiers))
	case schema.SingleNestedAttribute:
		return plain(each(a.Validators, checkObject), a.Default != nil, len(a.PlanModifiers))
	case schema.ListNestedAttribute:
		return plain(each(a.Validators, checkList), a.Default != nil, len(a.PlanModifiers))
	case schema.MapNestedAttribute:
		return plain(each(a.Validators, checkMap), a.Default != nil, len(a.PlanModifiers))
	}
	return nil, false
}

func plain(validates check, hasDefault bool, planModifiers int) (check, bool) {
	return validates, !hasDefault && planModifiers == 0
}

func checkString(ctx context.Context, at call, v validator.String, value basetypes.StringValue) bool {
	var resp validator.StringResponse
	v.ValidateString(ctx, validator.StringRequest{Path: at.path, PathExpression: at.expression, Config: at.config,
		ConfigValue: value, ClientCapabilities: at.capabilities}, &resp)
	return len(resp.Diagnostics) == 0
}

func checkBool(ctx context.Context, at call, v validator.Bool, value basetypes.BoolValue) bool {
	var resp validator.BoolResponse
	v.ValidateBool(ctx, validator.BoolRequest{Path: at.path, PathExpression: at.expression, Config: at.config,
		ConfigValue: value, ClientCapabilities: at.capabilities}, &resp)
	return len(resp.Diagnostics) == 0
}

func checkInt64(ctx context.Context, at call, v validator.Int64, value basetypes.Int64Value) bool {
	var resp validator.Int64Response
	v.ValidateInt64(ctx, validator.Int64Request{Path: at.path, PathExpression: at.expression, Config: at.config,
		ConfigValue: value, ClientCapabilities: at.capabilities}, &resp)
	return len(resp.Diagnostics) == 0
}

func checkFloat64(ctx context.Context, at call, v validator.Float64, value basetypes.Float64Value) bool {
	var resp validator.Float64Response
	v.ValidateFloat64(ctx, validator.Float64Request{Path: at.path, PathExpression: at.expression, Config: at.config,
		ConfigValue: value, ClientCapabilities: at.capabilities}, &resp)
	return len(resp.Diagnostics) == 0
}

func checkList(ctx context.Context, at call, v validator.List, value basetypes.ListValue) bool {
	var resp validator.ListResponse
	v.ValidateList(ctx, validator.ListRequest{Path: at.path, PathExpression: at.expression, Config: at.config,
		ConfigValue: value, ClientCapabilities: at.capabilities}, &resp)
	return len(resp.Diagnostics) == 0
}

func checkSet(ctx context.Context, at call, v validator.Set, value basetypes.SetValue) bool {
	var resp validator.SetResponse
	v.ValidateSet(ctx, validator.SetRequest{Path: at.path, PathExpression: at.expression, Config: at.config,
		ConfigValue: value, ClientCapabilities: at.capabilities}, &resp)
	return len(resp.Diagnostics) == 0
}

func checkMap(ctx context.Context, at call, v validator.Map, value basetypes.MapValue) bool {
	var resp validator.MapResponse
	v.ValidateMap(ctx, validator.MapRequest{Path: at.path, PathExpression: at.expression, Config: at.config,
		ConfigValue: value, ClientCapabilities: at.capabilities}, &resp)
	return len(resp.Diagnostics) == 0
}

func checkObject(ctx context.Context, at call, v validator.Object, value basetypes.ObjectValue) bool {
	var resp validator.ObjectResponse
	v.ValidateObject(ctx, validator.ObjectRequest{Path: at.path, PathExpression: at.expression, Config: at.config,
		ConfigValue: value, ClientCapabilities: at.capabilities}, &resp)
	return len(resp.Diagnostics) == 0
}
