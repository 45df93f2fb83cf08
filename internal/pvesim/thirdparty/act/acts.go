package act

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// Table are what third parties can do. An error says why PVE would not let it happen.
func Table() map[thirdparty.Act]func(*action) error {
	all := map[thirdparty.Act]func(*action) error{
		thirdparty.TakeID: (*action).takeID, thirdparty.MakeID: (*action).makeID, thirdparty.TakeName: (*action).takeName,
		thirdparty.Attach: (*action).attach, thirdparty.AttachContainer: (*action).attachContainer,
		thirdparty.Plant: (*action).plant, thirdparty.GiveDisk: (*action).giveDisk,
		thirdparty.Lock: (*action).lock, thirdparty.StaleLock: (*action).staleLock, thirdparty.Unlock: (*action).unlock,
		thirdparty.Restore: (*action).restore, thirdparty.RestoreHis: (*action).restoreHis,
		thirdparty.RestoreAside: (*action).restoreAside,
		thirdparty.Migrate:      (*action).migrate, thirdparty.Delete: (*action).remove,
		thirdparty.AddPool: (*action).addPool,
		thirdparty.Fill:    (*action).fill, thirdparty.StorageOffline: (*action).storageOffline,
		thirdparty.NodeOffline: (*action).nodeOffline, thirdparty.NodeCrash: (*action).nodeCrash,
	}
	maps.Copy(all, simpleActs())
	maps.Copy(all, clusterActs())
	return all
}

// simpleActs are one request about the guest each.
func simpleActs() map[thirdparty.Act]func(*action) error {
	one := func(do func(v *action, g *state.Guest) error) func(*action) error {
		return func(v *action) error {
			g, err := v.guest()
			if err != nil {
				return err
			}
			return do(v, g)
		}
	}
	set := func(name, value string) map[string]string { return map[string]string{name: value} }
	return map[thirdparty.Act]func(*action) error{
		thirdparty.Snapshot: one(func(v *action, g *state.Guest) error {
			return v.on(g, "POST /snapshot", set("snapname", fmt.Sprintf("thirdparty%d", len(g.Snaps)+1)))
		}),
		thirdparty.Rollback: one(func(v *action, g *state.Guest) error {
			name := g.Config["parent"]
			if name == "" {
				return perl.Die("VM %d has no snapshot", g.VMID)
			}
			return v.on(g, "POST /snapshot/{snapname}/rollback", set("snapname", name))
		}),
		thirdparty.Backup: one(func(v *action, g *state.Guest) error { return v.backup(g) }),
		thirdparty.Clone: one(func(v *action, g *state.Guest) error {
			return v.on(g, "POST /clone", map[string]string{"newid": strconv.Itoa(v.free()), "full": "1",
				"name": "third-party-clone"})
		}),
		thirdparty.Rename: one(func(v *action, g *state.Guest) error {
			return v.on(g, "PUT /config", set("name", v.named("renamed-by-a-third-party")))
		}),
		thirdparty.Describe: one(func(v *action, g *state.Guest) error {
			return v.on(g, "PUT /config", set("description", "a third party looks after this one"))
		}),
		thirdparty.Configure: one(func(v *action, g *state.Guest) error { return v.configure(g) }),
		thirdparty.Resize: one(func(v *action, g *state.Guest) error {
			opt, _, err := v.firstDisk(g)
			if err != nil {
				return err
			}
			return v.on(g, "PUT /resize", map[string]string{"disk": opt, "size": "+1G"})
		}),
		thirdparty.Detach: one(func(v *action, g *state.Guest) error {
			opt, _, err := v.firstDisk(g)
			if err != nil {
				return err
			}
			return v.on(g, "PUT /config", set("delete", opt))
		}),
		thirdparty.Start: one(func(v *action, g *state.Guest) error { return v.on(g, "POST /status/start", nil) }),
		thirdparty.Stop:  one(func(v *action, g *state.Guest) error { return v.on(g, "POST /status/stop", nil) }),
		thirdparty.AddHA: one(func(v *action, g *state.Guest) error {
			return v.call("POST /cluster/ha/resources", map[string]string{"sid": fmt.Sprintf("vm:%d", g.VMID),
				"state": "started"})
		}),
	}
}

// configure changes options of every sort, none of which needs a restart or rights to another object.
func (v *action) configure(g *state.Guest) error {
	params := map[string]string{"onboot": flipped(g.Config["onboot"]), "startup": "order=7", "tags": "third;party",
		"balloon": "0"}
	if opt, _, err := v.firstDisk(g); err == nil {
		params[opt] = g.NextConfig()[opt] + ",mbps_wr=77"
	}
	if net := g.NextConfig()["net0"]; net != "" && !strings.Contains(net, "link_down") {
		params["net0"] = net + ",link_down=1"
	}
	return v.on(g, "PUT /config", params)
}

func flipped(flag string) string {
	if flag == "1" {
		return "0"
	}
	return "1"
}

func (v *action) named(fallback string) string {
	if v.order.Name != "" {
		return v.order.Name
	}
	return fallback
}

// firstDisk is the guest's first disk and its volume.
func (v *action) firstDisk(g *state.Guest) (opt, volid string, err error) {
	for _, opt := range drive.DriveNames(g.Config) {
		if d := drive.Parse(v.s, opt, g.Config[opt]); d != nil && !d.IsCDROM() && v.w.Volume(g.Node, d.File()) != nil &&
			isBusDisk(opt) {
			return opt, d.File(), nil
		}
	}
	return "", "", perl.Die("VM %d has no disk", g.VMID)
}

func isBusDisk(opt string) bool {
	return slices.ContainsFunc([]string{"scsi", "virtio", "sata", "ide"},
		func(bus string) bool { return drive.HasIndex(opt, bus) })
}

func (v *action) takeID() error {
	id := v.wanted()
	if id == 0 {
		return perl.Die("the operation wants no id")
	}
	if v.w.Guests[id] != nil {
		return perl.Die("close (rename) atomic file '/etc/pve/nodes/%s/qemu-server/%d.conf' failed: File exists", v.node(),
			id)
	}
	v.made = id
	engine.RivalCreate(v.w, v.node(), id)
	return nil
}

// makeID is takeID for a VM whose create task is still running: it has its lock and its first volume, and no name.
func (v *action) makeID() error {
	if err := v.takeID(); err != nil {
		return err
	}
	g := v.w.Guests[v.made]
	whole := g.Config
	g.Config = map[string]string{}
	v.hold(g, "create", func() { g.Config = whole })
	return nil
}

// hold gives the guest a lock that a task of the third party's holds. At its end done is called, unless the lock
// was taken away or the task was ended meanwhile, which is noted.
func (v *action) hold(g *state.Guest, lock string, done func()) {
	t := thirdPartyTask(v.s, g, lock, "thirdparty@pve")
	d := v.order.For()
	if d == 0 {
		d = time.Hour
	}
	w := v.w
	w.ThirdParties.Held = append(w.ThirdParties.Held, state.HeldLock{Guest: g, Lock: lock, Task: t})
	v.s.After(d, func() {
		state.CheckHeld(w)
		if t.Running && w.Guests[g.VMID] == g && g.LockCause == t.UPID {
			end := thirdparty.Report{Order: v.order, Done: true, About: g.VMID, Ends: true, Was: w.ExportThirdParties()}
			done()
			v.s.EndThirdParty(t, "OK")
			end.Is = w.ExportThirdParties()
			v.s.ThirdParties().Record(end)
		} else if t.Running {
			v.s.EndThirdParty(t, "VM is not locked")
		}
	})
}

func (v *action) takeName() error {
	name := v.named(v.params["name"])
	if g := v.w.Guests[v.subject()]; name == "" && g != nil {
		name = g.Config["name"]
	}
	if name == "" {
		return perl.Die("the guest has no name")
	}
	engine.RivalCreate(v.w, v.node(), v.free())
	v.w.Guests[v.made].Config["name"] = name
	return nil
}

// his is a virtual machine or container of the third party's own on a node; one is made if there is none.
func (v *action) his(node, typ string) *state.Guest {
	for _, id := range slices.Sorted(maps.Keys(v.w.Guests)) {
		if g := v.w.Guests[id]; id >= FirstID && v.w.ThirdParties.Guests[g] && g.Node == node && g.Type == typ &&
			g.Lock() == "" {
			return g
		}
	}
	engine.RivalCreate(v.w, node, v.free())
	g := v.w.Guests[v.made]
	if typ == "lxc" {
		g.Type = typ
		root := strings.TrimSuffix(g.Config["scsi0"], ",size=1G")
		g.Config = map[string]string{"hostname": "rival", "arch": "amd64", "ostype": "debian", "memory": "512", "swap": "512",
			"rootfs": root + ",size=1G"}
	}
	return g
}

func (v *action) attach() error {
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

// attachContainer writes a mount point; PVE allows any volume to a caller that may allocate on its storage
// (pve-container LXC.pm, check_ct_modify_config_perm).
func (v *action) attachContainer() error {
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
func (v *action) plant() error {
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
		return perl.Die("there is no guest")
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
	volume.Data = "the third party's data"
	v.w.ThirdParties.Volumes[volume] = true
	return nil
}

// giveDisk adds a disk to the guest, as a user does it: PVE takes the lowest name that is free for it (pve-storage
// Plugin.pm find_free_diskname). The last slots are the free ones.
func (v *action) giveDisk() error {
	g, err := v.guest()
	if err != nil {
		return err
	}
	s, err := v.storage()
	if err != nil {
		return err
	}
	slot := ""
	for n := 29; n >= 0 && slot == ""; n-- {
		if name := fmt.Sprintf("scsi%d", n); g.Config[name] == "" && g.Pending[name] == "" {
			slot = name
		}
	}
	before := maps.Clone(v.w.Volumes)
	if err := v.on(g, "PUT /config", map[string]string{slot: s.ID + ":1"}); err != nil {
		return err
	}
	for key, volume := range v.w.Volumes {
		if before[key] == nil {
			volume.Data = "the third party's data"
			v.w.ThirdParties.Volumes[volume] = true
		}
	}
	return nil
}
