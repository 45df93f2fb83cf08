package guest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// theVM is the id of the VM that the tests look at.
const theVM = 400

const theUUID = "11111111-2222-3333-4444-000000000400"

// world is a simulated cluster with VM 400 on node pve1, and the Guests of one identity on it.
type world struct {
	t   *testing.T
	sim *pvesim.Sim
	s   *Guests
}

func rootToken(c pvesim.Credentials) string       { return c.RootToken }
func token(c pvesim.Credentials) string           { return c.Token }
func tokenNoAllocate(c pvesim.Credentials) string { return c.TokenNoAllocate }
func readOnlyToken(c pvesim.Credentials) string   { return c.ReadOnlyToken }

// newWorld makes a cluster, and a VM with these options besides what tells it from others.
func newWorld(t *testing.T, options map[string]string) *world {
	t.Helper()
	return newWorldOf(t, pvesim.Options{}, options)
}

// newWorldOf is newWorld with options of the cluster.
func newWorldOf(t *testing.T, o pvesim.Options, options map[string]string) *world {
	t.Helper()
	o.Nodes = []string{"pve1", "pve2"}
	sim, err := pvesim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	w := &world{t: t, sim: sim}
	w.s = w.as(token)
	w.change(func(world *state.World) {
		g := &state.Guest{VMID: theVM, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "web", "memory": "512",
			"smbios1": "uuid=" + theUUID, "meta": "creation-qemu=9.2.0,ctime=1"}}
		maps.Copy(g.Config, options)
		for slot, value := range options {
			id, _, _ := strings.Cut(value, ",")
			if storage, name, ok := strings.Cut(id, ":vm-"); ok && (strings.HasPrefix(slot, "scsi") || strings.HasPrefix(slot, "unused")) {
				w.volume(world, storage, "vm-"+name)
			}
		}
		world.Guests[theVM] = g
	})
	return w
}

// volume puts a volume with the VM's id on pve1. The caller holds the world.
func (w *world) volume(world *state.World, storage, name string) {
	world.Put(&state.Volume{Storage: storage, Node: "pve1", Name: name, VMID: theVM, Content: "images", Format: "raw", Size: 1 << 30})
}

// as are the Guests of an identity, in a process of its own.
func (w *world) as(who func(pvesim.Credentials) string) *Guests {
	w.t.Helper()
	here := clock.Client{Cluster: w.sim.World().Clock}
	api, err := pve.New(pve.Config{Endpoint: w.sim.Endpoint(), CACertificate: w.sim.CAPEM(), DialTLSContext: w.sim.DialTLSContext, Clock: here,
		APIToken: who(w.sim.Credentials())})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(api.Close)
	return New(request.New(api, here))
}

// change alters the cluster behind everybody's back.
func (w *world) change(f func(*state.World)) {
	world := w.sim.World()
	world.Lock()
	defer world.Unlock()
	f(world)
}

// vm alters the VM behind everybody's back.
func (w *world) vm(f func(*state.Guest)) {
	w.change(func(world *state.World) { f(world.Guests[theVM]) })
}

// run lets the VM run, since so long.
func (w *world) run(since time.Duration) {
	w.change(func(world *state.World) {
		g, now := world.Guests[theVM], world.Clock.Now()
		g.Running = &state.Running{QMPStatus: "running", StartedAt: now.Add(-since), Booted: maps.Clone(g.Config), PID: 4000}
	})
	w.sim.Advance(20 * time.Second) // until the listing knows
}

// ref is the VM as state knows it.
func (w *world) ref() Ref {
	return Ref{VMID: theVM, Node: "pve1", Status: "stopped", Identity: Identity{UUID: theUUID, CTime: "1"}}
}

// resources is the cluster's listing.
func (w *world) resources() pve.Resources {
	w.t.Helper()
	all, err := w.s.api.Cluster().Resources(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// asked are the requests since the last reset: "GET /nodes/{node}/qemu/{vmid}/pending".
func (w *world) asked() []string {
	var all []string
	for _, op := range w.sim.Ops() {
		all = append(all, op.Method+" "+op.Path)
	}
	return all
}

// mustHaveAsked compares the ends of the requests since the last reset.
func (w *world) mustHaveAsked(what string, ends ...string) {
	w.t.Helper()
	has := w.asked()
	if !slices.EqualFunc(has, ends, strings.HasSuffix) {
		w.t.Errorf("%s: requests %q, want %q", what, has, ends)
	}
}

// mustSay looks for words in an error.
func mustSay(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(fmt.Sprint(err), word) {
			t.Errorf("%s: %q is not said in: %v", what, word, err)
		}
	}
}
