package update

import (
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
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

// TestDetachedDiskReturnsIfNoOtherGuestHasIt: a disk is detached, to be destroyed or to change its slot, and the next
// request fails. It returns to its slot, unless a third party has attached it to a VM of his by then. One that was to be
// destroyed stays detached, too, if a guest that may have it cannot be read.
func TestDetachedDiskReturnsIfNoOtherGuestHasIt(t *testing.T) {
	const path = "/nodes/{node}/qemu/{vmid}/config"
	for name, c := range map[string]struct {
		alter func(*Request)
		fails fault.Match // the request after the one that detaches
	}{
		"destroy": {func(r *Request) { r.DestroyRemoved = true }, fault.Match{Method: http.MethodPost, Path: path}},
		"change its slot": {func(r *Request) {
			r.Planned.Disks["scsi4"] = vm.Disk{Volume: r.Prior.Disks["scsi1"].Volume}
		}, fault.Match{Method: http.MethodPut, Path: path, Nth: 2}},
	} {
		for _, meanwhile := range []string{"nothing", "attached elsewhere", "unreadable"} {
			t.Run(name+", "+meanwhile, func(t *testing.T) {
				w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsi1": "local-zfs:1", "scsihw": "virtio-scsi-pci",
					"boot": "order=scsi0"})
				w.start()
				r := w.request()
				volume := r.Prior.Disks["scsi1"].Volume
				delete(r.Planned.Disks, "scsi1")
				c.alter(&r)
				w.sim.SetFaults([]fault.Rule{{Match: c.fails, Phase: fault.Before, Status: 500, Reason: "dataset is busy"}})
				fired := false
				w.answered = func() {
					if fired || w.sim.FaultsFired() == 0 {
						return
					}
					fired = true
					switch meanwhile {
					case "attached elsewhere":
						w.must(w.api.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi7": volume}))
					case "unreadable":
						w.must(w.api.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"description": "changed"}))
						w.sim.SetFaults([]fault.Rule{{Match: fault.Match{VMID: 8000}, Phase: fault.Before, Times: -1,
							Status: 500, Reason: "unable to read it"}})
					}
				}
				_, _, err := w.update(r)
				config := w.config()
				returns, stays := guest.VolumeOf(config["scsi1"]) == volume, unusedEntry(config, volume) != ""
				want := meanwhile == "nothing" || meanwhile == "unreadable" && name != "destroy"
				if err == nil || returns != want || stays == want ||
					strings.Contains(err.Error(), "It stays detached, as unused0") == want {
					t.Errorf("returns %t, stays %t: %v", returns, stays, err)
				}
			})
		}
	}
}
