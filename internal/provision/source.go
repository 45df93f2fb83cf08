package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// origin is the source of a clone, as it was when the create began.
type origin struct {
	vmid        int
	node        string
	template    bool
	description string
	storages    []string // that its volumes are on
	request     *Clone
}

// resolve finds the source of a clone in the cluster's listing and reads what the commit must restore from it. A source that
// is locked is waited for: a backup or a migration of a template ends, and after the migration it is on another node. The
// listing that is returned is the one in which it was found.
func (s *Service) resolve(ctx context.Context, resources pve.Resources, clone *Clone) (*origin, pve.Resources, error) {
	if clone == nil {
		return nil, resources, nil
	}
	var q *queue
	for {
		from, lock, err := s.source(ctx, resources, clone)
		if err != nil || lock == "" || lock == suspended {
			return from, resources, err
		}
		if q == nil || q.node != from.node {
			q = s.queue(from.node, from.vmid)
		}
		locked := lockedBy(lock, fmt.Sprintf("clone VM %d on node %s", from.vmid, from.node))
		if err := q.wait(ctx, locked); err != nil {
			return nil, resources, &FieldError{Path: clone.path(), Summary: fmt.Sprintf("VM %d cannot be cloned while it is locked", from.vmid),
				Detail: "It was not changed", Err: err}
		}
		if resources, err = s.api.Resources(ctx); err != nil {
			return nil, resources, fmt.Errorf("list the cluster's guests: %w", err)
		}
	}
}

// source looks at the source of a clone as it is now, and at the lock on it.
func (s *Service) source(ctx context.Context, resources pve.Resources, clone *Clone) (*origin, string, error) {
	found, err := findSource(resources, clone)
	if err != nil {
		return nil, "", err
	}
	config, err := s.api.CurrentConfig(ctx, found.Node, found.VMID)
	if err != nil {
		return nil, "", &FieldError{Path: "clone", Summary: fmt.Sprintf("Cannot read VM %d to clone it", found.VMID),
			Detail: fmt.Sprintf("The source of the clone is on node %s", found.Node), Err: err}
	}
	return &origin{vmid: found.VMID, node: found.Node, template: config.Values["template"] == "1",
		description: strings.TrimRight(config.Values["description"], " \n"), storages: storagesOf(config.Values), request: clone}, config.Values["lock"], nil
}

// storagesOf are the storages of the volumes in a configuration.
func storagesOf(config map[string]string) []string {
	var ids []string
	for _, value := range config {
		file, _, _ := strings.Cut(value, ",")
		if volume := strings.TrimPrefix(file, "file="); vm.IsVolume(volume) {
			ids = append(ids, vm.VolumeStorage(volume))
		}
	}
	return ids
}

// findSource picks the one VM that the configuration means.
func findSource(resources pve.Resources, clone *Clone) (pve.Resource, error) {
	var matches []pve.Resource
	for _, r := range resources {
		if r.Type == "qemu" && clone.matches(r) && (clone.Node == "" || r.Node == clone.Node) {
			matches = append(matches, r)
		}
	}
	what := clone.describe()
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		return pve.Resource{}, &FieldError{Path: clone.path(), Summary: "No VM to clone",
			Detail: fmt.Sprintf("There is no VM %s in the cluster, or this identity may not see it (VM.Audit)", what)}
	}
	names := make([]string, len(matches))
	for i, m := range matches {
		names[i] = fmt.Sprintf("%d (%s, node %s)", m.VMID, m.Name, m.Node)
	}
	slices.Sort(names)
	return pve.Resource{}, &FieldError{Path: clone.path(), Summary: "Several VMs to clone",
		Detail: fmt.Sprintf("%d VMs are %s: %s. Name one with clone.vmid or clone.node", len(matches), what, strings.Join(names, ", "))}
}

func (c *Clone) matches(r pve.Resource) bool {
	switch {
	case c.VMID != 0:
		return r.VMID == c.VMID
	case c.Name != "":
		return r.Name == c.Name
	}
	tags := strings.Split(strings.ToLower(r.Tags), ";") // PVE stores tags in lower case unless the datacenter says otherwise
	return r.Template && !slices.ContainsFunc(c.Tags, func(t string) bool { return !slices.Contains(tags, strings.ToLower(t)) })
}

func (c *Clone) path() string {
	switch {
	case c.VMID != 0:
		return "clone.vmid"
	case c.Name != "":
		return "clone.name"
	}
	return "clone.tags"
}

func (c *Clone) describe() string {
	text := "tagged " + strings.Join(c.Tags, ", ")
	switch {
	case c.VMID != 0:
		text = strconv.Itoa(c.VMID)
	case c.Name != "":
		text = fmt.Sprintf("named %q", c.Name)
	}
	if c.Node != "" {
		text += " on node " + c.Node
	}
	return text
}

// params are the clone request's, but for the description.
func (o *origin) params(vmid int, r CreateRequest, node string) pve.Params {
	p := pve.Params{"newid": strconv.Itoa(vmid)}
	if o.request.Full != nil {
		p["full"] = map[bool]string{true: "1", false: "0"}[*o.request.Full]
	}
	optional := map[string]string{"snapname": o.request.Snapshot, "storage": o.request.Storage, "format": o.request.Format, "pool": r.Pool}
	if r.Spec.Name != nil {
		optional["name"] = *r.Spec.Name
	}
	if node != o.node {
		optional["target"] = node
	}
	if o.request.BWLimit != nil {
		optional["bwlimit"] = strconv.FormatInt(*o.request.BWLimit, 10)
	}
	for option, value := range optional {
		if value != "" {
			p[option] = value
		}
	}
	return p
}

// target is the node for the VM: the configured one, that of the source, or the only one.
func target(resources pve.Resources, node, source string) (string, error) {
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
	return node, checkNode(resources, node)
}

// firstOnline is the first of several nodes that is online.
func firstOnline(resources pve.Resources, nodes []string) (string, error) {
	var why []string
	for _, node := range nodes {
		err := checkNode(resources, node)
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

// checkNode reports a node that the cluster does not have, or that is not online.
func checkNode(resources pve.Resources, node string) error {
	found, ok := resources.Node(node)
	if !ok {
		names := []string{}
		for _, n := range resources.Nodes() {
			names = append(names, n.Node)
		}
		slices.Sort(names)
		return &FieldError{Path: "node", Summary: fmt.Sprintf("Unknown node %q", node),
			Detail: "The cluster has the nodes " + strings.Join(names, ", ")}
	}
	if found.Status != "online" {
		return &FieldError{Path: "node", Summary: fmt.Sprintf("Node %s is not online", node),
			Detail: fmt.Sprintf("Its status is %q", found.Status)}
	}
	return nil
}

// clusterName is what every identity can see of a cluster: the names of its nodes.
func clusterName(resources pve.Resources) string {
	names := []string{}
	for _, n := range resources.Nodes() {
		names = append(names, n.Node)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}
