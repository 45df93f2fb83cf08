package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// object is something of the tests' own on the cluster.
type object struct {
	kind, name, node string
	vmid             int
	template         bool
}

func (o object) String() string {
	line := o.kind + " " + o.name
	if o.node != "" {
		line += " on " + o.node
	}
	return line
}

// Own lists the tests' objects on the cluster: guests, volumes, HA entries and running tasks with an id of the range, and the pool.
func (c *Cluster) Own(ctx context.Context) ([]string, error) {
	objects, err := c.objects(ctx)
	return lines(objects), err
}

// Leaks is Own without what Open has made.
func (c *Cluster) Leaks(ctx context.Context) ([]string, error) {
	objects, err := c.leaked(ctx)
	return lines(objects), err
}

func (c *Cluster) leaked(ctx context.Context) ([]object, error) {
	objects, err := c.objects(ctx)
	return slices.DeleteFunc(objects, func(o object) bool {
		return c.made != 0 && o.vmid == c.made && (o.kind == "guest" || o.kind == "volume") || o.kind == "pool" && o.name == c.pool
	}), err
}

func lines(objects []object) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.String())
	}
	slices.Sort(all)
	return all
}

func (c *Cluster) objects(ctx context.Context) ([]object, error) {
	nodes, err := c.online(ctx)
	if err != nil {
		return nil, err
	}
	var all []object
	for _, look := range []func(context.Context, []string) ([]object, error){c.guests, c.volumes, c.pools, c.tasks, c.managed} {
		found, err := look(ctx, nodes)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// guests asks each node, whose list is never behind, and for those of nodes that are offline the cluster's.
func (c *Cluster) guests(ctx context.Context, nodes []string) ([]object, error) {
	rows, err := c.client.list(ctx, "/cluster/resources", map[string]string{"type": "vm"})
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(row map[string]any) bool { return slices.Contains(nodes, text(row["node"])) })
	for _, node := range nodes {
		for _, kind := range []string{"qemu", "lxc"} {
			here, err := c.client.list(ctx, "/nodes/"+node+"/"+kind, nil)
			if err != nil {
				return nil, err
			}
			for _, row := range here {
				row["node"], row["id"] = node, kind+"/"+text(row["vmid"])
				rows = append(rows, row)
			}
		}
	}
	var all []object
	for _, row := range rows {
		if id := number(row["vmid"]); c.ours(id) {
			all = append(all, object{kind: "guest", name: text(row["id"]), node: text(row["node"]), vmid: id,
				template: text(row["template"]) == "1"})
		}
	}
	return all, nil
}

// volumes asks every storage for disks of guests that is in order on a node, a shared one once.
func (c *Cluster) volumes(ctx context.Context, nodes []string) ([]object, error) {
	var all []object
	asked := map[string]bool{}
	for _, node := range nodes {
		storages, err := c.client.list(ctx, "/nodes/"+node+"/storage", map[string]string{"enabled": "1"})
		if err != nil {
			return nil, err
		}
		for _, s := range storages {
			name := text(s["storage"])
			if !holds(s, "images") && !holds(s, "rootdir") || text(s["shared"]) == "1" && asked[name] {
				continue
			}
			asked[name] = true
			content, err := c.client.list(ctx, "/nodes/"+node+"/storage/"+name+"/content", nil)
			if err != nil {
				return nil, err
			}
			for _, v := range content {
				if id := number(v["vmid"]); c.ours(id) {
					all = append(all, object{kind: "volume", name: text(v["volid"]), node: node, vmid: id})
				}
			}
		}
	}
	return all, nil
}

func (c *Cluster) pools(ctx context.Context, _ []string) ([]object, error) {
	pools, err := c.client.list(ctx, "/pools", nil)
	var all []object
	for _, p := range pools {
		if name := text(p["poolid"]); name == c.pool || strings.HasPrefix(name, c.pool+"-") {
			all = append(all, object{kind: "pool", name: name})
		}
	}
	return all, err
}

// tasks are those that still run, as far as the identity sees them: its own, or with Sys.Audit all.
func (c *Cluster) tasks(ctx context.Context, nodes []string) ([]object, error) {
	var all []object
	for _, node := range nodes {
		tasks, err := c.client.list(ctx, "/nodes/"+node+"/tasks", map[string]string{"source": "active"})
		if err != nil {
			return nil, err
		}
		for _, task := range tasks {
			id := number(task["id"])
			if status := text(task["status"]); c.ours(id) && (status == "" || status == "RUNNING") {
				all = append(all, object{kind: "task", name: text(task["upid"]), node: node, vmid: id})
			}
		}
	}
	return all, nil
}

// managed are the entries of HA. An identity that may not see them has made none.
func (c *Cluster) managed(ctx context.Context, _ []string) ([]object, error) {
	a, err := c.client.ask(ctx, http.MethodGet, "/cluster/ha/resources", nil)
	if err != nil || a.Status == http.StatusForbidden {
		return nil, err
	}
	entries, ok := a.Data.([]any)
	if !ok {
		return nil, fmt.Errorf("GET /cluster/ha/resources: %d %s", a.Status, a.Reason)
	}
	var all []object
	for _, entry := range entries {
		if row, ok := entry.(map[string]any); ok {
			_, id, _ := strings.Cut(text(row["sid"]), ":")
			if n := number(id); c.ours(n) {
				all = append(all, object{kind: "HA entry", name: text(row["sid"]), vmid: n})
			}
		}
	}
	return all, nil
}

// Sweep removes the leftovers of a failed case in the range, which was empty before, and returns their names.
func (c *Cluster) Sweep(ctx context.Context) (removed []string, err error) {
	objects, err := c.leaked(ctx)
	if err != nil {
		return nil, err
	}
	rank := func(o object) int { // clones before their templates, volumes when no guest has them any more
		at := slices.Index([]string{"task", "HA entry", "guest", "volume", "pool"}, o.kind) * 2
		if o.template {
			at++
		}
		return at
	}
	slices.SortStableFunc(objects, func(a, b object) int { return rank(a) - rank(b) })
	var failed []error
	for _, o := range objects {
		switch o.kind {
		case "task":
			failed = append(failed, c.client.wait(ctx, o.name))
		case "HA entry":
			failed = append(failed, c.client.do(ctx, false, http.MethodDelete, "/cluster/ha/resources/"+o.name, nil))
		case "guest":
			failed = append(failed, c.remove(ctx, o.node, o.vmid))
		case "pool":
			failed = append(failed, c.client.do(ctx, false, http.MethodDelete, "/pools/"+o.name, nil))
		}
	}
	volumes, err := c.volumes(ctx, []string{c.Node})
	failed = append(failed, err)
	for _, v := range volumes {
		if v.vmid != c.made || c.made == 0 {
			storage, _, _ := strings.Cut(v.name, ":")
			failed = append(failed, c.client.do(ctx, false, http.MethodDelete,
				"/nodes/"+v.node+"/storage/"+storage+"/content/"+url.PathEscape(v.name), nil))
		}
	}
	return lines(objects), errors.Join(failed...)
}

// remove stops and destroys a guest.
func (c *Cluster) remove(ctx context.Context, node string, vmid int) error {
	path := c.guestPath(node, vmid)
	unprotect := c.client.do(ctx, false, http.MethodPut, path+"/config", map[string]string{"protection": "0"})
	stop := c.client.do(ctx, false, http.MethodPost, path+"/status/stop", nil)
	if err := c.client.do(ctx, false, http.MethodDelete, path, map[string]string{"purge": "1"}); err != nil {
		return errors.Join(unprotect, stop, err)
	}
	return nil
}

// number is a VMID in an answer; 0 if it is none.
func number(v any) int {
	n, err := strconv.Atoi(text(v))
	if err != nil {
		return 0
	}
	return n
}
