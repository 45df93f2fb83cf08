package tfvm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// seating decides what the volumes that a configuration names mean for a VM in state.
//
// A volume that the VM has, detached or in another slot that gives it up, is attached. A name that is not where the disk is
// any more, since the disk has moved to another storage, was converted or migrated, says where it was: it changes nothing.
type seating struct {
	r      *Resource
	config *checker
	prior  model
	ref    provision.Ref
	diags  diag.Diagnostics

	attach map[string]string // volumes by the slot that gets them
	pinned map[string]string // slots whose volume is called otherwise by now, with its name
	held   *provision.Holdings
	asked  bool
}

// seat reads the volumes in a configuration. The configuration that it returns has the present name of each volume that stays.
func (r *Resource) seat(ctx context.Context, config tftypes.Value, prior model, kept memory) (tftypes.Value, *seating) {
	s := &seating{r: r, config: &checker{config: config}, prior: prior, ref: prior.ref(kept), attach: map[string]string{}, pinned: map[string]string{}}
	slots, _ := s.config.keys("disks")
	for _, slot := range slots {
		volume := s.config.says("disks." + slot + ".volume")
		has := value(prior.Disks[slot].Volume)
		switch {
		case volume == "" || volume == has:
		case has != "" && vm.SameVolume(volume, has):
			s.pinned[slot] = has
		default:
			s.name(ctx, slot, volume)
		}
	}
	config = s.settled(config)
	return config, s
}

// name decides about one volume that is not the one in its slot.
func (s *seating) name(ctx context.Context, slot, volume string) {
	was, exists := s.prior.Disks[slot]
	if owner, ok := vm.VolumeOwner(volume); !ok || owner != s.ref.VMID {
		s.refuse(slot, "volume", "%s does not carry the id of this VM, and a VM attaches only volumes of its own: PVE destroys a volume with the VM whose id it carries. import_from copies a volume of another VM.", volume)
		return
	}
	elsewhere, other := s.contradiction(slot, volume), ""
	for _, at := range slices.SortedFunc(mapKeys(s.prior.Disks), bySlot) {
		if at != slot && value(s.prior.Disks[at].Volume) == volume {
			other = at
		}
	}
	switch {
	case other != "" && s.keeps(other, volume):
		s.refuse(slot, "volume", "%s is in %s, which keeps it. Take %s out of disks, or name another volume for it.", volume, other, other)
	case other == "" && exists && elsewhere != "":
		s.pinned[slot] = value(was.Volume)
	case elsewhere != "":
		s.refuse(slot, elsewhere, "%s is not there. Attach the volume as it is first, with the storage and the format that it has; a move is a change of its own.", volume)
	case other != "" && exists:
		s.attach[slot] = volume
	default:
		s.look(ctx, slot, volume, other)
	}
}

// contradiction is the attribute that says another storage or format than a volume has.
func (s *seating) contradiction(slot, volume string) string {
	if storage := s.config.says("disks." + slot + ".storage"); storage != "" && storage != vm.VolumeStorage(volume) {
		return "storage"
	}
	if format := s.config.says("disks." + slot + ".format"); format != "" && format != vm.VolumeFormat(volume) {
		return "format"
	}
	return ""
}

// keeps reports whether a slot stays with the volume that it has.
func (s *seating) keeps(slot, volume string) bool {
	if s.config.missing("disks." + slot) {
		return false
	}
	named := s.config.at("disks." + slot + ".volume")
	return named.IsKnown() && (named.IsNull() || stringOf(named) == volume)
}

// look asks the server about a volume that state does not know, or a slot that it does not know.
func (s *seating) look(ctx context.Context, slot, volume, other string) {
	was, exists := s.prior.Disks[slot]
	held := s.holdings(ctx)
	if held == nil { // it cannot be told now; the update looks again
		s.attach[slot] = volume
		return
	}
	occupant := held.Slots[slot]
	size, unused := held.Unused[volume]
	wants, err := vm.ParseSize(s.config.says("disks." + slot + ".size"))
	switch {
	case !exists && occupant == volume: // it is there already
	case !exists && occupant != "":
		s.refuse(slot, "volume", "The slot is not empty: %s is in it, which the state does not know. Choose another slot.", occupant)
	case unused && err == nil && size > wants:
		s.refuse(slot, "size", "%s has %s and cannot be shrunk.", volume, vm.FormatSize(size))
	case unused, other != "":
		s.attach[slot] = volume
	case heldIn(held, volume) != "":
		s.refuse(slot, "volume", "%s is in %s, which the state does not know. Take it out there first.", volume, heldIn(held, volume))
	case exists:
		s.pinned[slot] = value(was.Volume)
		at, _ := locator{}.Attribute("disks." + slot + ".volume")
		s.diags.AddAttributeWarning(at, s.prior.thing()+" has no volume "+volume,
			fmt.Sprintf("%s has %s, and nothing is changed: the name is taken for one that the volume had before. Leave volume out, or name one that the VM has; detached it has %s.",
				slot, value(was.Volume), list(slices.Sorted(maps.Keys(held.Unused)))))
	default:
		s.refuse(slot, "volume", "The VM has no volume %s. Detached it has %s.", volume, list(slices.Sorted(maps.Keys(held.Unused))))
	}
}

func heldIn(held *provision.Holdings, volume string) string {
	for _, slot := range slices.Sorted(maps.Keys(held.Slots)) {
		if held.Slots[slot] == volume {
			return slot
		}
	}
	return ""
}

// holdings asks once. Nil: the server cannot be asked.
func (s *seating) holdings(ctx context.Context) *provision.Holdings {
	if s.asked || s.r.machines == nil {
		return s.held
	}
	s.asked = true
	var sized []string
	slots, _ := s.config.keys("disks")
	for _, slot := range slots {
		if s.config.set("disks." + slot + ".size") {
			sized = append(sized, s.config.says("disks."+slot+".volume"))
		}
	}
	if held, err := s.r.machines.Holdings(ctx, s.ref, sized); err == nil {
		s.held = &held
	}
	return s.held
}

func (s *seating) refuse(slot, key, format string, args ...string) {
	c := &checker{}
	c.refuse("disks."+slot+"."+key, format, args...)
	for _, d := range c.diags {
		s.diags.AddAttributeError(path.Root("disks").AtMapKey(slot).AtName(key), "Cannot change "+s.prior.thing(), d.Detail())
	}
}

// settled is the configuration with the present names of the volumes that stay.
func (s *seating) settled(config tftypes.Value) tftypes.Value {
	return eachDisk(config, func(slot string, disk map[string]tftypes.Value) {
		if now, ok := s.pinned[slot]; ok {
			disk["volume"] = text(now)
		}
	})
}

// open makes unknown what follows from another volume in a slot.
func (s *seating) open(planned tftypes.Value) tftypes.Value {
	return eachDisk(planned, func(slot string, disk map[string]tftypes.Value) {
		if _, seated := s.attach[slot]; !seated {
			return
		}
		for _, key := range []string{"storage", "format", "size"} {
			if s.config.missing("disks." + slot + "." + key) {
				disk[key] = tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
			}
		}
	})
}

// eachDisk changes the disks in a configuration or a plan.
func eachDisk(v tftypes.Value, change func(slot string, disk map[string]tftypes.Value)) tftypes.Value {
	disks := map[string]tftypes.Value{}
	if all := tfplan.At(v, "disks"); !all.IsKnown() || all.IsNull() || all.As(&disks) != nil {
		return v
	}
	for slot, d := range disks {
		fields := map[string]tftypes.Value{}
		if !d.IsKnown() || d.IsNull() || d.As(&fields) != nil {
			continue
		}
		change(slot, fields)
		disks[slot] = tftypes.NewValue(d.Type(), fields)
	}
	return tfplan.Replace(v, "disks", tftypes.NewValue(tfplan.At(v, "disks").Type(), disks))
}

// others are the forgotten slots whose volume goes to no other slot.
func (s *seating) others(forgotten []string) []string {
	return slices.DeleteFunc(slices.Clone(forgotten), func(at string) bool {
		slot, isDisk := strings.CutPrefix(at, "disks.")
		return isDisk && s.seats(value(s.prior.Disks[slot].Volume))
	})
}

// seats reports whether a volume goes to another slot.
func (s *seating) seats(volume string) bool {
	return volume != "" && slices.Contains(slices.Collect(maps.Values(s.attach)), volume)
}
