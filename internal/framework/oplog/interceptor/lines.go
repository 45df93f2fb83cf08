package interceptor

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// lines makes Terraform show the line of a diagnostic. It knows the lines of a block's own attributes only, and shows
// the first line of the block for all within one (tfdiags/contextual.go, ElaborateFromConfigBody). So such a diagnostic
// is put on the attribute of the block, and its text begins with the whole name.
type lines struct{ Backend }

func shownOn(said []*tfprotov6.Diagnostic) {
	for _, d := range said {
		if steps := d.Attribute.Steps(); len(steps) > 1 {
			d.Detail = nameOf(steps) + ": " + d.Detail
			d.Attribute = tftypes.NewAttributePathWithSteps(steps[:1])
		}
	}
}

// nameOf is a path as people read it.
func nameOf(steps []tftypes.AttributePathStep) string {
	var names []string
	for _, step := range steps {
		switch s := step.(type) {
		case tftypes.AttributeName:
			names = append(names, string(s))
		case tftypes.ElementKeyString:
			names = append(names, string(s))
		}
	}
	return strings.Join(names, ".")
}

// ValidateResourceConfig checks a configuration.
func (l *lines) ValidateResourceConfig(ctx context.Context,
	req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	resp, err := l.Backend.ValidateResourceConfig(ctx, req)
	if resp != nil {
		shownOn(resp.Diagnostics)
	}
	return resp, err
}

// PlanResourceChange plans a change.
func (l *lines) PlanResourceChange(ctx context.Context,
	req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	resp, err := l.Backend.PlanResourceChange(ctx, req)
	if resp != nil {
		shownOn(resp.Diagnostics)
	}
	return resp, err
}

// ApplyResourceChange carries a change out.
func (l *lines) ApplyResourceChange(ctx context.Context,
	req *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	resp, err := l.Backend.ApplyResourceChange(ctx, req)
	if resp != nil {
		shownOn(resp.Diagnostics)
	}
	return resp, err
}
