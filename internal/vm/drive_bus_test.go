package vm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestFitDisk: a disk loses what the bus of its new slot does not know, and nothing else.
func TestFitDisk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		disk := genDisk(t)
		slot := rapid.SampledFrom([]string{"ide0", "sata0", "scsi1", "virtio0"}).Draw(t, "slot")
		want := diskFormat().showAll(&disk)
		for key := range want {
			if _, unknown := disk.Rest[key]; !unknown && !hasKey(slot, key) {
				delete(want, key)
			}
		}
		fit := FitDisk(slot, disk)
		if d := cmp.Diff(want, diskFormat().showAll(&fit)); d != "" {
			t.Errorf("%s (-want +got):\n%s", slot, d)
		}
		if fit.Storage != disk.Storage || fit.Volume != disk.Volume {
			t.Errorf("the volume %s became %s", disk.Volume, fit.Volume)
		}
	})
}
