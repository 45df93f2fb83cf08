package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nearest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// KindName is what a type of guest is called in a sentence.
func KindName(typ string) string {
	if typ == "lxc" {
		return "Container"
	}
	return "VM"
}

// Named is a listed guest in a sentence: "VM 100 (web)", without the name where the listing has none.
func Named(g pve.Resource) string {
	text := fmt.Sprintf("%s %d", KindName(g.Type), g.VMID)
	if g.Name == "" || g.Name == fmt.Sprintf("VM %d", g.VMID) {
		return text
	}
	return text + " (" + g.Name + ")"
}

// UntoldText says of which VMs the listing tells too little (pve.Resources.Untold).
func UntoldText(untold []pve.Resource) string {
	names := make([]string, len(untold))
	for i, r := range untold {
		names[i] = fmt.Sprintf("%d (node %s)", r.VMID, r.Node)
	}
	return "PVE tells neither the names of these VMs nor whether they are templates, since their nodes are away or, for " +
		"about 10 s after a create, have not reported them yet: " + strings.Join(names, ", ")
}

// UntoldMayBeIt ends the error about a VM that is not listed with those that may be it.
func UntoldMayBeIt(untold []pve.Resource) string {
	if len(untold) == 0 {
		return ""
	}
	return ". Or it is one of these, and shows when PVE tells. " + UntoldText(untold)
}

// OtherThan says what to do about a VMID that a listed guest has. No container can be adopted as a VM.
func OtherThan(g pve.Resource) string {
	if g.Type != "qemu" {
		return "Choose another vmid, or leave it out to get a free one"
	}
	return fmt.Sprintf("Choose another vmid, leave it out to get a free one, or adopt the VM: `terraform import ADDRESS "+
		"%d`, where ADDRESS is that of this resource", g.VMID)
}

// Target is the node for the VM: the configured one, that of the source, or the only one.
func Target(resources pve.Resources, node, source string) (string, error) {
	if node == "" {
		node = source
	}
	nodes := resources.Nodes()
	if node == "" {
		if len(nodes) != 1 {
			return "", &FieldError{Path: "node", Summary: "No node given",
				Detail: fmt.Sprintf("The cluster has %d nodes: set node to one of them", len(nodes))}
		}
		return nodes[0].Node, nil
	}
	return node, CheckNode(resources, node)
}

// FirstOnline is the first of several nodes that is online; if none is, the first that does not report and may be.
func FirstOnline(resources pve.Resources, nodes []string) (string, error) {
	var why []string
	for _, node := range nodes {
		if found, ok := resources.Node(node); ok && found.Status == "online" {
			return node, nil
		}
	}
	for _, node := range nodes {
		err := CheckNode(resources, node)
		if err == nil {
			return node, nil
		}
		var field *FieldError
		if errors.As(err, &field) {
			why = append(why, field.Summary)
		}
	}
	return "", &FieldError{Path: "nodes", Summary: "None of the nodes is online", Detail: strings.Join(why, ". ")}
}

// CheckNode reports a node that the cluster does not have, or that is offline. One whose status is unknown is a
// member of the cluster whose pvestatd has not reported for minutes, mostly since a storage hangs; it does what it is
// told (pve-manager API2Tools.pm, extract_node_stats).
func CheckNode(resources pve.Resources, node string) error {
	found, ok := resources.Node(node)
	if !ok {
		names := []string{}
		for _, n := range resources.Nodes() {
			names = append(names, n.Node)
		}
		slices.Sort(names)
		return &FieldError{Path: "node", Summary: fmt.Sprintf("Unknown node %q", node),
			Detail: nearest.Hint(node, names) + "The cluster has the nodes " + strings.Join(names, ", ")}
	}
	if found.Status != "online" && found.Status != "unknown" {
		return &FieldError{Path: "node", Summary: fmt.Sprintf("Node %s is not online", node),
			Detail: fmt.Sprintf("PVE lists it as %s, and passes nothing on to it. Bring it back, or leave its VMs out of "+
				"this run with -target. A terraform destroy plans first, and -refresh=false leaves that plan out", found.Status)}
	}
	return nil
}

// ClusterName is what every identity can see of a cluster: the names of its nodes.
func ClusterName(resources pve.Resources) string {
	names := []string{}
	for _, n := range resources.Nodes() {
		names = append(names, n.Node)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// ImageStorages are the storages of a node that can hold disks. The cluster's listing has them where the identity has
// Datastore.Audit; otherwise the node is asked.
func (g *Guests) ImageStorages(ctx context.Context, resources pve.Resources, node string) ([]string, error) {
	var ids []string
	for _, r := range resources.Storages(node) {
		if slices.Contains(strings.Split(r.Content, ","), "images") {
			ids = append(ids, r.Storage)
		}
	}
	if len(ids) == 0 {
		storages, err := g.api.Node(node).Storages(ctx, "images")
		if err != nil {
			return nil, fmt.Errorf("list the storages of node %s: %w", node, err)
		}
		for _, st := range storages {
			if st.Enabled {
				ids = append(ids, st.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids, nil
}
