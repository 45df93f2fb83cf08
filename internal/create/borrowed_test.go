package create

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// TestBorrowedDiskThatAnotherGuestHasGot: a new VM has the disk of a proxmox_disk. Its start, or its HA entry, waits for
// a lock, and an administrator attaches the disk to VM 8000 meanwhile. Two guests on one disk destroy what is on it, so
// the new one is not started.
func TestBorrowedDiskThatAnotherGuestHasGot(t *testing.T) {
	const lent = "local-zfs:vm-300-disk-0"
	for _, how := range []string{"/status/start", "/cluster/ha/resources"} {
		for _, taken := range []bool{true, false} {
			t.Run(how+map[bool]string{true: ", taken", false: ", free"}[taken], func(t *testing.T) {
				t.Parallel()
				b := benchOf(t, pvesim.Options{}, ticket)
				b.change(func(w *state.World) {
					w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-0", VMID: 300, Content: "images",
						Format: "raw", Size: 1 << 30})
					w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"protection": "1",
						"description": vm.HolderDescription(""), "scsi0": lent + ",backup=0,size=1G"}}
				})
				config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(),
					DialTLSContext: b.sim.DialTLSContext, Clock: b.jobs.Clock}
				ticket(&config, b.sim.Credentials())
				came, attached := false, error(nil)
				config.Trace = func(_ context.Context, _ string, fields map[string]string) {
					if came || fields["method"] != http.MethodPost || !strings.HasSuffix(fields["path"], how) {
						return
					}
					if came = true; taken {
						attached = b.api.QEMU("pve1", 8000).UpdateConfig(t.Context(), pve.Params{"scsi5": lent})
					}
				}
				rule := fault.Rule{Match: fault.Match{Method: http.MethodPost, Path: how}, Phase: fault.Before, Status: 500,
					Times: 2, Reason: "cfs-lock 'domain-ha' error: got lock request timeout"}
				r := onZFS()
				r.VMID, r.HA = 150, &guest.HA{}
				r.Spec.Disks = map[string]vm.Disk{"scsi1": {Storage: "local-zfs", Volume: lent}}
				if how == "/status/start" {
					rule.Phase, rule.Status, rule.Reason = fault.Task, 0, "VM is locked (backup)"
					rule.Match.Path = "/nodes/{node}/qemu/{vmid}/status/start"
					r.HA, r.Start = nil, true
				}
				creator := creatorWith(t, config)
				b.sim.SetFaults([]fault.Rule{rule})
				_, err := creator.Create(t.Context(), r)
				b.sim.Advance(time.Minute)
				var field *guest.FieldError
				refused := errors.As(err, &field) && field.Path == "disks.scsi1.imported_disk.volume"
				b.change(func(w *state.World) {
					g := w.Guests[150]
					runs := g != nil && g.Running != nil
					if !came || attached != nil || refused != taken || (err != nil) != taken || runs == taken || w.Guests[300].Config["scsi0"] == "" {
						t.Errorf("locked %t, attached %v: runs %t (HA %v): %v", came, attached, runs, w.HA["vm:150"], err)
					}
				})
			})
		}
	}
}
