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

func snapshotIndex(*Request) (any, error) { return subdirs("config", "rollback"), nil }

func snapshotList(r *Request) (any, error) {
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
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
	return append(list, current), nil
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

// onGuest forks a task that holds the guest's lock and checks its lock property unless told not to.
func (r *Request) onGuest(typ string, do func(w *Worker, g *state.Guest) error) string {
	return r.task(typ, func(w *Worker) error {
		release, err := w.lockGuest(r.vmid(), false, LockTimeout)
		if err != nil {
			return err
		}
		defer release()
		g, err := r.guest()
		if err != nil {
			return err
		}
		return do(w, g)
	})
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

// snapshotVolumes are the drives that a snapshot covers, all of which must be able to.
func (r *Request) snapshotVolumes(g *state.Guest) (map[string]*state.Volume, error) {
	out := map[string]*state.Volume{}
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		if !isDrive(opt) {
			continue
		}
		d := r.Server.parseDrive(opt, g.Config[opt])
		if d == nil || d.isCDROM() {
			continue
		}
		v := r.W.Volume(g.Node, d.file())
		if v == nil {
			return nil, Die("volume '%s' does not exist", d.file())
		}
		if !canSnapshot(r.W.Storages[v.Storage], v.Format) {
			return nil, Die("snapshot feature is not available")
		}
		out[opt] = v
	}
	return out, nil
}

func (r *Request) takeSnapshot(w *Worker, g *state.Guest, name string, volumes map[string]*state.Volume) error {
	snap := map[string]string{"snapstate": "prepare"}
	for k, v := range g.Config {
		if !slices.Contains([]string{"lock", "description", "vmstate", "snaptime", "snapstate"}, k) && !hasIndex(k, "unused") {
			snap[k] = v
		}
	}
	snap["snaptime"] = strconv.FormatInt(r.W.Clock.Now().Unix(), 10)
	if d := strings.TrimRight(r.Params["description"], " \n"); d != "" {
		snap["description"] = d
	}
	if g.Snaps == nil {
		g.Snaps = map[string]map[string]string{}
	}
	g.Snaps[name] = snap
	g.SetLock("snapshot", w.Task.UPID)
	p := process{r, w}
	undo := func() {
		if volid := snap["vmstate"]; volid != "" {
			p.cleanUp(g.Node, []string{volid})
		}
		for _, v := range volumes {
			v.Snaps = slices.DeleteFunc(v.Snaps, func(s string) bool { return s == name })
		}
		delete(g.Snaps, name)
		g.SetLock("", "")
	}
	if r.flag("vmstate") && g.Running != nil {
		v, err := p.stateVolume(g, name, "")
		if err != nil {
			undo()
			return err
		}
		snap["vmstate"] = v.Volid()
	}
	for _, opt := range slices.Sorted(maps.Keys(volumes)) {
		w.Logf("snapshotting 'drive-%s' (%s)", opt, volumes[opt].Volid())
		volumes[opt].Snaps = append(volumes[opt].Snaps, name)
	}
	if err := w.Checkpoint(); err != nil {
		undo()
		return err
	}
	delete(snap, "snapstate")
	g.Config["parent"] = name
	g.SetLock("", "")
	return nil
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

func reparent(g *state.Guest, name, parent string) {
	sections := append(slices.Collect(maps.Values(g.Snaps)), g.Config)
	for _, conf := range sections {
		if conf["parent"] != name {
			continue
		}
		if parent == "" {
			delete(conf, "parent")
		} else {
			conf["parent"] = parent
		}
	}
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
		g.Running = nil
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

// latest refuses a rollback that the storage cannot do: ZFS goes back to the newest snapshot only.
func (r *Request) latest(g *state.Guest, snap map[string]string, name string) error {
	for _, opt := range slices.Sorted(maps.Keys(snap)) {
		if !isDrive(opt) {
			continue
		}
		d := r.Server.parseDrive(opt, snap[opt])
		if d == nil || d.isCDROM() {
			continue
		}
		v := r.W.Volume(g.Node, d.file())
		if v == nil {
			return Die("volume '%s' does not exist", d.file())
		}
		if n := len(v.Snaps); r.W.Storages[v.Storage].Type == "zfspool" && n > 0 && v.Snaps[n-1] != name {
			return Die("can't rollback, '%s' is not most recent snapshot on '%s'", name, v.Volid())
		}
	}
	return nil
}
