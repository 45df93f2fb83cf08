package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// ChangedVMID is the VM whose life is swept.
const ChangedVMID = 101

// ChangedWorld is a snapshot as a comparable value in which the VM's volumes are called by their slots: a number more or less in
// a volume's name loses nothing.
type ChangedWorld struct {
	Guests      []state.Guest          `json:"guests"`
	Volumes     []state.Volume         `json:"volumes"`
	Pools       []state.Pool           `json:"pools"`
	HA          []haEntry              `json:"ha"`
	Firewall    []fireFile             `json:"firewall"`
	Replication []state.ReplicationJob `json:"replication"`
	Backups     []state.BackupJob      `json:"backups"`
	Tasks       []any                  `json:"tasks"`
}

// forgetRenamed leaves out unused entries that name no volume: the names of disks before they were renamed.
func (w ChangedWorld) forgetRenamed() {
	for _, g := range w.Guests {
		if g.VMID == ChangedVMID {
			maps.DeleteFunc(g.Config, func(slot, value string) bool {
				return strings.HasPrefix(slot, "unused") && !slices.ContainsFunc(w.Volumes, func(v state.Volume) bool { return v.Storage+":"+v.Name == value })
			})
		}
	}
}

// ForgetDetached leaves out disks that an update has detached and not destroyed.
func (w *ChangedWorld) ForgetDetached() {
	w.forgetVolumes(func(v state.Volume) bool { return strings.HasPrefix(v.Name, "unused") })
	for _, g := range w.Guests {
		if g.VMID == ChangedVMID {
			maps.DeleteFunc(g.Config, func(slot, _ string) bool { return strings.HasPrefix(slot, "unused") })
		}
	}
}

// forgetCloudInitDrive leaves out a cloud-init drive that the configuration does not name.
func (w *ChangedWorld) forgetCloudInitDrive() {
	w.forgetVolumes(func(v state.Volume) bool {
		return strings.HasPrefix(v.Name, "orphan ") && strings.HasSuffix(v.Name, "-cloudinit")
	})
}

// forgetBootOrder leaves out an order that waits for the next start.
func (w *ChangedWorld) forgetBootOrder() {
	for _, g := range w.Guests {
		if g.VMID == ChangedVMID {
			delete(g.Pending, "boot")
		}
	}
}

func (w *ChangedWorld) forgetVolumes(are func(state.Volume) bool) {
	w.Volumes = slices.DeleteFunc(w.Volumes, func(v state.Volume) bool { return v.VMID == ChangedVMID && are(v) })
}

func (w ChangedWorld) json() []byte {
	text, _ := json.Marshal(w) // plain strings, numbers, maps and slices only
	return text
}

// name calls the volumes of a section by their slots, unless they have a name already.
func name(names, section map[string]string, prefix string) {
	for _, slot := range slices.Sorted(maps.Keys(section)) {
		volume, _, _ := strings.Cut(section[slot], ",")
		_, file, ok := strings.Cut(volume, ":")
		if !ok || !strings.Contains(file, fmt.Sprintf("-%d-", ChangedVMID)) || names[volume] != "" {
			continue
		}
		names[volume] = prefix + slot
	}
}

func rename(names, section map[string]string) {
	for slot, value := range section {
		volume, rest, more := strings.Cut(value, ",")
		if called, ok := names[volume]; ok {
			storage, _, _ := strings.Cut(volume, ":")
			section[slot] = storage + ":" + called
			if more {
				section[slot] += "," + rest
			}
		}
	}
}

// LabelOf is the contents that Label gives the volume in a slot.
func LabelOf(slot string) string { return "the data of " + slot }

// Label gives every volume of the VM contents of its own, so that a loss shows.
func Label(world *state.World) {
	g := world.Guests[ChangedVMID]
	for slot, value := range g.Config {
		volume, _, _ := strings.Cut(value, ",")
		for _, v := range world.Volumes {
			if v.VMID == ChangedVMID && v.Storage+":"+v.Name == volume && !strings.HasSuffix(v.Name, "cloudinit") {
				v.Data = LabelOf(slot)
			}
		}
	}
}

// AddThirdParties puts what belongs to others next to the VM: volumes that carry its id, guests under HA and firewall, jobs.
func AddThirdParties(world *state.World) {
	for _, v := range []state.Volume{
		{Storage: "local-zfs", Node: "pve1", Name: "vm-777-disk-0", VMID: 777},
		{Storage: "local-lvm", Node: "pve2", Name: "vm-778-disk-0", VMID: 778},
	} {
		v.Content, v.Format, v.Size, v.Data = "images", "raw", 1<<30, "a third party's data in "+v.Name
		world.Put(&v)
	}
	world.Pools["db"] = &state.Pool{ID: "db", Guests: []int{8000}}
	world.Firewall[8000] = &state.FirewallFile{Options: map[string]string{"enable": "1"}}
	world.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored", Options: map[string]string{"comment": "a third party's"}}
	world.Replication["8000-0"] = &state.ReplicationJob{ID: "8000-0", Guest: 8000, Target: "pve2"}
	world.Backups["all"] = &state.BackupJob{ID: "all", VMIDs: []int{8000}, Storage: "local"}
}

// snapshotted gives the VM a snapshot with all that PVE makes of one.
func snapshotted(world *state.World) {
	g := world.Guests[ChangedVMID]
	section := maps.Clone(g.Config)
	section["snaptime"], section["description"] = "1767225600", "before the upgrade"
	g.Snaps = map[string]map[string]string{"before": section}
	g.Config["parent"] = "before"
	for _, v := range world.Volumes {
		if v.VMID == ChangedVMID && !strings.HasSuffix(v.Name, "cloudinit") {
			v.Snaps = []string{"before"}
		}
	}
}

type haEntry struct {
	SID     string            `json:"sid"`
	State   string            `json:"state"`
	Options map[string]string `json:"options"`
}

type fireFile struct {
	VMID    int                 `json:"vmid"`
	Options map[string]string   `json:"options"`
	Rules   []map[string]string `json:"rules"`
}

// Content is a snapshot as a comparable value.
type Content struct {
	Guests   []state.Guest  `json:"guests"`
	Volumes  []state.Volume `json:"volumes"`
	Pools    []state.Pool   `json:"pools"`
	HA       []haEntry      `json:"ha"`
	Firewall []fireFile     `json:"firewall"`
	ACL      []any          `json:"acl"`
	Tasks    []any          `json:"tasks"`
}

// Content parses a snapshot of the cluster.
func (b *CreateBench) Content(snapshot []byte) Content {
	var w Content
	if err := json.Unmarshal(snapshot, &w); err != nil {
		b.t.Fatal(err)
	}
	return w
}

// isOf reports whether a volume carries an id, on that node or for all nodes.
func isOf(v state.Volume, vmid int, node string) bool {
	return v.VMID == vmid && (v.Node == node || v.Node == "")
}

// Without is the world less everything that carries an id on a node.
func (w Content) Without(vmid int, node string) Content {
	w.Guests = slices.DeleteFunc(slices.Clone(w.Guests), func(g state.Guest) bool { return g.VMID == vmid })
	w.Volumes = slices.DeleteFunc(slices.Clone(w.Volumes), func(v state.Volume) bool { return isOf(v, vmid, node) })
	w.Firewall = slices.DeleteFunc(slices.Clone(w.Firewall), func(f fireFile) bool { return f.VMID == vmid })
	w.HA = slices.DeleteFunc(slices.Clone(w.HA), func(h haEntry) bool { return h.SID == "vm:"+strconv.Itoa(vmid) })
	pools := slices.Clone(w.Pools)
	for i := range pools {
		pools[i].Guests = slices.DeleteFunc(slices.Clone(pools[i].Guests), func(id int) bool { return id == vmid })
	}
	w.Pools = pools
	return w
}

// VolumesOf are the volumes that carry an id, on that node or for all nodes.
func (w Content) VolumesOf(vmid int, node string) []state.Volume {
	return slices.DeleteFunc(slices.Clone(w.Volumes), func(v state.Volume) bool { return !isOf(v, vmid, node) })
}

// Guest returns a guest of the content.
func (w Content) Guest(vmid int) (state.Guest, bool) {
	for _, g := range w.Guests {
		if g.VMID == vmid {
			return g, true
		}
	}
	return state.Guest{}, false
}

// ContentDiff is "" when nothing differs.
func ContentDiff(before, after Content) string { return cmp.Diff(before, after) }
