package create

import (
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
)

// proof is what this create can prove.
func (c *creation) proof() *guest.Proof {
	p := &guest.Proof{VMID: c.vmid, Nodes: c.nodes(), Cluster: c.stamp.Cluster, TX: c.stamp.TX, Deadline: c.stamp.Deadline,
		Lost: c.lost != nil, Identity: c.identity, HA: c.managed, Pool: c.r.Pool, Stub: c.stub.Digest}
	if p.Identity.IsZero() {
		p.Identity.UUID = c.uuid
	}
	for _, f := range c.fences {
		p.Fences = append(p.Fences, f.Record())
	}
	for _, upid := range c.tasks.UPIDs {
		p.Tasks = append(p.Tasks, string(upid))
		if c.tasks.Guessed[upid] {
			p.Guessed = append(p.Guessed, string(upid))
		}
	}
	return p
}
