package guest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// Holdings are the volumes of a VM.
type Holdings struct {
	// Slots is what is in each disk slot; what waits for a restart counts.
	Slots map[string]string
	// Unused are the detached volumes that stay with the VM, with their sizes in bytes; 0: not known.
	Unused map[string]int64
}

// SlotOf is the slot that a volume is in, "" if it is in none.
func (h Holdings) SlotOf(volume string) string {
	for _, slot := range slices.Sorted(maps.Keys(h.Slots)) {
		if h.Slots[slot] == volume {
			return slot
		}
	}
	return ""
}

// HoldingsOf are those that a configuration tells.
func HoldingsOf(config pve.PendingConfig) Holdings {
	held := Holdings{Slots: map[string]string{}, Unused: map[string]int64{}}
	for _, values := range []map[string]string{config.Merged(), config.Current()} {
		for _, slot := range vm.Slots(values) {
			held.Slots[slot] = VolumeOf(values[slot])
		}
	}
	for option, value := range config.Current() {
		if strings.HasPrefix(option, "unused") {
			held.Unused[VolumeOf(value)] = 0
		}
	}
	return held
}

// VolumeOf is the volume id in a drive or unusedN option.
func VolumeOf(value string) string {
	id, _, _ := strings.Cut(value, ",")
	return strings.TrimPrefix(id, "file=")
}

// Holdings tells, for a plan that names volumes, which ones a VM in state has. The sizes of those that are detached are looked
// up on their storages as far as this identity may (Datastore.Audit); sized are the volumes whose size matters.
func (s *Guests) Holdings(ctx context.Context, ref Ref, sized []string) (Holdings, error) {
	_, config, err := s.Find(ctx, ref)
	if err != nil {
		return Holdings{}, err
	}
	held := HoldingsOf(config)
	seen := map[string]bool{}
	for _, volume := range sized {
		storage := vm.VolumeStorage(volume)
		if _, unused := held.Unused[volume]; !unused || seen[storage] {
			continue
		}
		seen[storage] = true
		content, err := s.api.Content(ctx, ref.Node, storage, "images", ref.VMID)
		if err != nil {
			continue // the apply tells
		}
		for _, v := range content {
			if _, unused := held.Unused[v.ID]; unused {
				held.Unused[v.ID] = v.Size
			}
		}
	}
	return held, nil
}

// SnapshotConfigs are the options that snapshots keep, in the order of their names. One that cannot be read is an error: what
// it alone names would be forgotten.
func (s *Guests) SnapshotConfigs(ctx context.Context, node string, vmid int, names []string) ([]map[string]string, error) {
	all := make([]map[string]string, len(names))
	for i, name := range names {
		config, err := s.api.SnapshotConfig(ctx, node, vmid, name)
		if err != nil {
			return nil, err
		}
		all[i] = config
	}
	return all, nil
}

// Uses reports whether a configuration mentions a volume.
func Uses(config map[string]string, volume string) bool {
	for _, value := range config {
		if VolumeOf(value) == volume {
			return true
		}
	}
	return false
}
