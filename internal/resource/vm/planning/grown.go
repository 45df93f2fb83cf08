package planning

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/plan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
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

// withGrownSizes is a configuration with the present sizes of disks that a third party has grown.
func (p *Planning) withGrownSizes(config tftypes.Value) tftypes.Value {
	grown := StillGrown(p.Config, p.private.Grown, func(slot string) bool { return p.volumes.attached[slot] != "" })
	for _, slot := range model.SortedSlots(grown) {
		if size := model.Value(p.Prior.Disks[slot].Size); size != "" {
			p.diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot).AtName("size"),
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
