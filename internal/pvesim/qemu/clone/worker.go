package clone

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/firewall"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// work is the task: the source's lock, shared if it is stopped, then the target's, one second each.
func (c *cloning) work(w *engine.Worker) error {
	release, err := guest.LockInTask(w, c.VMID(), !c.running, engine.WorkerLockTimeout)
	if err != nil {
		return err
	}
	defer release()
	releaseTarget, err := guest.LockInTask(w, c.newid, false, engine.WorkerLockTimeout)
	if err != nil {
		return err
	}
	defer releaseTarget()
	if err := c.prepare(); err != nil {
		return err
	}
	c.rename()
	if other := c.W.Guests[c.newid]; other != nil {
		return perl.Die("close (rename) atomic file '/etc/pve/nodes/%s/qemu-server/%d.conf' failed: File exists", c.Node(),
			c.newid)
	}
	now := c.W.Clock.Now()
	g := &state.Guest{VMID: c.newid, Type: "qemu", Node: c.Node(), CreatedAt: now, StatusAt: now, LockCause: w.Task.UPID,
		Config: map[string]string{"lock": "clone", "description": " qmclone temporary file"}}
	c.W.Guests[c.newid] = g
	if err := c.copyFirewall(w); err != nil {
		g.LockCause = "failure" // outside of the clean-up: the half-made VM stays
		return err
	}
	p := engine.Process{Request: c.Request, Worker: w}
	made, err := c.copyDrives(p, g)
	if err == nil {
		err = c.commit(w, g)
	}
	if err != nil {
		w.Wait(time.Second)
		volume.CleanUp(p, c.Node(), made)
		if w.LosesQuorum() { // unlink fails, and PVE does not look at it
			g.LockCause = "failure"
			return fmt.Errorf("clone failed: %s", perl.Message(err))
		}
		delete(c.W.Firewall, c.newid)
		if g.Node == c.Node() { // PVE unlinks where the configuration was: one that has moved to the target stays
			delete(c.W.Guests, c.newid)
		}
		return fmt.Errorf("clone failed: %s", perl.Message(err))
	}
	return nil
}

// copyFirewall copies the source's firewall file under a lock of the cluster, which it may not get in time
// (pve-firewall Firewall.pm, clone_vmfw_conf).
func (c *cloning) copyFirewall(w *engine.Worker) error {
	if k := w.Armed; k != nil && k.Phase == fault.FirewallLock {
		w.Wait(k.Delay())
		w.Armed, w.Struck = nil, k
		k.Took()
		return perl.Die("%s", k.Text(fmt.Sprintf("cfs-lock 'firewall-vm-%d' error: got lock request timeout", c.newid)))
	}
	if err := firewall.Lock(c.Engine, c.newid); err != nil {
		return err
	}
	delete(c.W.Firewall, c.newid)
	if f := c.W.Firewall[c.VMID()]; f != nil {
		c.W.Firewall[c.newid] = f.Clone()
	}
	return nil
}

// rename gives the clone what is its own: uuid, vmgenid, name, description.
func (c *cloning) rename() {
	c.conf["smbios1"] = config.NewSMBIOS(c.W, c.conf["smbios1"])
	if c.conf["vmgenid"] != "" {
		c.conf["vmgenid"] = c.W.UUID()
	}
	delete(c.conf, "template")
	old := c.old["name"]
	if old == "" {
		old = strconv.Itoa(c.VMID())
	}
	c.conf["name"] = "Copy-of-VM-" + old
	if name := c.Params["name"]; name != "" {
		c.conf["name"] = name
	}
	if d := c.Params["description"]; d != "" {
		c.conf["description"] = d
	}
}

// copyDrives makes the volumes one by one and writes the configuration after each, with the lock. The last volume is
// made before its line is written: that is where a killed worker leaves an orphan.
func (c *cloning) copyDrives(p engine.Process, g *state.Guest) (made []string, err error) {
	for _, opt := range slices.Sorted(maps.Keys(c.drives)) {
		if _, err := volume.Activate(p, c.Node(), c.drives[opt].File()); err != nil {
			return nil, err
		}
	}
	names := slices.Sorted(maps.Keys(c.drives))
	if len(names) == 0 {
		return nil, p.Worker.Checkpoint()
	}
	for i, opt := range names {
		c.last = i == len(names)-1
		v, err := c.copyDrive(p, opt, c.drives[opt])
		if v != nil {
			made = append(made, v.Volid())
		}
		if err != nil {
			return made, err
		}
		if c.last {
			if err := p.Worker.Checkpoint(); err != nil {
				if source := c.W.Volume(c.Node(), c.drives[opt].File()); source != nil && errors.Is(err, engine.ErrInterrupted) &&
					c.copies(opt, c.drives[opt]) {
					err = perl.Die("copy failed: %s", drive.ConvertFailed(p, source, v, "interrupted by signal"))
				}
				return made, err
			}
		}
		d := maps.Clone(c.drives[opt])
		delete(d, "format")
		d["file"], d["size"] = v.Volid(), schema.FormatSize(v.Size)
		c.conf[opt] = drive.Print(c.Engine, opt, d)
		lock := g.Lock()
		g.Config = maps.Clone(c.conf)
		g.Config["lock"] = lock
		config.Write(c.Engine, g)
	}
	return made, nil
}

// copyDrive is QemuServer.pm's clone_disk.
func (c *cloning) copyDrive(p engine.Process, opt string, d drive.Drive) (*state.Volume, error) {
	source := c.W.Volume(c.Node(), d.File())
	if source == nil {
		return nil, perl.Die("volume '%s' does not exist", d.File())
	}
	if !c.copies(opt, d) {
		p.Logf("create linked clone of drive %s (%s)", opt, d.File())
		guest.Progress(p.Worker)
		return c.link(p, source)
	}
	if c.mirroring(opt) && opt == "tpmstate0" {
		return nil, perl.Die("cannot move TPM state while VM is running")
	}
	p.Logf("create full clone of drive %s (%s)", opt, d.File())
	guest.Progress(p.Worker)
	s, format, err := c.place(opt, source)
	if err != nil {
		return nil, err
	}
	name, size := "", source.Size
	switch {
	case d.IsCloudinit():
		name, size = fmt.Sprintf("vm-%d-cloudinit", c.newid), drive.CloudinitSize
		if s.IsDir() {
			name += "." + format
		}
	case opt == "efidisk0":
		size = drive.EfiVars(d)
	case opt == "tpmstate0":
		size = drive.TpmSize
	default:
		if err := c.checkUring(d, source.Storage, s); err != nil {
			return nil, err
		}
	}
	v, err := volume.Alloc(p, c.Node(), s.ID, c.newid, name, format, size)
	if err != nil {
		return nil, err
	}
	volume.Formatted(p, s, v)
	v.Data = source.Data
	switch {
	case d.IsCloudinit():
		err = c.settleMirrors(p, c.last, v)
	case c.mirroring(opt):
		err = c.mirrored(p, opt, v)
	default:
		p.Logf("transferred 0.0 B of %s (0.00%%)", perl.HumanSize(v.Size))
		p.Logf("transferred %s of %s (100.00%%)", perl.HumanSize(v.Size), perl.HumanSize(v.Size))
	}
	return v, err
}

// place is where a copy goes, and in what format (QemuServer.pm, resolve_dst_disk_format).
func (c *cloning) place(opt string, source *state.Volume) (*state.Storage, string, error) {
	storage, format := source.Storage, c.Params["format"]
	if to := c.Params["storage"]; to != "" && c.full {
		storage = to
	}
	s, err := c.W.StorageActive(c.Node(), storage)
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
	return c.full && c.running && c.Params["snapname"] == "" && !drive.HasIndex(opt, "unused")
}

// checkUring refuses to let QEMU write with io_uring where that hangs (QemuServer.pm, clone_disk_check_io_uring).
func (c *cloning) checkUring(d drive.Drive, from string, to *state.Storage) error {
	if !c.running || c.Params["snapname"] != "" || from == to.ID {
		return nil
	}
	allows := func(s *state.Storage) bool { return s != nil && s.Type != "lvm" && s.Type != "cifs" }
	uses := d["aio"] == "io_uring" || d["aio"] == "" && allows(c.W.Storages[from])
	if uses && !allows(to) {
		return perl.Die("target storage is known to cause issues with aio=io_uring (used by current drive)")
	}
	return nil
}

func (c *cloning) link(p engine.Process, source *state.Volume) (*state.Volume, error) {
	s := c.W.Storages[source.Storage]
	n, err := s.ParseName(source.Name)
	if err != nil {
		return nil, err
	}
	if n.IsBase {
		if err := c.LockStorage(c.Node(), source.Storage); err != nil {
			return nil, err
		}
		v, err := state.LinkedClone(c.W, c.Node(), source, c.newid)
		switch {
		case err != nil:
		case volume.IsLVM(s):
			p.Logf("  Logical volume \"%s\" created.", v.Name)
		case s.IsDir(): // Plugin.pm, clone_image
			file := v.Name[strings.LastIndexByte(v.Name, '/')+1:]
			p.Logf("clone %s: images, %s, %d to %s (base=../%s)", source.Name, file, c.newid, file, source.Name)
			volume.Formatted(p, s, v)
		}
		return v, err
	}
	v, err := volume.Alloc(p, c.Node(), source.Storage, c.newid, "", "raw", source.Size)
	if err == nil {
		v.Data = source.Data
	}
	return v, err
}

// commit writes the configuration without the lock, moves it to the target node and enters the pool.
func (c *cloning) commit(w *engine.Worker, g *state.Guest) error {
	if c.W.Guests[c.newid] != g {
		return errors.New("configuration file vanished")
	}
	if src := c.W.Guests[c.VMID()]; src != nil && c.Params["snapname"] == "" && len(src.Pending)+len(src.Deletes) > 0 {
		names := slices.Collect(maps.Keys(src.Pending))
		if len(src.Deletes) > 0 {
			names = append(names, "delete")
		}
		slices.Sort(names)
		w.Logf("found pending changes for '%s', discarding for clone", strings.Join(names, ","))
	}
	if w.LosesQuorum() {
		return engine.ErrReadOnly(c.Node(), c.newid)
	}
	g.Config = maps.Clone(c.conf)
	g.LockCause = ""
	config.Write(c.Engine, g)
	if c.target != "" {
		g.Node = c.target
	}
	return c.AddToPool(c.newid, c.Params["pool"])
}
