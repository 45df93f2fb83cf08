package provision

import (
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Proof is what a create that failed and left something knew of what is its own. It is kept in private state, so that a
// later destroy acts under the same rules as the rollback did, and not on whoever has the id by then.
type Proof struct {
	VMID     int       `json:"vmid"`
	Nodes    []string  `json:"nodes"` // where the configuration can be
	Cluster  string    `json:"cluster"`
	TX       string    `json:"transaction"`
	Deadline time.Time `json:"deadline"`
	Node     string    `json:"node"`     // where the volumes are
	Storages []string  `json:"storages"` // that were listed before the first write
	Before   []string  `json:"before"`   // volumes that were there then
	Tasks    []string  `json:"tasks"`    // UPIDs
	Lost     bool      `json:"lost,omitempty"`
	// Identity is the VM's own, where the create came to see it: once the commit may have taken effect the stamp is gone.
	Identity Identity `json:"identity,omitzero"`
}

// proof is what this create can prove.
func (c *creation) proof() *Proof {
	p := &Proof{VMID: c.vmid, Nodes: c.nodes(), Cluster: c.stamp.Cluster, TX: c.stamp.TX, Deadline: c.stamp.Deadline,
		Node: c.fence.node, Storages: c.fence.storages, Before: c.fence.orphans(),
		Lost: c.lost != nil, Identity: c.identity}
	for _, upid := range c.ledger.upids {
		p.Tasks = append(p.Tasks, string(upid))
	}
	return p
}

// removal goes on where the create's own gave up.
func (p *Proof) removal(s *Service) *removal {
	f := &fence{node: p.Node, vmid: p.VMID, storages: slices.Clone(p.Storages), blind: map[string]error{}, before: map[string]struct{}{}}
	for _, volume := range p.Before {
		f.before[volume] = struct{}{}
	}
	l := &ledger{}
	for _, upid := range p.Tasks {
		l.add(pve.UPID(upid))
	}
	r := &removal{s: s, vmid: p.VMID, nodes: p.Nodes, fence: f, ledger: l, stamp: p.stamp(), owns: p.Identity.proves}
	if p.Lost {
		r.lost = &lostJob{}
	}
	return r
}

func (p *Proof) stamp() stamp {
	return stamp{Cluster: p.Cluster, VMID: p.VMID, TX: p.TX, Deadline: p.Deadline.UTC()}
}

// whose judges the configuration that has our id now: ours, somebody else's, or, while it is locked and unmarked, unknown.
func (p *Proof) whose(config map[string]string) found {
	_, stamped := parseStamp(config["description"])
	switch {
	case p.stamp().proves(p.VMID, config), p.Identity.proves(config):
		return ours
	case !stamped && halfMade(config):
		return nobody
	}
	return stranger
}
