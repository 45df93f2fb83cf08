package harule

import (
	"context"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/harule"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

var (
	ruleID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]+$`)  // pve-common JSONSchema.pm, pve-configid
	sid    = regexp.MustCompile(`^(vm|ct):[1-9][0-9]{2,8}$`) // pve-ha-manager HA/Tools.pm, pve-ha-resource-id
)

func ruleSchema(ctx context.Context) schema.Schema {
	fixed := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	return schema.Schema{
		MarkdownDescription: "An HA rule of Proxmox VE 9.0 or later. With `type = \"node-affinity\"` it says on which " +
			"nodes HA runs its guests, with `type = \"resource-affinity\"` which guests HA keeps together or apart. The guide " +
			"[VMs on different nodes](../guides/vms-on-different-nodes.md) shows one. Proxmox VE 8 has HA groups instead: " +
			"there the plan refuses the resource, and `ha.group` of `proxmox_vm` names the group.\n\n" +
			"Every guest that a rule names has to be under HA, so its VM needs `ha`. `resources = " +
			"[\"vm:${proxmox_vm.a.vmid}\"]` makes Terraform wait for the VM and its HA entry.\n\n" +
			"A rule that exists already is never taken over by a create; the error has the command that imports it. If a " +
			"third party changes the rule between the plan and the apply, the apply leaves it alone and says so.\n\n" +
			"When a VM is destroyed, newer versions of Proxmox VE take it out of its rules and remove a rule that has no " +
			"other guest. Updates and destroys of the rule allow for that. A VM that is replaced under the same id is missing " +
			"in the rule until the next apply. With `lifecycle { replace_triggered_by = [proxmox_vm.a.uuid] }` the " +
			"rule is made again together with the VM.\n\n" +
			"It requires `Sys.Audit` and `Sys.Console` on `/`.",
		Attributes: map[string]schema.Attribute{
			"rule": schema.StringAttribute{Required: true, PlanModifiers: fixed, Validators: []validator.String{ID()},
				MarkdownDescription: "Id of the rule: two or more letters, digits, `_` and `-`, a letter first. A change makes " +
					"a new rule and removes this one."},
			"type": schema.StringAttribute{Required: true, PlanModifiers: fixed,
				Validators: []validator.String{stringvalidator.OneOf(harule.NodeAffinity, harule.ResourceAffinity)},
				MarkdownDescription: "`node-affinity` or `resource-affinity`. A change removes the rule and makes a new " +
					"one."},
			"resources": schema.SetAttribute{Required: true, ElementType: types.StringType,
				Validators: []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.NoNullValues(),
					setvalidator.ValueStringsAre(stringvalidator.RegexMatches(sid, "must be HA's name of a guest, such as "+
						"\"vm:100\" or \"ct:101\""))},
				MarkdownDescription: "Guests that the rule is about, by HA's names of them: `vm:100`, or `ct:101` for a " +
					"container. Resource affinity takes at least two, and negative affinity at most as many as there are nodes."},
			"nodes": schema.MapAttribute{Optional: true, ElementType: types.Int64Type,
				Validators: []validator.Map{mapvalidator.SizeAtLeast(1), mapvalidator.NoNullValues(),
					mapvalidator.KeysAre(kit.NodeName()), mapvalidator.ValueInt64sAre(int64validator.AtLeast(0))},
				MarkdownDescription: "Nodes on which the guests run, each with its priority: `{ pve1 = 2, pve2 = 1 }`. HA " +
					"takes the online nodes with the highest priority; `0` is PVE's default. Required with `node-affinity`, and " +
					"only for it."},
			"strict": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether the guests run on no other nodes, so that HA stops them while none of these is " +
					"online. Only with `node-affinity`. Default: `false`."},
			"affinity": schema.StringAttribute{Optional: true,
				Validators: []validator.String{stringvalidator.OneOf("positive", "negative")},
				MarkdownDescription: "`positive` keeps the guests on the same node, `negative` on different nodes. Required with " +
					"`resource-affinity`, and only for it."},
			"disable": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether HA passes over the rule. Default: `false`."},
			"comment": schema.StringAttribute{Optional: true, Validators: []validator.String{
				stringvalidator.UTF8LengthBetween(1, 4096), kit.Printable(), trimmed()},
				MarkdownDescription: "A note at the rule. Default: none."},
			"timeouts": kit.TimeoutsAttribute(ctx, timeouts.Opts{Create: true, Read: true, Update: true, Delete: true}),
		},
	}
}

// ID accepts the id of a rule.
func ID() validator.String {
	return stringvalidator.RegexMatches(ruleID, "must be the id of an HA rule: two or more letters, digits, \"_\" and "+
		"\"-\", a letter first")
}

// trimmed refuses a comment that PVE would change: its file has the text behind the name of the option, other
// characters than the blank encoded (pve-ha-manager HA/Rules.pm encode_value, pve-common SectionConfig.pm
// parse_config).
func trimmed() validator.String {
	return kit.Check{Want: "must be a text that does not begin or end with a blank", Wrong: func(value string) string {
		if strings.Trim(value, " ") != value {
			return "PVE drops the blanks at its beginning and its end."
		}
		return ""
	}}
}
