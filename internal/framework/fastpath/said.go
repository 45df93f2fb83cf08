package fastpath

import (
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// said are diagnostics as the protocol has them. ok is false where the framework has to write one of their paths.
func said(diags diag.Diagnostics) (all []*tfprotov6.Diagnostic, ok bool) {
	for _, d := range diags {
		written := &tfprotov6.Diagnostic{Summary: d.Summary(), Detail: d.Detail()}
		switch d.Severity() {
		case diag.SeverityError:
			written.Severity = tfprotov6.DiagnosticSeverityError
		case diag.SeverityWarning:
			written.Severity = tfprotov6.DiagnosticSeverityWarning
		default:
			return nil, false
		}
		if at, placed := d.(diag.DiagnosticWithPath); placed {
			if written.Attribute, ok = pathOf(at.Path()); !ok {
				return nil, false
			}
		}
		all = append(all, written)
	}
	return all, true
}

// replacing are the attributes that require a replacement, in the framework's order and each once
// (internal/fwserver/server_planresourcechange.go NormaliseRequiresReplace).
func replacing(paths path.Paths) (all []*tftypes.AttributePath, ok bool) {
	sorted := slices.Clone(paths)
	slices.SortFunc(sorted, func(a, b path.Path) int { return strings.Compare(a.String(), b.String()) })
	for _, p := range slices.CompactFunc(sorted, path.Path.Equal) {
		written, known := pathOf(p)
		if !known {
			return nil, false
		}
		all = append(all, written)
	}
	return all, true
}

// pathOf is a path as the protocol has it. ok is false for one through a set.
func pathOf(p path.Path) (written *tftypes.AttributePath, ok bool) {
	var steps []tftypes.AttributePathStep
	for _, step := range p.Steps() {
		switch s := step.(type) {
		case path.PathStepAttributeName:
			steps = append(steps, tftypes.AttributeName(s))
		case path.PathStepElementKeyInt:
			steps = append(steps, tftypes.ElementKeyInt(s))
		case path.PathStepElementKeyString:
			steps = append(steps, tftypes.ElementKeyString(s))
		default:
			return nil, false
		}
	}
	return tftypes.NewAttributePathWithSteps(steps), true
}
