package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nearest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// formats reports formats that a storage does not support for disks (pve-storage ZFSPoolPlugin.pm, LvmThinPlugin.pm,
// LVMPlugin.pm, alloc_image; RBDPlugin.pm makes a raw one, whatever is asked for), and a vmdk to grow (Plugin.pm
// volume_resize; qemu-server QemuServer.pm resolve_dst_disk_format).
func (p *planCheck) formats(ctx context.Context, c *Checker, wanted []Format) {
	for _, f := range wanted {
		storage, ok := p.resources.Storage(p.node, f.Storage)
		if !ok || f.Format == "raw" || p.isReported(f.Path) {
			continue
		}
		has, isRaw := "raw disks only", slices.Contains([]string{"zfspool", "lvmthin", "rbd"}, storage.PluginType)
		switch {
		case f.Grows && (isRaw || storage.PluginType == "lvm"): // it gets the storage's format
			continue
		case f.Grows:
			p.say(storageFormat, f.Path, "PVE keeps the format of the image, and grows no vmdk. Write format = \"qcow2\" "+
				"or \"raw\", or leave size out", f.Format, f.Storage)
			continue
		case isRaw:
		case storage.PluginType == "lvm" && !mayChain(ctx, c, f):
			has += ", unless snapshot-as-volume-chain is set on it (qcow2, since PVE 9)"
		default:
			continue
		}
		p.say(storageFormat, f.Path, fmt.Sprintf("A storage of type %s has %s, so the disk has no format %s on storage %s. "+
			"Leave format out", storage.PluginType, has, f.Format, f.Storage), f.Format, f.Storage)
	}
}

// chained reports disks that a guest of the planned machine is not started with. Those that a running guest has stay as
// they are.
func chained(ctx context.Context, p *planCheck, c *Checker, r Request) {
	if !r.Started && !r.Running {
		return
	}
	is := demand{p}.after(r)
	for slot, d := range is.Disks {
		if format := volid.Format(p.copy.Disks[slot].Volume); r.copies() && d.Format == nil && format != "" {
			if r.Clone != nil {
				format = cmp.Or(r.Clone.Format, format)
			}
			d.Format = &format
			is.Disks[slot] = d // of after's own map
		}
	}
	old, had := is.BeforeChains(), r.Prior.BeforeChains()
	maps.DeleteFunc(old, func(slot, storage string) bool { return r.Running && had[slot] == storage })
	if len(old) == 0 {
		return
	}
	places, err := c.whereStoragesAre(ctx)
	for _, slot := range slices.Sorted(maps.Keys(old)) {
		if path := "disks." + slot + ".storage"; err == nil && places[old[slot]].VolumeChain && !p.isReported(path) {
			p.say(machineTooOld, path, fmt.Sprintf("%s is to be a qcow2 disk there, and the storage has "+
				"snapshot-as-volume-chain, with which PVE starts no guest of a machine before 10.0. Set machine to a later "+
				"version, to which the guest has to be fit, or format = \"raw\"", slot), *is.Machine, old[slot])
		}
	}
}

// mayChain reports whether a volume group has qcow2 disks, or whether that cannot be told.
func mayChain(ctx context.Context, c *Checker, f Format) bool {
	places, err := c.whereStoragesAre(ctx)
	_, told := places[f.Storage]
	return f.Format == "qcow2" && (err != nil || !told || places[f.Storage].VolumeChain)
}

// cpus reports more CPUs than a node starts a VM with (qemu-server QemuServer.pm config_to_command).
func (p *planCheck) cpus(wanted int64) {
	node, ok := p.resources.Node(p.node)
	if ok && node.MaxCPU > 0 && wanted > node.MaxCPU {
		p.say(nodeCPUs, "cpu.cores", fmt.Sprintf("PVE starts no VM with more CPUs than its node has, and sockets × "+
			"cores are %d", wanted),
			p.node, strconv.FormatInt(node.MaxCPU, 10))
	}
}

// orphans reports volumes that carry the configured VMID of a new VM, which the create would refuse or destroy.
// Findings in a shared listing are looked up again: the volumes may have gone with the VM that had them. Under the id
// of a VM that is gone it reports only those to be destroyed: an error would keep a destroy of all from its plan.
func (p *planCheck) orphans(ctx context.Context, c *Checker, r Request) {
	id := r.VMID
	if id == 0 && r.Orphans {
		id = r.Gone
	}
	if _, taken := p.resources.Guest(id); taken || id == 0 {
		return
	}
	for _, at := range searched(p, r) {
		if left := leftAt(ctx, p, c, r, at, id); len(left) > 0 && !p.isReported("vmid") {
			leftOver(ctx, p, c, r, at.node, left)
		}
	}
}

// leftAt are the volumes of a place that carry the id of a new VM, and that it does not adopt.
func leftAt(ctx context.Context, p *planCheck, c *Checker, r Request, at place, id int) []string {
	var suspect []string
	for _, name := range at.storages {
		storage, there := p.resources.Storage(at.node, name)
		if there && slices.ContainsFunc(c.volumesOf(ctx, storage, id), func(volume string) bool {
			owner, ok := volid.Owner(volume)
			return ok && owner == id && !slices.Contains(r.Adopts, volume)
		}) {
			suspect = append(suspect, name)
		}
	}
	if len(suspect) == 0 {
		return nil
	}
	baseline, err := c.guests.NewBaseline(ctx, p.resources, at.node, id, suspect)
	if err != nil {
		return nil
	}
	places, err := c.whereStoragesAre(ctx)
	if err != nil { // the create looks
		return nil
	}
	return slices.DeleteFunc((guest.Baselines{baseline}).Orphans(), func(volume string) bool {
		return places.MayBe(volume, r.Adopts)
	})
}

// leftOver reports such volumes of a node.
func leftOver(ctx context.Context, p *planCheck, c *Checker, r Request, node string, left []string) {
	id, _ := volid.Owner(left[0])
	vmid, names := strconv.Itoa(id), strings.Join(left, ", ")
	places, _ := c.whereStoragesAre(ctx) // as they were read for the volumes
	if sources := r.Planned.SourcesOf(id); slices.ContainsFunc(left, func(volume string) bool {
		return places.MayBe(volume, sources)
	}) {
		if r.VMID != 0 { // else the create refuses
			p.say(vmidVolumes, "vmid", fmt.Sprintf("On node %s there are volumes with this id that no VM owns: %s. %s", node,
				names, guest.SourceUnderItsID), vmid)
		}
		return
	}
	if !r.Orphans {
		p.say(vmidVolumes, "vmid", fmt.Sprintf("On node %s there are volumes with this id that no VM owns: %s. They may "+
			"hold another user's data. Choose another vmid, remove them, set on_orphaned_volumes = \"destroy\", or take them "+
			"over as disks with imported_disk%s", node, names, guest.FreeDrives(node, left)), vmid)
		return
	}
	var used *guard.InUseError
	foreign := volumeuse.AnyForeign(places, p.resources, node, left, c.exclusive)
	if foreign == nil && !r.Acting {
		errors.As(c.guard.ProveOrphaned(ctx, node, id, left), &used)
	}
	switch detail := "Nothing would be destroyed, and the VM not created. Choose another vmid, or "; {
	case (foreign != nil || used != nil || node != p.node) && r.VMID == 0: // the create refuses
	case node != p.node: // a copy is made there first
		p.say(vmidForeign, "on_orphaned_volumes", fmt.Sprintf("On node %s, on which the copy is made first: %s. Only "+
			"volumes on the VM's own node are destroyed. %sremove them", node, names, detail), vmid)
	case used != nil:
		p.say(vmidForeign, "on_orphaned_volumes", fmt.Sprintf("On node %s, %v. %stake the volume from that guest", node,
			used, detail), vmid)
	case foreign != nil:
		p.say(vmidForeign, "on_orphaned_volumes", fmt.Sprintf("On node %s, %v. %sname the storage in exclusive_storages of "+
			"the provider if no other cluster uses it", node, foreign, detail), vmid)
	default:
		p.say(vmidDestroys, "on_orphaned_volumes", fmt.Sprintf("On node %s no VM owns them: %s. They are destroyed with "+
			"their data where on_orphaned_volumes is \"destroy\"", node, names), vmid)
	}
}

// place is a node with storages on it.
type place struct {
	node     string
	storages []string
}

// searched are the places in which volumes with the VMID of a new VM matter, as its create looks: the storages that the
// configuration names and those of the source, on the node of a clone's source too, and all that PVE scans after a
// restore.
func searched(p *planCheck, r Request) []place {
	storages := slices.Collect(maps.Values(r.Storages))
	if !r.Acting { // then the create looks
		storages = append(storages, p.copy.Storages()...)
	}
	at := []place{{p.node, slices.Clone(storages)}}
	for _, s := range p.resources.Storages(p.node) {
		isScanned := r.Orphans || r.Restore != nil && !r.Acting
		if isScanned && slices.Contains(strings.Split(s.Content, ","), "images") {
			at[0].storages = append(at[0].storages, s.Storage)
		}
	}
	if from := p.origin.Node; from != "" && from != p.node && !r.Acting {
		at[0].storages = slices.DeleteFunc(at[0].storages, func(id string) bool {
			listed, _ := p.resources.Storage(p.node, id)
			return listed.Shared && slices.Contains(storages, id)
		})
		at = append(at, place{from, storages})
	}
	for i := range at {
		slices.Sort(at[i].storages)
		at[i].storages = slices.Compact(at[i].storages)
	}
	return at
}

// volumesOf are the volumes on a storage, at least those of a VMID. A storage that lists files is asked for the VMID
// alone, since PVE opens each file that it lists.
func (c *Checker) volumesOf(ctx context.Context, storage pve.Resource, vmid int) []string {
	if slices.Contains([]string{"zfspool", "lvm", "lvmthin", "rbd"}, storage.PluginType) {
		vmid = 0
	}
	key := fmt.Sprintf("volumes %s %s %d", storage.Node, storage.Storage, vmid)
	names, _ := c.names.Get(ctx, c.clock, key, func(ctx context.Context) ([]string, error) {
		return c.volumeNames(ctx, storage.Node, storage.Storage, Image, vmid)
	}) // who cannot look does not judge
	return names
}

// storages reports storages that the node lacks. One that is listed nowhere does not exist if the identity would see
// it.
func (p *planCheck) storages(ctx context.Context, c *Checker, wanted map[string]string) {
	visible := map[string]bool{}
	anywhere := map[string][]string{}
	for _, r := range p.resources {
		if r.Type == "storage" {
			anywhere[r.Storage] = append(anywhere[r.Storage], r.Node)
			visible[r.Storage] = visible[r.Storage] || r.Node == p.node
		}
	}
	for _, path := range slices.Sorted(maps.Keys(wanted)) {
		id := wanted[path]
		switch {
		case p.isReported(path): // said before, with the way out
		case len(anywhere[id]) == 0 && !c.mustHold(ctx, "/storage/"+id, "Datastore.Audit"):
		case len(anywhere[id]) == 0:
			names := slices.Collect(maps.Keys(anywhere))
			p.say(storageUnknown, path, nearest.Hint(id, names)+"The cluster has the storages "+some(names)+
				", as far as this identity may see them (Datastore.Audit)", id)
		case p.node != "" && !visible[id]:
			p.say(storageElsewhere, path, "It is available on "+strings.Join(anywhere[id], ", "), id, p.node)
		}
	}
}

// isForImages reports whether PVE may make disks on a storage of the node; one that is not listed may be for them.
func isForImages(p *planCheck, id string) bool {
	storage, ok := p.resources.Storage(p.node, id)
	return !ok || storage.Content == "" || slices.Contains(strings.Split(storage.Content, ","), "images")
}

// UnknownStorages reports storages that no node has, by the attributes that name them. The run may bring a VM to
// another node, so nothing is said of one that a node has.
func UnknownStorages(ctx context.Context, c *Checker, wanted map[string]string) []*guest.FieldError {
	resources, _, err := c.api.Listing().Recent(ctx)
	if err != nil {
		return nil
	}
	p := &planCheck{resources: resources}
	p.storages(ctx, c, wanted)
	return p.found
}

// images reports disks that are to be made on a storage that is certainly not for disks (qemu-server API2/Qemu.pm
// check_storage_access, "does not support vm images"). An existing volume is attached wherever it is; the two other
// storages are used in other ways.
func (p *planCheck) images(r Request) {
	for _, path := range slices.Sorted(maps.Keys(r.Storages)) {
		id := r.Storages[path]
		if isForImages(p, id) || p.isReported(path) ||
			path == "vmstatestorage" || path == "import_working_storage" ||
			slices.ContainsFunc(r.Adopts, func(volume string) bool { return volid.Storage(volume) == id }) {
			continue
		}
		p.say(storageNoDisks, path, "PVE makes disks on storages with the content type images only. Choose another one, or "+
			"add images to what this one is for", id)
	}
}

func (c *Checker) whereStoragesAre(ctx context.Context) (volumeuse.Places, error) {
	return c.places.Get(ctx, c.clock, "", func(ctx context.Context) (volumeuse.Places, error) {
		all, err := c.api.Cluster().StorageConfigs(ctx)
		return volumeuse.PlacesOf(all), err
	})
}

// lostCopies reports copies of disks that the change moves or destroys.
func lostCopies(ctx context.Context, p *planCheck, c *Checker, r Request) {
	places := func() (volumeuse.Places, error) { return c.whereStoragesAre(ctx) }
	areOne := func(a, b string) bool { return volumeuse.AreOne(a, b, places) }
	for _, refused := range guest.CheckCopiesBy(areOne, r.ID, p.change, vm.Encode(r.Prior), r.DestroyRemoved) {
		p.report(copiedMeanwhile, refused)
	}
}
