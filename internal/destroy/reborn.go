package destroy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// withoutReborn leaves volumes out that PVE has destroyed together with our VM: one of such a name was made since, by a
// third party that uses the free VMID, or by another cluster on a shared storage. The log of a destroy that ended well
// names each volume that stayed (couldNot).
func (r *removal) withoutReborn(ctx context.Context, found []pve.Volume) ([]pve.Volume, error) {
	d := &r.deleted
	wasIn := func(v pve.Volume) bool { return goesWith(d.config, v.ID) }
	if d.task != "" && d.task != d.sorted && slices.ContainsFunc(found, wasIn) {
		log, err := r.d.api.Tasks().Log(ctx, d.task, logLines)
		if err != nil && !pve.IsKind(err, pve.NotFound) {
			return nil, fmt.Errorf("look which volumes task %s has left: %w", d.task, err)
		}
		stayed := notRemoved(log)
		r.remember(stayed)
		if d.sorted = d.task; err == nil {
			r.noteGone(func(volume string) bool { return goesWith(d.config, volume) && stayed[volume] == "" })
		}
	}
	d.reborn = idsOf(slices.DeleteFunc(slices.Clone(found), func(v pve.Volume) bool { return !d.went[v.ID] }))
	return slices.DeleteFunc(found, func(v pve.Volume) bool { return d.went[v.ID] }), nil
}

// noteGone notes the volumes that are gone.
func (r *removal) noteGone(isGone func(volume string) bool) {
	if r.deleted.went == nil {
		r.deleted.went = map[string]bool{}
	}
	for volume := range r.Baseline.Named {
		if isGone(volume) {
			r.deleted.went[volume] = true
		}
	}
}

// goesWith reports whether PVE destroys a volume together with a VM: not what is in an optical drive, unless it is the
// cloud-init drive (qemu-server QemuServer.pm destroy_vm, drive_is_cdrom).
func goesWith(config map[string]string, volume string) bool {
	for _, value := range config {
		if guest.VolumeOf(value) == volume &&
			(!strings.Contains(value, "media=cdrom") || strings.Contains(volume, "cloudinit")) {
			return true
		}
	}
	return false
}

// rebornNote names the volumes that were left alone since they were made after ours were gone.
func rebornNote(vmid int, node string, volumes []string) Note {
	return Note{Text: fmt.Sprintf("VM %d is destroyed, and volumes of the names that it had are on node %s: %s. Nothing "+
		"shows that they are not another user's, made since. They were left alone; look whose they are before you remove "+
		"any", vmid, node, strings.Join(volumes, ", "))}
}
