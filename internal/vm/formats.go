package vm

import (
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
)

// group makes an option of a property string whose sub-keys live in a part of Spec.
func group[T holder](key string, f format[T], field func(*Spec) *T, facts ...Fact) leaf[Spec] {
	return leaf[Spec]{
		key: key, facts: collect(facts...), rows: f.rows,
		read: func(s *Spec, value string) bool { return f.decode(field(s), value) },
		show: func(s *Spec) (string, bool) {
			value := f.encode(field(s))
			return value, value != ""
		},
		merge:    func(dst, want *Spec) { f.merge(field(dst), field(want)) },
		keys:     f.keys,
		copyRest: func(from, to *Spec) { f.copyRest(field(from), field(to)) },
		fillRest: func(s, server *Spec) { f.fillRest(field(s), field(server)) },
		rebase: func(server, prior, planned *Spec) {
			if has := field(server); f.encode(has) != "" { // else a part could stand without what the option needs
				f.rebase(has, field(prior), field(planned))
			}
		},
	}
}

func machineFormat() format[Spec] {
	suspend := since(8, 3, 5, "8.4", "qemu-server 8.3.10: QemuServer/Machine.pm, machine_fmt (80ddee39)")
	return format[Spec]{
		defaultKey: "type",
		leaves: []leaf[Spec]{
			text("type", func(s *Spec) **string { return &s.Machine }, at("/machine"), usually("`pc`")),
			text("viommu", func(s *Spec) **string { return &s.MachineOptions.VIOMMU }, at("/machine_options.viommu"),
				usually("none"),
				since(8, 1, 10, "8.2", "qemu-server 8.1.2: QemuServer.pm, machine_fmt (2db4c272)")),
			integer("aw-bits", func(s *Spec) **int64 { return &s.MachineOptions.AWBits }, at("/machine_options.aw_bits"),
				usually("QEMU's"),
				since(9, 0, 9, "9.1", "qemu-server 9.0.21: QemuServer/Machine.pm, machine_fmt (dc52c006)")),
			flag("enable-s3", func(s *Spec) **bool { return &s.MachineOptions.EnableS3 }, at("/machine_options.enable_s3"),
				usually("as the machine version has it"), suspend),
			flag("enable-s4", func(s *Spec) **bool { return &s.MachineOptions.EnableS4 }, at("/machine_options.enable_s4"),
				usually("as the machine version has it"), suspend),
		},
		rest: func(s *Spec) *map[string]string { return &s.MachineRest },
	}
}

var cpuFormat = sync.OnceValue(func() format[CPU] {
	return format[CPU]{
		defaultKey: "cputype",
		leaves: []leaf[CPU]{
			text("cputype", func(c *CPU) **string { return &c.Type }, at("type"), initial(defaultCPU)),
			list("flags", func(c *CPU) *[]string { return &c.Flags }, property.ParseFlags, property.ShowFlags),
			flag("hidden", func(c *CPU) **bool { return &c.Hidden }, usually("`false`")),
			text("hv-vendor-id", func(c *CPU) **string { return &c.HVVendorID }),
			text("phys-bits", func(c *CPU) **string { return &c.PhysBits }, usually("by type")),
			integer("guest-phys-bits", func(c *CPU) **int64 { return &c.GuestPhysBits }, usually("`phys_bits`"),
				since(9, 0, 5, "9.1", "qemu-server 9.0.18: QemuServer/CPUConfig.pm, cpu_fmt (2f3c741b)")),
			integer("level", func(c *CPU) **int64 { return &c.Level }, usually("by type"),
				since(9, 1, 15, "9.2", "qemu-server 9.1.14: QemuServer/CPUConfig.pm, cpu_fmt (82f0c412)")),
			text("reported-model", func(c *CPU) **string { return &c.ReportedModel }),
		},
		rest: func(c *CPU) *map[string]string { return &c.Rest },
	}
})

var agentFormat = sync.OnceValue(func() format[Agent] {
	return format[Agent]{
		defaultKey: "enabled",
		leaves: []leaf[Agent]{
			flag("enabled", func(a *Agent) **bool { return &a.Enabled }, initial("false")),
			text("type", func(a *Agent) **string { return &a.Type }, initial("virtio")),
			flag("fstrim_cloned_disks", func(a *Agent) **bool { return &a.FSTrimClonedDisks }, initial("false")),
			flag("freeze-fs-on-backup", func(a *Agent) **bool { return &a.FreezeFSOnBackup }, initial("true")),
		},
		aliases: map[string]string{"freeze-fs": "freeze-fs-on-backup", "guest-fsfreeze": "freeze-fs-on-backup"},
		rest:    func(a *Agent) *map[string]string { return &a.Rest },
	}
})

var customFormat = sync.OnceValue(func() format[CustomData] {
	return format[CustomData]{leaves: []leaf[CustomData]{
		text("user", func(c *CustomData) **string { return &c.User }),
		text("network", func(c *CustomData) **string { return &c.Network }),
		text("meta", func(c *CustomData) **string { return &c.Meta }),
		text("vendor", func(c *CustomData) **string { return &c.Vendor }),
	}}
})

// customOption is cicustom, which stands behind a pointer.
func customOption() leaf[Spec] {
	f := customFormat()
	return leaf[Spec]{
		key: "cicustom", facts: collect(at("cloud_init.custom"), configCloudInit, namesVolume),
		keys: f.keys, rows: f.rows,
		read: func(s *Spec, value string) bool {
			var c CustomData
			ok := f.decode(&c, value)
			if ok && c != (CustomData{}) {
				s.CloudInit.Custom = &c
			}
			return ok
		},
		show: func(s *Spec) (string, bool) {
			if s.CloudInit.Custom == nil {
				return "", false
			}
			value := f.encode(s.CloudInit.Custom)
			return value, value != ""
		},
		merge: func(dst, want *Spec) {
			if want.CloudInit.Custom == nil {
				return
			}
			var c CustomData
			if dst.CloudInit.Custom != nil {
				c = *dst.CloudInit.Custom
			}
			f.merge(&c, want.CloudInit.Custom)
			dst.CloudInit.Custom = &c
		},
		rebase: func(server, prior, planned *Spec) {
			has, was, is := server.CloudInit.Custom, prior.CloudInit.Custom, planned.CloudInit.Custom
			if has != nil && was != nil && is != nil {
				before, after := *was, *is
				f.rebase(has, &before, &after)
				prior.CloudInit.Custom, planned.CloudInit.Custom = &before, &after
			}
		},
	}
}

var pciFormat = sync.OnceValue(func() format[PCI] {
	return format[PCI]{
		defaultKey: "host",
		leaves: []leaf[PCI]{
			text("host", func(p *PCI) **string { return &p.Host }, rootOnly(withMapping)),
			text("mapping", func(p *PCI) **string { return &p.Mapping }, granted("Mapping.Use", "/mapping/pci/%s", "")),
			flag("pcie", func(p *PCI) **bool { return &p.PCIe }, usually("`false`")),
			flag("rombar", func(p *PCI) **bool { return &p.ROMBar }, usually("`true`")),
			text("romfile", func(p *PCI) **string { return &p.ROMFile }, rootOnly(withQM)),
			flag("x-vga", func(p *PCI) **bool { return &p.XVGA }, usually("`false`")),
			flag("legacy-igd", func(p *PCI) **bool { return &p.LegacyIGD }, usually("`false`")),
			text("mdev", func(p *PCI) **string { return &p.MDev }),
			text("vendor-id", func(p *PCI) **string { return &p.VendorID }),
			text("device-id", func(p *PCI) **string { return &p.DeviceID }),
			text("sub-vendor-id", func(p *PCI) **string { return &p.SubVendorID }),
			text("sub-device-id", func(p *PCI) **string { return &p.SubDeviceID }),
			text("driver", func(p *PCI) **string { return &p.Driver }, usually("`vfio`"),
				since(9, 0, 11, "9.1", "qemu-server 9.0.25: QemuServer/PCI.pm, hostpci_fmt (aa47045f)")),
		},
		rest: func(p *PCI) *map[string]string { return &p.Rest },
	}
})

var usbFormat = sync.OnceValue(func() format[USB] {
	return format[USB]{
		defaultKey: "host",
		leaves: []leaf[USB]{
			text("host", func(u *USB) **string { return &u.Host }, rootValues(withMapping, allBut("spice"))),
			text("mapping", func(u *USB) **string { return &u.Mapping }, granted("Mapping.Use", "/mapping/usb/%s", "")),
			flag("usb3", func(u *USB) **bool { return &u.USB3 }, usually("`false`")),
		},
		rest: func(u *USB) *map[string]string { return &u.Rest },
	}
})

func numaFormat() format[NUMANode] {
	return format[NUMANode]{
		leaves: []leaf[NUMANode]{
			text("cpus", func(n *NUMANode) **string { return &n.CPUs }),
			integer("memory", func(n *NUMANode) **int64 { return &n.Memory }),
			text("hostnodes", func(n *NUMANode) **string { return &n.HostNodes }, usually("any")),
			text("policy", func(n *NUMANode) **string { return &n.Policy }),
		},
		rest: func(n *NUMANode) *map[string]string { return &n.Rest },
	}
}

func virtioFSFormat() format[VirtioFS] {
	return format[VirtioFS]{
		defaultKey: "dirid",
		leaves: []leaf[VirtioFS]{
			text("dirid", func(v *VirtioFS) **string { return &v.DirID }, granted("Mapping.Use", "/mapping/dir/%s", "")),
			text("cache", func(v *VirtioFS) **string { return &v.Cache }, usually("`auto`")),
			flag("direct-io", func(v *VirtioFS) **bool { return &v.DirectIO }, usually("`false`")),
			flag("expose-xattr", func(v *VirtioFS) **bool { return &v.ExposeXattr }, usually("`false`")),
			flag("expose-acl", func(v *VirtioFS) **bool { return &v.ExposeACL }, usually("`false`")),
		},
		rest: func(v *VirtioFS) *map[string]string { return &v.Rest },
	}
}

// groupOptions are the options of one property string each.
func groupOptions() []leaf[Spec] {
	return []leaf[Spec]{
		group("agent", agentFormat(), func(s *Spec) *Agent { return &s.Agent }, configOptions),
		startupOption(),
		smbiosOption(),
		group("vga", vgaFormat(), func(s *Spec) *VGA { return &s.VGA }, configHWType, atStart),
		group("audio0", audioFormat(), func(s *Spec) *Audio { return &s.Audio }, at("audio"), configHWType, atStart),
		group("rng0", rngFormat(), func(s *Spec) *RNG { return &s.RNG }, at("rng"), configHWType, atStart),
		group("watchdog", watchdogFormat(), func(s *Spec) *Watchdog { return &s.Watchdog }, configHWType, atStart),
		group("spice_enhancements", spiceFormat(), func(s *Spec) *SpiceEnhancements { return &s.SpiceEnhancements },
			rootOnly(withQM), atStart),
		group("ivshmem", ivshmemFormat(), func(s *Spec) *IVSHMEM { return &s.IVSHMEM }, rootOnly(withQM), atStart),
		group("amd-sev", sevFormat(), func(s *Spec) *AMDSEV { return &s.AMDSEV }, rootOnly(withQM), atStart,
			since(8, 2, 8, "8.3", "qemu-server 8.2.7: QemuServer.pm, confdesc (5d7288a4)")),
		group("intel-tdx", tdxFormat(), func(s *Spec) *IntelTDX { return &s.IntelTDX }, rootOnly(withQM), atStart,
			since(9, 0, 11, "9.1", "qemu-server 9.0.25: QemuServer/CPUConfig.pm, tdx_fmt (db96e126)")),
	}
}

// startupOption prints every sub-key with its name: PVE takes a bare "0" for nothing (pve-common JSONSchema.pm
// parse_startup_order).
func startupOption() leaf[Spec] {
	f := startupFormat()
	o := group("startup", f, func(s *Spec) *Startup { return &s.Startup },
		configOptions, immediate, keepsStatus,
		granted("Sys.Modify", "/", "leave startup out: it changes what the node does, not only the VM"))
	o.show = func(s *Spec) (string, bool) {
		value := property.Print(f.showAll(&s.Startup), "")
		return value, value != ""
	}
	return o
}

func startupFormat() format[Startup] {
	return format[Startup]{
		defaultKey: "order",
		leaves: []leaf[Startup]{
			integer("order", func(u *Startup) **int64 { return &u.Order }, usually("after all that have one")),
			integer("up", func(u *Startup) **int64 { return &u.Up }, usually("0")),
			integer("down", func(u *Startup) **int64 { return &u.Down }, usually("180")),
		},
		rest: func(u *Startup) *map[string]string { return &u.Rest },
	}
}

func vgaFormat() format[VGA] {
	return format[VGA]{
		defaultKey: "type",
		leaves: []leaf[VGA]{
			text("type", func(v *VGA) **string { return &v.Type }, usually("`std`")),
			integer("memory", func(v *VGA) **int64 { return &v.Memory }, usually("by type")),
			text("clipboard", func(v *VGA) **string { return &v.Clipboard }, usually("none"),
				since(8, 0, 9, "8.1", "qemu-server 8.0.9: QemuServer.pm, vga_fmt (b62997a1)")),
		},
		rest: func(v *VGA) *map[string]string { return &v.Rest },
	}
}

func audioFormat() format[Audio] {
	return format[Audio]{
		leaves: []leaf[Audio]{
			text("device", func(a *Audio) **string { return &a.Device }),
			text("driver", func(a *Audio) **string { return &a.Driver }, usually("`spice`")),
		},
		rest: func(a *Audio) *map[string]string { return &a.Rest },
	}
}

func rngFormat() format[RNG] {
	return format[RNG]{
		defaultKey: "source",
		leaves: []leaf[RNG]{
			text("source", func(r *RNG) **string { return &r.Source },
				grantedFor("/dev/hwrng", "Mapping.Use", "/mapping/hwrng")),
			integer("max_bytes", func(r *RNG) **int64 { return &r.MaxBytes }, usually("1024")),
			integer("period", func(r *RNG) **int64 { return &r.Period }, usually("1000")),
		},
		rest: func(r *RNG) *map[string]string { return &r.Rest },
	}
}

func watchdogFormat() format[Watchdog] {
	return format[Watchdog]{
		defaultKey: "model",
		leaves: []leaf[Watchdog]{
			text("model", func(w *Watchdog) **string { return &w.Model }, usually("`i6300esb`")),
			text("action", func(w *Watchdog) **string { return &w.Action }, usually("QEMU's, `reset`")),
		},
		rest: func(w *Watchdog) *map[string]string { return &w.Rest },
	}
}

func spiceFormat() format[SpiceEnhancements] {
	return format[SpiceEnhancements]{
		leaves: []leaf[SpiceEnhancements]{
			flag("foldersharing", func(e *SpiceEnhancements) **bool { return &e.FolderSharing }, usually("`false`")),
			text("videostreaming", func(e *SpiceEnhancements) **string { return &e.VideoStreaming }, usually("`off`")),
		},
		rest: func(e *SpiceEnhancements) *map[string]string { return &e.Rest },
	}
}

func ivshmemFormat() format[IVSHMEM] {
	return format[IVSHMEM]{
		leaves: []leaf[IVSHMEM]{
			integer("size", func(m *IVSHMEM) **int64 { return &m.Size }),
			text("name", func(m *IVSHMEM) **string { return &m.Name }, usually("the VMID")),
		},
		rest: func(m *IVSHMEM) *map[string]string { return &m.Rest },
	}
}

func sevFormat() format[AMDSEV] {
	return format[AMDSEV]{
		defaultKey: "type",
		leaves: []leaf[AMDSEV]{
			text("type", func(e *AMDSEV) **string { return &e.Type }),
			flag("no-debug", func(e *AMDSEV) **bool { return &e.NoDebug }, usually("`false`")),
			flag("no-key-sharing", func(e *AMDSEV) **bool { return &e.NoKeySharing }, usually("`false`")),
			flag("allow-smt", func(e *AMDSEV) **bool { return &e.AllowSMT }, usually("`true`")),
			flag("kernel-hashes", func(e *AMDSEV) **bool { return &e.KernelHashes }, usually("`false`")),
		},
		rest: func(e *AMDSEV) *map[string]string { return &e.Rest },
	}
}

func tdxFormat() format[IntelTDX] {
	return format[IntelTDX]{
		defaultKey: "type",
		leaves: []leaf[IntelTDX]{
			text("type", func(x *IntelTDX) **string { return &x.Type }),
			flag("attestation", func(x *IntelTDX) **bool { return &x.Attestation }, usually("`true`")),
			integer("vsock-cid", func(x *IntelTDX) **int64 { return &x.VsockCID }, usually("2, the node")),
			integer("vsock-port", func(x *IntelTDX) **int64 { return &x.VsockPort }, usually("4050")),
		},
		rest: func(x *IntelTDX) *map[string]string { return &x.Rest },
	}
}
