package guest

import (
	"slices"
	"time"
)

// Proof is what a create that failed and left something knew of what is its own. It is kept in private state, so that a
// later destroy acts under the same rules as the rollback did, and not on whoever has the id by then.
type Proof struct {
	VMID     int           `json:"vmid"`
	Nodes    []string      `json:"nodes"` // where the configuration can be
	Cluster  string        `json:"cluster"`
	TX       string        `json:"transaction"`
	Deadline time.Time     `json:"deadline"`
	Fences   []FenceRecord `json:"fences"` // where the volumes are
	Tasks    []string      `json:"tasks"`  // UPIDs
	// Guessed are those of Tasks that a search found, which may be another process's.
	Guessed []string `json:"guessed,omitempty"`
	// Stub is the digest of the unmarked configuration that a killed task of the create left, as it was right after that.
	Stub string `json:"stub,omitempty"`
	Lost bool   `json:"lost,omitempty"`
	Pool string `json:"pool,omitempty"`
	HA   bool   `json:"ha,omitempty"` // HA may have an entry for the VM, made by the create
	// Identity is the VM's own, where the create came to see it: once the commit may have taken effect the stamp is gone.
	Identity Identity `json:"identity,omitzero"`
}

// FenceRecord is a node on which a create could make volumes, as it was before the first write.
type FenceRecord struct {
	Node     string   `json:"node"`
	Storages []string `json:"storages"` // that were listed
	Before   []string `json:"before"`   // volumes of the VMID that were there
}

// RestoreFences are the create's, as they were before its first write.
func (p *Proof) RestoreFences() Fences {
	var all Fences
	for _, at := range p.Fences {
		f := &Fence{Node: at.Node, vmid: p.VMID, Storages: slices.Clone(at.Storages), Blind: map[string]error{}, Before: map[string]struct{}{}}
		for _, volume := range at.Before {
			f.Before[volume] = struct{}{}
		}
		all = append(all, f)
	}
	return all
}

// Stamp is the mark that the create put on its VM.
func (p *Proof) Stamp() Stamp {
	return Stamp{Cluster: p.Cluster, VMID: p.VMID, TX: p.TX, Deadline: p.Deadline.UTC()}
}

// Whose judges the configuration that has our id now: ours, somebody else's, or, while it is locked and unmarked, unknown.
func (p *Proof) Whose(config map[string]string) Owner {
	_, stamped := ParseStamp(config["description"])
	switch {
	case p.Stamp().Proves(p.VMID, config), p.Identity.Proves(config):
		return Ours
	case !stamped && HalfMade(config):
		return Nobody
	}
	return Stranger
}

// Owner is our configuration, or who has the id instead.
type Owner int

const (
	Nobody Owner = iota
	Ours
	Stranger
)
