package volumeuse

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestUseAfterOwnChanges: a change of ours that PVE has carried out makes its VM be read once more, and not for a minute. A third
// party's change beside it is seen, whatever its entry says and whenever it is written.
func TestUseAfterOwnChanges(t *testing.T) {
	params := pve.Params{"serial0": "socket", "delete": "balloon"} // a device might be a volume
	own := func(w *world) {
		if err := w.s.jobs.Set(w.t.Context(), "pve1", 302, params, request.Bound{}); err != nil {
			w.t.Fatal(err)
		}
	}
	logged := func(user, text string) func(w *world) {
		return func(w *world) {
			if user == "" {
				user = w.s.api.Identity().User
			}
			w.change(func(all *state.World) { state.Log(all, "pve1", user, "%s", text) })
		}
	}
	look := func(w *world) {
		if _, err := w.s.Since(w.t.Context(), w.s.Ask(), "pve1"); err != nil {
			w.t.Fatal(err)
		}
	}
	written := func(w *world) {
		w.change(func(all *state.World) { all.Guests[302].Config["scsi7"] = wanted + ",size=1G" })
	}
	offer := func(w *world) {
		asked := w.s.Ask()
		config, err := w.s.api.QEMU("pve1", 302).Pending(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		w.s.Offer(asked, "pve1", 302, config, w.clock.Now())
	}
	text := pve.ChangeEntry(302, params)
	for name, c := range map[string]struct {
		events      []func(w *world) // between the first look and the last one
		reads, seen bool             // of VM 302 by the last look
	}{
		"ours":                                  {events: []func(*world){own}, reads: true},
		"ours, looked at since":                 {events: []func(*world){own, look}},
		"ours, read by its operation":           {events: []func(*world){own, offer}},
		"ours, whose answer is still to come":   {events: []func(*world){logged("", text), look, written}, reads: true, seen: true},
		"ours, answered after a look":           {events: []func(*world){logged("", text), look, func(w *world) { w.s.Wrote(302, text) }}, reads: true},
		"ours, answered, and looked at since":   {events: []func(*world){logged("", text), look, func(w *world) { w.s.Wrote(302, text) }, look}},
		"a third party's beside ours":           {events: []func(*world){own, logged("root@pam", "update VM 302: -scsi7 x"), look, written}, reads: true, seen: true},
		"the same change by another identity":   {events: []func(*world){own, logged("root@pam", text), look, written}, reads: true, seen: true},
		"the same change twice, once answered":  {events: []func(*world){own, logged("", text), look, written}, reads: true, seen: true},
		"another change with our identity":      {events: []func(*world){own, logged("", "update VM 302: -scsi7 x"), look, written}, reads: true, seen: true},
		"a third party's after a read of ours":  {events: []func(*world){own, offer, logged("root@pam", "update VM 302: -scsi7 x"), written}, reads: true, seen: true},
		"a task after a read of ours":           {events: []func(*world){own, offer, logged("root@pam", "starting task UPID:pve1:00000001:00000001:00000005:qmmove:302:root@pam:"), written}, reads: true, seen: true},
		"a third party's before a read of ours": {events: []func(*world){logged("root@pam", "update VM 302: -scsi7 x"), offer, written}, reads: true, seen: true},
		"an old entry, as a later one of its node shows": {events: []func(*world){logged("root@pam", "update VM 302: -cores 4"), look, func(w *world) {
			w.sim.Advance(10 * time.Minute)
			logged("root@pam", "successful auth for user 'root@pam'")(w)
			_ = w.clock.Sleep(w.t.Context(), 2*time.Second)
		}, look}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.s.jobs.Written = w.s.Wrote
			w.disk()
			w.vm(300, "pve1", wanted)
			w.vm(302, "pve1", "local-zfs:vm-302-disk-0")
			look(w)
			for _, event := range c.events {
				event(w)
			}
			w.asked()
			use, err := w.s.Since(t.Context(), w.s.Ask(), "pve1")
			if err != nil {
				t.Fatal(err)
			}
			asked := w.asked()
			if reads := slices.ContainsFunc(asked, func(r string) bool { return strings.HasSuffix(r, " 302") }); reads != c.reads {
				t.Errorf("it is read: %v; %v", reads, asked)
			}
			if seen := len(use.UsersOf(wanted, 300)) > 0; seen != c.seen {
				t.Errorf("the use is seen: %v", seen)
			}
		})
	}
}
