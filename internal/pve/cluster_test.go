package pve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

const listing = `[{"uptime":0,"node":"pve1","id":"qemu/100","status":"stopped","maxcpu":1,"type":"qemu","name":"tpl","template":1,"vmid":100,"tags":"b;a","lock":"create","pool":"web"},
	{"id":"lxc/101","type":"lxc","node":"pve2","vmid":"101","name":"tpl","status":"running"},
	{"id":"node/pve1","type":"node","node":"pve1","status":"online","cgroup-mode":2,"hastate":"maintenance","cpu":"0.5"},
	{"id":"storage/pve1/local","type":"storage","node":"pve1","storage":"local","plugintype":"dir","content":"images,iso","shared":0,"status":"available","disk":20401000448},
	{"id":"storage/pve2/local","type":"storage","node":"pve2","storage":"local","status":"unknown"},
	{"id":"sdn/pve1/localnetwork","type":"sdn","node":"pve1","sdn":"localnetwork","status":"ok"}]`

func TestResources(t *testing.T) {
	s := newServer(t, constant(listing))
	rs, err := s.client(t).Cluster().Resources(t.Context())
	if err != nil || len(rs) != 6 {
		t.Fatal(rs, err)
	}
	vm, ok := rs.Guest(100)
	if !ok || !vm.Template || vm.Lock != "create" || vm.Pool != "web" || vm.Tags != "b;a" {
		t.Errorf("%+v", vm)
	}
	if ct, ok := rs.Guest(101); !ok || ct.Type != "lxc" {
		t.Error("a container is a guest too: it holds its id")
	}
	if _, ok := rs.Guest(0); ok {
		t.Error("a node is no guest")
	}
	node, ok := rs.Node("pve1")
	if !ok || node.HAState != "maintenance" || node.CgroupMode != 2 || node.CPU != 0.5 {
		t.Errorf("%+v", node)
	}
	if st, ok := rs.Storage("pve2", "local"); !ok || st.Status != "unknown" {
		t.Errorf("%+v", st)
	}
	if _, ok := rs.Storage("pve3", "local"); ok {
		t.Error("a storage on a node that is not there")
	}
	if len(rs.GuestsNamed("tpl")) != 2 || len(rs.Guests()) != 2 || len(rs.Nodes()) != 1 || len(rs.Storages("pve1")) != 1 {
		t.Error("lists")
	}
	if got := s.requests()[0].String(); got != "GET /cluster/resources " {
		t.Errorf("asked %s", got)
	}
}

func TestSharedResources(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		if s.method == http.MethodGet {
			data(w, listing)
			return
		}
		data(w, `null`)
	})
	c := s.client(t)
	listings := func() int {
		n := 0
		for _, r := range s.requests() {
			if r.path == "/cluster/resources" {
				n++
			}
		}
		return n
	}
	ask := func(want int) {
		t.Helper()
		if _, err := c.Listing().Shared(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := listings(); got != want {
			t.Fatalf("%d listings, want %d", got, want)
		}
	}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if rs, err := c.Listing().Shared(t.Context()); err != nil || len(rs) != 6 {
				t.Error(len(rs), err)
			} else {
				rs[0].Name = "mine" // a caller may change its copy
			}
		})
	}
	group.Wait()
	ask(1)
	if rs, _ := c.Listing().Shared(t.Context()); rs[0].Name != "tpl" {
		t.Error("the copies are not copies")
	}
	s.clock.advance(4900 * time.Millisecond)
	ask(1)
	s.clock.advance(200 * time.Millisecond)
	ask(2)
	if err := c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "x"}); err != nil {
		t.Fatal(err)
	}
	ask(3)
	ask(3)
	if _, err := c.Cluster().Resources(t.Context()); err != nil || listings() != 4 {
		t.Errorf("fresh: %v, %d listings", err, listings())
	}
}

// A refresh of a thousand VMs takes longer than the plan's checks trust a listing.
func TestSharedGuest(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		if s.method == http.MethodGet {
			data(w, listing)
			return
		}
		data(w, `null`)
	})
	c := s.client(t)
	ask := func(requests int) {
		t.Helper()
		if g, ok, err := c.Listing().Guest(t.Context(), 100); err != nil || !ok || g.Name != "tpl" {
			t.Fatal(g, ok, err)
		}
		if n := len(s.requests()); n != requests {
			t.Fatalf("%d requests, want %d", n, requests)
		}
	}
	ask(1)
	s.clock.advance(2 * time.Hour)
	ask(1)
	if g, ok, err := c.Listing().Guest(t.Context(), 4711); ok || err != nil {
		t.Errorf("a guest that is not listed: %v, %v", g, err)
	}
	if err := c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "tpl"}); err != nil {
		t.Fatal(err)
	}
	ask(3)
	if _, err := c.Listing().Shared(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(3)
}

func TestEndOfATaskMakesTheListingOld(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		if s.path == "/cluster/resources" {
			data(w, `[]`)
			return
		}
		data(w, stoppedTask("OK"))
	})
	c := s.client(t)
	for range 2 {
		if _, err := c.Listing().Shared(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Tasks().Wait(t.Context(), taskUPID); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.requests()); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}

// One caller that gives up does not end the wait of the others.
func TestSharedResourcesAndACancelledCaller(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(w http.ResponseWriter, _ seen, n int) {
		if n == 1 {
			close(arrived)
			<-release
		}
		data(w, listing)
	})
	c := s.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := c.Listing().Shared(ctx); first <- err }()
	<-arrived
	go func() { _, err := c.Listing().Shared(t.Context()); second <- err }()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the one who gave up: %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the other: %v", err)
	}
	close(release)
}

func TestIDs(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		switch id := s.form.Get("vmid"); id {
		case "":
			data(w, `"100"`)
		case "100":
			reply(w, 400, "Parameter verification failed.", `{"errors":{"vmid":"VM 100 already exists"},"message":"Parameter verification failed.\n","data":null}`)
		case "5":
			reply(w, 400, "Parameter verification failed.", `{"data":null,"errors":{"vmid":"invalid format - value does not look like a valid VM ID\n"}}`)
		default:
			data(w, fmt.Sprintf("%q", id))
		}
	})
	c := s.client(t)
	if id, err := c.Cluster().NextID(t.Context()); err != nil || id != 100 {
		t.Error(id, err)
	}
	for id, want := range map[int]bool{100: false, 4711: true} {
		if free, err := c.Cluster().IsFreeID(t.Context(), id); err != nil || free != want {
			t.Errorf("%d: %v, %v", id, free, err)
		}
	}
	if free, err := c.Cluster().IsFreeID(t.Context(), 5); !IsKind(err, Invalid) || free {
		t.Errorf("5: %v, %v", free, err)
	}
}

func TestVersion(t *testing.T) {
	s := newServer(t, constant(`{"version":"8.4.21","release":"8.4","repoid":"2606ac8500000000"}`))
	c := s.client(t)
	for range 3 {
		v, err := c.Cluster().Version(t.Context())
		if err != nil || v != (Version{"8.4.21", "8.4", "2606ac8500000000", 8, 4, 21}) {
			t.Fatal(v, err)
		}
	}
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
	v := Version{Major: 8, Minor: 4}
	for _, tt := range []struct {
		major, minor int
		want         bool
	}{{8, 4, true}, {8, 5, false}, {7, 9, true}, {9, 0, false}, {8, 0, true}} {
		if v.AtLeast(tt.major, tt.minor) != tt.want {
			t.Errorf("8.4 at least %d.%d", tt.major, tt.minor)
		}
	}
	v.Patch = 21
	for want, at := range map[bool][][]int{true: {{8}, {8, 4, 21}, {8, 4, 0}, {8, 3, 99}}, false: {{9}, {8, 4, 22}, {8, 5, 0}}} {
		for _, numbers := range at {
			if v.AtLeast(numbers...) != want {
				t.Errorf("8.4.21 at least %v", numbers)
			}
		}
	}
	for text, want := range map[string][3]int{"9.0~beta1": {9, 0, 1}, "8.2-4": {8, 2, 4}, "": {0, 0, 0}, "10": {10, 0, 0}, "9.0.0~15": {9, 0, 0}} {
		got := versionWire{Version: wire.String(text)}.version()
		if [3]int{got.Major, got.Minor, got.Patch} != want {
			t.Errorf("%q: %d.%d", text, got.Major, got.Minor)
		}
	}
}

func TestServerTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 5, 0, 0, 0, time.UTC)
	s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) {
		w.Header().Set("Date", at.Format(http.TimeFormat))
		data(w, `{"version":"8.4.1"}`)
	})
	c := s.client(t)
	if !c.ServerTime().IsZero() {
		t.Error("a time before the first answer")
	}
	if _, err := c.Cluster().Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.clock.advance(time.Minute)
	if got := c.ServerTime(); !got.Equal(at.Add(time.Minute)) {
		t.Errorf("got %s", got)
	}
}

// TestTagsAreCaseSensitive: the datacenter says so, and is asked once.
func TestTagsAreCaseSensitive(t *testing.T) {
	for answer, want := range map[string]bool{`{}`: false, `{"tag-style":{"shape":"full"}}`: false, `{"tag-style":{"case-sensitive":1}}`: true, `{"tag-style":{"case-sensitive":0}}`: false} {
		asked := 0
		s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) {
			asked++
			data(w, answer)
		})
		c := s.client(t)
		for range 2 {
			if got, err := c.Cluster().TagsAreCaseSensitive(t.Context()); err != nil || got != want {
				t.Errorf("%s: %t, %v", answer, got, err)
			}
		}
		if asked != 1 {
			t.Errorf("%s: asked %d times", answer, asked)
		}
	}
}
