package guest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func to[T any](v T) *T { return &v }

const haPath = "/cluster/ha/resources/{sid}"

// writes are the requests that were sent with their parameters, reads aside.
func (w *world) writes() []string {
	var all []string
	for _, op := range w.sim.Ops() {
		if op.Method != http.MethodGet {
			text := op.Method
			for _, name := range []string{"state", "group", "comment", "max_restart", "max_relocate", "delete", "purge"} {
				if value, ok := op.Params[name]; ok {
					text += " " + name + "=" + value
				}
			}
			all = append(all, text)
		}
	}
	return all
}

// proven is the proof of a VM that is not replaced.
func proven(context.Context) error { return nil }

// TestChangeHA sends what differs and nothing else; what is as it is to be already is not sent either.
func TestChangeHA(t *testing.T) {
	entry := func(s string, restarts int64) *HA { return &HA{State: to(s), MaxRestart: to(restarts)} }
	resource := func(option, value string) *state.HAResource {
		return &state.HAResource{State: "stopped", Options: map[string]string{option: value}}
	}
	for name, c := range map[string]struct {
		has         *state.HAResource
		prior, want *HA
		writes      []string
		left        *HA
		says        string
	}{
		"nothing":   {},
		"as it was": {prior: entry("started", 1), want: entry("started", 1)},
		"an entry":  {want: entry("stopped", 3), writes: []string{"POST state=stopped max_restart=3"}, left: entry("stopped", 3)},
		"an option": {has: resource("max_restart", "1"), prior: entry("stopped", 1), want: entry("stopped", 3),
			writes: []string{"PUT max_restart=3"}, left: entry("stopped", 3)},
		"an option less": {has: resource("max_restart", "3"), prior: entry("stopped", 3), want: &HA{State: to("stopped")},
			writes: []string{"PUT delete=max_restart"}, left: &HA{State: to("stopped")}},
		"what is there": {has: resource("max_restart", "3"), prior: entry("stopped", 1), want: entry("stopped", 3), left: entry("stopped", 3)},
		"a third party's option": {has: resource("comment", "theirs"), prior: entry("stopped", 1),
			want: entry("stopped", 1).with("ours"), says: "comment: was none, is theirs, planned ours",
			left: (&HA{State: to("stopped")}).with("theirs")},
		"an entry that no plan has shown": {has: resource("max_restart", "1"), want: entry("stopped", 3), says: "max_restart: 1, becomes 3",
			left: entry("stopped", 1)},
		"an alias in it": {has: &state.HAResource{State: "enabled"}, want: entry("started", 1),
			writes: []string{"PUT state=started max_restart=1"}, left: entry("started", 1)},
		"none any more": {has: &state.HAResource{State: "stopped"}, prior: entry("stopped", 1),
			writes: []string{"DELETE purge=0", "DELETE"}}, // pve-ha-manager knows purge since 5.0.7
		"removed by others": {prior: entry("stopped", 1), want: entry("stopped", 3), says: "is not under HA any more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.s = w.as(rootToken)
			w.put("local-zfs", "vm-400-disk-0")
			if c.has != nil {
				c.has.SID = "vm:400"
				w.change(func(all *state.World) { all.HA["vm:400"] = c.has })
			}
			w.sim.ResetOps()
			err := w.s.ChangeHA(t.Context(), theVM, c.prior, c.want, proven)
			if refused := err != nil && c.says != "" && strings.Contains(err.Error(), c.says); err != nil && !refused || err == nil && c.says != "" {
				t.Error(err)
			}
			if diff := cmp.Diff(c.writes, w.writes()); diff != "" {
				t.Errorf("requests (-want +got)\n%s", diff)
			}
			left, err := w.s.ReadHA(t.Context(), theVM)
			if diff := cmp.Diff(c.left.Options(), left.Options()); err != nil || diff != "" {
				t.Errorf("%v; left (-want +got)\n%s", err, diff)
			}
		})
	}
}

func (h *HA) with(comment string) *HA {
	h.Comment = to(comment)
	return h
}

// TestChangeHAAmongOthers: a lost answer is looked at, another entry's change is no conflict, this entry's is one.
func TestChangeHAAmongOthers(t *testing.T) {
	prior, want := &HA{State: to("stopped")}, &HA{State: to("stopped"), MaxRestart: to(int64(3))}
	for name, c := range map[string]struct {
		rules []fault.Rule
		puts  int
		kind  pve.Kind
	}{
		"answer lost": {rules: []fault.Rule{{Match: fault.Match{Method: "PUT", Path: haPath}, Phase: fault.After}}, puts: 1},
		"lost before": {rules: []fault.Rule{{Match: fault.Match{Method: "PUT", Path: haPath}, Phase: fault.Before, Status: 596,
			Reason: "timeout"}}, puts: 2},
		"another's change": {rules: []fault.Rule{{Match: fault.Match{Method: "PUT", Path: haPath}, Phase: fault.Before,
			Reason: "detected modified configuration - file changed by other user? Try again."}}, puts: 2},
		"denied": {rules: []fault.Rule{{Match: fault.Match{Method: "PUT", Path: haPath}, Phase: fault.Before, Status: 403, Reason: "no"}},
			puts: 1, kind: pve.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.s = w.as(rootToken)
			w.manage("stopped")
			w.sim.SetFaults(c.rules)
			w.sim.ResetOps()
			err := w.s.ChangeHA(t.Context(), theVM, prior, want, proven)
			if (err != nil) != (c.kind != 0) || err != nil && !pve.IsKind(err, c.kind) || len(w.writes()) != c.puts {
				t.Errorf("%v after %q", err, w.writes())
			}
			var field *FieldError
			if err != nil && (!errors.As(err, &field) || field.Path != "ha") {
				t.Errorf("a refusal is shown on ha: %v", err)
			}
			if err != nil {
				mustSay(t, name, err, "Sys.Console and Sys.Audit", "VM 400")
			}
		})
	}
	w := newWorld(t, nil)
	w.s = w.as(rootToken)
	w.manage("stopped")
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: "DELETE", Path: haPath}, Phase: fault.After}})
	if err := w.s.DropHA(t.Context(), theVM, proven); err != nil {
		t.Errorf("removed twice: %v", err)
	}
	if left, err := w.s.ReadHA(t.Context(), theVM); err != nil || left != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestHAStops(t *testing.T) {
	for want, stops := range map[string]bool{"started": false, "stopped": true, "disabled": true, "ignored": false} {
		if (&HA{State: to(want)}).Stops() != stops {
			t.Errorf("%s: %t", want, !stops)
		}
	}
	if (&HA{}).Stops() || (*HA)(nil).Stops() {
		t.Error("what says nothing stops nothing")
	}
}

func TestOnlyWhatDiffersIsSent(t *testing.T) {
	before := map[string]string{"state": "started", "comment": "a", "max_restart": "3"}
	for name, tt := range map[string]struct{ after, has, want map[string]string }{
		"nothing": {before, before, map[string]string{}},
		"one changes": {map[string]string{"state": "started", "comment": "b", "max_restart": "3"},
			before, map[string]string{"comment": "b"}},
		"one goes":               {map[string]string{"state": "started", "comment": "a"}, before, map[string]string{"delete": "max_restart"}},
		"a state is never reset": {map[string]string{"comment": "a", "max_restart": "3"}, before, map[string]string{}},
		"it is so already": {map[string]string{"state": "ignored", "comment": "a"},
			map[string]string{"state": "ignored", "comment": "a"}, map[string]string{}},
		"a third party's change is left alone": {map[string]string{"state": "started", "comment": "b", "max_restart": "3"},
			map[string]string{"state": "ignored", "comment": "a"}, map[string]string{"comment": "b"}},
	} {
		if got := differing(before, tt.after, tt.has); !maps.Equal(got, tt.want) {
			t.Errorf("%s: sent %v, want %v", name, got, tt.want)
		}
	}
}
