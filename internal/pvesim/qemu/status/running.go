package status

import (
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// runningDetails adds what only the process of a running guest knows (QemuServer.pm, vmstatus with full). Nothing ever
// flows here.
func runningDetails(r *engine.Request, g *state.Guest, out map[string]any) {
	blocks, nics := map[string]any{}, map[string]any{}
	for opt, value := range g.Running.Booted {
		switch {
		case drive.HasIndex(opt, "net"):
			nics[fmt.Sprintf("tap%di%s", g.VMID, strings.TrimPrefix(opt, "net"))] = map[string]any{"netin": 0, "netout": 0}
		case drive.IsDrive(opt) && !strings.HasPrefix(value, "none,") && !strings.HasPrefix(opt, "efidisk") &&
			!strings.HasPrefix(opt, "tpmstate"):
			blocks[opt] = blockStatistics()
		}
	}
	if len(blocks) > 0 {
		out["blockstat"] = blocks
	}
	if len(nics) > 0 {
		out["nics"] = nics
	}
	// pve-qemu 0029-PVE-Backup-Proxmox-backup-patches-for-QEMU.patch
	support := map[string]any{"pbs-library-version": "1.5.1 (UNKNOWN)"}
	for _, k := range strings.Fields(`backup-fleecing backup-max-workers pbs-dirty-bitmap pbs-dirty-bitmap-migration
		pbs-dirty-bitmap-savevm pbs-masterkey query-bitmap-info`) {
		support[k] = true
	}
	out["proxmox-support"] = support
}

// blockStatistics are those of QEMU's query-blockstats.
func blockStatistics() map[string]any {
	out := map[string]any{"account_failed": true, "account_invalid": true, "timed_stats": []any{}}
	for _, k := range strings.Fields(`failed_flush_operations failed_rd_operations failed_unmap_operations
		failed_wr_operations
		flush_operations flush_total_time_ns invalid_flush_operations invalid_rd_operations invalid_unmap_operations
		invalid_wr_operations rd_bytes rd_merged rd_operations rd_total_time_ns unmap_bytes unmap_merged unmap_operations
		unmap_total_time_ns wr_bytes wr_highest_offset wr_merged wr_operations wr_total_time_ns`) {
		out[k] = 0
	}
	return out
}
