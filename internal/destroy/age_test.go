package destroy

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// root is an administrator of the cluster.
func (r *rig) root() *pve.Client {
	cred := r.sim.Credentials()
	client, err := pve.New(pve.Config{Endpoint: r.sim.Endpoint(), CACertificate: r.sim.CAPEM(),
		DialTLSContext: r.sim.DialTLSContext, Clock: clock.Client{Cluster: r.sim.World().Clock},
		Username: cred.RootUsername, Password: cred.RootPassword})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(client.Close)
	return client
}

// showLog has every role see the log of the cluster, which has an entry.
func (r *rig) showLog() {
	r.change(func(w *state.World) {
		w.Log.Add(w.Clock.Now(), "pve1", "root@pam", "an entry")
		for role, held := range w.Roles {
			w.Roles[role] = append(held, "Sys.Syslog")
		}
	})
}

// TestAttachedWithinTheAgeOfTheSurvey: a first destroy has read all guests. While a second VM shuts down a third party
// gives its disk to a guest that was read. A survey is at hand, and it is not believed.
func TestAttachedWithinTheAgeOfTheSurvey(t *testing.T) {
	attach := func(r *rig, root *pve.Client) {
		if err := root.QEMU("pve1", 2000).UpdateConfig(r.t.Context(), pve.Params{"scsi5": contested}); err != nil {
			r.t.Error(err)
		}
	}
	mount := func(r *rig, _ *pve.Client) {
		r.change(func(w *state.World) { w.Guests[8100].Config["mp1"] = contested + ",mp=/data,size=1G" })
	}
	edit := func(r *rig, _ *pve.Client) {
		r.change(func(w *state.World) { w.Guests[2000].Config["scsi5"] = contested + ",size=1G" })
	}
	for name, c := range map[string]struct {
		others int
		log    bool
		act    func(*rig, *pve.Client)
		reads  int // of the second destroy, at most
	}{
		"a large site, by the log":                {200, true, attach, 10},
		"a small site, by the log":                {1, true, attach, 10},
		"a small site without the log":            {1, false, attach, 20},
		"a small site, a container":               {1, true, mount, 20},
		"a small site, a file edited by its root": {1, false, edit, 20},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, asToken)
			root := r.root()
			first, second := r.vm(1000), r.vm(300)
			for i := range c.others {
				r.vm(2000 + i)
			}
			if c.log {
				r.showLog()
			}
			r.running()
			r.sim.Advance(20 * time.Second)
			if _, _, err := r.s.Delete(t.Context(), Request{Ref: first}); err != nil {
				t.Fatal(err)
			}
			r.sim.ResetOps()
			var once sync.Once
			r.answered = func(method, path string) {
				if method == "POST" && strings.HasSuffix(path, "/300/status/shutdown") {
					once.Do(func() { c.act(r, root) })
				}
			}
			_, _, err := r.s.Delete(t.Context(), Request{Ref: guest.Ref{VMID: 300, Node: "pve1", Identity: second.Identity}})
			if is, kept := r.has(300, contested); !is || !kept || err == nil || !strings.Contains(err.Error(), contested+" is also used by") {
				t.Errorf("VM %t, disk %t: %v", is, kept, err)
			}
			reads := 0
			for _, op := range r.sim.Ops() {
				if strings.HasSuffix(op.Path, "/pending") {
					reads++
				}
			}
			t.Logf("%d guests were read", reads)
			if reads > c.reads {
				t.Errorf("%d guests were read, want at most %d", reads, c.reads)
			}
		})
	}
}
