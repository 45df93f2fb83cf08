package destroy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestFreedNameIsAnothers: PVE has destroyed a VM in state with its disk. Before the last look a third party makes a
// volume, which gets the name that came free: on a shared storage it may be a cluster that this one does not see. It is
// left alone, whichever answer it comes after.
func TestFreedNameIsAnothers(t *testing.T) {
	for _, auth := range []string{"token", "root"} {
		for nth, came := 1, true; came; nth++ {
			who := asToken
			if auth == "root" {
				who = asRoot
			}
			r := newRig(t, who)
			ref := r.vm(300)
			var his *state.Volume
			acted := r.afterDelete(nth, func(w *state.World) bool {
				if w.Guests[300] != nil { // PVE is still at it
					return false
				}
				his = r.alloc(w, "the third party's data")
				return true
			})
			left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
			if came = acted(); !came {
				continue
			}
			there := false
			r.change(func(w *state.World) {
				for _, v := range w.Volumes {
					there = there || v.Data == "the third party's data"
				}
			})
			if !there || err != nil || len(left) > 0 {
				t.Errorf("%s, after answer %d since the request: the third party's %v is there: %t; %v, left %v, %s", auth, nth, his.Volid(), there,
					err, left, fmt.Sprint(warnings))
			}
		}
	}
}

// TestDestroyedByOthersMeanwhile: a third party destroys the VM in state before our request, and makes a volume under
// the free id: by itself, or for a VM that it begins to restore, whose configuration says nothing yet. It is left alone.
func TestDestroyedByOthersMeanwhile(t *testing.T) {
	for name, now := range map[string]*state.Guest{
		"a volume":  nil,
		"a restore": {VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"memory": "128"}},
		"a create": {VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"lock": "create"},
			LockCause: "state"},
	} {
		met := 0
		for nth, came := 1, true; came; nth++ {
			r := newRig(t, asToken)
			ref, n := r.vm(300), 0
			came = false
			r.change(func(w *state.World) { // a rescan has found a volume
				w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-7", VMID: 300, Content: "images",
					Format: "raw", Size: 1 << 30})
				w.Guests[300].Config["unused0"] = "local-zfs:vm-300-disk-7"
			})
			r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodDelete, Path: "/nodes/{node}/qemu/{vmid}"},
				Phase: fault.Before, Status: 500, Reason: "not now"}})
			r.answered = func(_, _ string) {
				if n++; n != nth {
					return
				}
				r.change(func(w *state.World) {
					if w.Guests[300] == nil || w.Guests[300].Config["lock"] != "" {
						return
					}
					came = true
					if delete(w.Guests, 300); now != nil {
						w.Guests[300] = now
					}
					if _, err := w.Free("pve1", "local-zfs", "vm-300-disk-0"); err != nil {
						t.Error(err)
					}
					his, err := w.Alloc("pve1", "local-zfs", 300, "", "", 1<<30)
					if err != nil {
						t.Error(err)
						return
					}
					his.Data = "the third party's data"
				})
			}
			left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
			if !came {
				continue
			}
			met++
			there := false
			r.change(func(w *state.World) {
				for _, v := range w.Volumes {
					there = there || v.Data == "the third party's data"
				}
			})
			if !there || now == nil && len(left) > 0 { // an error that says that the VM is another one is as good
				t.Errorf("%s, after answer %d: what the third party has is there: %t; %v, left %v, %s", name, nth, there, err, left,
					fmt.Sprint(warnings))
			}
		}
		if met == 0 {
			t.Errorf("%s: no third party came", name)
		}
	}
}

// TestNameFreedOverTheAPIIsAnothers: a volume outlives its VM and is then freed by itself. Right after that a third party
// makes a volume, which gets the name. It is left alone and named.
func TestNameFreedOverTheAPIIsAnothers(t *testing.T) {
	for _, busy := range []int{2, 3, 4} {
		r := newRig(t, asRoot)
		ref := r.vm(300)
		r.change(func(w *state.World) { w.Storages["local-zfs"].BusyFrees = busy })
		freed, came := false, false
		r.answered = func(method, path string) {
			freed = freed || method == http.MethodDelete && strings.Contains(path, "/content/")
			if _, there := r.has(300, "local-zfs:vm-300-disk-0"); !freed || there || came {
				return
			}
			came = true
			r.change(func(w *state.World) {
				volume, err := w.Alloc("pve1", "local-zfs", 300, "", "", 1<<30)
				if err != nil {
					t.Error(err)
					return
				}
				volume.Data = "the third party's data"
			})
		}
		left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
		there := ""
		r.change(func(w *state.World) {
			for _, v := range w.Volumes {
				if v.Data == "the third party's data" {
					there = v.Volid()
				}
			}
		})
		if !came || there != "local-zfs:vm-300-disk-0" || err != nil || len(left) > 0 || !strings.Contains(fmt.Sprint(warnings), there) {
			t.Errorf("busy %d times: a third party came: %t, its volume is %q; %v, left %v, %s", busy, came, there, err, left, fmt.Sprint(warnings))
		}
	}
}
