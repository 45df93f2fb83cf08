package lifecycle_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// inTime runs a test with a cluster and a provider whose time passes only when everybody waits, so that minutes cost nothing
// and every figure is exact.
func inTime(t *testing.T, f func(t *testing.T, w *rig.World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := rig.NewWorld(t, pvesim.Options{Clock: clock.Real{}, Latency: 20 * time.Millisecond})
		t.Cleanup(func() { time.Sleep(20 * time.Second) }) // until idle connections have ended
		f(t, w)
	})
}

// awaited is a VM with two network devices that is waited for.
func awaited(waitFor, more string) string {
	return fmt.Sprintf(`resource "proxmox_vm" "web" {
  node     = "pve1"
  vmid     = 500
  agent    = { enabled = true }
  networks = {
    net0 = { model = "virtio", bridge = "vmbr0", macaddr = "BC:24:11:00:00:01" }
    net1 = { model = "virtio", bridge = "vmbr0", macaddr = "BC:24:11:00:00:02" }
  }
  %s
  %s
}
`, waitFor, more)
}

func said(s *terraformtest.Session) string {
	var all strings.Builder
	for _, d := range s.Diagnostics() {
		fmt.Fprintf(&all, "%s: %s\n", d.Summary, d.Detail)
	}
	return all.String()
}

// mustBeComplete checks that the VM stands on the server as it was planned, and in state.
func mustBeComplete(t *testing.T, w *rig.World, s *terraformtest.Session, tainted bool) {
	t.Helper()
	w.Change(func(world *state.World) {
		g := world.Guests[500]
		switch {
		case g == nil:
			t.Error("the VM is gone from the server")
		case g.Config["description"] != "complete":
			t.Errorf("the description on the server is %q", g.Config["description"])
		}
	})
	i, err := s.Instance("proxmox_vm.web")
	rig.Must(t, err)
	if i.Tainted != tainted {
		t.Errorf("tainted: %t, want %t", i.Tainted, tainted)
	}
	if uuid := terraformtest.At(i.Value, "uuid"); uuid.IsNull() {
		t.Error("the state does not know the VM's uuid")
	}
	if strings.Contains(string(i.Private), `"proof"`) {
		t.Error("a complete VM is remembered as one that a failed create left")
	}
}

// TestCreateWaits: a create waits for the agent of its VM, as long as allowed, and the next plan is empty.
func TestCreateWaits(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, w *rig.World) {
		s := w.Session(t, rig.TokenNoSSH, awaited(`wait_for = { ipv4 = true, timeout = "2m" }`, ""))
		rig.SilenceAgent(w, 8)
		before := time.Now()
		rig.Must(t, s.Run(t.Context()))
		took := time.Since(before)
		t.Logf("waited %s with %d questions", took, w.Questions())
		if w.Questions() != 9 || took > time.Minute {
			t.Errorf("%d questions in %s, want 9 within a minute", w.Questions(), took)
		}
		if ip := s.Attr("proxmox_vm.web", "ipv4_address"); ip.IsNull() {
			t.Error("no address in state")
		}
		rig.Must(t, s.Converge(t.Context()))
	})
}

// TestWaitTimeoutKeepsTheVM: a timeout never removes the VM.
func TestWaitTimeoutKeepsTheVM(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"fail", "warn"} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, w *rig.World) {
				s := w.Session(t, rig.TokenNoSSH, awaited(fmt.Sprintf(`wait_for = { ipv4 = true, timeout = "90s", on_timeout = %q }`, on), `description = "complete"`))
				rig.SilenceAgent(w, -1)
				before := time.Now()
				err := s.Run(t.Context())
				if took := time.Since(before); took < 90*time.Second || took > 100*time.Second {
					t.Errorf("it took %s", took)
				}
				if (err != nil) != (on == "fail") {
					t.Errorf("error: %v", err)
				}
				rig.MustSayAll(t, said(s), "VM 500", "is complete", "an IPv4 address", "1m30s", "QEMU guest agent is not running")
				mustBeComplete(t, w, s, on == "fail")
				if ip := s.Attr("proxmox_vm.web", "ipv4_address"); !ip.IsNull() {
					t.Errorf("an address from nowhere: %#v", ip)
				}
				if on == "warn" {
					rig.Must(t, s.Converge(t.Context()))
				}
				w.Sim.SetFaults(nil)
				rig.Must(t, s.Destroy(t.Context()))
				w.MustBeClean(t)
			})
		})
	}
}

// TestGuestEndsWhileWaitedFor: that is said at once.
func TestGuestEndsWhileWaitedFor(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, w *rig.World) {
		s := w.Session(t, rig.TokenNoSSH, awaited(`wait_for = { agent = true, timeout = "10m", on_timeout = "fail" }`, `description = "complete"`))
		rig.SilenceAgent(w, -1)
		before := time.Now()
		go func() {
			time.Sleep(30 * time.Second)
			w.Sim.EndGuest(500)
		}()
		err := s.Run(t.Context())
		if took := time.Since(before); took > 45*time.Second {
			t.Errorf("it took %s", took)
		}
		if err == nil {
			t.Fatal("no error")
		}
		rig.MustSayAll(t, said(s), "the guest has stopped while it was waited for", "is complete")
		mustBeComplete(t, w, s, true)
	})
}

// TestInterruptedWait: the VM stays, in state, and the error says that it is complete.
func TestInterruptedWait(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, w *rig.World) {
		s := w.Session(t, rig.TokenNoSSH, awaited(`wait_for = { agent = true, on_timeout = "fail" }`, `description = "complete"`))
		rig.SilenceAgent(w, -1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			time.Sleep(20 * time.Second)
			cancel()
		}()
		before := time.Now()
		if err := s.Run(ctx); err == nil {
			t.Fatal("no error")
		}
		if took := time.Since(before); took > 25*time.Second {
			t.Errorf("it took %s", took)
		}
		rig.MustSayAll(t, said(s), "is complete", "interrupted", "terraform untaint")
		mustBeComplete(t, w, s, true)
	})
}

// TestUpdateWaits: an update waits for a guest that runs after it, and not for one that does not.
func TestUpdateWaits(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, w *rig.World) {
		s := w.Session(t, rig.TokenNoSSH, awaited("", `power_state = "stopped"`))
		rig.Must(t, s.Converge(t.Context()))
		w.Change(func(world *state.World) { world.Guests[500].Agent = &state.Agent{DelaySeconds: 40} })
		w.Reconfigure(t, s, rig.TokenNoSSH, awaited(`wait_for = { ipv4 = true }`, `power_state = "running"`))
		before := time.Now()
		rig.Must(t, s.Run(t.Context()))
		if took := time.Since(before); took < 40*time.Second || took > 50*time.Second {
			t.Errorf("it took %s, want a bit more than the 40 s after which the agent answers", took)
		}
		if ip := s.Attr("proxmox_vm.web", "ipv4_address"); ip.IsNull() {
			t.Error("no address in state")
		}
		rig.Must(t, s.Converge(t.Context()))
		w.Change(func(world *state.World) { world.Guests[500].Agent = &state.Agent{Silent: true} })
		w.Reconfigure(t, s, rig.TokenNoSSH, awaited(`wait_for = { ipv4 = true, timeout = "30s", on_timeout = "fail" }`, `power_state = "running"`+"\n"+`description = "complete"`))
		if err := s.Run(t.Context()); err == nil {
			t.Error("no error although the agent is silent")
		}
		rig.MustSayAll(t, said(s), "Cannot finish waiting for VM 500", "is complete")
		mustBeComplete(t, w, s, false)
		rig.Must(t, s.Converge(t.Context()))
	})
}

// TestFirstNICWins: the address is that of the first network device, even when another has its own earlier; but a device that
// never gets one does not hold up the rest.
func TestFirstNICWins(t *testing.T) {
	t.Parallel()
	for late, want := range map[int]string{3: "10.0.0.1", 60: "10.0.0.2"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, w *rig.World) {
				s := w.Session(t, rig.TokenNoSSH, awaited("", `power_state = "stopped"`))
				rig.Must(t, s.Converge(t.Context()))
				second := state.AgentInterface{Name: "eth1", MAC: "bc:24:11:00:00:02", Addresses: []string{"10.0.0.2/24"}}
				w.Change(func(world *state.World) {
					world.Guests[500].Agent = &state.Agent{DelaySeconds: 10, Interfaces: []state.AgentInterface{{Name: "eth0", MAC: "bc:24:11:00:00:01"}, second}}
				})
				go func() {
					time.Sleep(time.Duration(10+late) * time.Second)
					w.Change(func(world *state.World) {
						world.Guests[500].Agent = &state.Agent{Interfaces: []state.AgentInterface{{Name: "eth0", MAC: "bc:24:11:00:00:01", Addresses: []string{"10.0.0.1/24"}}, second}}
					})
				}()
				w.Reconfigure(t, s, rig.TokenNoSSH, awaited(`wait_for = { ipv4 = true }`, `power_state = "running"`))
				rig.Must(t, s.Run(t.Context()))
				if ip := s.Attr("proxmox_vm.web", "ipv4_address"); ip.IsNull() || ip.AsString() != want {
					t.Errorf("ipv4_address is %#v, want %s", ip, want)
				}
				time.Sleep(2 * time.Minute)
			})
		})
	}
}

// TestWaitIsRefusedInThePlan: what cannot come is not waited for.
func TestWaitIsRefusedInThePlan(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	for name, c := range map[string]struct{ hcl, says string }{
		"agent off":    {`agent = { enabled = false }`, "agent.enabled is not true"},
		"no agent":     {``, "agent.enabled is not true"},
		"template":     {"agent = { enabled = true }\n  template = true", "A template does not run"},
		"stopped":      {"agent = { enabled = true }\n  power_state = \"stopped\"", "power_state is stopped"},
		"HA stops it":  {"agent = { enabled = true }\n  ha = { state = \"stopped\" }", "HA keeps the VM stopped"},
		"no interface": {"agent = { enabled = true }", "no network device"},
	} {
		t.Run(name, func(t *testing.T) {
			s := w.Session(t, rig.RootTicket, fmt.Sprintf("resource \"proxmox_vm\" \"web\" {\n  node = \"pve1\"\n  wait_for = { ipv4 = true }\n  %s\n}\n", c.hcl))
			_, err := s.Plan(t.Context())
			if err == nil {
				err = s.Validate(t.Context())
			}
			if err == nil {
				t.Fatal("it is planned")
			}
			rig.MustSayAll(t, err.Error(), c.says)
		})
	}
	w.MustBeClean(t)
}

// TestWaitWithoutThePrivilege: the plan refuses to wait without the privilege to ask the agent. Where it is taken away during the wait,
// that is said at once, with the privilege's name, and the VM stays.
func TestWaitWithoutThePrivilege(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, w *rig.World) {
		role := slices.Clone(w.Sim.World().Roles["TerraformProvider"])
		mayAsk := func(may bool) {
			w.Change(func(world *state.World) {
				world.Roles["TerraformProvider"] = slices.DeleteFunc(slices.Clone(role), func(p string) bool { return !may && p == "VM.Monitor" })
			})
		}
		s := w.Session(t, rig.TokenNoSSH, awaited(`wait_for = { agent = true, on_timeout = "fail" }`, `description = "complete"`))
		mayAsk(false)
		rig.MustRefuse(t, s.Run(t.Context()), []string{"No permission to ask the guest agent", "VM.Monitor"})
		mayAsk(true)
		rig.SilenceAgent(w, 6)
		var lost time.Time
		go func() {
			time.Sleep(10 * time.Second)
			lost = time.Now()
			mayAsk(false)
		}()
		if err := s.Run(t.Context()); err == nil || time.Since(lost) > time.Minute {
			t.Errorf("after %s: %v", time.Since(lost), err)
		}
		rig.MustSayAll(t, said(s), "the agent may not be asked", "VM.Monitor", "is complete")
		mustBeComplete(t, w, s, true)
	})
}

// TestWaitUnderHA: a guest that HA starts is waited for, and followed to where HA takes it.
func TestWaitUnderHA(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, w *rig.World) {
		s := w.Session(t, rig.RootTicket, awaited(`wait_for = { ipv4 = true }`, `ha = { state = "started" }`))
		rig.SilenceAgent(w, 6)
		go func() {
			time.Sleep(12 * time.Second)
			w.Change(func(world *state.World) { world.Guests[500].Node = "pve2" })
		}()
		rig.Must(t, s.Run(t.Context()))
		if ip := s.Attr("proxmox_vm.web", "ipv4_address"); ip.IsNull() {
			t.Error("no address in state")
		}
		w.Sim.SetFaults(nil)
	})
}

// TestManyWaits: ten VMs are waited for at once, and one worker of the node stays free for everything else.
func TestManyWaits(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, w *rig.World) {
		hcl := fleet(10)
		s := w.Session(t, rig.TokenNoSSH, strings.ReplaceAll(hcl, "agent = {", "power_state = \"stopped\"\n  agent = {"))
		rig.Must(t, s.Run(t.Context()))
		w.Change(func(world *state.World) {
			for id, g := range world.Guests {
				if id >= 1000 {
					g.Agent = &state.Agent{DelaySeconds: 30}
				}
			}
		})
		d, through := w.BehindWorkers(t, s, strings.ReplaceAll(hcl, "agent = {", "power_state = \"running\"\n  wait_for = { ipv4 = true }\n  agent = {"))
		before := time.Now()
		rig.Must(t, through.Run(t.Context()))
		took := time.Since(before)
		f := d.Figures()
		t.Logf("ten guests, up after 30 s: %s, %d questions to agents, %d agents asked at once at most", took, f.Asked, f.MostAsked)
		if took > 50*time.Second || f.MostAsked > 2 {
			t.Errorf("want at most 50 s and two agents at once")
		}
		mustHaveAddresses(t, through)
	})
}
