package vm

// groupOptions are the options of one property string each.
func groupOptions() []leaf[Spec] {
	return []leaf[Spec]{
		group("agent", agentFormat(), func(s *Spec) *Agent { return &s.Agent }),
		startupOption(),
		atStart(smbiosOption()),
		atStart(group("vga", vgaFormat(), func(s *Spec) *VGA { return &s.VGA })),
		atStart(group("audio0", audioFormat(), func(s *Spec) *Audio { return &s.Audio })),
		atStart(group("rng0", rngFormat(), func(s *Spec) *RNG { return &s.RNG })),
		atStart(group("watchdog", watchdogFormat(), func(s *Spec) *Watchdog { return &s.Watchdog })),
		atStart(group("spice_enhancements", spiceFormat(), func(s *Spec) *SpiceEnhancements { return &s.SpiceEnhancements })),
		atStart(group("ivshmem", ivshmemFormat(), func(s *Spec) *IVSHMEM { return &s.IVSHMEM })),
		atStart(group("amd-sev", sevFormat(), func(s *Spec) *AMDSEV { return &s.AMDSEV })),
		atStart(group("intel-tdx", tdxFormat(), func(s *Spec) *IntelTDX { return &s.IntelTDX })),
	}
}

// startupOption prints every sub-key with its name: PVE takes a bare "0" for nothing (pve-common JSONSchema.pm
// parse_startup_order).
func startupOption() leaf[Spec] {
	f := startupFormat()
	o := group("startup", f, func(s *Spec) *Startup { return &s.Startup })
	o.show = func(s *Spec) (string, bool) {
		value := printProperties(f.showAll(&s.Startup), "")
		return value, value != ""
	}
	return o
}

func startupFormat() format[Startup] {
	return format[Startup]{
		defaultKey: "order",
		leaves: []leaf[Startup]{
			integer("order", func(u *Startup) **int64 { return &u.Order }),
			integer("up", func(u *Startup) **int64 { return &u.Up }),
			integer("down", func(u *Startup) **int64 { return &u.Down }),
		},
		rest: func(u *Startup) *map[string]string { return &u.Rest },
	}
}

func vgaFormat() format[VGA] {
	return format[VGA]{
		defaultKey: "type",
		leaves: []leaf[VGA]{
			text("type", func(v *VGA) **string { return &v.Type }),
			integer("memory", func(v *VGA) **int64 { return &v.Memory }),
			text("clipboard", func(v *VGA) **string { return &v.Clipboard }),
		},
		rest: func(v *VGA) *map[string]string { return &v.Rest },
	}
}

func audioFormat() format[Audio] {
	return format[Audio]{
		leaves: []leaf[Audio]{
			text("device", func(a *Audio) **string { return &a.Device }),
			text("driver", func(a *Audio) **string { return &a.Driver }),
		},
		rest: func(a *Audio) *map[string]string { return &a.Rest },
	}
}

func rngFormat() format[RNG] {
	return format[RNG]{
		defaultKey: "source",
		leaves: []leaf[RNG]{
			text("source", func(r *RNG) **string { return &r.Source }),
			integer("max_bytes", func(r *RNG) **int64 { return &r.MaxBytes }),
			integer("period", func(r *RNG) **int64 { return &r.Period }),
		},
		rest: func(r *RNG) *map[string]string { return &r.Rest },
	}
}

func watchdogFormat() format[Watchdog] {
	return format[Watchdog]{
		defaultKey: "model",
		leaves: []leaf[Watchdog]{
			text("model", func(w *Watchdog) **string { return &w.Model }),
			text("action", func(w *Watchdog) **string { return &w.Action }),
		},
		rest: func(w *Watchdog) *map[string]string { return &w.Rest },
	}
}

func spiceFormat() format[SpiceEnhancements] {
	return format[SpiceEnhancements]{
		leaves: []leaf[SpiceEnhancements]{
			flag("foldersharing", func(e *SpiceEnhancements) **bool { return &e.FolderSharing }),
			text("videostreaming", func(e *SpiceEnhancements) **string { return &e.VideoStreaming }),
		},
		rest: func(e *SpiceEnhancements) *map[string]string { return &e.Rest },
	}
}

func ivshmemFormat() format[IVSHMEM] {
	return format[IVSHMEM]{
		leaves: []leaf[IVSHMEM]{
			integer("size", func(m *IVSHMEM) **int64 { return &m.Size }),
			text("name", func(m *IVSHMEM) **string { return &m.Name }),
		},
		rest: func(m *IVSHMEM) *map[string]string { return &m.Rest },
	}
}

func sevFormat() format[AMDSEV] {
	return format[AMDSEV]{
		defaultKey: "type",
		leaves: []leaf[AMDSEV]{
			text("type", func(e *AMDSEV) **string { return &e.Type }),
			flag("no-debug", func(e *AMDSEV) **bool { return &e.NoDebug }),
			flag("no-key-sharing", func(e *AMDSEV) **bool { return &e.NoKeySharing }),
			flag("allow-smt", func(e *AMDSEV) **bool { return &e.AllowSMT }),
			flag("kernel-hashes", func(e *AMDSEV) **bool { return &e.KernelHashes }),
		},
		rest: func(e *AMDSEV) *map[string]string { return &e.Rest },
	}
}

func tdxFormat() format[IntelTDX] {
	return format[IntelTDX]{
		defaultKey: "type",
		leaves: []leaf[IntelTDX]{
			text("type", func(x *IntelTDX) **string { return &x.Type }),
			flag("attestation", func(x *IntelTDX) **bool { return &x.Attestation }),
			integer("vsock-cid", func(x *IntelTDX) **int64 { return &x.VsockCID }),
			integer("vsock-port", func(x *IntelTDX) **int64 { return &x.VsockPort }),
		},
		rest: func(x *IntelTDX) *map[string]string { return &x.Rest },
	}
}
