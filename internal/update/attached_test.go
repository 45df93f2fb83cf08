package update

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestVolumeThatAnotherGuestHasGot: the plan puts a detached disk of the VM into a slot, and the update waits first.
// Meanwhile an administrator attaches the disk to VM 8000, to mend it. Two guests on one disk destroy what is on it.
func TestVolumeThatAnotherGuestHasGot(t *testing.T) {
	all := waits()
	all["for a disk that moves"] = func(_ *testing.T, w *world, r *Request, act func()) {
		with(r, "scsi0", func(d *vm.Disk) { d.Storage, d.Volume = "local-lvm", "" })
		did := false
		w.answered = func() {
			if !did && w.sent("move_disk") > 0 {
				did = true
				act()
			}
		}
	}
	all["not at all"] = func(_ *testing.T, _ *world, _ *Request, act func()) { act() }
	for name, wait := range all {
		for _, taken := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", taken", false: ", free"}[taken], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
					inWorld(w, func(all *state.World) {
						g := all.Guests[theVM]
						swap("scsi7", "1G")(all, g)
						delete(g.Config, "scsi7")
						g.Config["unused0"] = theirs
					})
					r := w.request()
					r.Detached = []string{theirs}
					with(&r, "scsi1", func(d *vm.Disk) { *d = vm.Disk{Storage: "local-zfs", Volume: theirs} })
					wait(t, w, &r, func() {
						if taken {
							root, err := pve.New(pve.Config{Endpoint: w.sim.Endpoint(), CACertificate: w.sim.CAPEM(),
								DialTLSContext: w.sim.DialTLSContext, Clock: w.clock, APIToken: w.sim.Credentials().RootToken})
							w.must(err)
							defer root.Close()
							w.must(root.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi5": theirs}))
						}
					})
					_, _, err := w.update(r)
					w.answered = nil
					var is map[string]string
					inWorld(w, func(all *state.World) { is = maps.Clone(all.Guests[theVM].Config) })
					var field *guest.FieldError
					refused := errors.As(err, &field) && field.Path == "disks.scsi1.imported_disk.volume"
					if refused != taken || err != nil && !taken || strings.HasPrefix(is["scsi1"], theirs) == taken {
						t.Errorf("%v after %v: %v", is, w.writes(), err)
					}
				})
			})
		}
	}
}
