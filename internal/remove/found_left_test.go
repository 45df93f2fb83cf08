package remove

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestFound27ADestroyNamesWhatMovesLeft: a cloud-init drive that was moved while the guest ran has left its old volume on a block
// storage, which no configuration names; and so has whatever left one where the VM's disks are. If somebody else has the id by then
// they may be his, and are not named.
func TestFound27ADestroyNamesWhatMovesLeft(t *testing.T) {
	for _, taken := range []bool{false, true} {
		r := newRig(t, asToken)
		ref := r.vm(300)
		put := func(w *state.World, storage, name string) {
			w.Put(&state.Volume{Storage: storage, Node: "pve1", Name: name, VMID: 300, Content: "images", Format: "raw", Size: 4 << 20})
		}
		r.change(func(w *state.World) {
			put(w, "local-zfs", "vm-300-cloudinit")
			put(w, "local-lvm", "vm-300-cloudinit")
			put(w, "local-zfs", "vm-300-disk-7")
			w.Guests[300].Config["ide2"] = "local-zfs:vm-300-cloudinit,media=cdrom"
		})
		r.answered = func(method, path string) {
			if is, _ := r.has(300, contested); taken && !is && method == http.MethodGet && strings.Contains(path, ":qmdestroy:300:") {
				r.change(func(w *state.World) {
					w.Guests[300] = &state.Guest{VMID: 300, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "theirs", "memory": "512",
						"smbios1": "uuid=" + uuidOf(1), "meta": "creation-qemu=9.2.0,ctime=2"}}
				})
			}
		}
		left, warnings, err := r.s.Delete(t.Context(), Request{Ref: ref})
		if err != nil || len(left) > 0 {
			t.Errorf("taken %t: left %v, %v", taken, left, err)
		}
		said := fmt.Sprint(warnings)
		for _, volume := range []string{"local-lvm:vm-300-cloudinit", "local-zfs:vm-300-disk-7"} {
			if is, kept := r.has(300, volume); is != taken || !kept {
				t.Errorf("taken %t: VM 300 is there %t, %s %t", taken, is, volume, kept)
			}
			if strings.Contains(said, volume) == taken {
				t.Errorf("taken %t: said of %s: %s", taken, volume, said)
			}
		}
		if strings.Contains(said, "vm-300-cloudinit on node pve1 (") == taken || strings.Contains(said, "local-zfs:vm-300-cloudinit") {
			t.Errorf("taken %t: said %s", taken, said)
		}
	}
}

// TestFound05ACommitComesLast: the lease of a create is over, and the create is not. Whenever its commit comes before the last look
// at the configuration, its VM stays.
func TestFound05ACommitComesLast(t *testing.T) {
	spared := 0
	for at := 1; ; at++ {
		r := newRig(t, asToken)
		r.vm(300)
		stamp := guest.NewStamp("pve1,pve2", 300, r.s.guests.Deadline(0))
		r.change(func(w *state.World) { w.Guests[300].Config["description"] = stamp.String() })
		f := guest.OwnFence("pve1", 300, []string{contested})
		var asked []string
		committed := false
		r.answered = func(method, path string) {
			if asked = append(asked, method+" "+path); len(asked) == at {
				r.change(func(w *state.World) {
					if g := w.Guests[300]; g != nil {
						g.Config["description"], committed = "complete", true
					}
				})
			}
		}
		err := r.s.Remove(t.Context(), Target{VMID: 300, Nodes: []string{"pve1"}, Fence: f, Tasks: &job.Tasks{}, Stamp: stamp, Stub: NewStub("", nil)})
		if !committed {
			break
		}
		is, kept := r.has(300, contested)
		last := len(asked) > at && strings.HasPrefix(asked[at], http.MethodDelete) // nothing was asked any more before the request was sent
		if !last && (!is || !kept) {
			t.Errorf("committed after %s: VM %t, disk %t, %v", asked[at-1], is, kept, err)
		}
		if is {
			spared++
		}
	}
	if spared < 2 {
		t.Errorf("it was spared %d times", spared)
	}
}

// TestFound05SkewedClocks: the server that answers may be hours ahead of the one whose clock the lease was counted by. While this
// machine's clock says that a create may live, it is not taken for dead.
func TestFound05SkewedClocks(t *testing.T) {
	r := newRig(t, asToken)
	if _, err := r.s.api.Resources(t.Context()); err != nil { // tells the server's time
		t.Fatal(err)
	}
	deadline := r.s.guests.Deadline(0)
	r.sim.Advance(3 * time.Hour)
	for _, behind := range []time.Duration{3 * time.Hour, 2*time.Hour + 45*time.Minute} {
		r.behind = behind
		if _, err := r.s.api.Resources(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := r.s.guests.Now(); now.After(deadline) {
			t.Errorf("this machine is %s behind: it is %s, the create may take until %s", behind, now, deadline)
		}
	}
	if r.behind = 0; !r.s.guests.Now().After(deadline) {
		t.Error("both clocks say that it is over, and nobody believes them")
	}
}
