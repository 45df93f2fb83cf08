package file

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/zclconf/go-cty/cty/ctystrings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file/nocloud"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// snippetModel is proxmox_snippet in configuration, plan and state.
type snippetModel struct {
	Node     types.String      `tfsdk:"node"`
	Storage  types.String      `tfsdk:"storage"`
	Name     types.String      `tfsdk:"name"`
	Content  types.String      `tfsdk:"content"`
	Kind     types.String      `tfsdk:"kind"`
	Volume   types.String      `tfsdk:"volume"`
	SHA256   types.String      `tfsdk:"sha256"`
	Owned    types.Bool        `tfsdk:"owned"`
	Timeouts *kit.OpenTimeouts `tfsdk:"timeouts"`
}

// written is the SHA-256 of the content that the resource has written. Without it the file was there before the
// resource.
const written kit.Note[string] = "written"

// hookScript is the kind of a script that the node runs.
const hookScript = "hookscript"

func snippetKinds() []string {
	return []string{string(nocloud.User), string(nocloud.Meta), string(nocloud.Network), string(nocloud.Vendor),
		hookScript}
}

func (*snippetModel) traits() traits {
	return traits{name: "_snippet", createTimeout: kit.CreateTimeout, isBare: true,
		importID: "The id is node/volume, such as pve1/local:snippets/web.yaml.",
		at: locator{attributes: map[string]string{"node": "node", "storage": "storage", "name": "name",
			"content": "content"}}}
}

func (s *snippetModel) limits() kit.Timeouts { return s.Timeouts.Limits() }

func (s *snippetModel) thing() string {
	return "snippet " + s.spec().Volume() + " on " + s.Node.ValueString()
}

// isPlaceKnown reports whether node, storage and name are known.
func (s *snippetModel) isPlaceKnown() bool {
	return !s.Node.IsUnknown() && !s.Storage.IsUnknown() && !s.Name.IsUnknown()
}

// spec returns the wanted snippet.
func (s *snippetModel) spec() file.Spec {
	return file.Spec{Node: s.Node.ValueString(), Storage: s.Storage.ValueString(), Content: file.Snippets,
		Name:       s.Name.ValueString(),
		Source:     file.Of(s.Name.ValueString(), []byte(s.Content.ValueString())),
		Executable: s.Kind.ValueString() == hookScript}
}

// validate refuses content that does not fit its kind.
func (s *snippetModel) validate(refuse func(at, summary, detail string)) {
	if s.Content.IsUnknown() || s.Kind.IsUnknown() {
		return
	}
	if err := checkSnippet(s.Kind.ValueString(), s.Content.ValueString()); err != nil {
		refuse("content", "The snippet is no "+s.Kind.ValueString(), "As it is now "+err.Error()+".")
	}
}

// checkSnippet returns what is wrong with the content of a kind, as far as the text tells.
func checkSnippet(kind, content string) error {
	switch kind {
	case "":
		return nil
	case hookScript:
		if !strings.HasPrefix(content, "#!") {
			return errors.New("it does not begin with #! and a program, so the node could not run it")
		}
		return nil
	}
	return nocloud.Check(nocloud.Kind(kind), content)
}

// plan plans checksum and volume, and asks the server about a new snippet. The schema says what replaces the resource.
//
//nolint:unparam // as kind has it
func (s *snippetModel) plan(ctx context.Context, o operation, prior snippetModel) path.Paths {
	isNew := !s.Node.Equal(prior.Node) || !s.Storage.Equal(prior.Storage) || !s.Name.Equal(prior.Name)
	spec := s.spec()
	switch {
	case s.Content.IsUnknown():
		s.SHA256 = types.StringUnknown()
	case !isNew && s.leavesBytes(prior):
		s.leave(o, prior)
	default:
		s.SHA256 = types.StringValue(spec.Source.Checksum.Value)
	}
	if !s.isPlaceKnown() {
		return nil
	}
	s.Volume = types.StringValue(spec.Volume())
	if isNew && o.session.Known() {
		o.session.VMs.WillHave(ctx, spec.Node, spec.Volume(), 0)
		if !s.Content.IsUnknown() {
			o.check(ctx, spec)
		}
	}
	changes := !isNew && !s.SHA256.IsUnknown() && !s.SHA256.Equal(prior.SHA256)
	isOurs, ok := s.isOurs(ctx, o)
	switch {
	case isNew || s.SHA256.IsUnknown() || s.Kind.IsUnknown():
		s.Owned = types.BoolUnknown()
	case isOurs && s.isRewritten(prior):
		s.Owned = types.BoolValue(true)
	default:
		s.Owned = prior.Owned
	}
	if ok && !isOurs && changes {
		o.diags.AddAttributeWarning(path.Root("content"), "The "+s.thing()+" may be another's",
			ofAnother+"The apply will refuse it, unless the file has the new content by then. "+takeOver)
	}
	return nil
}

// leavesBytes reports whether the content stays while the file has bytes that it does not name: an older version has
// imported them, or others wrote them and ignore_changes has the content. No plan would show that they go.
func (s *snippetModel) leavesBytes(prior snippetModel) bool {
	return s.Content.Equal(prior.Content) && prior.spec().Source.Checksum.Value != prior.SHA256.ValueString()
}

// leave plans to leave the bytes of a file, and says so. Its mode cannot change then: a file is written to get another.
func (s *snippetModel) leave(o operation, prior snippetModel) {
	s.SHA256 = prior.SHA256
	if err := s.errBytes(prior); err != nil {
		o.diags.AddAttributeError(path.Root(err.Path), err.Summary, err.Detail+".")
		return
	}
	o.diags.AddAttributeWarning(path.Root("content"), "The "+s.thing()+" is not the text in content", ofBytes+
		"The file stays as it is. "+convert+".")
}

// errBytes refuses another mode for a file whose bytes content does not name; nil: the mode stays.
func (s *snippetModel) errBytes(prior snippetModel) *guest.FieldError {
	if s.Kind.IsUnknown() || prior.spec().Executable == s.spec().Executable {
		return nil
	}
	return &guest.FieldError{Path: "kind", Summary: "The " + s.thing() + " is not the text in content", Detail: ofBytes +
		"Another kind writes the file again, and would write content over them. The file was not touched. " + convert}
}

const (
	ofBytes = "Its bytes are not UTF-8, or not in the normal form NFC, so content cannot name them, and equals what the " +
		"state has in their place. "
	convert = "Convert the file on the node, and the next plan shows its text; or configure another content, which is " +
		"written over it"
)

// isRewritten reports whether the file differs from that in state.
func (s *snippetModel) isRewritten(prior snippetModel) bool {
	return !prior.SHA256.Equal(s.SHA256) || prior.spec().Executable != s.spec().Executable
}

// isOurs reports whether the resource has written its snippet or imported it; ok is false if that cannot be read.
func (*snippetModel) isOurs(ctx context.Context, o operation) (ours, ok bool) {
	last, ok := recall(ctx, o, written)
	return last != "", ok
}

const (
	ofAnother = "The file was there before this resource, with the same content, so it may be that of another " +
		"configuration, whose guests would get the change. "
	takeOver = "Set name to another one. Or, if the file is this configuration's, take it over: terraform state rm, " +
		"then terraform import."
)

// follow is the update of a snippet that may be another's: it must have the wanted content already.
func (s *snippetModel) follow(ctx context.Context, o operation, prior snippetModel) error {
	spec := s.spec()
	found, there, err := o.files().ReadSnippet(ctx, spec)
	same := there && found.Checksum.Value == spec.Source.Checksum.Value
	if err != nil || same && prior.spec().Executable == spec.Executable {
		return err
	}
	return &guest.FieldError{Path: "content", Summary: "The snippet may be another's", Detail: ofAnother +
		"It was not touched. " + strings.TrimSuffix(takeOver, ".")}
}

func (s *snippetModel) create(ctx context.Context, o operation) (memory, error) {
	spec := s.spec()
	f, _, err := o.files().Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	s.set(spec)
	if s.Owned = types.BoolValue(f.Made); !f.Made {
		return nil, nil
	}
	return remember(written, spec.Source.Checksum.Value), nil
}

// set sets the computed attributes of a snippet with the content of a spec.
func (s *snippetModel) set(spec file.Spec) {
	s.Volume, s.SHA256 = types.StringValue(spec.Volume()), types.StringValue(spec.Source.Checksum.Value)
}

// read reads the snippet. Content that has changed appears in state, and so in the plan. Content that others have
// written is not owned: the checksum in state is then no proof for a removal.
func (s *snippetModel) read(ctx context.Context, o operation) (bool, error) {
	last, ok := recall(ctx, o, written)
	if !ok {
		return true, nil
	}
	spec := s.spec()
	found, there, err := o.files().ReadSnippet(ctx, spec)
	if err != nil || !there {
		return false, err
	}
	if found.Checksum.Value != s.SHA256.ValueString() {
		text := string(found.Data)
		isText := utf8.ValidString(text) && ctystrings.Normalize(text) == text
		if !isText && s.Content.IsNull() {
			return false, errNoText(spec)
		}
		if !isText { // the plan shows that it leaves, however alike the configured text is
			text = fmt.Sprintf("(content that Terraform cannot show: not UTF-8, or not in the normal form NFC; "+
				"sha256 %s)", found.Checksum.Value)
		}
		spec.Source = found
		s.set(spec)
		s.Content = types.StringValue(text)
	}
	wasOwned, isOwned := s.Owned.ValueBool(), last != "" && last == s.SHA256.ValueString()
	switch s.Owned = types.BoolValue(isOwned); {
	case isOwned:
		o.files().Owned(spec.Node, spec.Volume())
	case wasOwned: // as InState has noted
		o.files().NotOwned(spec.Node, spec.Volume())
	}
	return true, nil
}

// errNoText refuses the import of bytes that no configuration can name: Terraform's strings are UTF-8 in the normal
// form NFC, and an update would write another content over them.
func errNoText(spec file.Spec) error {
	return &guest.FieldError{Path: "content", Summary: "The snippet is no text that Terraform can hold",
		Detail: fmt.Sprintf("%s on node %s is not UTF-8, or not in the normal form NFC. Its configuration would have "+
			"another content, and the next apply write that. The file was not touched. Convert it first, or leave "+
			"it out of Terraform", spec.Volume(), spec.Node)}
}

func (*snippetModel) isAsBefore(snippetModel) bool { return false }

// update replaces the content, which must still be the one that the plan has shown.
func (s *snippetModel) update(ctx context.Context, o operation, prior snippetModel) (memory, error) {
	spec := s.spec()
	s.set(spec)
	if s.Owned.IsUnknown() {
		s.Owned = prior.Owned
	}
	if s.leavesBytes(prior) {
		if err := s.errBytes(prior); err != nil {
			return nil, err
		}
		s.SHA256 = prior.SHA256
	}
	if !s.isRewritten(prior) {
		return nil, nil
	}
	switch isOurs, ok := s.isOurs(ctx, o); {
	case !ok:
		return nil, errors.New("the private state of the resource is damaged")
	case !isOurs:
		return nil, s.follow(ctx, o, prior)
	}
	spec.StaysExecutable = !prior.spec().Executable
	if err := o.files().UpdateSnippet(ctx, spec, prior.SHA256.ValueString()); err != nil {
		return nil, err
	}
	s.Owned = types.BoolValue(true)
	return remember(written, spec.Source.Checksum.Value), nil
}

func (s *snippetModel) holds() held {
	return held{node: s.Node.ValueString(), volume: s.Volume.ValueString(), owned: s.Owned,
		content: s.SHA256.ValueString()}
}

func (*snippetModel) earlier(context.Context, operation) []held { return nil }

func (*snippetModel) isKept() bool { return false }

func (s *snippetModel) inherit() { s.Owned = types.BoolValue(true) }

func (s *snippetModel) remove(ctx context.Context, o operation) error {
	last, ok := recall(ctx, o, written)
	if last == "" && s.Owned.ValueBool() { // Terraform forgets the private state of a tainted resource
		last = s.SHA256.ValueString()
	}
	switch {
	case !ok:
		return nil
	case last == "":
		o.stays("snippet", s.Volume.ValueString(), fmt.Sprintf("It is on node %s, and was there with this very content "+
			"before the resource, or an object that was replaced with create_before_destroy has left it. %s",
			s.Node.ValueString(), goesWithOwner))
		return nil
	}
	return o.unlessReused("snippet", s.Volume.ValueString(), o.files().DeleteSnippet(ctx, s.spec(), last))
}

func (*snippetModel) accepts(content, name string) bool {
	return content == file.Snippets && snippetName.MatchString(name)
}

func (s *snippetModel) place(node, storage, _, name string) {
	s.Node, s.Storage, s.Name = types.StringValue(node), types.StringValue(storage), types.StringValue(name)
}

// adopted remembers the content: an imported snippet belongs to the resource from then on.
func (s *snippetModel) adopted() memory {
	s.Owned = types.BoolValue(true)
	return remember(written, s.SHA256.ValueString())
}
