package volumeuse

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const wanted = "local-zfs:vm-300-disk-0"

// api sends a request of an administrator's.
func (w *world) api(method, path, body string) {
	w.t.Helper()
	cred := w.sim.Credentials()
	client := http.Client{Transport: &http.Transport{DialTLSContext: w.sim.DialTLSContext, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.sim.Endpoint()+"/api2/json"+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "PVEAPIToken="+cred.Token)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := client.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		w.t.Fatalf("%s %s: %v %v", method, path, answer, err)
	}
	_ = answer.Body.Close()
}

// disk makes the volume that is attached.
func (w *world) disk() {
	w.change(func(all *state.World) {
		all.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-300-disk-0", VMID: 300, Content: "images", Format: "raw", Size: 1 << 30})
	})
}

// TestUseIsRenewedByWhatPVERecords: after a reading of all guests only those are read again that may have changed, and whatever PVE
// records of an attachment, or lists of a new guest, is seen. The rest is seen once the reading is too old to be
// renewed, and at once where the record has a gap or may not be read.
func TestUseIsRenewedByWhatPVERecords(t *testing.T) {
	attach := func(all *state.World, vmid int) { all.Guests[vmid].Config["scsi7"] = wanted + ",size=1G" }
	guest := func(node, typ string) *state.Guest {
		return &state.Guest{VMID: 600, Type: typ, Node: node, Config: map[string]string{"memory": "512", "hostname": "new"}}
	}
	for name, c := range map[string]struct {
		before, after func(w *world)
		reads         int // of guests; 0: all of them
		unseen        bool
	}{
		"nothing happens": {unseen: true, reads: 1},
		"by PUT config":   {after: func(w *world) { w.api("PUT", "/nodes/pve1/qemu/302/config", "scsi7="+wanted) }, reads: 2},
		"by POST config":  {after: func(w *world) { w.api("POST", "/nodes/pve1/qemu/302/config", "scsi7="+wanted) }, reads: 2},
		"to a container, of which PVE records nothing": {after: func(w *world) {
			w.change(func(all *state.World) { all.Guests[8100].Config["mp0"] = wanted + ",mp=/x,size=1G" })
		}, reads: 1},
		"to a new guest": {after: func(w *world) {
			w.change(func(all *state.World) { all.Guests[600] = guest("pve1", "qemu"); attach(all, 600) })
		}, reads: 2},
		"to one that has come from another node": {after: func(w *world) {
			w.change(func(all *state.World) { all.Guests[303].Node = "pve1"; attach(all, 303) })
		}, reads: 2},
		"by a task": {after: func(w *world) {
			w.change(func(all *state.World) {
				attach(all, 302)
				state.Log(all, "pve1", "root@pam", "starting task UPID:pve1:00000001:00000001:00000005:qmrollback:302:root@pam:")
				state.Log(all, "pve1", "root@pam", "end task UPID:pve1:00000001:00000001:00000005:qmrollback:302:root@pam: OK")
			})
		}, reads: 2},
		"by a task that began before and is under way": {before: func(w *world) {
			w.change(func(all *state.World) {
				state.Log(all, "pve1", "root@pam", "starting task UPID:pve1:00000001:00000001:00000005:qmmove:302:root@pam:")
			})
		}, after: func(w *world) { w.change(func(all *state.World) { attach(all, 302) }) }, reads: 2},
		"under a lock that has gone meanwhile": {before: func(w *world) {
			w.change(func(all *state.World) { all.Guests[302].SetLock("clone", "state") })
		}, after: func(w *world) {
			w.change(func(all *state.World) { all.Guests[302].SetLock("", ""); attach(all, 302) })
		}, reads: 2},
		"by a request that was recorded a moment before": {before: func(w *world) {
			w.change(func(all *state.World) { state.Log(all, "pve1", "root@pam", "update VM 302: -scsi7 x") })
		}, after: func(w *world) { w.change(func(all *state.World) { attach(all, 302) }) }, reads: 2},
		"by nothing: a request that names no volume was recorded a moment before": {before: func(w *world) {
			w.change(func(all *state.World) { state.Log(all, "pve1", "root@pam", "update VM 302: -cores 4 -delete balloon") })
		}, unseen: true, reads: 1},
		"by a request that was recorded after another one": {after: func(w *world) {
			w.change(func(all *state.World) { state.Log(all, "pve1", "root@pam", "update VM 302: -cores 4") })
			w.api("PUT", "/nodes/pve1/qemu/302/config", "scsi7="+wanted)
		}, reads: 2},
		"by an editor": {after: func(w *world) { w.change(func(all *state.World) { attach(all, 302) }) }, reads: 1, unseen: true},
		"by an editor, and the reading gets old": {after: func(w *world) {
			w.change(func(all *state.World) { attach(all, 302) })
			_ = w.clock.Sleep(w.t.Context(), useLife+1)
		}},
		"while the log was overrun": {after: func(w *world) {
			w.change(func(all *state.World) {
				attach(all, 302)
				for i := range 700 {
					state.Log(all, "pve1", "root@pam", "line %d", i)
				}
			})
		}},
		"while pmxcfs was started again": {after: func(w *world) {
			w.change(func(all *state.World) { attach(all, 302); all.ClusterLog = nil })
		}},
		"while a node went away": {after: func(w *world) {
			w.change(func(all *state.World) { attach(all, 302); all.Nodes["pve2"].Online = false })
			w.sim.Advance(20e9)
		}},
		"and the identity does not see the log": {before: func(w *world) {
			w.change(func(all *state.World) {
				for role, privs := range all.Roles {
					all.Roles[role] = slices.DeleteFunc(slices.Clone(privs), func(p string) bool { return p == "Sys.Syslog" })
				}
			})
		}, after: func(w *world) { w.change(func(all *state.World) { attach(all, 302) }) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.disk()
			w.vm(300, "pve1", wanted)
			for vmid, node := range map[int]string{301: "pve1", 302: "pve1", 303: "pve2"} {
				w.vm(vmid, node, fmt.Sprintf("local-zfs:vm-%d-disk-0", vmid))
			}
			w.change(func(all *state.World) { state.Log(all, "pve1", "root@pam", "successful auth for user 'root@pam'") })
			if c.before != nil {
				c.before(w)
			}
			first, err := w.s.Since(t.Context(), w.s.Ask(), "pve1")
			if err != nil || len(first.UsersOf(wanted, 300)) > 0 {
				t.Fatalf("%v; %v", first, err)
			}
			all := len(w.asked())
			if c.after != nil {
				c.after(w)
				w.asked()
			}
			again, err := w.s.Since(t.Context(), w.s.Ask(), "pve1")
			if err != nil {
				t.Fatal(err)
			}
			reads := w.asked()
			if seen := len(again.UsersOf(wanted, 300)) > 0; seen == c.unseen {
				t.Errorf("the user is seen: %v", seen)
			}
			if c.reads == 0 && len(reads) < all || c.reads > 0 && len(reads) != c.reads {
				t.Errorf("%v were read, before %d", reads, all)
			}
		})
	}
}

// TestUseForgetsWhatIsGone: a guest that is gone, and a volume that it has no more, are in no renewed reading, and what earlier
// callers have stays as it was.
func TestUseForgetsWhatIsGone(t *testing.T) {
	w := newWorld(t)
	w.disk()
	w.vm(301, "pve1", "local-zfs:vm-301-disk-0")
	w.vm(302, "pve1", wanted)
	w.vm(303, "pve1", wanted)
	users := func(u *Use) string {
		found := map[int]bool{}
		for _, user := range u.UsersOf(wanted, 300) {
			found[user.Guest.VMID] = true
		}
		return fmt.Sprint(slices.Sorted(maps.Keys(found)))
	}
	look := func() *Use {
		u, err := w.s.Since(t.Context(), w.s.Ask(), "pve1")
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	first := look()
	w.change(func(all *state.World) { delete(all.Guests, 302) })
	second := look()
	w.api("PUT", "/nodes/pve1/qemu/303/config", "delete=scsi0")
	w.api("PUT", "/nodes/pve1/qemu/301/config", "scsi7="+wanted)
	third := look()
	w.change(func(all *state.World) { delete(all.Guests, 301) })
	for got, want := range map[*Use]string{first: "[302 303]", second: "[303]", third: "[301]", look(): "[]"} {
		if users(got) != want {
			t.Errorf("%s, want %s", users(got), want)
		}
	}
}

// TestConfirm: a use that has ended without a trace is no reason to refuse anything.
func TestConfirm(t *testing.T) {
	w := newWorld(t)
	w.vm(302, "pve1", wanted)
	w.vm(303, "pve1", wanted)
	for range 2 { // the second is renewed
		u, err := w.s.Since(t.Context(), w.s.Ask(), "pve1")
		if err != nil || len(u.UsersOf(wanted, 300)) != 2 {
			t.Fatalf("%v, %v", u, err)
		}
	}
	w.change(func(all *state.World) { delete(all.Guests[302].Config, "scsi0") })
	u, err := w.s.Since(t.Context(), w.s.Ask(), "pve1")
	if err == nil {
		u, err = w.s.Confirm(t.Context(), u, 300, wanted)
	}
	if err != nil || len(u.UsersOf(wanted, 300)) != 1 {
		t.Errorf("%v, %v", u.UsersOf(wanted, 300), err)
	}
}
