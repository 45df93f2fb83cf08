package update

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// requests are all that were made: "GET pending".
func (w *world) requests() string {
	var all []string
	for _, op := range w.sim.Ops() {
		if !strings.HasPrefix(op.Path, "/nodes/{node}/tasks/") {
			all = append(all, op.Method+" "+strings.TrimPrefix(op.Path, "/nodes/{node}/qemu/{vmid}/"))
		}
	}
	return strings.Join(slices.Compact(all), ", ") // the same again is a poll
}

// TestRequestsOfAnUpdate: an update makes the requests that docs/design/update.md names, and no others.
func TestRequestsOfAnUpdate(t *testing.T) {
	const change = "GET pending, PUT config"
	for name, tt := range map[string]struct {
		options pve.Params
		stopped bool
		change  func(*Request)
		want    string
	}{
		"what is in force at once": {change: func(r *Request) { r.Planned.Description = new("new") }, want: change},
		"the same, stopped": {stopped: true, change: func(r *Request) {
			r.Planned.Name, r.Planned.OnBoot = new("renamed"),
				new(true)
		},
			want: change},
		"it is reset": {options: pve.Params{"description": "old"}, change: func(r *Request) { r.Planned.Description = nil },
			want: change},
		"what PVE rewords": {change: func(r *Request) { r.Planned.Tags = []string{"b", "a"} }, want: change +
			", GET pending"},
		"what a stopped guest takes": {stopped: true, change: func(r *Request) { r.Planned.CPU.Cores = new(int64(2)) },
			want: change + ", GET pending"},
		"what waits, and is to wait": {change: func(r *Request) {
			r.Planned.CPU.Cores, r.Restart = new(int64(2)),
				RestartNever
		},
			want: change + ", GET status/current, GET pending"},
		"what waits for a restart": {change: func(r *Request) { r.Planned.CPU.Cores = new(int64(2)) },
			want: change + ", GET status/current, POST status/reboot, GET status/current, GET pending"},
		"the power, and nothing else": {stopped: true, change: func(r *Request) { r.PowerState = guest.Running },
			want: "GET pending, GET status/current, POST status/start, GET pending, GET status/current"},
		"a status that is not known": {change: func(r *Request) { r.Ref.Status, r.Planned.Description = "", new("new") },
			want: change + ", GET status/current"},
	} {
		w := newWorld(t, tt.options)
		if !tt.stopped {
			w.start()
			w.sim.Advance(time.Minute)
		}
		r := w.request()
		tt.change(&r)
		g, _, err := w.update(r)
		if got := w.requests(); err != nil || got != tt.want {
			t.Errorf("%s: %v, requests %s; want %s", name, err, got, tt.want)
		}
		status, err := w.api.QEMU("pve1", theVM).Status(t.Context())
		if err != nil || g.Status != status.Status {
			t.Errorf("%s: %v, %q is told, and it is %q", name, err, g.Status, status.Status)
		}
		config, err := w.api.QEMU("pve1", theVM).Pending(t.Context())
		is := vm.Encode(vm.Decode(config.Merged()))
		if err != nil || !maps.Equal(vm.Encode(g.Spec), is) || !slices.Equal(g.Pending, config.Waiting()) {
			t.Errorf("%s: %v, the update tells %v and waiting %v; the server has %v and %v",
				name, err, vm.Encode(g.Spec), g.Pending, is, config.Waiting())
		}
	}
}

// TestOutcomeIsLookedAt where it is not certain: the answer to the request was lost, and it was sent again, after a
// look for whom; or something waited on a stopped guest, which PVE puts in force with any request.
func TestOutcomeIsLookedAt(t *testing.T) {
	w := newWorld(t, nil)
	r := w.request()
	r.Planned.Description = new("new")
	put := fault.Match{Method: http.MethodPut, Path: "/nodes/{node}/qemu/{vmid}/config"}
	w.sim.SetFaults([]fault.Rule{{Match: put, Phase: fault.After}})
	g, _, err := w.update(r)
	if got := w.requests(); err != nil || w.sim.FaultsFired() != 1 ||
		got != "GET pending, PUT config, GET pending, PUT config, GET pending" {
		t.Errorf("%v, requests %s", err, got)
	}
	if g.Spec.Description == nil || *g.Spec.Description != "new" {
		t.Errorf("described as %v", g.Spec.Description)
	}
	w = newWorld(t, nil)
	r = w.request()
	w.alter(func(g *state.Guest) { g.Pending = map[string]string{"cores": "2"} })
	r.Planned.Description = new("new")
	if g, _, err = w.update(r); err != nil || w.requests() != "GET pending, PUT config, GET pending" {
		t.Errorf("%v, requests %s", err, w.requests())
	}
	if cores := g.Spec.CPU.Cores; cores == nil || *cores != 2 || len(g.Pending) > 0 {
		t.Errorf("%v cores, waiting %v", cores, g.Pending)
	}
}
