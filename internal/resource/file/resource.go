// Package file holds the resources proxmox_image, proxmox_snippet and proxmox_cloud_init_iso: files on a storage.
// Resource implements all three; a kind says what differs.
package file

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// Resource is the resource of one kind of file. M is its model.
type Resource[M any, K kind[M]] struct{ kit.ResourceBase }

// Importable is a Resource whose files Terraform can import.
type Importable[M any, K importer[M]] struct{ Resource[M, K] }

var (
	_ resource.ResourceWithConfigure      = &Resource[isoModel, *isoModel]{}
	_ resource.ResourceWithModifyPlan     = &Resource[isoModel, *isoModel]{}
	_ resource.ResourceWithValidateConfig = &Resource[isoModel, *isoModel]{}
	_ resource.ResourceWithImportState    = &Importable[imageModel, *imageModel]{}
	_ resource.ResourceWithImportState    = &Importable[snippetModel, *snippetModel]{}
)

// NewImage makes proxmox_image: an image that disks are made of, or an ISO image.
func NewImage() resource.Resource { return &Importable[imageModel, *imageModel]{} }

// NewSnippet makes proxmox_snippet: a snippet, written over SSH.
func NewSnippet() resource.Resource { return &Importable[snippetModel, *snippetModel]{} }

// NewCloudInitISO makes proxmox_cloud_init_iso: a disc that a guest's cloud-init reads its data from.
func NewCloudInitISO() resource.Resource { return &Resource[isoModel, *isoModel]{} }

// Metadata names the resource.
func (r *Resource[M, K]) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + K(new(M)).traits().name
}

// Schema returns the attributes of the kind.
func (r *Resource[M, K]) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = K(new(M)).schema(ctx)
}

// on prepares an operation on a file.
func (r *Resource[M, K]) on(m K) operation {
	return operation{session: r.Session, attempt: func(verb string) kit.Attempt {
		return kit.Attempt{Verb: verb, Thing: m.thing(), At: m.traits().at, As: r.Session.Identity(), Stateless: true,
			Shared: true}
	}}
}

// ValidateConfig refuses a configuration that no server accepts.
func (r *Resource[M, K]) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest,
	resp *resource.ValidateConfigResponse,
) {
	var m M
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	K(&m).validate(func(at, summary, detail string) { resp.Diagnostics.AddAttributeError(path.Root(at), summary, detail) })
}

// InState notes an image that a state file has (package fastpath).
func (r *Resource[M, K]) InState(stored []byte) {
	var object struct {
		Node   string `json:"node"`
		Volume string `json:"volume"`
		Owned  bool   `json:"owned"`
	}
	switch {
	case !r.Session.Known() || json.Unmarshal(stored, &object) != nil:
	case object.Owned:
		r.Session.VMs.Files.Owned(object.Node, object.Volume)
	case object.Volume != "":
		r.Session.VMs.Files.Finds(object.Node, object.Volume)
	}
}

// ModifyPlan plans the computed attributes, and asks the server about a file that is to be made. The volume id is known
// before the file exists, so that resources which use it are planned with their real values.
func (r *Resource[M, K]) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest,
	resp *resource.ModifyPlanResponse) {
	m, prior, ok := kit.Planned[M](ctx, req, resp)
	if ok {
		o := r.on(&m)
		o.private, o.diags, o.left = req.Private, &resp.Diagnostics, r.Session.LeavesToCreate(req)
		resp.RequiresReplace = append(resp.RequiresReplace, K(&m).plan(ctx, o, prior)...)
		resp.Diagnostics.Append(resp.Plan.Set(ctx, &m)...)
	} else if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	}
	if !r.Session.Known() || resp.Diagnostics.HasError() {
		return
	}
	was, at, o := K(&prior).holds(), K(&m).holds(), r.on(&prior)
	o.private, o.diags = req.Private, &resp.Diagnostics
	if was.volume != "" && !req.Plan.Raw.Equal(req.State.Raw) {
		o.diags.Append(kit.Diagnose(o.attempt("change"), r.Session.CheckCluster(ctx, req.Private))...)
	}
	was.earlier = K(&prior).earlier(ctx, o)
	if ok && was.owned.ValueBool() && !was.isAt(at) && !r.isRenamed(ctx, was, at) {
		resp.Diagnostics.Append(kit.RefuseImported(ctx, req.Private, K(&prior).thing(), K(&m).thing())...)
	}
	if r.refuseRival(ctx, was, at, &resp.Diagnostics); !resp.Diagnostics.HasError() {
		isKept := K(&prior).isKept() || was.volume == "" && K(&m).isKept() // it may be replaced: see Replaces
		r.warnOfSharing(ctx, was, at, isKept, &resp.Diagnostics)
	}
	if was.owned.ValueBool() && !K(&prior).isKept() && !r.isRenamed(ctx, was, at) {
		o.checkRemoval(ctx, was, howGoes(req, resp))
	}
}

// refuseRival refuses a file that another resource of the plan wants with other content. A file that a resource in
// state has made is not looked at in the plan, since that resource may be the one that is replaced.
func (r *Resource[M, K]) refuseRival(ctx context.Context, was, at held, diags *diag.Diagnostics) {
	isTaken := func(h held, isNew bool) bool {
		return h.volume != "" && h.content != "" && r.Session.VMs.Files.Claim(ctx, file.Claim{Node: h.node, Volume: h.volume,
			Content: h.content, New: isNew})
	}
	refuse := func(h held) {
		diags.AddAttributeError(path.Root("name"), "Two resources have "+h.volume+" on node "+h.node,
			"Another resource of this plan has this file with other content, or wants it so. Nothing was changed. Set name to "+
				"another one. If it is one resource that has got another address, say so with a moved block.")
	}
	stays := was.isAt(at)
	if !stays && !r.isRenamed(ctx, was, at) && was.owned.ValueBool() && isTaken(was, false) {
		refuse(was)
	}
	if isTaken(at, !stays) {
		refuse(at)
	}
}

// isRenamed reports whether a plan has an object's file by another name of its storage.
func (r *Resource[M, K]) isRenamed(ctx context.Context, was, at held) bool {
	return was.volume != "" && r.Session.VMs.Files.IsSame(ctx, was.node, was.volume, at.node, at.volume)
}

// warnOfSharing tells that a plan takes a file from a resource that stays: of several resources with one file, the one
// that has made it takes the file with it, unless it is kept.
func (r *Resource[M, K]) warnOfSharing(ctx context.Context, was, at held, isKept bool, diags *diag.Diagnostics) {
	files, stays := r.Session.VMs.Files, was.isAt(at) || r.isRenamed(ctx, was, at)
	for _, e := range was.earlier {
		if !was.isAt(at) && !e.isAt(at) && !r.isRenamed(ctx, e, at) && files.Goes(ctx, e.node, e.volume) {
			warnOfShared(e.volume, "This resource has put it there and remembers it. The plan destroys or changes this "+
				"resource, and the file goes with that, which another has in state.", diags)
		}
	}
	if was.owned.ValueBool() && (stays || !isKept) {
		thing := fmt.Sprintf("file %s on node %s", was.volume, was.node)
		diags.Append(kit.RefuseSplit(r.Session, thing, thing, thing, !stays)...)
	}
	if why := whyShared(ctx, files, was, at, stays, isKept); why != "" {
		warnOfShared(cmp.Or(was.volume, at.volume), why, diags)
	}
}

// whyShared says why a file goes that another resource has, "" where none goes.
func whyShared(ctx context.Context, files *file.Files, was, at held, stays, isKept bool) string {
	switch {
	case was.volume == "":
		if !isKept && at.volume != "" && files.Replaces(ctx, at.node, at.volume) {
			return "The plan replaces this resource, and the file goes with it, which another has in state."
		}
	case was.owned.IsNull(): // a state of an older version does not say
	case stays && !was.owned.ValueBool() && files.Stays(ctx, was.node, was.volume):
		return "The plan destroys, replaces or changes the resource that has put the file there, and this one has it in " +
			"state."
	case !stays && was.owned.ValueBool() && !isKept && files.Goes(ctx, was.node, was.volume):
		return "The plan destroys, replaces or changes this resource, and the file goes with it, which another has in state."
	}
	return ""
}

func warnOfShared(volume, why string, diags *diag.Diagnostics) {
	diags.AddAttributeWarning(path.Root("volume"), "A file of two resources goes: "+volume,
		why+" A resource that is replaced puts it there again; else the next plan does, for the one that stays. Where the "+
			"source has another file by now, neither can.")
}

// Create puts the file onto the storage.
func (r *Resource[M, K]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	if !r.CheckFirst(ctx, r, req, resp) {
		return
	}
	var m M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	o, k := r.on(&m), K(&m)
	o.diags = &resp.Diagnostics
	limit := kit.Duration(k.limits().Create, k.traits().createTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, o.attempt("create"), func(ctx context.Context) error {
		remember, err := k.create(ctx, o)
		if err != nil {
			return err
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		resp.Diagnostics.Append(remember.write(ctx, resp.Private)...)
		r.noteCluster(ctx, k, resp.Private, resp.Private, &resp.Diagnostics)
		return nil
	})
}

// Read looks the file up. A file that is gone leaves the state.
func (r *Resource[M, K]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m M
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	o := r.on(&m)
	o.private, o.diags = req.Private, &resp.Diagnostics
	r.Refresh(ctx, &resp.Diagnostics, kit.ReadTimeout, o.attempt("read"), func(ctx context.Context) error {
		there, err := K(&m).read(ctx, o)
		switch {
		case err != nil:
			return err
		case !there:
			resp.State.RemoveResource(ctx)
			resp.Diagnostics.Append(kit.NotInCluster(o.attempt("read"), ""))
		default:
			resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
			resp.Diagnostics.Append(kit.AgeImport(ctx, req.Private, resp.Private)...)
			resp.Diagnostics.Append(r.noteFinder(ctx, K(&m).holds(), req.Private, resp.Private)...)
			r.noteCluster(ctx, K(&m), req.Private, resp.Private, &resp.Diagnostics)
		}
		return nil
	})
}

// Update changes the file, if more has changed than attributes that only the provider reads.
func (r *Resource[M, K]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m, prior M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &prior)...)
	resp.Diagnostics.Append(kit.ForgetImport(ctx, req.Private, resp.Private)...)
	o, k := r.on(&m), K(&m)
	if !resp.Diagnostics.HasError() && k.isAsBefore(prior) {
		resp.State.Raw = req.Plan.Raw
		return
	}
	o.private, o.diags = req.Private, &resp.Diagnostics
	limit := kit.Duration(k.limits().Update, kit.UpdateTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, o.attempt("update"), func(ctx context.Context) error {
		remember, err := k.update(ctx, o, prior)
		if err != nil {
			return err
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		resp.Diagnostics.Append(remember.write(ctx, resp.Private)...)
		return nil
	})
}

// Delete removes the file, if this resource has put it there and no guest uses it.
func (r *Resource[M, K]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m M
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	o, k := r.on(&m), K(&m)
	if k.isKept() {
		return
	}
	o.private, o.diags = req.Private, &resp.Diagnostics
	limit := kit.Duration(k.limits().Delete, kit.DeleteTimeout)
	r.Do(ctx, &resp.Diagnostics, limit, o.attempt("destroy"), func(ctx context.Context) error {
		h, files := k.holds(), o.files()
		if err := r.checkCluster(ctx, k, req.Private); err != nil {
			return err
		}
		isFound, ok := recall(ctx, o, foundByAnother)
		switch {
		case !ok:
			return nil
		case isFound && h.owned.ValueBool():
			files.Yield(ctx, h.node, h.volume)
		case !h.owned.ValueBool() && files.Inherits(ctx, h.node, h.volume):
			k.inherit()
		}
		return k.remove(ctx, o)
	})
}

// foundByAnother is the note of an object that another one in state has found its file there. A refresh makes it: an
// apply is told nothing of the other one where that is unchanged.
const foundByAnother kit.Note[bool] = "found_by_another"

// noteFinder notes, after a refresh, whether another object in state has found the file there.
func (r *Resource[M, K]) noteFinder(ctx context.Context, h held, from kit.PrivateReader,
	to kit.PrivateWriter) diag.Diagnostics {
	was, diags := foundByAnother.Read(ctx, from)
	if is := h.owned.ValueBool() && r.Session.VMs.Files.IsFound(ctx, h.node, h.volume); is != was {
		diags.Append(foundByAnother.Write(ctx, to, is)...)
	}
	return diags
}

// ImportState adopts a file by the id "node/volume", such as "pve1/local:snippets/web.yaml".
func (i *Importable[M, K]) ImportState(ctx context.Context, req resource.ImportStateRequest,
	resp *resource.ImportStateResponse) {
	node, volume, ok := strings.Cut(req.ID, "/")
	storage, rest, colon := strings.Cut(volume, ":")
	content, name, slash := strings.Cut(rest, "/")
	var m M
	k := K(&m)
	if !ok || !colon || !slash || !k.accepts(content, name) {
		resp.Diagnostics.AddError("Cannot import "+req.ID, k.traits().importID)
		return
	}
	k.place(node, storage, content, name)
	o := i.on(&m)
	o.diags = &resp.Diagnostics
	i.Do(ctx, &resp.Diagnostics, kit.ReadTimeout, o.attempt("import"), func(ctx context.Context) error {
		if err := o.files().HasNode(ctx, node); err != nil {
			return err
		}
		there, err := k.read(ctx, o)
		switch {
		case err != nil:
			return err
		case !there:
			return fmt.Errorf("there is no %s on node %s", volume, node)
		}
		remember := k.adopted()
		resp.Diagnostics.Append(kit.NoteImport(ctx, resp.Private)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		resp.Diagnostics.Append(remember.write(ctx, resp.Private)...)
		i.noteCluster(ctx, k, resp.Private, resp.Private, &resp.Diagnostics)
		return nil
	})
}
