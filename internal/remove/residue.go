package remove

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// residues names what is left of our VM. failed is why the last pass did not get on.
func (r *removal) residues(failed error) []tx.Residue {
	var left []tx.Residue
	reason := "several attempts did not remove it"
	if failed != nil {
		reason = failed.Error()
	}
	switch {
	case r.at != "":
		left = append(left, r.guestResidue(r.at, reason))
	case !r.looked && !r.unseen:
		left = append(left, r.unseenResidue(reason))
	}
	for _, v := range r.left {
		if r.committed && r.at != "" && guest.Uses(r.has, v) {
			continue // it is the VM's, which stands
		}
		why := reason
		if said := r.why[v]; said != "" {
			why = said
		}
		left = append(left, r.volumeResidue(v, why))
	}
	return left
}

// surveyLeft looks, last of all, who else uses what is left: no command is printed that would take it from him.
func (r *removal) surveyLeft(ctx context.Context) {
	r.users, r.unsurveyed = map[string]string{}, false
	volumes := append(ownVolumes(r.VMID, r.has), r.left...)
	if len(volumes) == 0 {
		return
	}
	scope, err := r.s.scope(ctx, r.others, r.Fence.Node, volumes)
	if err == nil {
		r.others, err = r.s.surveyor.Since(ctx, r.s.surveyor.Ask(), scope)
	}
	if r.unsurveyed = err != nil; r.unsurveyed {
		return
	}
	for _, volume := range volumes {
		var used *InUseError
		if errors.As(inUse(r.others, []string{volume}, r.VMID), &used) {
			r.users[volume] = strings.Join(used.Users, "; ")
		}
	}
}

const notSeen = "; it could not be looked at, and may be gone already"

// guestResidue is a VM of ours that was seen. Only the lock of a dead worker is to be taken away: behind any other a task
// is at work.
func (r *removal) guestResidue(node, reason string) tx.Residue {
	command := r.destroyCommand()
	if r.has["protection"] == "1" && !r.committed {
		command = fmt.Sprintf("qm set %d --protection 0 && %s", r.VMID, command)
	}
	if r.ambiguous || r.othersWork { // may be somebody's who is making it
		command = fmt.Sprintf("qm config %d && pvenode task list --vmid %d --source all", r.VMID, r.VMID)
	} else if guest.IsOwnLock(r.has["lock"]) {
		command = fmt.Sprintf("qm unlock %d && %s", r.VMID, command)
	}
	left := tx.Residue{Kind: "guest", Node: node, ID: fmt.Sprint(r.VMID), Reason: reason, Command: command,
		What: fmt.Sprintf("VM %d on node %s", r.VMID, node)}
	if r.mayAdopt() && len(Adopted(r.VMID, r.has)) > 0 { // they would go with it
		left.Command = ""
	}
	for _, volume := range slices.Sorted(maps.Keys(r.users)) {
		if guest.Uses(r.has, volume) {
			left.Reason = alsoUsed(left.Reason, volume, r.users[volume])
			left.Command = ""
		}
	}
	if r.unsurveyed && len(ownVolumes(r.VMID, r.has)) > 0 {
		left.Reason += notSurveyed
		left.Command = fmt.Sprintf("grep -r -- -%d- /etc/pve/nodes", r.VMID)
	}
	return left
}

// alsoUsed adds to a reason, unless it says so, who would lose a volume.
func alsoUsed(reason, volume, users string) string {
	if !strings.Contains(reason, volume+" is also used by "+users) {
		reason += fmt.Sprintf("; volume %s is also used by %s", volume, users)
	}
	return reason + "; detach it there first"
}

const notSurveyed = "; whether somebody else uses its disks could not be looked at"

// destroyCommand destroys the VM. One that was never committed is named nowhere by us, and what others name is theirs.
func (r *removal) destroyCommand() string {
	command := fmt.Sprintf("qm destroy %d", r.VMID)
	if r.committed && !r.keep || r.purge {
		command += " --purge"
	}
	return command
}

// unseenResidue is a VM that could not be looked for. It may be gone, and somebody else's may have its id by now, so its
// command looks for our stamp first.
func (r *removal) unseenResidue(reason string) tx.Residue {
	left := r.guestResidue(r.Nodes[0], reason)
	if !r.committed {
		left.Command = fmt.Sprintf("grep -q %s /etc/pve/nodes/%s/qemu-server/%d.conf && %s", r.Stamp.TX, r.Nodes[0], r.VMID,
			r.destroyCommand())
	}
	if r.mayAdopt() {
		left.Command = fmt.Sprintf("qm config %d", r.VMID)
	}
	left.Reason += notSeen
	return left
}

// volumeResidue is a volume of ours. When somebody who cannot be seen has the id, or our VM may still be there, the command
// frees it only where no configuration of the cluster mentions it.
func (r *removal) volumeResidue(volume, reason string) tx.Residue {
	left := tx.Residue{Kind: "volume", Node: r.Fence.Node, ID: volume, Reason: reason, Command: "pvesm free " + volume,
		What: fmt.Sprintf("volume %s on node %s", volume, r.Fence.Node)}
	if r.partly {
		left.Reason += notSeen
	}
	if r.unseen || r.partly || r.unsurveyed {
		left.Command = fmt.Sprintf("grep -r %s /etc/pve/nodes || pvesm free %s", volume, volume)
	}
	if r.taken { // he may have a volume of that name by now
		left.Reason += "; somebody else has the id, and it may be his"
		left.Command = fmt.Sprintf("pvesm list %s --vmid %d", vm.VolumeStorage(volume), r.VMID)
	}
	if users := r.users[volume]; users != "" {
		left.Reason = alsoUsed(left.Reason, volume, users)
		left.Command = ""
	}
	return left
}
