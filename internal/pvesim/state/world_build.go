package state

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/release"
)

// worldBuilder turns a File into a World and collects what is wrong with it.
type worldBuilder struct {
	file   File
	w      *World
	faults []error
}

func (b *worldBuilder) fault(format string, args ...any) {
	b.faults = append(b.faults, fmt.Errorf(format, args...))
}

func (b *worldBuilder) build() *World {
	if len(b.file.Nodes) == 0 {
		b.fault("no nodes")
	}
	b.w = Default(nil)
	b.w.Pools = map[string]*Pool{}
	b.w.Profile = b.file.Profile
	b.w.CaseSensitiveTags = b.file.CaseSensitiveTags
	b.w.NextID.Lower, b.w.NextID.Upper = b.file.NextID.Lower, b.file.NextID.Upper
	b.nodes()
	b.storages()
	b.volumes()
	b.guests()
	b.groups()
	b.identities()
	return b.w
}

func (b *worldBuilder) nodes() {
	for i, n := range b.file.Nodes {
		node := &Node{
			Name: n.Name, Address: n.Address, Online: !n.Offline, CPUs: n.CPUs, Memory: int64(n.Memory), Bridges: n.Bridges,
			VLANAware: n.VLANAware, Files: map[string]string{}, Release: n.Release,
			ClockAhead: time.Duration(n.ClockAheadSeconds * float64(time.Second)),
		}
		if !nodeName.MatchString(n.Name) || b.w.Nodes[n.Name] != nil {
			b.fault("node %q: not a name, or it stands twice", n.Name)
		}
		if n.Release != "" && !slices.Contains(release.Versions(), n.Release) {
			b.fault("node %q: release %q is not one of %s", n.Name, n.Release, strings.Join(release.Versions(), ", "))
		}
		if node.Address == "" {
			node.Address = fmt.Sprintf("192.0.2.%d", i+11)
		}
		if node.CPUs == 0 {
			node.CPUs = 8
		}
		if node.Memory == 0 {
			node.Memory = 64 * gib
		}
		if node.Bridges == nil && b.file.Captured == nil {
			node.Bridges = []string{"vmbr0"}
		}
		b.w.Nodes[n.Name] = node
	}
}

var nodeName = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?$`)

// StorageTypes are the storage types whose naming of volumes is modelled.
func StorageTypes() []string { return slices.Clone(knownTypes) }

var knownTypes = []string{"dir", "nfs", "cifs", "cephfs", "btrfs", "glusterfs", "zfspool", "rbd", "lvmthin", "lvm",
	"esxi", "pbs"}

func (b *worldBuilder) storages() {
	if b.file.Storages == nil && b.file.Captured == nil {
		return
	}
	b.w.Storages = map[string]*Storage{}
	for _, f := range b.file.Storages {
		s := &Storage{
			ID: f.ID, Type: f.Type, Content: f.Content, Path: f.Path, Nodes: f.Nodes, Shared: f.Shared, Disabled: f.Disabled,
			Offline: f.Offline, Total: int64(f.Total), BusyFrees: f.BusyFrees, Same: f.SameAs,
		}
		if of := b.w.Storages[s.Same]; s.Same != "" && (of == nil || of.Same != "" || of.Type != s.Type) {
			b.fault("storage %s: same_as %q is no storage above it of the same type with a place of its own", s.ID, s.Same)
		} else if of != nil {
			s.Path, s.Export, s.Shared = of.Path, of.Export, of.Shared
		}
		if s.ID == "" || b.w.Storages[s.ID] != nil {
			b.fault("storage %q: no id, or it stands twice", s.ID)
		}
		if !slices.Contains(knownTypes, s.Type) {
			b.fault("storage %s: type %q is not one of %s", s.ID, s.Type, strings.Join(knownTypes, ", "))
		}
		if slices.Contains([]string{"nfs", "cifs", "cephfs", "glusterfs", "rbd"}, s.Type) {
			s.Shared = true
		}
		for _, n := range s.Nodes {
			if b.w.Nodes[n] == nil {
				b.fault("storage %s: node %q does not exist", s.ID, n)
			}
		}
		if s.Path == "" {
			s.Path = map[string]string{"dir": "/mnt/" + s.ID, "btrfs": "/mnt/" + s.ID, "zfspool": "rpool/" + s.ID, "rbd": s.ID,
				"lvmthin": "pve/" + s.ID, "lvm": s.ID}[s.Type]
		}
		if s.Path == "" {
			s.Path = "/mnt/pve/" + s.ID
		}
		if s.Total == 0 && b.file.Captured == nil {
			s.Total = 500 * gib
		}
		b.w.Storages[s.ID] = s
	}
}

func (b *worldBuilder) volumes() {
	for _, f := range b.file.Volumes {
		if b.w.Volume(f.Node, f.Volume) != nil {
			b.fault("volume %s on node %q stands twice", f.Volume, f.Node)
			continue
		}
		b.volume(f.Node, f.Volume, int64(f.Size), f.Data)
	}
}

// volume makes a volume whose name says what it is.
func (b *worldBuilder) volume(node, volid string, size int64, data string) {
	id, name, ok := SplitVolid(volid)
	s := b.w.Storages[id]
	if !ok || s == nil {
		b.fault("volume %s: no such storage", volid)
		return
	}
	n, err := s.ParseName(name)
	if err != nil {
		b.fault("volume %s: %w", volid, err)
		return
	}
	if !s.IsEverywhere() {
		if _, err := b.w.StorageEnabled(node, id); err != nil || b.w.Nodes[node] == nil {
			b.fault("volume %s: node %q does not exist or has no storage %s", volid, node, id)
			return
		}
	}
	v := &Volume{
		Storage: id, Node: s.Key(node,
			name).Node, Name: name, Content: n.Content, VMID: n.VMID, Format: n.Format, Size: size, Data: data,
		Parent: n.Base,
	}
	if strings.HasPrefix(n.File, "subvol-") {
		v.Content, v.Format = "rootdir", "subvol"
	}
	if v.Size == 0 && b.file.Captured == nil {
		v.Size = gib
	}
	// seen before its base, or without it
	if b.file.Captured != nil && n.Base != "" && b.w.Volumes[s.Key(node, n.Base)] == nil {
		b.volume(node, id+":"+n.Base, size, "")
	}
	b.w.Put(v)
}

func (b *worldBuilder) guests() {
	for _, f := range b.file.Guests {
		g := &Guest{VMID: f.VMID, Type: f.Type, Node: f.Node, Config: map[string]string{}, Ignores: f.Ignores,
			ShutdownSeconds: f.ShutdownSeconds, StopWarning: f.StopWarning, Pending: f.Pending, Deletes: f.Deletes,
			Snaps: f.Snapshots}
		maps.Copy(g.Config, f.Config)
		if f.Running {
			g.Running = &Running{}
		}
		b.asleep(f, g)
		if f.Agent != nil {
			g.Agent = &Agent{Silent: f.Agent.Silent, DelaySeconds: f.Agent.DelaySeconds}
			for _, i := range f.Agent.Interfaces {
				g.Agent.Interfaces = append(g.Agent.Interfaces, AgentInterface(i))
			}
		}
		b.w.settle(g)
		switch {
		case g.VMID < 100 || g.VMID > 999_999_999:
			b.fault("guest %d: a VMID is 100 to 999999999", g.VMID)
		case b.w.Guests[g.VMID] != nil:
			b.fault("guest %d stands twice", g.VMID)
		case g.Type != "qemu" && g.Type != "lxc":
			b.fault("guest %d: type %q is neither qemu nor lxc", g.VMID, g.Type)
		case b.w.Nodes[g.Node] == nil:
			b.fault("guest %d: node %q does not exist", g.VMID, g.Node)
		}
		b.w.Guests[g.VMID] = g
		if b.file.Captured == nil {
			b.complete(g)
			b.disks(g)
		}
		b.snapshots(g)
	}
}

// snapshots gives the volumes the snapshots that their guest says it has, the oldest first.
func (b *worldBuilder) snapshots(g *Guest) {
	names := slices.SortedFunc(maps.Keys(g.Snaps), func(a, c string) int {
		return cmp.Or(cmp.Compare(atoi(g.Snaps[a]["snaptime"]), atoi(g.Snaps[c]["snaptime"])), cmp.Compare(a, c))
	})
	for _, name := range names {
		for key, value := range g.Snaps[name] {
			file, _, _ := strings.Cut(value, ",")
			v := b.w.Volume(g.Node, strings.TrimPrefix(file, "file="))
			if diskKey.MatchString(key) && key != "vmstate" && v != nil && !strings.Contains(value, "media=cdrom") &&
				v.VMID == g.VMID {
				v.TakeSnapshot(name)
			}
		}
	}
}

// asleep pauses a guest, or saves it to disk: stopped, locked, and with a volume that holds its memory.
func (b *worldBuilder) asleep(f FileGuest, g *Guest) {
	if f.Paused && f.Suspended || f.Suspended && f.Running {
		b.fault("guest %d: it is paused, or suspended, or just running", f.VMID)
	}
	if f.Paused {
		g.Running = &Running{QMPStatus: "paused"}
	}
	if !f.Suspended {
		return
	}
	g.Config["lock"] = "suspended"
	name := fmt.Sprintf("vm-%d-state-suspend-%s", f.VMID, defaultCtime.Format("2006-01-02"))
	for _, key := range slices.Sorted(maps.Keys(g.Config)) {
		id, _, ok := SplitVolid(g.Config[key])
		s := b.w.Storages[id]
		if !diskKey.MatchString(key) || !ok || s == nil || g.Config["vmstate"] != "" {
			continue
		}
		if s.IsDir() {
			name = fmt.Sprintf("%d/%s.raw", f.VMID, name)
		}
		g.Config["vmstate"] = id + ":" + name
	}
	if g.Config["vmstate"] == "" {
		b.fault("guest %d: a suspended guest has a disk, beside which its memory is saved, or a vmstate", f.VMID)
	}
}

// complete gives a virtual machine what PVE generates for every one, and writes booleans as PVE does.
func (b *worldBuilder) complete(g *Guest) {
	for k, v := range g.Config {
		if number, ok := map[string]string{"true": "1", "false": "0"}[v]; ok {
			g.Config[k] = number
		}
	}
	if g.Type != "qemu" {
		return
	}
	for k, v := range g.Config {
		if model, rest, _ := strings.Cut(v, ","); netKey.MatchString(k) && !strings.Contains(model, "=") {
			g.Config[k] = strings.TrimSuffix(model+"="+b.w.MAC()+","+rest, ",")
		}
	}
	if g.Config["smbios1"] == "" {
		g.Config["smbios1"] = "uuid=" + b.w.UUID()
	}
	if g.Config["vmgenid"] == "" {
		g.Config["vmgenid"] = b.w.UUID()
	}
	if g.Config["meta"] == "" {
		g.Config["meta"] = fmt.Sprintf("creation-qemu=9.2.0,ctime=%d", defaultCtime.Unix())
	}
}

var netKey = regexp.MustCompile(`^net\d+$`)

var diskKey = regexp.MustCompile(`^(?:ide|sata|scsi|virtio|efidisk|tpmstate|unused|mp)\d+$|^rootfs$|^vmstate$`)

// disks makes the volumes that a configuration refers to, in the order of their names, bases first.
func (b *worldBuilder) disks(g *Guest) {
	for _, key := range slices.Sorted(maps.Keys(g.Config)) {
		first, rest, _ := strings.Cut(g.Config[key], ",")
		volid := strings.TrimPrefix(first, "file=")
		if _, _, ok := SplitVolid(volid); !diskKey.MatchString(key) || !ok || b.w.Volume(g.Node, volid) != nil {
			continue
		}
		size := FileSize(0)
		if strings.HasSuffix(volid, "-cloudinit") || strings.Contains(volid, "-cloudinit.") {
			size = 4 * mib
		}
		for _, part := range strings.Split(rest, ",") {
			if text, ok := strings.CutPrefix(part, "size="); ok && size.Parse(text) != nil {
				b.fault("guest %d: %s: %q is not a size", g.VMID, key, text)
			}
		}
		b.volume(g.Node, volid, int64(size), "")
	}
}
