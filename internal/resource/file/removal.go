package file

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// going is how a plan takes an object's file away.
type going int

const (
	stays going = iota
	goes
	isReplaced
)

// howGoes tells how a plan takes the file of an object away. A disc that is changed in place takes its old one when no
// guest has that any more. The schema says of these attributes that they replace a disc or a snippet.
func howGoes(req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) going {
	switch {
	case req.State.Raw.IsNull():
		return stays
	case req.Plan.Raw.IsNull():
		return goes
	case len(resp.RequiresReplace) > 0:
		return isReplaced
	}
	var was, is map[string]tftypes.Value
	if req.State.Raw.As(&was) != nil || req.Plan.Raw.As(&is) != nil {
		return stays
	}
	for _, at := range []string{"node", "storage", "name"} {
		if !was[at].Equal(is[at]) {
			return isReplaced
		}
	}
	return stays
}

// checkRemoval reports for what reasons the server would not remove the file of an object that goes. Terraform destroys
// the VMs that were made of a file before the file, so a replacement that ends there has destroyed them for nothing:
// that is an error. With a file that only goes, they were to go as well. That a guest uses the file is left to the
// apply: the plan of a file comes before those of the VMs that refer to it, and PVE gives no guest an image to import
// (qemu-server API2/Qemu.pm, check_storage_access: "content type needs to be 'images' or 'iso'").
func (o operation) checkRemoval(ctx context.Context, was held, how going) {
	if how == stays {
		return
	}
	storage, name, _ := strings.Cut(was.volume, ":")
	_, mayStay := o.attempt("").At.Attribute("on_destroy")
	const keep = "set on_destroy = \"keep\" in an apply of its own first: the file stays then"
	takes := preflight.SeeAll("volume", "tell whether a guest uses "+was.volume)
	if !strings.HasPrefix(name, file.Snippets+"/") && o.session.Shell == nil { // else root removes it, over SSH
		take := preflight.Take{Path: "storage", What: "remove " + was.volume, On: "/storage/" + storage,
			AnyOf: []string{"Datastore.Allocate"}}
		if mayStay {
			take.Instead = keep
		}
		takes = append(takes, take)
	}
	found := o.session.VMs.Permit(ctx, takes...)
	if how == goes {
		o.diags.Append(kit.Verdicts(o.attempt("destroy"), nil, found)...)
		return
	}
	if why := o.files().CheckRemoval(ctx, was.node, storage); why != nil {
		if mayStay {
			why.Detail += ", or " + keep
		}
		found = append([]*guest.FieldError{why}, found...)
	}
	o.diags.Append(kit.Verdicts(o.attempt("replace"), found, nil)...)
}

// noteCluster notes the cluster of a file that nothing but its name and content tells from another's.
func (r *Resource[M, K]) noteCluster(ctx context.Context, k K, from kit.PrivateReader, to kit.PrivateWriter,
	diags *diag.Diagnostics) {
	if k.traits().isBare {
		diags.Append(r.Session.NoteCluster(ctx, r.on(k).attempt("read"), from, to)...)
	}
}

// checkCluster refuses such a file in another cluster. The listing, which the removal looks
// at too, shows which one it is.
func (r *Resource[M, K]) checkCluster(ctx context.Context, k K, private kit.PrivateReader) error {
	if !k.traits().isBare {
		return nil
	}
	if _, err := r.Session.API.Listing().Shared(ctx); err != nil {
		return err
	}
	return r.Session.CheckCluster(ctx, private)
}
