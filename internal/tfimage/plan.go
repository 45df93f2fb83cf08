package tfimage

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/image"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// ModifyPlan decides whether the plan means the file in state or another one, and asks the server about a new one. The volume of
// a new one is known before it is there, so that what is made of it is planned as it will be: a VM is replaced if its image is.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	m, prior, ok := tfkit.Planned[model](ctx, req, resp)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	spec, known := r.wanted(ctx, m, prior, resp)
	if resp.Diagnostics.HasError() {
		return
	}
	if known && !prior.Volume.IsNull() && prior.Volume.ValueString() == spec.Volume() && prior.Node.Equal(m.Node) {
		m.Volume, m.Size, m.Created, m.Owned = prior.Volume, prior.Size, prior.Created, prior.Owned
		resp.Diagnostics.Append(resp.Plan.Set(ctx, &m)...)
		r.warnOfAnother(ctx, req, prior, resp)
		return
	}
	m.Volume, m.Size, m.Created, m.Owned = types.StringUnknown(), types.Int64Unknown(), types.StringUnknown(), types.BoolUnknown()
	if known && r.Session.Known() {
		resp.Diagnostics.Append(tfkit.Verdicts(r.attempt("plan", m), r.Session.VMs.Images.Check(ctx, spec), nil)...)
		m.Volume = types.StringValue(spec.Volume())
		r.Session.VMs.WillHave(ctx, spec.Node, spec.Volume())
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &m)...)
	if !prior.Volume.IsNull() {
		resp.RequiresReplace = append(resp.RequiresReplace, changed(m, prior)...)
	}
}

// wanted is the file that a plan means, where that is known.
func (r *Resource) wanted(ctx context.Context, m, prior model, resp *resource.ModifyPlanResponse) (image.Spec, bool) {
	if !m.isKnown() {
		return image.Spec{}, false
	}
	isSame := !prior.Volume.IsNull() && prior.SourceFile.Equal(m.SourceFile) && prior.Checksum.Equal(m.Checksum)
	if !m.SourceFile.IsNull() && !r.Session.Known() { // the next plan looks at the file
		return asBefore(m, prior), isSame
	}
	spec, err := r.resolve(ctx, m)
	missing := (*image.MissingError)(nil)
	switch {
	case errors.As(err, &missing) && isSame:
		resp.Diagnostics.AddAttributeWarning(path.Root("source_file"), "There is no file "+m.SourceFile.ValueString()+" on this machine",
			fmt.Sprintf("Whether it differs from %s cannot be told, so the image stays as it is.", prior.Volume.ValueString()))
		return asBefore(m, prior), true
	case err != nil:
		field := asField("source_file", "The file cannot be uploaded", err)
		at, _ := locator{}.Attribute(field.Path)
		resp.Diagnostics.AddAttributeError(at, field.Summary, field.Detail+".")
		return image.Spec{}, false
	}
	return spec, true
}

// asBefore is the file in state, where the file that it came from cannot be looked at: it may be as it was.
func asBefore(m, prior model) image.Spec {
	spec := image.Spec{Node: m.Node.ValueString(), Storage: m.Storage.ValueString(), Content: m.Content.ValueString()}
	if !prior.Volume.IsNull() && prior.FileName.Equal(m.FileName) {
		spec.Name = prior.Volume.ValueString()[len(prior.Storage.ValueString()+":"+prior.Content.ValueString()+"/"):]
	}
	return spec
}

// changed are the attributes for which the resource is replaced.
func changed(m, prior model) path.Paths {
	var all path.Paths
	for name, pair := range map[string][2]types.String{
		"node": {m.Node, prior.Node}, "storage": {m.Storage, prior.Storage}, "content": {m.Content, prior.Content},
		"url":         {m.URL, prior.URL},
		"source_file": {m.SourceFile, prior.SourceFile}, "checksum": {m.Checksum, prior.Checksum},
		"compression": {m.Compression, prior.Compression},
		"file_name":   {m.FileName, prior.FileName},
	} {
		if !pair[0].Equal(pair[1]) {
			all = append(all, path.Root(name))
		}
	}
	if len(all) == 0 { // the file of this machine has changed
		all = append(all, path.Root("volume"))
	}
	return all
}

// warnOfAnother says that somebody has put another file in the place of the one that the resource has made. It is no error:
// Terraform makes such a plan before a destroy, too.
func (r *Resource) warnOfAnother(ctx context.Context, req resource.ModifyPlanRequest, prior model, resp *resource.ModifyPlanResponse) {
	made, diags := noted.Read(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if made == nil || prior.Owned.ValueBool() || made.Size == prior.Size.ValueInt64() {
		return
	}
	resp.Diagnostics.AddAttributeWarning(path.Root("volume"), "Another file is in the place of "+made.Volume,
		fmt.Sprintf("The file that was put there had %d bytes, this one has %d: it is not what the configuration means. It was "+
			"not touched. Remove it "+
			"and apply again, which puts the right one there, or set file_name to another name.", made.Size, prior.Size.ValueInt64()))
}
