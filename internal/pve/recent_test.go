package pve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRecentResources: a VM that this Client makes leaves the listing as good as it was for a caller that knows of it.
// A removal, a migration or the passing of time does not.
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
	_, at, err := c.Listing().Recent(t.Context())
	must(err)
	want := 1
	for _, step := range []struct {
		what  string
		do    func() error
		again bool
	}{
		{"nothing", func() error { return nil }, false},
		{"create", func() error { _, err := c.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"}); return err }, false},
		{"end of a task", func() error { _, err := c.Tasks().Wait(t.Context(), taskUPID); return err }, false},
		{"change", func() error { return c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "x"}) }, false},
		{"migrate", func() error { _, err := c.QEMU("pve1", 100).Migrate(t.Context(), Params{"target": "pve2"}); return err }, true},
		{"removal", func() error { return c.Tasks().Stop(t.Context(), taskUPID) }, true},
		{"forgotten", func() error { c.Listing().Forget(); return nil }, true},
		{"later", func() error { s.clock.advance(5 * time.Second); return nil }, true},
	} {
		must(step.do())
		if step.again {
			want++
		}
		list, asked, err := c.Listing().Recent(t.Context())
		must(err)
		if got := listings(); got != want || len(list) == 0 || asked.Before(at) {
			t.Errorf("%s: %d listings, want %d; %d entries of %s", step.what, got, want, len(list), asked)
		}
		want = listings()
	}
	must(c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "y"}))
	if _, err := c.Listing().Shared(t.Context()); err != nil || listings() != want+1 {
		t.Errorf("a caller that does not know what is new got an old listing: %v", err)
	}
}

// TestChanges: requests that may change a VM are counted, and no others.
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
		{"change", func() error { return c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "x"}) }, 100},
		{"start", func() error { _, err := c.QEMU("pve1", 101).Start(t.Context(), nil); return err }, 101},
		{"clone", func() error { _, err := c.QEMU("pve1", 100).Clone(t.Context(), Params{"newid": "200"}); return err }, 0},
		{"end of a clone", func() error { _, err := c.Tasks().Wait(t.Context(), taskUPID); return err }, 0},
		{"create", func() error { _, err := c.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"}); return err }, 0},
	} {
		before := map[int]uint64{100: c.Listing().Changes(100), 101: c.Listing().Changes(101)}
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		for vmid, was := range before {
			if grew := c.Listing().Changes(vmid) > was; grew != (vmid == step.of) {
				t.Errorf("%s: VM %d counts as changed: %t", step.what, vmid, grew)
			}
		}
	}
}
