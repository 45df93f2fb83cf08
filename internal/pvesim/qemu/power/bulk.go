package power

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// BulkRoutes switch many guests of a node (pve-manager API2/Nodes.pm). PVE runs up to max_workers tasks beside each
// other, the simulator one after the other, in PVE's order.
func BulkRoutes() engine.Routes {
	return engine.Routes{
		"POST /nodes/{node}/startall":   bulk("startall", false, startOne),
		"POST /nodes/{node}/stopall":    bulk("stopall", true, stopOne),
		"POST /nodes/{node}/suspendall": bulk("suspendall", true, suspendOne, "VM.Config.Disk"),
	}
}

func startOne(r, each *engine.Request, g *state.Guest) (line string, do engine.Func) {
	if g.Running != nil || g.Config["onboot"] != "1" && !r.Flag("force") {
		return "", nil
	}
	return "Starting VM " + each.Params["vmid"], Start
}

func stopOne(r, each *engine.Request, g *state.Guest) (line string, do engine.Func) {
	if g.Running == nil {
		return "", nil
	}
	timeout := cmp.Or(perl.Subvalue(g.Config["startup"], "down", false), r.Params["timeout"], "180")
	each.Params["timeout"], each.Params["forceStop"] = timeout, "1"
	if force, ok := r.Params["force-stop"]; ok {
		each.Params["forceStop"] = force
	}
	return "Stopping VM " + each.Params["vmid"] + " (timeout = " + timeout + " seconds)", Shutdown
}

func suspendOne(_, each *engine.Request, g *state.Guest) (line string, do engine.Func) {
	if g.Running == nil {
		return "VM " + each.Params["vmid"] + " not running, skipping suspension", nil
	}
	each.Params["todisk"] = "1"
	return "Suspending VM " + each.Params["vmid"], Suspend
}

// choice gives the line of the log for a guest, and the request; nil for none. each has its parameters.
type choice func(r, each *engine.Request, g *state.Guest) (line string, do engine.Func)

// bulk asks the same of the chosen virtual machines of a node, by their start order, or the other way round.
func bulk(typ string, backwards bool, choose choice, further ...string) engine.Func {
	return func(r *engine.Request) (any, error) {
		if err := mayBulk(r, further); err != nil {
			return nil, err
		}
		return r.Fork(r.Node(), typ, "", func(w *engine.Worker) error {
			for _, id := range bulkOrder(r, backwards) {
				each := &engine.Request{
					W: r.W, Method: "POST", Template: "/nodes/{node}/qemu/{vmid}/status", Auth: r.Auth, Engine: r.Engine,
					Params: map[string]string{"node": r.Node(), "vmid": strconv.Itoa(id)}, Synchronous: true,
				}
				line, do := choose(r, each, r.W.Guests[id])
				if line != "" {
					w.Logf("%s", line)
				}
				if do == nil {
					continue
				}
				answer, err := do(each)
				if err != nil {
					w.Logf("%s", perl.Message(err)) // a warning of Perl's, which the task survives
					continue
				}
				upid, _ := answer.(string)
				if t := r.W.Tasks[upid]; typ == "startall" && t != nil && t.ExitStatus != "OK" {
					w.Logf("Starting VM %d failed: %s", id, t.ExitStatus)
				}
			}
			return nil
		}), nil
	}
}

// mayBulk asks for privileges on /, else on each guest that the request names.
func mayBulk(r *engine.Request, further []string) error {
	all := append([]string{"VM.PowerMgmt"}, further...)
	if r.Check("/", all...) == nil {
		return nil
	}
	named := perl.ListItems(r.Params["vms"])
	if len(named) == 0 {
		return perl.Denied("/, " + strings.Join(all, " && "))
	}
	for _, id := range named {
		if err := r.Check("/vms/"+id, "VM.PowerMgmt"); err != nil {
			return err
		}
	}
	return nil
}

// bulkOrder are the virtual machines in the order of their startup option, those without one last, and by id among
// equals (get_start_stop_list). Templates are left out, and guests that HA manages unless the request names them.
func bulkOrder(r *engine.Request, backwards bool) []int {
	filter, filtered := r.Params["vms"]
	order := func(id int) int {
		if n := perl.Subvalue(r.W.Guests[id].Config["startup"], "order", true); n != "" {
			return perl.Number(n)
		}
		return math.MaxInt
	}
	var ids []int
	for _, id := range slices.Sorted(maps.Keys(r.W.Guests)) {
		g := r.W.Guests[id]
		managed := r.W.HA["vm:"+strconv.Itoa(id)]
		if g.Type != "qemu" || g.Node != r.Node() || g.IsTemplate() ||
			filtered && !slices.Contains(perl.ListItems(filter), strconv.Itoa(id)) ||
			!filtered && managed != nil && managed.State != "ignored" {
			continue
		}
		ids = append(ids, id)
	}
	slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(order(a), order(b)) })
	if backwards {
		slices.Reverse(ids)
	}
	return ids
}
