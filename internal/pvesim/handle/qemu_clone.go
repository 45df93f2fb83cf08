package handle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// cloning is one clone (qemu-server API2/Qemu.pm, clone_vm).
type cloning struct {
	*Request
	newid   int
	target  string // node, "" for the source's
	full    bool
	running bool
	old     map[string]string // what is cloned: the current section or a snapshot
	conf    map[string]string // the new guest's configuration so far
	drives  map[string]drive  // to copy or to clone
}

func qemuClone(r *Request) (any, error) {
	newid, _ := strconv.Atoi(r.Params["newid"])
	c := &cloning{Request: r, newid: newid, target: r.Params["target"]}
	if c.target == r.node() || c.target == "localhost" {
		c.target = ""
	}
	g, err := findGuest(r.W, r.node(), r.vmid())
	if err != nil {
		return nil, err
	}
	c.running = g.Running != nil
	if err := c.prepare(); err != nil {
		return nil, err
	}
	return r.task("qmclone", c.work), nil
}

// prepare is PVE's load_and_check: it runs before the fork and again in the worker, under the locks.
func (c *cloning) prepare() error {
	if err := c.checkPlace(); err != nil {
		return err
	}
	g, err := c.guest()
	if err != nil {
		return err
	}
	if err := checkLock(g); err != nil {
		return err
	}
	if (g.Running != nil) != c.running {
		return Die("unexpected state change")
	}
	c.old = g.Config
	if name := c.Params["snapname"]; name != "" {
		snap, ok := g.Snaps[name]
		if !ok {
			return Die("snapshot '%s' does not exist", name)
		}
		c.old = snap
	}
	c.full = !g.IsTemplate()
	if v, ok := c.Params["full"]; ok {
		c.full = v == "1"
	}
	for _, k := range []string{"storage", "format"} {
		if c.Params[k] != "" && !c.full {
			return Die("parameter '%s' not allowed for linked clones", k)
		}
	}
	shared, err := c.checkAccess()
	if err != nil {
		return err
	}
	if err := c.checkBridges(c.old); err != nil {
		return err
	}
	if c.target != "" && !shared {
		return Die("can't clone VM to node '%s' (VM uses local storage)", c.target)
	}
	if other := c.W.Guests[c.newid]; other != nil && other.Type == "qemu" && other.Node == c.node() {
		return Die("unable to create VM %d: config file already exists", c.newid)
	}
	return c.plan()
}

func (c *cloning) checkPlace() error {
	if pool := c.Params["pool"]; pool != "" {
		if err := c.CheckPool(pool); err != nil {
			return err
		}
	}
	if c.target != "" && c.W.Nodes[c.target] == nil {
		return Die("no such cluster node '%s'", c.target)
	}
	storage := c.Params["storage"]
	if storage == "" {
		return nil
	}
	s, err := c.W.StorageEnabled(c.node(), storage)
	if err != nil || c.target == "" {
		return err
	}
	if _, err := c.W.StorageEnabled(c.target, storage); err != nil {
		return err
	}
	if !s.Shared {
		return Die("can't clone to non-shared storage '%s'", storage)
	}
	return nil
}

// checkAccess asks for space on the storages of the copies and tells whether all drives lie on shared storages
// (check_storage_access_clone).
func (c *cloning) checkAccess() (shared bool, err error) {
	shared = true
	for _, opt := range slices.Sorted(maps.Keys(c.old)) {
		d := drive(nil)
		if isDrive(opt) {
			d = c.Server.parseDrive(opt, c.old[opt])
		}
		if d == nil || d.file() == "" || d.file() == "none" {
			continue
		}
		if d.isCDROM() && d.file() == "cdrom" {
			if err := c.Check("/", "Sys.Console"); err != nil {
				return false, err
			}
			continue
		}
		id, _, _ := state.SplitVolid(d.file())
		s, err := c.W.StorageConfig(id)
		if err != nil {
			return false, err
		}
		shared = shared && s.Shared
		if d.isCDROM() {
			continue
		}
		if to := c.Params["storage"]; to != "" {
			id = to
		}
		if err := c.Check("/storage/"+id, "Datastore.AllocateSpace"); err != nil {
			return false, err
		}
	}
	return shared, nil
}

// plan sorts the options into those copied as they are and the drives, and checks that the storages can do it.
func (c *cloning) plan() error {
	c.conf, c.drives = map[string]string{}, map[string]drive{}
	for _, opt := range slices.Sorted(maps.Keys(c.old)) {
		value := c.old[opt]
		switch {
		case hasIndex(opt, "unused") || slices.Contains([]string{"lock", "parent", "snaptime", "vmstate", "snapstate", "runningmachine", "runningcpu"}, opt):
		case hasIndex(opt, "net"):
			n := c.Server.parseNet(c.W, opt, value)
			n["macaddr"] = c.W.MAC()
			c.conf[opt] = c.Server.printNet(opt, n)
		case isDrive(opt):
			if opt == "tpmstate0" && c.full && c.running && c.Params["snapname"] == "" {
				return Die("cannot clone TPM state while VM is running")
			}
			d := c.Server.parseDrive(opt, value)
			if d == nil {
				return Die("unable to parse drive options for '%s'", opt)
			}
			if d.isMedia() {
				c.conf[opt] = value
				continue
			}
			if !c.copies(opt, d) && !c.linkable(d) {
				return Die("Linked clone feature is not supported for '%s' (%s)", d.file(), opt)
			}
			c.drives[opt] = d
		default:
			c.conf[opt] = value
		}
	}
	return nil
}

// copies reports whether the drive is copied in any case, even by a linked clone.
func (c *cloning) copies(opt string, d drive) bool {
	return c.full || d.isCloudinit() || opt == "tpmstate0"
}

func (c *cloning) linkable(d drive) bool {
	id, name, _ := state.SplitVolid(d.file())
	s := c.W.Storages[id]
	if s == nil {
		return false
	}
	n, err := s.ParseName(name)
	if err != nil {
		return false
	}
	if c.Params["snapname"] != "" {
		return s.Type == "lvmthin" || s.Type == "rbd"
	}
	return n.IsBase
}

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
	delete(c.W.Firewall, c.newid)
	if f := c.W.Firewall[c.vmid()]; f != nil {
		c.W.Firewall[c.newid] = &state.FirewallFile{Options: maps.Clone(f.Options), Rules: slices.Clone(f.Rules)}
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

// rename gives the clone what is its own: uuid, vmgenid, name, description.
func (c *cloning) rename() {
	smbios := []string{"uuid=" + c.W.UUID()}
	for _, part := range strings.Split(c.conf["smbios1"], ",") {
		if part != "" && !strings.HasPrefix(part, "uuid=") {
			smbios = append(smbios, part)
		}
	}
	slices.Sort(smbios)
	c.conf["smbios1"] = strings.Join(smbios, ",")
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
		p.worker.progress()
		v, err := c.copyDrive(p, opt, c.drives[opt])
		if err != nil {
			return made, err
		}
		made = append(made, v.Volid())
		if i == len(names)-1 {
			if err := p.worker.Checkpoint(); err != nil {
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
		return c.link(source)
	}
	p.logf("create full clone of drive %s (%s)", opt, d.file())
	storage := source.Storage
	if to := c.Params["storage"]; to != "" && c.full {
		storage = to
	}
	s, err := c.W.StorageActive(c.node(), storage)
	if err != nil {
		return nil, err
	}
	format := c.Params["format"]
	if format == "" {
		format = source.Format
	}
	if !slices.Contains(s.Formats(), format) {
		format = s.Formats()[0]
	}
	if opt == "tpmstate0" {
		format = "raw"
	}
	name, size := "", source.Size
	if d.isCloudinit() {
		name, size = fmt.Sprintf("vm-%d-cloudinit", c.newid), cloudinitSize
		if s.IsDir() {
			name += "." + format
		}
	}
	v, err := c.W.Alloc(c.node(), storage, c.newid, name, format, size)
	if err != nil {
		return nil, err
	}
	p.formatted(s, v)
	v.Data = source.Data
	if !d.isCloudinit() {
		p.logf("transferred 0.0 B of %s (0.00%%)", humanSize(v.Size))
		p.logf("transferred %s of %s (100.00%%)", humanSize(v.Size), humanSize(v.Size))
	}
	return v, nil
}

func (c *cloning) link(source *state.Volume) (*state.Volume, error) {
	s := c.W.Storages[source.Storage]
	n, err := s.ParseName(source.Name)
	if err != nil {
		return nil, err
	}
	if n.IsBase {
		return c.W.LinkedClone(c.node(), source, c.newid)
	}
	v, err := c.W.Alloc(c.node(), source.Storage, c.newid, "", "raw", source.Size)
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
	if src := c.W.Guests[c.vmid()]; src != nil && len(src.Pending)+len(src.Deletes) > 0 {
		w.Logf("found pending changes for '%d', discarding for clone", c.vmid())
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
