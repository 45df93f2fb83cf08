package update

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestRemovedDiskThatWasReplaced: since the plan a third party has put another drive into a slot that leaves the
// configuration, or that gives its disk to another slot. It stays there, and nothing else is done. A slot that is empty by
// now, and one with the disk of the plan, which a migration gives a new name, leave as planned.
func TestRemovedDiskThatWasReplaced(t *testing.T) {
	const theirs = "vm-400-disk-7"
	for name, c := range map[string]struct {
		slot, has, at string
		alter         func(r *Request, was string)
		act           string // the drive that is in the slot by then
		refused       bool
	}{
		"a disk":             {"scsi1", "local-zfs:1", "disks.scsi1", nil, "local-zfs:" + theirs + ",size=1G", true},
		"to another node":    {"scsi1", "local-zfs:1", "disks.scsi1", func(r *Request, _ string) { r.Node = "pve2" }, "local-zfs:" + theirs + ",size=1G", true},
		"a CD-ROM drive":     {"scsi1", "local-zfs:1", "disks.scsi1", nil, "none,media=cdrom", true},
		"the state of a TPM": {"tpmstate0", "local-zfs:1,version=v2.0", "tpm_state", nil, "local-zfs:" + theirs + ",size=4M,version=v2.0", true},
		"an EFI disk":        {"efidisk0", "local-zfs:1,efitype=4m", "efi_disk", nil, "local-zfs:" + theirs + ",efitype=4m,size=4M", true},
		"changes its slot": {"scsi1", "local-zfs:1", "disks.scsi1", func(r *Request, was string) {
			r.Planned.Disks = map[string]vm.Disk{"scsi5": {Volume: was}}
		}, "local-zfs:" + theirs + ",size=1G", true},
		"empty by now":      {"scsi1", "local-zfs:1", "", nil, "", false},
		"the disk itself":   {"scsi1", "local-zfs:1", "", nil, "itself", false},
		"itself, elsewhere": {"scsi1", "local-zfs:1", "", func(r *Request, _ string) { r.Node = "pve2" }, "itself", false},
	} {
		for _, destroys := range []bool{true, false} {
			w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", c.slot: c.has, "bios": "ovmf", "scsihw": "virtio-scsi-pci", "boot": "order=scsi0"})
			w.start()
			r := w.request()
			was := vm.Devices(r.Prior)[c.slot]
			r.DestroyRemoved, r.Planned.EFIDisk, r.Planned.TPMState = destroys, nil, nil
			r.Planned.Disks = map[string]vm.Disk{"scsi0": r.Planned.Disks["scsi0"]}
			if c.alter != nil {
				c.alter(&r, was)
			}
			w.put("local-zfs", theirs, theVM, "")
			if c.act != "itself" {
				w.alter(func(g *state.Guest) {
					if g.Config["unused0"], g.Config[c.slot] = was, c.act; c.act == "" {
						delete(g.Config, c.slot)
					}
				})
			}
			config := func() (values map[string]string) {
				inWorld(w, func(all *state.World) { values = maps.Clone(all.Guests[theVM].Config) })
				return values
			}
			before := config()
			w.sim.ResetOps()
			_, _, err := w.update(r)
			said := detailOf(err)
			refused := strings.Contains(said, "Make a new plan") && strings.Contains(said, was) && strings.Contains(said, guest.VolumeOf(c.act))
			var field *guest.FieldError
			if refused = refused && errors.As(err, &field) && field.Path == c.at; refused != c.refused || !refused && err != nil {
				t.Errorf("%s, destroys %t: %v", name, destroys, err)
			}
			if is := config(); c.refused && (len(w.writes()) > 0 || !maps.Equal(before, is)) || !c.refused && is[c.slot] != "" {
				t.Errorf("%s, destroys %t: it was\n%v, and is\n%v after %v", name, destroys, before, is, w.writes())
			}
		}
	}
}
