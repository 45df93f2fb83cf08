package lab

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Cluster is the cluster of the cases. They may use a range of VMIDs, a pool and a template of their own there.
type Cluster struct {
	Node        string
	First, Last int // the range of VMIDs, inclusive

	names  map[string]string // what stands for <name> in the cases
	lacks  map[Need]string   // the needs that the cluster lacks, and why
	client *Client
	pool   string
	made   int // the template that Open has made; 0: one was there
}

// VMIDRange reads "990000-990999"; "" is that.
func VMIDRange(text string) (first, last int, err error) {
	if text == "" {
		return 990000, 990999, nil
	}
	a, b, ok := strings.Cut(text, "-")
	if ok {
		if first, err = strconv.Atoi(a); err == nil {
			last, err = strconv.Atoi(b)
		}
	}
	if !ok || err != nil || first < 100 || last < first+99 {
		return 0, 0, fmt.Errorf("PROXMOX_VE_TEST_VMID_RANGE: %q is no range of a hundred such as 990000-990099", text)
	}
	return first, last, nil
}

// online are the names of the nodes that are online.
func (c *Cluster) online(ctx context.Context) ([]string, error) {
	nodes, err := c.client.list(ctx, "/nodes", nil)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range nodes {
		if n["status"] == "online" {
			names = append(names, text(n["node"]))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Lacks says which of the needs the cluster cannot meet, and why; "" if it meets all.
func (c *Cluster) Lacks(needs ...Need) string {
	var all []string
	for _, need := range needs {
		if why := c.lacks[need]; why != "" {
			all = append(all, fmt.Sprintf("needs %s: %s", need, why))
		}
	}
	return strings.Join(all, "; ")
}

// Range is the range of VMIDs as PROXMOX_VE_VMID_RANGE takes it.
func (c *Cluster) Range() string { return fmt.Sprintf("%d-%d", c.First, c.Last) }

var placeholder = regexp.MustCompile(`<[a-z][a-z ]*(?:\+\d+)?>`)

// fill puts the cluster's names in the place of <node>, <storage> … and <vmid+n>.
func (c *Cluster) fill(pattern string) string {
	return placeholder.ReplaceAllStringFunc(pattern, func(mark string) string {
		name, n, isID := strings.Cut(strings.Trim(mark, "<>"), "+")
		if isID && name == "vmid" {
			offset, _ := strconv.Atoi(n) // the pattern has digits there
			return strconv.Itoa(c.First + offset)
		}
		value, known := c.names[name]
		if !known {
			return mark
		}
		return value
	})
}

func (c *Cluster) ours(vmid int) bool { return vmid >= c.First && vmid <= c.Last }

func (c *Cluster) guestPath(node string, vmid int) string {
	return fmt.Sprintf("/nodes/%s/qemu/%d", node, vmid)
}

// holds tells whether a storage is in order, and for a kind of content.
func holds(storage map[string]any, content string) bool {
	return text(storage["active"]) == "1" && slices.Contains(strings.Split(text(storage["content"]), ","), content)
}
