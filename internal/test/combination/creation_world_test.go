package combination_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/kinds"
)

// alias is a second name of the shared storage.
const alias = "nfs-new"

// sources has the disks of each VM that is cloned, and of the archive (0), with their sizes in GiB.
func sources() map[int]map[string]int {
	return map[int]map[string]int{
		9000: {"scsi0": 2},
		9100: {"scsi0": 2, "scsi1": 1},
		9200: {"virtio0": 2, "sata1": 1},
		9300: {"scsi0": 2, "scsi5": 1},
		8300: {"scsi0": 1},
		8400: {"scsi2": 1, "virtio3": 1},
		0:    {"scsi0": 2, "scsi1": 1},
	}
}

// furnish adds what VMs are made of, and what third parties have beside them.
func furnish(w *state.World, aliased bool) {
	kinds.World(w)
	w.AddBackup("pve1")
	for _, role := range []string{"TerraformProvider", "TerraformLite"} {
		w.Roles[role] = append(slices.Clone(w.Roles[role]), "Sys.Console") // for HA
	}
	if aliased {
		twin := *w.Storages["shared-nfs"]
		w.Storages["shared-nfs"].Export, twin.Export = "/srv/vms", "/srv/vms"
		twin.ID, twin.Same, twin.Path = alias, "shared-nfs", "/mnt/pve/"+alias
		w.Storages[twin.ID] = &twin
	}
	put := func(storage, node, name string, vmid int, gib int64) {
		format := "raw"
		if storage == "shared-nfs" {
			format = "qcow2"
		}
		w.Put(&state.Volume{Storage: storage, Node: node, Name: name, VMID: vmid, Content: "images", Format: format, Size: gib << 30, Data: "data of " + storage + ":" + name})
	}
	put("shared-nfs", "", "9200/base-9200-disk-0.qcow2", 9200, 2)
	put("shared-nfs", "", "9200/base-9200-disk-1.qcow2", 9200, 1)
	put("local-lvm", "pve1", "base-9300-disk-0", 9300, 2)
	put("local-lvm", "pve1", "base-9300-disk-1", 9300, 1)
	put("local-zfs", "pve1", "vm-8400-disk-0", 8400, 1)
	put("local-lvm", "pve1", "vm-8400-disk-0", 8400, 1)
	guest := func(vmid int, config map[string]string) *state.Guest {
		all := map[string]string{"memory": "512", "meta": "creation-qemu=9.2.0,ctime=1", "description": "golden image",
			"smbios1": fmt.Sprintf("uuid=11111111-2222-3333-4444-00000000%d", vmid), "net0": fmt.Sprintf("virtio=BC:24:11:00:%d:%d,bridge=vmbr0", vmid/100, vmid%100+10)}
		maps.Copy(all, config)
		g := &state.Guest{VMID: vmid, Type: "qemu", Node: "pve1", Config: all}
		w.Guests[vmid] = g
		return g
	}
	guest(9200, map[string]string{"name": "on-nfs", "template": "1", "virtio0": "shared-nfs:9200/base-9200-disk-0.qcow2,size=2G", "sata1": "shared-nfs:9200/base-9200-disk-1.qcow2,size=1G"})
	guest(9300, map[string]string{"name": "on-lvm", "template": "1", "protection": "1", "scsi0": "local-lvm:base-9300-disk-0,size=2G", "scsi5": "local-lvm:base-9300-disk-1,size=1G,backup=0"})
	live := guest(8400, map[string]string{"name": "live", "scsi2": "local-zfs:vm-8400-disk-0,size=1G", "virtio3": "local-lvm:vm-8400-disk-0,size=1G", "ide0": "local:iso/debian.iso,media=cdrom"})
	live.Running = &state.Running{QMPStatus: "running", Booted: maps.Clone(live.Config), PID: 8400, StartedAt: w.Clock.Now()}
	put("local-zfs", "pve1", "vm-100-disk-3", 100, 1) // 100 is no free id
	put("local-lvm", "pve2", "vm-778-disk-0", 778, 1)
	w.Firewall[8000] = &state.FirewallFile{Options: map[string]string{"enable": "1"}}
	w.Firewall[9300] = &state.FirewallFile{Options: map[string]string{"enable": "1"}, Rules: []map[string]string{{"type": "in", "action": "ACCEPT", "macro": "SSH", "enable": "1"}}}
	w.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored", Options: map[string]string{"comment": "a third party's"}}
	w.Pools["db"] = &state.Pool{ID: "db", Guests: []int{8000}}
}
