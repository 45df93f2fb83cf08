package tfvm

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfkit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tfplan"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// A disk that somebody else has grown cannot be what the configuration still says, since PVE shrinks none. An error for it would
// stop every plan of the configuration, and its destroy, so the disk stays as it is. A size that is lowered in the configuration is
// another thing and refused: so the size before the growth is kept.

// noteGrown notes which disks a refresh finds larger than the state had them.
func noteGrown(
	ctx context.Context, out tfkit.PrivateWriter, was map[string]diskModel, is tftypes.Value, private privateState,
) diag.Diagnostics {
	grown := map[string]string{}
	for slot, disk := range was {
		before, after := value(disk.Size), stringOf(tfplan.At(is, "disks", slot, "size"))
		if before != "" && isLarger(after, before) {
			grown[slot] = before
		}
		if first := private.Grown[slot]; first != "" && isLarger(after, first) {
			grown[slot] = first
		}
	}
	return writeGrown(ctx, out, grown, private)
}

// writeGrown writes the sizes before, where they are news.
func writeGrown(ctx context.Context, out tfkit.PrivateWriter, grown map[string]string, private privateState) diag.Diagnostics {
	if maps.Equal(grown, private.Grown) {
		return nil
	}
	return tfkit.Note[map[string]string](keyGrown).Write(ctx, out, grown)
}

// stillGrown are those of which the configuration says the old size still.
func (c configuration) stillGrown(grown map[string]string) map[string]string {
	still := map[string]string{}
	for slot, size := range grown {
		if c.isSet("disks."+slot+".size") && sameSize(c.at("disks."+slot+".size"), text(size)) {
			still[slot] = size
		}
	}
	return still
}

// withGrownSizes is a configuration with the present sizes of disks that somebody else has grown.
func (p *planning) withGrownSizes(config tftypes.Value) tftypes.Value {
	grown := p.config.stillGrown(p.private.Grown)
	for _, slot := range sortedSlots(grown) {
		if size := value(p.prior.Disks[slot].Size); size != "" {
			p.diags.AddAttributeWarning(path.Root("disks").AtMapKey(slot).AtName("size"),
				fmt.Sprintf("%s of %s has %s, not %s", slot, p.prior.thing(), size, grown[slot]),
				"It has grown outside of Terraform, and PVE cannot shrink a disk: it stays as it is. "+waysToKeepSize(slot, size))
		}
	}
	return eachDisk(config, func(slot string, disk map[string]tftypes.Value) {
		if size := p.prior.Disks[slot].Size; grown[slot] != "" && size != nil {
			disk["size"] = text(*size)
		}
	})
}

// waysToKeepSize says how a configuration agrees with a disk that is larger.
func waysToKeepSize(slot, size string) string {
	return fmt.Sprintf("Write size = %q, or leave its size to others with lifecycle { ignore_changes = [disks[%q].size] }.", size, slot)
}

// isLarger compares two sizes; what is none is not larger.
func isLarger(a, b string) bool {
	x, errX := vm.ParseSize(a)
	y, errY := vm.ParseSize(b)
	return errX == nil && errY == nil && x > y
}
