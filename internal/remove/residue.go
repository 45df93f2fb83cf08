package remove

import (
	"fmt"

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

const notSeen = "; it could not be looked at, and may be gone already"

// guestResidue is a VM of ours that was seen. Only the lock of a dead worker is to be taken away: behind any other a task
// is at work.
func (r *removal) guestResidue(node, reason string) tx.Residue {
	command := fmt.Sprintf("qm destroy %d --purge", r.VMID)
	if r.has["protection"] == "1" && !r.committed {
		command = fmt.Sprintf("qm set %d --protection 0 && %s", r.VMID, command)
	}
	if r.ambiguous { // may be somebody's who is making it
		command = fmt.Sprintf("qm config %d && pvenode task list --vmid %d --source all", r.VMID, r.VMID)
	} else if guest.IsOwnLock(r.has["lock"]) {
		command = fmt.Sprintf("qm unlock %d && %s", r.VMID, command)
	}
	return tx.Residue{Kind: "guest", Node: node, ID: fmt.Sprint(r.VMID), Reason: reason, Command: command,
		What: fmt.Sprintf("VM %d on node %s", r.VMID, node)}
}

// unseenResidue is a VM that could not be looked for. It may be gone, and somebody else's may have its id by now, so its
// command looks for our stamp first.
func (r *removal) unseenResidue(reason string) tx.Residue {
	left := r.guestResidue(r.Nodes[0], reason)
	if !r.committed {
		left.Command = fmt.Sprintf("grep -q %s /etc/pve/nodes/%s/qemu-server/%d.conf && qm destroy %d --purge", r.Stamp.TX, r.Nodes[0], r.VMID,
			r.VMID)
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
	if r.unseen || r.partly {
		left.Command = fmt.Sprintf("grep -r %s /etc/pve/nodes || pvesm free %s", volume, volume)
	}
	if r.taken { // he may have a volume of that name by now
		left.Reason += "; somebody else has the id, and it may be his"
		left.Command = fmt.Sprintf("pvesm list %s --vmid %d", vm.VolumeStorage(volume), r.VMID)
	}
	return left
}
