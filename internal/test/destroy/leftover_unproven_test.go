package destroy_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// leftovers are objects whose create fails and leaves something, each with a change.
var leftovers = map[string]struct{ address, id, was, changed string }{
	"disk": {rig.DiskAddress, "300", rig.DiskBlock(rig.SmallDisk), rig.DiskBlock(strings.Replace(rig.SmallDisk, "1G", "2G", 1))},
	"VM": {rig.VMAddress, "pve1/300",
		rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\n" + rig.OneDisk),
		rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\nremoved_disks = \"destroy\"\nmemory = { size = 1024 }\n")},
}

// leftover is a session in which the create of one has failed.
func leftover(t *testing.T, hcl string) (*rig.World, *terraformtest.Session) {
	t.Helper()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, hcl)
	w.Sim.SetFaults([]fault.Rule{refuseAll(http.MethodPut, "/config"), refuseAll(http.MethodDelete, "")})
	if err := s.Run(t.Context()); err == nil || len(s.Addresses()) != 1 {
		t.Fatal("the create has left nothing:", err)
	}
	w.Sim.SetFaults(nil)
	return w, s
}

// TestUntaintedLeftoverWithoutProof: a create leaves a VM, another state completes it, and the proof of whose it is is lost: by an
// apply without a refresh, or with a provider that is killed in an update. Once it is untainted, no plan changes it, and no destroy
// destroys it. The way out that the errors name takes it over.
func TestUntaintedLeftoverWithoutProof(t *testing.T) {
	t.Parallel()
	for what, c := range leftovers {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %t", what, killed), func(t *testing.T) {
				t.Parallel()
				w, s := leftover(t, c.was)
				rig.Must(t, s.Refresh(t.Context()))
				rig.Must(t, w.Session(t, rig.TokenNoSSH, c.was).Converge(t.Context()))
				was := rig.GuestOf(w, 300)
				if killed {
					s.SetPrivate(c.address, nil)
				} else {
					blind, err := s.Plan(t.Context(), terraformtest.WithoutRefresh())
					rig.Must(t, err)
					rig.MustSay(t, s.Apply(t.Context(), blind), "State does not tell which VM 300 it means", c.address+".vmid", "state rm")
				}
				s.Taint(c.address, false)
				w.Reconfigure(t, s, rig.TokenNoSSH, c.changed)
				for _, options := range [][]terraformtest.PlanOption{{terraformtest.WithoutRefresh()}, nil} {
					_, err := s.Plan(t.Context(), options...)
					rig.MustSay(t, err, "Cannot change", c.address+".vmid", "Nothing was changed", "state rm")
				}
				w.Reconfigure(t, s, rig.TokenNoSSH, c.was)
				rig.MustSay(t, s.Destroy(t.Context()), "state rm")
				w.Reconfigure(t, s, rig.TokenNoSSH, c.changed)
				if is := rig.GuestOf(w, 300); !maps.Equal(is.Config, was.Config) {
					t.Errorf("the VM was %v, and is %v", was.Config, is.Config)
				}
				s.Forget(c.address)
				rig.Must(t, s.Import(t.Context(), c.address, c.id))
				rig.Must(t, s.Converge(t.Context()))
			})
		}
	}
}

// TestLeftoverWhoseProviderWasKilled: the provider is killed while it destroys what a failed create has left, or changes it once it is
// untainted. While the VM bears the mark of its create, no other run has completed it, so the next apply goes on, as it does where
// the VM is gone.
func TestLeftoverWhoseProviderWasKilled(t *testing.T) {
	t.Parallel()
	for what, c := range leftovers {
		for _, tainted := range []bool{false, true} {
			for _, gone := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, tainted %t, gone %t", what, tainted, gone), func(t *testing.T) {
					t.Parallel()
					w, s := leftover(t, c.was)
					s.Taint(c.address, tainted)
					s.SetPrivate(c.address, nil)
					if gone {
						w.Change(func(world *state.World) {
							delete(world.Guests, 300)
							for key, v := range world.Volumes {
								if v.VMID == 300 {
									delete(world.Volumes, key)
								}
							}
						})
					}
					rig.Must(t, s.Converge(t.Context()))
					if rig.GuestOf(w, 300).Config["scsi0"] == "" {
						t.Error("it has no disk")
					}
				})
			}
		}
	}
}

// TestLeftoverSeenMarkedAndCompletedSince: the provider is killed while it destroys or changes what a failed create has left, a refresh
// sees the VM with the mark of its create, and another state completes it. No destroy of the first state touches it then.
func TestLeftoverSeenMarkedAndCompletedSince(t *testing.T) {
	t.Parallel()
	for what, c := range leftovers {
		for _, tainted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, tainted %t", what, tainted), func(t *testing.T) {
				t.Parallel()
				w, s := leftover(t, c.was)
				s.Taint(c.address, tainted)
				s.SetPrivate(c.address, nil)
				rig.Must(t, s.Refresh(t.Context()))
				blind, err := s.Plan(t.Context(), terraformtest.ToDestroy(), terraformtest.WithoutRefresh())
				rig.Must(t, err)
				rig.Must(t, w.Session(t, rig.TokenNoSSH, c.was).Converge(t.Context()))
				was := rig.GuestOf(w, 300)
				if was.Config["scsi0"] == "" {
					t.Fatal("the other state has not completed it:", was.Config)
				}
				for _, destroy := range []func() error{func() error { return s.Apply(t.Context(), blind) },
					func() error { return s.Destroy(t.Context()) }} {
					if err := destroy(); err != nil {
						t.Log(err)
					}
					if is := rig.GuestOf(w, 300); !maps.Equal(is.Config, was.Config) {
						t.Fatalf("the VM was %v, and is %v", was.Config, is)
					}
				}
			})
		}
	}
}

// TestLeftoverInWhosePlaceAnotherIsMade: the proof of a leftover is lost, it is removed by hand, and another identity's create makes a VM
// under its id, which bears the mark of that create. Nothing touches that VM.
func TestLeftoverInWhosePlaceAnotherIsMade(t *testing.T) {
	t.Parallel()
	const theirs = "99999999-1111-2222-3333-444444444444"
	for what, c := range leftovers {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, s := leftover(t, c.was)
			s.SetPrivate(c.address, nil)
			w.Change(func(world *state.World) {
				g := world.Guests[300]
				for was, is := range map[string]string{`transaction: \w+`: "transaction: 0123456789abcdef", `user: \S+`: "user: other@pve!ci",
					`\nuuid: \S+`: "\nuuid: " + theirs} {
					g.Config["description"] = regexp.MustCompile(was).ReplaceAllString(g.Config["description"], is)
				}
				g.Config["smbios1"], g.Config["name"] = "uuid="+theirs, "theirs"
			})
			was := rig.GuestOf(w, 300)
			rig.Must(t, s.Refresh(t.Context()))
			rig.MustSay(t, s.Destroy(t.Context()), "state rm")
			if is := rig.GuestOf(w, 300); !maps.Equal(is.Config, was.Config) {
				t.Errorf("the VM was %v, and is %v", was.Config, is.Config)
			}
		})
	}
}

// TestLeftoverSeenMarkedIsDestroyedWhole: without such another state, a destroy takes the VM and its disk away.
func TestLeftoverSeenMarkedIsDestroyedWhole(t *testing.T) {
	t.Parallel()
	for what, c := range leftovers {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, s := leftover(t, c.was)
			s.SetPrivate(c.address, nil)
			rig.Must(t, s.Refresh(t.Context()))
			rig.Must(t, s.Destroy(t.Context()))
			w.Change(func(world *state.World) {
				if world.Guests[300] != nil {
					t.Error("the VM is left:", world.Guests[300].Config)
				}
				for key, v := range world.Volumes {
					if v.VMID == 300 {
						t.Error("a volume is left:", key)
					}
				}
			})
		})
	}
}

// refuseAll lets every request of a kind for a VM fail.
func refuseAll(method, path string) fault.Rule {
	return fault.Rule{Match: fault.Match{Method: method, Path: "/nodes/{node}/qemu/{vmid}" + path}, Phase: fault.Before,
		Status: 500, Reason: "no", Times: -1}
}
