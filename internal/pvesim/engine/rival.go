package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// RivalCreate lets a third party make a complete virtual machine of its own on a node, with one disk on the first
// storage for images: what fault phase rival puts in the place of an id that has just become free.
func RivalCreate(w *state.World, node string, vmid int) {
	g := &state.Guest{VMID: vmid, Type: "qemu", Node: node, CreatedAt: w.Clock.Now(), StatusAt: w.Clock.Now(),
		Config: map[string]string{
			"name": "rival", "cores": "1", "memory": "512", "ostype": "l26", "description": "a third party's",
			"smbios1": "uuid=" + w.UUID(), "vmgenid": w.UUID(), "meta": fmt.Sprintf("creation-qemu=9.2.0,ctime=%d",
				w.Clock.Now().Unix()),
		}}
	for _, id := range slices.Sorted(maps.Keys(w.Storages)) {
		if !w.Storages[id].Has("images") {
			continue
		}
		if v, err := w.Alloc(node, id, vmid, "", "raw", 1<<30); err == nil {
			v.Data = "the third party's data"
			g.Config["scsi0"] = v.Volid() + ",size=1G"
			break
		}
	}
	w.Guests[vmid] = g
}
