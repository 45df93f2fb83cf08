package update

import (
	"errors"
	"maps"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestDriveWhereADiskIsByNow: since the plan a third party has put a disk into the slot of an optical drive that comes,
// changes, moves or leaves. His disk stays in it. Where none is, the drive does as planned.
func TestDriveWhereADiskIsByNow(t *testing.T) {
	const theirs = "local-zfs:vm-400-disk-7,size=1G"
	cdrom := func(file string) func(*Request) {
		return func(r *Request) { r.Planned.CDROMs = map[string]vm.CDROM{"scsi3": {File: file}} }
	}
	for name, c := range map[string]struct {
		has, attribute string
		change         func(*Request)
	}{
		"a CD-ROM drive comes":   {"", "cdroms.scsi3", cdrom("none")},
		"a CD-ROM drive changes": {"none,media=cdrom", "cdroms.scsi3", cdrom("local:iso/debian.iso")},
		"a CD-ROM drive leaves":  {"none,media=cdrom", "cdroms.scsi3", func(r *Request) { r.Planned.CDROMs = nil }},
		"a cloud-init drive comes": {"", "cloud_init", func(r *Request) {
			r.Planned.CloudInit = vm.CloudInit{Slot: "scsi3", Storage: "local-zfs"}
		}},
		"a cloud-init drive moves": {"local-zfs:cloudinit", "cloud_init", func(r *Request) {
			r.Planned.CloudInit.Storage, r.Planned.CloudInit.Volume = "local-lvm", ""
		}},
		"a cloud-init drive changes its slot": {"local-zfs:cloudinit", "cloud_init", func(r *Request) {
			r.Planned.CloudInit.Slot, r.Planned.CloudInit.Volume = "scsi5", ""
		}},
		"a cloud-init drive leaves": {"local-zfs:cloudinit", "cloud_init", func(r *Request) { r.Planned.CloudInit = vm.CloudInit{} }},
		"a disk leaves for a CD-ROM drive": {"local-zfs:1", "cdroms.scsi3", func(r *Request) {
			delete(r.Planned.Disks, "scsi3")
			cdrom("none")(r)
		}},
	} {
		for _, filled := range []bool{true, false} {
			for _, runs := range []bool{true, false} {
				options := pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci", "boot": "order=scsi0"}
				if c.has != "" {
					options["scsi3"] = c.has
				}
				w := newWorld(t, options)
				if runs {
					w.start()
				}
				r := w.request()
				c.change(&r)
				if filled {
					w.put("local-zfs", "vm-400-disk-7", theVM, "")
					w.alter(func(g *state.Guest) { g.Config["scsi3"] = theirs })
				}
				before := w.config()
				w.sim.ResetOps()
				_, _, err := w.update(r)
				var field *guest.FieldError
				refused := errors.As(err, &field) && field.Path == c.attribute
				if filled && (!refused || len(w.writes()) > 0 || !maps.Equal(before, w.config())) {
					t.Errorf("%s, runs %t: scsi3 is %s; %v after %v", name, runs, w.config()["scsi3"], err, w.writes())
				}
				if !filled && (!runs || c.has != "local-zfs:1") && err != nil {
					t.Errorf("%s, runs %t, nothing is in the way: %v", name, runs, err)
				}
			}
		}
	}
}
