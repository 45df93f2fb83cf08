package lifecycle

import (
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// Destroy is DELETE /nodes/{node}/qemu/{vmid} (qemu-server API2/Qemu.pm, destroy_vm).
func Destroy(r *engine.Request) (any, error) {
	skiplock, err := guest.SkipLock(r)
	if err != nil {
		return nil, err
	}
	if _, err := destroyChecks(r); err != nil {
		return nil, err
	}
	return guest.Fork(r, "qmdestroy", func(w *engine.Worker) error { return destroyWorker(r, w, skiplock) }), nil
}

// destroyChecks run before the fork and again in the task.
func destroyChecks(r *engine.Request) (managed bool, err error) {
	g, err := guest.Load(r)
	if err != nil {
		return false, err
	}
	if g.Config["protection"] == "1" {
		return false, perl.Die("can't remove VM %d - protection mode enabled", g.VMID)
	}
	_, managed = r.W.HA["vm:"+strconv.Itoa(g.VMID)]
	if managed && !r.Flag("purge") {
		return false, perl.Die("unable to remove VM %d - used in HA resources and purge parameter not set.", g.VMID)
	}
	if j := r.W.ReplicationOf(g.VMID); j != nil && !r.Flag("purge") {
		return false, perl.Die("There is a replication job '%s' for guest '%d' - Please remove that first.", j.ID, g.VMID)
	}
	if g.Running != nil {
		return false, perl.Die("VM %d is running - destroy failed", g.VMID)
	}
	return managed, nil
}

func destroyWorker(r *engine.Request, w *engine.Worker, skiplock bool) error {
	vmid := r.VMID()
	release, err := guest.LockInTask(w, vmid, false, engine.LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	managed, err := destroyChecks(r)
	if err != nil {
		return err
	}
	g := r.W.Guests[vmid]
	if err := guest.CheckLock(g); err != nil && !skiplock && g.Lock() != "suspended" {
		return err
	}
	p := engine.Process{Request: r, Worker: w}
	cleanupFleecing(p, g)
	if err := checkBases(p, g); err != nil {
		return err
	}
	if err := destroyVolumes(p, g); err != nil {
		return err
	}
	g.Config, g.Pending, g.Deletes, g.Snaps = map[string]string{}, nil, nil, nil
	g.SetLock("destroyed", w.Task.UPID)
	if err := r.LeaveAccess(vmid); err != nil {
		g.SetLock("destroyed", "failure") // which stays, and so does what follows
		return err
	}
	state.ForgetGuest(r.W, vmid)
	if r.Flag("purge") {
		w.Logf("purging VM %d from related configurations..", vmid)
		state.PurgeJobs(r.W, vmid)
		if managed {
			state.LeaveHA(r.W, "vm:"+strconv.Itoa(vmid), r.W.Has(state.DestroyPurgesRules))
			w.Logf("NOTE: removed VM %d from HA resource configuration.", vmid)
		}
	}
	delete(r.W.Guests, vmid)
	return nil
}

// cleanupFleecing frees the images that a killed backup has left, whose record is dropped first (qemu-server
// QemuConfig.pm cleanup_fleecing_images).
func cleanupFleecing(p engine.Process, g *state.Guest) {
	images := g.Fleecing
	g.Fleecing = nil
	for _, volid := range images {
		p.Worker.Logf("removing (old) fleecing image '%s'", volid)
		if err := volume.Free(p, g.Node, volid); err != nil {
			p.Worker.Warnf("error removing fleecing image '%s' - %s", volid, perl.Message(err))
		}
	}
}

// checkBases refuses to destroy a template with linked clones, as far as the storage knows of them.
func checkBases(p engine.Process, g *state.Guest) error {
	if !g.IsTemplate() {
		return nil
	}
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		volid := ""
		switch {
		case drive.HasIndex(opt, "unused"):
			volid = g.Config[opt]
		case drive.IsDrive(opt):
			if d := drive.Parse(p.Engine, opt, g.Config[opt]); d != nil && !d.IsCDROM() {
				volid = d.File()
			}
		}
		v := p.W.Volume(g.Node, volid)
		if v == nil {
			continue
		}
		if n, err := p.W.Storages[v.Storage].ParseName(v.Name); err == nil && n.IsBase && len(p.W.Children(v)) > 0 {
			return perl.Die("base volume '%s' is still in use by linked cloned", volid)
		}
	}
	return nil
}

// ownVolumes lists the volumes in a guest's configuration that carry its VMID: drives, unusedN, saved states, pending
// ones. Those of a storage that does not exist are among them, since only a storage tells whose a volume is.
func ownVolumes(e *engine.Engine, w *state.World, g *state.Guest) []string {
	var list []string
	add := func(volid string) {
		storage, _, ok := state.SplitVolid(volid)
		isLost := ok && w.Storages[storage] == nil
		if (isLost || drive.Owns(w, g.VMID, volid)) && !slices.Contains(list, volid) {
			list = append(list, volid)
		}
	}
	for _, conf := range []map[string]string{g.Config, g.Pending} {
		for _, opt := range slices.Sorted(maps.Keys(conf)) {
			switch {
			case drive.HasIndex(opt, "unused") || opt == "vmstate":
				add(conf[opt])
			case drive.IsDrive(opt):
				if d := drive.Parse(e, opt, conf[opt]); d != nil && !d.IsMedia() {
					add(d.File())
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
func destroyVolumes(p engine.Process, g *state.Guest) error {
	volumes := ownVolumes(p.Engine, p.W, g)
	for i, volid := range volumes {
		storage, _, _ := state.SplitVolid(volid)
		if _, err := p.W.StorageConfig(storage); err != nil { // PVE::Storage::path
			if !p.W.Has(state.DestroyWarns) {
				return perl.Die("%s", perl.Message(err))
			}
			p.Worker.Warnf("failed to get path and owner of volume '%s': %s", volid, perl.Message(err))
			continue
		}
		if err := volume.Free(p, g.Node, volid); err != nil {
			note := p.Worker.Logf
			if p.W.Has(state.DestroyWarns) {
				note = p.Worker.Warnf
			}
			note("Could not remove disk '%s', check manually: %s", volid, perl.Message(err))
		}
		if i == 0 {
			if err := p.Worker.Checkpoint(); err != nil {
				return err
			}
		}
	}
	if len(volumes) == 0 {
		if err := p.Worker.Checkpoint(); err != nil {
			return err
		}
	}
	if p.Flag("destroy-unreferenced-disks") {
		return destroyUnreferenced(p, g)
	}
	return nil
}

// destroyUnreferenced frees every image with the guest's VMID on all storages enabled on the node.
func destroyUnreferenced(p engine.Process, g *state.Guest) error {
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
		if err := volume.Free(p, g.Node, v.Volid()); err != nil {
			p.Logf("%s", perl.Message(err))
		}
	}
	return nil
}
