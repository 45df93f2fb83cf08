package pve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRecentResources: what this Client makes leaves the listing as good as it was for who knows that; what it removes or
// migrates, or what time brings, does not.
func TestRecentResources(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		switch {
		case s.path == "/cluster/resources":
			data(w, listing)
		case strings.HasSuffix(s.path, "/status"):
			data(w, stoppedTask("OK"))
		case s.method == http.MethodGet:
			data(w, "{}")
		default:
			data(w, fmt.Sprintf("%q", taskUPID))
		}
	})
	c := s.client(t)
	listings := func() (n int) {
		for _, r := range s.requests() {
			if r.path == "/cluster/resources" {
				n++
			}
		}
		return n
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, at, err := c.RecentResources(t.Context())
	must(err)
	want := 1
	for _, step := range []struct {
		what string
		do   func() error
		anew bool
	}{
		{"nothing", func() error { return nil }, false},
		{"create", func() error { _, err := c.CreateVM(t.Context(), "pve1", Params{"vmid": "100"}); return err }, false},
		{"end of a task", func() error { _, err := c.Wait(t.Context(), taskUPID); return err }, false},
		{"change", func() error { return c.UpdateConfig(t.Context(), "pve1", 100, Params{"name": "x"}) }, false},
		{"migrate", func() error { _, err := c.Migrate(t.Context(), "pve1", 100, Params{"target": "pve2"}); return err }, true},
		{"removal", func() error { return c.StopTask(t.Context(), taskUPID) }, true},
		{"forgotten", func() error { c.ForgetResources(); return nil }, true},
		{"later", func() error { s.clock.advance(5 * time.Second); return nil }, true},
	} {
		must(step.do())
		if step.anew {
			want++
		}
		list, asked, err := c.RecentResources(t.Context())
		must(err)
		if got := listings(); got != want || len(list) == 0 || asked.Before(at) {
			t.Errorf("%s: %d listings, want %d; %d entries of %s", step.what, got, want, len(list), asked)
		}
		want = listings()
	}
	must(c.UpdateConfig(t.Context(), "pve1", 100, Params{"name": "y"}))
	if _, err := c.SharedResources(t.Context()); err != nil || listings() != want+1 {
		t.Errorf("whoever does not know what is new got an old listing: %v", err)
	}
}

// TestChanges: what is done to a VM is counted, and nothing else is.
func TestChanges(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		if strings.HasSuffix(s.path, "/status") {
			data(w, stoppedTask("OK"))
			return
		}
		data(w, fmt.Sprintf("%q", taskUPID))
	})
	c := s.client(t)
	for _, step := range []struct {
		what string
		do   func() error
		of   int
	}{
		{"change", func() error { return c.UpdateConfig(t.Context(), "pve1", 100, Params{"name": "x"}) }, 100},
		{"start", func() error { _, err := c.StartVM(t.Context(), "pve1", 101, nil); return err }, 101},
		{"clone", func() error { _, err := c.CloneVM(t.Context(), "pve1", 100, Params{"newid": "200"}); return err }, 0},
		{"end of a clone", func() error { _, err := c.Wait(t.Context(), taskUPID); return err }, 0},
		{"create", func() error { _, err := c.CreateVM(t.Context(), "pve1", Params{"vmid": "100"}); return err }, 0},
	} {
		before := map[int]uint64{100: c.Changes(100), 101: c.Changes(101)}
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		for vmid, was := range before {
			if grew := c.Changes(vmid) > was; grew != (vmid == step.of) {
				t.Errorf("%s: VM %d counts as changed: %t", step.what, vmid, grew)
			}
		}
	}
}
