package destroy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

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
			came = false
			var his *state.Volume
			after, n := false, 0
			r.answered = func(method, path string) {
				if after = after || method == http.MethodDelete && strings.HasSuffix(path, "/qemu/300"); !after {
					return
				}
				if n++; n < nth || came {
					return
				}
				r.change(func(w *state.World) {
					if w.Guests[300] != nil { // PVE is still at it
						n--
						return
					}
					came = true
					volume, err := w.Alloc("pve1", "local-zfs", 300, "", "", 1<<30)
					if err != nil {
						t.Error(err)
						return
					}
					his = volume
					volume.Data = "the third party's data"
				})
			}
			left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
			if !came {
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
// the free id. It is left alone.
func TestDestroyedByOthersMeanwhile(t *testing.T) {
	met := 0
	for nth, came := 1, true; came; nth++ {
		r := newRig(t, asToken)
		ref, n := r.vm(300), 0
		came = false
		r.answered = func(method, path string) {
			if n++; n != nth {
				return
			}
			r.change(func(w *state.World) {
				if w.Guests[300] == nil || w.Guests[300].Config["lock"] != "" {
					return
				}
				came = true
				delete(w.Guests, 300)
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
		if !there || len(left) > 0 { // an error that says that the VM is gone is as good
			t.Errorf("after answer %d the third party's volume is there: %t; %v, left %v, %s", nth, there, err, left,
				fmt.Sprint(warnings))
		}
	}
	if met == 0 {
		t.Error("no third party came")
	}
}
