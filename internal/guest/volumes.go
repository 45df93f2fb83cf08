package guest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// VolumeOf is the volume id in a drive or unusedN option, wherever a hand has written it (qemu-server
// QemuServer/Drive.pm, $drivedesc_base: the key file is the default one, and volume another name of it).
func VolumeOf(value string) string {
	for part := range strings.SplitSeq(value, ",") {
		switch key, volume, isPair := strings.Cut(part, "="); {
		case !isPair || strings.ContainsAny(key, ":/"):
			return part
		case key == "file" || key == "volume":
			return volume
		}
	}
	return ""
}

// HoldsVolume reports whether an option of a VM, or of a snapshot, has a volume: a drive, a detached disk or saved
// memory (qemu-server QemuServer.pm destroy_vm). A text, such as a description, may have the form of a volume id, and
// others may write it.
func HoldsVolume(option string) bool {
	return vm.IsSlot(option) || vm.IsUnused(option) || option == "vmstate"
}

// KeptBySnapshots says what snapshots keep, and how it becomes free. Terraform destroys what depends on a VM before it
// updates the VM (its transform_destroy_edge.go), so one apply may do both.
func KeptBySnapshots(names []string, what string) string {
	if len(names) == 1 {
		return fmt.Sprintf("Snapshot %s keeps %s: remove it first, in the same apply if it is a proxmox_vm_snapshot, else "+
			"in PVE's interface (Snapshots)", names[0], what)
	}
	return fmt.Sprintf("Snapshots %s keep %s: remove them first, in the same apply if they are proxmox_vm_snapshot "+
		"resources, else in PVE's interface (Snapshots)", strings.Join(names, ", "), what)
}

// KeepersOf are the snapshots that have one of some volumes, of those with the given names and options, and the slots
// of those volumes, in order.
func KeepersOf(volumes map[string]string, names []string, configs []map[string]string) (keepers, slots []string) {
	for i, config := range configs {
		before := len(slots)
		for slot, volume := range volumes {
			if Uses(config, volume) {
				slots = append(slots, slot)
			}
		}
		if len(slots) > before {
			keepers = append(keepers, names[i])
		}
	}
	slices.Sort(slots)
	return keepers, slices.Compact(slots)
}

// OnStorages names slots with the storages of their volumes.
func OnStorages(slots []string, volumes map[string]string) string {
	var all []string
	for _, slot := range slots {
		all = append(all, slot+" on "+volid.Storage(volumes[slot]))
	}
	return strings.Join(all, ", ")
}

// Volumes are the volumes that a configuration has, by option.
func Volumes(config map[string]string) iter.Seq2[string, string] {
	return func(yield func(option, volume string) bool) {
		for option, value := range config {
			if HoldsVolume(option) && !yield(option, VolumeOf(value)) {
				return
			}
		}
	}
}

// OwnVolumes returns the volumes that go with a VM: those in its configurations, snapshots included, that carry its
// id. PVE only detaches a volume of another id, which belongs to another guest.
func OwnVolumes(vmid int, configs ...map[string]string) []string {
	return carriers(vmid, configs, func(value string) bool { return !isMedium(value) })
}

// OwnMedia returns the volumes that carry the id of a VM and are in optical drives of it.
func OwnMedia(vmid int, configs ...map[string]string) []string {
	return carriers(vmid, configs, isMedium)
}

// carriers are the volumes in some options that carry a VM's id.
func carriers(vmid int, configs []map[string]string, is func(value string) bool) []string {
	own := map[string]bool{}
	for _, config := range configs {
		for option, volume := range Volumes(config) {
			if owner, ok := volid.Owner(volume); ok && owner == vmid && is(config[option]) {
				own[volume] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(own))
}

// isMedium reports whether the value of a drive has a medium, which PVE leaves when it destroys the VM, whatever id it
// carries. A cloud-init drive goes (qemu-server QemuServer.pm destroy_vm, drive_is_cdrom with exclude_cloudinit).
func isMedium(value string) bool { return vm.IsOptical(value) && !volid.IsCloudInit(VolumeOf(value)) }

// GoesWith reports whether PVE destroys a volume that carries the id of a VM together with it.
func GoesWith(config map[string]string, volume string) bool {
	for option, has := range Volumes(config) {
		if has == volume && !isMedium(config[option]) {
			return true
		}
	}
	return false
}

// Uses reports whether a configuration has a volume.
func Uses(config map[string]string, volume string) bool {
	for _, has := range Volumes(config) {
		if has == volume {
			return true
		}
	}
	return false
}

// IsFreed reports whether a volume that no configuration names any more is gone, as of a disk that has moved: a move
// with delete frees what it has copied at its end, and a conversion renames it (qemu-server API2/Qemu.pm move_vm_disk,
// template). It is, too, where the node of the VM does not have its storage. A storage that is not configured for disk
// images lists none (pve-storage 9.1.7 Storage.pm volume_list), so there it is taken to be left.
func IsFreed(ctx context.Context, api pve.Reader, resources pve.Resources, node, volume string) (bool, error) {
	storage := volid.Storage(volume)
	isIt := func(r pve.Resource) bool { return r.Type == "storage" && r.Storage == storage }
	switch at, here := resources.Storage(node, storage); {
	case storage == "" || here && !HoldsImages(at):
		return false, nil
	case !here && slices.ContainsFunc(resources, isIt): // the VM was migrated away from it
		return true, nil
	}
	owner, _ := volid.Owner(volume)
	left, err := api.Storage(node, storage).Content(ctx, "images", owner)
	return err == nil && !slices.ContainsFunc(left, func(v pve.Volume) bool { return volid.Same(v.ID, volume) }), err
}

// Holdings are the volumes of a VM.
type Holdings struct {
	// Slots is what is in each disk slot; what waits for a restart counts.
	Slots map[string]string
	// Next are the volumes that slots get with the next restart, in the place of those in Slots.
	Next []string
	// Unused are the detached volumes that stay with the VM, with their sizes in bytes; 0: not known.
	Unused map[string]int64
	// Loose are volumes that were asked about, carry the VM's id and are on their storages without being in its
	// configuration, with their sizes.
	Loose map[string]int64
}

// HoldingsOf are those that a configuration tells.
func HoldingsOf(config pve.PendingConfig) Holdings {
	held := Holdings{Slots: map[string]string{}, Unused: map[string]int64{}, Loose: map[string]int64{}}
	for _, values := range []map[string]string{config.Merged(), config.Current()} {
		for _, slot := range vm.Slots(values) {
			held.Slots[slot] = VolumeOf(values[slot])
		}
	}
	current, merged := config.Current(), config.Merged()
	for _, slot := range vm.Slots(merged) {
		if next := VolumeOf(merged[slot]); next != held.Slots[slot] {
			held.Next = append(held.Next, next)
		}
	}
	for option, value := range current {
		if vm.IsUnused(option) {
			held.Unused[VolumeOf(value)] = 0
		}
	}
	return held
}

// SlotOf is the slot that a volume is in, "" if it is in none.
func (h Holdings) SlotOf(volume string) string {
	for _, slot := range slices.Sorted(maps.Keys(h.Slots)) {
		if h.Slots[slot] == volume {
			return slot
		}
	}
	return ""
}

// All are the volumes that the VM has, in slots, detached or to come.
func (h Holdings) All() []string {
	return slices.Concat(slices.Sorted(maps.Values(h.Slots)), slices.Sorted(maps.Keys(h.Unused)), h.Next)
}

// volumeLists lists the volumes of VMIDs, one listing of a storage for all who wait for one.
type volumeLists struct {
	mu    sync.Mutex
	lists map[string]*volumeList // by node and storage
}

// volumeList is the listing of one storage on one node.
type volumeList struct {
	*request.Shared[[]pve.Volume]
	mu     sync.Mutex
	wanted map[int]int // VMIDs that are waited for, and by how many
}

func (v *volumeLists) of(node, storage string) *volumeList {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lists == nil {
		v.lists = map[string]*volumeList{}
	}
	at := node + "/" + storage
	if v.lists[at] == nil {
		v.lists[at] = &volumeList{Shared: request.NewShared[[]pve.Volume](), wanted: map[int]int{}}
	}
	return v.lists[at]
}

func (v *volumeList) want(vmid, n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.wanted[vmid] += n; v.wanted[vmid] == 0 {
		delete(v.wanted, vmid)
	}
}

// filter is the one VMID that is wanted, 0 if there are several.
func (v *volumeList) filter() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.wanted) != 1 {
		return 0
	}
	for vmid := range maps.Keys(v.wanted) {
		return vmid
	}
	return 0
}

// RenamedOnTheWay says why a volume does not come into a slot by its name in the update that migrates its VM, and what
// to do (qemu-server QemuServer.pm vm_migrate_alloc_nbd_disks).
func RenamedOnTheWay(volume, slot string) string {
	return fmt.Sprintf("A migration gives disks new names, unless they are on a shared storage, and %s is not known "+
		"to be on one: on arrival another disk may have that name. Make two applies: first change the node alone, then "+
		"name the volume that the disk for %s has by then. Or first fill the slot, and then change the node", volume, slot)
}

// ImportPath is the attribute that names the source of the drive in a slot.
func ImportPath(slot string) string {
	a, _ := vm.AttributeOf(slot)
	return a.In(slot) + ".import_from"
}

// CheckCopies refuses new drives that are copied of disks which the same change moves or destroys. has are the slots
// before it. PVE makes the copies after the moves, and a name that came free is the next disk's (pve-storage Plugin.pm
// get_next_vm_diskname). A copy that QEMU refuses is taken back, while its original has left its slot.
func CheckCopies(vmid int, c vm.Change, has map[string]string, destroysRemoved bool) []*FieldError {
	return CheckCopiesBy(volid.Same, vmid, c, has, destroysRemoved)
}

// CheckCopiesBy is CheckCopies with a comparison of names, since two storages can be one place.
func CheckCopiesBy(areOne func(a, b string) bool, vmid int, c vm.Change, has map[string]string,
	destroysRemoved bool) (refused []*FieldError) {
	copies := c.Copies()
	for _, slot := range slices.Sorted(maps.Keys(copies)) {
		volume := copies[slot]
		var detail string
		owner, _ := volid.Owner(volume)
		isIt := func(of map[string]string) func(slot string) bool {
			return func(slot string) bool { return areOne(VolumeOf(of[slot]), volume) }
		}
		original := func(in string) string {
			if own := VolumeOf(has[in]); !volid.Same(own, volume) {
				return fmt.Sprintf("%s (which is, or may be, %s)", volume, own)
			}
			return volume
		}
		stays := slices.ContainsFunc(slices.Collect(maps.Keys(c.Set)), isIt(c.Set))
		moves := slices.IndexFunc(c.Moves, func(m vm.Move) bool { return isIt(has)(m.Slot) })
		leaves := slices.IndexFunc(c.Delete, isIt(has))
		switch {
		case moves >= 0:
			detail = fmt.Sprintf("It is to be copied of %s, which is in %s. That disk moves first, and another disk may have "+
				"the name by then. Make two applies: first the copy alone, then the move", original(c.Moves[moves].Slot),
				c.Moves[moves].Slot)
		case destroysRemoved && leaves >= 0 && owner == vmid && !stays:
			detail = fmt.Sprintf("It is to be copied of %[1]s, which leaves %[2]s and is destroyed, since removed_disks is "+
				"\"destroy\". If QEMU refuses the copy, neither is left. Make two applies: first the copy alone, then take "+
				"%[2]s out of the configuration. Or set removed_disks = \"detach\"", original(c.Delete[leaves]), c.Delete[leaves])
		default:
			continue
		}
		refused = append(refused, &FieldError{Path: ImportPath(slot),
			Summary: fmt.Sprintf("%s of VM %d is a copy of a disk that the same apply moves or destroys", slot, vmid),
			Detail:  detail})
	}
	return refused
}

// DisksToRun are the volumes and devices in the slots of a configuration that no other guest may run with.
func DisksToRun(config map[string]string) (all []string) {
	for _, slot := range vm.Slots(config) {
		volume := VolumeOf(config[slot])
		_, owned := volid.Owner(volume)
		device := volid.IsDevice(volume) && !vm.IsOptical(config[slot])
		if (owned || device) && !volid.IsCloudInit(volume) {
			all = append(all, volume)
		}
	}
	return all
}

// Backups are those on the storage of one, as far as this identity may restore them.
func Backups(ctx context.Context, api pve.Reader, node, archive string) ([]pve.Volume, error) {
	return api.Storage(node, volid.Storage(archive)).Content(ctx, "backup", 0)
}

// BackupGone reports whether a backup is certainly not on its storage, which has these.
func BackupGone(all []pve.Volume, archive string) bool {
	return !slices.ContainsFunc(all, func(v pve.Volume) bool { return v.ID == archive })
}

// Unconverted are the slots of a template whose volumes are no base images. PVE writes template = 1 before it converts
// the disks one by one, and leaves those whose storage has no base images (qemu-server QemuServer.pm template_create).
func Unconverted(vmid int, config map[string]string) []string {
	var slots []string
	for _, slot := range vm.Slots(config) {
		volume := VolumeOf(config[slot])
		owner, owned := volid.Owner(volume)
		_, name, _ := strings.Cut(volume, ":")
		isBase := strings.HasPrefix(name[strings.LastIndexByte(name, '/')+1:], "base-")
		if config["template"] == "1" && owned && owner == vmid && !isBase && !volid.IsCloudInit(volume) {
			slots = append(slots, slot)
		}
	}
	return slots
}
