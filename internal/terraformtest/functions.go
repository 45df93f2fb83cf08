package terraformtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// ownFunctions are the provider's, by the names under which a configuration calls them: provider::toy::repeat, where toy is what
// the configuration calls the provider.
func (p *process) ownFunctions(ctx context.Context, local string) (map[string]function.Function, error) {
	all := map[string]function.Function{}
	for name, f := range p.functions {
		made, err := p.ownFunction(ctx, name, f)
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", name, err)
		}
		all["provider::"+local+"::"+name] = made
	}
	return all, nil
}

func (p *process) ownFunction(ctx context.Context, name string, f *tfprotov6.Function) (function.Function, error) {
	spec := &function.Spec{}
	for _, of := range f.Parameters {
		param, err := parameterOf(of)
		if err != nil {
			return function.Function{}, err
		}
		spec.Params = append(spec.Params, param)
	}
	if f.VariadicParameter != nil {
		param, err := parameterOf(f.VariadicParameter)
		if err != nil {
			return function.Function{}, err
		}
		spec.VarParam = &param
	}
	returns, err := objchange.CtyType(f.Return.Type)
	if err != nil {
		return function.Function{}, err
	}
	spec.Type = function.StaticReturnType(returns)
	spec.Impl = func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		req := &tfprotov6.CallFunctionRequest{Name: name}
		for _, arg := range args {
			value, err := encode(arg, arg.Type())
			if err != nil {
				return cty.NilVal, err
			}
			req.Arguments = append(req.Arguments, value)
		}
		var resp *tfprotov6.CallFunctionResponse
		err := p.call(ctx, "CallFunction", name, func(ctx context.Context) (err error) {
			resp, err = p.server.CallFunction(ctx, req)
			return err
		})
		switch {
		case err != nil:
			return cty.NilVal, err
		case resp.Error != nil && resp.Error.FunctionArgument != nil:
			return cty.NilVal, function.NewArgErrorf(int(*resp.Error.FunctionArgument), "%s", resp.Error.Text)
		case resp.Error != nil:
			return cty.NilVal, errors.New(resp.Error.Text)
		}
		return decode(resp.Result, returns)
	}
	return function.New(spec), nil
}

func parameterOf(of *tfprotov6.FunctionParameter) (function.Parameter, error) {
	typ, err := objchange.CtyType(of.Type)
	return function.Parameter{Name: of.Name, Type: typ, AllowNull: of.AllowNullValue, AllowUnknown: of.AllowUnknownValues}, err
}

// functions are the Terraform functions that configurations of the driver may call: the pure ones that cty brings.
func functions() map[string]function.Function {
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "chomp": stdlib.ChompFunc, "coalesce": stdlib.CoalesceFunc,
		"concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc,
		"element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "floor": stdlib.FloorFunc, "format": stdlib.FormatFunc,
		"indent": stdlib.IndentFunc, "join": stdlib.JoinFunc, "jsondecode": stdlib.JSONDecodeFunc,
		"jsonencode": stdlib.JSONEncodeFunc, "keys": stdlib.KeysFunc, "length": stdlib.LengthFunc, "lower": stdlib.LowerFunc,
		"max": stdlib.MaxFunc, "merge": stdlib.MergeFunc, "min": stdlib.MinFunc, "range": stdlib.RangeFunc,
		"replace": stdlib.ReplaceFunc, "reverse": stdlib.ReverseListFunc, "sort": stdlib.SortFunc, "split": stdlib.SplitFunc,
		"substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc, "trimspace": stdlib.TrimSpaceFunc, "upper": stdlib.UpperFunc,
		"values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,
		"toset":    stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"tolist":   stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap":    stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"tostring": stdlib.MakeToFunc(cty.String), "tonumber": stdlib.MakeToFunc(cty.Number), "tobool": stdlib.MakeToFunc(cty.Bool),
	}
}
