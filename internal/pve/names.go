package pve

import (
	"context"
	"strings"
)

// What there is that a configuration can name. Each listing shows what the identity may see.

// namedWire is one entry of such a listing; which fields there are depends on it.
type namedWire struct {
	ID    flexString `json:"id"`
	Name  flexString `json:"name"`
	Group flexString `json:"group"`
	Type  flexString `json:"type"`
}

// names are the texts of the entries of a listing.
func (c *Client) names(ctx context.Context, op, path string, text func(namedWire) string) ([]string, error) {
	wire, err := fetch[[]namedWire](ctx, c, op, path, nil)
	if err != nil {
		return nil, err
	}
	all := make([]string, 0, len(wire))
	for _, w := range wire {
		all = append(all, text(w))
	}
	return all, nil
}

// CPUModels are the CPU types of a node; the custom ones only for who has Sys.Audit on /nodes (qemu-server API2/Qemu/CPU.pm).
func (c *Client) CPUModels(ctx context.Context, node string) ([]string, error) {
	return c.names(ctx, "list the CPU types of node "+node, "/nodes/"+node+"/capabilities/qemu/cpu",
		func(w namedWire) string { return string(w.Name) })
}

// Machines are the machine types of a node with their versions: "pc-q35-9.2" (qemu-server API2/Qemu/Machine.pm).
func (c *Client) Machines(ctx context.Context, node string) ([]string, error) {
	return c.names(ctx, "list the machine types of node "+node, "/nodes/"+node+"/capabilities/qemu/machines",
		func(w namedWire) string { return string(w.ID) })
}

// Mappings are the resource mappings of a kind: pci, usb or dir. It shows those on which the identity has a Mapping privilege
// (pve-manager API2/Cluster/Mapping).
func (c *Client) Mappings(ctx context.Context, kind string) ([]string, error) {
	return c.names(ctx, "list the "+kind+" mappings", "/cluster/mapping/"+kind, func(w namedWire) string { return string(w.ID) })
}

// FirewallRefs are the aliases and, with a "+" before them, the IP sets of the datacenter. It needs Sys.Audit on /
// (pve-firewall API2/Firewall/Cluster.pm).
func (c *Client) FirewallRefs(ctx context.Context) ([]string, error) {
	return c.names(ctx, "list the aliases and IP sets of the datacenter", "/cluster/firewall/refs", func(w namedWire) string {
		if w.Type == "ipset" {
			return "+" + string(w.Name)
		}
		return string(w.Name)
	})
}

// SecurityGroups are those of the datacenter's firewall, which everybody may list (pve-firewall API2/Firewall/Groups.pm).
func (c *Client) SecurityGroups(ctx context.Context) ([]string, error) {
	return c.names(ctx, "list the security groups", "/cluster/firewall/groups", func(w namedWire) string { return string(w.Group) })
}

// HAGroups are the groups of HA, which 9.x has no more. It needs Sys.Audit on / (pve-ha-manager API2/HA/Groups.pm).
func (c *Client) HAGroups(ctx context.Context) ([]string, error) {
	return c.names(ctx, "list the HA groups", "/cluster/ha/groups", func(w namedWire) string { return string(w.Group) })
}

// VolumeSize is the size that a guest sees of a volume, in bytes. A listing says the size of the file (pve-storage
// API2/Storage/Content.pm, Storage/Plugin.pm get_subdir_files).
func (c *Client) VolumeSize(ctx context.Context, node, volume string) (int64, error) {
	storage, _, _ := strings.Cut(volume, ":")
	w, err := fetch[volumeWire](ctx, c, "read the size of "+volume, "/nodes/"+node+"/storage/"+storage+"/content/"+volume, nil)
	return int64(w.Size), err
}

// VolumePath is the path of a volume on a node, as its storage says.
func (c *Client) VolumePath(ctx context.Context, node, volume string) (string, error) {
	storage, _, _ := strings.Cut(volume, ":")
	w, err := fetch[volumeWire](ctx, c, "look where "+volume+" is", "/nodes/"+node+"/storage/"+storage+"/content/"+volume, nil)
	return string(w.Path), err
}
