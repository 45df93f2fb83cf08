package tfcloudinit

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nocloud"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// Resource is proxmox_cloud_init_iso.
type Resource struct{ tfkit.ResourceBase }

var (
	_ resource.ResourceWithConfigure      = &Resource{}
	_ resource.ResourceWithModifyPlan     = &Resource{}
	_ resource.ResourceWithValidateConfig = &Resource{}
)

// New makes the resource.
func New() resource.Resource { return &Resource{} }

// Metadata names the resource.
func (r *Resource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_cloud_init_iso"
}

// Schema is the shape of the resource.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = discSchema(ctx)
}

func (r *Resource) attempt(verb string, m model) tfkit.Attempt {
	return tfkit.Attempt{Verb: verb, Thing: m.thing(), At: locator{}, As: r.Session.User(), Stateless: true}
}

// ValidateConfig refuses documents that cloud-init would not understand.
func (r *Resource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m model
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	for _, d := range m.documents() {
		if err := nocloud.Check(d.kind, d.text.ValueString()); err != nil {
			resp.Diagnostics.AddAttributeError(path.Root(d.attribute), "cloud-init would not understand the "+string(d.kind),
				"As it is now "+err.Error()+".")
		}
	}
}

// ModifyPlan says which disc it will be, and asks the server about a new one.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	m, prior, ok := tfkit.Planned[model](ctx, req, resp)
	if !ok {
		return
	}
	m.SHA256, m.Size, m.Volume = types.StringUnknown(), types.Int64Unknown(), types.StringUnknown()
	if !m.areDocumentsKnown() {
		resp.Diagnostics.Append(resp.Plan.Set(ctx, &m)...)
		return
	}
	spec, err := m.spec()
	m.SHA256, m.Size = types.StringValue(spec.Source.Checksum.Value), types.Int64Value(spec.Source.Size)
	if m.isPlaceKnown() && err == nil {
		m.Volume = types.StringValue(spec.Volume())
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &m)...)
	switch {
	case !m.isPlaceKnown() || m.isAsBefore(prior):
	case err != nil:
		resp.Diagnostics.Append(tfkit.Diagnose(r.attempt("plan", m), err)...)
	case r.Session.Known():
		r.Session.VMs.WillHave(ctx, spec.Node, spec.Volume())
		resp.Diagnostics.Append(tfkit.Verdicts(r.attempt("plan", m), r.Session.VMs.Images.Check(ctx, spec), nil)...)
	}
}

// Create puts the disc onto the storage.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	limit := tfkit.Duration(m.Timeouts.Limits().Create, tfkit.CreateTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("create", m), func(ctx context.Context) error {
		made, warnings, err := r.put(ctx, &m)
		if err != nil {
			return err
		}
		resp.Diagnostics.Append(tfkit.Warn(warnings)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		resp.Diagnostics.Append(noteMade(ctx, resp.Private, made)...)
		return nil
	})
}

// put uploads the disc of a plan, unless it is there, and says which file was made.
func (r *Resource) put(ctx context.Context, m *model) ([]remove.MadeFile, []guest.Warning, error) {
	spec, err := m.spec()
	if err != nil {
		return nil, nil, err
	}
	file, warnings, err := r.Session.VMs.Images.Create(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	m.SHA256, m.Size, m.Volume = types.StringValue(spec.Source.Checksum.Value), types.Int64Value(file.Size), types.StringValue(file.Volume)
	if !file.Made {
		return nil, warnings, nil
	}
	return []remove.MadeFile{file.MadeFile}, warnings, nil
}

// Read looks for the disc. One of another size is not it: it is uploaded anew.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m model
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	r.Refresh(ctx, &resp.Diagnostics, tfkit.ReadTimeout, r.attempt("read", m), func(ctx context.Context) error {
		file, there, err := r.Session.VMs.Images.Read(ctx, m.Node.ValueString(), m.Storage.ValueString(), "iso", m.Volume.ValueString())
		switch {
		case err != nil:
			return err
		case !there:
			r.forget(ctx, req, &m, resp)
		case file.Size != m.Size.ValueInt64():
			resp.Diagnostics.AddWarning("Another file is in the place of "+m.Volume.ValueString(), fmt.Sprintf("It has %d bytes, and the disc "+
				"that was put there has %d. It was not touched. Remove it and apply again, or set name to another one.", file.Size,
				m.Size.ValueInt64()))
		}
		return nil
	})
}

// forget drops a disc that is gone. Earlier ones, if there still are some, go with the next.
func (r *Resource) forget(ctx context.Context, req resource.ReadRequest, m *model, resp *resource.ReadResponse) {
	made, diags := readMade(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	for _, f := range made {
		if !m.has(f) {
			m.Volume = types.StringNull() // the resource stays, since it remembers them; the plan puts the disc there again
			resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
			return
		}
	}
	resp.State.RemoveResource(ctx)
}

// Update puts another disc onto the storage. The VM that has the earlier one gets the new one after this, so that the earlier one
// stays until then.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m, prior model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	earlier, diags := readMade(ctx, req.Private)
	if resp.Diagnostics.Append(diags...); resp.Diagnostics.HasError() {
		return
	}
	if m.isAsBefore(prior) { // nothing but what only the provider reads
		resp.State.Raw = req.Plan.Raw
		return
	}
	limit := tfkit.Duration(m.Timeouts.Limits().Update, tfkit.UpdateTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("update", m), func(ctx context.Context) error {
		made, warnings, err := r.put(ctx, &m)
		if err != nil {
			return err
		}
		resp.Diagnostics.Append(tfkit.Warn(warnings)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		for _, f := range earlier {
			if m.has(f) { // it is wanted again
				made = append(made, f)
			} else if err := r.remove(ctx, f, &resp.Diagnostics); err != nil {
				made = append(made, f)
				resp.Diagnostics.AddWarning("An earlier disc stays for now: "+f.Volume, "The next change of this resource removes it if no guest "+
					"uses it by then, and so does its destroy.\n\n"+err.Error())
			}
		}
		resp.Diagnostics.Append(noteMade(ctx, resp.Private, made)...)
		return nil
	})
}

// remove removes a file that this resource has made. One that is another's by now stays, with a warning.
func (r *Resource) remove(ctx context.Context, f remove.MadeFile, diags *diag.Diagnostics) error {
	err := r.Session.VMs.Images.Delete(ctx, f)
	if other := (*remove.OtherFileError)(nil); errors.As(err, &other) {
		diags.AddWarning("The file stays: "+f.Volume, "Somebody has put another in its place: "+other.Error()+".")
		return nil
	}
	return err
}

// Delete removes the disc, and earlier ones that are still there, if this resource has put them there and no guest uses them.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m model
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	made, diags := readMade(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	limit := tfkit.Duration(m.Timeouts.Limits().Delete, tfkit.DeleteTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("destroy", m), func(ctx context.Context) error {
		own, failed := m.Volume.IsNull(), error(nil)
		for _, f := range made {
			own = own || m.has(f)
			failed = errors.Join(failed, r.remove(ctx, f, &resp.Diagnostics))
		}
		if !own {
			resp.Diagnostics.AddWarning("The file stays: "+m.Volume.ValueString(), fmt.Sprintf("It is on node %s, and this resource has not put "+
				"it there: it was there before, or the answer to the request was lost. It is not in state any more.", m.Node.ValueString()))
		}
		return failed
	})
}
