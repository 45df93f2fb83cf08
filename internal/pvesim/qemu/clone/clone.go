// Package clone copies virtual machines and their disks: clones, templates, moved, reassigned and resized disks.
package clone

import (
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// cloning is one clone (qemu-server API2/Qemu.pm, clone_vm).
type cloning struct {
	*engine.Request
	newid   int
	target  string // node, "" for the source's
	full    bool
	running bool
	old     map[string]string      // the source: the current section or a snapshot
	conf    map[string]string      // the new guest's configuration so far
	drives  map[string]drive.Drive // to copy or to clone
	last    bool                   // the drive at hand is the last one
	mirrors []string               // copies by QEMU under way
}

// Clone is POST clone (qemu-server API2/Qemu.pm, clone_vm).
func Clone(r *engine.Request) (any, error) {
	newid, _ := strconv.Atoi(r.Params["newid"])
	c := &cloning{Request: r, newid: newid, target: r.Params["target"]}
	if c.target == r.Node() || c.target == "localhost" {
		c.target = ""
	}
	g, err := guest.Find(r.W, r.Node(), r.VMID())
	if err != nil {
		return nil, err
	}
	c.running = g.Running != nil
	if err := c.prepare(); err != nil {
		return nil, err
	}
	return guest.Fork(r, "qmclone", c.work), nil
}

// prepare is PVE's load_and_check: it runs before the fork and again in the worker, under the locks.
func (c *cloning) prepare() error {
	if err := c.checkPlace(); err != nil {
		return err
	}
	g, err := guest.Load(c.Request)
	if err != nil {
		return err
	}
	if err := guest.CheckLock(g); err != nil {
		return err
	}
	if (g.Running != nil) != c.running {
		return perl.Die("unexpected state change")
	}
	c.old = g.Config
	if name := c.Params["snapname"]; name != "" {
		snap, ok := g.Snaps[name]
		if !ok {
			return perl.Die("snapshot '%s' does not exist", name)
		}
		c.old = snap
	}
	c.full = !g.IsTemplate()
	if v, ok := c.Params["full"]; ok {
		c.full = v == "1"
	}
	for _, k := range []string{"storage", "format"} {
		if c.Params[k] != "" && !c.full {
			return perl.Die("parameter '%s' not allowed for linked clones", k)
		}
	}
	shared, err := c.checkAccess()
	if err != nil {
		return err
	}
	if err := config.CheckMappings(c.Request, c.old); err != nil {
		return err
	}
	if err := config.CheckBridges(c.Request, c.old); err != nil {
		return err
	}
	if c.target != "" && !shared {
		return perl.Die("can't clone VM to node '%s' (VM uses local storage)", c.target)
	}
	if other := c.W.Guests[c.newid]; other != nil && other.Type == "qemu" && other.Node == c.Node() {
		return perl.Die("unable to create VM %d: config file already exists", c.newid)
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
		return perl.Die("no such cluster node '%s'", c.target)
	}
	storage := c.Params["storage"]
	if storage == "" {
		return nil
	}
	s, err := c.W.StorageEnabled(c.Node(), storage)
	if err == nil && !s.Has("images") {
		err = perl.Invalid("storage", "storage '"+storage+"' does not support vm images")
	}
	if err != nil || c.target == "" {
		return err
	}
	if _, err := c.W.StorageEnabled(c.target, storage); err != nil {
		return err
	}
	if !s.Shared {
		return perl.Die("can't clone to non-shared storage '%s'", storage)
	}
	return nil
}

// checkAccess asks for space on the storages of the copies and tells whether all drives lie on shared storages
// (check_storage_access_clone).
func (c *cloning) checkAccess() (shared bool, err error) {
	shared = true
	for _, opt := range slices.Sorted(maps.Keys(c.old)) {
		d := drive.Drive(nil)
		if drive.IsDrive(opt) {
			d = drive.Parse(c.Engine, opt, c.old[opt])
		}
		if d == nil || d.File() == "" || d.File() == "none" {
			continue
		}
		if d.IsCDROM() && d.File() == "cdrom" {
			if err := c.Check("/", "Sys.Console"); err != nil {
				return false, err
			}
			continue
		}
		id, _, _ := state.SplitVolid(d.File())
		s, err := c.W.StorageConfig(id)
		if err != nil {
			return false, err
		}
		shared = shared && s.Shared
		if d.IsCDROM() {
			continue
		}
		if to := c.Params["storage"]; to != "" {
			id = to
		}
		if err := c.Check("/storage/"+id, "Datastore.AllocateSpace"); err != nil {
			return false, err
		}
	}
	if s := c.old["vmstatestorage"]; s != "" {
		return shared, c.Check("/storage/"+s, "Datastore.AllocateSpace")
	}
	return shared, nil
}

// plan sorts the options into those copied as they are and the drives, and checks that the storages can do it.
func (c *cloning) plan() error {
	c.conf, c.drives = map[string]string{}, map[string]drive.Drive{}
	for _, opt := range slices.Sorted(maps.Keys(c.old)) {
		value := c.old[opt]
		switch {
		case drive.HasIndex(opt, "unused") || slices.Contains([]string{"lock", "parent", "snaptime", "vmstate", "snapstate",
			"runningmachine",
			"runningcpu"}, opt):
		case drive.HasIndex(opt, "net"):
			n := drive.ParseNet(c.Engine, c.W, opt, value)
			n["macaddr"] = c.W.MAC()
			c.conf[opt] = drive.PrintNet(c.Engine, opt, n)
		case drive.IsDrive(opt):
			if opt == "tpmstate0" && c.full && c.running && c.Params["snapname"] == "" {
				return perl.Die("cannot clone TPM state while VM is running")
			}
			d := drive.Parse(c.Engine, opt, value)
			if d == nil {
				return perl.Die("unable to parse drive options for '%s'", opt)
			}
			if d.IsMedia() {
				c.conf[opt] = value
				continue
			}
			kind, feature := "Linked", "clone"
			if c.copies(opt, d) {
				kind, feature = "Full", "copy"
			}
			of := ""
			if c.Params["snapname"] != "" {
				of = " a snapshot of"
			}
			if !drive.VolumeHas(c.Request, feature, d.File(), c.Params["snapname"]) {
				return perl.Die("%s clone feature is not supported for%s '%s' (%s)", kind, of, d.File(), opt)
			}
			c.drives[opt] = d
		default:
			c.conf[opt] = value
		}
	}
	return nil
}

// copies reports whether the drive is copied in any case, even by a linked clone.
func (c *cloning) copies(opt string, d drive.Drive) bool {
	return c.full || d.IsCloudinit() || opt == "tpmstate0"
}
