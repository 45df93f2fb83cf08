package file

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// attributesOf returns the schema of a kind, and fails if its model does not fit.
func attributesOf[M any, K kind[M]](t *testing.T) schema.Schema {
	t.Helper()
	s := K(new(M)).schema(t.Context())
	var m M
	empty := tfsdk.State{Schema: s, Raw: tftypes.NewValue(s.Type().TerraformType(t.Context()), nil)}
	if diags := empty.Set(t.Context(), &m); diags.HasError() {
		t.Errorf("%T does not fit its schema: %v", m, diags)
	}
	return s
}

// TestLocatorsNameAttributes: an error is shown on an attribute, so each attribute that a locator returns must exist.
func TestLocatorsNameAttributes(t *testing.T) {
	for _, c := range []struct {
		of     traits
		schema schema.Schema
	}{
		{(&imageModel{}).traits(), attributesOf[imageModel](t)},
		{(&snippetModel{}).traits(), attributesOf[snippetModel](t)},
		{(&isoModel{}).traits(), attributesOf[isoModel](t)},
	} {
		for _, name := range []string{"node", "storage"} {
			if _, ok := c.of.at.Attribute(name); !ok {
				t.Errorf("%s: package file refuses a %s, which is no attribute", c.of.name, name)
			}
		}
		for _, all := range []map[string]string{c.of.at.parameters, c.of.at.attributes} {
			for from, to := range all {
				if c.schema.Attributes[to] == nil {
					t.Errorf("%s: %s is attribute %s, which does not exist", c.of.name, from, to)
				}
			}
		}
	}
}

// operationOn is an operation of a provider that is not configured.
func operationOn(diags *diag.Diagnostics) operation {
	return operation{session: &kit.Session{}, diags: diags,
		attempt: func(verb string) kit.Attempt { return kit.Attempt{Verb: verb} }}
}

func known(s string) types.String { return types.StringValue(s) }

// TestPlanOfACloudInitISO: checksum and volume follow from the documents, and are unknown while a document is.
func TestPlanOfACloudInitISO(t *testing.T) {
	disc := func(alter func(*isoModel)) isoModel {
		m := isoModel{Node: known("pve1"), Storage: known("local"), Name: known("web"), UserData: known("#cloud-config\n")}
		if alter != nil {
			alter(&m)
		}
		return m
	}
	plan := func(m, prior isoModel) isoModel {
		t.Helper()
		var diags diag.Diagnostics
		if replaced := m.plan(t.Context(), operationOn(&diags), prior); len(replaced) > 0 || len(diags) > 0 {
			t.Errorf("%v %v", replaced, diags)
		}
		return m
	}
	first := plan(disc(nil), isoModel{})
	if v := first.Volume.ValueString(); !strings.HasPrefix(v, "local:iso/web-"+first.SHA256.ValueString()[:12]) ||
		first.Size.ValueInt64() == 0 {
		t.Errorf("planned %s", v)
	}
	if again := plan(disc(nil), first); !again.isAsBefore(first) {
		t.Error("the same documents make another disc")
	}
	for name, alter := range map[string]func(*isoModel){
		"user_data":      func(m *isoModel) { m.UserData = known("#cloud-config\nx: 1\n") },
		"meta_data":      func(m *isoModel) { m.MetaData = known("a: 1\n") },
		"network_config": func(m *isoModel) { m.NetworkConfig = known("version: 2\n") },
		"vendor_data":    func(m *isoModel) { m.VendorData = known("#cloud-config\n") },
	} {
		if other := plan(disc(alter), first); other.isAsBefore(first) || other.SHA256.Equal(first.SHA256) {
			t.Errorf("another %s makes the same disc", name)
		}
	}
	moved := plan(disc(func(m *isoModel) { m.Node = known("pve2") }), first)
	if moved.isAsBefore(first) || !moved.SHA256.Equal(first.SHA256) {
		t.Error("the same disc on another node is not that in state, and has its checksum")
	}
	unknown := plan(disc(func(m *isoModel) { m.VendorData = types.StringUnknown() }), first)
	if !unknown.SHA256.IsUnknown() || !unknown.Size.IsUnknown() || !unknown.Volume.IsUnknown() {
		t.Errorf("an unknown document gives %+v", unknown)
	}
	nowhere := plan(disc(func(m *isoModel) { m.Node = types.StringUnknown() }), first)
	if nowhere.SHA256.IsUnknown() || !nowhere.Volume.IsUnknown() {
		t.Errorf("on an unknown node: %+v", nowhere)
	}
}

// TestPlanOfASnippet: the volume follows from place and name, the checksum from the content.
func TestPlanOfASnippet(t *testing.T) {
	for name, c := range map[string]struct {
		alter       func(*snippetModel)
		volume, sum string // "": unknown
	}{
		"all known": {func(*snippetModel) {}, "local:snippets/a.yaml",
			"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		"unknown content": {func(m *snippetModel) { m.Content = types.StringUnknown() }, "local:snippets/a.yaml", ""},
		"unknown name": {func(m *snippetModel) { m.Name = types.StringUnknown() }, "",
			"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	} {
		m := snippetModel{Node: known("pve1"), Storage: known("local"), Name: known("a.yaml"), Content: known("abc"),
			Volume: types.StringUnknown(), SHA256: known("of the state")}
		c.alter(&m)
		var diags diag.Diagnostics
		m.plan(t.Context(), operationOn(&diags), snippetModel{})
		if m.Volume.ValueString() != c.volume || m.Volume.IsUnknown() != (c.volume == "") ||
			m.SHA256.ValueString() != c.sum || m.SHA256.IsUnknown() != (c.sum == "") || len(diags) > 0 {
			t.Errorf("%s: %s, %s, %v", name, m.Volume, m.SHA256, diags)
		}
	}
	script := snippetModel{Kind: known(hookScript)}
	if text := (&snippetModel{Kind: known("user-data")}); !script.spec().Executable || text.spec().Executable {
		t.Error("a hook script is executable, a document is not")
	}
}

// TestRefusedFiles: contradictory attributes, and documents that cloud-init would ignore, are refused on their
// attributes.
func TestRefusedFiles(t *testing.T) {
	image := func(alter func(*imageModel)) func(func(string, string, string)) {
		m := imageModel{Node: known("pve1"), Storage: known("local"), Content: known("iso"),
			URL: known("https://example.org/a.iso")}
		alter(&m)
		return m.validate
	}
	for name, c := range map[string]struct {
		validate func(func(string, string, string))
		at       []string
	}{
		"a good image": {image(func(*imageModel) {}), nil},
		"two sources":  {image(func(m *imageModel) { m.SourceFile = known("a.iso") }), []string{"source_file"}},
		"no source":    {image(func(m *imageModel) { m.URL = types.StringNull() }), []string{"url"}},
		"a compressed import": {image(func(m *imageModel) { m.Content, m.Compression = types.StringNull(), known("gz") }),
			[]string{"compression"}},
		"another extension": {image(func(m *imageModel) { m.FileName = known("a.txt") }), []string{"file_name"}},
		"certificates of none": {image(func(m *imageModel) {
			m.URL, m.SourceFile, m.VerifyCertificates = types.StringNull(),
				known("a.iso"), types.BoolValue(true)
		}), []string{"verify_certificates"}},
		"a script": {(&snippetModel{Kind: known(hookScript), Content: known("#!/bin/sh\n")}).validate, nil},
		"no script": {(&snippetModel{Kind: known(hookScript), Content: known("echo\n")}).validate,
			[]string{"content"}},
		"content without kind": {(&snippetModel{Content: known("anything")}).validate, nil},
		"ignored user data": {(&isoModel{UserData: known("hello"), MetaData: known("- a\n")}).validate,
			[]string{"user_data", "meta_data"}},
		"a network of no known": {(&isoModel{NetworkConfig: known("version: 3\n")}).validate, []string{"network_config"}},
	} {
		var at []string
		c.validate(func(attribute, _, _ string) { at = append(at, attribute) })
		if !slices.Equal(at, c.at) {
			t.Errorf("%s is refused on %v, not on %v", name, at, c.at)
		}
	}
}

// TestImportIDs: an id names a file that the resource could have made; any other is refused before the server is asked.
func TestImportIDs(t *testing.T) {
	for id, r := range map[string]resource.Resource{
		"": NewImage(), "pve1": NewSnippet(), "pve1/local:iso/a.iso": NewImage(),
		"pve1/local:snippets/a-3f2a9c1b7d04.iso": NewImage(),
		"pve1/local:iso/a-3f2a9c1b7d04.iso":      NewSnippet(), "pve1/local:snippets/.hidden": NewSnippet(),
		"local:snippets/a":        NewSnippet(),
		"pve1/local:snippets/a/b": NewSnippet(),
	} {
		var resp resource.ImportStateResponse
		r.(resource.ResourceWithImportState).ImportState(t.Context(), resource.ImportStateRequest{ID: id}, &resp)
		if len(resp.Diagnostics) != 1 || resp.Diagnostics[0].Summary() != "Cannot import "+id {
			t.Errorf("%q: %v", id, resp.Diagnostics)
		}
	}
	image, snippet := imageModel{}, snippetModel{}
	if !image.accepts("import", "debian-12-3f2a9c1b7d04.qcow2") || !snippet.accepts("snippets", "web.yaml") {
		t.Error("a file of the resource cannot be imported")
	}
	image.place("pve1", "local", "import", "debian-12-3f2a9c1b7d04.qcow2")
	if v := image.Volume.ValueString(); v != "local:import/debian-12-3f2a9c1b7d04.qcow2" {
		t.Errorf("the volume is %s", v)
	}
}

// TestChangedImageIsReplaced: each attribute that decides which file it is replaces the resource, and no other does.
func TestChangedImageIsReplaced(t *testing.T) {
	prior := imageModel{Node: known("pve1"), Storage: known("local"), URL: known("https://example.org/a.iso")}
	for want, alter := range map[string]func(*imageModel){
		"node":      func(m *imageModel) { m.Node = known("pve2") },
		"storage":   func(m *imageModel) { m.Storage = known("nfs") },
		"url":       func(m *imageModel) { m.URL = known("https://example.org/b.iso") },
		"checksum":  func(m *imageModel) { m.Checksum = known("00") },
		"file_name": func(m *imageModel) { m.FileName = known("b.iso") },
		"volume":    func(m *imageModel) { m.OnDestroy = known("keep") }, // the content of the source file has changed
	} {
		m := prior
		alter(&m)
		if got := m.changed(prior); len(got) != 1 || !got[0].Equal(path.Root(want)) {
			t.Errorf("%s: %v", want, got)
		}
	}
}

// TestImageIsNamedWithoutSecrets: a message names an image by its URL without the user and the query, even if the URL
// cannot be taken apart.
func TestImageIsNamedWithoutSecrets(t *testing.T) {
	for address, want := range map[string]string{
		"https://me:secret@host/a.iso?sig=secret#x": "https://host/a.iso",
		"https://host/100%.iso?sig=secret":          "https://host/100%.iso",
		"https://me:sec#ret@host/a.iso":             "a URL (not shown, since it may have a password)",
	} {
		m := imageModel{Node: known("pve1"), Storage: known("local"), URL: known(address), SourceFile: types.StringNull(),
			Volume: types.StringNull()}
		if got := m.thing(); got != "image of "+want+" on storage local of pve1" {
			t.Errorf("%s: %s", address, got)
		}
	}
}
