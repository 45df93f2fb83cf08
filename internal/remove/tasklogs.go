package remove

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
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

// listOwn lists the volumes of ours that are there now. What is new beside them is remembered, to be named.
func (r *removal) listOwn(ctx context.Context) ([]string, error) {
	found, err := r.Fence.OwnVolumes(ctx, r.s.guests)
	if err == nil && r.Made != nil {
		r.readDestroyed(ctx, found)
		if len(r.Made.rest(found)) > 0 {
			r.readMakers(ctx, found)
		}
		r.Made.addUnderWay(found)
		r.unproven = idsOf(r.Made.rest(found))
		found = slices.DeleteFunc(found, func(v pve.Volume) bool { return !r.Made.known[v.ID] })
	}
	return idsOf(found), err
}

// readDestroyed forgets the volumes that PVE has destroyed together with our VM: what has such a name now is somebody else's. Which
// stayed its log says (see couldNot).
func (r *removal) readDestroyed(ctx context.Context, found []pve.Volume) {
	went := func(v pve.Volume) bool { return guest.Uses(r.had, v.ID) }
	if r.destroyed == "" || r.Made.read[r.destroyed] || !slices.ContainsFunc(found, went) {
		return
	}
	log, err := r.s.api.TaskLog(ctx, r.destroyed, logLines)
	if err != nil {
		return
	}
	r.Made.read[r.destroyed] = true
	stayed := r.readDestroyLog(log)
	for volume := range r.Made.known {
		if guest.Uses(r.had, volume) && stayed[volume] == "" {
			delete(r.Made.known, volume)
		}
	}
}

// readMakers reads what the logs of our tasks that have ended say of volumes.
func (r *removal) readMakers(ctx context.Context, found []pve.Volume) {
	for _, upid := range r.Tasks.UPIDs {
		how, ended := r.ended[upid]
		if !ended || how == unknownEnd || upid.Type() == "qmdestroy" || r.Made.read[upid] {
			continue
		}
		log, err := r.s.api.TaskLog(ctx, upid, makerLines)
		if err != nil {
			continue // they are not known to be ours
		}
		r.Made.read[upid] = true
		r.Made.died = r.Made.died || how == killed
		made := logged(log, found, r.Fence)
		for _, v := range found {
			if how == killed && made[v.ID] || tellsNotFreed(log, v.ID, made[v.ID]) {
				r.Made.known[v.ID] = true
			}
		}
	}
}

// makerLines is more than a create of many disks says; a copy has a line for each percent, or each second.
const makerLines = 50_000

// noteUnproven names the volumes that were left alone since nothing shows whose they are.
func (r *removal) noteUnproven() {
	if len(r.unproven) == 0 {
		return
	}
	r.notes = append(r.notes, Note{Doubt: true, Text: fmt.Sprintf("Volumes with the id of VM %d came to node %s while the VM was made, "+
		"and nothing shows that this create has made them: %s. They were left alone. "+
		"Look whose they are (`pvesm list STORAGE --vmid %d`) before you remove any",
		r.VMID, r.Fence.Node, strings.Join(r.unproven, ", "), r.VMID)})
}
