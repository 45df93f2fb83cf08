package vm

// group makes an option of a property string whose sub-keys live in a part of Spec.
func group[T holder](key string, f format[T], at func(*Spec) *T) leaf[Spec] {
	return leaf[Spec]{
		key:  key,
		read: func(s *Spec, value string) bool { return f.decode(at(s), value) },
		show: func(s *Spec) (string, bool) {
			value := f.encode(at(s))
			return value, value != ""
		},
		merge:    func(dst, want *Spec) { f.merge(at(dst), at(want)) },
		keys:     f.keys,
		copyRest: func(from, to *Spec) { f.copyRest(at(from), at(to)) },
		fillRest: func(s, server *Spec) { f.fillRest(at(s), at(server)) },
	}
}

func machineFormat() format[Spec] {
	return format[Spec]{
		defaultKey: "type",
		leaves: []leaf[Spec]{
			text("type", func(s *Spec) **string { return &s.Machine }),
			text("viommu", func(s *Spec) **string { return &s.MachineOptions.VIOMMU }),
			integer("aw-bits", func(s *Spec) **int64 { return &s.MachineOptions.AWBits }),
			flag("enable-s3", func(s *Spec) **bool { return &s.MachineOptions.EnableS3 }),
			flag("enable-s4", func(s *Spec) **bool { return &s.MachineOptions.EnableS4 }),
		},
		rest: func(s *Spec) *map[string]string { return &s.MachineRest },
	}
}

func cpuFormat() format[CPU] {
	return format[CPU]{
		defaultKey: "cputype",
		leaves: []leaf[CPU]{
			text("cputype", func(c *CPU) **string { return &c.Type }),
			list("flags", func(c *CPU) *[]string { return &c.Flags }, parseFlags, showFlags),
			flag("hidden", func(c *CPU) **bool { return &c.Hidden }),
			text("hv-vendor-id", func(c *CPU) **string { return &c.HVVendorID }),
			text("phys-bits", func(c *CPU) **string { return &c.PhysBits }),
			integer("guest-phys-bits", func(c *CPU) **int64 { return &c.GuestPhysBits }),
			integer("level", func(c *CPU) **int64 { return &c.Level }),
			text("reported-model", func(c *CPU) **string { return &c.ReportedModel }),
		},
		rest: func(c *CPU) *map[string]string { return &c.Rest },
	}
}

func agentFormat() format[Agent] {
	return format[Agent]{
		defaultKey: "enabled",
		leaves: []leaf[Agent]{
			flag("enabled", func(a *Agent) **bool { return &a.Enabled }),
			text("type", func(a *Agent) **string { return &a.Type }),
			flag("fstrim_cloned_disks", func(a *Agent) **bool { return &a.FSTrimClonedDisks }),
			flag("freeze-fs-on-backup", func(a *Agent) **bool { return &a.FreezeFSOnBackup }),
		},
		aliases: map[string]string{"freeze-fs": "freeze-fs-on-backup", "guest-fsfreeze": "freeze-fs-on-backup"},
		rest:    func(a *Agent) *map[string]string { return &a.Rest },
	}
}

func customFormat() format[CustomData] {
	return format[CustomData]{leaves: []leaf[CustomData]{
		text("user", func(c *CustomData) **string { return &c.User }),
		text("network", func(c *CustomData) **string { return &c.Network }),
		text("meta", func(c *CustomData) **string { return &c.Meta }),
		text("vendor", func(c *CustomData) **string { return &c.Vendor }),
	}}
}

// customOption is cicustom, which stands behind a pointer.
func customOption() leaf[Spec] {
	f := customFormat()
	return leaf[Spec]{
		key:  "cicustom",
		keys: f.keys,
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
	}
}
