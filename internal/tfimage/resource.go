package tfimage

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/image"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// Resource is proxmox_image.
type Resource struct{ tfkit.ResourceBase }

var (
	_ resource.ResourceWithConfigure      = &Resource{}
	_ resource.ResourceWithModifyPlan     = &Resource{}
	_ resource.ResourceWithValidateConfig = &Resource{}
	_ resource.ResourceWithImportState    = &Resource{}
)

// New makes the resource.
func New() resource.Resource { return &Resource{} }

// createTimeout is the time that a create may take by default: files are large.
const createTimeout = time.Hour

// Metadata names the resource.
func (r *Resource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_image"
}

// Schema is the shape of the resource.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = imageSchema(ctx)
}

func (r *Resource) attempt(verb string, m model) tfkit.Attempt {
	return tfkit.Attempt{Verb: verb, Thing: m.thing(), At: locator{}, As: r.Session.User(), Stateless: true}
}

// Create puts the file onto the storage.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	limit := tfkit.Duration(m.Timeouts.Limits().Create, createTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("create", m), func(ctx context.Context) error {
		spec, err := r.resolve(ctx, m)
		if err != nil {
			return asField("source_file", "The file cannot be uploaded", err)
		}
		file, warnings, err := r.Session.VMs.Images.Create(ctx, spec)
		if err != nil {
			return err
		}
		resp.Diagnostics.Append(tfkit.Warn(warnings)...)
		m.found(file)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		if file.Made {
			resp.Diagnostics.Append(noted.Write(ctx, resp.Private, &file.MadeFile)...)
		}
		return nil
	})
}

// resolve reads the file that is to be uploaded, if one is, and gives the file its name.
func (r *Resource) resolve(ctx context.Context, m model) (image.Spec, error) {
	if m.SourceFile.IsNull() {
		return m.spec(nil)
	}
	source, err := r.Session.VMs.Images.Local(ctx, m.SourceFile.ValueString(), m.checksum())
	if err != nil {
		return image.Spec{}, err
	}
	return m.spec(&source)
}

// Read looks for the file. One that somebody has put in its place is none of the resource's.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m model
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	made, diags := noted.Read(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	r.Refresh(ctx, &resp.Diagnostics, tfkit.ReadTimeout, r.attempt("read", m), func(ctx context.Context) error {
		file, there, err := r.Session.VMs.Images.Read(ctx, m.Node.ValueString(), m.Storage.ValueString(), m.Content.ValueString(),
			m.Volume.ValueString())
		switch {
		case err != nil:
			return err
		case !there:
			resp.State.RemoveResource(ctx)
			return nil
		}
		file.Made = made != nil && made.Size == file.Size && made.CreatedAt.Equal(file.CreatedAt)
		if file.Made {
			r.Session.VMs.Images.Owned(file.Node, file.Volume)
		}
		m.found(file)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}

// Update changes what only the provider reads: anything else replaces the resource.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Delete removes the file, if it is the one that the resource has put there.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m model
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	made, diags := noted.Read(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if m.OnDestroy.ValueString() == onDestroyKeep {
		return
	}
	if made == nil && m.Owned.ValueBool() { // Terraform forgets the private state of what is tainted
		made = m.made()
	}
	limit := tfkit.Duration(m.Timeouts.Limits().Delete, tfkit.DeleteTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, r.attempt("destroy", m), func(ctx context.Context) error {
		if made == nil {
			resp.Diagnostics.AddWarning("The file stays: "+m.Volume.ValueString(), fmt.Sprintf("It is on node %s, and this resource "+
				"has not put it there: it was there before, or the answer to the request was lost. It is not in state any more. "+
				"on_destroy = \"keep\" says the same without a warning.", m.Node.ValueString()))
			return nil
		}
		made.Node = m.Node.ValueString()
		err := r.Session.VMs.Images.Delete(ctx, *made)
		if other := (*remove.OtherFileError)(nil); errors.As(err, &other) {
			resp.Diagnostics.AddWarning("The file stays: "+m.Volume.ValueString(), "Somebody has put another in its place: "+other.Error()+
				". It is not in state any more.")
			return nil
		}
		return err
	})
}

// madeName is how names of files look that this resource makes.
var madeName = regexp.MustCompile(`-[0-9a-f]{12}\.[a-z0-9]+$`)

// ImportState adopts a file by "node/volume": "pve1/local:import/debian-12-3f2a9c1b7d04.qcow2". It is not owned: who made it
// nobody knows.
func (r *Resource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	node, volume, ok := strings.Cut(req.ID, "/")
	storage, rest, colon := strings.Cut(volume, ":")
	content, name, slash := strings.Cut(rest, "/")
	if !ok || !colon || !slash || content != "import" && content != "iso" || !madeName.MatchString(name) {
		resp.Diagnostics.AddError("Cannot import "+req.ID, "The id is node/volume, such as "+
			"pve1/local:import/debian-12-3f2a9c1b7d04.qcow2, of a file whose "+
			"name ends with twelve digits of its checksum: this resource makes no others. What else is on a storage the data "+
			"source proxmox_files finds.")
		return
	}
	m := model{Node: types.StringValue(node), Storage: types.StringValue(storage), Content: types.StringValue(content),
		Volume: types.StringValue(volume), VerifyCertificates: types.BoolValue(true), OnDestroy: types.StringValue(onDestroyDelete)}
	r.Do(ctx, &resp.Diagnostics, tfkit.ReadTimeout, r.attempt("import", m), func(ctx context.Context) error {
		file, there, err := r.Session.VMs.Images.Read(ctx, node, storage, content, volume)
		switch {
		case err != nil:
			return err
		case !there:
			return fmt.Errorf("there is no %s on node %s", volume, node)
		}
		m.found(file)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}

// noted is which file the resource has put there.
const noted tfkit.Note[*remove.MadeFile] = "made"

// made is the file in state, if it is known when it was made.
func (m *model) made() *remove.MadeFile {
	created, err := time.Parse(time.RFC3339, m.Created.ValueString())
	if err != nil {
		return nil
	}
	return &remove.MadeFile{Volume: m.Volume.ValueString(), Size: m.Size.ValueInt64(), CreatedAt: created}
}

func (m *model) found(f image.File) {
	m.Volume, m.Size, m.Owned = types.StringValue(f.Volume), types.Int64Value(f.Size), types.BoolValue(f.Made)
	m.Created = types.StringValue(f.CreatedAt.UTC().Format(time.RFC3339))
}

// ValidateConfig refuses what no server takes.
func (r *Resource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m model
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	refuse := func(at, summary, detail string) { resp.Diagnostics.AddAttributeError(path.Root(at), summary, detail) }
	if m.Content.IsNull() {
		m.Content = types.StringValue("import")
	}
	switch {
	case !m.URL.IsNull() && !m.SourceFile.IsNull():
		refuse("source_file", "Two sources", "The file comes from url or from source_file, not from both.")
	case m.URL.IsNull() && m.SourceFile.IsNull():
		refuse("url", "No source", "Set url, from which the node downloads the file, or source_file, which is uploaded.")
	case !m.Compression.IsNull() && m.URL.IsNull():
		refuse("compression", "Uploads are not decompressed", "PVE decompresses downloads only. Decompress the file here, and "+
			"leave compression out.")
	case !m.Compression.IsNull() && m.Content.ValueString() == "import":
		refuse("compression", "Import content is not decompressed", "PVE decompresses ISO content only (\"decompression not "+
			"supported for import\"). "+
			"Give the URL of a file that is not compressed, or decompress it and upload it with source_file.")
	case !m.VerifyCertificates.IsNull() && m.URL.IsNull():
		refuse("verify_certificates", "Nothing is downloaded", "verify_certificates belongs to url.")
	case m.isKnown():
		if m.Checksum.IsNull() && m.URL.IsNull() {
			m.Checksum = types.StringValue(strings.Repeat("0", 64)) // that of a file which is not read yet
		}
		if _, err := m.spec(nil); err != nil {
			field := asField("file_name", "The file has no usable name", err)
			refuse(field.Path, field.Summary, field.Detail+".")
		}
	}
}
