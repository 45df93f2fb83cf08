package create

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// place is a node on which the create can make volumes, with the storages that they can be on.
type place struct {
	node     string
	storages []string
}

// placesOf are the places of a create: its node or, for a clone, the node of the source, and the storages that only the
// target node has.
func placesOf(found findings, r Request) []place {
	storages := writtenTo(r, found.from)
	if found.from == nil || found.from.node == found.node {
		if found.from != nil {
			storages = sortedIDs(append(storages, found.from.searched...))
		}
		return []place{{node: found.node, storages: storages}}
	}
	landing := slices.DeleteFunc(slices.Clone(storages), func(id string) bool {
		listed, _ := found.resources.Storage(found.node, id)
		return listed.Shared
	})
	return []place{{node: found.from.node, storages: storages}, {node: found.node, storages: landing}}
}

// writtenTo are the storages that the create can make volumes on: those that the configuration names, and the source's,
// on which a clone's volumes are made by default.
func writtenTo(r Request, from *source) []string {
	ids := []string{r.Spec.CloudInit.Storage}
	for _, d := range r.Spec.Disks {
		ids = append(ids, d.Storage, r.unpacksOn(d))
	}
	for _, a := range r.Adopts {
		ids = append(ids, volid.Storage(a.Volume))
	}
	if d := r.Spec.EFIDisk; d != nil {
		ids = append(ids, d.Storage)
	}
	if d := r.Spec.TPMState; d != nil {
		ids = append(ids, d.Storage)
	}
	if r.Clone != nil {
		ids = append(ids, r.Clone.Storage)
	}
	if from != nil {
		ids = append(ids, from.storages...)
	}
	return sortedIDs(ids)
}

// unpacksOn is the storage on which a new disk is unpacked before it is copied, under the VMID (pve-storage
// GuestImport.pm, extract_disk_from_import_file); "" if it is not unpacked.
func (r Request) unpacksOn(d vm.Disk) string {
	switch {
	case d.ImportFrom == nil || !volid.IsInOVA(*d.ImportFrom):
		return ""
	case r.ImportStorage != "":
		return r.ImportStorage
	}
	return volid.Storage(*d.ImportFrom)
}

// sortedIDs sorts ids and drops repeated and empty ones.
func sortedIDs(ids []string) []string {
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id string) bool { return id == "" })
}

// tpmStateSize is the size of a TPM state in bytes (qemu-server QemuServer/Drive.pm, TPMSTATE_DISK_SIZE).
const tpmStateSize = 4 << 20

// wanted are the volumes that the request is to make which makes the VM.
func wanted(r Request, from *source, vmid int) []destroy.Wanted {
	cloudInit := fmt.Sprintf("vm-%d-cloudinit", vmid) // qemu-server API2/Qemu.pm create_disks, QemuServer.pm clone_disk
	if from != nil {
		return from.wanted(cloudInit)
	}
	var all []destroy.Wanted
	for _, d := range r.Spec.Disks {
		if d.Volume != "" {
			continue
		}
		w := destroy.Wanted{By: "qmcreate", Storage: d.Storage}
		if d.Format != nil {
			w.Format = *d.Format
		}
		if d.ImportFrom == nil {
			w.Size = d.Bytes()
		}
		all = append(all, w)
		if storage := r.unpacksOn(d); storage != "" {
			all = append(all, destroy.Wanted{By: "qmcreate", Storage: storage})
		}
	}
	if d := r.Spec.EFIDisk; d != nil { // some hundred KiB, by its type
		all = append(all, destroy.Wanted{By: "qmcreate", Storage: d.Storage, Size: 1})
	}
	if d := r.Spec.TPMState; d != nil {
		all = append(all, destroy.Wanted{By: "qmcreate", Storage: d.Storage, Size: tpmStateSize})
	}
	if storage := r.Spec.CloudInit.Storage; storage != "" {
		all = append(all, destroy.Wanted{By: "qmcreate", Storage: storage, Name: cloudInit})
	}
	return all
}

// targets are the volumes that moves of disks are to make.
func targets(moves []vm.Move, has vm.Spec) []destroy.Wanted {
	var all []destroy.Wanted
	for _, m := range moves {
		all = append(all, destroy.Wanted{By: "qmmove", Storage: m.Storage, Format: m.Format, Size: has.Disks[m.Slot].Bytes()})
	}
	return all
}

// wanted are the volumes of a copy. The log of a restore names each as it is made.
func (s *source) wanted(cloudInit string) []destroy.Wanted {
	if s.request == nil {
		return nil
	}
	full := s.request.Full != nil && *s.request.Full || s.request.Full == nil && s.config["template"] != "1"
	var all []destroy.Wanted
	for _, slot := range vm.Slots(s.config) {
		volume := guest.VolumeOf(s.config[slot])
		if _, owned := volid.Owner(volume); !owned {
			continue
		}
		w := destroy.Wanted{By: "qmclone", Storage: volid.Storage(volume)}
		if full && s.request.Storage != "" {
			w.Storage = s.request.Storage
		}
		switch {
		case strings.Contains(volume, "-cloudinit"):
			w.Name = cloudInit
		case slot == "tpmstate0": // copied in full since PVE 8.3.3 (qemu-server API2/Qemu.pm clone_vm)
			w.Size = tpmStateSize
		case !full:
			w.Base = volume
		default:
			w.Size = vm.Decode(s.config).Disks[slot].Bytes()
		}
		all = append(all, w)
	}
	return all
}
