// Package task lists, reads and stops tasks.
package task

import (
	"cmp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// tasksThat are the tasks that are kept, latest first. A long life has thousands, of which a list shows few: only those
// are sorted.
func tasksThat(w *state.World, keep func(*state.Task) bool) []*state.Task {
	list := []*state.Task{}
	for _, t := range w.Tasks {
		if keep(t) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *state.Task) int {
		if c := b.Start.Compare(a.Start); c != 0 {
			return c
		}
		return cmp.Compare(b.UPID, a.UPID) // pids ascend
	})
	return list
}

func listTasks(r *engine.Request) (any, error) {
	audit := r.Check("/nodes/"+r.Params["node"], "Sys.Audit") == nil
	node, wanted := r.Params["node"], selection(r)
	found := tasksThat(r.W, func(t *state.Task) bool {
		return wanted(t) && t.Node == node && (audit || engine.OwnTask(r.Auth, t))
	})
	if len(found) > 0 { // a total of none is left out
		r.Extra = map[string]any{"total": len(found)}
	}
	start, limit := perl.Number(r.Params["start"]), 50
	if v, ok := r.Params["limit"]; ok {
		limit = perl.Number(v)
	}
	list := []any{}
	for i := start; i < len(found) && len(list) < limit; i++ {
		list = append(list, listedTask(found[i]))
	}
	return list, nil
}

func listedTask(t *state.Task) map[string]any {
	data := describeTask(t)
	if t.Running {
		data["status"] = "RUNNING"
	} else {
		data["status"], data["endtime"] = t.ExitStatus, t.End.Unix()
	}
	return data
}

// selection are the list's filters, what leaves out most first: a long life has thousands of tasks. The source is
// archive by default: running tasks do not show.
func selection(r *engine.Request) func(t *state.Task) bool {
	p := r.Params
	vmid, typ, user, source := p["vmid"], p["typefilter"], strings.ToLower(p["userfilter"]), p["source"]
	since, until, faulty, classes := int64(perl.Number(p["since"])), int64(perl.Number(p["until"])), p["errors"] == "1",
		p["statusfilter"]
	return func(t *state.Task) bool {
		switch {
		case vmid != "" && t.ID != vmid,
			typ != "" && t.Type != typ,
			source != "all" && t.Running != (source == "active"),
			user != "" && !strings.Contains(strings.ToLower(t.User), user),
			faulty && (t.Running || succeeded(t)),
			p["since"] != "" && t.Start.Unix() < since,
			p["until"] != "" && t.Start.Unix() > until:
			return false
		}
		return classes == "" || slices.Contains(perl.ListItems(classes), statusClass(t))
	}
}

func succeeded(t *state.Task) bool { return statusClass(t) == "ok" || statusClass(t) == "warning" }

func statusClass(t *state.Task) string {
	switch {
	case t.Running || t.ExitStatus == "unexpected status":
		return "unknown"
	case t.ExitStatus == "OK":
		return "ok"
	case strings.HasPrefix(t.ExitStatus, "WARNINGS: "):
		return "warning"
	}
	return "error"
}

// clusterTasks is GET /cluster/tasks: each node's running tasks and its latest finished ones, 25 in all (pve-common
// RESTEnvironment.pm, active_workers).
func clusterTasks(r *engine.Request) (any, error) {
	audit := r.Check("/", "Sys.Audit") == nil
	running, finished := []any{}, []any{}
	left := map[string]int{}
	for _, t := range r.W.Tasks {
		left[t.Node] += perl.Flag(t.Running)
	}
	// The user is split off the token already when the two are compared, so a token does not see its own here.
	visible := func(t *state.Task) bool { return audit || t.User == r.Auth.ID && !r.Auth.IsToken }
	for _, t := range tasksThat(r.W, visible) {
		data := listedTask(t)
		delete(data, "pstart")
		if t.Running {
			delete(data, "status")
			data["saved"] = "0"
			running = append(running, data)
			continue
		}
		delete(data, "pid")
		data["saved"] = "1"
		if left[t.Node]++; left[t.Node] <= 25 {
			finished = append(finished, data)
		}
	}
	slices.Reverse(running) // as they were begun
	return append(running, finished...), nil
}
