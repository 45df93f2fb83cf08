package clone

import (
	"errors"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// MoveDisk is POST move_disk: to another storage or format, or to another VM (qemu-server API2/Qemu.pm, move_vm_disk).
func MoveDisk(r *engine.Request) (any, error) {
	storage, target := r.Params["storage"], r.Params["target-vmid"]
	switch {
	case storage != "" && target != "":
		return nil, bothInvalid("either set 'storage' or 'target-vmid', but not both")
	case storage == "" && target == "":
		return nil, bothInvalid("both 'storage' and 'target-vmid' missing, either needs to be set")
	case target != "":
		return reassign(r)
	}
	if err := r.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	if _, err := moveChecks(r); err != nil {
		return nil, err
	}
	return guest.Fork(r, "qmmove", func(w *engine.Worker) error { return moveWorker(r, w) }), nil
}

func bothInvalid(text string) *perl.Error {
	e := perl.Invalid("storage", text)
	e.Errors["target-vmid"] = text
	return e
}

// parseVolume parses a drive, or the volume of an unusedN.
func parseVolume(e *engine.Engine, opt, value string) drive.Drive {
	if drive.HasIndex(opt, "unused") {
		return drive.Drive{"file": value}
	}
	return drive.Parse(e, opt, value)
}

// printVolume is its reverse.
func printVolume(e *engine.Engine, opt string, d drive.Drive) string {
	if drive.HasIndex(opt, "unused") {
		return d.File()
	}
	return drive.Print(e, opt, d)
}

// moveChecks is load_and_check_move: it runs before the fork and again in the task.
func moveChecks(r *engine.Request) (drive.Drive, error) {
	g, err := guest.Load(r)
	if err != nil {
		return nil, err
	}
	if err := guest.CheckLock(g); err != nil {
		return nil, err
	}
	if want := r.Params["digest"]; want != "" && want != g.Digest() {
		return nil, perl.Die("detected modified configuration - file changed by other user? Try again.")
	}
	opt, storage := r.Params["disk"], r.Params["storage"]
	d := drive.Drive(nil)
	if g.Config[opt] != "" {
		d = parseVolume(r.Engine, opt, g.Config[opt])
	}
	if d == nil {
		return nil, perl.Die("disk '%s' does not exist", opt)
	}
	if d.IsMedia() {
		return nil, perl.Die("you can't move a cdrom")
	}
	id, name, ok := state.SplitVolid(d.File())
	if !ok {
		return nil, perl.Die("disk '%s' has no associated volume", opt)
	}
	format := drive.FileFormat(name) // a block storage has none, so that every format counts as its own
	if want := r.Params["format"]; id == storage && (want == "" || format == "" || want == format) {
		return nil, perl.Die("you can't move to the same storage with same format")
	}
	s, err := r.W.StorageEnabled(g.Node, storage)
	if err != nil {
		return nil, err
	}
	if !s.Has("images") {
		return nil, perl.Invalid("storage", "storage '"+storage+"' does not support vm images")
	}
	if r.Flag("delete") && drive.Used(r, g, opt, d.File()) {
		return nil, perl.Die("you can't move a disk with snapshots and delete the source")
	}
	return d, nil
}

func moveWorker(r *engine.Request, w *engine.Worker) error {
	release, err := guest.LockInTask(w, r.VMID(), false, engine.LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	d, err := moveChecks(r)
	if err != nil {
		return err
	}
	g, opt, p := r.W.Guests[r.VMID()], r.Params["disk"], engine.Process{Request: r, Worker: w}
	if _, err := volume.Activate(p, g.Node, d.File()); err != nil {
		return err
	}
	if drive.Used(r, g, opt, d.File()) {
		w.Logf("moving disk with snapshots, snapshots will not be moved!")
	}
	old := d.File()
	if err := move(p, g, opt, d); err != nil {
		return perl.Die("storage migration failed: %s", perl.Message(err))
	}
	if r.Flag("delete") {
		releaseMoved(p, g, old)
	}
	return nil
}

// move copies the drive and writes the configuration with the copy in its place.
func move(p engine.Process, g *state.Guest, opt string, d drive.Drive) error {
	old := d.File()
	c := &cloning{Request: p.Request, newid: g.VMID, full: true, running: g.Running != nil,
		drives: map[string]drive.Drive{}, last: true}
	v, err := c.copyDrive(p, opt, d)
	undo := func(err error) error {
		if v != nil {
			volume.CleanUp(p, g.Node, []string{v.Volid()})
		}
		return err
	}
	if err != nil {
		return undo(err)
	}
	if err := p.Worker.Checkpoint(); err != nil {
		return undo(err)
	}
	next := maps.Clone(d)
	delete(next, "format")
	next["file"] = v.Volid()
	if !drive.HasIndex(opt, "unused") {
		next["size"] = schema.FormatSize(v.Size)
	}
	was := g.Config[opt]
	g.Config[opt] = printVolume(p.Engine, opt, next)
	if !p.Flag("delete") {
		if err := config.KeepMoved(p, g, old); err != nil {
			g.Config[opt] = was
			return undo(err)
		}
	}
	if g.IsTemplate() && !next.IsCDROM() && !drive.HasIndex(opt, "unused") {
		if p.W.Storages[v.Storage].CanTemplate() {
			if _, err := p.W.CreateBase(v); err != nil {
				return undo(err)
			}
			next["file"] = v.Volid()
			g.Config[opt] = printVolume(p.Engine, opt, next)
		}
	}
	if g.Running != nil && !d.IsCDROM() {
		g.Running.Booted[opt] = g.Config[opt] // QEMU has changed over; a cloud-init image it still holds
	}
	config.Write(p.Engine, g)
	return nil
}

// releaseMoved frees the old volume, whether or not another guest uses it. A failure is a line in the log, and the
// task is OK.
func releaseMoved(p engine.Process, g *state.Guest, old string) {
	v := p.W.Volume(g.Node, old)
	if v != nil && p.W.OpenedBy(g.Node, v) != 0 {
		if s := p.W.Storages[v.Storage]; s.Type == "lvm" { // LVMPlugin.pm, deactivate_volume
			p.Logf("can't deactivate LV '%s':   Logical volume %s/%s in use.", s.VolumePath(v.Name), s.VG(), v.Name)
			return
		}
	}
	if err := volume.Free(p, g.Node, old); err != nil {
		p.Logf("%s", perl.Message(err))
	}
}

// mirrored has QEMU copy a drive of the running guest to a volume (QemuServer/BlockJob.pm, qemu_drive_mirror, monitor).
// All but the last drive of a clone wait for the others.
func (c *cloning) mirrored(p engine.Process, opt string, v *state.Volume) error {
	c.mirrors = append(c.mirrors, opt)
	size := perl.HumanSize(v.Size)
	p.Logf("drive mirror is starting for drive-%s", opt)
	p.Logf("drive-%s: transferred 0.0 B of %s (0.00%%) in 0s", opt, size)
	if c.last {
		if err := p.Worker.Checkpoint(); err != nil {
			return mirrorFailed(err)
		}
	}
	p.Logf("drive-%s: transferred %s of %s (100.00%%) in 1s, ready", opt, size, size)
	return c.settleMirrors(p, c.last, v)
}

// mirrorFailed is how a signal ends the copying.
func mirrorFailed(err error) error {
	if errors.Is(err, engine.ErrInterrupted) {
		return perl.Die("block job (mirror) error: %s", perl.Message(err))
	}
	return err
}

// settleMirrors ends the copies: that within a guest by changing over to v, those for a clone by letting go. PVE sleeps
// for a second in the midst of it, and a signal then undoes neither the change nor the standstill of the guest.
func (c *cloning) settleMirrors(p engine.Process, last bool, v *state.Volume) error {
	if len(c.mirrors) == 0 {
		return nil
	}
	p.Logf("all 'mirror' jobs are ready")
	if !last {
		return nil
	}
	slots := slices.Sorted(slices.Values(c.mirrors))
	c.mirrors = nil
	each := func(format string) {
		for _, slot := range slots {
			p.Logf(format, "drive-"+slot)
		}
	}
	g := c.W.Guests[c.VMID()]
	if c.newid == c.VMID() {
		each("%s: Completing block job...")
		each("%s: Completed successfully.")
		for _, slot := range slots {
			if g != nil && g.Running != nil {
				g.Running.Booted[slot] = v.Volid()
			}
		}
		if err := p.Worker.Checkpoint(); err != nil {
			return mirrorFailed(err)
		}
		each("%s: mirror-job finished")
		return nil
	}
	if g == nil || g.Running == nil {
		return nil
	}
	before, after, was := "suspend vm", "resume vm", g.Running.QMPStatus
	if agent.Enabled(g.Config["agent"]) && agent.Answers(c.Request, g) {
		before, after = "freeze filesystem", "unfreeze filesystem"
	} else {
		g.Running.QMPStatus = "paused"
	}
	p.Logf("%s", before)
	each("%s: Cancelling block job")
	if err := p.Worker.Checkpoint(); err != nil {
		return mirrorFailed(err)
	}
	each("%s: Done.")
	if g.Running != nil {
		g.Running.QMPStatus = was
	}
	p.Logf("%s", after)
	return nil
}
