package tfaction

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

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/orphan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// OrphanDelete is the action proxmox_orphan_delete.
type OrphanDelete struct{ tfkit.ActionBase }

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

func (m orphanModel) named() orphan.Named {
	n := orphan.Named{Kind: orphan.Kind(m.Kind), ID: m.ID, Node: value(m.Node)}
	n.Since, _ = time.Parse(time.RFC3339, value(m.Since)) // a validator has refused what is none
	return n
}

// Metadata names the action.
func (a *OrphanDelete) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_orphan_delete"
}

// Schema is the shape of the action.
func (a *OrphanDelete) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	var kinds []string
	for _, k := range orphan.Kinds() {
		kinds = append(kinds, string(k))
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Removes one item that [`proxmox_orphans`](../data-sources/orphans.md) lists: its `kind`, `id`, `node` " +
			"and `since` are the arguments. The item is looked for once more, by the same rules, and once more right before it is " +
			"removed: **what somebody uses by then, or may use, is not touched**, and that is an error. " +
			"What is there no more is a success.\n\n" +
			"`certain` items are removed; `likely` ones only with `accept = \"likely\"`; `unknown` ones never.\n\n" +
			"It takes the privileges of `proxmox_orphans`, and those of the deed: `Datastore.Allocate` on the storage of a volume, or " +
			"SSH; `VM.Allocate` on a VM; `Sys.Console` on `/` for HA; `Pool.Allocate` on the pool and `VM.Allocate` on `/vms`; " +
			"`Permissions.Modify` or `VM.Allocate` on the path of a permission. Where a lock has to be taken away first, PVE lets only " +
			"`root@pam` with a password do so, or SSH does: `lock`, `half_destroyed`, and a `half_made` VM that is locked.",
		Attributes: map[string]schema.Attribute{
			"kind": schema.StringAttribute{Required: true, Validators: []validator.String{stringvalidator.OneOf(kinds...)},
				MarkdownDescription: "Kind of the item: `" + strings.Join(kinds, "`, `") + "`."},
			"id": schema.StringAttribute{Required: true, Validators: []validator.String{tfkit.Line()},
				MarkdownDescription: "Id of the item, as it is listed: a volume id, the id of a guest, the entry."},
			"node": schema.StringAttribute{Optional: true, Validators: []validator.String{tfkit.NodeName()},
				MarkdownDescription: "Node that it must be on. A volume of a storage that several nodes have by itself is on one of them: name it."},
			"since": schema.StringAttribute{Optional: true, Validators: []validator.String{tfkit.Timestamp()},
				MarkdownDescription: "When it must have been made or left, as it is listed (RFC 3339). " +
					"With it another item that has the id by now is not removed. Of several VMs of one name without a disk, the last " +
					"one shows by it that it was one of them."},
			"accept": schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.OneOf("certain", "likely")},
				MarkdownDescription: "How sure it must be that nobody needs the item: `certain` or `likely`. Default: `certain`."},
			"exclusive_storages": schema.SetAttribute{Optional: true, ElementType: types.StringType,
				Validators: []validator.Set{setvalidator.ValueStringsAre(tfkit.StorageID())},
				MarkdownDescription: "Shared storages that no other cluster uses. Without its storage here a volume on a shared one is " +
					"`unknown`, and is not removed."},
			"timeout": timeout("How long the action may take. Default: `15m`."),
		},
	}
}

// ValidateConfig refuses an id that cannot be one of the kind.
func (a *OrphanDelete) ValidateConfig(ctx context.Context, req action.ValidateConfigRequest, resp *action.ValidateConfigResponse) {
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

func (a *OrphanDelete) attempt(m orphanModel) tfkit.Attempt {
	return tfkit.Attempt{Verb: "remove", Thing: m.Kind + " " + m.ID, At: attributes{}, As: a.Session.User()}
}

// ModifyPlan refuses what can never work.
func (a *OrphanDelete) ModifyPlan(ctx context.Context, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse) {
	m, ok := planned[orphanModel](ctx, a.Session, req, resp)
	switch {
	case !ok:
	case orphan.Kind(m.Kind).NeedsUnlock():
		resp.Diagnostics.Append(tfkit.Diagnose(a.attempt(m), a.Session.VMs.CanUnlock())...)
	case orphan.Kind(m.Kind) == orphan.Volume:
		storage, _, _ := strings.Cut(m.ID, ":")
		resp.Diagnostics.Append(tfkit.Verdicts(a.attempt(m), a.Session.VMs.Permit(ctx,
			preflight.Take{Path: "id", What: "tell whether a guest uses " + m.ID, On: "/vms", AnyOf: []string{"VM.Audit"}},
			preflight.Take{Path: "id", What: "see all storages", On: "/storage", AnyOf: []string{"Datastore.Audit"}},
			preflight.Take{Path: "id", What: "remove volumes of storage " + storage, On: "/storage/" + storage,
				AnyOf: []string{"Datastore.Allocate"}}), nil)...)
	}
}

// Invoke removes the item.
func (a *OrphanDelete) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m orphanModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	attempt := a.attempt(m)
	a.Do(ctx, resp, tfkit.Duration(m.Timeout, tfkit.DeleteTimeout), attempt, func(ctx context.Context) error {
		done, err := a.Session.VMs.OrphanDeleter.Delete(ctx, m.named(), orphan.Certainty(value(m.Accept)), orphan.Options{Exclusive: m.Exclusive})
		var left *tx.LeftError
		switch {
		case err == nil:
			tfkit.Inform(ctx, done, nil)
		case errors.As(err, &left):
			resp.Diagnostics.AddError("Cannot remove "+attempt.Thing+" completely", err.Error()+"\n\n"+tfkit.ListResidues(left.Left))
			return nil
		}
		return err
	})
}
