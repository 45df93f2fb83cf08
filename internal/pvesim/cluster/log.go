package cluster

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// clusterLog is GET /cluster/log: the latest first, and 50 unless more are asked for. Without Sys.Syslog on / it has
// the caller's own (pve-manager API2/Cluster.pm log; pve-cluster pmxcfs/server.c CFS_IPC_GET_CLUSTER_LOG, logger.c
// clog_dump_json).
func clusterLog(r *engine.Request) (any, error) {
	all := auth.Has(r.W, r.Auth, "/", "Sys.Syslog")
	most, _ := strconv.Atoi(r.Params["max"]) // a number, by the schema
	if most == 0 {
		most = 50
	}
	list := []any{}
	for _, e := range slices.Backward(state.LatestLog(r.W)) {
		if len(list) == most {
			break
		}
		if !all && e.User != r.Auth.ID {
			continue
		}
		list = append(list, map[string]any{"uid": e.UID, "time": e.Time.Unix(), "pri": 6, "tag": "pvedaemon",
			"pid": 1000, "node": e.Node, "user": e.User, "msg": e.Message, "id": fmt.Sprintf("%d:%s", e.UID, e.Node)})
	}
	return list, nil
}
