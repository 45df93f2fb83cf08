package update

import (
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestDiskThatAnotherGuestTakesStaysDetached: a disk is detached to be destroyed, and before that a third party
// attaches it to a VM of his. It does not return to its slot: two guests on one disk destroy what is on it.
func TestDiskThatAnotherGuestTakesStaysDetached(t *testing.T) {
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:2"})
	r := w.request()
	volume := r.Prior.Disks["scsi1"].Volume
	delete(r.Planned.Disks, "scsi1")
	r.DestroyRemoved = true
	came := false
	w.answered = func() {
		detached := false
		inWorld(w, func(all *state.World) { detached = unusedEntry(all.Guests[theVM].Config, volume) != "" })
		if came || !detached {
			return
		}
		came = true
		w.must(w.api.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi7": volume}))
	}
	_, _, err := w.update(r)
	if err == nil || !strings.Contains(err.Error(), "VM 8000") || !strings.Contains(err.Error(), "It stays detached") {
		t.Errorf("he came: %t; %v", came, err)
	}
	if config := w.config(); guest.VolumeOf(config["scsi1"]) == volume || unusedEntry(config, volume) == "" {
		t.Errorf("the disk is in its slot again: %v", config)
	}
}
