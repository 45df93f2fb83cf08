package datasource

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// ImportMetadata is the data source proxmox_import_metadata.
type ImportMetadata struct{ kit.DataSourceBase }

var _ datasource.DataSourceWithConfigure = &ImportMetadata{}

// NewImportMetadata makes the data source.
func NewImportMetadata() datasource.DataSource { return &ImportMetadata{} }

type importModel struct {
	Volume    string                `tfsdk:"volume"`
	Node      *string               `tfsdk:"node"`
	Name      *string               `tfsdk:"name"`
	OSType    *string               `tfsdk:"ostype"`
	BIOS      *string               `tfsdk:"bios"`
	SCSIHW    *string               `tfsdk:"scsihw"`
	BootOrder []string              `tfsdk:"boot_order"`
	CPU       importCPU             `tfsdk:"cpu"`
	Memory    importMemory          `tfsdk:"memory"`
	SMBIOS    *importSMBIOS         `tfsdk:"smbios"`
	Disks     map[string]importDisk `tfsdk:"disks"`
	CDROMs    map[string]importCD   `tfsdk:"cdroms"`
	Networks  map[string]importNIC  `tfsdk:"networks"`
	Serial    map[string]importPort `tfsdk:"serial"`
	Warnings  []importWarning       `tfsdk:"warnings"`
}

type importCPU struct {
	Sockets int64 `tfsdk:"sockets"`
	Cores   int64 `tfsdk:"cores"`
}

type importMemory struct {
	Size *int64 `tfsdk:"size"`
}

type importSMBIOS struct {
	UUID *string `tfsdk:"uuid"`
}

type importDisk struct {
	ImportFrom string  `tfsdk:"import_from"`
	Size       *string `tfsdk:"size"`
}

type importCD struct {
	File string `tfsdk:"file"`
}

type importNIC struct {
	Model   string  `tfsdk:"model"`
	MACAddr *string `tfsdk:"macaddr"`
}

type importPort struct {
	Device string `tfsdk:"device"`
}

type importWarning struct {
	Type    string  `tfsdk:"type"`
	Key     *string `tfsdk:"key"`
	Value   *string `tfsdk:"value"`
	Message string  `tfsdk:"message"`
}

// Metadata names the data source.
func (i *ImportMetadata) Metadata(_ context.Context, req datasource.MetadataRequest,
	resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_import_metadata"
}

// importable are the guests that PVE reads (pve-storage ESXiPlugin.pm, DirPlugin.pm get_import_metadata).
var importable = regexp.MustCompile(`^[A-Za-z][\w.-]*:.+\.(?:vmx|ova|ovf)$`)

// Schema returns the attributes of the data source.
func (i *ImportMetadata) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	entry := func(about string, of map[string]schema.Attribute) schema.MapNestedAttribute {
		return schema.MapNestedAttribute{Computed: true, MarkdownDescription: about,
			NestedObject: schema.NestedAttributeObject{Attributes: of}}
	}
	group := func(about string, of map[string]schema.Attribute) schema.SingleNestedAttribute {
		return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: about, Attributes: of}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A machine on an ESXi host, or an appliance (OVA, OVF), as a VM in the attributes of " +
			"[`proxmox_vm`](../resources/vm.md). It is read while Terraform plans and imports nothing. It needs PVE 8.2 for " +
			"ESXi, 8.3 for appliances, and `Datastore.Audit` or `Datastore.AllocateSpace` on the storage. Importing from a " +
			"storage of type ESXi needs `Datastore.Allocate` there. The guide [from vSphere](../guides/from-vsphere.md) has " +
			"a complete example.",
		Attributes: map[string]schema.Attribute{
			"volume": schema.StringAttribute{Required: true,
				Validators: []validator.String{stringvalidator.RegexMatches(importable,
					"must be the volume id of a machine or an appliance, such as \"esxi:ha-datacenter/datastore1/web/web.vmx\" or "+
						"\"local:import/web.ova\"")},
				MarkdownDescription: "Volume id of the machine's `.vmx` on a storage of type ESXi, or of an `.ova` or `.ovf` " +
					"file of the content type `import`; [`proxmox_files`](files.md) lists them."},
			"node": schema.StringAttribute{Optional: true, Computed: true, Validators: []validator.String{kit.NodeName()},
				MarkdownDescription: "Node that reads it. Default: the first one on which the storage is available, if they all " +
					"have the same on it."},
			"name":   kit.ComputedString("Name, less the characters that PVE does not take in it."),
			"ostype": kit.ComputedString("Type of the operating system."),
			"bios":   kit.ComputedString("`seabios` or `ovmf`, which takes an `efi_disk`; null where nothing is said."),
			"scsihw": kit.ComputedString("SCSI controller; null where nothing is said."),
			"boot_order": schema.ListAttribute{Computed: true, ElementType: types.StringType,
				MarkdownDescription: "The disks and drives, by their slots; null if there is none."},
			"cpu": group("Processors. Unstated counts are 1, PVE's default.", map[string]schema.Attribute{
				"sockets": kit.ComputedInt64("Sockets."), "cores": kit.ComputedInt64("Cores per socket."),
			}),
			"memory": group("Memory.", map[string]schema.Attribute{"size": kit.ComputedInt64("Memory in MiB; null where " +
				"nothing is said.")}),
			"smbios": group("Identity, if it has one: programs in the guest may be licensed to it.", map[string]schema.Attribute{
				"uuid": kit.ComputedString("UUID."),
			}),
			"disks": entry("Disks by slot. `storage` has to be added.", map[string]schema.Attribute{
				"import_from": kit.ComputedString("Volume id to import."),
				"size":        kit.ComputedString("Size as the guest sees it, such as `16G`; null where PVE does not know it."),
			}),
			"cdroms": entry("Optical drives by slot, all of them empty.",
				map[string]schema.Attribute{"file": kit.ComputedString("`none`.")}),
			"networks": entry("Network devices by slot. `bridge` has to be added.", map[string]schema.Attribute{
				"model":   kit.ComputedString("Model, as it was there. `virtio` is faster, once the guest has its drivers."),
				"macaddr": kit.ComputedString("MAC address, as it was there; null where nothing is said, and a new one is made."),
			}),
			"serial": entry("Serial ports by slot.", map[string]schema.Attribute{"device": kit.ComputedString("`socket`.")}),
			"warnings": schema.ListNestedAttribute{Computed: true,
				MarkdownDescription: "Losses and differences, as far as PVE knows; an empty list is no guarantee. They are " +
					"also shown as warnings, except `ova-needs-extracting`.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"type":    kit.ComputedString("PVE's word for it, such as `guest-is-running`."),
					"key":     kit.ComputedString("Option that it is about."),
					"value":   kit.ComputedString("Value that it is about."),
					"message": kit.ComputedString("What it means, and what to do."),
				}}},
		},
	}
}

// Read asks PVE what the machine or the appliance is.
func (i *ImportMetadata) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m importModel
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("volume"), &m.Volume)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("node"), &m.Node)...)
	attempt := kit.Attempt{Verb: "read", Thing: "what " + m.Volume + " would be as a VM"}
	i.Ask(ctx, resp, kit.ReadTimeout, attempt, func(ctx context.Context) error {
		if err := i.fill(ctx, &m); err != nil {
			return err
		}
		var lines []string
		for _, w := range m.Warnings {
			if w.Type != extracting {
				lines = append(lines, w.Message)
			}
		}
		if len(lines) > 0 {
			resp.Diagnostics.AddWarning(m.Volume+" will not be the same", "PVE says of its import:\n  "+strings.Join(lines,
				"\n  "))
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
		return nil
	})
}

func (i *ImportMetadata) fill(ctx context.Context, m *importModel) error {
	storage, name, _ := strings.Cut(m.Volume, ":")
	listed, err := i.Session.API.Listing().Shared(ctx)
	if err != nil {
		return err
	}
	from, err := lookFrom(listed, storage, value(m.Node))
	if err != nil {
		return err
	}
	at, found, err := fromAny(from, func(node string) (pve.ImportMetadata, error) {
		return i.Session.API.Storage(node, storage).ImportMetadata(ctx, name)
	})
	if pve.IsKind(err, pve.Unsupported) {
		return fmt.Errorf("PVE reads ESXi machines from 8.2 on, and appliances from 8.3 on: %w", err)
	}
	if err != nil {
		return err
	}
	m.Node = &at.Node
	m.describe(found)
	return nil
}

// describe sets PVE's proposal: the options of a create, and the facts beside them. PVE leaves out cores and sockets
// that are 1. A warning of PVE says that the variables of an EFI disk are lost.
func (i *importModel) describe(found pve.ImportMetadata) {
	spec := vm.Decode(found.Options)
	i.Name, i.OSType, i.BIOS, i.SCSIHW, i.BootOrder = spec.Name, spec.OSType, spec.BIOS, spec.SCSIHW, spec.BootOrder
	if value(i.OSType) == "winxp" { // which is no ostype (pve-storage GuestImport/OVF.pm ostype_ids)
		*i.OSType = "wxp"
	}
	i.CPU = importCPU{Sockets: cmp.Or(value(spec.CPU.Sockets), 1), Cores: cmp.Or(value(spec.CPU.Cores), 1)}
	i.Memory.Size = spec.Memory.Size
	if spec.SMBIOS.UUID != nil {
		i.SMBIOS = &importSMBIOS{spec.SMBIOS.UUID}
	}
	i.Disks, i.CDROMs = map[string]importDisk{}, map[string]importCD{}
	i.Networks, i.Serial = map[string]importNIC{}, map[string]importPort{}
	for slot, disk := range found.Disks {
		i.Disks[slot] = importDisk{ImportFrom: disk.Volume}
		if disk.Size > 0 {
			i.Disks[slot] = importDisk{disk.Volume, new(property.FormatSize(disk.Size))}
		}
	}
	for slot, drive := range spec.CDROMs {
		i.CDROMs[slot] = importCD{drive.File}
	}
	for slot, options := range found.Networks {
		i.Networks[slot] = importNIC{options["model"], kit.NonZero(options["macaddr"])}
	}
	for slot, device := range spec.Serial {
		i.Serial[slot] = importPort{device}
	}
	i.Warnings = []importWarning{}
	for _, w := range found.Warnings {
		i.Warnings = append(i.Warnings, importWarning{w.Type, kit.NonZero(w.Key), kit.NonZero(w.Value), explain(w)})
	}
}

const extracting = "ova-needs-extracting"

// explain puts a warning of PVE into words (pve-storage API2/Storage/Status.pm get_import_metadata has the list).
func explain(w pve.ImportWarning) string {
	switch w.Type {
	case "cdrom-image-ignored":
		return fmt.Sprintf("%s: %s is not imported, and the drive is empty. Upload the image with proxmox_image if it is "+
			"needed.", w.Key, w.Value)
	case "efi-state-lost":
		return "efi_disk: the firmware's variables are not imported, its boot entries and Secure Boot keys among them. " +
			"What does not start by itself is chosen once in the firmware's menu."
	case "guest-is-running":
		return "It is running. Shut it down before it is imported: the copy fails or is of no use."
	case "nvme-unsupported":
		return fmt.Sprintf("%s: %s becomes a SCSI disk, for which the guest needs the driver.", w.Key, w.Value)
	case extracting:
		return "Its disks are unpacked before they are imported, which takes as much space again for a while."
	case "ovmf-with-lsi-unsupported":
		return fmt.Sprintf("%s: OVMF has no drivers for controllers of LSI. It is %s, for which the guest needs the driver.",
			w.Key, w.Value)
	case "serial-port-socket-only":
		return w.Key + ": the serial port is connected to a socket, whatever it was connected to before."
	}
	return strings.Join(strings.Fields(w.Type+" "+w.Key+" "+w.Value), " ")
}
