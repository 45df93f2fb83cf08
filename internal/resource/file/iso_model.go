package file

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file/nocloud"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// isoModel is proxmox_cloud_init_iso in configuration, plan and state.
type isoModel struct {
	Node          types.String      `tfsdk:"node"`
	Storage       types.String      `tfsdk:"storage"`
	Name          types.String      `tfsdk:"name"`
	UserData      types.String      `tfsdk:"user_data"`
	MetaData      types.String      `tfsdk:"meta_data"`
	NetworkConfig types.String      `tfsdk:"network_config"`
	VendorData    types.String      `tfsdk:"vendor_data"`
	SHA256        types.String      `tfsdk:"sha256"`
	Size          types.Int64       `tfsdk:"size"`
	Volume        types.String      `tfsdk:"volume"`
	Created       types.String      `tfsdk:"created"`
	Owned         types.Bool        `tfsdk:"owned"`
	Timeouts      *kit.OpenTimeouts `tfsdk:"timeouts"`
}

// madeDiscs are the discs that the resource has put onto storages: the one in state, and earlier ones that guests still
// used.
const madeDiscs kit.Note[[]madeDisc] = "made"

// madeDisc is a guard.MadeFile with its node, which is not part of its JSON.
type madeDisc struct {
	Node string         `json:"node"`
	File guard.MadeFile `json:"file"`
}

func (*isoModel) traits() traits {
	return traits{name: "_cloud_init_iso", createTimeout: kit.CreateTimeout,
		at: locator{parameters: map[string]string{"filename": "name", "storage": "storage", "node": "node"},
			attributes: map[string]string{"node": "node", "storage": "storage", "name": "name", "file_name": "name"}}}
}

func (i *isoModel) limits() kit.Timeouts { return i.Timeouts.Limits() }

func (i *isoModel) thing() string {
	return "cloud-init disc " + i.Name.ValueString() + " on storage " + i.Storage.ValueString() + " of " +
		i.Node.ValueString()
}

// document is one document of the disc with its attribute.
type document struct {
	attribute string
	kind      nocloud.Kind
	text      types.String
}

func (i *isoModel) documents() []document {
	return []document{{"user_data", nocloud.User, i.UserData}, {"meta_data", nocloud.Meta, i.MetaData},
		{"network_config", nocloud.Network, i.NetworkConfig}, {"vendor_data", nocloud.Vendor, i.VendorData}}
}

// areDocumentsKnown reports whether the disc can be made.
func (i *isoModel) areDocumentsKnown() bool {
	for _, d := range i.documents() {
		if d.text.IsUnknown() {
			return false
		}
	}
	return true
}

// isPlaceKnown reports whether node, storage and name are known.
func (i *isoModel) isPlaceKnown() bool {
	return !i.Node.IsUnknown() && !i.Storage.IsUnknown() && !i.Name.IsUnknown()
}

// spec returns the wanted disc.
func (i *isoModel) spec() (file.Spec, error) {
	disc := nocloud.Seed{UserData: i.UserData.ValueString(), MetaData: i.MetaData.ValueString(),
		NetworkConfig: i.NetworkConfig.ValueString(), VendorData: i.VendorData.ValueString()}.Image()
	source := file.Of(i.Name.ValueString(), disc)
	name, err := file.Name(file.ISO, i.Name.ValueString()+".iso", source.Checksum)
	return file.Spec{Node: i.Node.ValueString(), Storage: i.Storage.ValueString(), Content: file.ISO, Name: name,
		Source: source}, err
}

// validate refuses documents that cloud-init would not understand.
func (i *isoModel) validate(refuse func(at, summary, detail string)) {
	for _, d := range i.documents() {
		if err := nocloud.Check(d.kind, d.text.ValueString()); err != nil {
			refuse(d.attribute, "cloud-init would not understand the "+string(d.kind), "As it is now "+err.Error()+".")
		}
	}
}

// plan plans checksum, size and volume, and asks the server about a new disc.
//
//nolint:unparam // as kind has it
func (i *isoModel) plan(ctx context.Context, o operation, prior isoModel) path.Paths {
	i.SHA256, i.Size, i.Volume = types.StringUnknown(), types.Int64Unknown(), types.StringUnknown()
	i.Created, i.Owned = types.StringUnknown(), types.BoolUnknown()
	if !i.areDocumentsKnown() {
		return nil
	}
	spec, err := i.spec()
	i.SHA256, i.Size = types.StringValue(spec.Source.Checksum.Value), types.Int64Value(spec.Source.Size)
	if i.isPlaceKnown() && err == nil {
		i.Volume = types.StringValue(spec.Volume())
	}
	switch {
	case i.isPlaceKnown() && i.isAsBefore(prior):
		i.Created, i.Owned = prior.Created, prior.Owned
	case !i.isPlaceKnown():
	case err != nil:
		o.diags.Append(kit.Diagnose(o.attempt("check"), err)...)
	case o.session.Known():
		o.session.VMs.WillHave(ctx, spec.Node, spec.Volume(), 0)
		o.check(ctx, spec)
	}
	return nil
}

func (i *isoModel) create(ctx context.Context, o operation) (memory, error) {
	made, err := i.put(ctx, o)
	return remember(madeDiscs, made), err
}

// put uploads the disc, unless it is there. It returns the file that it made, if any.
func (i *isoModel) put(ctx context.Context, o operation) ([]madeDisc, error) {
	spec, err := i.spec()
	if err != nil {
		return nil, err
	}
	f, warnings, err := o.files().Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	o.diags.Append(kit.Warn(warnings)...)
	i.SHA256, i.Size, i.Volume = types.StringValue(spec.Source.Checksum.Value), types.Int64Value(f.Size),
		types.StringValue(f.Volume)
	if i.setOwner(f); !f.Made {
		return []madeDisc{}, nil
	}
	return []madeDisc{{Node: f.Node, File: f.MadeFile}}, nil
}

// setOwner sets the attributes that prove whose the file is.
func (i *isoModel) setOwner(f file.File) {
	i.Created, i.Owned = timeOf(f.CreatedAt), types.BoolValue(f.Made)
}

// made returns the discs that the resource has made.
func (*isoModel) made(ctx context.Context, o operation) (made []guard.MadeFile, ok bool) {
	all, ok := recall(ctx, o, madeDiscs)
	for _, d := range all {
		d.File.Node = d.Node
		made = append(made, d.File)
	}
	return made, ok
}

// read looks the disc up. One of another size is a different file, which is named and stays.
func (i *isoModel) read(ctx context.Context, o operation) (bool, error) {
	f, there, err := o.files().Read(ctx, i.Node.ValueString(), i.Storage.ValueString(), file.ISO, i.Volume.ValueString())
	switch {
	case err != nil:
		return false, err
	case !there:
		return i.hasEarlier(ctx, o), nil
	case f.Size != i.Size.ValueInt64():
		o.diags.AddWarning("Another file is in the place of "+i.Volume.ValueString(), fmt.Sprintf("It has %d bytes, and "+
			"the disc "+
			"that was put there has %d. It was not touched. Remove it and apply again, or set name to another one.", f.Size,
			i.Size.ValueInt64()))
	}
	made, ok := i.made(ctx, o)
	if !ok {
		return true, nil
	}
	f.Made = slices.ContainsFunc(made, func(m guard.MadeFile) bool {
		return i.has(m) && m.Size == f.Size && m.CreatedAt.Equal(f.CreatedAt)
	})
	i.setOwner(f)
	return true, nil
}

// hasEarlier reports whether earlier discs remain although the one in state is gone. The resource then stays, because
// it remembers them, and without a volume, so that the plan uploads the disc again.
func (i *isoModel) hasEarlier(ctx context.Context, o operation) bool {
	made, _ := i.made(ctx, o)
	for _, f := range made {
		if !i.has(f) {
			i.Volume, i.Created, i.Owned = types.StringNull(), types.StringNull(), types.BoolValue(false)
			return true
		}
	}
	return false
}

// isAsBefore reports whether a plan means the very file in state.
func (i *isoModel) isAsBefore(prior isoModel) bool {
	return !i.Volume.IsUnknown() && i.Volume.Equal(prior.Volume) && i.Node.Equal(prior.Node)
}

// has reports whether a file is the disc in state.
func (i *isoModel) has(f guard.MadeFile) bool {
	return f.Node == i.Node.ValueString() && f.Volume == i.Volume.ValueString()
}

// isUnderAnotherName reports whether a file is the disc in state by another name of its storage, or on another node
// that shares it.
func (i *isoModel) isUnderAnotherName(ctx context.Context, o operation, f guard.MadeFile) bool {
	return f.Size == i.Size.ValueInt64() && timeOf(f.CreatedAt).Equal(i.Created) &&
		o.files().IsSame(ctx, f.Node, f.Volume, i.Node.ValueString(), i.Volume.ValueString())
}

// update uploads another disc. The VM gets the new disc after this update, so the earlier disc stays until then: an
// earlier disc that a guest uses is remembered and removed by a later change. A warning names one that a guest uses
// still.
func (i *isoModel) update(ctx context.Context, o operation, prior isoModel) (memory, error) {
	earlier, ok := i.made(ctx, o)
	if !ok {
		return nil, errors.New("the private state of the resource is damaged")
	}
	made, err := i.put(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, f := range earlier {
		if i.has(f) || i.isUnderAnotherName(ctx, o, f) { // it is wanted again
			f.Node, f.Volume = i.Node.ValueString(), i.Volume.ValueString()
			made = append(made, madeDisc{Node: f.Node, File: f})
			i.Owned = types.BoolValue(i.Owned.ValueBool() || timeOf(f.CreatedAt).Equal(i.Created))
		} else if err := o.deleteMade(ctx, f); err != nil {
			made = append(made, madeDisc{Node: f.Node, File: f})
			if used := (*guard.InUseError)(nil); errors.As(err, &used) && prior.has(f) {
				continue // by the VM that gets the new one next
			}
			o.diags.AddWarning("An earlier disc stays for now: "+f.Volume, "The next change of this resource removes it if no "+
				"guest uses it by then, and so does its destroy.\n\n"+err.Error())
		}
	}
	return remember(madeDiscs, made), nil
}

func (i *isoModel) holds() held {
	return held{node: i.Node.ValueString(), volume: i.Volume.ValueString(), owned: i.Owned}
}

func (i *isoModel) earlier(ctx context.Context, o operation) (all []held) {
	made, _ := i.made(ctx, o)
	for _, f := range made {
		if !i.has(f) {
			all = append(all, held{node: f.Node, volume: f.Volume})
		}
	}
	return all
}

func (*isoModel) isKept() bool { return false }

func (i *isoModel) inherit() { i.Owned = types.BoolValue(true) }

// remove deletes the disc, and earlier ones that remain.
func (i *isoModel) remove(ctx context.Context, o operation) error {
	made, ok := i.made(ctx, o)
	if !ok {
		return nil
	}
	if f := madeFile(i.Volume, i.Size, i.Created); i.Owned.ValueBool() && f != nil && !slices.ContainsFunc(made, i.has) {
		f.Node = i.Node.ValueString() // Terraform forgets the private state of a tainted resource
		made = append(made, *f)
	}
	own, failed := i.Volume.IsNull(), error(nil)
	for _, f := range made {
		own = own || i.has(f)
		failed = errors.Join(failed, o.deleteMade(ctx, f))
	}
	if !own {
		o.notMade(i.Node.ValueString(), i.Volume.ValueString(), "")
	}
	return failed
}
