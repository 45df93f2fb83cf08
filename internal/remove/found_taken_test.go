package remove

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestFound07TheIDIsTakenAtOnce: somebody gets the id of a destroyed VM from PVE as soon as it is free, and makes a VM whose disk has
// the name that ours had. The destroy is a success, and nobody is told to free his disk.
func TestFound07TheIDIsTakenAtOnce(t *testing.T) {
	for _, locked := range []bool{true, false} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		taken := false
		r.answered = func(method, path string) {
			if taken || method != "GET" || !strings.Contains(path, ":qmdestroy:300:") {
				return
			}
			if is, _ := r.has(300, contested); is {
				return
			}
			taken = true
			r.change(func(w *state.World) {
				w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-0", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30, Data: "theirs"})
				g := &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "theirs", "memory": "512",
					"scsi0": contested + ",size=1G", "smbios1": "uuid=" + uuidOf(1), "meta": "creation-qemu=9.2.0,ctime=2"}}
				if locked { // it is being made, and names no disk yet
					g.Config, g.LockCause = map[string]string{"lock": "create"}, "state"
				}
				w.Guests[300] = g
			})
		}
		left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
		if !taken {
			t.Fatal("nobody took the id")
		}
		if err != nil || len(left) > 0 || strings.Contains(fmt.Sprint(warnings), "pvesm free") {
			t.Errorf("locked %t: left %+v, said %v: %v", locked, left, warnings, err)
		}
		if is, kept := r.has(300, contested); !is || !kept {
			t.Errorf("locked %t: the stranger's VM is there %t, its disk %t", locked, is, kept)
		}
	}
}
