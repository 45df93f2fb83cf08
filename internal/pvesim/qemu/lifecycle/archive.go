package lifecycle

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// backupVolume finds an archive, as one who restores it does.
func backupVolume(r *engine.Request, volid string) (*state.Volume, error) {
	id, name, ok := state.SplitVolid(volid)
	if !ok {
		return nil, perl.Die("unable to parse volume ID '%s'", volid)
	}
	s, err := r.W.StorageActive(r.Node(), id)
	if err != nil {
		return nil, err
	}
	n, err := s.ParseName(name)
	if err != nil {
		return nil, err
	}
	if n.Content != "backup" {
		return nil, perl.Die("unable to use volume %s - content type needs to be 'backup'", volid)
	}
	v := r.W.Volume(r.Node(), volid)
	if v == nil {
		return nil, perl.Die("volume '%s' does not exist", volid)
	}
	if v.Backup == nil {
		return nil, perl.Die("vma: reading file '%s' failed", s.VolumePath(name))
	}
	return v, nil
}

// extractConfig is GET vzdump/extractconfig: the configuration in an archive.
func extractConfig(r *engine.Request) (any, error) {
	volid := r.Params["volume"]
	if err := drive.VolumeAccess(r, 0, volid); err != nil {
		return nil, err
	}
	v, err := backupVolume(r, volid)
	if v != nil {
		err = r.Check(fmt.Sprintf("/vms/%d", v.Backup.VMID), "VM.Backup")
	}
	if err != nil {
		return nil, err
	}
	g := &state.Guest{Config: v.Backup.Config}
	lines := []string{strings.TrimRight(g.Text(), "\n")}
	for _, opt := range drive.DriveNames(v.Backup.Config) {
		if d, ok := v.Backup.Drives[opt]; ok {
			lines = append(lines, fmt.Sprintf("#qmdump#map:%s:drive-%s:%s:%s:", opt, opt, d.Storage, d.Format))
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// notesOf fills in the template of a job's notes (PVE/VZDump.pm, $generate_notes).
func notesOf(p engine.Process, b *state.Backup) string {
	return strings.NewReplacer("{{guestname}}", b.Config["name"], "{{node}}", p.Node(), "{{vmid}}", strconv.Itoa(b.VMID),
		"{{cluster}}", engine.ClusterName, `\n`, "\n", `\\`, `\`).Replace(p.Params["notes-template"])
}
