package handle

import (
	"maps"
	"slices"
	"strconv"

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

func snapshotIndex(*Request) (any, error) { return subdirs("config", "rollback"), nil }

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

func (r *Request) snapshot() (*state.Guest, map[string]string, error) {
	g, err := r.guest()
	if err != nil {
		return nil, nil, err
	}
	s, ok := g.Snaps[r.Params["snapname"]]
	if !ok {
		return g, nil, Die("snapshot '%s' does not exist", r.Params["snapname"])
	}
	return g, s, nil
}

func snapshotConfig(r *Request) (any, error) {
	_, s, err := r.snapshot()
	if err != nil {
		return nil, err
	}
	return r.Server.jsonConfig(r.W.Profile, mask(s)), nil
}

func snapshotDescribe(r *Request) (any, error) {
	release, err := r.lockGuest(LockTimeout)
	if err != nil {
		return nil, err
	}
	defer release()
	g, s, err := r.snapshot()
	if err != nil {
		return nil, err
	}
	if err := checkLock(g); err != nil {
		return nil, err
	}
	if d, ok := r.Params["description"]; ok {
		s["description"] = d
	}
	return nil, nil
}

func snapshotCreate(r *Request) (any, error) {
	name := r.Params["snapname"]
	if name == "current" || name == "pending" {
		return nil, Die("unable to use snapshot name '%s' (reserved name)", name)
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
		volumes, err := r.snapshotVolumes(g)
		if err != nil {
			return err
		}
		return r.takeSnapshot(w, g, name, volumes)
	}), nil
}

func snapshotDelete(r *Request) (any, error) {
	name := r.Params["snapname"]
	return r.onGuest("qmdelsnapshot", func(w *Worker, g *state.Guest) error {
		if err := checkLock(g); err != nil {
			return err
		}
		snap, ok := g.Snaps[name]
		if !ok {
			return Die("snapshot '%s' does not exist", name)
		}
		g.SetLock("snapshot-delete", w.Task.UPID)
		snap["snapstate"] = "delete"
		p := process{r, w}
		if volid := snap["vmstate"]; volid != "" {
			if err := p.free(g.Node, volid); err != nil && !r.flag("force") {
				return err
			}
			delete(snap, "vmstate")
		}
		if err := w.Checkpoint(); err != nil {
			g.LockCause = "failure" // PVE leaves the lock and snapstate delete behind
			return err
		}
		for _, opt := range slices.Sorted(maps.Keys(snap)) {
			d := drive(nil)
			if isDrive(opt) {
				d = r.Server.parseDrive(opt, snap[opt])
			}
			if v := r.W.Volume(g.Node, d.file()); d != nil && v != nil {
				v.Snaps = slices.DeleteFunc(v.Snaps, func(s string) bool { return s == name })
			}
		}
		reparent(g, name, snap["parent"])
		delete(g.Snaps, name)
		g.SetLock("", "")
		return nil
	}), nil
}

func snapshotRollback(r *Request) (any, error) {
	name := r.Params["snapname"]
	return r.onGuest("qmrollback", func(w *Worker, g *state.Guest) error {
		snap, ok := g.Snaps[name]
		if !ok {
			return Die("snapshot '%s' does not exist", name)
		}
		if g.Lock() != "rollback" {
			if err := checkLock(g); err != nil {
				return err
			}
		}
		if snap["snapstate"] != "" {
			return Die("unable to rollback to incomplete snapshot (snapstate = %s)", snap["snapstate"])
		}
		if err := r.latest(g, snap, name); err != nil {
			return err
		}
		g.SetLock("rollback", w.Task.UPID)
		if g.Running != nil {
			r.Server.lose(g, state.PowerRollback, w.Task)
		}
		if err := w.Checkpoint(); err != nil {
			g.LockCause = "failure" // the lock stays until the rollback is done again
			return err
		}
		kept := map[string]string{}
		for k, v := range g.Config {
			if hasIndex(k, "unused") || k == "description" {
				kept[k] = v
			}
		}
		g.Config = maps.Clone(snap)
		for _, k := range []string{"snaptime", "snapstate", "vmstate", "description"} {
			delete(g.Config, k)
		}
		maps.Copy(g.Config, kept)
		g.Config["parent"] = name
		g.SetLock("", "")
		g.StatusAt = r.W.Clock.Now()
		if snap["vmstate"] != "" || r.flag("start") {
			return process{r, w}.boot(g)
		}
		return nil
	}), nil
}
