package config

import (
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// Run writes the change to the pending section, option by option, and applies what can be applied at once.
func (u *update) Run(w *engine.Worker) error {
	p := engine.Process{Request: u.Request, Worker: w}
	g, err := guest.Load(u.Request)
	if err != nil {
		return err
	}
	state.Log(u.W, g.Node, u.Auth.ID, "update VM %d: %s", g.VMID, u.line) // API2/Qemu.pm update_vm_api
	if g.Pending == nil {
		g.Pending = map[string]string{}
	}
	if g.Deletes == nil {
		g.Deletes = map[string]int{}
	}
	modified := map[string]bool{}
	order := drive.BootOrder(g.Config["boot"])
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
	Write(u.Engine, g)
	if len(g.Pending) == 0 && len(g.Deletes) == 0 {
		return nil
	}
	errs := map[string]string{}
	if g.Running != nil {
		hotplug(p, g, modified, errs)
	} else {
		ApplyPending(p, g, errs)
	}
	if len(errs) > 0 {
		return &perl.Error{Status: 400, Message: "Parameter verification failed.", Errors: errs}
	}
	return nil
}

// written changes the configuration by one option. The file is written when that has gone well: of an option that is
// refused nothing stays, of those before it everything.
func (u *update) written(g *state.Guest, change func() error) error {
	before := g.Clone()
	err := change()
	for _, conf := range []map[string]string{g.Config, g.Pending} {
		if err == nil {
			err = CheckLines(u.Engine, conf)
		}
	}
	if err != nil {
		g.Config, g.Pending, g.Deletes, g.LockCause = before.Config, before.Pending, before.Deletes, before.LockCause
		return err
	}
	Write(u.Engine, g)
	return nil
}

func hasDrive(params map[string]string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(params)), drive.IsDrive)
}

// remove notes an option for deletion; unusedN and tags go at once.
func (u *update) remove(p engine.Process, g *state.Guest, opt string, order *[]string, modified map[string]bool) error {
	value, isPending := g.Pending[opt]
	current, isCurrent := g.Config[opt]
	if isCurrent {
		value = current
	}
	if !isPending && !isCurrent {
		p.Logf("cannot delete '%s' - not set in current configuration!", opt)
		return nil
	}
	modified[opt] = true
	delete(g.Pending, opt)
	if slices.Contains(*order, opt) {
		*order = perl.Without(*order, opt)
		g.Pending["boot"] = drive.PrintOrder(*order)
		modified["boot"] = true
	}
	switch {
	case drive.HasIndex(opt, "unused"):
		return u.removeUnused(p, g, opt, value)
	case opt == "vmstate":
		if g.Config["protection"] == "1" {
			return perl.Die("can't remove vmstate '%s' - protection mode enabled", value)
		}
		if err := deallocate(p, g, opt, drive.Drive{"file": value}, true); err != nil {
			return err
		}
		delete(g.Config, opt)
		return nil
	case drive.IsDrive(opt):
		if g.Config["protection"] == "1" {
			return perl.Die("can't remove drive '%s' - protection mode enabled", opt)
		}
		if err := u.checkDrivePerms(g, opt, value); err != nil {
			return err
		}
		if isPending { // PVE notes the value in force, and nothing names the one that waited (API2/Qemu.pm update_vm_api)
			registerUnused(p, g, drive.Parse(u.Engine, opt, value))
		}
	case drive.HasIndex(opt, "serial"):
		if value != "socket" && !u.Auth.IsRoot() {
			return perl.Die("only root can delete '%s' config for real devices", opt)
		}
		if err := drive.CheckVM(u.Request, g.VMID, "", "VM.Config.HWType"); err != nil {
			return err
		}
	case drive.HasIndex(opt, "usb", "hostpci", "rng", "virtiofs"):
		if err := CheckDevices(u.Request, g.VMID, "", map[string]string{opt: value}, "delete"); err != nil {
			return err
		}
	case opt == "tags":
		if err := drive.CheckVM(u.Request, g.VMID, "", "VM.Config.Options"); err != nil {
			return err
		}
		if err := CheckTags(u.Request, value, ""); err != nil {
			return err
		}
		delete(g.Config, opt)
		return nil
	case drive.HasIndex(opt, "net") && isCurrent:
		if err := CheckBridges(u.Request, map[string]string{opt: current}); err != nil {
			return err
		}
	}
	g.Deletes[opt] = 1
	if u.force {
		g.Deletes[opt] = 2
	}
	return nil
}

func (u *update) removeUnused(p engine.Process, g *state.Guest, opt, volid string) error {
	if g.Config["protection"] == "1" {
		return perl.Die("can't remove unused disk '%s' - protection mode enabled", volid)
	}
	if err := drive.CheckVM(u.Request, g.VMID, "", "VM.Config.Disk"); err != nil {
		return err
	}
	if err := deallocate(p, g, opt, drive.Drive{"file": volid}, true); err != nil {
		return err
	}
	delete(g.Config, opt)
	return nil
}

// set puts an option into the pending section, allocating what a drive asks for.
func (u *update) set(p engine.Process, g *state.Guest, opt string, order *[]string, modified map[string]bool) error {
	value := u.params[opt]
	switch {
	case drive.IsDrive(opt):
		return u.setDrive(p, g, opt, order, modified)
	case drive.HasIndex(opt, "serial", "usb", "hostpci", "virtiofs", "rng"):
		verb := "set"
		if drive.HasIndex(opt, "serial") {
			verb = "modify"
		} else if old := g.Config[opt]; old != "" {
			if err := CheckDevices(u.Request, g.VMID, "", map[string]string{opt: old}, verb); err != nil {
				return err
			}
		}
		if err := CheckDevices(u.Request, g.VMID, "", map[string]string{opt: value}, verb); err != nil {
			return err
		}
	case opt == "tags":
		if err := drive.CheckVM(u.Request, g.VMID, "", "VM.Config.Options"); err != nil {
			return err
		}
		value = UniqueTags(u.Request, value)
		if err := CheckTags(u.Request, g.Config["tags"], value); err != nil {
			return err
		}
	case drive.HasIndex(opt, "net") && g.Config[opt] != "":
		if err := CheckBridges(u.Request, map[string]string{opt: g.Config[opt]}); err != nil {
			return err
		}
	case opt == "vga":
		if err := CheckClipboard(value); err != nil {
			return err
		}
	case opt == "machine":
		if err := validMachine(value); err != nil {
			return err
		}
	case opt == "ostype":
		if err := u.pinOnOSType(p, g, value, modified); err != nil {
			p.Logf("automatic pinning of machine version failed - %s", perl.Message(err))
		}
	case opt == "boot":
		for _, dev := range drive.BootOrder(value) {
			if g.Config[dev] == "" && g.Pending[dev] == "" && u.params[dev] == "" || slices.Contains(u.deletes, dev) {
				return perl.Die("invalid bootorder: device '%s' does not exist'", dev)
			}
		}
		if drive.BootOrder(value) != nil && g.Config["bootdisk"] != "" {
			g.Deletes["bootdisk"] = 1
		}
	}
	g.Pending[opt] = value
	return nil
}

func (u *update) setDrive(p engine.Process, g *state.Guest, opt string, order *[]string,
	modified map[string]bool) error {
	d := drive.Parse(u.Engine, opt, u.params[opt])
	if old := g.Config[opt]; old != "" {
		if err := u.checkDrivePerms(g, opt, old); err != nil {
			return err
		}
		if opt == "tpmstate0" && u.tpmVersionChanges(old, u.params[opt]) {
			return perl.Die("cannot change TPM state version after creation")
		}
	}
	if err := u.checkDrivePerms(g, opt, u.params[opt]); err != nil {
		return err
	}
	if old, ok := g.Pending[opt]; ok {
		registerUnused(p, g, drive.Parse(u.Engine, opt, old))
	}
	conf := maps.Clone(g.Config)
	maps.Copy(conf, g.Pending)
	m := &drive.Maker{Process: p, Node: g.Node, Vmid: g.VMID, Conf: conf}
	made, err := m.Make(map[string]string{opt: u.params[opt]})
	if err != nil {
		return err
	}
	if p.Worker != nil {
		if err := p.Worker.Checkpoint(); err != nil {
			volume.CleanUp(m.Process, g.Node, m.Made)
			return err
		}
	} else if err := u.Struck(); err != nil {
		volume.CleanUp(m.Process, g.Node, m.Made)
		return err
	}
	maps.Copy(g.Pending, made)
	if len(*order) > 0 && d.IsMedia() && !slices.Contains(*order, opt) {
		*order = append(slices.Clone(*order), opt)
		g.Pending["boot"] = drive.PrintOrder(*order)
		modified["boot"] = true
	}
	return nil
}
