package handle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/stranger"
)

// acts are what strangers can do. An error says why PVE would not let it happen.
func acts() map[stranger.Act]func(*visit) error {
	all := map[stranger.Act]func(*visit) error{
		stranger.TakeID: (*visit).takeID, stranger.MakeID: (*visit).makeID, stranger.TakeName: (*visit).takeName,
		stranger.Attach: (*visit).attach, stranger.AttachContainer: (*visit).attachContainer, stranger.Plant: (*visit).plant,
		stranger.Lock: (*visit).lock, stranger.StaleLock: (*visit).staleLock, stranger.Unlock: (*visit).unlock,
		stranger.Restore: (*visit).restore, stranger.RestoreHis: (*visit).restoreHis, stranger.RestoreAside: (*visit).restoreAside,
		stranger.Migrate: (*visit).migrate, stranger.Delete: (*visit).remove, stranger.AddPool: (*visit).addPool,
		stranger.Fill: (*visit).fill, stranger.StorageOffline: (*visit).storageOffline,
		stranger.NodeOffline: (*visit).nodeOffline, stranger.NodeCrash: (*visit).nodeCrash,
	}
	maps.Copy(all, simpleActs())
	return all
}

// simpleActs are one request about the guest each.
func simpleActs() map[stranger.Act]func(*visit) error {
	one := func(do func(v *visit, g *state.Guest) error) func(*visit) error {
		return func(v *visit) error {
			g, err := v.guest()
			if err != nil {
				return err
			}
			return do(v, g)
		}
	}
	set := func(name, value string) map[string]string { return map[string]string{name: value} }
	return map[stranger.Act]func(*visit) error{
		stranger.Snapshot: one(func(v *visit, g *state.Guest) error {
			return v.on(g, "POST /snapshot", set("snapname", fmt.Sprintf("stranger%d", len(g.Snaps)+1)))
		}),
		stranger.Rollback: one(func(v *visit, g *state.Guest) error {
			name := g.Config["parent"]
			if name == "" {
				return Die("VM %d has no snapshot", g.VMID)
			}
			return v.on(g, "POST /snapshot/{snapname}/rollback", set("snapname", name))
		}),
		stranger.Backup: one(func(v *visit, g *state.Guest) error { return v.backup(g) }),
		stranger.Clone: one(func(v *visit, g *state.Guest) error {
			return v.on(g, "POST /clone", map[string]string{"newid": itoa(v.free()), "full": "1", "name": "strangers-clone"})
		}),
		stranger.Rename: one(func(v *visit, g *state.Guest) error {
			return v.on(g, "PUT /config", set("name", v.named("renamed-by-a-stranger")))
		}),
		stranger.Describe: one(func(v *visit, g *state.Guest) error {
			return v.on(g, "PUT /config", set("description", "a stranger looks after this one"))
		}),
		stranger.Resize: one(func(v *visit, g *state.Guest) error {
			opt, _, err := v.firstDisk(g)
			if err != nil {
				return err
			}
			return v.on(g, "PUT /resize", map[string]string{"disk": opt, "size": "+1G"})
		}),
		stranger.Detach: one(func(v *visit, g *state.Guest) error {
			opt, _, err := v.firstDisk(g)
			if err != nil {
				return err
			}
			return v.on(g, "PUT /config", set("delete", opt))
		}),
		stranger.Start: one(func(v *visit, g *state.Guest) error { return v.on(g, "POST /status/start", nil) }),
		stranger.Stop:  one(func(v *visit, g *state.Guest) error { return v.on(g, "POST /status/stop", nil) }),
		stranger.AddHA: one(func(v *visit, g *state.Guest) error {
			return v.call("POST /cluster/ha/resources", map[string]string{"sid": fmt.Sprintf("vm:%d", g.VMID), "state": "started"})
		}),
	}
}

func (v *visit) named(fallback string) string {
	if v.order.Name != "" {
		return v.order.Name
	}
	return fallback
}

// firstDisk is the guest's first disk and its volume.
func (v *visit) firstDisk(g *state.Guest) (opt, volid string, err error) {
	for _, opt := range driveNames(g.Config) {
		if d := v.s.parseDrive(opt, g.Config[opt]); d != nil && !d.isCDROM() && v.w.Volume(g.Node, d.file()) != nil && isBusDisk(opt) {
			return opt, d.file(), nil
		}
	}
	return "", "", Die("VM %d has no disk", g.VMID)
}

func isBusDisk(opt string) bool {
	return slices.ContainsFunc([]string{"scsi", "virtio", "sata", "ide"}, func(bus string) bool { return hasIndex(opt, bus) })
}

func (v *visit) takeID() error {
	id := v.wanted()
	if id == 0 {
		return Die("the operation wants no id")
	}
	if v.w.Guests[id] != nil {
		return Die("close (rename) atomic file '/etc/pve/nodes/%s/qemu-server/%d.conf' failed: File exists", v.node(), id)
	}
	v.made = id
	rivalCreate(v.w, v.node(), id)
	return nil
}

// makeID is takeID for a VM whose create task is still running: it has its lock and its first volume, and no name.
func (v *visit) makeID() error {
	if err := v.takeID(); err != nil {
		return err
	}
	g := v.w.Guests[v.made]
	whole := g.Config
	g.Config = map[string]string{}
	v.hold(g, "create", func() { g.Config = whole })
	return nil
}

// hold gives the guest a lock that a task of the stranger's holds. At its end done is called unless somebody took the lock away or
// ended the task, which is noted.
func (v *visit) hold(g *state.Guest, lock string, done func()) {
	t := v.s.foreignTask(g, lock, "stranger@pve")
	d := v.order.For()
	if d == 0 {
		d = time.Hour
	}
	w := v.w
	w.Strange.Held = append(w.Strange.Held, state.HeldLock{Guest: g, Lock: lock, Task: t})
	v.s.after(d, func() {
		w.CheckHeld()
		if t.Running && w.Guests[g.VMID] == g && g.LockCause == t.UPID {
			end := stranger.Deed{Order: v.order, Done: true, About: g.VMID, Ends: true, Was: w.StrangersExport()}
			done()
			v.s.endForeign(t, "OK")
			end.Is = w.StrangersExport()
			v.s.strangers.Record(end)
		} else if t.Running {
			v.s.endForeign(t, "VM is not locked")
		}
	})
}

func (v *visit) takeName() error {
	name := v.named(v.params["name"])
	if g := v.w.Guests[v.subject()]; name == "" && g != nil {
		name = g.Config["name"]
	}
	if name == "" {
		return Die("the guest has no name")
	}
	rivalCreate(v.w, v.node(), v.free())
	v.w.Guests[v.made].Config["name"] = name
	return nil
}

// his is a virtual machine or container of the stranger's own on a node; one is made if there is none.
func (v *visit) his(node, typ string) *state.Guest {
	for _, id := range slices.Sorted(maps.Keys(v.w.Guests)) {
		if g := v.w.Guests[id]; id >= strangersFirstID && v.w.Strange.Guests[g] && g.Node == node && g.Type == typ && g.Lock() == "" {
			return g
		}
	}
	rivalCreate(v.w, node, v.free())
	g := v.w.Guests[v.made]
	if typ == "lxc" {
		g.Type = typ
		root := strings.TrimSuffix(g.Config["scsi0"], ",size=1G")
		g.Config = map[string]string{"hostname": "rival", "arch": "amd64", "ostype": "debian", "memory": "512", "swap": "512",
			"rootfs": root + ",size=1G"}
	}
	return g
}

func (v *visit) attach() error {
	g, err := v.guest()
	if err != nil {
		return err
	}
	_, volid, err := v.firstDisk(g)
	if err != nil {
		return err
	}
	return v.on(v.his(g.Node, "qemu"), "PUT /config", map[string]string{"scsi7": volid})
}

// attachContainer writes a mount point; PVE allows any volume to who may allocate on its storage (pve-container LXC.pm,
// check_ct_modify_config_perm).
func (v *visit) attachContainer() error {
	g, err := v.guest()
	if err != nil {
		return err
	}
	_, volid, err := v.firstDisk(g)
	if err != nil {
		return err
	}
	v.his(g.Node, "lxc").Config["mp0"] = volid + ",mp=/srv,size=1G"
	return nil
}

// plant makes a volume that carries the guest's id in its name, as pvesm alloc does.
func (v *visit) plant() error {
	id, node, storage := v.wanted(), v.node(), v.order.Storage
	if g := v.w.Guests[v.subject()]; v.w.Guests[id] == nil && id == 0 && g != nil {
		id = g.VMID
	}
	if g := v.w.Guests[id]; g != nil {
		node = g.Node
		if _, volid, err := v.firstDisk(g); err == nil && storage == "" {
			storage, _, _ = state.SplitVolid(volid)
		}
	}
	if id == 0 {
		return Die("there is no guest")
	}
	for _, other := range slices.Sorted(maps.Keys(v.w.Storages)) {
		if s, err := v.w.StorageActive(node, other); storage == "" && err == nil && s.Has("images") {
			storage = other
		}
	}
	volume, err := v.w.Alloc(node, storage, id, "", "", 1<<30)
	if err != nil {
		return err
	}
	volume.Data = "the stranger's data"
	v.w.Strange.Volumes[volume] = true
	return nil
}
