package story_test

import (
	"fmt"
	"maps"
	"slices"
)

// edit is a change of a configuration. It returns its description, or nothing where it does not fit.
type edit struct {
	name string
	do   func(*story, *workdir, *machine) string
}

// edits are all of them.
func edits() []edit {
	text := func(name string, values []string, at func(*machine) *string) edit {
		return edit{name, func(s *story, _ *workdir, m *machine) string {
			field := at(m)
			value := pick(s, values)
			if value == *field {
				return ""
			}
			*field = value
			return fmt.Sprintf("%s of %s: %q", name, m.name, value)
		}}
	}
	return append([]edit{
		{"memory", func(s *story, _ *workdir, m *machine) string {
			m.memory = pick(s, []int{512, 768, 1024, 2048})
			return fmt.Sprintf("memory of %s: %d", m.name, m.memory)
		}},
		{"name", func(s *story, _ *workdir, m *machine) string {
			m.label = fmt.Sprintf("vm-%s-%d", m.name, s.rng.IntN(100))
			return fmt.Sprintf("name of %s: %s", m.name, m.label)
		}},
		{"snapshot", func(_ *story, _ *workdir, m *machine) string {
			m.snapshot = !m.snapshot
			return fmt.Sprintf("snapshot of %s: %t", m.name, m.snapshot)
		}},
		{"node", func(s *story, _ *workdir, m *machine) string {
			if len(s.place.nodes) == 1 {
				return ""
			}
			m.node = map[string]string{"pve1": "pve2", "pve2": "pve1"}[m.node]
			return fmt.Sprintf("node of %s: %s", m.name, m.node)
		}},
		text("description", []string{"", "one", "two"}, func(m *machine) *string { return &m.description }),
		text("tags", []string{"", "red", "blue"}, func(m *machine) *string { return &m.tags }),
		text("power_state", []string{"", "running", "stopped"}, func(m *machine) *string { return &m.power }),
		text("removed_disks", []string{"", "destroy", "detach"}, func(m *machine) *string { return &m.removed }),
		text("on_destroy", []string{"", "graceful_only", "force"}, func(m *machine) *string { return &m.powerOff }),
		{"ha", func(s *story, _ *workdir, m *machine) string {
			if !s.place.ha {
				return ""
			}
			m.ha = pick(s, []string{"", "started", "stopped", "ignored"})
			if m.ha != "" {
				m.power = ""
			}
			return fmt.Sprintf("ha of %s: %q", m.name, m.ha)
		}},
	}, diskEdits()...)
}

// slots are those of a machine's further disks.
func slots() []string { return []string{"scsi1", "scsi2", "virtio1", "sata1"} }

// diskEdits are those about disks.
func diskEdits() []edit {
	one := func(s *story, m *machine, further bool) string {
		list := slices.Sorted(maps.Keys(m.disks))
		if further {
			list = slices.DeleteFunc(list, func(slot string) bool { return slot == "scsi0" })
		}
		if len(list) == 0 {
			return ""
		}
		return pick(s, list)
	}
	return []edit{
		{"slot filled", func(s *story, _ *workdir, m *machine) string {
			slot := pick(s, slots())
			if _, has := m.disks[slot]; has {
				return ""
			}
			m.disks[slot] = drive{pick(s, s.place.storages), 1}
			return fmt.Sprintf("%s of %s: %v", slot, m.name, m.disks[slot])
		}},
		{"slot emptied", func(s *story, _ *workdir, m *machine) string {
			slot := one(s, m, true)
			delete(m.disks, slot)
			if slot == "" {
				return ""
			}
			return fmt.Sprintf("%s of %s is emptied", slot, m.name)
		}},
		{"disk grown", func(s *story, _ *workdir, m *machine) string {
			slot := one(s, m, false)
			m.disks[slot] = drive{m.disks[slot].storage, m.disks[slot].size + 1}
			return fmt.Sprintf("%s of %s: %v", slot, m.name, m.disks[slot])
		}},
		{"disk moved", func(s *story, _ *workdir, m *machine) string {
			slot := one(s, m, m.source == cloned) // of a clone the storage of the first disk is that of the clone block
			if slot == "" {
				return ""
			}
			m.disks[slot] = drive{pick(s, s.place.storages), m.disks[slot].size}
			return fmt.Sprintf("%s of %s: %v", slot, m.name, m.disks[slot])
		}},
		{"shared disk goes on", func(_ *story, d *workdir, _ *machine) string {
			if d.disk == nil {
				return ""
			}
			for n, m := range d.vms { // the one before gives it up first
				if m.attached {
					m.attached = false
					return fmt.Sprintf("%s gives up the shared disk", d.vms[n].name)
				}
			}
			next := d.vms[d.disk.size%len(d.vms)]
			next.attached = true
			d.disk.size++
			return fmt.Sprintf("%s gets the shared disk, of %d GiB", next.name, d.disk.size)
		}},
	}
}
