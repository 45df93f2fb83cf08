package action

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog/interceptor"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/orphan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// OrphanDelete is the action proxmox_orphan_delete.
type OrphanDelete struct{ kit.ActionBase }

var (
	_ action.ActionWithConfigure      = &OrphanDelete{}
	_ action.ActionWithModifyPlan     = &OrphanDelete{}
	_ action.ActionWithValidateConfig = &OrphanDelete{}
)

// NewOrphanDelete makes the action.
func NewOrphanDelete() action.Action { return &OrphanDelete{} }

type orphanModel struct {
	Kind      string   `tfsdk:"kind"`
	ID        string   `tfsdk:"id"`
	Node      *string  `tfsdk:"node"`
	Since     *string  `tfsdk:"since"`
	Accept    *string  `tfsdk:"accept"`
	Exclusive []string `tfsdk:"exclusive_storages"`
	Timeout   *string  `tfsdk:"timeout"`
}

func (o orphanModel) named() orphan.Named {
	n := orphan.Named{Kind: orphan.Kind(o.Kind), ID: o.ID, Node: value(o.Node)}
	n.Since, _ = time.Parse(time.RFC3339, value(o.Since)) // a validator has refused anything else
	return n
}

// Metadata names the action.
func (o *OrphanDelete) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_orphan_delete"
}

// Schema returns the attributes of the action.
func (o *OrphanDelete) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	var kinds []string
	for _, k := range orphan.Kinds() {
		kinds = append(kinds, string(k))
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Removes one item that [`proxmox_orphans`](../data-sources/orphans.md) lists: its `kind`, " +
			"`id`, `node` and `since` are the arguments. The item is looked up again, by the same rules, and once more right " +
			"before it is removed. **An item that is in use by then, or may be, is not touched**, which is an error. A " +
			"missing item is a success.\n\n" +
			"`certain` items are removed; `likely` ones only with `accept = \"likely\"`; `unknown` ones never.\n\n" +
			"It needs the privileges of `proxmox_orphans`, and those for the removal. A volume takes `Datastore.Allocate` on " +
			"its storage, or SSH. A VM takes `VM.Allocate`. An HA resource takes `Sys.Console` on `/`. A pool takes " +
			"`Pool.Allocate` on it and `VM.Allocate` on `/vms`. A permission takes `Permissions.Modify` or `VM.Allocate` on " +
			"the path of a permission. If a lock has to be removed first, that takes `root@pam` with a password, or SSH: " +
			"`lock`, `half_destroyed`, and a `half_made` VM that is locked.",
		Attributes: map[string]schema.Attribute{
			"kind": schema.StringAttribute{Required: true, Validators: []validator.String{stringvalidator.OneOf(kinds...)},
				MarkdownDescription: "Kind of the item: `" + strings.Join(kinds, "`, `") + "`."},
			"id": schema.StringAttribute{Required: true, Validators: []validator.String{kit.Line()},
				MarkdownDescription: "Id of the item as listed: a volume id, the id of a guest, or the entry."},
			"node": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.NodeName()},
				MarkdownDescription: "Node that the item must be on. Default: any. It is required for a volume of a storage that " +
					"several nodes have and do not share."},
			"since": schema.StringAttribute{Optional: true, Validators: []validator.String{kit.Timestamp()},
				MarkdownDescription: "Time at which the item must have been made or left, as listed (RFC 3339). With it a " +
					"different item that has received the id since is not removed. Of several VMs with the same name and no disk, " +
					"the last one is an orphan only with this time. Default: any time."},
			"accept": schema.StringAttribute{Optional: true,
				Validators:          []validator.String{stringvalidator.OneOf("certain", "likely")},
				MarkdownDescription: "Required certainty that the item is not needed: `certain` or `likely`. Default: `certain`."},
			"exclusive_storages": schema.SetAttribute{Optional: true, ElementType: types.StringType,
				Validators: []validator.Set{setvalidator.ValueStringsAre(kit.StorageID())},
				MarkdownDescription: "Shared storages that no other cluster uses, besides those that the provider's " +
					"`exclusive_storages` names. A volume on any other shared " +
					"storage is `unknown`, and is not removed. Default: none."},
			"timeout": timeout("Time limit of the action. Default: `15m`."),
		},
	}
}

// ValidateConfig refuses an id that cannot be one of the kind.
func (o *OrphanDelete) ValidateConfig(ctx context.Context, req action.ValidateConfigRequest,
	resp *action.ValidateConfigResponse) {
	var kind, id types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("kind"), &kind)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("id"), &id)...)
	if resp.Diagnostics.HasError() || kind.IsUnknown() || id.IsUnknown() {
		return
	}
	n := orphan.Named{Kind: orphan.Kind(kind.ValueString()), ID: id.ValueString()}
	if wrong := n.Wrong(); wrong != "" {
		resp.Diagnostics.AddAttributeError(path.Root("id"), "Invalid Attribute Value", "\""+n.ID+"\" "+wrong+".")
	}
}

func (o *OrphanDelete) attempt(m orphanModel) kit.Attempt {
	return kit.Attempt{Verb: "remove", Thing: m.Kind + " " + m.ID, At: attributes{}, As: o.Session.Identity()}
}

// ModifyPlan refuses an item that the identity cannot remove.
func (o *OrphanDelete) ModifyPlan(ctx context.Context, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse) {
	m, ok := planned[orphanModel](ctx, o.Session, req, resp)
	switch {
	case !ok:
	case orphan.Kind(m.Kind).NeedsUnlock():
		resp.Diagnostics.Append(kit.Diagnose(o.attempt(m), o.Session.VMs.Locks().CanRelease())...)
	case orphan.Kind(m.Kind) == orphan.Volume:
		storage, _, _ := strings.Cut(m.ID, ":")
		resp.Diagnostics.Append(kit.Verdicts(o.attempt(m), o.Session.VMs.Permit(ctx,
			preflight.Take{Path: "id", What: "tell whether a guest uses " + m.ID, On: "/vms", AnyOf: []string{"VM.Audit"}},
			preflight.Take{Path: "id", What: "tell whether guests are hidden", On: "/access", AnyOf: []string{"Sys.Audit"}},
			preflight.Take{Path: "id", What: "see all storages", On: "/storage", AnyOf: []string{"Datastore.Audit"}},
			preflight.Take{Path: "id", What: "remove volumes of storage " + storage, On: "/storage/" + storage,
				AnyOf: []string{"Datastore.Allocate"}}), nil)...)
	}
}

// Invoke removes the item.
func (o *OrphanDelete) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m orphanModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	attempt := o.attempt(m)
	o.Do(ctx, resp, kit.Duration(m.Timeout, kit.DeleteTimeout), attempt, func(ctx context.Context) error {
		done, err := o.Session.VMs.OrphanDeleter.Delete(ctx, m.named(), orphan.Certainty(value(m.Accept)),
			orphan.Options{Exclusive: m.Exclusive})
		var left *saga.LeftError
		switch {
		case err == nil:
			interceptor.Inform(ctx, done, nil)
		case errors.As(err, &left):
			resp.Diagnostics.AddError("Cannot remove "+attempt.Thing+" completely",
				err.Error()+"\n\n"+kit.ListResidues(left.Left))
			return nil
		}
		return err
	})
}
