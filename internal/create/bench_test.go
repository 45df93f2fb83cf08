package create

import (
	"maps"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	disksource "github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// The identities that a Creator works as.
func token(c *pve.Config, cred pvesim.Credentials) { c.APIToken = cred.Token }
func ticket(c *pve.Config, cred pvesim.Credentials) {
	c.Username, c.Password = cred.RootUsername, cred.RootPassword
}

// bench is a Creator at a simulated cluster.
type bench struct {
	*Creator
	sim *pvesim.Sim
}

func newBench(t *testing.T, who func(*pve.Config, pvesim.Credentials)) bench {
	t.Helper()
	return benchOf(t, pvesim.Options{}, who)
}

// benchOf is newBench with options of the cluster.
func benchOf(t *testing.T, o pvesim.Options, who func(*pve.Config, pvesim.Credentials)) bench {
	t.Helper()
	o.Nodes = []string{"pve1", "pve2"}
	sim, err := pvesim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	return bench{Creator: creatorOf(t, sim, who), sim: sim}
}

// creatorOf is another process at the cluster.
func creatorOf(t *testing.T, sim *pvesim.Sim, who func(*pve.Config, pvesim.Credentials)) *Creator {
	t.Helper()
	here := clock.Client{Cluster: sim.World().Clock}
	config := pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), DialTLSContext: sim.DialTLSContext,
		Clock: here}
	who(&config, sim.Credentials())
	return creatorWith(t, config)
}

// creatorWith is a Creator with that configuration.
func creatorWith(t *testing.T, config pve.Config) *Creator {
	t.Helper()
	here := config.Clock
	api, err := pve.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	if _, err := api.Cluster().Version(t.Context()); err != nil { // tells the server's time
		t.Fatal(err)
	}
	jobs := request.New(api, here)
	guests := guest.New(jobs)
	return New(jobs, guests, destroy.New(jobs, guests, nil), disksource.New(api.Reader(), nil), nil)
}

func (b bench) change(f func(*state.World)) {
	w := b.sim.World()
	w.Lock()
	defer w.Unlock()
	f(w)
}

// vms are the VMs of the cluster whose ids are in the range of automatic ones.
func (b bench) vms() map[int]map[string]string {
	all := map[int]map[string]string{}
	b.change(func(w *state.World) {
		for id, g := range w.Guests {
			if id < 1000 {
				all[id] = maps.Clone(g.Config)
			}
		}
	})
	return all
}
