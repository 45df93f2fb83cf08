package destroy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// rig is a simulated cluster with a Destroyer for one identity on it.
type rig struct {
	t   *testing.T
	sim *pvesim.Sim
	s   *Destroyer

	jobs   *request.Runner
	guests *guest.Guests
	// answered, if set, is called with each answer that the Destroyer got, one at a time.
	answered func(method, path string)
	one      sync.Mutex
	// behind is how far this machine's clock is behind the cluster's.
	behind time.Duration
	// slept is how long this machine has slept, and parting: its clock has a monotonic reading, which stood still then.
	slept   time.Duration
	parting bool
	began   [2]time.Time // of the process, with such a reading, and the cluster's time then
}

// skewed is this machine's clock.
type skewed struct {
	clock.Client
	r *rig
}

func (s skewed) Now() time.Time {
	now := s.Client.Now().Add(-s.r.behind)
	if s.r.parting {
		now = s.r.began[0].Add(now.Sub(s.r.began[1]))
	}
	return clock.Asleep(now, s.r.slept)
}

func asToken(c *pve.Config, cred pvesim.Credentials) { c.APIToken = cred.Token }

func asRoot(c *pve.Config, cred pvesim.Credentials) {
	c.Username, c.Password = cred.RootUsername, cred.RootPassword
}

func newRig(t *testing.T, auth func(*pve.Config, pvesim.Credentials)) *rig {
	t.Helper()
	return newRigWith(t, auth, pvesim.Options{})
}

// newRigWith is newRig for a cluster with options. The clock of one without moves whenever all who sleep on it do, so
// minutes may pass between two requests of one who does not; in a bubble of testing/synctest with clock.Real none pass.
func newRigWith(t *testing.T, auth func(*pve.Config, pvesim.Credentials), o pvesim.Options) *rig {
	t.Helper()
	o.Nodes = []string{"pve1", "pve2"}
	sim, err := pvesim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	r := &rig{t: t, sim: sim, answered: func(string, string) {}}
	world := skewed{clock.Client{Cluster: sim.World().Clock}, r}
	r.began = [2]time.Time{time.Now(), world.Client.Now()}
	config := pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), DialTLSContext: sim.DialTLSContext, Clock: world}
	config.Trace = func(_ context.Context, message string, fields map[string]string) {
		if message == "PVE request" {
			r.one.Lock()
			defer r.one.Unlock()
			r.answered(fields["method"], fields["path"])
		}
	}
	auth(&config, sim.Credentials())
	client, err := pve.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r.jobs = request.New(client, world)
	r.guests = guest.New(r.jobs)
	r.useShell(nil)
	return r
}

// useShell gives the Destroyer a shell on the nodes.
func (r *rig) useShell(shell guard.Shell) { r.s = New(r.jobs, r.guests, shell) }

// change alters the cluster behind everybody's back.
func (r *rig) change(f func(*state.World)) {
	w := r.sim.World()
	w.Lock()
	defer w.Unlock()
	f(w)
}

// afterDelete has a third party act once PVE was told to destroy VM 300: at the nth answer since, or at the first from then on at which
// it can, which act reports. acted tells whether it has.
func (r *rig) afterDelete(nth int, act func(*state.World) bool) (acted func() bool) {
	told, n, done := false, 0, false
	r.answered = func(method, path string) {
		if told = told || method == http.MethodDelete && strings.HasSuffix(path, "/qemu/300"); !told || done {
			return
		}
		if n++; n >= nth {
			r.change(func(w *state.World) { done = act(w) })
		}
	}
	return func() bool { return done }
}

// alloc makes a volume of VMID 300 with data, as PVE does.
func (r *rig) alloc(w *state.World, data string) *state.Volume {
	volume, err := w.Alloc("pve1", "local-zfs", 300, "", "", 1<<30)
	if err != nil {
		r.t.Error(err)
		return &state.Volume{}
	}
	volume.Data = data
	return volume
}

// uuidOf is the uuid that the guests of a rig get.
func uuidOf(vmid int) string { return fmt.Sprintf("11111111-2222-3333-4444-%012d", vmid) }

// vm puts a VM with a disk on local-zfs into the cluster, and says how state would know it.
func (r *rig) vm(vmid int) guest.Ref {
	r.change(func(w *state.World) {
		name := fmt.Sprintf("vm-%d-disk-0", vmid)
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, VMID: vmid, Content: "images", Format: "raw", Size: 1 << 30})
		w.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: "pve1", Config: map[string]string{"name": fmt.Sprintf("vm%d", vmid), "memory": "512",
			"scsi0": "local-zfs:" + name + ",size=1G", "smbios1": "uuid=" + uuidOf(vmid), "meta": "creation-qemu=9.2.0,ctime=1"}}
	})
	return guest.Ref{VMID: vmid, Node: "pve1", Identity: guest.Identity{UUID: uuidOf(vmid), CTime: "1"}}
}

// has reports whether a guest and a volume are there.
func (r *rig) has(vmid int, volume string) (is, kept bool) {
	r.change(func(w *state.World) {
		is = w.Guests[vmid] != nil
		for _, v := range w.Volumes {
			kept = kept || v.Volid() == volume
		}
	})
	return is, kept
}
