package migrate

import (
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// arrive moves the configuration, which names the copies by now, and lets the old volumes go. One that cannot be freed
// stays where it is, and the task ends with "migration problems".
func (m *migration) arrive() {
	names := map[string]string{}
	for _, v := range m.moving {
		names[v.volid] = v.copy.Volid()
	}
	sections := append(slices.Collect(maps.Values(m.g.Snaps)), m.g.Config, m.g.Pending)
	if m.g.Running != nil {
		sections = append(sections, m.g.Running.Booted)
		m.Engine.Forks++
		m.g.Running.PID = m.Engine.Forks
	}
	for _, conf := range sections {
		m.renameVolumes(conf, names)
	}
	here := m.g.Node
	m.g.Node = m.target
	m.g.StatusAt = m.W.Clock.Now()
	if m.job != nil {
		m.job.Target = here
	}
	for _, v := range m.moving {
		if m.job != nil {
			continue // the old volume is the replica now
		}
		if err := volume.Free(m.Process, here, v.volid); err != nil {
			m.errors = true
			m.say("ERROR: removing local copy of '%s' failed - %s", v.volid, perl.Message(err))
		}
	}
	m.g.SetLock("", "")
}

func (m *migration) renameVolumes(conf map[string]string, names map[string]string) {
	for opt, value := range conf {
		if drive.HasIndex(opt, "unused") || opt == "vmstate" {
			if to := names[value]; to != "" {
				conf[opt] = to
			}
			continue
		}
		d := drive.Drive(nil)
		if drive.IsDrive(opt) {
			d = drive.Parse(m.Engine, opt, value)
		}
		if d == nil || names[d.File()] == "" {
			continue
		}
		d["file"] = names[d.File()]
		if v := m.W.Volume(m.target, d["file"]); v != nil && d["size"] != "" && opt != "efidisk0" {
			d["size"] = schema.FormatSize(v.Size)
		}
		conf[opt] = drive.Print(m.Engine, opt, d)
	}
}
