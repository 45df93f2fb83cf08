package handle

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// qemuSuspend pauses a guest, or saves it to disk and ends it (todisk=1).
func qemuSuspend(r *Request) (any, error) {
	if !r.flag("todisk") {
		return r.onRunning("qmpause", func(_ *Worker, g *state.Guest) error {
			g.Running.QMPStatus = "paused"
			return nil
		})
	}
	if ha := r.W.HA["vm:"+r.Params["vmid"]]; ha != nil && ha.State != "ignored" {
		return nil, Die("Cannot suspend HA managed VM to disk")
	}
	return r.onRunning("qmsuspend", func(w *Worker, g *state.Guest) error {
		p := process{r, w}
		v, err := p.stateVolume(g, "suspend-"+r.W.Clock.Now().UTC().Format("2006-01-02"), r.Params["statestorage"])
		if err != nil {
			return err
		}
		g.Config["vmstate"] = v.Volid()
		g.Config["runningmachine"] = "pc-i440fx-" + qemuVersion(r.W.Profile)
		g.SetLock("suspended", w.Task.UPID)
		g.Running = nil
		g.StatusAt = r.W.Clock.Now()
		return nil
	})
}

// stateVolume allocates the volume for the memory of a guest, on the given storage, on vmstatestorage, or where its
// first disk lies (QemuServer.pm find_vmstate_storage).
func (p process) stateVolume(g *state.Guest, name, storage string) (*state.Volume, error) {
	if storage == "" {
		storage = g.Config["vmstatestorage"]
	}
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		if storage != "" {
			break
		}
		if d := p.Server.parseDrive(opt, g.Config[opt]); isDrive(opt) && d != nil && !d.isCDROM() {
			storage, _, _ = state.SplitVolid(d.file())
		}
	}
	if storage == "" {
		storage = "local"
	}
	memory, _ := strconv.ParseInt(subvalue(g.Config["memory"], "current", true), 10, 64)
	file := fmt.Sprintf("vm-%d-state-%s", g.VMID, name)
	if s := p.W.Storages[storage]; s != nil && s.IsDir() {
		file += ".raw"
	}
	return p.W.Alloc(g.Node, storage, g.VMID, file, "raw", (2*max(memory, 512)+500)<<20)
}
