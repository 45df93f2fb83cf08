package pve

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPower: one VM is asked for by itself, more by one list of their node. An answer serves for 5 s, and not after this
// Client has changed the VM. A VM that the list leaves out is asked for, since PVE says why.
func TestPower(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		switch {
		case strings.HasSuffix(s.path, "/104/status/current"):
			http.Error(w, "Permission check failed", http.StatusForbidden)
		case strings.HasSuffix(s.path, "/status/current"):
			data(w, `{"status":"running","vmid":100}`)
		case s.path == "/nodes/pve1/qemu":
			data(w, `[{"status":"stopped","vmid":100},{"status":"running","vmid":"101"},{"status":"stopped","vmid":102}]`)
		default:
			data(w, `null`)
		}
	})
	c := s.client(t)
	const one, list = "/nodes/pve1/qemu/100/status/current", "/nodes/pve1/qemu"
	for _, step := range []struct {
		what   string
		before func() error
		node   string
		vmid   int
		want   string
		asks   string
	}{
		{what: "the first question", vmid: 100, want: "running", asks: one},
		{what: "the same again", vmid: 100, want: "running"},
		{what: "another VM", vmid: 101, want: "running", asks: list},
		{what: "a third", vmid: 102, want: "stopped"},
		{what: "the first, by the list", vmid: 100, want: "stopped"},
		{what: "another node", node: "pve2", vmid: 200, want: "running", asks: "/nodes/pve2/qemu/200/status/current"},
		{what: "a change of another VM", before: func() error {
			return c.QEMU("pve1", 101).UpdateConfig(t.Context(), Params{"name": "x"})
		}, vmid: 102, want: "stopped"},
		{what: "a change of the VM", vmid: 101, want: "running", asks: list},
		{what: "one that the list does not have", vmid: 104, want: "", asks: list + " /nodes/pve1/qemu/104/status/current"},
		{what: "later", before: func() error { s.clock.advance(5 * time.Second); return nil }, vmid: 100, want: "running", asks: one},
		{what: "another VM later", vmid: 102, want: "stopped", asks: list},
	} {
		if step.before != nil {
			if err := step.before(); err != nil {
				t.Fatal(err)
			}
		}
		sent, node := len(s.requests()), step.node
		if node == "" {
			node = "pve1"
		}
		got, err := c.Listing().Power(t.Context(), node, step.vmid)
		var asked []string
		for _, r := range s.requests()[sent:] {
			asked = append(asked, r.path)
		}
		if got != step.want || (err == nil) != (step.want != "") || strings.Join(asked, " ") != step.asks {
			t.Errorf("%s: %q, %v by %v; want %q by %q", step.what, got, err, asked, step.want, step.asks)
		}
	}
}
