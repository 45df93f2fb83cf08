package destroy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// nameCopies warns of volumes with the VMID in places where the VM may have left some, or that were seen on the way.
// Nothing proves that they are its own, and not of another VM that had the VMID, so they are named and not touched.
// left is named elsewhere.
func (d *destruction) nameCopies(ctx context.Context, r *removal, left []saga.Residue) []guest.Warning {
	if r.taken || r.view.hidden {
		return nil // they belong to the guest that has the VMID now
	}
	seen := map[string]string{} // by volume and node: why it may be the VM's
	lines := d.unnamed(r)
	var unseen []string
	for _, at := range d.locations() {
		volumes, err := d.d.api.Storage(at.node, at.storage).Content(ctx, "images", d.r.Ref.VMID)
		if err != nil {
			unseen = append(unseen, fmt.Sprintf("  on node %s, storage %s could not be looked at (%s): %v", at.node,
				at.storage, at.why, err))
		}
		for _, v := range volumes {
			if at.only != nil && !at.only(v.ID) || r.of(v.ID).letGo && at.node == r.Baseline.Node { // a note names it
				continue
			}
			named := slices.ContainsFunc(left, func(l saga.Residue) bool { return l.ID == v.ID && l.Node == at.node })
			if !named && !(r.view.at() == at.node && guest.Uses(r.view.has(), v.ID)) { // else it is the VM's, which stands
				seen[v.ID+" on node "+at.node] = fmt.Sprintf("(%s)%s", at.why, d.howToFree(ctx, at.node, v.ID))
			}
		}
	}
	for _, volume := range slices.Sorted(maps.Keys(seen)) {
		lines = append(lines, fmt.Sprintf("  %s %s", volume, seen[volume]))
	}
	if lines = append(lines, unseen...); len(lines) == 0 {
		return nil
	}
	return []guest.Warning{{Summary: fmt.Sprintf("Volumes with the id of VM %d are left, and may be its own",
		d.r.Ref.VMID),
		Detail: "Nothing proves whose they are, so they were not touched:\n" + strings.Join(lines, "\n")}}
}

// unnamed are volumes with the VMID that the configuration of a VM that is gone did not name. They are as likely
// another user's, so no command is given that frees one.
func (d *destruction) unnamed(r *removal) (lines []string) {
	if !r.deleted.gone {
		return nil
	}
	media := d.media(r)
	for _, volume := range r.Baseline.Others {
		if r.of(volume).letGo || r.of(volume).snapshotOnly || slices.Contains(media, volume) { // a note names it
			continue
		}
		lines = append(lines, fmt.Sprintf("  %s on node %s, which its configuration did not name", volume, r.Baseline.Node))
	}
	return lines
}

// unastray refuses to destroy a VM with a volume that it may have by name alone (guest.Astray): PVE would free
// another's. Where no volume of the name is there the VM goes, and the former node may have its disks still.
func unastray(ctx context.Context, d *destruction, node string, now pve.PendingConfig, touched string) error {
	if d.r.Holder { // HA has none of these, and the VM that has the disk is looked for
		return nil
	}
	vmid, configs := d.r.Ref.VMID, append(slices.Collect(maps.Values(d.snapshots)), now.Current(), now.Merged())
	astray, err := guest.Strays(ctx, d.d.guests, d.r.Ref, node, configs...)
	if err != nil || len(astray.Volumes) == 0 {
		return err
	}
	d.copied[astray.From] = fmt.Sprintf("%s, with %s, and nothing shows that these came along", wasThere,
		strings.Join(astray.Volumes, ", "))
	return astray.Refusal(ctx, d.d.guests, node, vmid, touched)
}

// howToFree says how to remove a volume that is not proven to be ours, unless a guest, a program or another cluster may
// have it. The command looks once more, since another guest may have it by the time it is run.
func (d *destruction) howToFree(ctx context.Context, node, volume string) string {
	if err := d.d.ProveOrphaned(ctx, node, d.r.Ref.VMID, []string{volume}); err != nil {
		return fmt.Sprintf(": %v", err)
	}
	if command := shell.FreeUnused(volume); command != "" {
		return ": `" + command + "` there removes it"
	}
	return ": " + shell.ByHand
}

// location is a storage on a node on which the VM may have left volumes; only those, if it is not nil.
type location struct {
	node, storage, why string
	only               func(volume string) bool
}

// locations are the places to look at: of nodes that may have copies all storages that hold disks and, if the VM has
// had a cloud-init drive, the block storages of its own node. PVE cannot free such a drive when it moves it off one
// while the guest runs, and only logs that (qemu-server API2/Qemu.pm move_vm_disk).
func (d *destruction) locations() []location {
	var all []location
	for _, node := range slices.Sorted(maps.Keys(d.copied)) {
		for _, storage := range d.resources.Storages(node) {
			if guest.HoldsImages(storage) && (!storage.Shared || node == d.node) {
				all = append(all, location{node, storage.Storage, d.copied[node], nil})
			}
		}
	}
	if d.copied[d.node] != "" || !hasCloudInitDrive(d.config) {
		return all
	}
	own := d.ownVolumes()
	for _, storage := range d.resources.Storages(d.node) {
		looked := slices.ContainsFunc(own, func(v string) bool { return volid.Storage(v) == storage.Storage })
		if guest.HoldsImages(storage) && !looked && slices.Contains([]string{"zfspool", "zfs", "lvm", "lvmthin", "rbd"},
			storage.PluginType) {
			all = append(all, location{d.node, storage.Storage, "PVE leaves a cloud-init drive that is moved while the guest " +
				"runs", volid.IsCloudInit})
		}
	}
	return all
}

func hasCloudInitDrive(config pve.PendingConfig) bool {
	for _, value := range config.Current() {
		if strings.Contains(guest.VolumeOf(value), "-cloudinit") {
			return true
		}
	}
	return false
}

// withoutReborn leaves volumes out that PVE has destroyed together with our VM, or freed: one of such a name was made
// since, by a third party, or by another cluster on a shared storage. The log of a destroy that ended well names each
// volume that stayed (couldNot). A removal with a Made reads that by itself.
func withoutReborn(ctx context.Context, r *removal, found []pve.Volume) ([]pve.Volume, error) {
	d := &r.deleted
	wasIn := func(v pve.Volume) bool { return guest.GoesWith(d.config, v.ID) }
	if r.Made == nil && d.task != "" && d.task != d.sorted && slices.ContainsFunc(found, wasIn) {
		log, err := r.d.api.Tasks().Log(ctx, d.task, logLines)
		if err != nil && !pve.IsKind(err, pve.NotFound) {
			return nil, fmt.Errorf("look which volumes task %s has left: %w", d.task, err)
		}
		stayed := notRemoved(log)
		r.remember(stayed)
		if d.sorted = d.task; err == nil {
			noteGone(r, func(volume string) bool { return guest.GoesWith(d.config, volume) && stayed[volume] == "" })
		}
	}
	d.reborn = idsOf(slices.DeleteFunc(slices.Clone(found), func(v pve.Volume) bool { return !d.went[v.ID] }))
	return slices.DeleteFunc(found, func(v pve.Volume) bool { return d.went[v.ID] }), nil
}

// noteGone notes the volumes that are gone.
func noteGone(r *removal, isGone func(volume string) bool) {
	for volume := range r.Baseline.Named {
		if isGone(volume) {
			noteFreed(r, volume)
		}
	}
}

// noteFreed notes that PVE has freed a volume.
func noteFreed(r *removal, volume string) {
	if r.deleted.went == nil {
		r.deleted.went = map[string]bool{}
	}
	r.deleted.went[volume] = true
}

// rebornNote names the volumes that were left alone since they were made after ours were gone.
func rebornNote(vmid int, node string, volumes []string) Note {
	return Note{Text: fmt.Sprintf("VM %d is destroyed, and volumes of the names that it had are on node %s: %s. Nothing "+
		"shows that they are not another user's, made since. They were left alone; look whose they are before you remove "+
		"any", vmid, node, strings.Join(volumes, ", "))}
}

// media are the volumes with the VM's id that it had in optical drives alone, by its configuration at the end and by
// its snapshots.
func (d *destruction) media(r *removal) []string {
	vmid := d.r.Ref.VMID
	media := guest.OwnMedia(vmid, r.deleted.config, d.config.Merged())
	for _, snapshot := range d.snapshots {
		media = append(media, guest.OwnMedia(vmid, snapshot)...)
	}
	slices.Sort(media)
	return slices.DeleteFunc(slices.Compact(media), func(volume string) bool {
		return r.Baseline.HasNamed(volume) || r.of(volume).snapshotOnly
	})
}

// mediaLeft warns of the media with the VM's id that PVE has left.
func mediaLeft(vmid int, node string, media []string) []guest.Warning {
	if len(media) == 0 {
		return nil
	}
	return []guest.Warning{{Summary: fmt.Sprintf("Media of VM %d with its id are left", vmid),
		Detail: fmt.Sprintf("PVE destroys no medium of an optical drive with a VM. They were left on node %s: %s. Look "+
			"whose they are (`pvesm list STORAGE --vmid %d`) before you remove any",
			node, strings.Join(media, ", "), vmid)}}
}

// those are the volumes of which something is known.
func (m *memory) those(known func(volumeMemory) bool) []string {
	var all []string
	for _, volume := range slices.Sorted(maps.Keys(m.volumes)) {
		if known(*m.volumes[volume]) {
			all = append(all, volume)
		}
	}
	return all
}

// noteSnapshotOnly notes the volumes that only snapshots of a committed VM have, and that are not known to be its own.
func (m *memory) noteSnapshotOnly(volumes []string) {
	for _, known := range m.volumes {
		known.snapshotOnly = false
	}
	for _, volume := range volumes {
		m.of(volume).snapshotOnly = true
	}
}

// tellLetGo names the volumes that were let go of, and that the VM has not got again.
func tellLetGo(r *removal) {
	for volume, known := range r.volumes {
		known.letGo = known.letGo && !guest.Uses(r.view.has(), volume)
	}
	letGo := r.those(func(v volumeMemory) bool { return v.letGo })
	if len(letGo) == 0 {
		return
	}
	var storages []string
	for _, volume := range letGo {
		storages = append(storages, volid.Storage(volume))
	}
	slices.Sort(storages)
	r.notes = append(r.notes, Note{Text: fmt.Sprintf("The unused disks %s carried the id of VM %d and nothing shows that "+
		"they were its own: a rescan may have put them there, or they have the names of former disks. They were taken out "+
		"of it and left on node %s. Look whose they are (`pvesm list STORAGE --vmid %d`: %s) before you remove any",
		strings.Join(letGo, ", "), r.VMID, r.Baseline.Node, r.VMID, strings.Join(slices.Compact(storages), ", "))})
}

// tellSnapshotOnly names the volumes that only snapshots of a destroyed VM had.
func tellSnapshotOnly(r *removal) {
	snapshotOnly := r.those(func(v volumeMemory) bool { return v.snapshotOnly && !v.letGo })
	if len(snapshotOnly) == 0 || !r.deleted.gone {
		return
	}
	r.notes = append(r.notes, Note{Text: fmt.Sprintf("Only snapshots of VM %d had the disks %s, and the state does not "+
		"know them: a third party may have given them to the VM. They were left on node %s. Look whose they are "+
		"(`pvesm list STORAGE --vmid %d`) before you remove any", r.VMID, strings.Join(snapshotOnly, ", "), r.Baseline.Node,
		r.VMID)})
}

// freeCopies frees the copies of a killed migration while the VM, on its own node, keeps the VMID from others, and
// returns them. The next look tells which are there.
func freeCopies(ctx context.Context, r *removal, f *facts) map[string]bool {
	copies := map[string]bool{}
	for _, v := range r.left {
		if f.node != r.Baseline.Node && r.of(v).copied {
			copies[v] = true
			_ = r.free(ctx, r.ours(f.node), v)
		}
	}
	return copies
}

// endCopies notes that copies went with our empty VM, which had taken them. Those that stayed by the log are ours as
// before.
func endCopies(ctx context.Context, r *removal, destroyed pve.UPID, config map[string]string) {
	went := func(v volumeMemory) bool { return v.copied && destroyed.Node() == r.Baseline.Node }
	var stayed map[string]string
	for _, volume := range r.those(went) {
		if !guest.Uses(config, volume) {
			continue
		}
		if stayed == nil {
			log, _ := r.d.api.Tasks().Log(ctx, destroyed, logLines) // without it none is known to have stayed
			stayed = notRemoved(log)
		}
		if r.of(volume).copied = false; stayed[volume] != "" && r.Made != nil {
			r.Made.add(destroyed.Node(), byLog, volume)
		}
	}
}

// isIn reports whether the configuration of a VM on some node names a volume of the baseline's node.
func isIn(r *removal, node string, config map[string]string, volume string) bool {
	return guest.Uses(config, volume) && (node == r.Baseline.Node || !r.of(volume).copied)
}

// stray is a volume that stayed where no look of its removal lists the volumes, as on the node of a VM that another
// user or HA had moved there.
type stray struct{ node, volume, why string }

// noteStrays notes the disks that stayed, by the log of the destroy, on another node than that of the baseline. Where
// the log cannot be read each one that is there counts.
func noteStrays(ctx context.Context, r *removal, destroyed pve.UPID, config map[string]string) {
	node := destroyed.Node()
	if node == "" || node == r.Baseline.Node {
		return
	}
	log, err := r.d.api.Tasks().Log(ctx, destroyed, logLines)
	stayed := notRemoved(log)
	for _, volume := range guest.OwnVolumes(r.VMID, config) {
		why := stayed[volume]
		if err != nil {
			why = fmt.Sprintf("PVE removed the VM; whether it could not remove the disk cannot be told: %v", err)
		}
		if why != "" && !isShared(r.Baseline, volume) {
			r.deleted.strays = append(r.deleted.strays, stray{node, volume, why})
		}
	}
}

// withStrays adds the disks that stayed on another node, and are still there, to the error of a removal.
func withStrays(ctx context.Context, d *Destroyer, strays []stray, failed error) error {
	var left []saga.Residue
	for _, s := range strays {
		residue := saga.Residue{Kind: "volume", Node: s.node, ID: s.volume, Reason: s.why,
			Command: shell.FreeUnused(s.volume), What: fmt.Sprintf("volume %s on node %s", s.volume, s.node)}
		vmid, _ := volid.Owner(s.volume)
		on, err := d.guests.Volumes(ctx, s.node, volid.Storage(s.volume), vmid)
		if at := slices.IndexFunc(on, func(v pve.Volume) bool { return v.ID == s.volume }); at >= 0 {
			residue.Size, residue.CreatedAt = on[at].Size, on[at].CreatedAt
		} else if _, there, lookErr := d.HasVolume(ctx, s.node, s.volume); err == nil && lookErr == nil && !there {
			continue
		}
		left = append(left, residue)
	}
	var named *saga.LeftError
	switch {
	case len(left) == 0:
		return failed
	case errors.As(failed, &named):
		return &saga.LeftError{Left: merge(named.Left, left), Err: named.Err}
	}
	return &saga.LeftError{Left: left, Err: failed}
}
