package provision

import (
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
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
	Lost    bool     `json:"lost,omitempty"`
	Pool    string   `json:"pool,omitempty"`
	HA      bool     `json:"ha,omitempty"` // HA may have an entry for the VM, made by the create
	// Identity is the VM's own, where the create came to see it: once the commit may have taken effect the stamp is gone.
	Identity Identity `json:"identity,omitzero"`
}

// FenceRecord is a node on which a create could make volumes, as it was before the first write.
type FenceRecord struct {
	Node     string   `json:"node"`
	Storages []string `json:"storages"` // that were listed
	Before   []string `json:"before"`   // volumes of the VMID that were there
	// Targets are the storages that the create's volumes can be on; none: any.
	Targets []string `json:"targets,omitempty"`
}

// proof is what this create can prove.
func (c *creation) proof() *Proof {
	p := &Proof{VMID: c.vmid, Nodes: c.nodes(), Cluster: c.stamp.Cluster, TX: c.stamp.TX, Deadline: c.stamp.Deadline,
		Lost: c.lost != nil, Identity: c.identity, HA: c.managed, Pool: c.r.Pool}
	for _, f := range c.fences {
		p.Fences = append(p.Fences, f.record())
	}
	for _, upid := range c.ledger.upids {
		p.Tasks = append(p.Tasks, string(upid))
		if c.ledger.guessed[upid] {
			p.Guessed = append(p.Guessed, string(upid))
		}
	}
	return p
}

// targets are what is left of a create, to go on where its own rollback gave up.
func targets(p *Proof) []Target {
	l := &ledger{}
	for _, upid := range p.Tasks {
		l.add(pve.UPID(upid))
	}
	for _, upid := range p.Guessed {
		l.guess(pve.UPID(upid))
	}
	var all []Target
	for _, f := range p.fences() {
		t := Target{vmid: p.VMID, nodes: p.Nodes, fence: f, ledger: l, stamp: p.stamp(), owns: p.Identity.proves, managed: p.HA, pool: p.Pool}
		if p.Lost {
			t.lost = &lostJob{}
		}
		all = append(all, t)
	}
	if !p.Identity.IsZero() { // the VM is where it ended up
		slices.Reverse(all)
	}
	return all
}

// record is the fence for a proof.
func (f *fence) record() FenceRecord {
	return FenceRecord{Node: f.node, Storages: f.storages, Before: f.orphans(), Targets: f.targets}
}

// fences are the create's, as they were before its first write.
func (p *Proof) fences() fences {
	var all fences
	for _, at := range p.Fences {
		f := &fence{node: at.Node, vmid: p.VMID, storages: slices.Clone(at.Storages), targets: at.Targets, blind: map[string]error{}, before: map[string]struct{}{}}
		for _, volume := range at.Before {
			f.before[volume] = struct{}{}
		}
		all = append(all, f)
	}
	return all
}

// stamp is the mark that the create put on its VM.
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
