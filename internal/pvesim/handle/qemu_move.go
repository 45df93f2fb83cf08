package handle

import (
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// qemuMoveDisk is POST move_disk: to another storage or format, or to another VM (qemu-server API2/Qemu.pm, move_vm_disk).
func qemuMoveDisk(r *Request) (any, error) {
	storage, target := r.Params["storage"], r.Params["target-vmid"]
	switch {
	case storage != "" && target != "":
		return nil, bothInvalid("either set 'storage' or 'target-vmid', but not both")
	case storage == "" && target == "":
		return nil, bothInvalid("both 'storage' and 'target-vmid' missing, either needs to be set")
	case target != "":
		return r.reassign()
	}
	if err := r.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	if _, err := r.moveChecks(); err != nil {
		return nil, err
	}
	return r.task("qmmove", r.moveWorker), nil
}

func bothInvalid(text string) *Error {
	e := Invalid("storage", text)
	e.Errors["target-vmid"] = text
	return e
}

// parseVolume parses a drive, or the volume of an unusedN.
func (s *Server) parseVolume(opt, value string) drive {
	if hasIndex(opt, "unused") {
		return drive{"file": value}
	}
	return s.parseDrive(opt, value)
}

// printVolume is its reverse.
func (s *Server) printVolume(opt string, d drive) string {
	if hasIndex(opt, "unused") {
		return d.file()
	}
	return s.printDrive(opt, d)
}

// moveChecks is load_and_check_move: it runs before the fork and again in the task.
func (r *Request) moveChecks() (drive, error) {
	g, err := r.guest()
	if err != nil {
		return nil, err
	}
	if err := checkLock(g); err != nil {
		return nil, err
	}
	if want := r.Params["digest"]; want != "" && want != g.Digest() {
		return nil, Die("detected modified configuration - file changed by other user? Try again.")
	}
	opt, storage := r.Params["disk"], r.Params["storage"]
	d := drive(nil)
	if g.Config[opt] != "" {
		d = r.Server.parseVolume(opt, g.Config[opt])
	}
	if d == nil {
		return nil, Die("disk '%s' does not exist", opt)
	}
	if d.isMedia() {
		return nil, Die("you can't move a cdrom")
	}
	id, name, ok := state.SplitVolid(d.file())
	if !ok {
		return nil, Die("disk '%s' has no associated volume", opt)
	}
	format := fileFormat(name) // a block storage has none, so that every format counts as its own
	if want := r.Params["format"]; id == storage && (want == "" || format == "" || want == format) {
		return nil, Die("you can't move to the same storage with same format")
	}
	s, err := r.W.StorageEnabled(g.Node, storage)
	if err != nil {
		return nil, err
	}
	if !s.Has("images") {
		return nil, Invalid("storage", "storage '"+storage+"' does not support vm images")
	}
	if r.snapshotted(g, d.file()) && r.flag("delete") {
		return nil, Die("you can't move a disk with snapshots and delete the source")
	}
	return d, nil
}

// fileFormat is the image format that a volume's name ends in, "" if none.
func fileFormat(name string) string {
	for _, f := range []string{"raw", "qcow2", "vmdk"} {
		if strings.HasSuffix(name, "."+f) {
			return f
		}
	}
	return ""
}

// snapshotted reports whether a snapshot of the guest has the volume.
func (r *Request) snapshotted(g *state.Guest, volid string) bool {
	for _, snap := range g.Snaps {
		for k, v := range snap {
			if !isDrive(k) {
				continue
			}
			if d := r.Server.parseDrive(k, v); d != nil && !d.isCDROM() && d.file() == volid {
				return true
			}
		}
	}
	return false
}

func (r *Request) moveWorker(w *Worker) error {
	release, err := w.lockGuest(r.vmid(), false, LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	d, err := r.moveChecks()
	if err != nil {
		return err
	}
	g, opt, p := r.W.Guests[r.vmid()], r.Params["disk"], process{r, w}
	if _, err := p.activate(g.Node, d.file()); err != nil {
		return err
	}
	if r.snapshotted(g, d.file()) {
		w.Logf("moving disk with snapshots, snapshots will not be moved!")
	}
	old := d.file()
	if err := p.move(g, opt, d); err != nil {
		return Die("storage migration failed: %s", text(err))
	}
	if r.flag("delete") {
		p.releaseMoved(g, old)
	}
	return nil
}

// move copies the drive and writes the configuration with the copy in its place.
func (p process) move(g *state.Guest, opt string, d drive) error {
	old := d.file()
	c := &cloning{Request: p.Request, newid: g.VMID, full: true, running: g.Running != nil, drives: map[string]drive{}, last: true}
	v, err := c.copyDrive(p, opt, d)
	if err != nil {
		return err
	}
	undo := func(err error) error {
		p.cleanUp(g.Node, []string{v.Volid()})
		return err
	}
	if err := p.worker.Checkpoint(); err != nil {
		return undo(err)
	}
	next := maps.Clone(d)
	delete(next, "format")
	next["file"] = v.Volid()
	if !hasIndex(opt, "unused") {
		next["size"] = schema.FormatSize(v.Size)
	}
	was := g.Config[opt]
	g.Config[opt] = p.Server.printVolume(opt, next)
	if !p.flag("delete") {
		if err := p.keepMoved(g, old); err != nil {
			g.Config[opt] = was
			return undo(err)
		}
	}
	if g.IsTemplate() && !next.isCDROM() && !hasIndex(opt, "unused") {
		if p.W.Storages[v.Storage].CanTemplate() {
			if _, err := p.W.CreateBase(v); err != nil {
				return undo(err)
			}
			next["file"] = v.Volid()
			g.Config[opt] = p.Server.printVolume(opt, next)
		}
	}
	if g.Running != nil && !d.isCDROM() {
		g.Running.Booted[opt] = g.Config[opt] // QEMU has changed over; a cloud-init image it still holds
	}
	p.Server.writeConfig(g)
	return nil
}

// keepMoved notes the old volume as unused; a cloud-init volume is destroyed, or the move fails (QemuConfig.pm,
// add_unused_volume).
func (p process) keepMoved(g *state.Guest, old string) error {
	if strings.Contains(old, "-cloudinit") {
		p.logf("found unused cloudinit disk '%s', removing it", old)
		return p.free(g.Node, old)
	}
	addUnused(g, old)
	return nil
}

// releaseMoved frees the old volume, whoever else uses it. What fails is a line in the log, and the task is OK.
func (p process) releaseMoved(g *state.Guest, old string) {
	v := p.W.Volume(g.Node, old)
	if v != nil && p.W.OpenedBy(g.Node, v) != 0 {
		if s := p.W.Storages[v.Storage]; s.Type == "lvm" { // LVMPlugin.pm, deactivate_volume
			p.logf("can't deactivate LV '%s':   Logical volume %s/%s in use.", s.VolumePath(v.Name), s.VG(), v.Name)
			return
		}
	}
	if err := p.free(g.Node, old); err != nil {
		p.logf("%s", text(err))
	}
}

// mirrored says in the log how QEMU copied a drive of the running guest (QemuServer.pm, qemu_drive_mirror_monitor). All but the
// last drive of a clone wait for the others.
func (c *cloning) mirrored(p process, opt string, size int64) {
	c.mirrors = append(c.mirrors, "drive-"+opt)
	p.logf("drive mirror is starting for drive-%s", opt)
	p.logf("drive-%s: transferred %s of %s (100.00%%) in 1s, ready", opt, humanSize(size), humanSize(size))
	c.settleMirrors(p, c.last)
}

// settleMirrors ends the copies: those within a guest by changing over, those for a clone by letting go.
func (c *cloning) settleMirrors(p process, last bool) {
	if len(c.mirrors) == 0 {
		return
	}
	p.logf("all 'mirror' jobs are ready")
	if !last {
		return
	}
	jobs := slices.Sorted(slices.Values(c.mirrors))
	c.mirrors = nil
	each := func(format string) {
		for _, job := range jobs {
			p.logf(format, job)
		}
	}
	if c.newid == c.vmid() {
		for _, job := range jobs {
			p.logf("%s: Completing block job...", job)
			p.logf("%s: Completed successfully.", job)
		}
		each("%s: mirror-job finished")
		return
	}
	before, after := "suspend vm", "resume vm"
	if g := c.W.Guests[c.vmid()]; g != nil && g.Running != nil && agentEnabled(g.Config["agent"]) && c.agentAnswers(g) {
		before, after = "freeze filesystem", "unfreeze filesystem"
	}
	p.logf("%s", before)
	each("%s: Cancelling block job")
	each("%s: Done.")
	p.logf("%s", after)
}
