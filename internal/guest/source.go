package guest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Clone names the source of a clone. Exactly one of VMID, Name and Tags is set.
type Clone struct {
	VMID     int
	Name     string
	Tags     []string
	Node     string // where the source is; "" = looked up
	Full     *bool  // nil: PVE's default (linked for templates)
	Snapshot string
	Storage  string // target of a full clone
	Format   string
	BWLimit  *int64 // KiB/s
}

// FindSource picks the one VM that the configuration means.
func FindSource(resources pve.Resources, clone *Clone) (pve.Resource, error) {
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
		return pve.Resource{}, &FieldError{Path: clone.Path(), Summary: "No VM to clone",
			Detail: fmt.Sprintf("There is no VM %s in the cluster, or this identity may not see it (VM.Audit)", what)}
	}
	names := make([]string, len(matches))
	for i, m := range matches {
		names[i] = fmt.Sprintf("%d (%s, node %s)", m.VMID, m.Name, m.Node)
	}
	slices.Sort(names)
	return pve.Resource{}, &FieldError{Path: clone.Path(), Summary: "Several VMs to clone",
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

// Path is the argument that says which VM is meant.
func (c *Clone) Path() string {
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
