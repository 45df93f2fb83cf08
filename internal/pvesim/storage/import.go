package storage

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/storage/appliance"
)

// importMetadata is GET import-metadata: what a guest made of an appliance would be (API2/Storage/Status.pm,
// get_import_metadata; DirPlugin.pm). The volume is named without its storage.
func importMetadata(r *engine.Request) (any, error) {
	name := r.Params["volume"]
	volid := r.Params["storage"] + ":" + name
	if err := drive.VolumeAccess(r, 0, volid); err != nil {
		return nil, err
	}
	s, err := r.W.StorageConfig(r.Params["storage"])
	if err != nil {
		return nil, err
	}
	if s.Type == "esxi" {
		return appliance.EsxiMetadata(r, s, name)
	}
	if !s.IsDir() {
		return nil, perl.Die("storage does not support the importer API")
	}
	n, err := s.ParseName(name)
	switch {
	case err != nil:
		return nil, err
	case n.Content != "import":
		return nil, perl.Die("invalid content type '%s'", n.Content)
	case n.Format != "ova" && n.Format != "ovf":
		return nil, perl.Die("invalid format")
	}
	e, err := appliance.Description(r, s, name, n.Format == "ova")
	if err != nil {
		return nil, err
	}
	return e.Metadata(r.Params["storage"], name, n.Format == "ova"), nil
}
