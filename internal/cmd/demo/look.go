package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// said looks for words, whatever the line breaks of the printer.
func said(r result, words string) bool {
	plain := strings.NewReplacer("│", " ", "|", " ").Replace(r.output)
	return strings.Contains(strings.Join(strings.Fields(plain), " "), words)
}

// show prints what the cluster has: VMs and containers, then volumes of VMs.
func (s *story) show() {
	var guests, volumes []string
	s.world.Change(func(w *state.World) {
		for _, id := range slices.Sorted(maps.Keys(w.Guests)) {
			g := w.Guests[id]
			status := "stopped"
			if g.Running != nil {
				status = "running"
			}
			name := g.Config["name"] + g.Config["hostname"]
			if l := g.Config["lock"]; l != "" {
				status += ", lock " + l
			}
			guests = append(guests, fmt.Sprintf("%d %s (%s)", id, name, status))
		}
		for _, v := range w.Volumes {
			if v.VMID != 0 {
				volumes = append(volumes, v.Storage+":"+v.Name)
			}
		}
	})
	slices.Sort(volumes)
	fmt.Fprintf(s.out, "   PVE    guests:  %s\n", strings.Join(guests, ", "))
	for line := range slices.Chunk(volumes, 4) {
		fmt.Fprintf(s.out, "          volumes: %s\n", strings.Join(line, ", "))
	}
}

// guest is a copy of a guest, nil if there is none.
func (s *story) guest(vmid int) (g *state.Guest) {
	s.world.Change(func(w *state.World) {
		if found := w.Guests[vmid]; found != nil {
			c := *found
			c.Config = maps.Clone(found.Config)
			g = &c
		}
	})
	return g
}

// config is an option of a guest, "" if it is not set.
func (s *story) config(vmid int, key string) string {
	if g := s.guest(vmid); g != nil {
		return strings.TrimSuffix(g.Config[key], "\n")
	}
	return ""
}

func (s *story) running(vmid int) bool {
	g := s.guest(vmid)
	return g != nil && g.Running != nil
}

func (s *story) inPool(pool string, vmid int) (in bool) {
	s.world.Change(func(w *state.World) { in = w.Pools[pool] != nil && slices.Contains(w.Pools[pool].Guests, vmid) })
	return in
}

// volumes are the disks that carry an id.
func (s *story) volumes(vmid int) []string {
	var names []string
	s.world.Change(func(w *state.World) {
		for _, v := range w.Volumes {
			if v.VMID == vmid {
				names = append(names, v.Storage+":"+v.Name)
			}
		}
	})
	slices.Sort(names)
	return names
}

// snapshotOf renders all that the cluster knows of a guest.
func (s *story) snapshotOf(vmid int) string {
	g := s.guest(vmid)
	if g == nil {
		return ""
	}
	return fmt.Sprintf("%s %v %v %v", g.Node, g.Config, g.Running != nil, s.volumes(vmid))
}
