package handle

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// progress lets a share of the task time pass without being a place where faults strike.
func (w *Worker) progress() {
	share := w.left / 4
	w.left -= share
	if share > 0 {
		w.Wait(share)
	}
}

// qemuResize is PUT resize: since 8.0 a task, with every check but the parameters' inside it.
func qemuResize(r *Request) (any, error) {
	skiplock, err := r.skiplock()
	if err != nil {
		return nil, err
	}
	return r.task("resize", func(w *Worker) error { return r.resizeWorker(w, skiplock) }), nil
}

func (r *Request) resizeWorker(w *Worker, skiplock bool) error {
	release, err := w.lockGuest(r.vmid(), false, LockTimeout)
	if err != nil {
		return err
	}
	defer release()
	g, err := r.guest()
	if err != nil {
		return err
	}
	if want := r.Params["digest"]; want != "" && want != g.Digest() {
		return Die("checksum mismatch (file change by other user?)")
	}
	if err := checkLock(g); err != nil && !skiplock {
		return err
	}
	opt := r.Params["disk"]
	d := drive(nil)
	if g.Config[opt] != "" {
		d = r.Server.parseDrive(opt, g.Config[opt])
	}
	if d == nil {
		return Die("disk '%s' does not exist", opt)
	}
	if d.isCDROM() {
		return Die("you can't resize a cdrom")
	}
	storage, _, _ := state.SplitVolid(d.file())
	if err := w.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return err
	}
	v := r.W.Volume(g.Node, d.file())
	if v == nil {
		return Die("Could not determine current size of volume '%s'", d.file())
	}
	size := newSize(r.Params["size"], v.Size)
	if size < v.Size {
		return Die("shrinking disks is not supported")
	}
	if err := w.Checkpoint(); err != nil {
		return err
	}
	if size == v.Size {
		return nil
	}
	if err := r.W.Resize(v, size); err != nil {
		return err
	}
	d["size"] = schema.FormatSize(v.Size)
	g.Config[opt] = r.Server.printDrive(opt, d)
	if g.Running != nil {
		g.Running.Booted[opt] = g.Config[opt]
	}
	return nil
}

var sizeWord = regexp.MustCompile(`^(\+)?(\d+(?:\.\d+)?)([KMGT])?$`)

// newSize reads "+1G" and "32G"; no unit means bytes.
func newSize(word string, old int64) int64 {
	m := sizeWord.FindStringSubmatch(word)
	if m == nil {
		return -1
	}
	n, _ := strconv.ParseFloat(m[2], 64) // digits, by the pattern
	n *= math.Pow(1024, float64(strings.Index("KMGT", m[3])+1))
	if m[3] == "" {
		n, _ = strconv.ParseFloat(m[2], 64)
	}
	if m[1] == "+" {
		return old + int64(n)
	}
	return int64(n)
}

// qemuMoveDisk is POST move_disk to another storage or format.
func qemuMoveDisk(r *Request) (any, error) {
	if r.Params["target-vmid"] != "" {
		return nil, &Error{Status: 501, Message: "Method 'POST /nodes/{node}/qemu/{vmid}/move_disk' with target-vmid not simulated"}
	}
	storage := r.Params["storage"]
	if storage == "" {
		return nil, Invalid("storage", "property is missing and it is not optional")
	}
	if err := r.Check("/storage/"+storage, "Datastore.AllocateSpace"); err != nil {
		return nil, err
	}
	if _, err := r.moveChecks(); err != nil {
		return nil, err
	}
	return r.task("qmmove", r.moveWorker), nil
}

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
	opt := r.Params["disk"]
	d := drive(nil)
	if g.Config[opt] != "" {
		d = r.Server.parseDrive(opt, g.Config[opt])
	}
	if d == nil {
		return nil, Die("disk '%s' does not exist", opt)
	}
	if d.isMedia() {
		return nil, Die("you can't move a cdrom")
	}
	storage, name, ok := state.SplitVolid(d.file())
	if !ok {
		return nil, Die("disk '%s' has no associated volume", opt)
	}
	if storage == r.Params["storage"] {
		n, err := r.W.Storages[storage].ParseName(name)
		if err != nil || r.Params["format"] == "" || n.Format == r.Params["format"] {
			return nil, Die("you can't move to the same storage with same format")
		}
	}
	if len(g.Snaps) > 0 && r.flag("delete") && r.Server.used(g, opt, d.file()) {
		return nil, Die("you can't move a disk with snapshots and delete the source")
	}
	return d, nil
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
	if g.Running != nil && opt == "tpmstate0" { // QemuServer.pm clone_disk
		return Die("storage migration failed: cannot move TPM state while VM is running")
	}
	c := &cloning{Request: r, newid: g.VMID, full: true, drives: map[string]drive{}}
	v, err := c.copyDrive(p, opt, d)
	if err != nil {
		return Die("storage migration failed: %s", text(err))
	}
	if err := w.Checkpoint(); err != nil {
		p.cleanUp(g.Node, []string{v.Volid()})
		return Die("storage migration failed: %s", text(err))
	}
	old := d.file()
	delete(d, "format")
	d["file"], d["size"] = v.Volid(), schema.FormatSize(v.Size)
	g.Config[opt] = r.Server.printDrive(opt, d)
	if g.Running != nil {
		g.Running.Booted[opt] = g.Config[opt]
	}
	switch {
	case !owns(r.W, g.VMID, old):
	case r.flag("delete"):
		if err := p.free(g.Node, old); err != nil {
			w.Logf("%s", text(err))
			addUnused(g, old)
		}
	default:
		addUnused(g, old)
	}
	r.Server.writeConfig(g)
	return nil
}
