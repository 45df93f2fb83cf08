package act

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func (v *action) lockName() string {
	if v.order.Lock != "" {
		return v.order.Lock
	}
	return "backup"
}

func (v *action) lock() error {
	g, err := v.guest()
	if err == nil {
		err = guest.CheckLock(g)
	}
	if err != nil {
		return err
	}
	v.hold(g, v.lockName(), func() {})
	return nil
}

func (v *action) staleLock() error {
	g, err := v.guest()
	if err == nil {
		err = guest.CheckLock(g)
	}
	if err != nil {
		return err
	}
	g.SetLock(v.lockName(), "state")
	return nil
}

// unlock is qm unlock, which checks nothing (qemu-server CLI/qm.pm).
func (v *action) unlock() error {
	g, err := v.guest()
	if err != nil {
		return err
	}
	if g.Lock() == "" {
		return perl.Die("VM %d has no lock", g.VMID)
	}
	g.SetLock("", "")
	return nil
}

// backup makes one on the first storage that takes them.
func (v *action) backup(g *state.Guest) error {
	for _, id := range slices.Sorted(maps.Keys(v.w.Storages)) {
		if s, err := v.w.StorageActive(g.Node, id); err == nil && s.Has("backup") {
			return v.call("POST /nodes/{node}/vzdump", map[string]string{"node": g.Node, "vmid": strconv.Itoa(g.VMID),
				"storage": id, "mode": "stop"})
		}
	}
	return perl.Die("no storage takes backups")
}

// oldest is the oldest backup of an id that the node can read.
func (v *action) oldest(node string, vmid int) (string, error) {
	var all []*state.Volume
	for _, volume := range v.w.Volumes {
		if volume.Content == "backup" && volume.VMID == vmid && volume.Backup != nil &&
			(volume.Node == "" || volume.Node == node) {
			all = append(all, volume)
		}
	}
	if len(all) == 0 {
		return "", perl.Die("there is no backup of %d on %s", vmid, node)
	}
	return slices.MinFunc(all, func(a, b *state.Volume) int { return cmp.Compare(a.Name, b.Name) }).Volid(), nil
}

func (v *action) unpack(node, archive string, vmid int) error {
	if v.s.Locks[node+":"+engine.GuestLock(vmid)] != nil {
		return perl.Die("a process holds the file lock of guest %d", vmid)
	}
	params := map[string]string{"node": node, "vmid": strconv.Itoa(vmid), "archive": archive}
	if v.w.Guests[vmid] != nil {
		params["force"] = "1"
	}
	return v.call("POST /nodes/{node}/qemu", params)
}

// restore brings the guest back as its oldest backup has it. It stays the client's: the same id, the same VM.
func (v *action) restore() error {
	node, id := v.node(), v.subject()
	if g := v.w.Guests[id]; g != nil {
		node = g.Node
	}
	archive, err := v.oldest(node, id)
	if err != nil {
		return err
	}
	return v.unpack(node, archive, id)
}

// restoreHis puts a VM of the third party's in the guest's place, or under its id where it is gone. From now on the id
// is the third party's.
func (v *action) restoreHis() error {
	node, id := v.node(), v.subject()
	if v.w.Guests[id] != nil {
		g, err := v.guest()
		if err != nil {
			return err
		}
		node = g.Node
	}
	his := v.his(node, "qemu")
	archive, err := v.oldest(node, his.VMID)
	if err != nil {
		if err := v.backup(his); err != nil {
			return err
		}
		if archive, err = v.oldest(node, his.VMID); err != nil {
			return err
		}
	}
	v.w.ThirdParties.Guests[his] = true
	if err := v.unpack(node, archive, id); err != nil {
		return err
	}
	v.w.ThirdParties.Guests[v.w.Guests[id]] = true
	return nil
}

func (v *action) restoreAside() error {
	node, id := v.node(), v.subject()
	if g := v.w.Guests[id]; g != nil {
		node = g.Node
	}
	archive, err := v.oldest(node, id)
	if err != nil {
		return err
	}
	return v.unpack(node, archive, v.free())
}

func (v *action) migrate() error {
	g, err := v.guest()
	if err != nil {
		return err
	}
	target := v.order.Node
	for _, name := range engine.NodeNames(v.w) {
		if target == "" && name != g.Node && v.w.Nodes[name].Online {
			target = name
		}
	}
	if target == "" {
		return perl.Die("there is no other node")
	}
	params := map[string]string{"target": target, "with-local-disks": "1"}
	if g.Running != nil {
		params["online"] = "1"
	}
	return v.on(g, "POST /migrate", params)
}

// remove destroys the guest and all that belongs to it; one that runs is stopped first.
func (v *action) remove() error {
	g, err := v.guest()
	if err != nil {
		return err
	}
	if g.Running != nil {
		if err := v.on(g, "POST /status/stop", nil); err != nil {
			return err
		}
	}
	return v.on(g, "DELETE ", map[string]string{"purge": "1", "destroy-unreferenced-disks": "1"})
}

func (v *action) addPool() error {
	g, err := v.guest()
	if err != nil {
		return err
	}
	const pool = "third-parties"
	if v.w.Pools[pool] == nil {
		if err := v.call("POST /pools", map[string]string{"poolid": pool}); err != nil {
			return err
		}
	}
	return v.call("PUT /pools", map[string]string{"poolid": pool, "vms": strconv.Itoa(g.VMID), "allow-move": "1"})
}

// storage is the order's, or that of the guest's first disk.
func (v *action) storage() (*state.Storage, error) {
	id := v.order.Storage
	if g := v.w.Guests[v.subject()]; g != nil && id == "" {
		if _, volid, err := v.firstDisk(g); err == nil {
			id, _, _ = state.SplitVolid(volid)
		}
	}
	if id == "" {
		return nil, perl.Die("no storage is named, and the guest has no disk")
	}
	return v.w.StorageConfig(id)
}

// fill puts a volume of a VM of its own into the room that was left.
func (v *action) fill() error {
	s, err := v.storage()
	if err != nil {
		return err
	}
	his := v.his(v.node(), "qemu")
	if s.Full {
		return perl.Die("storage '%s' is full", s.ID)
	}
	const room = 64 << 20 // for needs of its own
	if free := s.Total - v.w.Used(his.Node, s); free > room {
		volume, err := v.w.Alloc(his.Node, s.ID, his.VMID, "", "", free-room/2)
		if err != nil {
			return err
		}
		volume.Data = "the third party's data"
	}
	s.Full = true
	if v.order.ForMS > 0 {
		v.s.After(v.order.For(), func() { s.Full = false })
	}
	return nil
}

func (v *action) storageOffline() error {
	s, err := v.storage()
	if err != nil {
		return err
	}
	if s.Offline {
		return perl.Die("storage '%s' is not online", s.ID)
	}
	s.Offline = true
	if v.order.ForMS > 0 {
		v.s.After(v.order.For(), func() { s.Offline = false })
	}
	return nil
}

func (v *action) nodeOffline() error {
	name := v.node()
	n := v.w.Nodes[name]
	if !n.Online {
		return perl.Die("node %s is offline", name)
	}
	n.Online = false
	v.s.KillOn(name)
	if v.order.ForMS > 0 {
		v.s.After(v.order.For(), func() { n.Online = true })
	}
	return nil
}

func (v *action) nodeCrash() error {
	name := v.node()
	if !v.w.Nodes[name].Online {
		return perl.Die("node %s is offline", name)
	}
	v.s.Crash(name, v.order.For())
	return nil
}
