package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// version finds the release to act as: its own, or the one below it that the simulator knows.
func (l *look) version(ctx context.Context) error {
	data, err := l.client.get(ctx, "/version")
	if err != nil {
		return fmt.Errorf("GET /version: %w", err)
	}
	r, _ := data.(map[string]any)
	is := row(r).text("release")
	l.file.Captured = &state.FileCapture{Format: state.FileFormat, Release: row(r).text("version")}
	for _, known := range release.Versions() {
		if known == is || older(known, is) {
			l.file.Profile = known
		}
	}
	if l.file.Profile == "" {
		return fmt.Errorf("the server is %q, which is older than all that the simulator can act as", row(r).text("version"))
	}
	if l.file.Profile != is {
		l.note("the release %s: the world acts as %s", is, l.file.Profile)
	}
	return nil
}

// older compares releases, "8.4" and the like.
func older(a, b string) bool {
	var x, y [2]int
	_, _ = fmt.Sscanf(a, "%d.%d", &x[0], &x[1])
	_, _ = fmt.Sscanf(b, "%d.%d", &y[0], &y[1])
	return slices.Compare(x[:], y[:]) < 0
}

func (l *look) nodes(ctx context.Context) error {
	data, err := l.client.get(ctx, "/nodes")
	if err != nil {
		return fmt.Errorf("GET /nodes: %w", err)
	}
	status, err := l.list(ctx, "/cluster/status")
	if err != nil {
		return err
	}
	addresses := map[string]string{}
	for _, r := range status {
		if r.text("type") == "node" {
			addresses[r.text("name")] = r.text("ip")
		}
	}
	for _, r := range by("node", rows(data)) {
		l.file.Nodes = append(l.file.Nodes, state.FileNode{Name: r.text("node"), Address: addresses[r.text("node")],
			Offline: r.text("status") != "online", CPUs: int(r.number("maxcpu")), Memory: state.FileSize(r.number("maxmem"))})
	}
	if len(l.file.Nodes) == 0 {
		return errors.New("GET /nodes: the cluster shows no node to this identity")
	}
	for i := range l.file.Nodes {
		n := &l.file.Nodes[i]
		if n.Offline {
			l.note("node %s is offline: its processors, memory and bridges cannot be seen", n.Name)
			continue
		}
		if n.CPUs == 0 {
			l.note("node %s: its processors and memory cannot be seen, and are those of any other world", n.Name)
		}
		list, err := l.list(ctx, "/nodes/"+n.Name+"/network?type=any_bridge")
		if err != nil {
			return err
		}
		for _, r := range by("iface", list) {
			n.Bridges = append(n.Bridges, r.text("iface"))
			if r.flag("bridge_vlan_aware") {
				n.VLANAware = append(n.VLANAware, r.text("iface"))
			}
		}
	}
	return nil
}

// options are those of the datacenter that matter to guests.
func (l *look) options(ctx context.Context) error {
	r, _, err := l.object(ctx, "/cluster/options")
	if err != nil {
		return err
	}
	next, tags := property(r["next-id"]), property(r["tag-style"])
	l.file.NextID = state.FileRange{Lower: int(next.number("lower")), Upper: int(next.number("upper"))}
	l.file.CaseSensitiveTags = tags.flag("case-sensitive")
	return nil
}
