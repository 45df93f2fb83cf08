package file

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// kind is the model of one kind of file. It knows what its configuration means, and which requests that takes.
type kind[M any] interface {
	*M
	traits() traits
	schema(ctx context.Context) schema.Schema
	// thing is the file in words, for messages.
	thing() string
	// limits are the configured time limits.
	limits() kit.Timeouts
	// validate reports what no server accepts.
	validate(refuse func(attribute, summary, detail string))
	// plan sets the computed attributes, and returns the attributes for which the resource is replaced.
	plan(ctx context.Context, o operation, prior M) path.Paths
	// create puts the file onto the storage and sets the computed attributes.
	create(ctx context.Context, o operation) (memory, error)
	// read sets the attributes as the server has them; false: the file is gone.
	read(ctx context.Context, o operation) (bool, error)
	// isAsBefore reports whether an update needs no request.
	isAsBefore(prior M) bool
	update(ctx context.Context, o operation, prior M) (memory, error)
	// holds is the file in state.
	holds() held
	// earlier are other files that the object has made, and that go with its next change or with it.
	earlier(ctx context.Context, o operation) []held
	// isKept reports whether the file stays when the resource is destroyed.
	isKept() bool
	remove(ctx context.Context, o operation) error
	// inherit makes the file that the object has found there its own.
	inherit()
}

// held is the file of an object, and whether the object has made it.
type held struct {
	node, volume string
	owned        types.Bool
	content      string // its checksum, if the name does not tell the content; "" if it is not known yet
	earlier      []held
}

func (h held) isAt(other held) bool { return h.node == other.node && h.volume == other.volume }

// importer is a kind whose files can be imported.
type importer[M any] interface {
	kind[M]
	// accepts reports whether the resource could have made a file of this content type and name.
	accepts(content, name string) bool
	// place sets the attributes that the import id tells.
	place(node, storage, content, name string)
	// adopted completes the attributes of an imported file, and returns what its private state needs.
	adopted() memory
}

// traits are the constants of a kind.
type traits struct {
	name          string        // behind the provider's in the type name: "_image"
	createTimeout time.Duration // default time limit of a create
	at            locator
	importID      string // the form of an import id, in a sentence
	isBare        bool   // nothing but name and content tells the file from another cluster's
}

// operation is one operation of Terraform on a file.
type operation struct {
	session *kit.Session
	private kit.PrivateReader // nil in a create and an import
	diags   *diag.Diagnostics
	left    bool // what the server says of a new file is left to its create
	attempt func(verb string) kit.Attempt
}

// files returns the server side. It must be asked for only while the provider is configured.
func (o operation) files() *file.Files { return o.session.VMs.Files }

// check reports what the server would certainly refuse of a new file.
func (o operation) check(ctx context.Context, spec file.Spec) {
	if o.left {
		return
	}
	isOld := false
	found := o.session.VMs.Permit(ctx, o.takes(ctx, spec, func(ctx context.Context) bool {
		isOld = o.files().IsBeforeAccessNetwork(ctx, spec.Node)
		return isOld
	})...)
	if isOld {
		found = append(found, o.session.VMs.Permit(ctx, takesBefore(spec)...)...)
	}
	lacking := len(found)
	refused, doubts := o.files().Check(ctx, spec)
	for _, other := range refused {
		isSaid := func(f *guest.FieldError) bool { return f.Path == other.Path }
		if !slices.ContainsFunc(found[:lacking], isSaid) { // a storage that is not seen may be there
			found = append(found, other)
		}
	}
	o.diags.Append(kit.Verdicts(o.attempt("check"), found, doubts)...)
}

// takes are the privileges that a new file takes (pve-storage API2/Storage/Status.pm upload, download_url). PVE has
// Sys.AccessNetwork since pve-access-control 8.1.2; Sys.Audit and Sys.Modify on / are as good. The storage itself is
// looked up in the listing, which shows it to Datastore.Audit alone (pve-manager API2/Cluster.pm, resources).
// old reports whether the node has no such privilege yet.
func (o operation) takes(ctx context.Context, spec file.Spec, old func(context.Context) bool) []preflight.Take {
	on := "/storage/" + spec.Storage
	all := []preflight.Take{{Path: "storage", What: "see storage " + spec.Storage + ", if there is one", On: on,
		AnyOf: []string{"Datastore.Audit"}}}
	if spec.Content == file.Snippets {
		return all
	}
	all = append(all, preflight.Take{Path: "storage", What: "put files onto storage " + spec.Storage, On: on,
		AnyOf: []string{"Datastore.AllocateTemplate"}})
	root, err := o.session.API.Access().Privileges(ctx, "/")
	if spec.Source != nil || err != nil || root["Sys.Audit"] && root["Sys.Modify"] {
		return all
	}
	return append(all, preflight.Take{Path: "url", What: "let node " + spec.Node + " download", On: "/nodes/" + spec.Node,
		AnyOf: []string{"Sys.AccessNetwork"}, Unless: old,
		Instead: "grant Sys.Audit and Sys.Modify on /, the only way before PVE 8.2, or upload the file from here, " +
			"with source_file"})
}

// takesBefore are the privileges of a download to a node without Sys.AccessNetwork, which refuses a role with it.
func takesBefore(spec file.Spec) (all []preflight.Take) {
	for _, privilege := range []string{"Sys.Audit", "Sys.Modify"} {
		all = append(all, preflight.Take{Path: "url", What: "let node " + spec.Node + " download", On: "/",
			AnyOf: []string{privilege}, Instead: "upload the file from here, with source_file: before PVE 8.2 each download " +
				"takes Sys.Audit and Sys.Modify on /"})
	}
	return all
}

// stays warns that a destroy leaves a file in place.
func (o operation) stays(what, volume, why string) {
	o.diags.AddWarning("The "+what+" stays: "+volume, why)
}

// unlessReused is the error of a removal. That another object of this run uses the file is none: the file stays.
func (o operation) unlessReused(what, volume string, err error) error {
	if !errors.Is(err, file.ErrReused) {
		return err
	}
	why := "Another object in state has found it there and uses it, as where one is replaced by itself with " +
		"create_before_destroy, or gets another address without a moved block. The destroy of that one removes it only in " +
		"this same apply; a later one leaves it, and says so."
	if what == "snippet" { // an imported image has no owner either
		why += " It has an owner again after `terraform state rm` and an import."
	}
	o.stays(what, volume, why)
	return nil
}

// deleteMade removes an image that the resource has made. A different file that has taken its place stays, with a
// warning.
func (o operation) deleteMade(ctx context.Context, made guard.MadeFile) error {
	err := o.unlessReused("file", made.Volume, o.files().Delete(ctx, made))
	if other := (*guard.OtherFileError)(nil); errors.As(err, &other) {
		o.stays("file", made.Volume, "A third party has put another file in its place: "+other.Error()+
			". It is not in state any more.")
		return nil
	}
	return err
}

// madeFile returns the file in state, without its node; nil if its time is not in state.
func madeFile(volume types.String, size types.Int64, created types.String) *guard.MadeFile {
	at, err := time.Parse(time.RFC3339, created.ValueString())
	if err != nil {
		return nil
	}
	return &guard.MadeFile{Volume: volume.ValueString(), Size: size.ValueInt64(), CreatedAt: at}
}

// timeOf is a time as the state has it.
func timeOf(t time.Time) types.String { return types.StringValue(t.UTC().Format(time.RFC3339)) }

// goesWithOwner is true of a deposed object, and of another address.
const goesWithOwner = "If an object that has put it there is destroyed in this same apply, the file goes with that one."

// notMade warns that a destroy leaves a file that the resource has not made.
func (o operation) notMade(node, volume, more string) {
	o.stays("file", volume, fmt.Sprintf("It is on node %s, and this resource has not put it there: it was there before, "+
		"an object that was replaced with create_before_destroy has left it, or the answer to the request was lost. "+
		"%s%s", node, goesWithOwner, more))
}

// memory writes what a resource remembers in its private state; nil writes nothing.
type memory func(ctx context.Context, to kit.PrivateWriter) diag.Diagnostics

func (m memory) write(ctx context.Context, to kit.PrivateWriter) diag.Diagnostics {
	if m == nil {
		return nil
	}
	return m(ctx, to)
}

// remember returns the memory that writes one note.
func remember[T any](note kit.Note[T], value T) memory {
	return func(ctx context.Context, to kit.PrivateWriter) diag.Diagnostics { return note.Write(ctx, to, value) }
}

// recall reads a note; false: it cannot be read, which is reported. Without private state it is the zero value.
func recall[T any](ctx context.Context, o operation, note kit.Note[T]) (value T, ok bool) {
	if o.private == nil {
		return value, true
	}
	value, diags := note.Read(ctx, o.private)
	o.diags.Append(diags...)
	return value, !diags.HasError()
}

// locator finds the attribute of a parameter of PVE's API, and of an attribute that package file names.
type locator struct{ parameters, attributes map[string]string }

// Parameter returns the attribute behind a parameter of PVE's API.
func (l locator) Parameter(name string) (path.Path, bool) {
	at, ok := l.parameters[name]
	return path.Root(at), ok
}

// Attribute returns the attribute that an error of package file belongs to.
func (l locator) Attribute(name string) (path.Path, bool) {
	at, ok := l.attributes[name]
	return path.Root(at), ok
}
