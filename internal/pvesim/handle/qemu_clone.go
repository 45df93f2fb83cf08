package handle

import (
	"maps"
	"slices"
	"strconv"

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
	last    bool              // the drive at hand is the last one
	mirrors []string          // copies by QEMU under way
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
	if err == nil && !s.Has("images") {
		err = Invalid("storage", "storage '"+storage+"' does not support vm images")
	}
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
		case hasIndex(opt, "unused") || slices.Contains([]string{"lock", "parent", "snaptime", "vmstate", "snapstate", "runningmachine",
			"runningcpu"}, opt):
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
			kind, feature := "Linked", "clone"
			if c.copies(opt, d) {
				kind, feature = "Full", "copy"
			}
			of := ""
			if c.Params["snapname"] != "" {
				of = " a snapshot of"
			}
			if !c.volumeHas(feature, d.file(), c.Params["snapname"]) {
				return Die("%s clone feature is not supported for%s '%s' (%s)", kind, of, d.file(), opt)
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
