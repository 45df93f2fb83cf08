package handle

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func snapshotRoutes() Routes {
	const base = "/nodes/{node}/qemu/{vmid}/snapshot"
	return Routes{
		"GET " + base:                           snapshotList,
		"POST " + base:                          snapshotCreate,
		"GET " + base + "/{snapname}":           snapshotIndex,
		"DELETE " + base + "/{snapname}":        snapshotDelete,
		"GET " + base + "/{snapname}/config":    snapshotConfig,
		"PUT " + base + "/{snapname}/config":    snapshotDescribe,
		"POST " + base + "/{snapname}/rollback": snapshotRollback,
	}
}

func snapshotIndex(*Request) (any, error) {
	return []any{map[string]any{"cmd": "rollback"}, map[string]any{"cmd": "config"}}, nil
}

func snapshotList(r *Request) (any, error) {
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	return snapshotsOf(g), nil
}

// snapshotsOf lists the snapshots of a guest, and its present as one more.
func snapshotsOf(g *state.Guest) []any {
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(g.Snaps)) {
		s := g.Snaps[name]
		vmstate := 0
		if s["vmstate"] != "" {
			vmstate = 1
		}
		taken, _ := strconv.Atoi(s["snaptime"])
		item := map[string]any{"name": name, "description": s["description"], "snaptime": taken, "vmstate": vmstate}
		if s["parent"] != "" {
			item["parent"] = s["parent"]
		}
		if s["snapstate"] != "" {
			item["snapstate"] = s["snapstate"]
		}
		list = append(list, item)
	}
	running := 0
	if g.Running != nil {
		running = 1
	}
	current := map[string]any{"name": "current", "description": "You are here!", "digest": g.Digest(), "running": running}
	if g.Config["parent"] != "" {
		current["parent"] = g.Config["parent"]
	}
	return append(list, current)
}

func (r *Request) snapshot() (map[string]string, error) {
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	s, ok := g.Snaps[r.Params["snapname"]]
	if !ok {
		return nil, Die("snapshot '%s' does not exist", r.Params["snapname"])
	}
	return s, nil
}

func snapshotConfig(r *Request) (any, error) {
	s, err := r.snapshot()
	if err != nil {
		return nil, err
	}
	return r.Server.jsonConfig(mask(s)), nil
}

func snapshotDescribe(r *Request) (any, error) {
	description, ok := r.Params["description"]
	if !ok {
		return nil, nil
	}
	release, err := r.lockGuest(LockTimeout)
	if err != nil {
		return nil, err
	}
	defer release()
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	if err := checkLock(g); err != nil {
		return nil, err
	}
	s, err := r.snapshot()
	if err != nil {
		return nil, err
	}
	s["description"] = description
	return nil, nil
}

func snapshotCreate(r *Request) (any, error) {
	name := r.Params["snapname"]
	if name == "current" || strings.EqualFold(name, "pending") {
		return nil, Die("unable to use snapshot name '%s' (reserved name)", strings.ToLower(name))
	}
	if _, err := r.guest(); err != nil {
		return nil, err
	}
	return r.onGuest("qmsnapshot", func(w *Worker, g *state.Guest) error {
		if g.IsTemplate() {
			return Die("you can't take a snapshot if it's a template")
		}
		if err := checkLock(g); err != nil {
			return err
		}
		if _, used := g.Snaps[name]; used {
			return Die("snapshot name '%s' already used", name)
		}
		if !r.hasFeature("snapshot", g.Config, "") {
			return Die("snapshot feature is not available")
		}
		return (&snapshotting{process: process{r, w}, g: g, name: name}).run()
	}), nil
}

func snapshotDelete(r *Request) (any, error) {
	name := r.Params["snapname"]
	return r.onGuest("qmdelsnapshot", func(w *Worker, g *state.Guest) error {
		if _, ok := g.Snaps[name]; !ok {
			return Die("snapshot '%s' does not exist", name)
		}
		return (&unsnapshotting{process: process{r, w}, g: g, name: name, force: r.flag("force")}).remove()
	}), nil
}

func snapshotRollback(r *Request) (any, error) {
	if r.W.Has(state.RollbackStartNeedsPower) && r.flag("start") {
		if err := r.Check("/vms/"+r.Params["vmid"], "VM.PowerMgmt"); err != nil {
			return nil, err
		}
	}
	return r.onGuest("qmrollback", func(w *Worker, g *state.Guest) error {
		return (&rollingBack{process: process{r, w}, g: g, name: r.Params["snapname"]}).run()
	}), nil
}
