package pve

import "context"

// Quorate tells whether the cluster has a quorum, without which it writes nothing. A single node that is in no cluster always has one.
// It takes Sys.Audit on / (pve-manager API2/Cluster.pm get_status).
func (c *Client) Quorate(ctx context.Context) (bool, error) {
	wire, err := fetch[[]map[string]flexString](ctx, c, "read the status of the cluster", "/cluster/status", nil)
	if err != nil {
		return false, err
	}
	for _, w := range wire {
		if quorate, ok := w["quorate"]; ok && w["type"] == "cluster" {
			return quorate == "1", nil
		}
	}
	return true, nil
}
