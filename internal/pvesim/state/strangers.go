package state

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Strangers is what of a World belongs to somebody else than the client under test. Whatever is not marked is the client's.
type Strangers struct {
	Guests  map[*Guest]bool
	Volumes map[*Volume]bool
	Files   map[string]bool // "node:path" of node files
	// Held are the locks of strangers' tasks that run, Broken those that somebody took away meanwhile.
	Held   []HeldLock
	Broken []string
}

// HeldLock is a lock on a guest's configuration that a stranger's task holds.
type HeldLock struct {
	Guest *Guest
	Lock  string
	Task  *Task
}

// CheckHeld notes which of the held locks somebody has broken: the task runs and its lock is gone, or the guest is; or somebody has
// ended the task. What has ended in order is forgotten.
func (w *World) CheckHeld() {
	w.Strange.Held = slices.DeleteFunc(w.Strange.Held, func(h HeldLock) bool {
		switch {
		case h.Task.ExitStatus == "OK":
			return true
		case h.Task.Running && w.Guests[h.Guest.VMID] == h.Guest && h.Guest.LockCause == h.Task.UPID:
			return false
		}
		w.Strange.Broken = append(w.Strange.Broken, fmt.Sprintf("lock %s on %d", h.Lock, h.Guest.VMID))
		return true
	})
}

// MarkStrangers marks everything in the world as strangers', but for the guests ours and the volumes that are theirs by name.
func (w *World) MarkStrangers(ours ...int) {
	w.Strange = Strangers{Guests: map[*Guest]bool{}, Volumes: map[*Volume]bool{}, Files: map[string]bool{}}
	for id, g := range w.Guests {
		if !slices.Contains(ours, id) {
			w.Strange.Guests[g] = true
		}
	}
	for _, v := range w.Volumes {
		if !slices.Contains(ours, v.VMID) || v.Content == "backup" {
			w.Strange.Volumes[v] = true
		}
	}
	for _, n := range w.Nodes {
		for path := range n.Files {
			w.Strange.Files[n.Name+":"+path] = true
		}
	}
}

// strangersGuest is a guest of a stranger's in the export.
type strangersGuest struct {
	*Guest
	Conf    string `json:"file"` // the configuration file
	Started int64  `json:"started,omitempty"`
	Losses  int    `json:"power_offs"`
	Pool    string `json:"pool,omitempty"`
}

type strangersVolume struct {
	Volid string `json:"volid"`
	On    string `json:"on,omitempty"`
	Gone  bool   `json:"gone,omitempty"` // one of his guests refers to it, and it does not exist
	// Shared: it is the client's, and one of his guests refers to it.
	Shared bool `json:"shared,omitempty"`
	*Volume
}

type strangersDoc struct {
	Guests   []strangersGuest  `json:"guests"`
	Volumes  []strangersVolume `json:"volumes"`
	Storages []*Storage        `json:"storages"`
	Pools    []*Pool           `json:"pools"`
	HA       []*HAResource     `json:"ha"`
	HAGroups []*HAGroup        `json:"ha_groups"`
	Firewall []snapshotRules   `json:"firewall"`
	ACL      []snapshotACL     `json:"acl"`
	Jobs     []string          `json:"jobs"`
	Files    map[string]string `json:"files"`
	Broken   []string          `json:"broken"`
}

// StrangersExport renders what belongs to strangers as stable JSON, so that two of them can be compared byte by byte: their guests
// with all volumes that these refer to, whosever those were; their volumes; pools, HA, access lists, firewall files, jobs and node
// files but for what concerns the client's guests; and which of their locks somebody broke.
func (w *World) StrangersExport() []byte {
	w.CheckHeld()
	his := func(id int) bool { g := w.Guests[id]; return g != nil && w.Strange.Guests[g] }
	doc := strangersDoc{Guests: []strangersGuest{}, Pools: []*Pool{}, HA: []*HAResource{}, Firewall: []snapshotRules{}, ACL: []snapshotACL{},
		Jobs: []string{}, Files: map[string]string{}, Broken: append([]string{}, w.Strange.Broken...),
		HAGroups: sorted(maps.Values(w.HAGroups), func(g *HAGroup) string { return g.ID })}
	for _, id := range slices.Sorted(maps.Keys(w.Guests)) {
		if his(id) {
			doc.Guests = append(doc.Guests, w.strangersGuest(w.Guests[id]))
		}
	}
	doc.Volumes = w.strangersVolumes()
	for _, id := range slices.Sorted(maps.Keys(w.Storages)) {
		s := *w.Storages[id]
		s.Offline, s.Full, s.BusyFrees = false, false, 0 // what it is like at the moment
		doc.Storages = append(doc.Storages, &s)
	}
	for _, p := range sorted(maps.Values(w.Pools), func(p *Pool) string { return p.ID }) {
		c := &Pool{ID: p.ID, Comment: p.Comment, Guests: []int{}, Storages: slices.Sorted(slices.Values(p.Storages))}
		for _, id := range slices.Sorted(slices.Values(p.Guests)) {
			if his(id) {
				c.Guests = append(c.Guests, id)
			}
		}
		doc.Pools = append(doc.Pools, c)
	}
	w.strangersRights(&doc, his)
	for _, n := range w.Nodes {
		for path, content := range n.Files {
			if name := n.Name + ":" + path; w.Strange.Files[name] {
				doc.Files[name] = content
			}
		}
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err) // plain strings, numbers, maps and slices only
	}
	return append(out, '\n')
}

func (w *World) strangersGuest(g *Guest) strangersGuest {
	c := g.Clone()
	c.Config, c.Pending, c.Deletes, c.Snaps = nil, nil, nil, nil // they are in the file
	out := strangersGuest{Guest: c, Conf: g.Text(), Pool: w.PoolOf(g.VMID)}
	if g.Running != nil {
		out.Started = g.Running.StartedAt.Unix()
	}
	for _, p := range w.PowerOffs {
		if p.VMID == g.VMID {
			out.Losses++
		}
	}
	return out
}

// strangersVolumes are the marked ones and those that strangers' guests refer to.
func (w *World) strangersVolumes() []strangersVolume {
	list := []strangersVolume{}
	seen := map[*Volume]bool{}
	add := func(v *Volume) {
		if !seen[v] {
			seen[v] = true
			list = append(list, strangersVolume{Volid: v.Volid(), On: v.Node, Shared: !w.Strange.Volumes[v], Volume: v})
		}
	}
	for _, v := range w.Volumes {
		if w.Strange.Volumes[v] {
			add(v)
		}
	}
	for g := range w.Strange.Guests {
		if w.Guests[g.VMID] != g {
			continue
		}
		for _, volid := range g.Volids() {
			v := w.Volume(g.Node, volid)
			if v == nil {
				list = append(list, strangersVolume{Volid: volid, On: g.Node, Gone: true})
				continue
			}
			for v != nil && !seen[v] {
				add(v)
				v = w.Volumes[VolumeKey{v.Storage, v.Node, v.Parent}]
			}
		}
	}
	slices.SortFunc(list, func(a, b strangersVolume) int { return cmp.Or(cmp.Compare(a.Volid, b.Volid), cmp.Compare(a.On, b.On)) })
	return list
}

// Volids are the volumes that a guest's configuration refers to, also in its pending changes and its snapshots.
func (g *Guest) Volids() []string {
	set := map[string]bool{}
	read := func(section map[string]string) {
		for opt, value := range section {
			file, _, _ := strings.Cut(value, ",")
			for _, prefix := range []string{"file=", "volume="} {
				file = strings.TrimPrefix(file, prefix)
			}
			if _, _, ok := SplitVolid(file); ok && opt != "description" && opt != "name" && !strings.HasPrefix(opt, "net") {
				set[file] = true
			}
		}
	}
	read(g.Config)
	read(g.Pending)
	for _, snap := range g.Snaps {
		read(snap)
	}
	return slices.Sorted(maps.Keys(set))
}

// strangersRights adds what is said elsewhere about strangers' guests, and what concerns no guest.
func (w *World) strangersRights(doc *strangersDoc, his func(int) bool) {
	for _, h := range sorted(maps.Values(w.HA), func(h *HAResource) string { return h.SID }) {
		if _, id, _ := strings.Cut(h.SID, ":"); his(atoi(id)) {
			doc.HA = append(doc.HA, h)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.Firewall)) {
		if his(id) {
			doc.Firewall = append(doc.Firewall, snapshotRules{id, *w.Firewall[id]})
		}
	}
	for _, e := range w.snapshotACL(nil) {
		if id, ok := strings.CutPrefix(e.Path, "/vms/"); !ok || his(atoi(id)) {
			doc.ACL = append(doc.ACL, e)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.Replication)) {
		if j := w.Replication[id]; his(j.Guest) {
			doc.Jobs = append(doc.Jobs, fmt.Sprintf("%+v", *j))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.Backups)) {
		j := *w.Backups[id]
		theirs := func(vmid int) bool { return !his(vmid) }
		j.VMIDs, j.Exclude = slices.DeleteFunc(slices.Clone(j.VMIDs), theirs), slices.DeleteFunc(slices.Clone(j.Exclude), theirs)
		doc.Jobs = append(doc.Jobs, fmt.Sprintf("%+v", j))
	}
}
