package snapshot

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

const (
	ours   = 300
	theirs = 301
)

// rig is a simulated cluster with two VMs, of which 300 runs, and one identity on it.
type rig struct {
	t    *testing.T
	sim  *pvesim.Sim
	s    *Snapshots
	base []byte
	// answered, if set, is called with each answer that the provider got, one at a time.
	answered func(method, path string)
	one      sync.Mutex
}

func newRig(t *testing.T, root bool) *rig {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	r := &rig{t: t, sim: sim}
	r.vm(ours)
	r.vm(theirs)
	sim.Advance(time.Minute)
	r.base = sim.Snapshot()
	r.connect(root)
	return r
}

// connect begins another process.
func (r *rig) connect(root bool) {
	r.t.Helper()
	here, cred := clock.Client{Cluster: r.sim.World().Clock}, r.sim.Credentials()
	config := pve.Config{Endpoint: r.sim.Endpoint(), CACertificate: r.sim.CAPEM(), DialTLSContext: r.sim.DialTLSContext,
		Clock: here, APIToken: cred.Token}
	if root {
		config.APIToken, config.Username, config.Password = "", cred.RootUsername, cred.RootPassword
	}
	config.Trace = func(_ context.Context, message string, fields map[string]string) {
		if r.answered != nil && message == "PVE request" {
			r.one.Lock()
			defer r.one.Unlock()
			r.answered(fields["method"], fields["path"])
		}
	}
	api, err := pve.New(config)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(api.Close)
	jobs := request.New(api, here)
	guests := guest.New(jobs)
	r.s = New(jobs, guests, destroy.New(jobs, guests, nil).Guard)
}

// change alters the cluster directly in the simulated cluster.
func (r *rig) change(f func(*state.World)) {
	w := r.sim.World()
	w.Lock()
	defer w.Unlock()
	f(w)
}

// vm puts a running VM with a disk on local-zfs into the cluster.
func (r *rig) vm(vmid int) {
	r.change(func(w *state.World) {
		name := fmt.Sprintf("vm-%d-disk-0", vmid)
		w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: name, VMID: vmid, Content: "images", Format: "raw",
			Size: 1 << 30})
		w.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: "pve1",
			Config: map[string]string{"name": fmt.Sprintf("vm%d", vmid), "memory": "512",
				"scsi0": "local-zfs:" + name + ",size=1G", "smbios1": "uuid=" + uuidOf(vmid),
				"meta": "creation-qemu=9.2.0,ctime=1"}}
	})
}

func uuidOf(vmid int) string { return fmt.Sprintf("11111111-2222-3333-4444-%012d", vmid) }
