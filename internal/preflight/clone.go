package preflight

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/nearest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// clone checks whether the source can become the planned VM, on the planned node. A source that the run changes is left
// to the apply, and so is a clone of which not all is known. A replacement destroys the old VM first, so a source that
// cannot be read now, or copied, is reported.
func (p *planCheck) clone(ctx context.Context, c *Checker, r Request) {
	if p.origin.VMID == 0 {
		return
	}
	id := strconv.Itoa(p.origin.VMID)
	node, ok := p.resources.Node(p.origin.Node)
	if ok && node.Status != "online" && node.Status != "unknown" && !r.Acting {
		p.say(sourceAway, r.Clone.Path(), fmt.Sprintf("PVE lists node %s as %s, and clones a VM on its own node alone. "+
			"Bring the node back, or clone another VM", node.Node, node.Status), id, node.Node)
		return
	}
	p.add(guest.HasItsDisks(ctx, c.guests, p.origin.VMID, r.Clone.Path()))
	config, err := c.guests.SourceConfig(ctx, p.origin.Node, p.origin.VMID)
	if err != nil {
		if !pve.IsKind(err, pve.Denied) { // the missing privilege is reported
			unread := finding(sourceUnread, r.Clone.Path(), "What the clone will be was not checked. If it cannot be read by "+
				"the time of the apply either, nothing is made, and "+goneByThen, id)
			unread.Err = err
			p.report(sourceUnread, unread)
		}
		return
	}
	unfinished(p, c, r, config)
	if p.copy = vm.Decode(config); r.isOpen(p.origin.VMID) {
		return
	}
	if !r.Acting {
		sourceDown(ctx, p, c, r.Clone, config)
		lockedSource(ctx, p, c, r.Clone, config["lock"])
	}
	if p.node != "" && p.node != p.origin.Node {
		_, err := r.Clone.Migrates(p.resources, p.origin, config, p.node)
		p.add(err)
	}
	copied := config
	if r.Clone.Snapshot != "" { // it may have other devices than the VM has now
		copied, err = c.api.QEMU(p.origin.Node, p.origin.VMID).SnapshotConfig(ctx, r.Clone.Snapshot)
	}
	if err == nil {
		p.copy, p.begun = vm.Decode(copied), true
	}
	if err == nil && r.Whole {
		nodesDevices(p, c, r.Clone.Path(), notLikeThis, copied, id)
		p.copied(copied, r.Planned, notLikeThis, id)
	}
	if !r.Acting { // then the request for the clone brings the same answer
		cloneable(ctx, p, c, r.Clone, config)
	}
}

// unfinished warns of a source that another create has not finished. One of this process is waited for.
func unfinished(p *planCheck, c *Checker, r Request, config map[string]string) {
	mark, isMarked := ownership.Unfinished(p.origin.VMID, config)
	isOurs := mark.Process != "" && mark.Process == c.guests.Process && !mark.Kept
	if isMarked && !r.Acting && !isOurs {
		p.say(sourceMarked, r.Clone.Path(), fmt.Sprintf("It is on node %s. %s. The apply waits for a create that is at work "+
			"on it, and refuses the clone where none is", p.origin.Node, guest.Unfinished(p.origin.VMID, mark)),
			strconv.Itoa(p.origin.VMID))
	}
}

const goneByThen = "a VM that is replaced has been destroyed by then"

// sourceDown reports disks of the source on storages that do not work: PVE activates all that it clones (qemu-server
// API2/Qemu.pm clone_vm). Those of a snapshot may be elsewhere.
func sourceDown(ctx context.Context, p *planCheck, c *Checker, clone *guest.Clone, config map[string]string) {
	if clone.Snapshot != "" {
		return
	}
	for _, slot := range vm.Slots(config) {
		volume := guest.VolumeOf(config[slot])
		if _, isOwned := volid.Owner(volume); isOwned && !vm.IsOptical(config[slot]) {
			p.storagesDown(ctx, c, at{p.origin.Node, "images"}, map[string]string{clone.Path(): volid.Storage(volume)})
		}
	}
}

// lockedSource warns of a lock that is not seen to end. One that a task holds the create waits for, and an identity
// that does not see the tasks of all cannot tell. A suspended VM is no half-done work: its memory waits.
func lockedSource(ctx context.Context, p *planCheck, c *Checker, clone *guest.Clone, lock string) {
	id := strconv.Itoa(p.origin.VMID)
	switch lock {
	case "":
		return
	case request.Suspended:
		p.say(sourceLocked, clone.Path(), fmt.Sprintf("It is suspended, with its memory on a disk. While it is, nothing is "+
			"made, and %s. Start or resume it first", goneByThen), id)
		return
	}
	held, err := c.cloning.Get(ctx, c.clock, "lock "+p.origin.Node+" "+id, func(ctx context.Context) (cloning, error) {
		h, err := c.holder(ctx, p.origin.Node, p.origin.VMID, request.LockedBy(lock, "clone VM "+id))
		if len(h.Runs) > 0 || !h.Audit {
			return cloning{}, err
		}
		return cloning{lock: h.String()}, err
	})
	if err == nil && held.lock != "" {
		p.say(sourceLocked, clone.Path(), fmt.Sprintf("%s. If the lock stays, nothing is made, and %s. Look whether a task "+
			"is at work on VM %s; if none is, %s as root on node %s removes the lock", held.lock, goneByThen, id,
			shell.Command("qm unlock {}", id), p.origin.Node), id)
	}
}

// isOpen reports whether a clone of a VM may be another one in the apply than it seems now.
func (r Request) isOpen(source int) bool { return r.SourceOpen != nil && r.SourceOpen(source) }

// cloneable reports a clone that PVE does not make of this source (qemu-server API2/Qemu.pm, clone_vm). PVE is asked
// where the configuration alone does not show that it does.
func cloneable(ctx context.Context, p *planCheck, c *Checker, clone *guest.Clone, config map[string]string) {
	source := p.origin
	source.Template = config["template"] == "1" // the listing tells it late
	full, id, name := clone.IsFull(source), strconv.Itoa(source.VMID), clone.Snapshot
	if _, has := config["tpmstate0"]; has && full && name == "" && source.Status == string(guest.Running) {
		power, err := c.api.Listing().Power(ctx, source.Node, source.VMID)
		if err == nil && power == string(guest.Running) {
			p.say(tpmRuns, clone.Path(), "PVE makes no full clone of a running VM with a TPM state. Shut it down first", id)
			return
		}
	}
	device, unlinked := notCloned(config, full)
	if name == "" && device+unlinked == "" {
		return
	}
	can := c.canClone(ctx, source, full, name)
	switch {
	case can.unknown:
	case !can.has && !can.missing && !full && config["tpmstate0"] != "": // which PVE copies, and counts as linked
	case can.missing:
		detail := "It has none. "
		if len(can.names) > 0 {
			detail = nearest.Hint(name, can.names) + "It has " + some(can.names) + ". "
		}
		p.say(snapshotMissing, "clone.snapshot", detail+"One that the same apply takes is named by a reference to its "+
			"proxmox_vm_snapshot", id, name)
	case can.has:
	case device != "":
		p.say(cloneRefused, clone.Path(), fmt.Sprintf("Its drive %s is a device of node %s, and PVE clones volumes of "+
			"storages alone. Take the drive out of VM %s first", device, source.Node, id), id)
	case full:
		p.say(cloneRefused, "clone.snapshot", fmt.Sprintf("Not all of its disks can be copied as snapshot %s has them: "+
			"of ZFS and of raw files, for instance, PVE copies no snapshots. Without clone.snapshot the disks are copied as "+
			"they are now", name), id)
	case source.Template:
		p.say(cloneRefused, "clone.full", fmt.Sprintf("PVE makes linked clones of a template unless told otherwise, and "+
			"not all of its disks can have them (%s): LVM, for instance, has none. Set clone.full = true", unlinked), id)
	default:
		p.say(cloneRefused, "clone.full", fmt.Sprintf("VM %s is no template, and PVE links clones to templates, and to "+
			"snapshots on some storages. Leave clone.full out, or make VM %s a template", id, id), id)
	}
}

// notCloned finds the first drive of a VM as it is that is a device, and the first that no clone may be linked to: only
// a template's disk is sure to be a base, and of LVM not even that (pve-storage LVMPlugin.pm, volume_has_feature).
func notCloned(config map[string]string, full bool) (device, unlinked string) {
	for _, slot := range slices.Backward(vm.Slots(config)) {
		volume := guest.VolumeOf(config[slot])
		_, isOwned := volid.Owner(volume)
		switch {
		case vm.IsOptical(config[slot]) || volid.IsCloudInit(volume):
		case volid.IsDevice(volume):
			device = slot
		case full || slot == "tpmstate0" || !isOwned: // PVE copies a TPM state in any case
		case !strings.HasPrefix(volume[strings.LastIndexAny(volume, ":/")+1:], "base-"):
			unlinked = slot + ", " + volume
		}
	}
	return device, unlinked
}

// cloning is what PVE says of clones of a source.
type cloning struct {
	has, missing, unknown bool
	names                 []string // of the snapshots, if the one to clone is missing
	lock                  string   // that is not seen to end, in words
}

// canClone asks PVE whether the storages of all disks have copies, or linked clones, as clone_vm itself asks them
// (qemu-server API2/Qemu.pm vm_feature, QemuConfig.pm has_feature). Optical and cloud-init drives do not count. A TPM
// state counts like a disk, although that of a linked clone is copied.
func (c *Checker) canClone(ctx context.Context, source pve.Resource, full bool, snapshot string) cloning {
	key := fmt.Sprintf("%s %d %t %s", source.Node, source.VMID, full, snapshot)
	answer, err := c.cloning.Get(ctx, c.clock, key, func(ctx context.Context) (cloning, error) {
		api := c.api.QEMU(source.Node, source.VMID)
		has, err := api.CanBeCloned(ctx, full, snapshot)
		if snapshot == "" || !pve.IsKind(err, pve.NotFound) {
			return cloning{has: has}, err
		}
		names, err := api.SnapshotNames(ctx)
		return cloning{missing: !slices.Contains(names, snapshot), names: names}, err
	})
	answer.unknown = err != nil
	return answer
}
