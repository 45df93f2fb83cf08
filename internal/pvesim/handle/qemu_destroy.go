package handle

import (
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// qemuDestroy is DELETE /nodes/{node}/qemu/{vmid} (qemu-server API2/Qemu.pm, destroy_vm).
func qemuDestroy(r *Request) (any, error) {
	skiplock, err := r.skiplock()
	if err != nil {
		return nil, err
	}
	if _, err := r.destroyChecks(); err != nil {
		return nil, err
	}
	return r.task("qmdestroy", func(w *Worker) error { return r.destroyWorker(w, skiplock) }), nil
}

// destroyChecks run before the fork and again in the task.
func (r *Request) destroyChecks() (managed bool, err error) {
	g, err := r.guest()
	if err != nil {
		return false, err
	}
	if g.Config["protection"] == "1" {
		return false, Die("can't remove VM %d - protection mode enabled", g.VMID)
	}
	_, managed = r.W.HA["vm:"+strconv.Itoa(g.VMID)]
	if managed && !r.flag("purge") {
		return false, Die("unable to remove VM %d - used in HA resources and purge parameter not set.", g.VMID)
	}
	if j := r.W.ReplicationOf(g.VMID); j != nil && !r.flag("purge") {
		return false, Die("There is a replication job '%s' for guest '%d' - Please remove that first.", j.ID, g.VMID)
	}
	if g.Running != nil {
		return false, Die("VM %d is running - destroy failed", g.VMID)
	}
	return managed, nil
}

func (r *Request) destroyWorker(w *Worker, skiplock bool) error {
	vmid := r.vmid()
	release, err := w.lockGuest(vmid, false, LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	managed, err := r.destroyChecks()
	if err != nil {
		return err
	}
	g := r.W.Guests[vmid]
	if err := checkLock(g); err != nil && !skiplock && g.Lock() != "suspended" {
		return err
	}
	p := process{r, w}
	if err := p.checkBases(g); err != nil {
		return err
	}
	if err := p.destroyVolumes(g); err != nil {
		return err
	}
	g.Config, g.Pending, g.Deletes, g.Snaps = map[string]string{}, nil, nil, nil
	g.SetLock("destroyed", w.Task.UPID)
	r.W.ForgetGuest(vmid)
	if r.flag("purge") {
		w.Logf("purging VM %d from related configurations..", vmid)
		r.W.PurgeJobs(vmid)
		if managed {
			delete(r.W.HA, "vm:"+strconv.Itoa(vmid))
			w.Logf("NOTE: removed VM %d from HA resource configuration.", vmid)
		}
	}
	delete(r.W.Guests, vmid)
	return nil
}

// checkBases refuses to destroy a template with linked clones, as far as the storage knows of them.
func (p process) checkBases(g *state.Guest) error {
	if !g.IsTemplate() {
		return nil
	}
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		volid := ""
		switch {
		case hasIndex(opt, "unused"):
			volid = g.Config[opt]
		case isDrive(opt):
			if d := p.Server.parseDrive(opt, g.Config[opt]); d != nil && !d.isCDROM() {
				volid = d.file()
			}
		}
		v := p.W.Volume(g.Node, volid)
		if v == nil {
			continue
		}
		if n, err := p.W.Storages[v.Storage].ParseName(v.Name); err == nil && n.IsBase && len(p.W.Children(v)) > 0 {
			return Die("base volume '%s' is still in use by linked cloned", volid)
		}
	}
	return nil
}

// ownVolumes lists the volumes in a guest's configuration that carry its VMID: drives, unusedN, saved states, pending ones.
func (s *Server) ownVolumes(w *state.World, g *state.Guest) []string {
	var list []string
	add := func(volid string) {
		if owns(w, g.VMID, volid) && !slices.Contains(list, volid) {
			list = append(list, volid)
		}
	}
	for _, conf := range []map[string]string{g.Config, g.Pending} {
		for _, opt := range slices.Sorted(maps.Keys(conf)) {
			switch {
			case hasIndex(opt, "unused") || opt == "vmstate":
				add(conf[opt])
			case isDrive(opt):
				if d := s.parseDrive(opt, conf[opt]); d != nil && !d.isMedia() {
					add(d.file())
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.Snaps)) {
		add(g.Snaps[name]["vmstate"])
	}
	return list
}

// destroyVolumes frees what the configuration names; what cannot be freed is only a line in the log, or a warning.
func (p process) destroyVolumes(g *state.Guest) error {
	volumes := p.Server.ownVolumes(p.W, g)
	for i, volid := range volumes {
		if err := p.free(g.Node, volid); err != nil {
			note := p.worker.Logf
			if p.W.Has(state.DestroyWarns) {
				note = p.worker.Warnf
			}
			note("Could not remove disk '%s', check manually: %s", volid, text(err))
		}
		if i == 0 {
			if err := p.worker.Checkpoint(); err != nil {
				return err
			}
		}
	}
	if len(volumes) == 0 {
		if err := p.worker.Checkpoint(); err != nil {
			return err
		}
	}
	if p.flag("destroy-unreferenced-disks") {
		return p.destroyUnreferenced(g)
	}
	return nil
}

// destroyUnreferenced frees every image with the guest's VMID on all storages enabled on the node.
func (p process) destroyUnreferenced(g *state.Guest) error {
	var found []*state.Volume
	for _, id := range slices.Sorted(maps.Keys(p.W.Storages)) {
		s, err := p.W.StorageEnabled(g.Node, id)
		if err != nil || !s.Has("images") {
			continue
		}
		if _, err := p.W.StorageActive(g.Node, id); err != nil {
			return err
		}
		for _, v := range p.W.VolumesOn(g.Node, s) {
			if v.Content == "images" && v.VMID == g.VMID {
				found = append(found, v)
			}
		}
	}
	for _, v := range found {
		if err := p.free(g.Node, v.Volid()); err != nil {
			p.logf("%s", text(err))
		}
	}
	return nil
}
