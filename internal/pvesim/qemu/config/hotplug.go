package config

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
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

// Features are the classes of devices that can be hotplugged.
func Features(conf map[string]string) map[string]bool {
	value := conf["hotplug"]
	switch value {
	case "", "1":
		value = "network,disk,usb"
	case "0":
		value = ""
	}
	set := map[string]bool{}
	for _, f := range perl.SplitList(value) {
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
// (QemuServer.pm vmconfig_hotplug_pending). A change that fails stays pending and is reported.
func hotplug(p engine.Process, g *state.Guest, modified map[string]bool, errs map[string]string) {
	for _, opt := range slices.Sorted(maps.Keys(g.Pending)) {
		if fastPlug(opt) {
			recordCloudinit(g, opt, g.Config[opt], g.Pending[opt])
			setOption(p, g, opt, g.Pending[opt])
			delete(g.Pending, opt)
		}
	}
	feature := Features(g.Config)
	note := func(opt string, err error) bool {
		if err == nil {
			return true
		}
		if !errors.Is(err, errSkip) {
			errs[opt] = "hotplug problem - " + perl.Message(err) + "\n"
		}
		return false
	}
	for _, opt := range slices.Sorted(maps.Keys(g.Deletes)) {
		if modified[opt] && note(opt, unplugOption(p, g, opt, feature, g.Deletes[opt] == 2)) {
			recordCloudinit(g, opt, g.Config[opt], "")
			dropOption(p, g, opt)
			delete(booted(g), opt)
			delete(g.Deletes, opt)
		}
	}
	for _, opt := range slices.Sorted(maps.Keys(g.Pending)) {
		if modified[opt] && note(opt, plugOption(p, g, opt, g.Pending[opt], feature)) {
			g.Config[opt] = g.Pending[opt]
			booted(g)[opt] = inQEMU(p, g, opt, g.Pending[opt])
			delete(g.Pending, opt)
		}
	}
	if feature["cloudinit"] && len(g.Cloudinit) > 0 {
		if err := BuildCloudinit(p, g); err != nil {
			p.Logf("%s", perl.Message(err))
		}
	}
	Write(p.Engine, g)
}

func unplugOption(p engine.Process, g *state.Guest, opt string, feature map[string]bool, force bool) error {
	switch {
	case fastPlug(opt), opt == "cpuunits", opt == "cpulimit":
		return nil
	case opt == "hotplug":
		return skipIf(isFixedAtStart(p, g.Config["hotplug"]))
	case opt == "tablet":
		return skipIf(!feature["usb"])
	case drive.HasIndex(opt, "usb"):
		return skipIf(!feature["usb"] || !HasXHCI(p, g.Config))
	case opt == "vcpus":
		return skipIf(!feature["cpu"])
	case opt == "balloon":
		return skipIf(g.Config["balloon"] == "0")
	case drive.HasIndex(opt, "net"):
		if !feature["network"] {
			return errSkip
		}
		return unplug(p, g, opt)
	case drive.IsDrive(opt):
		if !feature["disk"] || drive.HasIndex(opt, "ide", "sata", "efidisk", "tpmstate") {
			return errSkip
		}
		if err := unplugDrive(p, g, opt); err != nil {
			return err
		}
		return detach(p, g, opt, drive.Parse(p.Engine, opt, g.Config[opt]), force)
	case opt == "memory":
		return skipIf(!feature["memory"])
	}
	return errSkip
}

// isFixedAtStart tells whether a setting of hotplug has a feature for which QEMU has to be started.
func isFixedAtStart(p engine.Process, hotplug string) bool {
	return strings.Contains(hotplug, "memory") || strings.Contains(hotplug, "cpu") && p.W.Has(state.VCPUPlugFixed)
}

func skipIf(skip bool) error {
	if skip {
		return errSkip
	}
	return nil
}

func plugOption(p engine.Process, g *state.Guest, opt, value string, feature map[string]bool) error {
	switch {
	case opt == "hotplug":
		return skipIf(isFixedAtStart(p, value) || isFixedAtStart(p, g.Config["hotplug"]))
	case opt == "tablet":
		return skipIf(!feature["usb"])
	case drive.HasIndex(opt, "usb"):
		takes := feature["usb"] && HasXHCI(p, g.Config)
		if takes && g.Config[opt] != "" {
			noteUnplugged(g, opt) // qemu_usb_hotplug
		}
		return skipIf(!takes)
	case opt == "vcpus":
		if most := max(perl.Number(g.Config["sockets"]), 1) * max(perl.Number(g.Config["cores"]), 1); feature["cpu"] &&
			perl.Number(value) > most {
			return perl.Die("you can't add more vcpus than maxcpus") // qemu_cpu_hotplug
		}
		return skipIf(!feature["cpu"])
	case opt == "memory":
		return skipIf(!feature["memory"])
	case opt == "balloon":
		return skipIf((g.Config["balloon"] == "0") != (value == "0"))
	case opt == "cpuunits", opt == "cpulimit":
		return nil
	case opt == "agent":
		return plugAgent(p, g, value)
	case drive.HasIndex(opt, "net"):
		return plugNet(p, g, opt, value, feature["network"])
	case opt == "efidisk0" || opt == "tpmstate0":
		return errSkip
	case drive.IsDrive(opt):
		return plugDrive(p, g, opt, value, feature["disk"])
	}
	return errSkip
}

// plugAgent lets only fstrim_cloned_disks and freeze-fs-on-backup change while nothing else does (QemuServer.pm
// vmconfig_update_agent).
func plugAgent(p engine.Process, g *state.Guest, value string) error {
	if g.Config["agent"] == "" {
		return errSkip
	}
	f, ok := p.Engine.Config.Schema.Format("agent")
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

func plugNet(p engine.Process, g *state.Guest, opt, value string, hotplug bool) error {
	next := drive.ParseNet(p.Engine, p.W, opt, value)
	if current := g.Config[opt]; current != "" {
		old := drive.ParseNet(p.Engine, p.W, opt, current)
		same := next["bridge"] != "" && old["bridge"] != ""
		for _, k := range []string{"model", "macaddr", "queues", "mtu"} {
			same = same && old[k] == next[k]
		}
		if same {
			return plugInto(p, g, opt, old, next)
		}
		if !hotplug {
			return errSkip
		}
		if err := unplug(p, g, opt); err != nil {
			return err
		}
	}
	if !hotplug {
		return errSkip
	}
	if err := CheckMTU(p, g.Node, opt, next); err != nil {
		return err
	}
	return CheckInterface(p, g.Node, next)
}

// plugInto brings the tap of a device that stays to another bridge or VLAN. Its link goes down first, and PVE brings no
// tap back that it does not get there (QemuServer.pm vmconfig_update_net, tap_unplug before tap_plug).
func plugInto(p engine.Process, g *state.Guest, opt string, old, next map[string]string) error {
	isSame := true
	for _, k := range []string{"bridge", "tag", "trunks", "firewall"} {
		isSame = isSame && old[k] == next[k]
	}
	if isSame {
		return nil
	}
	err := CheckInterface(p, g.Node, next)
	if err != nil {
		delete(booted(g), opt)
	}
	return err
}

// CheckMTU fails if a device is to have a larger one than its bridge, or one that is too small for IP (QemuServer.pm
// print_netdevice_full).
func CheckMTU(p engine.Process, node, opt string, nic map[string]string) error {
	mtu, _ := strconv.ParseInt(nic["mtu"], 10, 64)
	if nic["model"] == "virtio" && nic["bridge"] != "" && mtu > 1 && mtu < 576 {
		return perl.Die("netdev %s: MTU '%d' is smaller than the IP minimum MTU '576'\n", opt, mtu)
	}
	if is := p.W.Nodes[node].MTU(nic["bridge"]); nic["model"] == "virtio" && nic["bridge"] != "" && mtu > is {
		return perl.Die("netdev %s: MTU '%d' is bigger than the bridge MTU '%d' - adjust the MTU for the network device in "+
			"the VM configuration, while ensuring that the bridge is configured as desired.\n", opt, mtu, is)
	}
	return nil
}

// CheckInterface fails as PVE's bridge script does if a network device cannot be attached to its bridge (pve-common
// Network.pm tap_plug, activate_bridge_vlan).
func CheckInterface(p engine.Process, node string, nic map[string]string) error {
	bridge, on := nic["bridge"], p.W.Nodes[node]
	switch isAware := slices.Contains(on.VLANAware, bridge); {
	case bridge == "":
		return nil
	case !slices.Contains(on.Bridges, bridge):
		return perl.Die("interface %s does not exist", bridge)
	case !isAware && nic["trunks"] != "":
		return perl.Die("vlan aware feature need to be enabled to use trunks")
	case !isAware && nic["tag"] != "" && !on.HasUplink(bridge):
		return perl.Die("no physical interface on bridge '%s'\n", bridge)
	}
	return nil
}

// plugDrive changes a drive of a running guest (QemuServer.pm vmconfig_update_disk).
func plugDrive(p engine.Process, g *state.Guest, opt, value string, hotplug bool) error {
	next := drive.Parse(p.Engine, opt, value)
	old := drive.Parse(p.Engine, opt, g.Config[opt])
	if next == nil {
		return errSkip
	}
	if g.Config[opt] != "" && old != nil {
		if old.IsCDROM() != next.IsCDROM() {
			return perl.Die("unable to change media type")
		}
		if old.IsCDROM() {
			booted(g)[opt] = value // QemuServer/Blockdev.pm change_medium: QEMU lets go of the old one first
			if old.IsCloudinit() && next.File() == "none" {
				registerUnused(p, g, old)
			}
			return nil
		}
		if old.File() == next.File() {
			for _, k := range []string{"aio", "discard", "iothread", "queues", "product", "vendor", "cache", "ssd", "ro"} {
				if old[k] != next[k] {
					return errSkip
				}
			}
			return throttle(p, g, next)
		}
		if !hotplug {
			return errSkip
		}
		if err := unplugDrive(p, g, opt); err != nil {
			return err
		}
		registerUnused(p, g, old)
	}
	if !hotplug || drive.HasIndex(opt, "ide", "sata") {
		return errSkip
	}
	if slices.Contains(g.Ignores, "plug") { // QemuServer.pm, qemu_driveadd
		return perl.Die("adding drive failed")
	}
	_, err := volume.Activate(p, g.Node, next.File())
	return err
}

// throttle hands the I/O limits to QEMU, which wants a base for every maximum.
func throttle(p engine.Process, g *state.Guest, d drive.Drive) error {
	for _, pair := range [][2]string{{"iops_max", "iops"}, {"iops_rd_max", "iops_rd"}, {"iops_wr_max", "iops_wr"}} {
		if d[pair[0]] != "" && d[pair[1]] == "" {
			return perl.Die("VM %d qmp command 'block_set_io_throttle' failed - bps_max/iops_max require corresponding "+
				"bps/iops values", g.VMID)
		}
	}
	return nil
}
