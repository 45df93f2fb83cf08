package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// snapshot is the document behind GET /_sim/snapshot and POST /_sim/state: everything that can leak, and the nodes and
// storages that it lies on. It holds no times, process ids and digests, and every list is sorted.
type snapshot struct {
	Nodes    []*Node          `json:"nodes"`
	Storages []*Storage       `json:"storages"`
	Guests   []*Guest         `json:"guests"`
	Volumes  []snapshotVolume `json:"volumes"`
	Pools    []*Pool          `json:"pools"`
	HA       []*HAResource    `json:"ha"`
	Firewall []snapshotRules  `json:"firewall"`
	ACL      []snapshotACL    `json:"acl"`

	Replication []*ReplicationJob            `json:"replication"`
	Backups     []*BackupJob                 `json:"backups"`
	HAGroups    []*HAGroup                   `json:"ha_groups"`
	HARules     map[string]map[string]string `json:"ha_rules"`

	Tasks []snapshotTask `json:"tasks"` // running ones; a load ignores them
}

type snapshotVolume struct {
	Volume
	// Path is where the volume lies on the node (the dataset's device on ZFS); a load ignores it.
	Path string `json:"path"`
}

type snapshotRules struct {
	VMID int `json:"vmid"`
	FirewallFile
}

type snapshotACL struct {
	Path      string `json:"path"`
	Subject   string `json:"subject"`
	Role      string `json:"role"`
	Propagate bool   `json:"propagate"`
}

type snapshotTask struct {
	Node string `json:"node"`
	Type string `json:"type"`
	ID   string `json:"id"`
	User string `json:"user"`
}

// Snapshot renders the world's state as stable, comparable JSON. It panics if the world cannot be rendered, which no
// world can bring about.
func (w *World) Snapshot() []byte {
	doc := snapshot{
		Nodes:       sorted(maps.Values(w.Nodes), func(n *Node) string { return n.Name }),
		Storages:    sorted(maps.Values(w.Storages), func(s *Storage) string { return s.ID }),
		Guests:      slices.Collect(maps.Values(w.Guests)),
		Pools:       sorted(maps.Values(w.Pools), func(p *Pool) string { return p.ID }),
		HA:          sorted(maps.Values(w.HA), func(h *HAResource) string { return h.SID }),
		Replication: sorted(maps.Values(w.Replication), func(j *ReplicationJob) string { return j.ID }),
		Backups:     sorted(maps.Values(w.Backups), func(j *BackupJob) string { return j.ID }),
		HAGroups:    sorted(maps.Values(w.HAGroups), func(g *HAGroup) string { return g.ID }),
		HARules:     map[string]map[string]string{},
		Volumes:     []snapshotVolume{}, Firewall: []snapshotRules{}, ACL: []snapshotACL{}, Tasks: []snapshotTask{},
	}
	maps.Copy(doc.HARules, w.HARules)
	slices.SortFunc(doc.Guests, func(a, b *Guest) int { return cmp.Compare(a.VMID, b.VMID) })
	if doc.Guests == nil {
		doc.Guests = []*Guest{}
	}
	for _, p := range doc.Pools {
		slices.Sort(p.Guests)
		slices.Sort(p.Storages)
		if p.Guests == nil {
			p.Guests = []int{}
		}
	}
	for _, v := range w.Volumes {
		path := ""
		if s := w.Storages[v.Storage]; s != nil {
			path = s.VolumePath(v.Name)
		}
		doc.Volumes = append(doc.Volumes, snapshotVolume{*v, path})
	}
	slices.SortFunc(doc.Volumes, func(a, b snapshotVolume) int {
		return cmp.Or(cmp.Compare(a.Storage, b.Storage), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name))
	})
	for _, id := range slices.Sorted(maps.Keys(w.Firewall)) {
		doc.Firewall = append(doc.Firewall, snapshotRules{id, *w.Firewall[id]})
	}
	doc.ACL, doc.Tasks = aclOf(w, doc.ACL), snapshotTasks(w, doc.Tasks)
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err) // plain strings, numbers, maps and slices only
	}
	return append(out, '\n')
}

func sorted[T any](all func(func(T) bool), key func(T) string) []T {
	list := slices.SortedFunc(all, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	if list == nil {
		return []T{}
	}
	return list
}

func aclOf(w *World, list []snapshotACL) []snapshotACL {
	for _, e := range w.ACL {
		list = append(list, snapshotACL(e))
	}
	slices.SortFunc(list, func(a, b snapshotACL) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Role, b.Role))
	})
	return list
}

func snapshotTasks(w *World, list []snapshotTask) []snapshotTask {
	for _, t := range w.Tasks {
		if t.Running {
			list = append(list, snapshotTask{t.Node, t.Type, t.ID, t.User})
		}
	}
	slices.SortFunc(list, func(a, b snapshotTask) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID),
			cmp.Compare(a.User, b.User))
	})
	return list
}

// Load puts the state of a snapshot in the place of the world's. A section that the document leaves out stays as it is;
// tasks stay in any case. On an error nothing has changed.
func (w *World) Load(document []byte) error {
	var doc snapshot
	dec := json.NewDecoder(bytes.NewReader(document))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	next := World{Nodes: w.Nodes, Storages: w.Storages, Guests: w.Guests, Volumes: w.Volumes, Pools: w.Pools, HA: w.HA,
		Firewall: w.Firewall, ACL: w.ACL, Tasks: w.Tasks, Clock: w.Clock, Replication: w.Replication, Backups: w.Backups,
		HAGroups: w.HAGroups}
	if err := next.fill(doc); err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	if err := next.Check(); err != nil {
		return fmt.Errorf("load snapshot: %w", err)
	}
	w.Nodes, w.Storages, w.Guests, w.Volumes = next.Nodes, next.Storages, next.Guests, next.Volumes
	w.Pools, w.HA, w.Firewall, w.ACL = next.Pools, next.HA, next.Firewall, next.ACL
	if doc.HARules != nil {
		w.HARules = doc.HARules
	}
	w.Replication, w.Backups, w.HAGroups = next.Replication, next.Backups, next.HAGroups
	return nil
}

func (w *World) fill(doc snapshot) error {
	var err error
	index(&err, &w.Nodes, doc.Nodes, func(n *Node) string { return n.Name })
	index(&err, &w.Storages, doc.Storages, func(s *Storage) string { return s.ID })
	index(&err, &w.Pools, doc.Pools, func(p *Pool) string { return p.ID })
	index(&err, &w.HA, doc.HA, func(h *HAResource) string { return h.SID })
	index(&err, &w.Replication, doc.Replication, func(j *ReplicationJob) string { return j.ID })
	index(&err, &w.Backups, doc.Backups, func(j *BackupJob) string { return j.ID })
	index(&err, &w.HAGroups, doc.HAGroups, func(g *HAGroup) string { return g.ID })
	index(&err, &w.Guests, doc.Guests, func(g *Guest) int { return g.VMID })
	if doc.Guests != nil {
		for _, g := range w.Guests {
			w.settle(g)
		}
	}
	if doc.Volumes != nil {
		w.Volumes = Volumes{}
		for _, v := range doc.Volumes {
			key := VolumeKey{v.Storage, v.Node, v.Name}
			if w.Volumes[key] != nil {
				return fmt.Errorf("volume %s:%s stands twice", v.Storage, v.Name)
			}
			volume := v.Volume
			w.put(&volume)
		}
	}
	if doc.Firewall != nil {
		w.Firewall = map[int]*FirewallFile{}
		for _, f := range doc.Firewall {
			w.Firewall[f.VMID] = &f.FirewallFile
		}
	}
	if doc.ACL != nil {
		w.ACL = nil
		for _, e := range doc.ACL {
			w.ACL = append(w.ACL, ACLEntry(e))
		}
	}
	return err
}

// settle gives a posted guest what the document does not hold.
func (w *World) settle(g *Guest) {
	if g.Config == nil {
		g.Config = map[string]string{}
	}
	if g.Type == "" {
		g.Type = "qemu"
	}
	if g.Lock() != "" {
		g.LockCause = "state"
	}
	if g.Running == nil {
		return
	}
	if g.Running.QMPStatus == "" {
		g.Running.QMPStatus = "running"
	}
	g.Running.Booted = maps.Clone(g.Config)
	g.Running.PID = 2000 + g.VMID
	if w.Clock != nil {
		g.Running.StartedAt = w.Clock.Now()
	}
}

func index[K comparable, T any](err *error, into *map[K]T, list []T, key func(T) K) {
	if list == nil {
		return
	}
	m := map[K]T{}
	for _, item := range list {
		if _, twice := m[key(item)]; twice && *err == nil {
			*err = fmt.Errorf("%v stands twice", key(item))
		}
		m[key(item)] = item
	}
	*into = m
}
