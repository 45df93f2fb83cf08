package tfimage

import (
	"errors"
	"net/url"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/image"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
)

// model is the resource in configuration, plan and state.
type model struct {
	Node               types.String    `tfsdk:"node"`
	Storage            types.String    `tfsdk:"storage"`
	Content            types.String    `tfsdk:"content"`
	URL                types.String    `tfsdk:"url"`
	SourceFile         types.String    `tfsdk:"source_file"`
	Checksum           types.String    `tfsdk:"checksum"`
	Compression        types.String    `tfsdk:"compression"`
	VerifyCertificates types.Bool      `tfsdk:"verify_certificates"`
	FileName           types.String    `tfsdk:"file_name"`
	OnDestroy          types.String    `tfsdk:"on_destroy"`
	Volume             types.String    `tfsdk:"volume"`
	Size               types.Int64     `tfsdk:"size"`
	Created            types.String    `tfsdk:"created"`
	Owned              types.Bool      `tfsdk:"owned"`
	Timeouts           *tfkit.Timeouts `tfsdk:"timeouts"`
}

// isKnown reports whether everything is known that says which file is wanted where.
func (m model) isKnown() bool {
	for _, v := range []types.String{m.Node, m.Storage, m.Content, m.URL, m.SourceFile, m.Checksum, m.Compression, m.FileName} {
		if v.IsUnknown() {
			return false
		}
	}
	return true
}

func (m model) checksum() image.Checksum {
	sum, err := image.ParseChecksum(m.Checksum.ValueString())
	if err != nil {
		return image.Checksum{} // none, or one that its validator has refused
	}
	return sum
}

// spec is the file that is wanted. source is the one to be uploaded, if any.
func (m model) spec(source *image.Source) (image.Spec, error) {
	s := image.Spec{Node: m.Node.ValueString(), Storage: m.Storage.ValueString(), Content: m.Content.ValueString(),
		URL:      m.URL.ValueString(),
		Checksum: m.checksum(), Compression: m.Compression.ValueString(),
		Insecure: !m.VerifyCertificates.IsNull() && !m.VerifyCertificates.ValueBool(),
		Source:   source}
	stands, from := s.Checksum, s.URL
	switch {
	case source != nil:
		stands, from = source.Checksum, source.Path
	case !m.SourceFile.IsNull():
		from = m.SourceFile.ValueString()
	case s.Checksum.Value == "":
		stands = image.Identity(s.URL, s.Compression)
	}
	base := m.FileName.ValueString()
	if base == "" {
		base = image.BaseName(from, s.Compression)
	}
	var err error
	s.Name, err = image.FileName(s.Content, base, stands)
	return s, err
}

// thing is the file in words.
func (m model) thing() string {
	switch {
	case !m.Volume.IsNull() && !m.Volume.IsUnknown():
		return "image " + m.Volume.ValueString() + " on " + m.Node.ValueString()
	case !m.SourceFile.IsNull():
		return "image of " + m.SourceFile.ValueString() + " on storage " + m.Storage.ValueString() + " of " + m.Node.ValueString()
	}
	return "image of " + m.URL.ValueString() + " on storage " + m.Storage.ValueString() + " of " + m.Node.ValueString()
}

// locator finds attributes for errors.
type locator struct{}

// Parameter is the attribute behind a parameter of PVE's API.
func (locator) Parameter(name string) (path.Path, bool) {
	at, ok := map[string]string{"url": "url", "content": "content", "filename": "file_name", "checksum": "checksum",
		"checksum-algorithm": "checksum",
		"compression":        "compression", "verify-certificates": "verify_certificates", "storage": "storage", "node": "node"}[name]
	return path.Root(at), ok
}

// Attribute is the path behind its dotted form.
func (locator) Attribute(dotted string) (path.Path, bool) { return path.Root(dotted), dotted != "" }

// checksum accepts what PVE can verify.
func checksum() validator.String {
	return tfkit.Check{Want: "must be a checksum in hexadecimal digits", Wrong: func(value string) string {
		if _, err := image.ParseChecksum(value); err != nil {
			return err.Error() + "."
		}
		return ""
	}}
}

// httpAddress is PVE's own pattern (pve-storage API2/Storage/Status.pm download_url).
var httpAddress = regexp.MustCompile(`^https?://.*`)

// webAddress accepts what a node can download.
func webAddress() validator.String {
	return tfkit.Check{Want: "must be an address that begins with http:// or https://", Wrong: func(value string) string {
		if u,
			err := url.Parse(value); err != nil || u.Host == "" || !httpAddress.MatchString(value) || strings.ContainsAny(value,
			" \t\r\n") {
			return "It is none."
		}
		return ""
	}}
}

// asField is an error that belongs to an attribute.
func asField(at, summary string, err error) *guest.FieldError {
	if field := (*guest.FieldError)(nil); errors.As(err, &field) {
		return field
	}
	return &guest.FieldError{Path: at, Summary: summary, Detail: err.Error()}
}
