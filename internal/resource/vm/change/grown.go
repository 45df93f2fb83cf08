package change

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/property"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// A disk that a third party has grown cannot be what the configuration still says, since PVE shrinks none. An error for
// it would stop every plan of the configuration, and its destroy, so the disk stays as it is. A size that is lowered in
// the configuration is another thing and refused: so the size before the growth is kept.

// NoteGrown notes which disks a refresh finds larger than the state had them.
func NoteGrown(
	ctx context.Context, out kit.PrivateWriter, was map[string]model.Disk, is tftypes.Value, private model.PrivateState,
) diag.Diagnostics {
	grown := map[string]string{}
	for slot, disk := range was {
		before, after := model.Value(disk.Size), model.StringOf(plan.At(is, "disks", slot, "size"))
		if before != "" && model.IsLarger(after, before) {
			grown[slot] = before
		}
		if first := private.Grown[slot]; first != "" && model.IsLarger(after, first) {
			grown[slot] = first
		}
	}
	return WriteGrown(ctx, out, grown, private)
}

// WriteGrown writes the sizes before, where they are news.
func WriteGrown(ctx context.Context, out kit.PrivateWriter, grown map[string]string,
	private model.PrivateState) diag.Diagnostics {
	if maps.Equal(grown, private.Grown) {
		return nil
	}
	return kit.Note[map[string]string](model.KeyGrown).Write(ctx, out, grown)
}

// StillGrown are those of which the configuration says the old size still, and that no other disk takes the place of.
func StillGrown(c model.Configuration, grown map[string]string, isExchanged func(slot string) bool) map[string]string {
	still := map[string]string{}
	for slot, size := range grown {
		at := "disks." + slot + ".size"
		if !isExchanged(slot) && c.IsSet(at) && model.SameSize(c.At(at), model.Text(size)) {
			still[slot] = size
		}
	}
	return still
}

// WithGrownSizes is a configuration with the present sizes of disks that a third party has grown.
func (p *Change) WithGrownSizes(config tftypes.Value) tftypes.Value {
	grown := StillGrown(p.Config, p.Private.Grown, func(slot string) bool { return p.Attached[slot] != "" })
	for _, slot := range model.SortedSlots(grown) {
		if size := model.Value(p.Prior.Disks[slot].Size); size != "" {
			p.Diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot).AtName("size"),
				fmt.Sprintf("%s of %s has %s, not %s", slot, p.Prior.Thing(), size, grown[slot]),
				"It has grown outside of Terraform, and PVE cannot shrink a disk: it stays as it is. "+waysToKeepSize(slot, size))
		}
	}
	return model.EachDisk(config, func(slot string, disk map[string]tftypes.Value) {
		if size := p.Prior.Disks[slot].Size; grown[slot] != "" && size != nil {
			disk["size"] = model.Text(*size)
		}
	})
}

// waysToKeepSize says how a configuration agrees with a disk that is larger.
func waysToKeepSize(slot, size string) string {
	return fmt.Sprintf("Write size = %q, or leave its size to others with lifecycle { ignore_changes = "+
		"[disks[%q].size] }.", size, slot)
}

// warnNewEmptyDisks tells where a new, empty disk is to be made although one like it leaves another slot: most likely
// the disk was to be moved. So it does where the slot has lost its disk, as to a third party or a roll-back,
// or has had one by an earlier configuration.
func (p warnings) warnNewEmptyDisks(ctx context.Context) {
	for _, slot := range model.SortedSlots(p.Plan.Disks) {
		at := "disks." + slot
		if _, existed := p.Prior.Disks[slot]; existed || !p.Config.At(at+".imported_disk").IsNull() ||
			!p.Config.At(at+".import_from").IsNull() {
			continue
		}
		p.warnLost(ctx, slot)
		for _, old := range model.SortedSlots(p.Prior.Disks) {
			if !p.leavesLike(old, p.Plan.Disks[slot]) {
				continue
			}
			volume := *p.Prior.Disks[old].Volume
			p.Diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot), fmt.Sprintf("%s of %s will be a new, empty disk",
				slot, p.Prior.Thing()),
				fmt.Sprintf("%s leaves the configuration, with %s on the same storage and of the same size. To move that disk "+
					"with its data from %s to %s instead, name its volume: disks.%s.imported_disk = { volume = %q }.",
					old, volume, old, slot, slot, volume))
			break
		}
	}
}

// leavesLike reports whether the disk in a slot leaves the VM and is of the storage and size of another one.
func (p warnings) leavesLike(slot string, is model.Disk) bool {
	was := p.Prior.Disks[slot]
	return p.Leaves(slot) && was.Volume != nil && !p.Attaches(*was.Volume) &&
		model.Value(was.Storage) == model.Value(is.Storage) && was.Size != nil && is.Size != nil &&
		model.SameSize(model.Text(*was.Size), model.Text(*is.Size))
}

// warnLost tells that the disk of a slot which has lost its own will be an empty one, and where the old one is, or
// which detached disk of the VM may be it.
func (p warnings) warnLost(ctx context.Context, slot string) {
	is := p.Plan.Disks[slot]
	size, err := property.ParseSize(model.Value(is.Size))
	var like []string
	for _, volume := range slices.Sorted(maps.Values(p.Prior.UnusedVolumes)) {
		if err == nil && p.Private.Others[slot] == "" && !p.Attaches(volume) &&
			slices.Contains(p.Private.Detached, volume) && volid.Storage(volume) == model.Value(is.Storage) &&
			vm.FitsSize(p.Private.Sizes[volume], size) {
			like = append(like, volume)
		}
	}
	gone, lost := p.Lost[slot]
	lost = lost && !gone.Leaves
	_, follows := p.Plan.Disks[gone.Now]
	back := "To put %s back with its data instead, name its volume: disks.%s.imported_disk = { volume = %q }."
	var detail string
	switch {
	case len(like) > 0:
		detail = fmt.Sprintf("Detached disks of the VM, on the same storage and of the same size: %s. "+back,
			strings.Join(like, ", "), "one", slot, like[0])
	case !lost || follows || p.Attaches(gone.Volume):
		return
	case gone.Now != "":
		detail = fmt.Sprintf("It is in %s of the VM now, %s. To keep it there and have no other, write %s in the place "+
			"of %s in disks.", gone.Now, gone.Volume, gone.Now, slot)
	case slices.Contains(slices.Collect(maps.Values(p.Prior.UnusedVolumes)), gone.Volume):
		detail = fmt.Sprintf("It is a detached disk of the VM now, %s. "+back, gone.Volume, "it", slot, gone.Volume)
	case p.isLoose(ctx, gone):
		detail = fmt.Sprintf("The VM has %s no more, and it is still on its storage: a roll-back drops a disk that waits "+
			"for its place, or another VM has got it. "+back+" No destroy of the VM removes it; if no VM has it, %s on node "+
			"%s does.", gone.Volume, "it", slot, gone.Volume, shell.Or(shell.FreeUnused(gone.Volume), "its removal"),
			model.Value(p.Prior.Node))
	default:
		detail = fmt.Sprintf("The VM has %s no more: another VM may have got it, under another name, or it was destroyed. "+
			"To have it back, take it from that VM before this apply, and name it in disks.%s.imported_disk.", gone.Volume,
			slot)
	}
	if lost || p.Managed("disks."+slot) {
		detail = "The slot lost its disk outside of Terraform. " + detail
	}
	p.Diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot), fmt.Sprintf("%s of %s will be a new, empty disk", slot,
		p.Prior.Thing()), detail)
}

// isLoose reports whether a disk that the VM has lost is on its storage, with the size that it had, and in no
// configuration of the VM. A roll-back forgets what only pending values name (pve-guest-common AbstractConfig.pm
// __snapshot_apply_config).
func (p warnings) isLoose(ctx context.Context, gone model.LostDisk) bool {
	was, err := property.ParseSize(gone.Size)
	if err != nil || p.Facts == nil || p.Acting {
		return false
	}
	size, isLoose := p.Facts.LooseSize(ctx, gone.Volume)
	return isLoose && vm.FitsSize(size, was)
}

// warnNewFirmware names the detached volumes of the VM that may have been its EFI disk or the state of its TPM, where
// the plan makes a new, empty one. The size that was noted tells which a volume was. Neither has imported_disk.
func (p warnings) warnNewFirmware() {
	for _, of := range []struct {
		attribute, slot string
		isNew           bool
		size            int64
	}{
		{"efi_disk", "efidisk0", p.Prior.EFIDisk == nil && p.Plan.EFIDisk != nil, model.SizeOfEFIDisk},
		{"tpm_state", "tpmstate0", p.Prior.TPMState == nil && p.Plan.TPMState != nil, model.SizeOfTPMState},
	} {
		if !of.isNew || !p.Config.At(of.attribute+".import_from").IsNull() {
			continue
		}
		was := slices.DeleteFunc(slices.Sorted(maps.Values(p.Prior.UnusedVolumes)), func(volume string) bool {
			return !slices.Contains(p.Private.Detached, volume) || p.Private.Sizes[volume] != of.size
		})
		if len(was) > 0 {
			p.Diags.AddAttributeWarning(path.Root(of.attribute), fmt.Sprintf("%s of %s will be new and empty", of.slot,
				p.Prior.Thing()), fmt.Sprintf("The VM has detached such volumes, with the keys that were in them: %s. To begin "+
				"with a copy of one: %s.import_from = %q.", strings.Join(was, ", "), of.attribute, was[0]))
		}
	}
}
