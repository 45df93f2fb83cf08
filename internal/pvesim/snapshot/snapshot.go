// Package snapshot takes, removes and rolls back snapshots of virtual machines.
package snapshot

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Routes are the routes of snapshots.
func Routes() engine.Routes {
	const base = "/nodes/{node}/qemu/{vmid}/snapshot"
	return engine.Routes{
		"GET " + base:                           snapshotList,
		"POST " + base:                          snapshotCreate,
		"GET " + base + "/{snapname}":           snapshotIndex,
		"DELETE " + base + "/{snapname}":        snapshotDelete,
		"GET " + base + "/{snapname}/config":    snapshotConfig,
		"PUT " + base + "/{snapname}/config":    snapshotDescribe,
		"POST " + base + "/{snapname}/rollback": snapshotRollback,
	}
}

func snapshotIndex(*engine.Request) (any, error) {
	return []any{map[string]any{"cmd": "rollback"}, map[string]any{"cmd": "config"}}, nil
}

func snapshotList(r *engine.Request) (any, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	return List(g), nil
}

// List lists the snapshots of a guest, and its present as one more.
func List(g *state.Guest) []any {
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

func snapshot(r *engine.Request) (map[string]string, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	s, ok := g.Snaps[r.Params["snapname"]]
	if !ok {
		return nil, perl.Die("snapshot '%s' does not exist", r.Params["snapname"])
	}
	return s, nil
}

func snapshotConfig(r *engine.Request) (any, error) {
	s, err := snapshot(r)
	if err != nil {
		return nil, err
	}
	return config.JSONConfig(r.Engine, config.Mask(s)), nil
}

func snapshotDescribe(r *engine.Request) (any, error) {
	description, ok := r.Params["description"]
	if !ok {
		return nil, nil
	}
	release, err := guest.Lock(r, engine.LockTimeout)
	if err != nil {
		return nil, err
	}
	defer release()
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	if err := guest.CheckLock(g); err != nil {
		return nil, err
	}
	s, err := snapshot(r)
	if err != nil {
		return nil, err
	}
	if s["description"] = config.Description(description); s["description"] == "" {
		delete(s, "description")
	}
	return nil, nil
}

func snapshotCreate(r *engine.Request) (any, error) {
	name := r.Params["snapname"]
	if name == "current" || strings.EqualFold(name, "pending") {
		return nil, perl.Die("unable to use snapshot name '%s' (reserved name)", strings.ToLower(name))
	}
	if _, err := guest.Load(r); err != nil {
		return nil, err
	}
	return guest.ForkLocked(r, "qmsnapshot", func(w *engine.Worker, g *state.Guest) error {
		if g.IsTemplate() {
			return perl.Die("you can't take a snapshot if it's a template")
		}
		if err := guest.CheckLock(g); err != nil {
			return err
		}
		if _, used := g.Snaps[name]; used {
			return perl.Die("snapshot name '%s' already used", name)
		}
		if !drive.HasFeature(r, "snapshot", g.Config, "") {
			return perl.Die("snapshot feature is not available")
		}
		return (&snapshotting{Process: engine.Process{Request: r, Worker: w}, g: g, name: name}).run()
	}), nil
}

func snapshotDelete(r *engine.Request) (any, error) {
	name := r.Params["snapname"]
	do := func(w *engine.Worker, g *state.Guest) error {
		if _, ok := g.Snaps[name]; !ok {
			return perl.Die("snapshot '%s' does not exist", name)
		}
		if err := tpmFits(w, g, name); err != nil {
			return err
		}
		return (&unsnapshotting{Process: engine.Process{Request: r, Worker: w}, g: g, name: name,
			force: r.Flag("force")}).remove()
	}
	if r.Flag("force") {
		return guest.ForkLocked(r, "qmdelsnapshot", do), nil
	}
	return guest.ForkMigrationLocked(r, "qmdelsnapshot", "Failed to obtain guest migration lock - replication running?",
		do), nil
}

// tpmFits refuses to remove the top-most snapshot of a running guest's TPM state on a volume chain (qemu-server
// API2/Qemu.pm, assert_tpm_snapshot_delete_possible).
func tpmFits(w *engine.Worker, g *state.Guest, name string) error {
	now, _, _ := strings.Cut(g.Config["tpmstate0"], ",")
	then, _, _ := strings.Cut(g.Snaps[name]["tpmstate0"], ",")
	if now == "" || now != then || g.Running == nil || g.Config["parent"] != name {
		return nil
	}
	id, volume, _ := state.SplitVolid(now)
	s := w.W.Storages[id]
	if s != nil && s.Options["snapshot-as-volume-chain"] == "1" && strings.HasSuffix(volume, ".qcow2") {
		return perl.Die("top-most snapshot of TPM state '%s' on storage with 'snapshot-as-volume-chain' cannot be removed "+
			"while the VM is running.", now)
	}
	return nil
}

func snapshotRollback(r *engine.Request) (any, error) {
	if r.W.Has(state.RollbackStartNeedsPower) && r.Flag("start") {
		if err := r.Check("/vms/"+r.Params["vmid"], "VM.PowerMgmt"); err != nil {
			return nil, err
		}
	}
	return guest.ForkMigrationLocked(r, "qmrollback", "", func(w *engine.Worker, g *state.Guest) error {
		return (&rollingBack{Process: engine.Process{Request: r, Worker: w}, g: g, name: r.Params["snapname"]}).run()
	}), nil
}
