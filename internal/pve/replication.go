package pve

import (
	"context"
	"strconv"
)

// ReplicationJob copies a guest's volumes to another node at intervals.
type ReplicationJob struct {
	// ID is "<vmid>-<number>"; Target the node that gets the copies.
	ID, Target string
	VMID       int
}

// ReplicationJobs lists the jobs of the guests that this identity may see (VM.Audit).
func (c *Client) ReplicationJobs(ctx context.Context) ([]ReplicationJob, error) {
	wire, err := fetch[[]map[string]flexString](ctx, c, "list the replication jobs", "/cluster/replication", nil)
	if err != nil {
		return nil, err
	}
	jobs := make([]ReplicationJob, 0, len(wire))
	for _, w := range wire {
		vmid, _ := strconv.Atoi(string(w["guest"])) // 0 is nobody's
		jobs = append(jobs, ReplicationJob{ID: string(w["id"]), Target: string(w["target"]), VMID: vmid})
	}
	return jobs, nil
}
