package file

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file"
)

// plan decides whether the configuration means the file in state or another one, and asks the server about a new one.
func (i *imageModel) plan(ctx context.Context, o operation, prior imageModel) path.Paths {
	ctx, cancel := context.WithTimeout(ctx, i.traits().createTimeout)
	defer cancel()
	spec, known := i.wanted(ctx, o, prior)
	if o.diags.HasError() {
		return nil
	}
	if known && !prior.Volume.IsNull() && i.isInState(spec, prior) {
		i.warnOfSameChecksum(spec, prior, o)
		i.Volume, i.Size, i.Created, i.Owned = prior.Volume, prior.Size, prior.Created, prior.Owned
		prior.warnIfReplaced(ctx, o)
		return nil
	}
	i.Volume, i.Size, i.Created, i.Owned = types.StringUnknown(), types.Int64Unknown(), types.StringUnknown(),
		types.BoolUnknown()
	if known && o.session.Known() {
		spec.Replaces = !prior.Volume.IsNull()
		o.check(ctx, spec)
		i.Volume = types.StringValue(spec.Volume())
		o.session.VMs.WillHave(ctx, spec.Node, spec.Volume(), o.files().DiskSize(ctx, spec))
	}
	if prior.Volume.IsNull() {
		return nil
	}
	return i.changed(prior)
}

// isInState reports whether the wanted file is the one in state. The checksum in the name tells the content. The part
// before it is of the url or the file of this machine by which the image was made: bytes that are there already do not
// come again for another name of their source, since the VMs made of the image would be replaced with it.
func (i *imageModel) isInState(spec file.Spec, prior imageModel) bool {
	if !prior.Node.Equal(i.Node) {
		return false
	}
	was, is := prior.Volume.ValueString(), spec.Volume()
	return was == is || i.FileName.IsNull() && prior.FileName.IsNull() && prior.Storage.Equal(i.Storage) &&
		prior.Content.Equal(i.Content) && prior.Compression.Equal(i.Compression) && madeName.MatchString(was) &&
		madeName.FindString(was) == madeName.FindString(is)
}

// warnOfSameChecksum tells that another file is named with the checksum of the one in state: the same one at another
// address, or another release whose checksum was forgotten.
func (i *imageModel) warnOfSameChecksum(spec file.Spec, prior imageModel, o operation) {
	if isSet(prior.URL) && isSet(i.URL) && !prior.URL.Equal(i.URL) && prior.Volume.ValueString() != spec.Volume() {
		o.diags.AddAttributeWarning(path.Root("checksum"), "The image stays as it is, since its checksum is the same",
			fmt.Sprintf("The checksum is that of %s, so url is taken for another address of the same file, and nothing is "+
				"downloaded. If %s is another file, set its checksum: the image is replaced then.", prior.Volume.ValueString(),
				shownURL(i.URL.ValueString())))
	}
}

// wanted returns the file that a plan means; false: not known yet.
func (i *imageModel) wanted(ctx context.Context, o operation, prior imageModel) (file.Spec, bool) {
	if !i.isKnown() {
		return file.Spec{}, false
	}
	isSame := !prior.Volume.IsNull() && prior.SourceFile.Equal(i.SourceFile) && prior.Checksum.Equal(i.Checksum)
	if !i.SourceFile.IsNull() && !o.session.Known() { // the next plan looks at the file
		return i.asBefore(prior), isSame
	}
	spec, err := i.resolve(ctx, o)
	missing := (*file.MissingError)(nil)
	switch {
	case errors.As(err, &missing) && isSame:
		o.diags.AddAttributeWarning(path.Root("source_file"),
			"There is no file "+i.SourceFile.ValueString()+" on this machine",
			fmt.Sprintf("Whether it differs from %s cannot be told, so the image stays as it is.", prior.Volume.ValueString()))
		return i.asBefore(prior), true
	case err != nil:
		field := asField("source_file", "The file cannot be uploaded", err)
		o.diags.AddAttributeError(path.Root(field.Path), field.Summary, field.Detail+".")
		return file.Spec{}, false
	}
	return spec, true
}

// asBefore returns the file in state, for a source that cannot be read and may be unchanged.
func (i *imageModel) asBefore(prior imageModel) file.Spec {
	spec := file.Spec{Node: i.Node.ValueString(), Storage: i.Storage.ValueString(), Content: i.Content.ValueString()}
	if !prior.Volume.IsNull() && prior.FileName.Equal(i.FileName) {
		spec.Name = prior.Volume.ValueString()[len(prior.Storage.ValueString()+":"+prior.Content.ValueString()+"/"):]
	}
	return spec
}

// changed returns the attributes for which the resource is replaced.
func (i *imageModel) changed(prior imageModel) path.Paths {
	var all path.Paths
	for name, pair := range map[string][2]types.String{
		"node": {i.Node, prior.Node}, "storage": {i.Storage, prior.Storage}, "content": {i.Content, prior.Content},
		"url": {i.URL, prior.URL}, "source_file": {i.SourceFile, prior.SourceFile}, "checksum": {i.Checksum, prior.Checksum},
		"compression": {i.Compression, prior.Compression}, "file_name": {i.FileName, prior.FileName},
	} {
		if !pair[0].Equal(pair[1]) {
			all = append(all, path.Root(name))
		}
	}
	if len(all) == 0 { // the content of the source file has changed
		all = append(all, path.Root("volume"))
	}
	return all
}

// warnIfReplaced warns that a third party has put another file in the place of this image. It is no error: Terraform
// makes such a plan before a destroy as well.
func (i *imageModel) warnIfReplaced(ctx context.Context, o operation) {
	made, _ := recall(ctx, o, madeImage)
	if made == nil || i.Owned.ValueBool() || made.Size == i.Size.ValueInt64() {
		return
	}
	o.diags.AddAttributeWarning(path.Root("volume"), "Another file is in the place of "+made.Volume,
		fmt.Sprintf("The resource put a file of %d bytes there, and this one has %d: it is not the configured file. It was "+
			"not touched. Either remove it and apply again, which restores the right file, or set file_name to another name.",
			made.Size, i.Size.ValueInt64()))
}
