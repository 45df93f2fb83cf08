package state

import "slices"

// Mapping is a resource mapping of the datacenter: a device or directory under one name on several nodes.
type Mapping struct {
	Kind  string   `json:"kind"` // pci, usb, dir
	ID    string   `json:"id"`
	Nodes []string `json:"nodes"` // those that have one
	// LiveMigration is a PCI mapping's live-migration-capable.
	LiveMigration bool `json:"live_migration,omitempty"`
}

// Mapping finds a mapping; nil if there is none.
func (w *World) Mapping(kind, id string) *Mapping {
	for _, m := range w.Mappings {
		if m.Kind == kind && m.ID == id {
			return m
		}
	}
	return nil
}

// On reports whether the node has the mapped resource. A mapping that does not exist is nowhere.
func (m *Mapping) On(node string) bool { return m != nil && slices.Contains(m.Nodes, node) }
