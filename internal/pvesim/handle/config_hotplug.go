package handle

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// errSkip leaves a change pending without an error: it needs a restart.
var errSkip = errors.New("skip\n")

// fastPlug reports options that mean nothing to the running process and become current at once (QemuServer.pm
// $fast_plug_option).
func fastPlug(opt string) bool {
	return isCloudinitOption(opt) || slices.Contains([]string{
		"description", "hookscript", "lock", "migrate_downtime", "migrate_speed", "name", "onboot", "protection", "shares",
		"startup", "tags", "vmstatestorage",
	}, opt)
}

// features are the classes of devices that can be hotplugged.
func features(conf map[string]string) map[string]bool {
	value := conf["hotplug"]
	switch value {
	case "", "1":
		value = "network,disk,usb"
	case "0":
		value = ""
	}
	set := map[string]bool{}
	for _, f := range splitList(value) {
		set[f] = true
	}
	return set
}

// booted is what the guest's process was started with; changes to it are lost on one that has died meanwhile.
func booted(g *state.Guest) map[string]string {
	if g.Running == nil {
		return map[string]string{}
	}
	return g.Running.Booted
}

// hotplug brings the pending section of a running guest into effect as far as that goes without a restart
// (QemuServer.pm vmconfig_hotplug_pending). What fails stays pending and is reported.
func (p process) hotplug(g *state.Guest, modified map[string]bool, errs map[string]string) {
	for _, opt := range slices.Sorted(maps.Keys(g.Pending)) {
		if fastPlug(opt) {
			p.setOption(g, opt, g.Pending[opt])
			delete(g.Pending, opt)
		}
	}
	feature := features(g.Config)
	note := func(opt string, err error) bool {
		if err == nil {
			return true
		}
		if !errors.Is(err, errSkip) {
			errs[opt] = "hotplug problem - " + text(err) + "\n"
		}
		return false
	}
	for _, opt := range slices.Sorted(maps.Keys(g.Deletes)) {
		if modified[opt] && note(opt, p.unplugOption(g, opt, feature, g.Deletes[opt] == 2)) {
			p.dropOption(g, opt)
			delete(booted(g), opt)
			delete(g.Deletes, opt)
		}
	}
	for _, opt := range slices.Sorted(maps.Keys(g.Pending)) {
		if modified[opt] && note(opt, p.plugOption(g, opt, g.Pending[opt], feature)) {
			g.Config[opt] = g.Pending[opt]
			booted(g)[opt] = g.Pending[opt]
			delete(g.Pending, opt)
		}
	}
	p.Server.writeConfig(g)
}

func (p process) unplugOption(g *state.Guest, opt string, feature map[string]bool, force bool) error {
	switch {
	case fastPlug(opt), opt == "cpuunits", opt == "cpulimit":
		return nil
	case opt == "hotplug":
		return skipIf(strings.Contains(g.Config["hotplug"], "memory"))
	case opt == "tablet":
		return skipIf(!feature["usb"])
	case hasIndex(opt, "usb"):
		return skipIf(!feature["usb"] || g.Config["machine"] == "" || g.Config["ostype"] != "l26")
	case opt == "vcpus":
		return skipIf(!feature["cpu"])
	case opt == "balloon":
		return skipIf(g.Config["balloon"] == "0")
	case hasIndex(opt, "net"):
		if !feature["network"] {
			return errSkip
		}
		return p.unplug(g, opt)
	case isDrive(opt):
		if !feature["disk"] || hasIndex(opt, "ide", "sata", "efidisk", "tpmstate") {
			return errSkip
		}
		if slices.Contains(bootOrder(g.Config["boot"]), opt) { // Drive.pm get_bootdisks
			return Die("can't unplug bootdisk '%s'", opt)
		}
		if err := p.unplug(g, opt); err != nil {
			return err
		}
		return p.detach(g, opt, p.Server.parseDrive(opt, g.Config[opt]), force)
	case opt == "memory":
		return skipIf(!feature["memory"])
	}
	return errSkip
}

func skipIf(skip bool) error {
	if skip {
		return errSkip
	}
	return nil
}

// unplug takes a device out of the running machine; the guest's operating system must let go of it.
func (p process) unplug(g *state.Guest, opt string) error {
	if slices.Contains(g.Ignores, "unplug") {
		return Die("error on hot-unplugging device '%s'", opt)
	}
	delete(booted(g), opt)
	return nil
}

func (p process) plugOption(g *state.Guest, opt, value string, feature map[string]bool) error {
	switch {
	case opt == "hotplug":
		return skipIf(strings.Contains(value, "memory") || strings.Contains(g.Config["hotplug"], "memory"))
	case opt == "tablet":
		return skipIf(!feature["usb"])
	case hasIndex(opt, "usb"):
		return skipIf(!feature["usb"] || g.Config["machine"] == "" || g.Config["ostype"] != "l26")
	case opt == "vcpus":
		return skipIf(!feature["cpu"])
	case opt == "memory":
		return skipIf(!feature["memory"])
	case opt == "balloon":
		return skipIf((g.Config["balloon"] == "0") != (value == "0"))
	case opt == "cpuunits", opt == "cpulimit":
		return nil
	case opt == "agent":
		return p.plugAgent(g, value)
	case hasIndex(opt, "net"):
		return p.plugNet(g, opt, value, feature["network"])
	case opt == "efidisk0" || opt == "tpmstate0":
		return errSkip
	case isDrive(opt):
		return p.plugDrive(g, opt, value, feature["disk"])
	}
	return errSkip
}

// plugAgent lets only fstrim_cloned_disks and freeze-fs-on-backup change while nothing else does (QemuServer.pm
// vmconfig_update_agent).
func (p process) plugAgent(g *state.Guest, value string) error {
	if g.Config["agent"] == "" {
		return errSkip
	}
	f, ok := p.Server.schema.Format("agent")
	if !ok {
		return errSkip
	}
	old, err1 := f.Parse(g.Config["agent"])
	next, err2 := f.Parse(value)
	if err1 != nil || err2 != nil {
		return errSkip
	}
	for _, k := range []string{"enabled", "type", "freeze-fs-on-backup"} {
		if old[k] != next[k] {
			return errSkip
		}
	}
	return nil
}

func (p process) plugNet(g *state.Guest, opt, value string, hotplug bool) error {
	next := p.Server.parseNet(p.W, opt, value)
	if current := g.Config[opt]; current != "" {
		old := p.Server.parseNet(p.W, opt, current)
		same := next["bridge"] != "" && old["bridge"] != ""
		for _, k := range []string{"model", "macaddr", "queues", "mtu"} {
			same = same && old[k] == next[k]
		}
		if same {
			return p.checkInterface(g.Node, next["bridge"])
		}
		if !hotplug {
			return errSkip
		}
		if mtu, _ := strconv.Atoi(next["mtu"]); mtu > bridgeMTU {
			return mtuError(opt, next["mtu"])
		}
		if err := p.unplug(g, opt); err != nil {
			return err
		}
	}
	if !hotplug {
		return errSkip
	}
	if mtu, _ := strconv.Atoi(next["mtu"]); mtu > bridgeMTU {
		return mtuError(opt, next["mtu"])
	}
	return p.checkInterface(g.Node, next["bridge"])
}

const bridgeMTU = 1500

func mtuError(opt, mtu string) error {
	return Die("netdev %s: MTU '%s' is bigger than the bridge MTU '%d' - adjust the MTU for the network device in the VM configuration, "+
		"while ensuring that the bridge is configured as desired.\n", opt, mtu, bridgeMTU)
}

func (p process) checkInterface(node, bridge string) error {
	if bridge == "" || slices.Contains(p.W.Nodes[node].Bridges, bridge) {
		return nil
	}
	return Die("interface %s does not exist", bridge)
}

// plugDrive changes a drive of a running guest (QemuServer.pm vmconfig_update_disk).
func (p process) plugDrive(g *state.Guest, opt, value string, hotplug bool) error {
	next := p.Server.parseDrive(opt, value)
	old := p.Server.parseDrive(opt, g.Config[opt])
	if next == nil {
		return errSkip
	}
	if g.Config[opt] != "" && old != nil {
		if old.isCDROM() != next.isCDROM() {
			return Die("unable to change media type")
		}
		if old.isCDROM() {
			if old.isCloudinit() && old.file() != next.file() {
				p.registerUnused(g, old)
			}
			return nil
		}
		if old.file() == next.file() {
			for _, k := range []string{"aio", "discard", "iothread", "queues", "product", "vendor", "cache", "ssd", "ro"} {
				if old[k] != next[k] {
					return errSkip
				}
			}
			return p.throttle(g, next)
		}
		if !hotplug || hasIndex(opt, "ide", "sata") {
			return errSkip
		}
		if slices.Contains(bootOrder(g.Config["boot"]), opt) { // Drive.pm get_bootdisks
			return Die("can't unplug bootdisk '%s'", opt)
		}
		if err := p.unplug(g, opt); err != nil {
			return err
		}
		p.registerUnused(g, old)
	}
	if !hotplug || hasIndex(opt, "ide", "sata") {
		return errSkip
	}
	_, err := p.activate(g.Node, next.file())
	return err
}

// throttle hands the I/O limits to QEMU, which wants a base for every maximum.
func (p process) throttle(g *state.Guest, d drive) error {
	for _, pair := range [][2]string{{"iops_max", "iops"}, {"iops_rd_max", "iops_rd"}, {"iops_wr_max", "iops_wr"}} {
		if d[pair[0]] != "" && d[pair[1]] == "" {
			return Die("VM %d qmp command 'block_set_io_throttle' failed - bps_max/iops_max require corresponding bps/iops values", g.VMID)
		}
	}
	return nil
}
