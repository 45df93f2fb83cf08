package function

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

func volumeID() pure {
	return pure{name: "volume_id",
		definition: function.Definition{
			Summary: "Puts a volume id together.",
			MarkdownDescription: "Puts a volume id together: `volume_id(\"local\", \"iso\", \"debian.iso\")` is " +
				"`local:iso/debian.iso`, `volume_id(\"local-zfs\", \"vm-100-disk-0\")` is `local-zfs:vm-100-disk-0`. " +
				"It looks at the form only, and asks no server whether there is such a volume.",
			Parameters: []function.Parameter{text("storage", "Id of the storage."), text("name", "Name of the volume, or "+
				"the first part of it.")},
			VariadicParameter: text("parts", "Further parts of the name; they are joined by `/`."),
			Return:            function.StringReturn{},
		},
		run: func(ctx context.Context, req function.RunRequest, resp *function.RunResponse) *function.FuncError {
			var storage, name string
			var parts []string
			if err := req.Arguments.Get(ctx, &storage, &name, &parts); err != nil {
				return err
			}
			id := storage + ":" + strings.Join(append([]string{name}, parts...), "/")
			switch {
			case volid.Storage(storage+":x") != storage:
				return function.NewArgumentFuncError(0, fmt.Sprintf("%q is not the id of a storage, such as \"local-zfs\"",
					storage))
			case !isVolume(id):
				return function.NewArgumentFuncError(1, fmt.Sprintf("%q is not the id of a volume, such as "+
					"\"local:iso/debian.iso\"", id))
			}
			return resp.Result.Set(ctx, id)
		}}
}

// isVolume reports whether an id names one volume: it has no empty part, and no character that separates options in
// PVE's lists.
func isVolume(id string) bool {
	_, name, _ := strings.Cut(id, ":")
	return volid.Valid(id) && !strings.ContainsAny(id, ", \t\n") && !slices.Contains(strings.Split(name, "/"), "")
}

// volumeParts are the facts that a volume id tells.
type volumeParts struct {
	Storage string  `tfsdk:"storage"`
	Name    string  `tfsdk:"name"`
	File    string  `tfsdk:"file"`
	Content string  `tfsdk:"content"`
	Format  *string `tfsdk:"format"`
	VMID    *int64  `tfsdk:"vmid"`
}

func parseVolumeID() pure {
	return pure{name: "parse_volume_id",
		definition: function.Definition{
			Summary: "Takes a volume id apart.",
			MarkdownDescription: "Takes a volume id apart. The result has `storage`, `name` (the part after the colon) and " +
				"`file` (the last part of that). `content` is `iso`, `import`, `snippets`, `vztmpl`, `backup`, or `images` for " +
				"disks, those of containers too. `format` is null if the id does not tell it. `vmid` is the id of the guest " +
				"that a disk belongs to by its name, else null. It asks no server.",
			Parameters: []function.Parameter{text("id", "Volume id, such as `local-zfs:vm-100-disk-0`.")},
			Return: function.ObjectReturn{AttributeTypes: map[string]attr.Type{"storage": types.StringType,
				"name": types.StringType,
				"file": types.StringType, "content": types.StringType, "format": types.StringType, "vmid": types.Int64Type}},
		},
		run: func(ctx context.Context, req function.RunRequest, resp *function.RunResponse) *function.FuncError {
			var id string
			if err := req.Arguments.Get(ctx, &id); err != nil {
				return err
			}
			if !isVolume(id) {
				return function.NewArgumentFuncError(0, fmt.Sprintf("%q is not the id of a volume, such as "+
					"\"local:iso/debian.iso\"", id))
			}
			return resp.Result.Set(ctx, partsOf(id))
		}}
}

// partsOf returns the parts of a volume id (pve-storage Plugin.pm parse_volname).
func partsOf(id string) volumeParts {
	storage, name, _ := strings.Cut(id, ":")
	v := volumeParts{Storage: storage, Name: name, File: path.Base(name), Content: "images"}
	files := []string{"iso", "import", "snippets", "vztmpl", "backup"}
	if first, _, isPath := strings.Cut(name, "/"); isPath && slices.Contains(files, first) {
		v.Content = first
		if format := strings.TrimPrefix(path.Ext(name), "."); format != "" {
			v.Format = &format
		}
		return v
	}
	format := volid.Format(id)
	if strings.HasPrefix(v.File, "subvol-") || strings.HasPrefix(v.File, "basevol-") {
		format = "subvol"
	}
	v.Format = &format
	if owner, ok := volid.Owner(id); ok {
		vmid := int64(owner)
		v.VMID = &vmid
	}
	return v
}
