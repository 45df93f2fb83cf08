package destroy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestRestoredMeanwhileIsAnothers: PVE has destroyed a VM in state, and its busy disk stays. Then an administrator
// restores the VM from a backup, over the empty VM that reserves the VMID or in its place. It has the uuid of the old
// one (qemu-server QemuServer.pm restore_update_config_line changes it with unique only), and is left alone, whichever
// answer it comes after. Between the last look and PVE's deletion, which takes no digest, a moment remains.
func TestRestoredMeanwhileIsAnothers(t *testing.T) {
	met := 0
	for nth, came := 1, true; came; nth++ {
		r := newRig(t, asToken)
		ref := r.vm(300)
		r.change(func(w *state.World) { w.Storages["local-zfs"].BusyFrees = 3 })
		next := ""
		acted := r.afterDelete(nth, func(w *state.World) bool {
			if g := w.Guests[300]; g != nil && (g.Config["lock"] != "" || g.Config["scsi0"] != "") {
				return false // PVE is still at it
			}
			volume := r.alloc(w, "the restored data")
			w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "vm300",
				"memory": "512", "scsi0": volume.Volid() + ",size=1G", "smbios1": "uuid=" + uuidOf(300),
				"meta": "creation-qemu=9.2.0,ctime=1"}}
			return true
		})
		later := r.answered
		r.answered = func(method, path string) {
			if acted() && next == "" {
				next = method + " " + path
			}
			later(method, path)
		}
		left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
		if came = acted(); !came {
			continue
		}
		there := false
		r.change(func(w *state.World) {
			for _, v := range w.Volumes {
				there = there || v.Data == "the restored data"
			}
			there = there && w.Guests[300] != nil
		})
		if met++; !there && !strings.HasPrefix(next, http.MethodDelete) {
			t.Errorf("after answer %d since the request: the restored VM is gone; %v, left %v, %s, %s", nth, err, left,
				fmt.Sprint(warnings), next)
		}
	}
	if met == 0 {
		t.Error("the VM was not restored once")
	}
}

// TestRestoredWhileNoPollIsAnswered: PVE has destroyed the VM, and the node's proxy does not answer the polls of the task for a while.
// Meanwhile the VM is restored from a backup, with its uuid. It is another one, as it is where the end of the task was seen at once.
func TestRestoredWhileNoPollIsAnswered(t *testing.T) {
	for _, polls := range []int{0, 10, 11} {
		for _, warns := range []bool{false, true} {
			r := newRig(t, asToken)
			ref := r.vm(300)
			if polls > 0 {
				r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/status"}, Phase: fault.Before,
					Status: 596, Times: polls}})
			}
			acted := r.afterDelete(2, func(w *state.World) bool {
				if w.Guests[300] != nil {
					return false // PVE is still at it
				}
				for _, task := range w.Tasks {
					if task.Type == "qmdestroy" && warns {
						task.ExitStatus = "WARNINGS: 1"
					}
				}
				volume := r.alloc(w, "the restored data")
				w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "vm300",
					"memory": "512", "scsi0": volume.Volid() + ",size=1G", "smbios1": "uuid=" + uuidOf(300),
					"meta": "creation-qemu=9.2.0,ctime=1"}}
				return true
			})
			left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
			there := false
			r.change(func(w *state.World) {
				for _, v := range w.Volumes {
					there = there || v.Data == "the restored data"
				}
				there = there && w.Guests[300] != nil
			})
			if !acted() || !there {
				t.Errorf("%d polls fail, warnings %t: the VM was restored: %t, and is there: %t; %v, left %v, %v", polls, warns, acted(), there, err, left,
					warnings)
			}
		}
	}
}
