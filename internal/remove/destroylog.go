package remove

import (
	"context"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// couldNot is what a destroy says in its log of a volume that it could not free; it ends well all the same. Until
// qemu-server 9.1.19 it does not even count as a warning (qemu-server QemuServer.pm destroy_vm).
const couldNot = "Could not remove disk '"

// logLines is more than a destroy of 256 volumes says.
const logLines = 500

// readDestroyLog notes what the log of a destroy says of volumes that stayed, and why.
func (r *removal) readDestroyLog(log []string) map[string]string {
	stayed := map[string]string{}
	for _, line := range log {
		_, rest, found := strings.Cut(line, couldNot)
		volume, why, closed := strings.Cut(rest, "'")
		if found && closed {
			stayed[volume] = "PVE removed the VM and said of it: could not remove disk" + why
			r.why[volume] = stayed[volume]
		}
	}
	return stayed
}

// readUnseen reads in the log of the last destroy what this identity may not see on the storages.
func (r *removal) readUnseen(ctx context.Context) {
	upid := r.lastDestroy()
	if upid == "" {
		return
	}
	log, err := r.s.api.TaskLog(ctx, upid, logLines)
	if err == nil {
		r.Fence.Unremoved, r.Fence.HasLog = r.readDestroyLog(log), true
	}
}

// explain reads why volumes outlived the VM, once for each destroy.
func (r *removal) explain(ctx context.Context) {
	if upid := r.lastDestroy(); upid != "" && upid != r.explained {
		r.explained = upid
		if log, err := r.s.api.TaskLog(ctx, upid, logLines); err == nil {
			r.readDestroyLog(log)
		}
	}
}

func (r *removal) lastDestroy() pve.UPID {
	for i := len(r.Tasks.UPIDs) - 1; i >= 0; i-- {
		if upid := r.Tasks.UPIDs[i]; upid.Type() == "qmdestroy" {
			return upid
		}
	}
	return ""
}
