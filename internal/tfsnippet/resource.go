package tfsnippet

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// Resource is proxmox_snippet.
type Resource struct{ tfkit.ResourceBase }

var (
	_ resource.ResourceWithConfigure      = &Resource{}
	_ resource.ResourceWithModifyPlan     = &Resource{}
	_ resource.ResourceWithValidateConfig = &Resource{}
	_ resource.ResourceWithImportState    = &Resource{}
)

// New makes the resource.
func New() resource.Resource { return &Resource{} }

// Metadata names the resource.
func (r *Resource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_snippet"
}

// Schema is the shape of the resource.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = snippetSchema(ctx)
}

func (r *Resource) attempt(verb string, m model) tfkit.Attempt {
	return tfkit.Attempt{Verb: verb, Thing: m.thing(), At: locator{}, As: r.Session.User(), Stateless: true}
}

// ValidateConfig refuses content that is not of its kind.
func (r *Resource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m model
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	if m.Content.IsUnknown() || m.Kind.IsUnknown() {
		return
	}
	if err := check(m.Kind.ValueString(), m.Content.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("content"), "The snippet is no "+m.Kind.ValueString(), "As it is now "+err.Error()+".")
	}
}

// ModifyPlan says what it will hold, and asks the server about a new one.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	m, prior, ok := tfkit.Planned[model](ctx, req, resp)
	if !ok {
		return
	}
	isNew := !m.Node.Equal(prior.Node) || !m.Storage.Equal(prior.Storage) || !m.Name.Equal(prior.Name)
	m.SHA256 = types.StringUnknown()
	if !m.Content.IsUnknown() {
		m.SHA256 = types.StringValue(m.spec().SHA256())
	}
	if m.isPlaceKnown() {
		m.Volume = types.StringValue(m.spec().Volume())
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &m)...)
	if isNew && m.isPlaceKnown() && r.Session.Known() {
		r.Session.VMs.WillHave(ctx, m.Node.ValueString(), m.Volume.ValueString())
	}
	if isNew && m.isPlaceKnown() && !m.Content.IsUnknown() && r.Session.Known() {
		resp.Diagnostics.Append(tfkit.Diagnose(r.attempt("plan", m), r.Session.VMs.Snippets.Check(ctx, m.spec()))...)
	}
}

// Create writes the snippet.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	limit := tfkit.Duration(m.Timeouts.Limits().Create, tfkit.CreateTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("create", m), func(ctx context.Context) error {
		spec := m.spec()
		made, err := r.Session.VMs.Snippets.Create(ctx, spec)
		if err != nil {
			return err
		}
		m.wrote(spec)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		if made {
			resp.Diagnostics.Append(written.Write(ctx, resp.Private, spec.SHA256())...)
		}
		return nil
	})
}

// Read looks what is in the file.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m model
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	r.Refresh(ctx, &resp.Diagnostics, tfkit.ReadTimeout, r.attempt("read", m), func(ctx context.Context) error {
		content, there, err := r.Session.VMs.Snippets.Read(ctx, m.spec())
		switch {
		case err != nil:
			return err
		case !there:
			resp.State.RemoveResource(ctx)
		case content.SHA256 != m.SHA256.ValueString():
			m.found(m.spec(), content)
			resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		}
		return nil
	})
}

// Update writes the snippet anew. It must hold what the plan has shown.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m, prior model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	limit := tfkit.Duration(m.Timeouts.Limits().Update, tfkit.UpdateTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("update", m), func(ctx context.Context) error {
		spec := m.spec()
		if prior.SHA256.ValueString() != spec.SHA256() || prior.spec().Executable != spec.Executable {
			if err := r.Session.VMs.Snippets.Update(ctx, spec, prior.SHA256.ValueString()); err != nil {
				return err
			}
			resp.Diagnostics.Append(written.Write(ctx, resp.Private, spec.SHA256())...)
		}
		m.wrote(spec)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}

// Delete removes the snippet, if this resource has written it.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m model
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	last, diags := written.Read(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	limit := tfkit.Duration(m.Timeouts.Limits().Delete, tfkit.DeleteTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("destroy", m), func(ctx context.Context) error {
		if last == "" {
			resp.Diagnostics.AddWarning("The snippet stays: "+m.Volume.ValueString(), fmt.Sprintf("It is on node %s, and was there with this very "+
				"content before the resource. It is not in state any more.", m.Node.ValueString()))
			return nil
		}
		return r.Session.VMs.Snippets.Delete(ctx, m.spec(), last)
	})
}

// ImportState adopts a snippet by "node/volume": "pve1/local:snippets/web.yaml". From then on it is the resource's own.
func (r *Resource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	node, volume, ok := strings.Cut(req.ID, "/")
	storage, rest, colon := strings.Cut(volume, ":")
	name, isSnippet := strings.CutPrefix(rest, "snippets/")
	if !ok || !colon || !isSnippet || !fileName.MatchString(name) {
		resp.Diagnostics.AddError("Cannot import "+req.ID, "The id is node/volume, such as pve1/local:snippets/web.yaml.")
		return
	}
	m := model{Node: types.StringValue(node), Storage: types.StringValue(storage), Name: types.StringValue(name)}
	r.Do(ctx, &resp.Diagnostics, tfkit.ReadTimeout, r.attempt("import", m), func(ctx context.Context) error {
		content, there, err := r.Session.VMs.Snippets.Read(ctx, m.spec())
		switch {
		case err != nil:
			return err
		case !there:
			return fmt.Errorf("there is no %s on node %s", volume, node)
		}
		m.found(m.spec(), content)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		resp.Diagnostics.Append(written.Write(ctx, resp.Private, content.SHA256)...)
		return nil
	})
}

// written is the checksum of what the resource has written; without it somebody else has written the file.
const written tfkit.Note[string] = "written"
