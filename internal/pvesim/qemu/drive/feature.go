package drive

import (
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// HasFeature is QemuConfig.pm's has_feature: CD-ROMs do not count, and of a linked clone neither does the cloud-init
// drive.
func HasFeature(r *engine.Request, feature string, conf map[string]string, snapname string) bool {
	_, volids := DisksOf(r.Engine, conf)
	for _, volid := range volids {
		if !VolumeHas(r, feature, volid, snapname) {
			return false
		}
	}
	return true
}

// VolumeHas is the plugins' volume_has_feature.
func VolumeHas(r *engine.Request, feature, volid, snapname string) bool {
	id, name, _ := state.SplitVolid(volid)
	s := r.W.Storages[id]
	if s == nil {
		return false
	}
	n, err := s.ParseName(name)
	if err != nil {
		return false
	}
	of := "current"
	switch {
	case snapname != "":
		of = "snap"
	case n.IsBase:
		of = "base"
	}
	switch s.Type {
	case "zfspool":
		return slices.Contains(map[string][]string{"snapshot": {"current", "snap"}, "clone": {"base"},
			"template": {"current"},
			"copy":     {"base", "current"}, "rename": {"current"}}[feature], of)
	case "lvmthin":
		return slices.Contains(map[string][]string{"snapshot": {"current"}, "clone": {"base", "snap"},
			"template": {"current"},
			"copy":     {"base", "current", "snap"}, "rename": {"current"}}[feature], of)
	case "rbd":
		return slices.Contains(map[string][]string{"snapshot": {"current", "snap"}, "clone": {"base", "snap"},
			"template": {"current"},
			"copy":     {"base", "current", "snap"}, "rename": {"current"}}[feature], of)
	case "lvm":
		return slices.Contains(map[string][]string{"copy": {"base", "current"}, "rename": {"current"}}[feature], of)
	}
	snaps := n.Format == "qcow2"
	if s.Type == "btrfs" && n.Format == "raw" { // a subvolume (BTRFSPlugin.pm, volume_has_feature)
		if snaps = true; feature == "clone" {
			return true
		}
	}
	return slices.Contains(map[string][]string{"snapshot": {"current", "snap"}, "clone": {"base"}, "template": {"current"},
		"copy": {"base", "current", "snap"}, "rename": {"current"}}[feature], of) &&
		(snaps || feature != "snapshot" && of != "snap")
}
