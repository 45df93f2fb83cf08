package create

import (
	"errors"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestTakenVMID: whichever guest has the configured id, the error is on vmid and names it, and nothing is touched.
func TestTakenVMID(t *testing.T) {
	for want, guestOf := range map[string]func(b bench) *state.Guest{
		"VMID 900 is taken|VM 900": func(bench) *state.Guest {
			return &state.Guest{Type: "qemu", Config: map[string]string{"name": "web", "smbios1": "uuid=11111111-2222-3333-4444-555555555555"}}
		},
		"VMID 900 is taken|Container 900": func(bench) *state.Guest {
			return &state.Guest{Type: "lxc", Config: map[string]string{"hostname": "web"}}
		},
		"VMID 900 is taken by a VM that was not finished|another create": func(b bench) *state.Guest {
			other := onZFS()
			other.VMID, other.Node = 900, "pve2"
			mark := b.markOf(900, other, deadProcess(t, b.Creator))
			return &state.Guest{Type: "qemu", Config: map[string]string{"name": "web", "description": mark.String()}}
		},
		"VMID 900 is taken by a half-made VM|locked (create)": func(bench) *state.Guest {
			return &state.Guest{Type: "qemu", LockCause: "state", Config: map[string]string{"lock": "create"}}
		},
	} {
		b, r := newBench(t, token), onZFS()
		r.VMID = 900
		b.change(func(w *state.World) {
			w.Guests[900] = guestOf(b)
			w.Guests[900].VMID, w.Guests[900].Node = 900, "pve1"
		})
		before := b.vms()
		_, err := b.Create(t.Context(), r)
		summary, detail, _ := strings.Cut(want, "|")
		var field *guest.FieldError
		if !errors.As(err, &field) || field.Path != "vmid" || field.Summary != summary || !strings.Contains(field.Detail, detail) {
			t.Errorf("want %s on vmid, got %v", want, err)
		}
		if len(b.vms()) != len(before) {
			t.Errorf("%s: the cluster has %v, and had %v", want, b.vms(), before)
		}
	}
}
