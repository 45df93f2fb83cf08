package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/service"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// restarter changes one option of the running VM 800 after the other, as the recordings did on a live server.
type restarter struct {
	*conformer
	svc *service.Service
}

func newRestarter(t *testing.T) *restarter {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{World: conformanceWorld()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	here := clock.Client{Cluster: sim.World().Clock}
	client, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), DialTLSContext: sim.DialTLSContext, Clock: here,
		Username: "root@pam", Password: "simulated"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &restarter{&conformer{t: t, sim: sim, roles: conformanceRoles()}, service.New(client, nil, here)}
}

// prepare puts the running VM and gives the change that the row recorded; ok is false where our options cannot express it.
func (r *restarter) prepare(row valueRow, obeys bool) (request update.Request, ok bool) {
	var before map[string]string
	r.change(func(w *state.World) {
		clear(w.Guests)
		clear(w.Volumes)
		r.start800(w, row)
		bootable(w, row.Option)
		if !obeys {
			w.Guests[800].Ignores = []string{"shutdown"}
		}
		before = maps.Clone(w.Guests[800].Config)
	})
	r.sim.ResetPowerOffs()
	after := maps.Clone(before)
	if after[row.Option] = r.named(row.Sent); row.Delete {
		delete(after, row.Option)
	}
	request = update.Request{Ref: guest.Ref{VMID: 800, Node: "pve1"}, Prior: vm.Decode(before), Planned: vm.Decode(after), StopTimeout: 30 * time.Second}
	change := vm.Diff(request.Prior, request.Planned)
	return request, len(change.Problems) == 0 && (change.Set[row.Option] != "" || slices.Contains(change.Delete, row.Option))
}

// bootable lets VM 800 start again with whatever is recorded of the option: what a start refuses is not what a restart is for.
func bootable(w *state.World, option string) {
	w.Nodes["pve1"].CPUs = 2048 // "MAX 8 vcpus allowed per VM on this node"
	for _, c := range []map[string]string{w.Guests[800].Config, w.Guests[800].Running.Booted} {
		switch option {
		case "hugepages":
			c["numa"] = "1"
		case "vcpus":
			c["sockets"] = "1000"
		}
	}
}

// offs are the power-offs, by kind.
func (r *restarter) offs() string {
	var kinds []string
	for _, off := range r.sim.PowerOffs() {
		kinds = append(kinds, string(off.Kind))
	}
	return strings.Join(kinds, ", ")
}

// waits tells whether PVE has the option in the list of what waits for a restart.
func (r *restarter) waits(option string) bool {
	waits := false
	r.change(func(w *state.World) {
		_, changed := w.Guests[800].Pending[option]
		_, deleted := w.Guests[800].Deletes[option]
		waits = changed || deleted
	})
	return waits
}

// TestRestartsMatchPVE: a running guest is restarted by a change exactly where a live PVE listed it as pending until the
// restart; not with the policy "never"; and it is cut off with the policy "force" only. `make test` tries one row in five.
func TestRestartsMatchPVE(t *testing.T) {
	t.Parallel()
	r := newRestarter(t)
	restarted, spared, refused, inexpressible, exceptions := 0, 0, 0, map[string]int{}, newConformance(t).exceptions
	tried := map[string]bool{}
	const part = 5
	for n, row := range conformanceTable[valueRow](t, "running.jsonl") {
		if n%share.Of(part) != 0 {
			continue
		}
		request, ok := r.prepare(row, true)
		if slices.ContainsFunc(exceptions, func(e exception) bool { return e.Table == "running" && e.N == row.N }) {
			continue
		}
		if !ok {
			inexpressible[row.Option]++
			continue
		}
		at := fmt.Sprintf("row %d, %s=%q", row.N, row.Option, row.Sent)
		_, _, err := r.svc.Update(t.Context(), request)
		if row.Status != 200 {
			refused++
			if err == nil || r.offs() != "" {
				t.Errorf("%s: PVE refused it; want an error and no restart, got %v and %q", at, err, r.offs())
			}
			continue
		}
		want := ""
		if row.Effect == "pending" {
			want = string(state.PowerReboot)
			restarted++
		} else {
			spared++
		}
		if err != nil || r.offs() != want || r.waits(row.Option) {
			t.Errorf("%s: recorded as %s; got power-offs %q, waiting %t, error %v", at, row.Effect, r.offs(), r.waits(row.Option), err)
		}
		if want != "" && !tried[row.Option] {
			tried[row.Option] = true
			r.policies(t.Context(), at, row)
		}
	}
	t.Logf("%d changes restarted the guest, %d did not, %d were refused; not sent by us: %v; %d options under each policy", restarted, spared, refused, inexpressible, len(tried))
	if want := 100 / share.Of(part); restarted < want || spared < want {
		t.Errorf("want at least %d of each", want)
	}
}

// policies makes a change that waits for a restart under each policy, of a guest that does not obey.
func (r *restarter) policies(ctx context.Context, at string, row valueRow) {
	request, _ := r.prepare(row, false)
	request.Restart = update.RestartNever
	now, warnings, err := r.svc.Update(ctx, request)
	if err != nil || r.offs() != "" || !slices.Contains(now.Pending, row.Option) || len(warnings) == 0 {
		r.t.Errorf("%s, never: power-offs %q, pending %v, warnings %v, error %v", at, r.offs(), now.Pending, warnings, err)
	}

	request, _ = r.prepare(row, false)
	now, _, err = r.svc.Update(ctx, request)
	var field *guest.FieldError
	if !errors.As(err, &field) || field.Path != "reboot_policy" || !strings.Contains(field.Detail, row.Option) {
		r.t.Errorf("%s, auto: want an error on reboot_policy that names the option, got %v", at, err)
	}
	if r.offs() != "" || now.Status != "running" || !slices.Contains(now.Pending, row.Option) {
		r.t.Errorf("%s, auto: a guest that does not obey runs on: power-offs %q, %s, pending %v", at, r.offs(), now.Status, now.Pending)
	}
	r.change(func(w *state.World) { w.Guests[800].Ignores = nil })
	again := update.Request{Ref: request.Ref, Prior: now.Spec, Planned: now.Spec, Due: now.Pending}
	if _, _, err = r.svc.Update(ctx, again); err != nil || r.offs() != string(state.PowerReboot) || r.waits(row.Option) {
		r.t.Errorf("%s, auto, obeys at last: power-offs %q, waiting %t, error %v", at, r.offs(), r.waits(row.Option), err)
	}

	request, _ = r.prepare(row, false)
	request.Restart = update.RestartForcibly
	_, warnings, err = r.svc.Update(ctx, request)
	if err != nil || r.offs() != string(state.PowerStop) || r.waits(row.Option) || len(warnings) == 0 {
		r.t.Errorf("%s, force: power-offs %q, waiting %t, warnings %v, error %v", at, r.offs(), r.waits(row.Option), warnings, err)
	}
}
