package datasource

import (
	"context"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/orphan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// Orphans is the data source proxmox_orphans.
type Orphans struct{ kit.DataSourceBase }

var _ datasource.DataSourceWithConfigure = &Orphans{}

// NewOrphans makes the data source.
func NewOrphans() datasource.DataSource { return &Orphans{} }

type orphansModel struct {
	Exclusive []string      `tfsdk:"exclusive_storages"`
	Orphans   []orphanEntry `tfsdk:"orphans"`
	Unchecked []string      `tfsdk:"unchecked"`
}

type orphanEntry struct {
	Kind      string  `tfsdk:"kind"`
	ID        string  `tfsdk:"id"`
	VMID      int64   `tfsdk:"vmid"`
	Name      *string `tfsdk:"name"`
	Node      *string `tfsdk:"node"`
	Storage   *string `tfsdk:"storage"`
	Size      *int64  `tfsdk:"size"`
	Since     *string `tfsdk:"since"`
	Certainty string  `tfsdk:"certainty"`
	Reason    string  `tfsdk:"reason"`
	Command   *string `tfsdk:"command"`
}

func orphanOf(i orphan.Item) orphanEntry {
	e := orphanEntry{Kind: string(i.Kind), ID: i.ID, VMID: int64(i.VMID), Name: kit.NonZero(i.Name),
		Node:    kit.NonZero(i.Node),
		Storage: kit.NonZero(i.Storage), Size: kit.NonZero(i.Size), Certainty: string(i.Certainty), Reason: i.Reason,
		Command: kit.NonZero(i.Command)}
	if !i.Since.IsZero() {
		since := i.Since.UTC().Format(time.RFC3339)
		e.Since = &since
	}
	return e
}

// Metadata names the data source.
func (o *Orphans) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_orphans"
}

// Schema returns the attributes of the data source.
func (o *Orphans) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Objects without an owner: volumes whose guest is gone, half-made or half-destroyed VMs, " +
			"locks that no task holds, entries of HA, pools and permissions for ids that no guest has. It reads and changes " +
			"nothing. It reads every guest of the cluster, which takes a request for each, and lists every storage.\n\n" +
			"It needs `VM.Audit` on `/vms`, `Datastore.Audit` and `Datastore.Allocate` on `/storage`, `Sys.Audit` and " +
			"`Pool.Audit` on `/`, all propagated. Places that it could not read, for lack of a privilege or because a node is " +
			"away, stand in `unchecked` and in a warning. An empty list of orphans means that there are none only if " +
			"`unchecked` is empty too.",
		Attributes: map[string]schema.Attribute{
			"exclusive_storages": schema.SetAttribute{Optional: true, ElementType: types.StringType,
				Validators: []validator.Set{setvalidator.ValueStringsAre(kit.StorageID())},
				MarkdownDescription: "Shared storages that no other cluster uses, besides those that the provider's " +
					"`exclusive_storages` names. A volume on any other shared storage may be " +
					"that of a guest of another cluster, which this one cannot see, so its `certainty` is `unknown`."},
			"orphans": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "What was found, sorted by kind and id.",
				NestedObject: schema.NestedAttributeObject{Attributes: orphanAttributes()}},
			"unchecked": schema.ListAttribute{Computed: true, ElementType: types.StringType,
				MarkdownDescription: "What could not be looked at, and why."},
		},
	}
}

func orphanAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"kind": kit.ComputedString("`volume`: it carries an id that no guest has, and no guest uses it. " +
			"`half_made`: a VM that a create, clone or restore that was killed has left locked, or one that was made without " +
			"a disk, was never started, and has nothing to start from or is one of several of its name. `half_destroyed`: the " +
			"lock of a destroy that was killed or failed late, and nothing else of the VM. `expired_create`: a VM with the " +
			"mark of a create of this provider that is over. `lock`: a guest that is locked although no task holds the lock. " +
			"`ha_resource`, `pool_member`, `acl_entry`: an entry for an id that no guest has."),
		"id":      kit.ComputedString("Volume id, id of the guest, or the entry."),
		"vmid":    kit.ComputedInt64("Id that it carries."),
		"name":    kit.ComputedString("Name of the guest, if there is one."),
		"node":    kit.ComputedString("Node that it is on, and on which `command` is to be run."),
		"storage": kit.ComputedString("Storage of a volume."),
		"size": kit.ComputedInt64("Size in bytes: of the volume, or of all volumes that carry the guest's id; null where " +
			"that is not known or there are none."),
		"since": kit.ComputedString("When it was made or left, in UTC (RFC 3339): the volume was made, " +
			"the task that died began, the time of the create was over. Null if that is unknown."),
		"certainty": kit.ComputedString("`certain`: it is a leftover of an operation that has provably ended, and no " +
			"guest uses it. `likely`: no guest uses it and it is empty, but it may have been made in advance. A volume whose " +
			"storage does not tell when it was made is `likely`; it may be a copy that pve-zsync keeps of another host's VM. " +
			"`unknown`: it may be in use, or that could not be checked."),
		"reason": kit.ComputedString("The reasons for and against it being a leftover."),
		"command": kit.ComputedString("Command that removes it, to be run as root on `node`; of a `lock`, the lock " +
			"alone. Null for `unknown`, and where a name is unusual. Check again before you run it: it is as old as the plan."),
	}
}

// Read looks for orphans. Every guest is read, so it may take longer than other reads.
func (o *Orphans) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m orphansModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	attempt := kit.Attempt{Verb: "look for", Thing: "orphans"}
	o.Ask(ctx, resp, 5*kit.ReadTimeout, attempt, func(ctx context.Context) error {
		report, err := o.Session.VMs.Orphans.Find(ctx, orphan.Options{Exclusive: m.Exclusive})
		if err != nil {
			return err
		}
		m.Orphans, m.Unchecked = []orphanEntry{}, append([]string{}, report.Unchecked...)
		for _, i := range report.Items {
			m.Orphans = append(m.Orphans, orphanOf(i))
		}
		if len(m.Unchecked) > 0 {
			resp.Diagnostics.AddWarning("Not everything was looked at for orphans",
				"There may be more than is listed. This was not looked at:\n  "+strings.Join(m.Unchecked, "\n  "))
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}
