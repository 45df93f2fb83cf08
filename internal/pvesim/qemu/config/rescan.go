package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Rescan corrects sizes and makes every image that carries the id and that no option refers to an unused volume
// (qemu-server QemuServer.pm, rescan and update_disk_config, which compares paths); a cloud-init image among them is
// destroyed.
func Rescan(p engine.Process, g *state.Guest) {
	p.Logf("rescan volumes...")
	used := map[string]bool{} // by path
	for _, opt := range slices.Sorted(maps.Keys(g.Config)) {
		if drive.HasIndex(opt, "unused") {
			used[drive.Path(p.W, g.Config[opt])] = true
		}
	}
	for _, opt := range drive.DriveNames(g.Config) {
		d := drive.Parse(p.Engine, opt, g.Config[opt])
		if d == nil {
			continue
		}
		v := p.W.Volume(g.Node, d.File())
		used[drive.Path(p.W, d.File())] = true
		if v == nil || d.IsCDROM() {
			continue
		}
		if size := schema.FormatSize(v.Size); d["size"] != size {
			p.Logf("VM %d (%s): size of disk '%s' updated from %s to %s", g.VMID, opt, d.File(), d["size"], size)
			d["size"] = size
			g.Config[opt] = drive.Print(p.Engine, opt, d)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.W.Storages)) {
		s, err := p.W.StorageActive(g.Node, id)
		if err != nil || !s.Has("images") {
			continue
		}
		for _, v := range p.W.VolumesOn(g.Node, s) {
			image, path := v.Content == "images" || v.Content == "rootdir", s.VolumePath(v.Name)
			if !image || v.VMID != g.VMID || used[path] || strings.Contains(v.Name, fmt.Sprintf("vm-%d-state-", g.VMID)) {
				continue
			}
			used[path] = true
			if err := KeepMoved(p, g, s.Volid(v)); err != nil {
				p.Logf("%s", perl.Message(err))
			}
			p.Logf("VM %d add unreferenced volume '%s' as '%s' to config", g.VMID, s.Volid(v), slotOfUnused(g, s.Volid(v)))
		}
	}
	Write(p.Engine, g)
}

func slotOfUnused(g *state.Guest, volid string) string {
	for k, v := range g.Config {
		if drive.HasIndex(k, "unused") && v == volid {
			return k
		}
	}
	return ""
}
