package handle

import (
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// run writes the change to the pending section, option by option, and applies what can be applied at once.
func (u *update) run(w *Worker) error {
	p := process{u.Request, w}
	g, err := u.guest()
	if err != nil {
		return err
	}
	if g.Pending == nil {
		g.Pending = map[string]string{}
	}
	if g.Deletes == nil {
		g.Deletes = map[string]int{}
	}
	modified := map[string]bool{}
	order := bootOrder(g.Config["boot"])
	for _, opt := range u.deletes {
		if err := u.written(g, func() error { return u.remove(p, g, opt, &order, modified) }); err != nil {
			return err
		}
	}
	for _, opt := range slices.Sorted(maps.Keys(u.params)) {
		modified[opt] = true
		if v, ok := g.Pending[opt]; ok && v == u.params[opt] {
			continue
		}
		err := u.written(g, func() error {
			err := u.set(p, g, opt, &order, modified)
			delete(g.Deletes, opt)
			return err
		})
		if err != nil {
			return err
		}
	}
	if w != nil && !hasDrive(u.params) {
		if err := w.Checkpoint(); err != nil {
			return err
		}
	}
	cleanPending(g)
	u.Server.writeConfig(g)
	if len(g.Pending) == 0 && len(g.Deletes) == 0 {
		return nil
	}
	errs := map[string]string{}
	if g.Running != nil {
		p.hotplug(g, modified, errs)
	} else {
		p.applyPending(g, errs)
	}
	if len(errs) > 0 {
		return &Error{Status: 400, Message: "Parameter verification failed.", Errors: errs}
	}
	return nil
}

// written changes the configuration by one option. The file is written when that has gone well: of an option that is refused
// nothing stays, of those before it everything.
func (u *update) written(g *state.Guest, change func() error) error {
	before := g.Clone()
	if err := change(); err != nil {
		g.Config, g.Pending, g.Deletes, g.LockCause = before.Config, before.Pending, before.Deletes, before.LockCause
		return err
	}
	u.Server.writeConfig(g)
	return nil
}

func hasDrive(params map[string]string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(params)), isDrive)
}

// remove notes an option for deletion; unusedN and tags go at once.
func (u *update) remove(p process, g *state.Guest, opt string, order *[]string, modified map[string]bool) error {
	value, isPending := g.Pending[opt]
	current, isCurrent := g.Config[opt]
	if isCurrent {
		value = current
	}
	if !isPending && !isCurrent {
		p.logf("cannot delete '%s' - not set in current configuration!", opt)
		return nil
	}
	modified[opt] = true
	pending := g.Pending[opt]
	delete(g.Pending, opt)
	if slices.Contains(*order, opt) {
		*order = without(*order, opt)
		g.Pending["boot"] = printOrder(*order)
		modified["boot"] = true
	}
	switch {
	case hasIndex(opt, "unused"):
		return u.removeUnused(p, g, opt, value)
	case opt == "vmstate":
		if g.Config["protection"] == "1" {
			return Die("can't remove vmstate '%s' - protection mode enabled", value)
		}
		if err := p.deallocate(g, opt, drive{"file": value}, true); err != nil {
			return err
		}
		delete(g.Config, opt)
		return nil
	case isDrive(opt):
		if g.Config["protection"] == "1" {
			return Die("can't remove drive '%s' - protection mode enabled", opt)
		}
		if err := u.checkDrivePerms(g, opt, value); err != nil {
			return err
		}
		if isPending {
			p.registerUnused(g, u.Server.parseDrive(opt, pending))
		}
	case hasIndex(opt, "serial"):
		if value != "socket" && !u.Auth.IsRoot() {
			return Die("only root can delete '%s' config for real devices", opt)
		}
		if err := u.checkVM(g.VMID, "", "VM.Config.HWType"); err != nil {
			return err
		}
	case hasIndex(opt, "usb", "hostpci"):
		if err := u.checkDevices(g.VMID, "", map[string]string{opt: value}, "delete"); err != nil {
			return err
		}
	case opt == "tags":
		if err := u.checkVM(g.VMID, "", "VM.Config.Options"); err != nil {
			return err
		}
		delete(g.Config, opt)
		return nil
	case hasIndex(opt, "net") && isCurrent:
		if err := u.checkBridges(map[string]string{opt: current}); err != nil {
			return err
		}
	}
	g.Deletes[opt] = 1
	if u.force {
		g.Deletes[opt] = 2
	}
	return nil
}

func (u *update) removeUnused(p process, g *state.Guest, opt, volid string) error {
	if g.Config["protection"] == "1" {
		return Die("can't remove unused disk '%s' - protection mode enabled", volid)
	}
	if err := u.checkVM(g.VMID, "", "VM.Config.Disk"); err != nil {
		return err
	}
	if err := p.deallocate(g, opt, drive{"file": volid}, true); err != nil {
		return err
	}
	delete(g.Config, opt)
	return nil
}

// set puts an option into the pending section, allocating what a drive asks for.
func (u *update) set(p process, g *state.Guest, opt string, order *[]string, modified map[string]bool) error {
	value := u.params[opt]
	switch {
	case isDrive(opt):
		return u.setDrive(p, g, opt, order, modified)
	case hasIndex(opt, "serial", "usb", "hostpci", "virtiofs"):
		verb := "set"
		if hasIndex(opt, "serial") {
			verb = "modify"
		}
		if err := u.checkDevices(g.VMID, "", map[string]string{opt: value}, verb); err != nil {
			return err
		}
	case opt == "tags":
		if err := u.checkVM(g.VMID, "", "VM.Config.Options"); err != nil {
			return err
		}
		value = u.uniqueTags(value)
	case hasIndex(opt, "net") && g.Config[opt] != "":
		if err := u.checkBridges(map[string]string{opt: g.Config[opt]}); err != nil {
			return err
		}
	case opt == "machine":
		if err := validMachine(value); err != nil {
			return err
		}
	case opt == "ostype":
		if err := u.pinOnOSType(p, g, value, modified); err != nil {
			p.logf("automatic pinning of machine version failed - %s", text(err))
		}
	case opt == "boot":
		for _, dev := range bootOrder(value) {
			if g.Config[dev] == "" && g.Pending[dev] == "" && u.params[dev] == "" || slices.Contains(u.deletes, dev) {
				return Die("invalid bootorder: device '%s' does not exist'", dev)
			}
		}
		if bootOrder(value) != nil && g.Config["bootdisk"] != "" {
			g.Deletes["bootdisk"] = 1
		}
	}
	g.Pending[opt] = value
	return nil
}

func (u *update) setDrive(p process, g *state.Guest, opt string, order *[]string, modified map[string]bool) error {
	d := u.Server.parseDrive(opt, u.params[opt])
	if old := g.Config[opt]; old != "" {
		if err := u.checkDrivePerms(g, opt, old); err != nil {
			return err
		}
		if opt == "tpmstate0" && u.tpmVersionChanges(old, u.params[opt]) {
			return Die("cannot change TPM state version after creation")
		}
	}
	if err := u.checkDrivePerms(g, opt, u.params[opt]); err != nil {
		return err
	}
	if old, ok := g.Pending[opt]; ok {
		p.registerUnused(g, u.Server.parseDrive(opt, old))
	}
	conf := maps.Clone(g.Config)
	maps.Copy(conf, g.Pending)
	m := &diskMaker{process: p, node: g.Node, vmid: g.VMID, conf: conf}
	made, err := m.make(map[string]string{opt: u.params[opt]})
	if err != nil {
		return err
	}
	if p.worker != nil {
		if err := p.worker.Checkpoint(); err != nil {
			m.cleanUp(g.Node, m.made)
			return err
		}
	} else if err := u.struck(); err != nil {
		m.cleanUp(g.Node, m.made)
		return err
	}
	maps.Copy(g.Pending, made)
	if len(*order) > 0 && d.isMedia() && !slices.Contains(*order, opt) {
		*order = append(slices.Clone(*order), opt)
		g.Pending["boot"] = printOrder(*order)
		modified["boot"] = true
	}
	return nil
}
