package file

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// imageModel is proxmox_image in configuration, plan and state.
type imageModel struct {
	Node               types.String      `tfsdk:"node"`
	Storage            types.String      `tfsdk:"storage"`
	Content            types.String      `tfsdk:"content"`
	URL                types.String      `tfsdk:"url"`
	SourceFile         types.String      `tfsdk:"source_file"`
	Checksum           types.String      `tfsdk:"checksum"`
	Compression        types.String      `tfsdk:"compression"`
	VerifyCertificates types.Bool        `tfsdk:"verify_certificates"`
	FileName           types.String      `tfsdk:"file_name"`
	OnDestroy          types.String      `tfsdk:"on_destroy"`
	Volume             types.String      `tfsdk:"volume"`
	Size               types.Int64       `tfsdk:"size"`
	Created            types.String      `tfsdk:"created"`
	Owned              types.Bool        `tfsdk:"owned"`
	Timeouts           *kit.OpenTimeouts `tfsdk:"timeouts"`
}

// The values of on_destroy.
const (
	onDestroyDelete = "delete"
	onDestroyKeep   = "keep"
)

// madeImage is the file that the resource has put onto the storage.
const madeImage kit.Note[*guard.MadeFile] = "made"

func (*imageModel) traits() traits {
	return traits{name: "_image", createTimeout: time.Hour, // images are large
		importID: "The id is node/volume, such as pve1/local:import/debian-12-3f2a9c1b7d04.qcow2. The name of the file " +
			"must end with twelve digits of its checksum, as all names that this resource gives. The data source " +
			"proxmox_files finds the other files of a storage.",
		at: locator{parameters: map[string]string{"url": "url", "content": "content", "filename": "file_name",
			"checksum": "checksum", "checksum-algorithm": "checksum", "compression": "compression",
			"verify-certificates": "verify_certificates", "storage": "storage", "node": "node"},
			attributes: map[string]string{"node": "node", "storage": "storage", "content": "content", "url": "url",
				"source_file": "source_file", "checksum": "checksum", "compression": "compression", "file_name": "file_name",
				"on_destroy": "on_destroy"}}}
}

func (i *imageModel) limits() kit.Timeouts { return i.Timeouts.Limits() }

func (i *imageModel) thing() string {
	switch {
	case !i.Volume.IsNull() && !i.Volume.IsUnknown():
		return "image " + i.Volume.ValueString() + " on " + i.Node.ValueString()
	case !i.SourceFile.IsNull():
		return "image of " + i.SourceFile.ValueString() + " on storage " + i.Storage.ValueString() + " of " +
			i.Node.ValueString()
	}
	return "image of " + shownURL(i.URL.ValueString()) + " on storage " + i.Storage.ValueString() + " of " +
		i.Node.ValueString()
}

// shownURL is an address without its user and its query, which may hold the key to the file. One that cannot be taken
// apart, such as one with a stray "%", may have a password anywhere before an "@".
func shownURL(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil && strings.Contains(address, "@"):
		return "a URL (not shown, since it may have a password)"
	case err != nil:
		address, _, _ = strings.Cut(address, "#")
		address, _, _ = strings.Cut(address, "?")
		return address
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// isKnown reports whether all attributes are known that decide which file is wanted where.
func (i *imageModel) isKnown() bool {
	for _, v := range []types.String{i.Node, i.Storage, i.Content, i.URL, i.SourceFile, i.Checksum, i.Compression,
		i.FileName} {
		if v.IsUnknown() {
			return false
		}
	}
	return true
}

func (i *imageModel) checksum() file.Checksum {
	sum, err := file.ParseChecksum(i.Checksum.ValueString())
	if err != nil {
		return file.Checksum{} // none, or one that its validator has refused
	}
	return sum
}

// spec returns the wanted file. source is the file to upload, if it has been read.
func (i *imageModel) spec(source *file.Source) (file.Spec, error) {
	s := file.Spec{Node: i.Node.ValueString(), Storage: i.Storage.ValueString(), Content: i.Content.ValueString(),
		URL: i.URL.ValueString(), Checksum: i.checksum(), Compression: i.Compression.ValueString(),
		Insecure: !i.VerifyCertificates.IsNull() && !i.VerifyCertificates.ValueBool(), Source: source}
	sum, from := s.Checksum, s.URL
	switch {
	case source != nil:
		sum, from = source.Checksum, source.Path
	case !i.SourceFile.IsNull():
		from = i.SourceFile.ValueString()
	case s.Checksum.Value == "":
		sum = file.Identity(s.URL, s.Compression)
	}
	base := i.FileName.ValueString()
	if base == "" {
		base = file.BaseName(from, s.Compression)
	}
	var err error
	s.Name, err = file.Name(s.Content, base, sum)
	return s, err
}

// resolve returns the wanted file with its final name. It reads the file that is to be uploaded.
func (i *imageModel) resolve(ctx context.Context, o operation) (file.Spec, error) {
	if i.SourceFile.IsNull() {
		return i.spec(nil)
	}
	source, err := o.files().Local(ctx, i.SourceFile.ValueString(), i.checksum())
	if err != nil {
		return file.Spec{}, err
	}
	return i.spec(&source)
}

func (i *imageModel) create(ctx context.Context, o operation) (memory, error) {
	spec, err := i.resolve(ctx, o)
	if err != nil {
		return nil, asField("source_file", "The file cannot be uploaded", err)
	}
	f, warnings, err := o.files().Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	o.diags.Append(kit.Warn(warnings)...)
	i.set(f)
	o.session.VMs.Has(f.Node, f.Volume)
	if !f.Made {
		return nil, nil
	}
	return remember(madeImage, &f.MadeFile), nil
}

// read looks the image up. A different file in its place is not owned.
func (i *imageModel) read(ctx context.Context, o operation) (bool, error) {
	made, ok := recall(ctx, o, madeImage)
	if !ok {
		return true, nil
	}
	f, there, err := o.files().Read(ctx, i.Node.ValueString(), i.Storage.ValueString(), i.Content.ValueString(),
		i.Volume.ValueString())
	if err != nil || !there {
		return there, err
	}
	if f.Made = made != nil && made.Size == f.Size && made.CreatedAt.Equal(f.CreatedAt); f.Made {
		o.files().Owned(f.Node, f.Volume)
	}
	i.set(f)
	return true, nil
}

func (i *imageModel) set(f file.File) {
	i.Volume, i.Size, i.Owned = types.StringValue(f.Volume), types.Int64Value(f.Size), types.BoolValue(f.Made)
	i.Created = timeOf(f.CreatedAt)
}

// isAsBefore is true: a change that the server would see replaces the resource.
func (*imageModel) isAsBefore(imageModel) bool { return true }

func (*imageModel) update(context.Context, operation, imageModel) (memory, error) { return nil, nil }

func (i *imageModel) holds() held {
	return held{node: i.Node.ValueString(), volume: i.Volume.ValueString(), owned: i.Owned}
}

func (*imageModel) earlier(context.Context, operation) []held { return nil }

func (i *imageModel) isKept() bool { return i.OnDestroy.ValueString() == onDestroyKeep }

func (i *imageModel) inherit() { i.Owned = types.BoolValue(true) }

func (i *imageModel) remove(ctx context.Context, o operation) error {
	made, ok := recall(ctx, o, madeImage)
	if !ok {
		return nil
	}
	if made == nil && i.Owned.ValueBool() { // Terraform forgets the private state of a tainted resource
		made = madeFile(i.Volume, i.Size, i.Created)
	}
	if made == nil {
		o.notMade(i.Node.ValueString(), i.Volume.ValueString(), " on_destroy = \"keep\" says the same without a warning.")
		return nil
	}
	made.Node = i.Node.ValueString()
	return o.deleteMade(ctx, *made)
}

// madeName matches the names of files that this resource makes.
var madeName = regexp.MustCompile(`-[0-9a-f]{12}\.[a-z0-9]+$`)

func (*imageModel) accepts(content, name string) bool {
	return (content == file.Import || content == file.ISO) && madeName.MatchString(name)
}

func (i *imageModel) place(node, storage, content, name string) {
	i.Node, i.Storage, i.Content = types.StringValue(node), types.StringValue(storage), types.StringValue(content)
	i.Volume = types.StringValue(file.Spec{Storage: storage, Content: content, Name: name}.Volume())
	i.VerifyCertificates, i.OnDestroy = types.BoolValue(true), types.StringValue(onDestroyDelete)
}

// adopted is nil: an imported image is not owned, since its origin is unknown.
func (*imageModel) adopted() memory { return nil }

// validate reports contradictions in the configuration.
func (i *imageModel) validate(refuse func(at, summary, detail string)) {
	m := *i
	if m.Content.IsNull() {
		m.Content = types.StringValue(file.Import)
	}
	switch {
	case isSet(m.URL) && isSet(m.SourceFile):
		refuse("source_file", "Two sources", "The file comes from url or from source_file, not from both.")
	case m.URL.IsNull() && m.SourceFile.IsNull():
		refuse("url", "No source", "Set url, from which the node downloads the file, or source_file, which is uploaded.")
	case isSet(m.Compression) && m.URL.IsNull():
		refuse("compression", "Uploads are not decompressed", "PVE decompresses downloads only. Decompress the file here, "+
			"and leave compression out.")
	case isSet(m.Compression) && m.Content.ValueString() == file.Import:
		refuse("compression", "Import content is not decompressed", "PVE decompresses ISO content only (\"decompression not "+
			"supported for import\"). Give the URL of a file that is not compressed, or decompress it and upload it with "+
			"source_file.")
	case isSet(m.VerifyCertificates) && m.URL.IsNull():
		refuse("verify_certificates", "Nothing is downloaded", "verify_certificates belongs to url.")
	case m.isKnown():
		if m.Checksum.IsNull() && m.URL.IsNull() {
			m.Checksum = types.StringValue(strings.Repeat("0", 64)) // in place of that of a file which is not read yet
		}
		if _, err := m.spec(nil); err != nil {
			field := asField("file_name", "The file has no usable name", err)
			refuse(field.Path, field.Summary, field.Detail+".")
		}
	}
}

// isSet reports whether a value is certainly there: what is not known yet may be null in the apply.
func isSet(v attr.Value) bool { return !v.IsNull() && !v.IsUnknown() }

// asField returns an error as one of an attribute.
func asField(at, summary string, err error) *guest.FieldError {
	if field := (*guest.FieldError)(nil); errors.As(err, &field) {
		return field
	}
	return &guest.FieldError{Path: at, Summary: summary, Detail: err.Error()}
}
