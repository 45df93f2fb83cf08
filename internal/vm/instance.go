package vm

import (
	"maps"
	"strings"
)

// NewInstance reports whether cloud-init takes the guest for a new one with its changed drive. PVE makes the
// instance-id of a hash of the user data and the network data (qemu-server QemuServer/Cloudinit.pm
// nocloud_gen_metadata, configdrive2_gen_metadata). A password does not show here: it is never read.
func NewInstance(before, after Spec) bool {
	return hasInstance(before) && hasInstance(after) &&
		!(maps.Equal(userData(before), userData(after)) && maps.Equal(networkData(before), networkData(after)))
}

// PasswordIsInstance reports whether a new password makes a new instance too: it is part of the user data.
func PasswordIsInstance(s Spec) bool {
	return hasInstance(s) && (s.CloudInit.Custom == nil || s.CloudInit.Custom.User == nil)
}

// NewNetworkData reports whether the network data of a cloud-init drive changes: it knows the devices by their MACs.
func NewNetworkData(before, after Spec) bool {
	return before.CloudInit.Slot != "" && after.CloudInit.Slot != "" &&
		!maps.Equal(networkData(before), networkData(after))
}

// hasInstance reports whether PVE makes an instance-id for a VM: meta data of its own bring theirs, and OpenNebula has
// none.
func hasInstance(s Spec) bool {
	c := s.CloudInit
	return c.Slot != "" && (c.Custom == nil || c.Custom.Meta == nil) && cloudInitFormat(s) != "opennebula"
}

// cloudInitFormat is that of the drive (QemuServer/Cloudinit.pm get_cloudinit_format).
func cloudInitFormat(s Spec) string {
	switch {
	case s.CloudInit.Type != nil:
		return *s.CloudInit.Type
	case s.OSType != nil && IsWindows(*s.OSType):
		return "configdrive2"
	}
	return "nocloud"
}

// IsNoCloud reports whether the drive has the form that cloud-init reads on most guests. The meta data of the others
// are more than an id.
func IsNoCloud(s Spec) bool { return cloudInitFormat(s) == "nocloud" }

// userData are the options of which PVE makes the user data, or their snippet (cloudinit_userdata).
func userData(s Spec) map[string]string {
	if c := s.CloudInit.Custom; c != nil && c.User != nil {
		return map[string]string{"user": *c.User}
	}
	is := Encode(s)
	data := map[string]string{"ciuser": is["ciuser"], "sshkeys": is["sshkeys"], "name": is["name"]}
	if !strings.Contains(is["name"], ".") {
		data["searchdomain"] = is["searchdomain"]
	}
	if s.CloudInit.Upgrade != nil && !*s.CloudInit.Upgrade {
		data["ciupgrade"] = "0"
	}
	return data
}

// networkData are the options of which PVE makes the network data, or their snippet (nocloud_network,
// configdrive2_network, cloudbase_network_eni).
func networkData(s Spec) map[string]string {
	if c := s.CloudInit.Custom; c != nil && c.Network != nil {
		return map[string]string{"network": *c.Network}
	}
	is, format := Encode(s), cloudInitFormat(s)
	data := map[string]string{"format": format, "nameserver": is["nameserver"], "searchdomain": is["searchdomain"]}
	for slot, nic := range s.Networks {
		address := is["ipconfig"+strings.TrimPrefix(slot, "net")]
		if address == "" {
			continue
		}
		data[slot] = address
		if format == "nocloud" && nic.MACAddr != nil {
			data[slot] += " " + strings.ToLower(*nic.MACAddr)
		}
	}
	return data
}
