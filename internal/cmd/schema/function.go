package main

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

func functionsOf(all map[string]*tfprotov6.Function) (map[string]function, error) {
	out := map[string]function{}
	for name, f := range all {
		made := function{Description: f.Description, Summary: f.Summary, Deprecated: f.DeprecationMessage}
		var err error
		if made.Returns, err = json.Marshal(f.Return.Type); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, p := range f.Parameters {
			one, err := parameterOf(p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			made.Parameters = append(made.Parameters, *one)
		}
		if f.VariadicParameter != nil {
			if made.Variadic, err = parameterOf(f.VariadicParameter); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		out[name] = made
	}
	return out, nil
}

func parameterOf(p *tfprotov6.FunctionParameter) (*parameter, error) {
	typ, err := json.Marshal(p.Type)
	return &parameter{Name: p.Name, Description: p.Description, Nullable: p.AllowNullValue, Type: typ}, err
}
