package tfplan

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Managed is the set of attribute paths that the configuration of the last create or update set. Only what is in it is
// reset when it leaves the configuration.
type Managed map[string]bool

// ParseManaged reads what Managed.JSON wrote; nothing is the empty set.
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

// JSON is the set as a sorted list.
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

// Union adds the paths of other: after a change that failed in the middle, both what was and what is to be are ours.
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

// Managed lists what a configuration sets: groups, slots and values.
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
