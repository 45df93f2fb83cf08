package vm

func pciFormat() format[PCI] {
	return format[PCI]{
		defaultKey: "host",
		leaves: []leaf[PCI]{
			text("host", func(p *PCI) **string { return &p.Host }),
			text("mapping", func(p *PCI) **string { return &p.Mapping }),
			flag("pcie", func(p *PCI) **bool { return &p.PCIe }),
			flag("rombar", func(p *PCI) **bool { return &p.ROMBar }),
			text("romfile", func(p *PCI) **string { return &p.ROMFile }),
			flag("x-vga", func(p *PCI) **bool { return &p.XVGA }),
			flag("legacy-igd", func(p *PCI) **bool { return &p.LegacyIGD }),
			text("mdev", func(p *PCI) **string { return &p.MDev }),
			text("vendor-id", func(p *PCI) **string { return &p.VendorID }),
			text("device-id", func(p *PCI) **string { return &p.DeviceID }),
			text("sub-vendor-id", func(p *PCI) **string { return &p.SubVendorID }),
			text("sub-device-id", func(p *PCI) **string { return &p.SubDeviceID }),
			text("driver", func(p *PCI) **string { return &p.Driver }),
		},
		rest: func(p *PCI) *map[string]string { return &p.Rest },
	}
}

func usbFormat() format[USB] {
	return format[USB]{
		defaultKey: "host",
		leaves: []leaf[USB]{
			text("host", func(u *USB) **string { return &u.Host }),
			text("mapping", func(u *USB) **string { return &u.Mapping }),
			flag("usb3", func(u *USB) **bool { return &u.USB3 }),
		},
		rest: func(u *USB) *map[string]string { return &u.Rest },
	}
}

func numaFormat() format[NUMANode] {
	return format[NUMANode]{
		leaves: []leaf[NUMANode]{
			text("cpus", func(n *NUMANode) **string { return &n.CPUs }),
			integer("memory", func(n *NUMANode) **int64 { return &n.Memory }),
			text("hostnodes", func(n *NUMANode) **string { return &n.HostNodes }),
			text("policy", func(n *NUMANode) **string { return &n.Policy }),
		},
		rest: func(n *NUMANode) *map[string]string { return &n.Rest },
	}
}

func virtioFSFormat() format[VirtioFS] {
	return format[VirtioFS]{
		defaultKey: "dirid",
		leaves: []leaf[VirtioFS]{
			text("dirid", func(v *VirtioFS) **string { return &v.DirID }),
			text("cache", func(v *VirtioFS) **string { return &v.Cache }),
			flag("direct-io", func(v *VirtioFS) **bool { return &v.DirectIO }),
			flag("expose-xattr", func(v *VirtioFS) **bool { return &v.ExposeXattr }),
			flag("expose-acl", func(v *VirtioFS) **bool { return &v.ExposeACL }),
		},
		rest: func(v *VirtioFS) *map[string]string { return &v.Rest },
	}
}
