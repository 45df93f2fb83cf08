package handle

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

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
