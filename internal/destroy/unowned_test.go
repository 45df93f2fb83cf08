package destroy

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// unowned puts VM 300 into the cluster, and says how it was judged to be left over.
func (r *rig) unowned() guard.Unowned {
	r.t.Helper()
	r.vm(300)
	resources, err := r.s.api.Cluster().Resources(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	config, err := r.s.api.QEMU("pve1", 300).Config(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	listed, _ := resources.Guest(300)
	return guard.Unowned{Listed: listed, Resources: resources, Config: config.Values, Digest: config.Digest}
}

// TestDestroyUnowned: a VM goes that is what was judged, and stays after whatever change, whenever that comes before
// the request.
func TestDestroyUnowned(t *testing.T) {
	r := newRig(t, asToken)
	u := r.unowned()
	if err := r.s.Orphans().RemoveVM(t.Context(), &request.Tasks{}, u); err != nil {
		t.Fatal(err)
	}
	if is, kept := r.has(300, contested); is || kept {
		t.Errorf("VM %t, volume %t", is, kept)
	}
	stayed := 0
	for at := 1; ; at++ {
		r := newRig(t, asToken)
		u := r.unowned()
		var asked []string
		r.answered = func(method, _ string) {
			if asked = append(asked, method); len(asked) == at {
				r.change(func(w *state.World) {
					if g := w.Guests[300]; g != nil {
						g.Config["onboot"] = "1"
					}
				})
			}
		}
		err := r.s.Orphans().RemoveVM(t.Context(), &request.Tasks{}, u)
		if len(asked) < at {
			break
		}
		is, kept := r.has(300, contested)
		late := slices.Contains(asked[:min(at+1, len(asked))], http.MethodDelete) // nothing was asked any more before the request was sent
		if is != kept || !is && !late {
			t.Errorf("changed after answer %d of %d: VM %t, volume %t, %v", at, len(asked), is, kept, err)
		}
		if is {
			stayed++
		}
	}
	if stayed < 2 {
		t.Errorf("it stayed %d times", stayed)
	}
}

// TestDestroyUnownedThatHasMoved: a VM that is on another node by the time of its removal is not removed, and the
// removal does not say so.
func TestDestroyUnownedThatHasMoved(t *testing.T) {
	r := newRig(t, asToken)
	u := r.unowned()
	r.change(func(w *state.World) { w.Guests[300].Node = "pve2" })
	err := r.s.Orphans().RemoveVM(t.Context(), &request.Tasks{}, u)
	if is, _ := r.has(300, contested); err == nil || !is {
		t.Errorf("VM %t, %v", is, err)
	}
}

// TestFreeUnowned: a volume goes whose id no guest has and that no guest uses.
func TestFreeUnowned(t *testing.T) {
	const volume = "local-zfs:vm-400-disk-0"
	for name, c := range map[string]struct {
		happens func(w *state.World)
		want    string
	}{
		"unused": {happens: func(*state.World) {}},
		"an id again": {happens: func(w *state.World) {
			w.Guests[400] = &state.Guest{VMID: 400, Type: "qemu", Node: "pve2", Config: map[string]string{"memory": "512", "smbios1": "uuid=" + uuidOf(400)}}
		}, want: "VM or container 400 exists"},
		"used": {happens: func(w *state.World) { w.Guests[300].Config["scsi7"] = volume + ",size=1G" }, want: "is also used by VM 300"},
	} {
		r := newRig(t, asRoot)
		r.vm(300)
		r.change(func(w *state.World) {
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-400-disk-0", VMID: 400, Content: "images", Format: "raw", Size: 1 << 30})
			c.happens(w)
		})
		err := r.s.Orphans().Free(t.Context(), &request.Tasks{}, 400, guard.MadeFile{Node: "pve1", Volume: volume, Size: 1 << 30})
		_, kept := r.has(400, volume)
		if c.want == "" && (err != nil || kept) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !kept) {
			t.Errorf("%s: %v; the volume is there %t", name, err, kept)
		}
	}
}

// TestFreeUnownedReplaced: after any one of the answers a third party puts another volume in the place of the one
// that was judged, or writes to it. It stays, except after the last look, right before the request.
func TestFreeUnownedReplaced(t *testing.T) {
	const volume = "local:400/vm-400-disk-0.qcow2"
	was := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, act := range map[string]func(*state.Volume){
		"another size": func(v *state.Volume) { v.Size = 2 << 30 },
		"written to":   func(v *state.Volume) { v.Created = was.Add(time.Hour) },
	} {
		came := 0
		for at := 0; ; at++ {
			r := newRig(t, asRoot)
			put := func(change func(*state.Volume)) {
				r.change(func(w *state.World) {
					v := &state.Volume{Storage: "local", Node: "pve1", Name: "400/vm-400-disk-0.qcow2", VMID: 400, Content: "images", Format: "qcow2",
						Size: 1 << 30}
					w.Put(v)
					v.Created = was
					change(v)
				})
			}
			put(func(*state.Volume) {})
			var asked []string
			r.answered = func(method, _ string) {
				if asked = append(asked, method); len(asked) == at {
					put(act)
				}
			}
			if at == 0 {
				put(act)
			}
			err := r.s.Orphans().Free(t.Context(), &request.Tasks{}, 400, guard.MadeFile{Node: "pve1", Volume: volume, Size: 1 << 30, CreatedAt: was})
			if len(asked) < at || len(asked) > at && asked[at] == "DELETE" {
				if _, kept := r.has(400, volume); err != nil || kept {
					t.Errorf("%s: as it was judged it is not removed: %v", name, err)
				}
				break
			}
			came++
			if _, kept := r.has(400, volume); !kept || err == nil || !strings.Contains(err.Error(), "has changed since it was found to be left over") {
				t.Errorf("%s after answer %d: %v; it is there %t", name, at, err, kept)
			}
		}
		if came < 2 {
			t.Errorf("%s: the third party came %d times", name, came)
		}
	}
}
