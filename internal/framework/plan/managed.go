package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Managed is the set of attribute paths of the configuration that a create or an update has set on the server. Only
// these are reset when they leave the configuration. A value that an import found as configured joins them when it
// changes.
type Managed map[string]bool

// ParseManaged reads the output of Managed.JSON; empty input is the empty set.
func ParseManaged(raw []byte) (Managed, error) {
	var paths []string
	if len(raw) == 0 {
		return Managed{}, nil
	}
	if err := json.Unmarshal(raw, &paths); err != nil {
		return nil, fmt.Errorf("private state, managed paths: %w", err)
	}
	m := make(Managed, len(paths))
	for _, path := range paths {
		m[path] = true
	}
	return m, nil
}

// JSON returns the set as a sorted list.
func (m Managed) JSON() []byte {
	paths := make([]string, 0, len(m))
	for path := range m {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	raw, err := json.Marshal(paths)
	if err != nil { // a list of strings always marshals
		return []byte("[]")
	}
	return raw
}

// Union adds the paths of other: after a change that failed in the middle, both the old and the new values are ours.
func (m Managed) Union(other Managed) Managed {
	all := make(Managed, len(m)+len(other))
	for path := range m {
		all[path] = true
	}
	for path := range other {
		all[path] = true
	}
	return all
}

// Without is the set less an attribute and its parts.
func (m Managed) Without(attribute string) Managed {
	all := maps.Clone(m)
	maps.DeleteFunc(all, func(path string, _ bool) bool {
		return path == attribute || strings.HasPrefix(path, attribute+".")
	})
	return all
}

// ManagedAfter returns the managed paths after an update: the configured paths that were managed before or that the
// update changed.
func (s Shape) ManagedAfter(before Managed, config, prior, planned tftypes.Value) Managed {
	after, changed := s.Managed(config), Managed{}
	s.root.note("", prior, planned, changed)
	for path := range after {
		if !before[path] && !changed[path] {
			delete(after, path)
		}
	}
	return after
}

// Doubtful returns the values that a plan leaves alone, and that it would reset if the configuration had once set the
// whole state. Sorted.
func (s Shape) Doubtful(in Input) []string {
	left := s.Plan(in).Value
	in.Managed = in.Managed.Union(s.Managed(in.Prior))
	differing := Managed{}
	s.root.note("", left, s.Plan(in).Value, differing)
	var paths []string
	maps.DeleteFunc(differing, func(path string, _ bool) bool { return !in.Managed[path] })
	for path := range differing {
		isInside := func(other string) bool { return strings.HasPrefix(other, path+".") }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(differing)), isInside) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// note records the differences between a state and a plan, with their groups and slots.
func (n *node) note(at string, prior, planned tftypes.Value, changed Managed) {
	if planned.Equal(prior) {
		return
	}
	changed[at] = true
	if n.kind == leaf {
		return
	}
	before := fields(prior)
	for name, v := range fields(planned) {
		child := n.children[name]
		if n.kind == slots {
			child = n.slot()
		}
		child.note(join(at, name), valueOr(before, name, null(v.Type())), v, changed)
	}
}

// Managed returns the groups, slots and values that a configuration sets.
func (s Shape) Managed(config tftypes.Value) Managed {
	m := Managed{}
	s.root.manage("", config, m)
	return m
}

func (n *node) manage(at string, config tftypes.Value, m Managed) {
	if config.Type() == nil || config.IsNull() || !n.optional {
		return
	}
	if at != "" {
		m[at] = true
	}
	switch n.kind {
	case group:
		values := fields(config)
		for name, child := range n.children {
			child.manage(join(at, name), values[name], m)
		}
	case slots:
		for key, element := range fields(config) {
			n.slot().manage(join(at, key), element, m)
		}
	case leaf:
	}
}
