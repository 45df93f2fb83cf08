package preflight

import (
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestNetworkDeviceThatItsBridgeIsNotFitFor: a plan says so before PVE takes the device from a running guest to find it
// out, and says nothing of devices that stay as they are.
func TestNetworkDeviceThatItsBridgeIsNotFitFor(t *testing.T) {
	nic := func(model, bridge string, tag, mtu int64, trunks ...string) vm.NIC {
		n := vm.NIC{Model: model, NICOptions: vm.NICOptions{Bridge: &bridge, Trunks: trunks}}
		if tag > 0 {
			n.Tag = &tag
		}
		if mtu > 0 {
			n.MTU = &mtu
		}
		return n
	}
	old := nic("virtio", "vmbr0", 0, 0)
	for name, c := range map[string]struct {
		was, is vm.NIC
		moves   bool
		want    string // the attribute with a warning
	}{
		"an MTU above the bridge's":              {was: old, is: nic("virtio", "vmbr0", 0, 9001), want: "networks.net0.mtu"},
		"one that fits":                          {was: old, is: nic("virtio", "vmbr0", 0, 9000)},
		"the bridge's own":                       {was: old, is: nic("virtio", "vmbr0", 0, 1)},
		"another model":                          {was: old, is: nic("e1000", "vmbr0", 0, 9001)},
		"one above the usual, where none is set": {was: old, is: nic("virtio", "vmbr1", 0, 1501), want: "networks.net0.mtu"},
		"one above the usual, of its cards":      {was: old, is: nic("virtio", "vmbr3", 0, 9000)},
		"the usual one, where none is set":       {was: old, is: nic("virtio", "vmbr1", 0, 1500)},
		"trunks on a plain bridge":               {was: old, is: nic("virtio", "vmbr0", 0, 0, "5"), want: "networks.net0.trunks"},
		"trunks on one that is VLAN aware":       {was: old, is: nic("virtio", "vmbr2", 0, 0, "5")},
		"a VLAN without a network card":          {was: old, is: nic("virtio", "vmbr1", 7, 0), want: "networks.net0.tag"},
		"a VLAN with one":                        {was: old, is: nic("virtio", "vmbr0", 7, 0)},
		"a VLAN on one that is VLAN aware":       {was: old, is: nic("virtio", "vmbr2", 7, 0)},
		"nothing new":                            {was: nic("virtio", "vmbr1", 7, 0), is: nic("virtio", "vmbr1", 7, 0)},
		"nothing new, on a node that it goes to": {was: nic("virtio", "vmbr1", 7, 0), is: nic("virtio", "vmbr1", 7, 0), moves: true, want: "networks.net0.tag"},
		"a bridge that is not listed":            {was: old, is: nic("virtio", "vmbr7", 7, 9001)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.change(func(all *state.World) {
				for _, n := range all.Nodes {
					n.Bridges, n.Isolated = append(n.Bridges, "vmbr2", "vmbr3"), []string{"vmbr1"}
					n.VLANAware, n.MTUs = []string{"vmbr2"}, map[string]int64{"vmbr0": 9000}
				}
			})
			r := Request{Node: "pve1", ID: 8000, Running: true, Prior: vm.Spec{Networks: map[string]vm.NIC{"net0": c.was}},
				Planned: vm.Spec{Networks: map[string]vm.NIC{"net0": c.is}}}
			if c.moves {
				r.Node, r.Moving = "pve2", &Moving{From: "pve1"}
			}
			var said []string
			for _, f := range w.Check(t.Context(), r).Doubtful {
				if ruleOf(f, Doubtful) >= 0 && Rules()[ruleOf(f, Doubtful)].Name == bridgeUnfit {
					said = append(said, f.Path)
				}
			}
			want := []string{c.want}
			if c.want == "" {
				want = nil
			}
			if !slices.Equal(said, want) {
				t.Errorf("warns of %q, want %q", said, want)
			}
		})
	}
}
