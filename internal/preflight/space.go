package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// demanded is the space that a disk needs on a storage beyond what it has.
type demanded struct {
	Path    string // the attribute that says where
	Storage string
	Bytes   int64
}

// tally adds up what the plans of one run want, since Terraform shows a provider one VM at a time. Each VM counts once,
// however often it is planned. The VM with which the sum exceeds the supply gets the warning: one for each storage and
// node.
type tally struct {
	mu      sync.Mutex
	pools   map[string]*pool
	unnamed int
}

// pool is what VMs share: a storage, the memory of a node.
type pool struct {
	wants map[string]int64 // bytes by VM
	said  string           // the VM that was told
}

// share is how much of a pool a run wants.
type share struct {
	sum int64
	vms int
}

// add adds a VM's demand on a pool with so much left, and reports whether it is the one with which that is too much.
func (t *tally) add(of, who string, bytes, left int64) (all share, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pools == nil {
		t.pools = map[string]*pool{}
	}
	p := t.pools[of]
	if p == nil {
		p = &pool{wants: map[string]int64{}}
		t.pools[of] = p
	}
	if who == "" { // nothing tells two of them apart
		t.unnamed++
		who = " " + strconv.Itoa(t.unnamed)
	}
	p.wants[who] = bytes
	for _, want := range p.wants {
		all.sum += want
		all.vms++
	}
	if all.sum <= left || p.said != "" && p.said != who {
		return all, false
	}
	p.said = who
	return all, true
}

// begin notes that the apply has begun. Its effects show in the server's figures over time, and must not be counted
// twice.
func (t *tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pools = nil
}

// addUp compares the demand of all plans of this run with the supply.
func (d demand) addUp(ctx context.Context, c *Checker, r Request) {
	if r.Acting {
		c.total.begin()
		return
	}
	was, is := d.before(r), d.after(r)
	all := d.spaces(r, was, is)
	for _, id := range slices.Sorted(maps.Keys(byStorage(all))) {
		d.space(ctx, c, r, id, byStorage(all)[id])
	}
	d.memory(c, r, is)
}

// before is the VM with its existing disks. A linked clone begins with those of its template.
func (d demand) before(r Request) vm.Spec {
	switch {
	case r.Clone != nil && (r.Clone.Full == nil && d.origin.Template || r.Clone.Full != nil && !*r.Clone.Full):
		return d.copy
	case r.Creating:
		return vm.Spec{}
	}
	return r.Prior
}

// after is the VM that the apply makes, as far as that is known.
func (d demand) after(r Request) vm.Spec {
	if !r.Creating || r.Clone == nil && r.Restore == nil {
		return r.Planned
	}
	is := vm.Merge(d.copy, r.Planned)
	is.Disks = maps.Clone(is.Disks)
	var to string
	if r.Clone != nil {
		to = r.Clone.Storage
	} else {
		to = r.Restore.Storage
	}
	for slot, disk := range is.Disks {
		if disk.Volume = ""; to != "" && r.Planned.Disks[slot].Storage == "" {
			disk.Storage = to
		}
		is.Disks[slot] = disk
	}
	return is
}

// spaces are the space that the disks of a VM need beyond what they have. An image without a size counts nothing.
func (d demand) spaces(r Request, was, is vm.Spec) []demanded {
	var all []demanded
	for _, slot := range slices.Sorted(maps.Keys(is.Disks)) {
		disk := is.Disks[slot]
		old, there := was.Disks[slot]
		if disk.Size == nil || disk.Storage == "" || !there && disk.Volume != "" { // adopted
			continue
		}
		bytes := *disk.Size
		here, ok := d.resources.Storage(d.node, disk.Storage)
		if stays := there && old.Storage == disk.Storage && (r.Moving == nil || ok && here.Shared); stays && old.Size != nil {
			bytes -= *old.Size
		} else if stays {
			continue
		}
		if bytes > 0 {
			all = append(all, demanded{Path: "disks." + slot + ".storage", Storage: disk.Storage, Bytes: bytes})
		}
	}
	return all
}

func byStorage(all []demanded) map[string][]demanded {
	by := map[string][]demanded{}
	for _, one := range all {
		by[one.Storage] = append(by[one.Storage], one)
	}
	return by
}

// space compares the disks of the plan with the free space of a storage. LVM allocates all of a disk when it is made
// (pve-storage LVMPlugin.pm, alloc_image). No destroy adds to a storage's total.
func (d demand) space(ctx context.Context, c *Checker, r Request, id string, wanted []demanded) {
	storage, ok := d.resources.Storage(d.node, id)
	if !ok || storage.MaxDisk <= 0 {
		return
	}
	var bytes int64
	for _, one := range wanted {
		bytes += one.Bytes
	}
	largest := slices.MaxFunc(wanted, func(a, b demanded) int { return cmp.Compare(a.Bytes, b.Bytes) })
	path, thick := largest.Path, storage.PluginType == "lvm"
	if thick && bytes > storage.MaxDisk {
		d.say(storageTooSmall, path, fmt.Sprintf("They are to have %s, and the storage has %s in all. A storage of type "+
			"lvm sets the whole of a disk aside when it is made", gib(bytes), gib(storage.MaxDisk)), id)
		return
	}
	of := "storage " + d.node + " " + id
	if storage.Shared {
		of = "storage  " + id
	}
	left := max(storage.MaxDisk-storage.Disk, 0)
	all, first := c.total.add(of, r.Who, bytes, left)
	if !first {
		return
	}
	then := "Most storages of type " + storage.PluginType +
		" take space only as disks are written to: the apply may succeed, and guests " +
		"stop when the storage is full"
	if thick {
		then = "A storage of type lvm sets the whole of a disk aside when it is made, so the apply fails where nothing " +
			"is freed before"
		if places, err := c.whereStoragesAre(ctx); err == nil && places[id].SafeRemove {
			then = "This one sets the whole of a disk aside when it is made, and zeroes a freed disk for hours before its " +
				"space is free (saferemove): a replacement destroys the VM and cannot make the new one. Make room first"
		}
	}
	d.say(storageSpace, path, fmt.Sprintf("With this VM the plan so far has %s whose new disks may take %s of it, and "+
		"%s of its %s are free. "+
		"What the same apply destroys is not counted, since it may be destroyed afterwards. %s", vms(all.vms), gib(all.sum),
		gib(left),
		gib(storage.MaxDisk), then), id)
}

// memory compares the memory of the VMs that the plan starts on a node with what the node has left. An identity without
// Sys.Audit on the node sees no figures (pve-manager API2Tools.pm, extract_node_stats).
func (d demand) memory(c *Checker, r Request, is vm.Spec) {
	node, ok := d.resources.Node(d.node)
	if !ok || node.MaxMem <= 0 || !r.Started && !r.Running {
		return
	}
	bytes := memoryOf(is)
	if r.Running && r.Moving == nil {
		bytes -= memoryOf(r.Prior)
	}
	if bytes <= 0 {
		return
	}
	left := max(node.MaxMem-node.Mem, 0)
	if all, first := c.total.add("memory "+d.node, r.Who, bytes, left); first {
		d.say(nodeMemory, "memory.size", fmt.Sprintf("With this VM the plan so far starts %s with %s of memory there, "+
			"and %s of the node's %s "+
			"are free now. Caches count as used, such as that of ZFS. Where more is used than there is, the node ends guests",
			vms(all.vms), gib(all.sum), gib(left), gib(node.MaxMem)), d.node)
	}
}

// memoryOf is a VM's memory in bytes; 512 MiB is PVE's default (qemu-server QemuServer/Memory.pm).
func memoryOf(s vm.Spec) int64 {
	size := int64(512)
	if s.Memory.Size != nil {
		size = *s.Memory.Size
	}
	return size << 20
}

func vms(n int) string {
	if n == 1 {
		return "1 VM"
	}
	return strconv.Itoa(n) + " VMs"
}

func gib(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

// demand is what the plans of a run want of storages and nodes.
type demand struct{ *planCheck }
