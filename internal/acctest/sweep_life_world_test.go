package acctest_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// lifeVMID is the VM whose life is swept.
const lifeVMID = 101

// lifeWorld is a snapshot as a comparable value in which the VM's volumes are called by their slots: a number more or less in
// a volume's name is nobody's loss.
type lifeWorld struct {
	Guests      []state.Guest          `json:"guests"`
	Volumes     []state.Volume         `json:"volumes"`
	Pools       []state.Pool           `json:"pools"`
	HA          []haEntry              `json:"ha"`
	Firewall    []fireFile             `json:"firewall"`
	Replication []state.ReplicationJob `json:"replication"`
	Backups     []state.BackupJob      `json:"backups"`
	Tasks       []any                  `json:"tasks"`
}

func (b *lifeBench) canonical(t *testing.T) lifeWorld {
	t.Helper()
	var w lifeWorld
	if err := json.Unmarshal(b.w.Sim.Snapshot(), &w); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{} // volume id -> name by slot
	for i := range w.Guests {
		if g := &w.Guests[i]; g.VMID == lifeVMID {
			name(names, g.Config, "")
			name(names, g.Pending, "pending ")
			for _, snap := range slices.Sorted(maps.Keys(g.Snaps)) {
				name(names, g.Snaps[snap], snap+" ")
			}
			for _, section := range append(slices.Collect(maps.Values(g.Snaps)), g.Config, g.Pending) {
				rename(names, section)
			}
		}
	}
	for i := range w.Volumes {
		if v := &w.Volumes[i]; v.VMID == lifeVMID {
			called, ok := names[v.Storage+":"+v.Name]
			if !ok {
				called = "orphan " + v.Storage + ":" + v.Name
			}
			v.Name = called
		}
	}
	slices.SortFunc(w.Volumes, func(a, b state.Volume) int {
		return cmp.Or(cmp.Compare(a.Storage, b.Storage), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name))
	})
	return w
}

// forgetRenamed leaves out unused entries that name no volume: what a disk was called before it was renamed.
func (w lifeWorld) forgetRenamed() {
	for _, g := range w.Guests {
		if g.VMID == lifeVMID {
			maps.DeleteFunc(g.Config, func(slot, value string) bool {
				return strings.HasPrefix(slot, "unused") && !slices.ContainsFunc(w.Volumes, func(v state.Volume) bool { return v.Storage+":"+v.Name == value })
			})
		}
	}
}

func (w lifeWorld) json() []byte {
	text, _ := json.Marshal(w) // plain strings, numbers, maps and slices only
	return text
}

// name calls the volumes of a section by their slots, unless they have a name already.
func name(names, section map[string]string, prefix string) {
	for _, slot := range slices.Sorted(maps.Keys(section)) {
		volume, _, _ := strings.Cut(section[slot], ",")
		_, file, ok := strings.Cut(volume, ":")
		if !ok || !strings.Contains(file, fmt.Sprintf("-%d-", lifeVMID)) || names[volume] != "" {
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

// label gives every volume of the VM contents of its own, so that a loss shows.
func label(world *state.World) {
	g := world.Guests[lifeVMID]
	for slot, value := range g.Config {
		volume, _, _ := strings.Cut(value, ",")
		for _, v := range world.Volumes {
			if v.VMID == lifeVMID && v.Storage+":"+v.Name == volume && !strings.HasSuffix(v.Name, "cloudinit") {
				v.Data = "the data of " + slot
			}
		}
	}
}

// strangersBeside puts what belongs to others next to the VM: volumes that carry its id, guests under HA and firewall, jobs.
func strangersBeside(world *state.World) {
	for _, v := range []state.Volume{
		{Storage: "local-zfs", Node: "pve1", Name: "vm-777-disk-0", VMID: 777},
		{Storage: "local-lvm", Node: "pve2", Name: "vm-778-disk-0", VMID: 778},
	} {
		v.Content, v.Format, v.Size, v.Data = "images", "raw", 1<<30, "a stranger's data in "+v.Name
		world.Put(&v)
	}
	world.Pools["db"] = &state.Pool{ID: "db", Guests: []int{8000}}
	world.Firewall[8000] = &state.FirewallFile{Options: map[string]string{"enable": "1"}}
	world.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored", Options: map[string]string{"comment": "a stranger's"}}
	world.Replication["8000-0"] = &state.ReplicationJob{ID: "8000-0", Guest: 8000, Target: "pve2"}
	world.Backups["all"] = &state.BackupJob{ID: "all", VMIDs: []int{8000}, Storage: "local"}
}

// snapshotted gives the VM a snapshot with all that PVE makes of one.
func snapshotted(world *state.World) {
	g := world.Guests[lifeVMID]
	section := maps.Clone(g.Config)
	section["snaptime"], section["description"] = "1767225600", "before the upgrade"
	g.Snaps = map[string]map[string]string{"before": section}
	g.Config["parent"] = "before"
	for _, v := range world.Volumes {
		if v.VMID == lifeVMID && !strings.HasSuffix(v.Name, "cloudinit") {
			v.Snaps = []string{"before"}
		}
	}
}
