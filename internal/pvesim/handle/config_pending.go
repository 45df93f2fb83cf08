package handle

import (
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// deallocate destroys the volume of a drive that is not needed any more, if the guest owns it (QemuServer.pm
// try_deallocate_drive).
func (p process) deallocate(g *state.Guest, opt string, d drive, force bool) error {
	if !force || d.isMedia() || !owns(p.W, g.VMID, d.file()) {
		return nil
	}
	storage, _, _ := state.SplitVolid(d.file())
	if err := p.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	if p.Server.used(g, opt, d.file()) {
		return Die("unable to delete '%s' - volume is still in use (snapshot?)", d.file())
	}
	return p.free(g.Node, d.file())
}

// registerUnused keeps the volume of a drive that lost its slot as unusedN; a cloud-init volume is destroyed
// (QemuServer.pm vmconfig_register_unused_drive).
func (p process) registerUnused(g *state.Guest, d drive) {
	switch {
	case d == nil:
	case d.isCloudinit():
		if err := p.free(g.Node, d.file()); err != nil {
			p.logf("%s", text(err))
		}
	case !d.isCDROM() && owns(p.W, g.VMID, d.file()):
		addUnused(g, d.file())
	}
}

// cleanPending drops pending values that are the current ones, and deletions of what is not there.
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

// applyPending makes the pending section of a stopped guest current (QemuServer.pm vmconfig_apply_pending).
func (p process) applyPending(g *state.Guest, errs map[string]string) {
	for _, opt := range slices.Sorted(maps.Keys(g.Deletes)) {
		if v, ok := g.Config[opt]; ok && isDrive(opt) {
			if err := p.detach(g, opt, p.Server.parseDrive(opt, v), g.Deletes[opt] == 2); err != nil {
				errs[opt] = "unable to apply pending change " + opt + " : " + text(err) + "\n"
				continue
			}
		}
		p.dropOption(g, opt)
		delete(g.Deletes, opt)
	}
	cleanPending(g)
	for _, opt := range slices.Sorted(maps.Keys(g.Pending)) {
		if v, ok := g.Config[opt]; ok && isDrive(opt) {
			old := p.Server.parseDrive(opt, v)
			if next := p.Server.parseDrive(opt, g.Pending[opt]); old != nil && next != nil && !(old.isCloudinit() && old.file() == next.file()) {
				p.registerUnused(g, old)
			}
		}
		p.setOption(g, opt, g.Pending[opt])
		delete(g.Pending, opt)
	}
	p.Server.writeConfig(g)
}

// detach lets go of a drive: its volume becomes unusedN, or is destroyed if that is forced.
func (p process) detach(g *state.Guest, opt string, d drive, force bool) error {
	if d == nil {
		return nil
	}
	if force {
		return p.deallocate(g, opt, d, true)
	}
	p.registerUnused(g, d)
	return nil
}

func (p process) dropOption(g *state.Guest, opt string) {
	if opt == "lock" {
		g.SetLock("", "")
		return
	}
	delete(g.Config, opt)
}

func (p process) setOption(g *state.Guest, opt, value string) {
	if opt == "lock" {
		g.SetLock(value, "api")
		return
	}
	g.Config[opt] = value
}
