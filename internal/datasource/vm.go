package datasource

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// VM is the data source proxmox_vm.
type VM struct{ kit.DataSourceBase }

var _ datasource.DataSourceWithConfigure = &VM{}

// NewVM makes the data source.
func NewVM() datasource.DataSource { return &VM{} }

type vmModel struct {
	VMID        *int64                  `tfsdk:"vmid"`
	Name        *string                 `tfsdk:"name"`
	Node        *string                 `tfsdk:"node"`
	ID          *string                 `tfsdk:"id"`
	Status      *string                 `tfsdk:"status"`
	Template    *bool                   `tfsdk:"template"`
	Tags        []string                `tfsdk:"tags"`
	Pool        *string                 `tfsdk:"pool"`
	Lock        *string                 `tfsdk:"lock"`
	HAState     *string                 `tfsdk:"ha_state"`
	Description *string                 `tfsdk:"description"`
	UUID        *string                 `tfsdk:"uuid"`
	Config      map[string]string       `tfsdk:"config"`
	Pending     []string                `tfsdk:"pending_changes"`
	IPv4        *string                 `tfsdk:"ipv4_address"`
	IPv6        *string                 `tfsdk:"ipv6_address"`
	Addresses   map[string]addressModel `tfsdk:"addresses"`
}

type addressModel struct {
	MAC  string   `tfsdk:"mac"`
	IPv4 []string `tfsdk:"ipv4"`
	IPv6 []string `tfsdk:"ipv6"`
}

// Metadata names the data source.
func (v *VM) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_vm"
}

// Schema returns the attributes of the data source.
func (v *VM) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	texts := func(about string) schema.ListAttribute {
		return schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: about}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "One existing VM or template, managed by Terraform or not, found by its id or its name. " +
			"It needs `VM.Audit` on the VM, and for addresses `VM.Monitor` (PVE 9: `VM.GuestAgent.Audit`).",
		Attributes: map[string]schema.Attribute{
			"vmid": schema.Int64Attribute{Optional: true, Computed: true, MarkdownDescription: "Id. Exactly one of `vmid` and " +
				"`name` is given.",
				Validators: []validator.Int64{kit.VMID(), int64validator.ExactlyOneOf(path.MatchRoot("name"))}},
			"name": schema.StringAttribute{Optional: true, Computed: true,
				MarkdownDescription: "Name, which only one VM may have: PVE does not keep names apart, and several are an error " +
					"that lists them. PVE does not know the names of VMs whose node is away or has not reported them yet: a warning " +
					"names those."},
			"node": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.NodeName()},
				MarkdownDescription: "Node that the VM is on. Given, only VMs on this node are meant."},
			"id":          kit.ComputedString("The `vmid` as text."),
			"status":      kit.ComputedString("`running` or `stopped`, as the node has it now."),
			"template":    kit.ComputedBool("Whether it is a template."),
			"tags":        texts("Tags, sorted."),
			"pool":        kit.ComputedString("Resource pool, if it is in one that the identity may see."),
			"lock":        kit.ComputedString("Lock of its configuration, such as `backup` or `migrate`."),
			"ha_state":    kit.ComputedString("State that HA has it in, if it is under HA."),
			"description": kit.ComputedString("Description."),
			"uuid": kit.ComputedString("UUID of the SMBIOS, by which the VM is told from others that get its id " +
				"later."),
			"pending_changes": texts("Options of which a change waits for a restart."),
			"config": schema.MapAttribute{Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Options that are in force, by PVE's names and in PVE's words: `config[\"scsi0\"]`. Not the " +
					"password of cloud-init."},
			"ipv4_address": kit.ComputedString("First IPv4 address of the first network device that has one; null as long as " +
				"the agent is silent."),
			"ipv6_address": kit.ComputedString("First IPv6 address, likewise."),
			"addresses": schema.MapNestedAttribute{Computed: true,
				MarkdownDescription: "What the guest agent says, by network device (`net0`); null as long as it says nothing. It " +
					"is asked once.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"mac": kit.ComputedString("MAC address."), "ipv4": texts("IPv4 addresses, without prefix length."),
					"ipv6": texts("IPv6 addresses, without prefix length."),
				}}},
		},
	}
}

// Read finds the VM and reads its configuration.
func (v *VM) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m vmModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	v.Ask(ctx, resp, kit.ReadTimeout, kit.Attempt{Verb: "read", Thing: m.what()}, func(ctx context.Context) error {
		listed, untold, err := v.find(ctx, &m)
		if err == nil {
			err = v.fill(ctx, &m, listed)
		}
		if err == nil {
			resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		}
		if err == nil && len(untold) > 0 {
			resp.Diagnostics.AddAttributeWarning(path.Root("name"), "Another VM may have the name, too",
				fmt.Sprintf("VM %d on node %s is called %s, and was read. %s. If one of them has the name, too, this is an error "+
					"as soon as PVE tells. vmid names the VM for certain.", listed.VMID, listed.Node, *m.Name,
					guest.UntoldText(untold)))
		}
		return err
	})
}

func (v *vmModel) what() string {
	if v.VMID != nil {
		return fmt.Sprintf("VM %d", *v.VMID)
	}
	return "VM " + value(v.Name)
}

// find looks the VM up in the cluster's listing. The others are those that may have the name as well.
func (v *VM) find(ctx context.Context, m *vmModel) (found pve.Resource, untold []pve.Resource, err error) {
	listed, err := v.Session.API.Listing().Shared(ctx)
	if err != nil {
		return found, nil, err
	}
	where := ""
	if m.Node != nil {
		where = " on node " + *m.Node
	}
	var matches []pve.Resource
	for _, r := range listed.Guests() {
		named := m.VMID != nil && int64(r.VMID) == *m.VMID || m.VMID == nil && r.Type == "qemu" && r.Name == value(m.Name)
		if named && (m.Node == nil || r.Node == *m.Node) {
			matches = append(matches, r)
		}
	}
	if m.VMID == nil {
		untold = listed.Untold(pve.Filter{Name: value(m.Name), Node: value(m.Node)}, false)
	}
	switch {
	case len(matches) == 0:
		return found, nil, fmt.Errorf("there is no %s%s in the cluster, or this identity may not see it (VM.Audit)%s",
			m.what(), where, guest.UntoldMayBeIt(untold))
	case len(matches) > 1:
		var names []string
		for _, r := range matches {
			names = append(names, fmt.Sprintf("%d (node %s)", r.VMID, r.Node))
		}
		return found, nil, fmt.Errorf("%d VMs have the name %s%s: %s. Give the vmid of one of them, or its node",
			len(matches), value(m.Name), where, strings.Join(names, ", "))
	case matches[0].Type != "qemu":
		return found, nil, fmt.Errorf("%s on node %s is no virtual machine", guest.Named(matches[0]), matches[0].Node)
	}
	return matches[0], untold, nil
}

// fill reads what the listing does not tell. Whether the VM runs is asked of its node: the listing is up to 10 s old.
func (v *VM) fill(ctx context.Context, m *vmModel, listed pve.Resource) error {
	config, err := v.Session.API.QEMU(listed.Node, listed.VMID).Pending(ctx)
	if err != nil {
		return err
	}
	current := config.Current()
	if m.VMID == nil && current["name"] != value(m.Name) {
		return fmt.Errorf("VM %d on node %s, which had this name a moment ago, is now called %q", listed.VMID, listed.Node,
			current["name"])
	}
	status, err := v.Session.API.QEMU(listed.Node, listed.VMID).Status(ctx)
	if err != nil {
		return err
	}
	g := guest.FromConfig(config, listed.Node, listed.VMID)
	g.Status = status.Status
	if g.HasAgent() {
		v.Session.VMs.AskAgent(ctx, &g, agent.Memory{Enabled: true})
	}
	e, id, vmid := entryOf(listed), fmt.Sprint(listed.VMID), int64(listed.VMID)
	m.VMID, m.ID, m.Node, m.Status, m.Template = &vmid, &id, &listed.Node, &status.Status, &e.Template
	m.Name, m.Tags, m.Pool, m.HAState = kit.NonZero(current["name"]), e.Tags, e.Pool, e.HAState
	m.Lock, m.Description, m.UUID = kit.NonZero(g.Lock), kit.NonZero(current["description"]), kit.NonZero(g.Identity.UUID)
	m.Pending = append([]string{}, g.Pending...)
	delete(current, "cipassword")
	m.Config = current
	m.setAddresses(g)
	return nil
}

func (v *vmModel) setAddresses(g guest.Guest) {
	found := g.Addresses()
	for _, slot := range g.NICs() {
		a, ok := found[slot]
		if !ok {
			continue
		}
		if v.Addresses == nil {
			v.Addresses = map[string]addressModel{}
		}
		v.Addresses[slot] = addressModel{MAC: a.MAC, IPv4: append([]string{}, a.IPv4...), IPv6: append([]string{}, a.IPv6...)}
		v.IPv4, v.IPv6 = first(v.IPv4, a.IPv4), first(v.IPv6, a.IPv6)
	}
}

func first(known *string, found []string) *string {
	if known == nil && len(found) > 0 {
		return &found[0]
	}
	return known
}
