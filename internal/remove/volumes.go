package remove

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove/usage"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// ownVolumes are the volumes in a VM's configurations, its own and those of its snapshots, that go with it: those that carry
// its id. A volume of another id is somebody else's, and PVE only detaches it.
func ownVolumes(vmid int, configs ...map[string]string) []string {
	own := map[string]bool{}
	for _, config := range configs {
		for _, value := range config {
			file, _, _ := strings.Cut(value, ",")
			volume := strings.TrimPrefix(file, "file=")
			if owner, ok := vm.VolumeOwner(volume); ok && owner == vmid {
				own[volume] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(own))
}

// scopeOf is the node whose guests alone can use the volumes, since none of their storages is shared; "" is the whole cluster.
func scopeOf(resources pve.Resources, node string, volumes []string) string {
	for _, volume := range volumes {
		if storage, ok := resources.Storage(node, vm.VolumeStorage(volume)); !ok || storage.Shared {
			return ""
		}
	}
	return node
}

// isBasedOn tells whether a volume is a linked clone of a base: its id has the base's in front, and where the storage says
// so, its parent is the base (pve-storage, parse_volname and list_images of the plugins).
func isBasedOn(v pve.Volume, base string) bool {
	if strings.HasPrefix(v.ID, base+"/") {
		return true
	}
	parent, _, _ := strings.Cut(v.Parent, "@")
	return parent != "" && v.ID != base && vm.VolumeStorage(v.ID) == vm.VolumeStorage(base) && usage.LastPart(parent) == usage.LastPart(base)
}

// holdsImages reports whether disks can be on a storage of the listing.
func holdsImages(storage pve.Resource) bool {
	return slices.Contains(strings.Split(storage.Content, ","), "images")
}

// Made tells the volumes that a create has made from those that others put under its id meanwhile: that a volume is new since the
// create's fence proves nothing. A volume is the create's when
//   - a configuration of its VM has named it, and its VM was not destroyed with it since;
//   - the log of a task of the create that was killed says that it was made, since nothing has cleaned up after that one;
//   - the log of a task that failed says that it could not be freed;
//   - it is the only one of the rest that can be what a killed task still had to make: most storages say nothing when they make a
//     volume, and the task does when it has filled it.
//
// What else is new is named and left alone.
type Made struct {
	wanted     []Wanted
	known      map[string]bool
	configured []string          // named by a configuration of the create's VM
	read       map[pve.UPID]bool // whose log was read
	commands   int               // how many of those that failed were read
	died       bool              // one of the tasks, or commands, was killed
}

// Wanted is a volume that the task is to make which makes the VM.
type Wanted struct {
	Storage string
	Name    string // "" = PVE chooses
	Base    string // the volume that it is a linked clone of
	Size    int64  // 0 = not known
	Format  string // "" = the storage's
}

// NewMade is what is known of a create's volumes at first: those that it is known to have made, and all that it asks for.
func NewMade(known []string, wanted []Wanted) *Made {
	m := &Made{wanted: wanted, known: map[string]bool{}, read: map[pve.UPID]bool{}}
	m.add(known)
	return m
}

// Want adds volumes that the create's next tasks are to make.
func (m *Made) Want(more []Wanted) { m.wanted = append(m.wanted, more...) }

func (m *Made) add(volumes []string) {
	for _, volume := range volumes {
		m.known[volume] = true
	}
}

// addNamed adds what a configuration of the create's VM names.
func (m *Made) addNamed(volumes []string) {
	if m != nil {
		m.add(volumes)
		m.configured = append(m.configured, volumes...)
	}
}

// forgetNamed forgets that, when somebody else has destroyed the VM and its volumes with it.
func (m *Made) forgetNamed() {
	if m == nil {
		return
	}
	for _, volume := range m.configured {
		delete(m.known, volume)
	}
	m.configured = nil
}

// rest are the volumes that nothing accounts for.
func (m *Made) rest(found []pve.Volume) []pve.Volume {
	return slices.DeleteFunc(slices.Clone(found), func(v pve.Volume) bool { return m.known[v.ID] })
}

func idsOf(volumes []pve.Volume) []string {
	var ids []string
	for _, v := range volumes {
		ids = append(ids, v.ID)
	}
	return ids
}

// tellsNotFreed reports whether a task says of a volume that it could not be freed: by name, or, of one that it has made, by the lock of
// its storage.
func tellsNotFreed(log []string, volume string, made bool) bool {
	if made {
		return pve.TellsNotFreed(log, volume)
	}
	name := volume[strings.LastIndexAny(volume, ":/")+1:]
	return pve.TellsNotFreed(slices.DeleteFunc(slices.Clone(log), func(line string) bool { return !strings.Contains(line, name) }), volume)
}

// logged are the volumes that a log says were made. A line with nothing but a name stands for one volume of that name; where more have
// it, none is known to be meant.
func logged(log []string, found []pve.Volume, f *guest.Fence) map[string]bool {
	ids, names := pve.VolumesMade(log)
	made, lines, same := map[string]bool{}, map[string]int{}, map[string][]string{}
	for _, name := range names {
		lines[name]++
	}
	for _, id := range ids {
		made[id] = true
		if listed, _ := f.Resources.Storage(f.Node, vm.VolumeStorage(id)); !slices.Contains([]string{"zfspool", "rbd"}, listed.PluginType) {
			lines[nameOf(id)]-- // such a storage has said so itself before
		}
	}
	for _, v := range found {
		if !made[v.ID] {
			same[nameOf(v.ID)] = append(same[nameOf(v.ID)], v.ID)
		}
	}
	for name, ids := range same {
		for _, id := range ids {
			made[id] = lines[name] >= len(ids)
		}
	}
	return made
}

// nameOf is the name of a volume as PVE's tools say it: that of the file with its directory, or that of the logical volume.
func nameOf(volume string) string {
	_, path, _ := strings.Cut(volume, ":")
	parts := strings.Split(path, "/")
	last := len(parts) - 1
	if last > 0 && strings.Trim(parts[last-1], "0123456789") == "" {
		return parts[last-1] + "/" + parts[last]
	}
	return parts[last]
}

// addUnderWay adds the volume that a killed task was just making, once: later what it had made may be gone, and another's in its place.
func (m *Made) addUnderWay(found []pve.Volume) {
	if !m.died {
		return
	}
	open := slices.Clone(m.wanted)
	m.wanted = nil
	fit := func(v pve.Volume) int { return slices.IndexFunc(open, func(w Wanted) bool { return w.fits(v) }) }
	for _, v := range found {
		if n := fit(v); n >= 0 && m.known[v.ID] {
			open = slices.Delete(open, n, n+1)
		}
	}
	rest := slices.DeleteFunc(m.rest(found), func(v pve.Volume) bool { return fit(v) < 0 })
	if len(rest) == 1 {
		m.known[rest[0].ID] = true
	}
}

// extent is how much larger than asked for a volume may be: storages round up (4 MiB, LVM).
const extent = 4 << 20

func (w Wanted) fits(v pve.Volume) bool {
	name, _, _ := strings.Cut(v.ID[strings.LastIndexAny(v.ID, ":/")+1:], ".")
	return vm.VolumeStorage(v.ID) == w.Storage && (w.Format == "" || v.Format == "" || w.Format == v.Format) &&
		(w.Name == "" || w.Name == name) && (w.Base == "" || strings.HasPrefix(v.ID, w.Base+"/")) &&
		(w.Size == 0 || v.Size == 0 || v.Size >= w.Size && v.Size < w.Size+extent)
}

// Note is what people should know of a removal although nothing may be left.
type Note struct {
	Text string
	// Doubt: something of ours may be there all the same.
	Doubt bool
}

// Adopted are the detached volumes of a VM's own id. In one that was just restored they are not from the archive (qemu-server
// QemuServer.pm, restore_update_config_line): PVE has scanned all storages when the data was there, and made whatever carries the id an
// unused disk (rescan). It would destroy that with the VM.
func Adopted(vmid int, config map[string]string) []string {
	unused := map[string]string{}
	for option, value := range config {
		if strings.HasPrefix(option, "unused") {
			unused[option] = value
		}
	}
	return ownVolumes(vmid, unused)
}

// mayAdopt reports whether the VM may have volumes that PVE has adopted.
func (r *removal) mayAdopt() bool {
	return !r.Stamp.Restore.IsZero() && !r.committed && r.reclaims == 0
}

// refuseAdopted refuses to remove a restored VM that was not committed while it has volumes which nothing shows that the create made.
func (r *removal) refuseAdopted(ctx context.Context, config map[string]string) error {
	if !r.mayAdopt() {
		return nil
	}
	foreign := Adopted(r.VMID, config)
	if len(foreign) == 0 {
		return nil
	}
	for _, upid := range r.Tasks.UPIDs {
		log, err := r.s.api.TaskLog(ctx, upid, makerLines)
		if err != nil {
			return fmt.Errorf("look which volumes task %s has made: %w", upid, err)
		}
		made, _ := pve.VolumesMade(log)
		foreign = slices.DeleteFunc(foreign, func(volume string) bool { return slices.Contains(made, volume) })
	}
	if r.Made != nil {
		foreign = slices.DeleteFunc(foreign, func(volume string) bool { return r.Made.known[volume] })
	}
	if len(foreign) > 0 {
		r.blocked = errAdopted(r.VMID, foreign)
	}
	return r.blocked
}

func errAdopted(vmid int, volumes []string) error {
	return fmt.Errorf("PVE has made volumes with the id of VM %d unused disks of it, and nothing shows that its create has made them: %s. "+
		"It would destroy them with the VM, so the VM was not removed. Give them to another VM first (in PVE's interface: Hardware, Disk "+
		"Action, Reassign Owner), then destroy again", vmid, strings.Join(volumes, ", "))
}
