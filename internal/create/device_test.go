package create

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestDeviceThatTwoGetAtOnce: a third party gives a device of the node to a VM of its own as soon as the new VM has got it.
// The new one is taken back before it runs on it.
func TestDeviceThatTwoGetAtOnce(t *testing.T) {
	const device = "/dev/disk/by-id/ata-DISK_1"
	for name, c := range map[string]struct {
		r    Request
		gets string // the request that gives it to the new VM
	}{
		"create": {onZFS(), http.MethodPost + " /nodes/pve1/qemu"},
		"clone":  {ofTemplate(), http.MethodPut + " /nodes/pve1/qemu/150/config"},
	} {
		var theirs *Creator
		gave := false
		b := newBench(t, func(config *pve.Config, cred pvesim.Credentials) {
			ticket(config, cred)
			config.Trace = func(ctx context.Context, _ string, request map[string]string) {
				if gave || request["method"]+" "+request["path"] != c.gets {
					return
				}
				gave = true
				if err := theirs.api.QEMU("pve1", 8000).UpdateConfig(ctx, pve.Params{"scsi5": device}); err != nil {
					t.Error(err)
				}
			}
		})
		theirs = creatorOf(t, b.sim, ticket)
		b.change(func(w *state.World) { w.Nodes["pve1"].WriteFile(device, "a disk") })
		c.r.VMID, c.r.Start = 150, true
		if c.r.Spec.Disks == nil {
			c.r.Spec.Disks = map[string]vm.Disk{}
		}
		c.r.Spec.Disks["scsi1"] = vm.Disk{Volume: device}
		_, err := b.Create(t.Context(), c.r)
		var field *guest.FieldError
		if !errors.As(err, &field) || field.Path != "disks.scsi1.imported_disk.volume" || !strings.Contains(err.Error(), "VM 8000") {
			t.Errorf("%s: %v", name, err)
		}
		for _, op := range b.sim.Ops() {
			if strings.HasSuffix(op.Path, "/status/start") {
				t.Errorf("%s: it was started", name)
			}
		}
		b.change(func(w *state.World) {
			if is := w.Guests[8000].Config["scsi5"]; !gave || w.Guests[150] != nil || !strings.HasPrefix(is, device) {
				t.Errorf("%s: given %t, VM 8000 has %q, VM 150: %v", name, gave, is, w.Guests[150])
			}
		})
	}
}
