package update

import (
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestMoveOfADiskThatWaits: SATA has no hotplug, so a running guest has one disk in a slot, and another one waits for its
// restart. The plan moves the other one: after the restart, or not at all.
func TestMoveOfADiskThatWaits(t *testing.T) {
	for name, c := range map[string]struct {
		restart Restart
		due     []string
		says    string
	}{
		"restart":           {RestartGracefully, []string{"sata0"}, ""},
		"no restart":        {RestartNever, nil, "sata0 of VM 400 cannot be moved yet"},
		"no reason for one": {RestartGracefully, nil, "sata0 of VM 400 cannot be moved yet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pve.Params{"sata0": "local-zfs:1"})
			w.start()
			was := guest.VolumeOf(w.config()["sata0"])
			inWorld(w, func(all *state.World) {
				g := all.Guests[theVM]
				all.Put(&state.Volume{Storage: "local-zfs", Node: g.Node, Name: "vm-400-disk-7", Content: "images", VMID: theVM,
					Format: "raw", Size: 1 << 30, Data: "the one that waits"})
				g.Pending = map[string]string{"sata0": theirs + ",size=1G"}
			})
			r := w.request()
			config, err := w.api.QEMU("pve1", theVM).Pending(t.Context())
			w.must(err)
			r.Prior, r.Planned = vm.Decode(config.Merged()), vm.Decode(config.Merged())
			r.Restart, r.Due = c.restart, c.due
			with(&r, "sata0", func(d *vm.Disk) { d.Storage, d.Volume = "local-lvm", "" })
			_, _, err = w.update(r)
			var is, waits map[string]string
			content := ""
			inWorld(w, func(all *state.World) {
				g := all.Guests[theVM]
				is, waits = maps.Clone(g.Config), maps.Clone(g.Pending)
				if v := all.Volume("pve1", guest.VolumeOf(is["sata0"])); v != nil {
					content = v.Data
				}
			})
			switch {
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || guest.VolumeOf(waits["sata0"]) != theirs || guest.VolumeOf(is["sata0"]) != was):
				t.Errorf("%v, and %v waits, after %v: %v", is, waits, w.writes(), err)
			case c.says == "" && (err != nil || content != "the one that waits" || !strings.HasPrefix(is["sata0"], "local-lvm:") || is["unused0"] != was):
				t.Errorf("%v with %q, and %v waits, after %v: %v", is, content, waits, w.writes(), err)
			}
		})
	}
}
