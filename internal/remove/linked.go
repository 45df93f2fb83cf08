package remove

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// unlinked refuses to destroy a template whose volumes others are based on. Thin LVM does not know of that, and its clones
// do not need their template (pve-storage LvmThinPlugin.pm).
func (d *destruction) unlinked(ctx context.Context) error {
	current := d.config.Current()
	if current["template"] != "1" {
		return nil
	}
	var clones []string
	for _, base := range ownVolumes(d.r.Ref.VMID, current) {
		volumes, err := d.s.api.Content(ctx, d.node, vm.VolumeStorage(base), "images", 0)
		if err != nil {
			return fmt.Errorf("look whether %s has linked clones; template %d was not touched: %w", base, d.r.Ref.VMID, err)
		}
		for _, v := range volumes {
			if isBasedOn(v, base) {
				clones = append(clones, fmt.Sprintf("%s (%s)", d.guestName(v.VMID), v.ID))
			}
		}
	}
	if len(clones) == 0 {
		return nil
	}
	slices.Sort(clones)
	return inUse(d.r.Ref.VMID, clones, nil)
}

// isBasedOn tells whether a volume is a linked clone of a base: its id has the base's in front, and where the storage says
// so, its parent is the base (pve-storage, parse_volname and list_images of the plugins).
func isBasedOn(v pve.Volume, base string) bool {
	if strings.HasPrefix(v.ID, base+"/") {
		return true
	}
	parent, _, _ := strings.Cut(v.Parent, "@")
	return parent != "" && v.ID != base && vm.VolumeStorage(v.ID) == vm.VolumeStorage(base) && lastPart(parent) == lastPart(base)
}

// lastPart is the name of a volume without directories and storage.
func lastPart(volume string) string {
	return volume[strings.LastIndexAny(volume, "/:")+1:]
}

func (d *destruction) guestName(vmid int) string {
	guest, ok := d.resources.Guest(vmid)
	switch {
	case !ok:
		return fmt.Sprintf("VM %d, which is not listed", vmid)
	case guest.Name == "":
		return fmt.Sprintf("VM %d", vmid)
	}
	return fmt.Sprintf("VM %d, %s", vmid, guest.Name)
}

func inUse(vmid int, clones []string, err error) error {
	return &guest.FieldError{Path: "template", Summary: fmt.Sprintf("Template %d has linked clones", vmid), Err: err,
		Detail: fmt.Sprintf("Their disks are based on its own: %s. Nothing was touched. Destroy these VMs first, or make them independent by moving their disks to another storage",
			strings.Join(clones, "; "))}
}

// refused explains what PVE's refusal of a destroy means, where the look before could not tell; no such refusal gives nil.
func (r *removal) refused(ctx context.Context, err error) error {
	if !pve.IsKind(err, pve.Busy) {
		return nil
	}
	said := err.Error()
	switch {
	case strings.Contains(said, "still in use by linked clone"):
		return inUse(r.VMID, r.s.basedOn(ctx, r.VMID), err)
	case strings.Contains(said, "purge parameter not set"), strings.Contains(said, "There is a replication job"):
		return named(r.VMID, []string{"see what PVE says"}, err)
	}
	return nil
}

// basedOn looks in all configurations that can be read for volumes based on those of a template.
func (s *Remover) basedOn(ctx context.Context, vmid int) []string {
	var clones []string
	resources, err := s.api.Resources(ctx)
	if err != nil {
		return []string{"which ones could not be told"}
	}
	for _, guest := range resources.Guests() {
		if guest.Type != "qemu" || guest.VMID == vmid {
			continue
		}
		config, err := s.api.CurrentConfig(ctx, guest.Node, guest.VMID)
		if err != nil {
			continue
		}
		for _, value := range config.Values {
			if strings.Contains(value, fmt.Sprintf("base-%d-disk-", vmid)) {
				clones = append(clones, fmt.Sprintf("VM %d, %s", guest.VMID, guest.Name))
				break
			}
		}
	}
	if len(clones) == 0 {
		return []string{"VMs that this identity may not see"}
	}
	slices.Sort(clones)
	return clones
}
