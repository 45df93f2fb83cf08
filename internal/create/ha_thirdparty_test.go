package create

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestHAIsEnteredForOurVMOnly: a create waits for the lock on HA's configuration, and meanwhile a third party replaces the
// VM. HA's request names the id alone: his VM is not put under HA, which would start it.
func TestHAIsEnteredForOurVMOnly(t *testing.T) {
	b := benchOf(t, pvesim.Options{}, ticket)
	config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
		Clock: b.jobs.Clock}
	ticket(&config, b.sim.Credentials())
	came := false
	config.Trace = func(_ context.Context, _ string, fields map[string]string) {
		if fields["method"] != http.MethodPost || !strings.HasSuffix(fields["path"], "/cluster/ha/resources") || came {
			return
		}
		came = true
		b.change(func(w *state.World) {
			w.Guests[150].Config = map[string]string{"name": "his", "smbios1": "uuid=99999999-2222-3333-4444-555555555555"}
		})
	}
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/cluster/ha/resources"},
		Phase: fault.Before, Status: 500, Reason: "cfs-lock 'domain-ha' error: got lock request timeout"}})
	r := onZFS()
	r.VMID, r.HA = 150, &guest.HA{State: to("started")}
	_, err := creatorWith(t, config).Create(t.Context(), r)
	b.change(func(w *state.World) {
		if his := w.Guests[150]; !came || err == nil || w.HA["vm:150"] != nil || his == nil || his.Config["name"] != "his" {
			t.Errorf("a third party came: %t; %v; the entry of his VM is %v, his VM %+v", came, err, w.HA["vm:150"], his)
		}
	})
}

// TestUndoLeavesAGuestThatOthersStartedUnderHA is TestUndoLeavesAGuestThatOthersStarted for a VM under HA, whose entry has HA leave
// the guest alone. Where HA is to start the guest, one that runs is taken back.
func TestUndoLeavesAGuestThatOthersStartedUnderHA(t *testing.T) {
	for ha, stays := range map[string]bool{"ignored": true, "started": false} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, ticket)
			user, came := creatorOf(t, b.sim, token), false
			config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
				Clock: b.jobs.Clock, Trace: func(_ context.Context, message string, fields map[string]string) {
					if came || message != "PVE request" || !strings.HasSuffix(fields["path"], "/cluster/ha/resources") {
						return
					}
					came = true
					b.sim.SetFaults([]fault.Rule{commitRefused})
					if !stays { // HA starts it
						return
					}
					upid, err := user.api.QEMU("pve1", 150).Start(context.WithoutCancel(t.Context()), pve.Params{})
					if err == nil {
						_, err = user.api.Tasks().Wait(context.WithoutCancel(t.Context()), upid)
					}
					if err != nil {
						t.Error(err)
					}
				}}
			ticket(&config, b.sim.Credentials())
			r := onZFS()
			r.VMID, r.HA = 150, &guest.HA{State: &ha}
			created, err := creatorWith(t, config).Create(t.Context(), r)
			if there := b.vms()[150] != nil; !came || err == nil || there != stays || stays && !strings.HasSuffix(b.everythingOf(150), "true") {
				t.Errorf("%s: there %t: %v; %v", ha, there, err, created.Warnings)
			}
		})
	}
}

// TestUndoAfterAWaitUnderHA is TestUndoAfterAWaitSeesWhoStoppedTheGuest for a guest that HA alone has started.
func TestUndoAfterAWaitUnderHA(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, ticket)
			user := creatorOf(t, b.sim, token)
			r := awaitedOnNFS(20*time.Minute + 5*time.Second)
			r.Start, r.HA = false, &guest.HA{State: to("started")}
			created, err := b.await(t, r, func(func()) {
				if stopped {
					upid, err := user.api.QEMU("pve1", 150).HardStop(t.Context(), pve.Params{})
					if err != nil {
						t.Fatal(err)
					}
					_, _ = user.api.Tasks().Wait(t.Context(), upid)
					time.Sleep(2 * time.Second)
				}
				b.sim.SetFaults([]fault.Rule{commitRefused})
			})
			if there := b.vms()[150] != nil; err == nil || there != stopped {
				t.Errorf("stopped %t: there %t: %v; %v", stopped, there, err, created.Warnings)
			}
		})
	}
}

// TestLeftoverThatHAIgnores: a failed create has left its VM, with an entry by which HA leaves the guest alone. A start by
// root@pam is a user's then. Where HA is to start the guest, its own start is no use.
func TestLeftoverThatHAIgnores(t *testing.T) {
	for ha, stays := range map[string]bool{"ignored": true, "started": false} {
		b := newBench(t, token)
		b.change(func(w *state.World) {
			for name, role := range w.Roles { // an identity that may make HA entries
				w.Roles[name] = append(append([]string{}, role...), "Sys.Console")
			}
		})
		r := onZFS()
		r.VMID, r.OnFailure, r.HA = 150, Keep, &guest.HA{State: &ha}
		b.sim.SetFaults([]fault.Rule{commitRefused})
		created, err := b.Create(t.Context(), r)
		b.sim.SetFaults(nil)
		if created.Proof == nil || !created.Proof.HA {
			t.Fatal(err, created.Proof)
		}
		b.sim.Advance(time.Minute)
		if root := creatorOf(t, b.sim, ticket); stays {
			upid, err := root.api.QEMU("pve1", 150).Start(t.Context(), pve.Params{})
			if err == nil {
				_, err = root.api.Tasks().Wait(t.Context(), upid)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !strings.HasSuffix(b.everythingOf(150), "true") {
			t.Errorf("%s: its guest does not run", ha)
		}
		left, _, err := creatorOf(t, b.sim, token).destroyer.Delete(t.Context(),
			destroy.Request{Ref: guest.Ref{VMID: 150, Node: "pve1", Proof: created.Proof}})
		if there := b.vms()[150] != nil; there != stays || (err != nil) != stays {
			t.Errorf("%s: there %t, left %v: %v", ha, there, left, err)
		}
	}
}

// TestSlowCreateUnderHAIsTakenBack: the task that makes the VM takes longer than a lease, HA starts the guest by the
// create's own entry, and PVE refuses the commit after the wait. HA's task is root's, and no use of the VM by others.
func TestSlowCreateUnderHAIsTakenBack(t *testing.T) {
	for _, slow := range []time.Duration{0, 6 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			b.change(func(w *state.World) {
				for _, who := range []string{"terraform@pve", "terraform@pve!prov"} {
					w.ACL = append(w.ACL, state.ACLEntry{Path: "/", Subject: who, Role: "Administrator", Propagate: true})
				}
			})
			b.sim.SetTaskTime(slow)
			r := awaitedOnNFS(20*time.Minute + 5*time.Second)
			r.Start, r.HA = false, &guest.HA{State: to("started")}
			created, err := b.await(t, r, func(func()) { b.sim.SetFaults([]fault.Rule{commitRefused}) })
			if err == nil || b.vms()[150] != nil {
				t.Errorf("%s: there is %t: %v; %v", slow, b.vms()[150] != nil, err, created.Warnings)
			}
		})
	}
}
