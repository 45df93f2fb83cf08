package world

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

const gib = 1 << 30

// guest adds a third party's virtual machine with one disk on the first node.
func guest(w *state.World, vmid int, name, storage string) *state.Guest {
	g := &state.Guest{VMID: vmid, Type: "qemu", Node: "pve1", Config: map[string]string{"name": name, "memory": "512",
		"smbios1": "uuid=" + w.UUID(), "vmgenid": w.UUID(), "meta": "creation-qemu=9.2.0,ctime=1767225600"}}
	v := &state.Volume{Storage: storage, Node: g.Node, Name: fmt.Sprintf("vm-%d-disk-0", vmid)}
	if w.Storages[storage].IsDir() {
		v.Name = fmt.Sprintf("%d/%s.raw", vmid, v.Name)
	}
	put(w, v, vmid)
	g.Config["scsi0"] = v.Volid() + ",size=1G"
	w.Guests[vmid] = g
	return g
}

// put adds an image of a third party's.
func put(w *state.World, v *state.Volume, vmid int) {
	v.VMID, v.Content, v.Size, v.Data, v.Format = vmid, "images", gib, foreign+" in "+v.Name, "raw"
	if strings.HasSuffix(v.Name, ".qcow2") {
		v.Format = "qcow2"
	}
	w.Put(v)
}

// wanted are the ids that tests ask for, or that are the next free ones.
func wanted() []int { return []int{100, 101, 200, 300} }

func storageAxes() []Axis {
	return []Axis{
		{
			Name: "storage alias", Sets: "`storages`: `same_as` for a directory, a pool and a volume group; VM 8700",
			Means:   "Two storages name one place, and a guest has a volume of the VM at hand under the other name.",
			Declare: aliases, Arrange: aliased,
		},
		{
			Name: "storage of two clusters", Sets: "`volumes` on the shared storage for the ids 100, 101, 200 and 300",
			Means: "Another cluster's guests have disks on the shared storage, under ids that are free here.",
			Declare: func(w *state.World) {
				for _, id := range wanted() {
					put(w, &state.Volume{Storage: "shared-nfs", Name: fmt.Sprintf("%d/vm-%d-disk-4.qcow2", id, id)}, id)
				}
			},
		},
		{
			Name: "Kubernetes volumes", Sets: "`volumes` called `vm-9999-pvc-…` on a pool and a volume group",
			Means: "A storage driver of Kubernetes keeps volumes that no guest has, under names that PVE does not give.",
			Declare: func(w *state.World) {
				for _, storage := range []string{"local-lvm", "local-zfs"} {
					put(w, &state.Volume{Storage: storage, Node: "pve1",
						Name: "vm-9999-pvc-369fa6e3-94b0-4a4f-9a3e-5f0f7c6f1d2b"}, 9999)
				}
			},
		},
		{
			Name: "rescan", Sets: "actor: `qm rescan`; `volumes` of the ids 100, 101, 200 and 300",
			Means: "An administrator has PVE attach every volume that carries the VM's id, whosever it is.",
			Declare: func(w *state.World) {
				for _, id := range wanted() {
					put(w, &state.Volume{Storage: "shared-nfs", Name: fmt.Sprintf("%d/vm-%d-disk-9.raw", id, id)}, id)
				}
			},
			Acts: []thirdparty.Order{{Act: thirdparty.Rescan}},
		},
		{
			Name: "SSH dies", Sets: "fault: the connection is cut in a command",
			Means:  "The command has its effect, and the client does not learn it.",
			Faults: []fault.Rule{{Match: fault.Match{Method: "SSH"}, Phase: fault.After}},
		},
	}
}

func aliases(w *state.World) {
	for _, id := range []string{"local2", "local-zfs", "local-lvm"} {
		twin := *w.Storages[id]
		twin.ID, twin.Same = id+"-alias", id
		w.Storages[twin.ID] = &twin
	}
	guest(w, Aliasing, "aliasing", "local2").Config["scsi0"] = "local2-alias:8700/vm-8700-disk-0.raw,size=1G"
}

// aliased gives the first disk of the VM at hand that lies on such a storage to the third party's guest, too.
func aliased(w *state.World, vmid int, _ *rand.Rand) {
	for _, opt := range slices.Sorted(maps.Keys(w.Guests[vmid].Config)) {
		value := w.Guests[vmid].Config[opt]
		volid, _, _ := strings.Cut(value, ",")
		storage, name, ok := state.SplitVolid(volid)
		if ok && w.Storages[storage+"-alias"] != nil && !strings.Contains(value, "media=cdrom") {
			w.Guests[Aliasing].Config["scsi1"] = storage + "-alias:" + name + ",size=1G"
			return
		}
	}
}
