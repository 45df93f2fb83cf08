package update

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/volid"
)

// TestVolumeThatAnotherGuestHasGot: the plan puts a detached disk of the VM into a slot, or one that another VM holds, or
// a device of the node, and the update waits first. Meanwhile an administrator attaches the disk to VM 8000, to mend it. Two guests on one
// disk destroy what is on it, so it is not attached, not even for a moment.
func TestVolumeThatAnotherGuestHasGot(t *testing.T) {
	once := func(w *world, request string, act func()) {
		did := false
		w.answered = func() {
			if !did && w.sent(request) > 0 {
				did = true
				act()
			}
		}
	}
	all := waits()
	all["for a disk that moves"] = func(_ *testing.T, w *world, r *Request, act func()) {
		with(r, "scsi0", func(d *vm.Disk) { d.Storage, d.Volume = "local-lvm", "" })
		once(w, "move_disk", act)
	}
	all["for a disk of a running guest that moves"] = func(t *testing.T, w *world, r *Request, act func()) {
		t.Helper()
		w.start()
		r.PowerState, r.Ref.Status = guest.Running, string(guest.Running)
		all["for a disk that moves"](t, w, r, act)
	}
	all["for a lock"] = func(_ *testing.T, w *world, _ *Request, act func()) {
		w.sim.SetThirdParties([]thirdparty.Order{{Act: thirdparty.Lock, VMID: theVM, Lock: "backup", ForMS: 600_000,
			Before: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}}})
		once(w, "/config", act)
	}
	all["not at all"] = func(_ *testing.T, _ *world, _ *Request, act func()) { act() }
	for name, wait := range all {
		for _, volume := range []string{theirs, "local-zfs:vm-300-disk-0", passed} {
			for _, taken := range []bool{true, false} {
				t.Run(name+", "+volume+map[bool]string{true: ", taken", false: ", free"}[taken], func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { attachWhatIsTaken(t, wait, volume, taken) })
				})
			}
		}
	}
}

// passed is a disk of the node.
const passed = "/dev/disk/by-id/ata-DISK_1"

// asRoot has root carry out the updates, with a ticket.
func (w *world) asRoot(t *testing.T) *pve.Client {
	t.Helper()
	cred := w.sim.Credentials()
	root, err := pve.New(pve.Config{Endpoint: w.sim.Endpoint(), CACertificate: w.sim.CAPEM(),
		DialTLSContext: w.sim.DialTLSContext, Clock: w.clock, Username: cred.RootUsername, Password: cred.RootPassword,
		Trace: func(_ context.Context, message string, _ map[string]string) {
			if message == "PVE request" && w.answered != nil {
				w.answered()
			}
		}})
	w.must(err)
	t.Cleanup(root.Close)
	jobs := request.New(root, w.clock)
	guests := guest.New(jobs)
	w.changer = New(jobs, guests, destroy.New(jobs, guests, nil), diskimport.New(root.Reader(), nil))
	inWorld(w, func(all *state.World) { all.Nodes["pve1"].WriteFile(passed, "a disk") })
	return root
}

// attachWhatIsTaken is one case of TestVolumeThatAnotherGuestHasGot.
func attachWhatIsTaken(t *testing.T, wait func(*testing.T, *world, *Request, func()), volume string, taken bool) {
	t.Helper()
	w := newWorld(t, pve.Params{"scsi0": "local-zfs:1", "scsihw": "virtio-scsi-pci"})
	w.task(w.api.Node("pve1").CreateVM(t.Context(), pve.Params{"vmid": "300", vm.HolderSlot: "local-zfs:1",
		"description": vm.HolderDescription(""), "protection": "1"}))
	inWorld(w, func(all *state.World) {
		g := all.Guests[theVM]
		swap("scsi7", "1G")(all, g)
		delete(g.Config, "scsi7")
		g.Config["unused0"] = theirs
	})
	root := w.asRoot(t)
	r := w.request()
	r.Detached = []string{theirs}
	with(&r, "scsi1", func(d *vm.Disk) { *d = vm.Disk{Storage: volid.Storage(volume), Volume: volume} })
	acted := false
	wait(t, w, &r, func() {
		acted = true
		if taken {
			w.must(root.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi5": volume}))
		}
	})
	_, _, err := w.update(r)
	w.answered = nil
	var is map[string]string
	inWorld(w, func(all *state.World) { is = maps.Clone(all.Guests[theVM].Config) })
	var field *guest.FieldError
	refused := errors.As(err, &field) && field.Path == "disks.scsi1.imported_disk.volume" &&
		strings.Contains(field.Summary, "cannot be") // and not: was given back
	if !acted || refused != taken || err != nil && !taken || strings.HasPrefix(is["scsi1"], volume) == taken {
		t.Errorf("acted %t; %v after %v: %v", acted, is, w.writes(), err)
	}
}
