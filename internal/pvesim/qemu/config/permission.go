package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// optionPrivilege is the privilege that changing an option takes (qemu-server API2/Qemu.pm,
// check_vm_modify_config_perm); "" for options that only root may set.
func optionPrivilege(opt string) string {
	if drive.HasIndex(opt, "numa") {
		return "VM.Config.CPU"
	}
	if drive.HasIndex(opt, "net") {
		return "VM.Config.Network"
	}
	switch opt {
	case "cores", "cpu", "cpulimit", "cpuunits", "numa", "smp", "sockets", "vcpus":
		return "VM.Config.CPU"
	case "memory", "balloon", "shares", "allow-ksm":
		return "VM.Config.Memory"
	case "acpi", "hotplug", "kvm", "machine", "scsihw", "smbios1", "tablet", "vga", "watchdog", "audio0", "rng0":
		return "VM.Config.HWType"
	case "agent", "autostart", "bios", "description", "keyboard", "localtime", "migrate_downtime", "migrate_speed", "name",
		"onboot", "ostype", "protection", "reboot", "startdate", "startup", "tdf", "template", "tags":
		return "VM.Config.Options"
	case "freeze":
		return "VM.PowerMgmt"
	case "boot", "bootdisk", "vmstatestorage":
		return "VM.Config.Disk"
	}
	return ""
}

func isCloudinitOption(opt string) bool {
	return drive.HasIndex(opt, "ipconfig") || slices.Contains([]string{
		"cicustom", "cipassword", "citype", "ciuser", "ciupgrade", "nameserver", "searchdomain", "sshkeys",
	}, opt)
}

// CheckOptions asks for the privilege of each option. Drives, serial ports, USB, passed-through devices and tags are
// judged by their value elsewhere.
func CheckOptions(r *engine.Request, vmid int, pool string, options []string) error {
	if r.Auth.IsRoot() {
		return nil
	}
	slices.Sort(options)
	for _, opt := range options {
		if drive.IsDrive(opt) || opt == "cdrom" || opt == "tags" ||
			drive.HasIndex(opt, "unused", "serial", "usb", "hostpci") {
			continue
		}
		if err := checkOption(r, vmid, pool, opt); err != nil {
			return err
		}
	}
	return nil
}

func checkOption(r *engine.Request, vmid int, pool, opt string) error {
	if isCloudinitOption(opt) {
		if drive.CheckVM(r, vmid, pool, "VM.Config.Cloudinit") == nil {
			return nil
		}
		if drive.CheckVM(r, vmid, pool, "VM.Config.Network") == nil {
			return nil
		}
		return r.CheckAny("/vms/"+strconv.Itoa(vmid), "VM.Config.Cloudinit", "VM.Config.Network")
	}
	if opt == "vmstate" {
		return drive.CheckVM(r, vmid, pool, "VM.Config.Disk", "VM.PowerMgmt")
	}
	if drive.HasIndex(opt, "virtiofs") {
		return drive.CheckVM(r, vmid, pool, "VM.Config.Disk")
	}
	priv := optionPrivilege(opt)
	if priv == "" {
		return perl.Die("only root can set '%s' config", opt)
	}
	if err := drive.CheckVM(r, vmid, pool, priv); err != nil {
		return err
	}
	if opt == "startup" { // it changes what the host does
		return r.Check("/", "Sys.Modify")
	}
	return nil
}

// CheckDevices judges serial ports, USB and PCI devices and directory shares by their values: what names a real device
// of the host is root's, what names a mapping takes Mapping.Use on it.
func CheckDevices(r *engine.Request, vmid int, pool string, params map[string]string, verb string) error {
	if r.Auth.IsRoot() {
		return nil
	}
	for _, opt := range slices.Sorted(maps.Keys(params)) {
		value := params[opt]
		var err error
		switch {
		case drive.HasIndex(opt, "serial"):
			if value != "socket" {
				return perl.Die("only root can %s '%s' config for real devices", verb, opt)
			}
			err = drive.CheckVM(r, vmid, pool, "VM.Config.HWType")
		case drive.HasIndex(opt, "usb"):
			err = checkMapped(r, vmid, pool, opt, value)
		case drive.HasIndex(opt, "hostpci"):
			if err = checkMapping(r, opt, value); err == nil {
				err = drive.CheckVM(r, vmid, pool, "VM.Config.HWType")
			}
		case drive.HasIndex(opt, "virtiofs"):
			if err = drive.CheckVM(r, vmid, pool, "VM.Config.Disk"); err == nil {
				err = checkMapping(r, opt, value)
			}
		case drive.HasIndex(opt, "rng"):
			if err = drive.CheckVM(r, vmid, pool, "VM.Config.HWType"); err == nil {
				err = checkMapping(r, opt, value)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckMappings asks for the mappings of a configuration that is copied (qemu-server QemuServer.pm,
// check_mapping_access; API2/Qemu.pm, clone_vm).
func CheckMappings(r *engine.Request, conf map[string]string) error {
	if r.Auth.IsRoot() {
		return nil
	}
	for _, opt := range slices.Sorted(maps.Keys(conf)) {
		if err := checkMapping(r, opt, conf[opt]); err != nil {
			return err
		}
	}
	return CheckCPUModel(r, conf["cpu"], "")
}

// checkMapping asks for what a device names: a mapping, or a device of the host, which is root's.
func checkMapping(r *engine.Request, opt, value string) error {
	kind := map[string]string{"usb": "usb", "hostpci": "pci", "virtiofs": "dir"}[strings.TrimRight(opt, "0123456789")]
	switch host := perl.Subvalue(value, "host", true); {
	case kind == "dir":
		return r.Check("/mapping/dir/"+perl.Subvalue(value, "dirid", true), "Mapping.Use")
	case drive.HasIndex(opt, "rng"):
		if perl.Subvalue(value, "source", true) != "/dev/hwrng" {
			return nil
		}
		if !r.W.Has(state.RNGMapping) {
			return perl.Die("only root can set '%s' config for a non-mapped Hardware RNG device", opt)
		}
		return r.Check("/mapping/hwrng", "Mapping.Use")
	case kind == "usb" && host != "" && !strings.EqualFold(host, "spice"):
		return perl.Die("only root can set '%s' config for real devices", opt)
	case kind == "pci" && host != "":
		return perl.Die("only root can set '%s' config for non-mapped devices", opt)
	}
	if m := perl.Subvalue(value, "mapping", false); kind != "" && m != "" {
		return r.Check("/mapping/"+kind+"/"+m, "Mapping.Use")
	}
	return nil
}

// CheckCPUModel asks for a custom CPU type that a VM gets and did not have (check_cpu_model_access).
func CheckCPUModel(r *engine.Request, is, was string) error {
	model := perl.Subvalue(is, "cputype", true)
	name, custom := strings.CutPrefix(model, "custom-")
	if !custom || model == perl.Subvalue(was, "cputype", true) || !r.W.Has(state.CPUMapping) {
		return nil
	}
	return r.Check("/mapping/cpu/"+name, "Mapping.Use")
}

func checkMapped(r *engine.Request, vmid int, pool, opt, value string) error {
	if err := drive.CheckVM(r, vmid, pool, "VM.Config.HWType"); err != nil {
		return err
	}
	return checkMapping(r, opt, value)
}

// CheckBridges asks for SDN.Use on the bridge of every NIC, or on its VLAN tags (guest-common GuestHelpers.pm,
// check_vnet_access; since 8.0).
func CheckBridges(r *engine.Request, params map[string]string) error {
	for _, opt := range slices.Sorted(maps.Keys(params)) {
		if !drive.HasIndex(opt, "net") {
			continue
		}
		f, ok := r.Engine.Config.Schema.Format(opt)
		if !ok {
			continue
		}
		n, err := f.Parse(params[opt])
		if err != nil {
			continue
		}
		switch {
		case n["bridge"] == "" && (r.Auth.IsRoot() || r.W.Has(state.NoBridge)):
			continue
		case n["bridge"] == "":
			return perl.Die("no sdn vnet ID specified")
		}
		path := "/sdn/zones/localnetwork/" + n["bridge"]
		paths := []string{path}
		if n["tag"] != "" {
			paths = []string{path + "/" + n["tag"]}
		}
		if n["trunks"] != "" {
			if n["tag"] == "" {
				paths = nil
			}
			for _, t := range strings.Split(n["trunks"], ";") {
				first, _, _ := strings.Cut(t, "-")
				paths = append(paths, path+"/"+first)
			}
		}
		for _, p := range paths {
			if err := r.Check(p, "SDN.Use"); err != nil {
				return err
			}
		}
	}
	return nil
}
