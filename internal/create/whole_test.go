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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
)

// awaitedVM is a VM whose agent never answers.
func awaitedVM(timeout time.Duration) Request {
	r := startedVM()
	r.Spec.Agent.Enabled = to(true)
	r.Wait = &guest.Wait{Agent: true, Timeout: timeout, Warn: true}
	return r
}

// await runs a create whose wait something happens in, after 20 minutes, and then calls meanwhile. The context ends with
// its cancel.
func (b bench) await(t *testing.T, r Request, meanwhile func(cancel func())) (Created, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		for silent := false; !silent; time.Sleep(time.Millisecond) {
			b.change(func(w *state.World) {
				if g := w.Guests[150]; g != nil {
					g.Agent, silent = &state.Agent{Silent: true}, true
				}
			})
		}
		time.Sleep(20 * time.Minute)
		meanwhile(cancel)
	}()
	created, err := b.Create(ctx, r)
	<-over
	return created, err
}

// TestWaitedForVMStays: the wait of a create is over or interrupted, and the API is away or a lock of others is held at
// that moment, or PVE does not take the commit. The VM is committed as soon as that has ended. Where it lasts too long the
// VM stays, in state and with the proof that a later destroy needs. Where PVE refuses the values all is taken back.
func TestWaitedForVMStays(t *testing.T) {
	const s = time.Second
	away := func(status int, lasts time.Duration) func(b bench) {
		return func(b bench) {
			b.sim.SetFaults([]fault.Rule{{Phase: fault.Before, Status: status, Times: -1}})
			time.Sleep(lasts)
			b.sim.SetFaults(nil)
		}
	}
	backup := func(lasts time.Duration) func(b bench) {
		return func(b bench) { b.sim.HoldLock(150, "backup", lasts, "root@pam") }
	}
	refused := func(status int, reason string, times int) func(b bench) {
		return func(b bench) {
			b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"},
				Phase: fault.Before, Status: status, Reason: reason, Times: times}})
		}
	}
	changed := "checksum mismatch (file change by other user?)" // pve-common Tools.pm assert_if_modified
	describe := func(b bench) { b.sim.ThirdParty(thirdparty.Order{Act: thirdparty.Describe, VMID: 150}) }
	const committed, stays, gone = "committed", "stays", "gone"
	for name, c := range map[string]struct {
		happens func(b bench)
		timeout time.Duration // of the wait; 0: it is interrupted
		want    string
	}{
		"no answer for 20 s at its timeout":    {away(596, 20*s), 20*time.Minute + 5*s, committed},
		"no answer for 90 s at its timeout":    {away(596, 90*s), 20*time.Minute + 5*s, committed},
		"a proxy's 503 for 90 s":               {away(503, 90*s), 20*time.Minute + 5*s, committed},
		"no answer for 5 min at its timeout":   {away(596, 300*s), 20*time.Minute + 5*s, stays},
		"no answer for 40 s, interrupted":      {away(596, 40*s), 0, committed},
		"no answer for 90 s, interrupted":      {away(596, 90*s), 0, committed},
		"a proxy's 503 for 5 min, interrupted": {away(503, 300*s), 0, stays},
		"a backup of 4 min, interrupted":       {backup(240 * s), 0, committed},
		"a backup of 9 min, interrupted":       {backup(540 * s), 0, committed},
		"a backup of 14 min, interrupted":      {backup(840 * s), 0, stays},
		"a backup of 14 min at its timeout":    {backup(840 * s), 20*time.Minute + 5*s, committed},
		"changed by others at each try":        {refused(500, changed, 12), 20*time.Minute + 5*s, committed},
		"changed by others all the time":       {refused(500, changed, -1), 20*time.Minute + 5*s, stays},
		"a privilege less":                     {refused(403, "Permission check failed", -1), 20*time.Minute + 5*s, stays},
		"a privilege less, interrupted":        {refused(403, "Permission check failed", -1), 0, stays},
		"a full configuration file system":     {refused(500, "unable to write: no space", -1), 20*time.Minute + 5*s, stays},
		"described by a user":                  {describe, 20*time.Minute + 5*s, stays},
		"described by a user 20 min before":    {describe, 40 * time.Minute, stays},
		"refused values":                       {refused(400, "Parameter verification failed.", -1), 20*time.Minute + 5*s, gone},
		"refused values, interrupted":          {refused(400, "Parameter verification failed.", -1), 0, gone},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
			r := awaitedVM(c.timeout)
			if c.timeout == 0 {
				r = awaitedVM(time.Hour)
			}
			created, err := b.await(t, r, func(cancel func()) {
				if c.timeout == 0 {
					time.AfterFunc(10*s, cancel)
				}
				c.happens(b)
			})
			config := b.vms()[150]
			is := committed
			switch {
			case config == nil:
				is = gone
			case ownership.IsMark(config["description"]) || created.Stays != "":
				is = stays
			}
			if is != c.want || (err == nil) != (is == committed) {
				t.Errorf("%s: it is %s: %v; %v", name, is, err, created.Warnings)
			}
			if is != stays || c.want != stays {
				return
			}
			if created.Guest.VMID != 150 || created.Proof == nil || !strings.Contains(created.Stays, "VM 150 is complete") {
				t.Errorf("%s: %+v", name, created)
			}
			time.Sleep(15 * time.Minute)
			b.sim.SetFaults(nil)
			ref := guest.Ref{VMID: 150, Node: "pve1", Proof: created.Proof}
			left, _, err := creatorOf(t, b.sim, token).destroyer.Delete(t.Context(), destroy.Request{Ref: ref})
			if err != nil || len(left) > 0 || b.everythingOf(150) != "" {
				t.Errorf("%s: its destroy: %v, left %v", name, err, left)
			}
		})
	}
}

// TestSlowCreateThatWaitsIsTakenBack: the task that makes the VM takes several minutes. From the start on the run looks at its VM all the
// while, and PVE refuses the values of the commit: it was not held up since, and all is taken back.
func TestSlowCreateThatWaitsIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := benchOf(t, pvesim.Options{Clock: clock.Real{}, Latency: -1}, token)
		b.sim.SetTaskTime(10 * time.Minute)
		config := pve.Config{Endpoint: b.sim.Endpoint(), CACertificate: b.sim.CAPEM(), DialTLSContext: b.sim.DialTLSContext,
			Clock: b.jobs.Clock, Trace: func(_ context.Context, message string, fields map[string]string) {
				if message == "PVE request" && strings.HasSuffix(fields["path"], "/nodes/pve1/qemu") {
					b.sim.SetTaskTime(2 * time.Second)
				}
			}}
		token(&config, b.sim.Credentials())
		run, began := bench{Creator: creatorWith(t, config), sim: b.sim}, time.Now()
		created, err := run.await(t, awaitedVM(15*time.Minute), func(func()) { b.sim.SetFaults([]fault.Rule{commitRefused}) })
		if took := time.Since(began); err == nil || b.vms()[150] != nil || took < 20*time.Minute {
			t.Errorf("after %s: %v; %q; %v", took, err, created.Stays, created.Warnings)
		}
	})
}

// TestUnawaitedVMIsTakenBack: a create that waits for nothing leaves nothing, whatever its commit fails for.
func TestUnawaitedVMIsTakenBack(t *testing.T) {
	for name, rule := range map[string]fault.Rule{
		"no answer": {Phase: fault.Before, Status: 596, Times: 5}, "refused": {Phase: fault.Before, Status: 500, Reason: "no", Times: 5},
	} {
		b := newBench(t, token)
		rule.Match = fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}
		b.sim.SetFaults([]fault.Rule{rule})
		created, err := b.Create(t.Context(), startedVM())
		if err == nil || len(b.vms()) > 0 || created.Guest.VMID != 0 {
			t.Errorf("%s: %v, %+v; the cluster has %v", name, err, created, b.vms())
		}
	}
}
