package config

import (
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// deallocate destroys the volume of a drive that is not needed any more, if the guest owns it (QemuServer.pm
// try_deallocate_drive).
func deallocate(p engine.Process, g *state.Guest, opt string, d drive.Drive, force bool) error {
	if !force || d.IsMedia() || !drive.Owns(p.W, g.VMID, d.File()) {
		return nil
	}
	storage, _, _ := state.SplitVolid(d.File())
	if err := p.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	if drive.Used(p.Request, g, opt, d.File()) {
		return perl.Die("unable to delete '%s' - volume is still in use (snapshot?)", d.File())
	}
	return volume.Free(p, g.Node, d.File())
}

// registerUnused keeps the volume of a drive that lost its slot as unusedN; a cloud-init volume is destroyed
// (QemuServer.pm vmconfig_register_unused_drive).
func registerUnused(p engine.Process, g *state.Guest, d drive.Drive) {
	switch {
	case d == nil:
	case d.IsCloudinit():
		if err := volume.Free(p, g.Node, d.File()); err != nil {
			p.Logf("%s", perl.Message(err))
		}
	case !d.IsCDROM() && drive.Owns(p.W, g.VMID, d.File()):
		AddUnused(g.Config, d.File())
	}
}

// cleanPending drops pending values that are the current ones, and deletions of keys that are not set.
func cleanPending(g *state.Guest) {
	for k, v := range g.Pending {
		if current, ok := g.Config[k]; ok && current == v {
			delete(g.Pending, k)
		}
	}
	for k := range g.Deletes {
		if _, ok := g.Config[k]; !ok {
			delete(g.Deletes, k)
		}
	}
}

// ApplyPending makes the pending section of a stopped guest current (QemuServer.pm vmconfig_apply_pending).
func ApplyPending(p engine.Process, g *state.Guest, errs map[string]string) {
	for _, opt := range slices.Sorted(maps.Keys(g.Deletes)) {
		if v, ok := g.Config[opt]; ok && drive.IsDrive(opt) {
			if err := detach(p, g, opt, drive.Parse(p.Engine, opt, v), g.Deletes[opt] == 2); err != nil {
				errs[opt] = "unable to apply pending change " + opt + " : " + perl.Message(err) + "\n"
				continue
			}
		}
		dropOption(p, g, opt)
		delete(g.Deletes, opt)
	}
	cleanPending(g)
	for _, opt := range slices.Sorted(maps.Keys(g.Pending)) {
		if v, ok := g.Config[opt]; ok && drive.IsDrive(opt) {
			old := drive.Parse(p.Engine, opt, v)
			if next := drive.Parse(p.Engine, opt, g.Pending[opt]); old != nil && next != nil &&
				!(old.IsCloudinit() && old.File() == next.File()) {
				registerUnused(p, g, old)
			}
		}
		setOption(p, g, opt, g.Pending[opt])
		delete(g.Pending, opt)
	}
	Write(p.Engine, g)
}

// detach lets go of a drive: its volume becomes unusedN, or is destroyed if that is forced.
func detach(p engine.Process, g *state.Guest, opt string, d drive.Drive, force bool) error {
	if d == nil {
		return nil
	}
	if force {
		return deallocate(p, g, opt, d, true)
	}
	registerUnused(p, g, d)
	return nil
}

func dropOption(p engine.Process, g *state.Guest, opt string) {
	if opt == "lock" {
		g.SetLock("", "")
		return
	}
	delete(g.Config, opt)
}

func setOption(p engine.Process, g *state.Guest, opt, value string) {
	if opt == "lock" {
		g.SetLock(value, "api")
		return
	}
	g.Config[opt] = value
}
