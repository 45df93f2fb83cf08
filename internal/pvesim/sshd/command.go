package sshd

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// place finds the node that a command runs on, and whether it is up.
func (s *Server) place(local, words string, vmid int, rest []string) (found string, online bool) {
	host, _, err := net.SplitHostPort(local)
	if err != nil {
		host = local
	}
	s.cluster.Do(func(w *state.World) {
		defer func() { online = w.Nodes[found] != nil && w.Nodes[found].Online }()
		all := nodes(w)
		for i, n := range all {
			if host == n.Name || host == n.Address || strings.HasPrefix(host, n.Name+".") {
				found = n.Name
				return
			}
			if a, err := netip.ParseAddr(host); err == nil && i > 0 && a.Is4() && a.IsLoopback() && int(a.As4()[3]) == i+1 {
				found = n.Name
				return
			}
		}
		if found = holder(w, words, vmid, rest); found == "" && len(all) > 0 {
			found = all[0].Name
		}
	})
	return found, online
}

// holder is the node of the guest that qm names, or of the volume that the other tools name, the first by name if
// several nodes have one; "" if there is none.
func holder(w *state.World, words string, vmid int, rest []string) string {
	if strings.HasPrefix(words, "qm ") {
		if g := w.Guests[vmid]; g != nil {
			return g.Node
		}
		return ""
	}
	var on []string
	for _, v := range w.Volumes {
		s := w.Storages[v.Storage]
		if s == nil || v.Node == "" {
			continue
		}
		path := strings.TrimPrefix(s.VolumePath(v.Name), "/dev/zvol/")
		if slices.Contains(rest, v.Volid()) || slices.Contains(rest, path) {
			on = append(on, v.Node)
		}
	}
	if len(on) == 0 {
		return ""
	}
	return slices.Min(on)
}
