package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// boundToPools gives the identity the roles of a tenant: on its two pools and a storage, and on nothing else.
func boundToPools(world *state.World) {
	world.ACL = slices.DeleteFunc(world.ACL, func(e state.ACLEntry) bool { return strings.HasPrefix(e.Subject, "terraform@pve") })
	for _, who := range []string{"terraform@pve", "terraform@pve!prov"} {
		grant := func(path, role string) {
			world.ACL = append(world.ACL, state.ACLEntry{Path: path, Subject: who, Role: role, Propagate: true})
		}
		for _, path := range []string{"/pool/web", "/pool/b"} {
			grant(path, "PVEVMAdmin")
			grant(path, "PVEPoolAdmin")
		}
		grant("/storage/local-zfs", "PVEDatastoreUser")
	}
}

// TestPoolThatVanishesDuringACreate: PVE makes the VM outside of a pool that is gone by then (pve-access-control
// AccessControl.pm add_vm_to_pool). The next plan names that, and its apply puts the VM into the pool once it is there.
func TestPoolThatVanishesDuringACreate(t *testing.T) {
	for _, from := range []string{`disks = { scsi0 = { storage = "local-zfs", size = "1G" } }`, "clone = { vmid = 9000 }"} {
		inTime(t, func(t *testing.T, w *rig.World) {
			s := w.Session(t, rig.TokenNoSSH, rig.VMBlock(`node = "pve1"
vmid = 400
pool = "web"
power_state = "stopped"
`+from))
			plan, err := s.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			pvesim.HoldUserConfig(w.Sim, 5*time.Second)
			go func() {
				time.Sleep(4 * time.Second)
				w.Change(func(world *state.World) { delete(world.Pools, "web") })
			}()
			rig.Must(t, s.Apply(t.Context(), plan))
			w.Change(func(world *state.World) { world.Pools["web"] = &state.Pool{ID: "web", Guests: []int{}} })
			plan, err = s.Plan(t.Context())
			if err != nil || !strings.Contains(plan.String(), "pool") {
				t.Fatalf("VM 400 is in no pool, and the plan has %v, %v", plan.String(), err)
			}
			rig.Must(t, s.Apply(t.Context(), plan))
			w.Change(func(world *state.World) {
				if world.PoolOf(400) != "web" {
					t.Error("VM 400 is in no pool")
				}
			})
		})
	}
}

// TestPoolOfATenant: an identity has its privileges on VMs by way of the pools alone. A VM that goes from one of its
// pools to the other stays in its reach, and one that would leave it stays where it is.
func TestPoolOfATenant(t *testing.T) {
	t.Parallel()
	config := `resource "proxmox_vm" "x" {
  name = "x"
  node = "pve1"
  vmid = 400
  %s
  power_state = "stopped"
  disks = { scsi0 = { storage = "local-zfs", size = "1G" } }
}`
	for name, tt := range map[string]struct {
		profile, to string
		tenant      bool
		in          string // where it ends
		plan, apply string // why not
	}{
		"to the other pool":          {profile: "8.4", to: `pool = "b"`, tenant: true, in: "b"},
		"out of all pools":           {profile: "8.4", tenant: true, in: "web", plan: "VM.Audit"},
		"to the other pool, on 8.0":  {profile: "8.0", to: `pool = "b"`, tenant: true, in: "web", apply: "by way of pool web only"},
		"an administrator, on 8.0":   {profile: "8.0", to: `pool = "b"`, in: "b"},
		"an administrator takes out": {profile: "8.4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t, pvesim.Options{Profile: tt.profile})
			w.Change(func(world *state.World) {
				world.Pools["b"] = &state.Pool{ID: "b", Guests: []int{}}
				if tt.tenant {
					boundToPools(world)
				}
			})
			s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(config, `pool = "web"`))
			rig.Must(t, s.Converge(t.Context()))
			w.Reconfigure(t, s, rig.TokenNoSSH, fmt.Sprintf(config, tt.to))
			plan, err := s.Plan(t.Context())
			if (err != nil) != (tt.plan != "") || err != nil && !strings.Contains(err.Error(), tt.plan) {
				t.Errorf("plan: %v, want %q", err, tt.plan)
			}
			if err == nil {
				err = s.Apply(t.Context(), plan)
				if (err != nil) != (tt.apply != "") || err != nil && !strings.Contains(err.Error(), tt.apply) {
					t.Errorf("apply: %v, want %q", err, tt.apply)
				}
			}
			w.Change(func(world *state.World) {
				for id, pool := range world.Pools {
					if slices.Contains(pool.Guests, 400) != (id == tt.in) {
						t.Errorf("pool %s has %v", id, pool.Guests)
					}
				}
			})
		})
	}
}
