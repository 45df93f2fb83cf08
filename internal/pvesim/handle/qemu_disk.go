package handle

import (
	"fmt"
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
	old := v.Size
	if err := r.W.Resize(v, size); err != nil {
		return err
	}
	if s := r.W.Storages[v.Storage]; isLVM(s) {
		w.Logf("  Size of logical volume %s/%s changed from %s to %s.", s.VG(), v.Name, lvmSize(old), lvmSize(v.Size))
		w.Logf("  Logical volume %s/%s successfully resized.", s.VG(), v.Name)
	}
	d["size"] = schema.FormatSize(v.Size)
	g.Config[opt] = r.Server.printDrive(opt, d)
	if g.Running != nil {
		g.Running.Booted[opt] = g.Config[opt]
	}
	return nil
}

// lvmSize is a size as lvextend prints it.
func lvmSize(size int64) string {
	unit, value := "KMGTP", float64(size)/1024
	for value >= 1024 && len(unit) > 1 {
		unit, value = unit[1:], value/1024
	}
	return fmt.Sprintf("%.2f %ciB (%d extents)", value, unit[0], size>>22)
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
