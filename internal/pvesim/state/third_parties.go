package state

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ThirdParties is the part of a World that does not belong to the client under test. Whatever is not marked is the
// client's.
type ThirdParties struct {
	Guests  map[*Guest]bool
	Volumes map[*Volume]bool
	Files   map[string]bool // "node:path" of node files
	// Held are the locks of third parties' tasks that run, Broken those that were taken away meanwhile.
	Held   []HeldLock
	Broken []string
}

// HeldLock is a lock on a guest's configuration that a third party's task holds.
type HeldLock struct {
	Guest *Guest
	Lock  string
	Task  *Task
}

// CheckHeld notes which of the held locks are broken: the task runs and its lock is gone, or the guest is; or
// the task was ended. Tasks that have ended in order are forgotten.
func CheckHeld(w *World) {
	w.ThirdParties.Held = slices.DeleteFunc(w.ThirdParties.Held, func(h HeldLock) bool {
		switch {
		case h.Task.ExitStatus == "OK":
			return true
		case h.Task.Running && w.Guests[h.Guest.VMID] == h.Guest && h.Guest.LockCause == h.Task.UPID:
			return false
		}
		w.ThirdParties.Broken = append(w.ThirdParties.Broken, fmt.Sprintf("lock %s on %d", h.Lock, h.Guest.VMID))
		return true
	})
}

// MarkThirdParties marks everything in the world as third parties', but for the guests ours and the volumes that are
// theirs by name.
func (w *World) MarkThirdParties(ours ...int) {
	w.ThirdParties = ThirdParties{Guests: map[*Guest]bool{}, Volumes: map[*Volume]bool{}, Files: map[string]bool{}}
	for id, g := range w.Guests {
		if !slices.Contains(ours, id) {
			w.ThirdParties.Guests[g] = true
		}
	}
	for _, v := range w.Volumes {
		if !slices.Contains(ours, v.VMID) || v.Content == "backup" {
			w.ThirdParties.Volumes[v] = true
		}
	}
	for _, n := range w.Nodes {
		for path := range n.Files {
			w.ThirdParties.Files[n.Name+":"+path] = true
		}
	}
}

// thirdPartyGuest is a guest of a third party's in the export.
type thirdPartyGuest struct {
	*Guest
	Conf    string `json:"file"` // the configuration file
	Started int64  `json:"started,omitempty"`
	Losses  int    `json:"power_offs"`
	Pool    string `json:"pool,omitempty"`
}

type thirdPartyVolume struct {
	Volid string `json:"volid"`
	On    string `json:"on,omitempty"`
	Gone  bool   `json:"gone,omitempty"` // a guest of a third party refers to it, and it does not exist
	// Shared: it is the client's, and a guest of a third party refers to it.
	Shared bool `json:"shared,omitempty"`
	*Volume
}

type thirdPartyDoc struct {
	Guests   []thirdPartyGuest  `json:"guests"`
	Volumes  []thirdPartyVolume `json:"volumes"`
	Storages []*Storage         `json:"storages"`
	Pools    []*Pool            `json:"pools"`
	HA       []*HAResource      `json:"ha"`
	HAGroups []*HAGroup         `json:"ha_groups"`
	Firewall []snapshotRules    `json:"firewall"`
	ACL      []snapshotACL      `json:"acl"`
	Jobs     []string           `json:"jobs"`
	Files    map[string]string  `json:"files"`
	Broken   []string           `json:"broken"`
}

// ExportThirdParties renders what belongs to third parties as stable JSON, so that two of them can be compared byte by
// byte: their guests with all volumes that these refer to, whosever those were; their volumes; pools, HA, access lists,
// firewall files, jobs and node files but for what concerns the client's guests; and which of their locks are
// broken.
func (w *World) ExportThirdParties() []byte {
	CheckHeld(w)
	his := func(id int) bool { g := w.Guests[id]; return g != nil && w.ThirdParties.Guests[g] }
	doc := thirdPartyDoc{Guests: []thirdPartyGuest{}, Pools: []*Pool{}, HA: []*HAResource{}, Firewall: []snapshotRules{},
		ACL:  []snapshotACL{},
		Jobs: []string{}, Files: map[string]string{}, Broken: append([]string{}, w.ThirdParties.Broken...),
		HAGroups: sorted(maps.Values(w.HAGroups), func(g *HAGroup) string { return g.ID })}
	for _, id := range slices.Sorted(maps.Keys(w.Guests)) {
		if his(id) {
			doc.Guests = append(doc.Guests, thirdPartyGuestOf(w, w.Guests[id]))
		}
	}
	doc.Volumes = thirdPartyVolumes(w)
	for _, id := range slices.Sorted(maps.Keys(w.Storages)) {
		s := *w.Storages[id]
		s.Offline, s.Full, s.BusyFrees = false, false, 0 // momentary conditions
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
	thirdPartyRights(w, &doc, his)
	for _, n := range w.Nodes {
		for path, content := range n.Files {
			if name := n.Name + ":" + path; w.ThirdParties.Files[name] {
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

func thirdPartyGuestOf(w *World, g *Guest) thirdPartyGuest {
	c := g.Clone()
	c.Config, c.Pending, c.Deletes, c.Snaps = nil, nil, nil, nil // they are in the file
	out := thirdPartyGuest{Guest: c, Conf: g.Text(), Pool: w.PoolOf(g.VMID)}
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

// thirdPartyVolumes are the marked ones and those that third parties' guests refer to, by ids and by paths, with the
// bases and the backing files of these.
func thirdPartyVolumes(w *World) []thirdPartyVolume {
	list := []thirdPartyVolume{}
	seen := map[*Volume]bool{}
	add := func(v *Volume) {
		if !seen[v] {
			seen[v] = true
			list = append(list, thirdPartyVolume{Volid: v.Volid(), On: v.Node, Shared: !w.ThirdParties.Volumes[v], Volume: v})
		}
	}
	for _, v := range w.Volumes {
		if w.ThirdParties.Volumes[v] {
			add(v)
		}
	}
	for g := range w.ThirdParties.Guests {
		if w.Guests[g.VMID] != g {
			continue
		}
		for _, volid := range g.Volids() {
			if w.Volume(g.Node, volid) == nil {
				list = append(list, thirdPartyVolume{Volid: volid, On: g.Node, Gone: true})
			}
		}
		for _, v := range UsedBy(w, g) {
			add(v)
		}
	}
	slices.SortFunc(list, func(a, b thirdPartyVolume) int {
		return cmp.Or(cmp.Compare(a.Volid, b.Volid),
			cmp.Compare(a.On, b.On))
	})
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

// thirdPartyRights adds what is said elsewhere about third parties' guests, and what concerns no guest.
func thirdPartyRights(w *World, doc *thirdPartyDoc, his func(int) bool) {
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
	for _, e := range aclOf(w, nil) {
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
		j.VMIDs, j.Exclude = slices.DeleteFunc(slices.Clone(j.VMIDs), theirs), slices.DeleteFunc(slices.Clone(j.Exclude),
			theirs)
		doc.Jobs = append(doc.Jobs, fmt.Sprintf("%+v", j))
	}
}
