package function

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"
)

// pure is a function as data: its name, its documentation and its code.
type pure struct {
	name       string
	definition function.Definition
	run        func(context.Context, function.RunRequest, *function.RunResponse) *function.FuncError
}

var _ function.Function = pure{}

// Metadata names the function.
func (p pure) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = p.name
}

// Definition returns the signature and the documentation.
func (p pure) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = p.definition
}

// Run computes the result.
func (p pure) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	resp.Error = p.run(ctx, req, resp)
}

// text returns a parameter that accepts a string.
func text(name, about string) function.StringParameter {
	return function.StringParameter{Name: name, MarkdownDescription: about}
}

// whole returns a parameter that accepts a whole number.
func whole(name, about string) function.Int64Parameter {
	return function.Int64Parameter{Name: name, MarkdownDescription: about}
}
