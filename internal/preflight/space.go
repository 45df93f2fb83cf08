package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Space is what a disk takes of a storage that it did not take before.
type Space struct {
	Path    string // the attribute that says where
	Storage string
	Bytes   int64
}

// tally adds up what the plans of one run want, since Terraform shows a provider one VM at a time. Each VM counts once, however often it
// is planned, and the VM with which the plan wants more than there is, is told of it: one warning for each storage and node.
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

// add notes what a VM wants of a pool that has so much left, and reports whether it is the one with which that is too much.
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

// begin notes that the apply has begun: what it has made is in the figures of the server by and by, and is not to be counted once more.
func (t *tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pools = nil
}

// addUp holds what all plans of this run want together against what there is.
func (c *planCheck) addUp(s *Checker, r Request) {
	if r.Acting {
		s.total.begin()
		return
	}
	was, is := c.before(r), c.after(r)
	all := slices.Concat(r.Space, c.spaces(r, was, is))
	for _, id := range slices.Sorted(maps.Keys(byStorage(all))) {
		c.space(s, r, id, byStorage(all)[id])
	}
	c.memory(s, r, is)
}

// before is the VM whose disks are there already. A linked clone begins with those of its template.
func (c *planCheck) before(r Request) vm.Spec {
	switch {
	case r.Clone != nil && (r.Clone.Full == nil && c.origin.Template || r.Clone.Full != nil && !*r.Clone.Full):
		return c.copy
	case r.Creating:
		return vm.Spec{}
	}
	return r.Prior
}

// after is the VM that the apply makes, as far as that is known.
func (c *planCheck) after(r Request) vm.Spec {
	if !r.Creating || r.Clone == nil && r.Restore == nil {
		return r.Planned
	}
	is := vm.Merge(c.copy, r.Planned)
	is.Disks = maps.Clone(is.Disks)
	var to string
	if r.Clone != nil {
		to = r.Clone.Storage
	} else {
		to = r.Restore.Storage
	}
	for slot, d := range is.Disks {
		if d.Volume = ""; to != "" && r.Planned.Disks[slot].Storage == "" {
			d.Storage = to
		}
		is.Disks[slot] = d
	}
	return is
}

// spaces is what the disks of a VM take on top of what they have. An image that a disk is made of without a size counts nothing.
func (c *planCheck) spaces(r Request, was, is vm.Spec) []Space {
	var all []Space
	for _, slot := range slices.Sorted(maps.Keys(is.Disks)) {
		d := is.Disks[slot]
		old, there := was.Disks[slot]
		if d.Size == nil || d.Storage == "" || !there && d.Volume != "" { // adopted
			continue
		}
		bytes := *d.Size
		here, ok := c.resources.Storage(c.node, d.Storage)
		if stays := there && old.Storage == d.Storage && (r.Moving == nil || ok && here.Shared); stays && old.Size != nil {
			bytes -= *old.Size
		} else if stays {
			continue
		}
		if bytes > 0 {
			all = append(all, Space{Path: "disks." + slot + ".storage", Storage: d.Storage, Bytes: bytes})
		}
	}
	return all
}

func byStorage(all []Space) map[string][]Space {
	by := map[string][]Space{}
	for _, one := range all {
		by[one.Storage] = append(by[one.Storage], one)
	}
	return by
}

// space holds the disks of the plan against what a storage has. LVM sets all of a disk aside when it is made (pve-storage
// LVMPlugin.pm, alloc_image); what it has in all no destroy makes more.
func (c *planCheck) space(s *Checker, r Request, id string, wanted []Space) {
	storage, ok := c.resources.Storage(c.node, id)
	if !ok || storage.MaxDisk <= 0 {
		return
	}
	var bytes int64
	for _, one := range wanted {
		bytes += one.Bytes
	}
	path, thick := wanted[0].Path, storage.PluginType == "lvm"
	if thick && bytes > storage.MaxDisk {
		c.say(storageTooSmall, path, fmt.Sprintf("They are to have %s, and the storage has %s in all. A storage of type lvm sets the whole of a "+
			"disk aside when it is made", gib(bytes), gib(storage.MaxDisk)), id)
		return
	}
	of := "storage " + c.node + " " + id
	if storage.Shared {
		of = "storage  " + id
	}
	left := max(storage.MaxDisk-storage.Disk, 0)
	all, first := s.total.add(of, r.Who, bytes, left)
	if !first {
		return
	}
	then := "Most storages of type " + storage.PluginType + " take space only as disks are written to: the apply may succeed, and guests " +
		"stop when the storage is full"
	if thick {
		then = "A storage of type lvm sets the whole of a disk aside when it is made, so the apply fails where nothing is freed before"
	}
	c.say(storageSpace, path, fmt.Sprintf("With this VM the plan so far has %s whose new disks may take %s of it, and %s of its %s are free. "+
		"What the same apply destroys is not counted, since it may be destroyed afterwards. %s", vms(all.vms), gib(all.sum), gib(left),
		gib(storage.MaxDisk), then), id)
}

// memory holds the memory of the VMs that the plan starts on a node against what that has left. Who lacks Sys.Audit on the node sees no
// figures (pve-manager API2Tools.pm, extract_node_stats).
func (c *planCheck) memory(s *Checker, r Request, is vm.Spec) {
	node, ok := c.resources.Node(c.node)
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
	if all, first := s.total.add("memory "+c.node, r.Who, bytes, left); first {
		c.say(nodeMemory, "memory.size", fmt.Sprintf("With this VM the plan so far starts %s with %s of memory there, and %s of the node's %s "+
			"are free now. Caches count as used, such as that of ZFS. Where more is used than there is, the node ends guests",
			vms(all.vms), gib(all.sum), gib(left), gib(node.MaxMem)), c.node)
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
