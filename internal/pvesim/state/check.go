package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Check returns what is wrong with the world: a volume without storage or node, a guest without node, a lock that no
// task holds and no recorded cause has left, a linked clone without its base, a running template.
// Whatever the API, a fault or a posted state does, it must hold; a violation is a bug of the simulator.
func (w *World) Check() error {
	var errs []error
	note := func(err error) { // hardly ever: it is asked after every request
		if err != nil {
			errs = append(errs, err)
		}
	}
	for key, v := range w.Volumes {
		note(checkVolume(w, key, v))
	}
	for id, g := range w.Guests {
		if id != g.VMID {
			note(fmt.Errorf("guest %d is filed under %d", g.VMID, id))
		}
		note(checkGuest(w, g))
	}
	errs = append(errs, checkJobs(w)...)
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return errors.Join(errs...)
}

// parseName is ParseName, remembered.
func parseName(w *World, s *Storage, name string) (VolumeName, error) {
	key := parsedName{s.Type, name}
	if n, ok := w.names[key]; ok {
		return n, nil
	}
	n, err := s.ParseName(name)
	if err != nil {
		return n, err
	}
	if w.names == nil || len(w.names) > 4*len(w.Volumes)+spareNames {
		w.names = map[parsedName]VolumeName{}
	}
	w.names[key] = n
	return n, nil
}

// spareNames is how many names are remembered beyond those that are there.
const spareNames = 1024

func checkVolume(w *World, key VolumeKey, v *Volume) error {
	if key != (VolumeKey{v.Storage, v.Node, v.Name}) {
		return fmt.Errorf("volume %s on node %q is filed under %v", v.Volid(), v.Node, key)
	}
	s := w.Storages[v.Storage]
	if s == nil {
		return fmt.Errorf("volume %s: storage does not exist", v.Volid())
	}
	if s.IsEverywhere() != (v.Node == "") {
		return fmt.Errorf("volume %s: node %q, but shared is %v", v.Volid(), v.Node, s.IsEverywhere())
	}
	if v.Node != "" && w.Nodes[v.Node] == nil {
		return fmt.Errorf("volume %s: node %s does not exist", v.Volid(), v.Node)
	}
	n, err := parseName(w, s, v.Name)
	if err != nil {
		return fmt.Errorf("volume %s: %w", v.Volid(), err)
	}
	if n.Content == "images" && v.Content == "images" && n.VMID != v.VMID {
		return fmt.Errorf("volume %s: owner %d, but the name says %d", v.Volid(), v.VMID, n.VMID)
	}
	if n.Base != "" && v.Parent == "" {
		return fmt.Errorf("volume %s: its name has a base, but no parent is recorded", v.Volid())
	}
	if v.Parent != "" && w.Volumes[VolumeKey{v.Storage, v.Node, v.Parent}] == nil {
		return fmt.Errorf("volume %s: linked clone without its base %s", v.Volid(), v.Parent)
	}
	return nil
}

func checkGuest(w *World, g *Guest) error {
	if w.Nodes[g.Node] == nil {
		return fmt.Errorf("guest %d: node %q does not exist", g.VMID, g.Node)
	}
	if g.Running != nil && g.IsTemplate() {
		return fmt.Errorf("guest %d: a template runs", g.VMID)
	}
	if g.Lock() == "" {
		return nil
	}
	if g.LockCause == "" {
		return fmt.Errorf("guest %d: lock %s, and nothing says why", g.VMID, g.Lock())
	}
	if !strings.HasPrefix(g.LockCause, "UPID:") {
		return nil
	}
	t := w.Tasks[g.LockCause]
	switch {
	case t == nil:
		return fmt.Errorf("guest %d: lock %s of a task that does not exist", g.VMID, g.Lock())
	case t.Running, t.ExitStatus == "unexpected status", g.Lock() == "suspended":
		return nil
	}
	return fmt.Errorf("guest %d: lock %s of task %s, which ended %q", g.VMID, g.Lock(), t.UPID, t.ExitStatus)
}
