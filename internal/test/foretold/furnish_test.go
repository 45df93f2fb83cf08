package foretold_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/foretold"
)

// furnishing is what another user has given a VM, or set up for it.
type furnishing struct {
	name string
	give func(*state.World, *state.Guest)
	// together: it stands in no change's way, so that all of these are given at once, too.
	together bool
}

// furnishings are about a VM of the configuration.
func furnishings() []furnishing {
	return []furnishing{
		{"nothing", func(*state.World, *state.Guest) {}, false},
		{"a snapshot", snapshot, false},
		{"two snapshots, the machine's memory in one", snapshots, false},
		{"a backup job of its own", job("alone"), true},
		{"a backup job with others", job("several", 8000), true},
		{"a backup job with all the VMs of the configuration", shared, true},
		{"a backup job that leaves it out", leftOut, true},
		{"a replication job", replicated, false},
		{"an HA entry", underHA, false},
		{"HA rules", ruled, false},
		{"permissions", permitted, true},
		{"firewall options", firewalled, true},
		{"firewall rules", filtered, true},
		{"aliases and IP sets", aliased, true},
		{"a disk in a free slot", disk("scsi29"), true},
		{"a detached disk", disk("unused0"), true},
		{"devices", devices, true},
		{"options", options, true},
		{"properties of its devices", properties, true},
		{"values that wait", waiting, true},
		{"removals that wait", removals, true},
		{"a guest that does not obey", func(_ *state.World, g *state.Guest) { g.Ignores = []string{"shutdown", "unplug"} }, false},
		{"a guest that is paused", func(_ *state.World, g *state.Guest) {
			if g.Running != nil {
				g.Running.QMPStatus = "paused"
			}
		}, false},
		{"a guest that is off", func(_ *state.World, g *state.Guest) { g.Running = nil }, false},
		{"a guest that runs", func(w *state.World, g *state.Guest) { start(w, g) }, false},
	}
}

// all gives a VM what stands in no change's way.
func all(w *state.World, g *state.Guest) {
	for _, f := range furnishings() {
		if f.together {
			f.give(w, g)
		}
	}
}

func start(w *state.World, g *state.Guest) {
	if g.Running == nil && g.Config["template"] == "" && !isHolder(g) {
		g.Running = &state.Running{QMPStatus: "running", StartedAt: w.Clock.Now(), Booted: maps.Clone(g.Config)}
	}
}

// isHolder reports whether a VM holds a proxmox_disk.
func isHolder(g *state.Guest) bool { return strings.Contains(g.Config["description"], "proxmox_disk") }

func snap(w *state.World, g *state.Guest, name string, memory bool) {
	section := maps.Clone(g.Config)
	section["snaptime"] = strconv.FormatInt(w.Clock.Now().Unix(), 10)
	if memory && g.Running != nil {
		section["vmstate"] = fmt.Sprintf("local-zfs:vm-%d-state-%s", g.VMID, name)
		w.Put(&state.Volume{Storage: "local-zfs", Node: g.Node, Name: fmt.Sprintf("vm-%d-state-%s", g.VMID, name), VMID: g.VMID,
			Content: "images", Format: "raw", Size: 1 << 30})
	}
	if g.Snaps == nil {
		g.Snaps = map[string]map[string]string{}
	}
	for slot, value := range g.Config {
		volume, _, _ := strings.Cut(value, ",")
		if v := w.Volume(g.Node, volume); v != nil && v.VMID == g.VMID && !strings.HasPrefix(slot, "unused") && !strings.HasSuffix(v.Name, "cloudinit") {
			v.Snaps = append(v.Snaps, name)
		}
	}
	g.Snaps[name], g.Config["parent"] = section, name
}

func snapshot(w *state.World, g *state.Guest) { snap(w, g, "by-hand", false) }

func snapshots(w *state.World, g *state.Guest) {
	snap(w, g, "first", false)
	snap(w, g, "second", true)
}

func job(id string, others ...int) func(*state.World, *state.Guest) {
	return func(w *state.World, g *state.Guest) {
		id := fmt.Sprintf("%s-%d", id, g.VMID)
		w.Backups[id] = &state.BackupJob{ID: id, VMIDs: append([]int{g.VMID}, others...), Storage: "local", Schedule: "daily"}
	}
}

func shared(w *state.World, g *state.Guest) {
	if w.Backups["ours"] == nil {
		w.Backups["ours"] = &state.BackupJob{ID: "ours", Storage: "local", Schedule: "daily"}
	}
	w.Backups["ours"].VMIDs = append(w.Backups["ours"].VMIDs, g.VMID)
}

func leftOut(w *state.World, g *state.Guest) {
	id := fmt.Sprintf("all-but-%d", g.VMID)
	w.Backups[id] = &state.BackupJob{ID: id, All: true, Exclude: []int{g.VMID}, Storage: "local", Schedule: "daily"}
}

func replicated(w *state.World, g *state.Guest) {
	id := fmt.Sprintf("%d-0", g.VMID)
	w.Replication[id] = &state.ReplicationJob{ID: id, Guest: g.VMID, Target: "pve2", Schedule: "*/15"}
}

func underHA(w *state.World, g *state.Guest) {
	requested := "stopped"
	if g.Running != nil {
		requested = "started"
	}
	sid := fmt.Sprintf("vm:%d", g.VMID)
	if w.HA[sid] == nil {
		w.HA[sid] = &state.HAResource{SID: sid, State: requested, Options: map[string]string{"comment": "by hand"}}
	}
}

func ruled(w *state.World, g *state.Guest) {
	underHA(w, g)
	sid := fmt.Sprintf("vm:%d", g.VMID)
	if w.HARules == nil {
		w.HARules = map[string]map[string]string{}
	}
	w.HARules[fmt.Sprintf("alone-%d", g.VMID)] = map[string]string{"type": "node-affinity", "resources": sid, "nodes": "pve1,pve2"}
	w.HARules[fmt.Sprintf("several-%d", g.VMID)] = map[string]string{"type": "node-affinity", "resources": sid + ",vm:8000", "nodes": "pve1,pve2"}
	if w.HARules["ours"] == nil {
		w.HARules["ours"] = map[string]string{"type": "resource-affinity", "affinity": "positive", "resources": sid}
		return
	}
	w.HARules["ours"]["resources"] += "," + sid
}

func permitted(w *state.World, g *state.Guest) {
	w.Users["alice@pve"] = &state.User{ID: "alice@pve"}
	w.ACL = append(w.ACL, state.ACLEntry{Path: fmt.Sprintf("/vms/%d", g.VMID), Subject: "alice@pve", Role: "PVEVMUser", Propagate: true})
}

func firewall(w *state.World, g *state.Guest) *state.FirewallFile {
	if w.Firewall[g.VMID] == nil {
		w.Firewall[g.VMID] = &state.FirewallFile{}
	}
	return w.Firewall[g.VMID]
}

func firewalled(w *state.World, g *state.Guest) {
	f := firewall(w, g)
	f.Options = maps.Clone(f.Options)
	if f.Options == nil {
		f.Options = map[string]string{}
	}
	f.Options["policy_out"], f.Options["macfilter"], f.Options["log_level_in"] = "DROP", "0", "info"
}

func filtered(w *state.World, g *state.Guest) {
	f := firewall(w, g)
	f.Rules = append(f.Rules, map[string]string{"type": "in", "action": "ACCEPT", "proto": "tcp", "dport": "5432", "comment": "by hand", "enable": "1"})
}

func aliased(w *state.World, g *state.Guest) {
	f := firewall(w, g)
	f.Aliases = map[string]map[string]string{"office": {"name": "office", "cidr": "192.0.2.7"}}
	f.IPSets = map[string]*state.IPSet{"trusted": {Entries: []map[string]string{{"cidr": "192.0.2.0/24"}}}}
}

// disk gives the VM a disk with data in a slot.
func disk(slot string) func(*state.World, *state.Guest) {
	return func(w *state.World, g *state.Guest) {
		if isHolder(g) {
			return
		}
		name := fmt.Sprintf("vm-%d-disk-by-hand-%s", g.VMID, slot)
		w.Put(&state.Volume{Storage: "local-lvm", Node: g.Node, Name: name, VMID: g.VMID, Content: "images", Format: "raw", Size: 1 << 30,
			Data: foretold.Theirs + " in " + slot})
		set(g, slot, "local-lvm:"+name+",size=1G")
		if strings.HasPrefix(slot, "unused") {
			set(g, slot, "local-lvm:"+name)
		}
	}
}

// set changes an option of a VM, and of its guest, where that runs.
func set(g *state.Guest, option, value string) {
	g.Config[option] = value
	if g.Running != nil && g.Running.Booted != nil {
		g.Running.Booted[option] = value
	}
}

func devices(_ *state.World, g *state.Guest) {
	if isHolder(g) {
		return
	}
	for option, value := range map[string]string{"net9": "virtio=BC:24:11:00:09:09,bridge=vmbr0", "serial3": "socket",
		"ide3": "local:iso/debian.iso,media=cdrom,size=600M", "usb2": "spice"} {
		if g.Config[option] == "" {
			set(g, option, value)
		}
	}
}

func options(_ *state.World, g *state.Guest) {
	if isHolder(g) {
		return
	}
	for option, value := range map[string]string{"tablet": "0", "localtime": "1", "startup": "order=3,up=20", "cpulimit": "1.5", "cpuunits": "300",
		"onboot": "1", "hotplug": "disk,network,usb", "shares": "700", "keyboard": "de", "vmstatestorage": "local-zfs", "tags": "by-hand",
		"freeze": "0", "migrate_downtime": "0.2", "nameserver": "192.0.2.53", "searchdomain": "example.com"} {
		if g.Config[option] == "" {
			set(g, option, value)
		}
	}
}

// properties are given to the devices that the VM has, where they have none of these.
func properties(_ *state.World, g *state.Guest) {
	more := map[string]string{"scsi": "serial=byhand,mbps_rd=50", "net": "rate=12,mtu=1400", "virtio": "serial=byhand", "sata": "serial=byhand"}
	for option, value := range g.Config {
		prefix := strings.TrimRight(option, "0123456789")
		if more[prefix] != "" && option != prefix && !isHolder(g) {
			set(g, option, value+","+more[prefix])
		}
	}
}

// waiting are values that a user has set on a running guest.
func waiting(_ *state.World, g *state.Guest) {
	if g.Running == nil {
		return
	}
	g.Pending = map[string]string{"sockets": "2", "vga": "virtio", "net8": "virtio=BC:24:11:00:08:08,bridge=vmbr0"}
}

// removals are those that a user has asked of a running guest that did not let go.
func removals(w *state.World, g *state.Guest) {
	if g.Running == nil {
		return
	}
	disk("sata5")(w, g)
	set(g, "audio0", "device=ich9-intel-hda,driver=none")
	g.Deletes = map[string]int{"sata5": 1, "audio0": 1}
}
