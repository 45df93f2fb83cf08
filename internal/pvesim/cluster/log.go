package cluster

import (
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
)

// clusterLog is GET /cluster/log: the newest entries first, 50 of them unless told otherwise (pve-cluster
// pmxcfs/server.c CFS_IPC_GET_CLUSTER_LOG). An identity without Sys.Syslog has its own alone (pve-manager
// API2/Cluster.pm log).
func clusterLog(r *engine.Request) (any, error) {
	limit, all := 50, r.Check("/", "Sys.Syslog") == nil
	if asked := r.Params["max"]; asked != "" {
		limit = perl.Number(asked)
	}
	log, list := r.W.Log.Entries, []any{}
	for i := len(log) - 1; i >= 0 && len(list) < limit; i-- {
		e := log[i]
		if !all && e.User != r.Auth.ID {
			continue
		}
		list = append(list, map[string]any{"uid": e.UID, "time": e.Time.Unix(), "pri": 6, "tag": "pvedaemon", "pid": 1000,
			"node": e.Node, "user": e.User, "msg": e.Message, "id": strconv.Itoa(e.UID) + ":" + e.Node})
	}
	return list, nil
}
