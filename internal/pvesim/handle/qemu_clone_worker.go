package handle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// work is the task: the source's lock, shared if it is stopped, then the target's, one second each.
func (c *cloning) work(w *Worker) error {
	release, err := w.lockGuest(c.vmid(), !c.running, WorkerLockTimeout)
	if err != nil {
		return err
	}
	defer release()
	releaseTarget, err := w.lockGuest(c.newid, false, WorkerLockTimeout)
	if err != nil {
		return err
	}
	defer releaseTarget()
	if err := c.prepare(); err != nil {
		return err
	}
	c.rename()
	if other := c.W.Guests[c.newid]; other != nil {
		return Die("close (rename) atomic file '/etc/pve/nodes/%s/qemu-server/%d.conf' failed: File exists", c.node(), c.newid)
	}
	now := c.W.Clock.Now()
	g := &state.Guest{VMID: c.newid, Type: "qemu", Node: c.node(), CreatedAt: now, StatusAt: now, LockCause: w.Task.UPID,
		Config: map[string]string{"lock": "clone", "description": " qmclone temporary file"}}
	c.W.Guests[c.newid] = g
	if err := c.copyFirewall(w); err != nil {
		g.LockCause = "failure" // outside of the clean-up: the stub stays
		return err
	}
	p := process{c.Request, w}
	made, err := c.copyDrives(p, g)
	if err == nil {
		err = c.commit(w, g)
	}
	if err != nil {
		w.Wait(time.Second)
		p.cleanUp(c.node(), made)
		delete(c.W.Firewall, c.newid)
		delete(c.W.Guests, c.newid)
		return fmt.Errorf("clone failed: %s", text(err))
	}
	return nil
}

// copyFirewall copies the source's firewall file under a lock of the cluster, which it may not get in time (pve-firewall
// Firewall.pm, clone_vmfw_conf).
func (c *cloning) copyFirewall(w *Worker) error {
	if k := w.armed; k != nil && k.Phase == fault.FirewallLock {
		w.Wait(k.Delay())
		w.armed, w.struck = nil, k
		k.Took()
		return Die("%s", k.Text(fmt.Sprintf("cfs-lock 'firewall-vm-%d' error: got lock request timeout", c.newid)))
	}
	if err := c.Server.lockFirewall(c.newid); err != nil {
		return err
	}
	delete(c.W.Firewall, c.newid)
	if f := c.W.Firewall[c.vmid()]; f != nil {
		c.W.Firewall[c.newid] = f.Clone()
	}
	return nil
}

// newSMBIOS is smbios1 with another uuid.
func newSMBIOS(w *state.World, value string) string {
	parts := []string{"uuid=" + w.UUID()}
	for _, part := range strings.Split(value, ",") {
		if part != "" && !strings.HasPrefix(part, "uuid=") {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// rename gives the clone what is its own: uuid, vmgenid, name, description.
func (c *cloning) rename() {
	c.conf["smbios1"] = newSMBIOS(c.W, c.conf["smbios1"])
	if c.conf["vmgenid"] != "" {
		c.conf["vmgenid"] = c.W.UUID()
	}
	delete(c.conf, "template")
	old := c.old["name"]
	if old == "" {
		old = strconv.Itoa(c.vmid())
	}
	c.conf["name"] = "Copy-of-VM-" + old
	if name := c.Params["name"]; name != "" {
		c.conf["name"] = name
	}
	if d := c.Params["description"]; d != "" {
		c.conf["description"] = d
	}
}

// copyDrives makes the volumes one by one and writes the configuration after each, with the lock. The last volume is made
// before its line is written: that is where a killed worker leaves an orphan.
func (c *cloning) copyDrives(p process, g *state.Guest) (made []string, err error) {
	for _, opt := range slices.Sorted(maps.Keys(c.drives)) {
		if _, err := p.activate(c.node(), c.drives[opt].file()); err != nil {
			return nil, err
		}
	}
	names := slices.Sorted(maps.Keys(c.drives))
	if len(names) == 0 {
		return nil, p.worker.Checkpoint()
	}
	for i, opt := range names {
		c.last = i == len(names)-1
		v, err := c.copyDrive(p, opt, c.drives[opt])
		if err != nil {
			return made, err
		}
		made = append(made, v.Volid())
		if c.last {
			if err := p.worker.Checkpoint(); err != nil {
				if source := c.W.Volume(c.node(), c.drives[opt].file()); source != nil && errors.Is(err, errInterrupted) &&
					c.copies(opt, c.drives[opt]) {
					err = Die("copy failed: %s", p.convertFailed(source, v, "interrupted by signal"))
				}
				return made, err
			}
		}
		d := maps.Clone(c.drives[opt])
		delete(d, "format")
		d["file"], d["size"] = v.Volid(), schema.FormatSize(v.Size)
		c.conf[opt] = c.Server.printDrive(opt, d)
		lock := g.Lock()
		g.Config = maps.Clone(c.conf)
		g.Config["lock"] = lock
		c.Server.writeConfig(g)
	}
	return made, nil
}

// copyDrive is QemuServer.pm's clone_disk.
func (c *cloning) copyDrive(p process, opt string, d drive) (*state.Volume, error) {
	source := c.W.Volume(c.node(), d.file())
	if source == nil {
		return nil, Die("volume '%s' does not exist", d.file())
	}
	if !c.copies(opt, d) {
		p.logf("create linked clone of drive %s (%s)", opt, d.file())
		p.worker.progress()
		return c.link(p, source)
	}
	p.logf("create full clone of drive %s (%s)", opt, d.file())
	p.worker.progress()
	s, format, err := c.place(opt, source)
	if err != nil {
		return nil, err
	}
	name, size := "", source.Size
	switch {
	case d.isCloudinit():
		name, size = fmt.Sprintf("vm-%d-cloudinit", c.newid), cloudinitSize
		if s.IsDir() {
			name += "." + format
		}
	case opt == "efidisk0":
		size = efiVars(d)
	case opt == "tpmstate0":
		size = tpmSize
	default:
		if err := c.checkUring(d, source.Storage, s); err != nil {
			return nil, err
		}
	}
	v, err := p.alloc(c.node(), s.ID, c.newid, name, format, size)
	if err != nil {
		return nil, err
	}
	p.formatted(s, v)
	v.Data = source.Data
	switch {
	case d.isCloudinit():
		c.settleMirrors(p, c.last)
	case c.mirroring(opt):
		c.mirrored(p, opt, v.Size)
	default:
		p.logf("transferred 0.0 B of %s (0.00%%)", humanSize(v.Size))
		p.logf("transferred %s of %s (100.00%%)", humanSize(v.Size), humanSize(v.Size))
	}
	return v, nil
}

// place is where a copy goes, and in what format (QemuServer.pm, resolve_dst_disk_format).
func (c *cloning) place(opt string, source *state.Volume) (*state.Storage, string, error) {
	storage, format := source.Storage, c.Params["format"]
	if to := c.Params["storage"]; to != "" && c.full {
		storage = to
	}
	s, err := c.W.StorageActive(c.node(), storage)
	if err != nil {
		return nil, "", err
	}
	if format == "" {
		format = source.Format
	}
	if !slices.Contains(s.Formats(), format) {
		format = s.Formats()[0]
	}
	if opt == "tpmstate0" {
		format = "raw"
	}
	return s, format, nil
}

// mirroring reports whether QEMU itself copies the drive.
func (c *cloning) mirroring(opt string) bool {
	return c.full && c.running && c.Params["snapname"] == "" && !hasIndex(opt, "unused")
}

// checkUring refuses to let QEMU write with io_uring where that hangs (QemuServer.pm, clone_disk_check_io_uring).
func (c *cloning) checkUring(d drive, from string, to *state.Storage) error {
	if !c.running || c.Params["snapname"] != "" || from == to.ID {
		return nil
	}
	allows := func(s *state.Storage) bool { return s != nil && s.Type != "lvm" && s.Type != "cifs" }
	uses := d["aio"] == "io_uring" || d["aio"] == "" && allows(c.W.Storages[from])
	if uses && !allows(to) {
		return Die("target storage is known to cause issues with aio=io_uring (used by current drive)")
	}
	return nil
}

func (c *cloning) link(p process, source *state.Volume) (*state.Volume, error) {
	s := c.W.Storages[source.Storage]
	n, err := s.ParseName(source.Name)
	if err != nil {
		return nil, err
	}
	if n.IsBase {
		if err := c.lockStorage(c.node(), source.Storage); err != nil {
			return nil, err
		}
		v, err := c.W.LinkedClone(c.node(), source, c.newid)
		if err == nil && isLVM(s) {
			p.logf("  Logical volume \"%s\" created.", v.Name)
		}
		return v, err
	}
	v, err := p.alloc(c.node(), source.Storage, c.newid, "", "raw", source.Size)
	if err == nil {
		v.Data = source.Data
	}
	return v, err
}

// commit writes the configuration without the lock, moves it to the target node and enters the pool.
func (c *cloning) commit(w *Worker, g *state.Guest) error {
	if c.W.Guests[c.newid] != g {
		return errors.New("configuration file vanished")
	}
	if src := c.W.Guests[c.vmid()]; src != nil && c.Params["snapname"] == "" && len(src.Pending)+len(src.Deletes) > 0 {
		names := slices.Collect(maps.Keys(src.Pending))
		if len(src.Deletes) > 0 {
			names = append(names, "delete")
		}
		slices.Sort(names)
		w.Logf("found pending changes for '%s', discarding for clone", strings.Join(names, ","))
	}
	g.Config = maps.Clone(c.conf)
	g.LockCause = ""
	c.Server.writeConfig(g)
	if c.target != "" {
		g.Node = c.target
	}
	if pool := c.Params["pool"]; pool != "" {
		p := c.W.Pools[pool]
		if p == nil {
			return Die("pool '%s' does not exist", pool)
		}
		p.Guests = append(p.Guests, c.newid)
	}
	return nil
}
