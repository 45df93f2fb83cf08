package pve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/backoff"
)

const createUPID = "UPID:pve1:00005366:00057C72:6B00502E:qmcreate:100:terraform@pve!prov:"

// TestRetryTable: how often each answer leads to a request, and the meaning of the final error.
func TestRetryTable(t *testing.T) {
	lock := "can't lock file '/var/lock/qemu-server/lock-305.conf' - got timeout"
	cfs := "cfs-lock 'file-user_cfg' error: got lock request timeout"
	answered := func(status int, reason string) answerFunc {
		return func(w http.ResponseWriter, _ seen, _ int) { reply(w, status, reason, "") }
	}
	died := func(text string) answerFunc {
		return func(w http.ResponseWriter, _ seen, _ int) { die(w, text) }
	}
	inErrors := func(w http.ResponseWriter, _ seen, _ int) {
		reply(w, 400, "Parameter verification failed.", `{"data":null,"errors":{"scsi0":"hotplug problem - `+lock+`\n"}}`)
	}
	lost := func(w http.ResponseWriter, _ seen, _ int) { cut(w) }
	tests := map[string]struct {
		answer      answerFunc
		read, write int
		readKind    Kind
		writeKind   Kind
	}{
		"cut":              {lost, 3, 1, Unavailable, Ambiguous},
		"595":              {answered(595, "No route to host"), 3, 1, Unavailable, Unavailable},
		"596":              {answered(596, "Connection timed out"), 3, 1, Ambiguous, Ambiguous},
		"597":              {answered(597, "Broken pipe"), 3, 1, Unavailable, Ambiguous},
		"599":              {answered(599, "Too many redirections"), 3, 1, Unavailable, Ambiguous},
		"503":              {answered(503, "Service Unavailable"), 3, 1, Unavailable, Ambiguous},
		"504":              {answered(504, "Gateway Timeout"), 3, 1, Unavailable, Ambiguous},
		"unknown 500":      {died("something new"), 3, 1, Unknown, Unknown},
		"file lock":        {died(lock), 1, 1, Locked, Locked},
		"cluster lock":     {died(cfs), 1, 1, Locked, Locked},
		"pool lock":        {died("update pools failed: " + cfs), 1, 1, Locked, Locked},
		"lock of a create": {died("unable to create VM 305 - " + lock), 1, 1, Locked, Locked},
		"lock in errors":   {inErrors, 1, 1, Invalid, Invalid},
		"config lock":      {died("VM is locked (backup)"), 1, 1, Locked, Locked},
		"not found":        {died("Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist"), 1, 1, NotFound, NotFound},
		"denied":           {answered(403, "Permission check failed (/vms/100, VM.Allocate)"), 1, 1, Denied, Denied},
		"unsupported":      {answered(501, "Method 'POST /x' not implemented"), 1, 1, Unsupported, Unsupported},
		"worker":           {died("got no worker upid - start worker failed"), 1, 1, Ambiguous, Ambiguous},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, tt.answer)
			c := s.client(t)
			_, err := c.Node("pve1").Version(t.Context())
			if n := len(s.requests()); n != tt.read || KindOf(err) != tt.readKind {
				t.Errorf("read: %d requests, %s; want %d, %s: %v", n, KindOf(err), tt.read, tt.readKind, err)
			}
			for _, write := range []func() error{
				func() error { _, err := c.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"}); return err },
				func() error { return c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "x"}) },
				func() error { _, err := c.QEMU("pve1", 100).Destroy(t.Context(), false); return err },
			} {
				before := len(s.requests())
				err := write()
				if n := len(s.requests()) - before; n != tt.write || KindOf(err) != tt.writeKind {
					t.Errorf("write: %d requests, %s; want %d, %s: %v", n, KindOf(err), tt.write, tt.writeKind, err)
				}
			}
		})
	}
}

func TestReadThatSucceedsLater(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ seen, n int) {
		if n < 3 {
			reply(w, 595, "Connection refused", "")
			return
		}
		data(w, `{"version":"8.4.1"}`)
	})
	v, err := s.client(t).Node("pve1").Version(t.Context())
	if err != nil || v.Version != "8.4.1" {
		t.Fatalf("%+v, %v", v, err)
	}
	for i, d := range s.clock.sleeps {
		base := 200 * time.Millisecond << i
		if d < base/2 || d >= base*3/2 {
			t.Errorf("pause %d was %s, want around %s", i+1, d, base)
		}
	}
	if len(s.clock.sleeps) != 2 {
		t.Errorf("pauses %v", s.clock.sleeps)
	}
}

func TestRefusedConnectionIsTriedAgainForWrites(t *testing.T) {
	s := newServer(t, constant(`"`+createUPID+`"`))
	dials := 0
	cfg := s.config()
	cfg.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials++; dials < 3 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
	c := newClient(t, cfg)
	if upid, err := c.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"}); err != nil || upid != createUPID {
		t.Fatalf("%s, %v", upid, err)
	}
	if len(s.requests()) != 1 || dials != 3 {
		t.Errorf("%d requests, %d dials", len(s.requests()), dials)
	}
}

func TestRefusedForEver(t *testing.T) {
	clock := newFakeClock()
	refuse := func(_ context.Context, network, _ string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	c := newClient(t, Config{Endpoint: "https://pve:8006", APIToken: testToken, Clock: clock, DialContext: refuse})
	_, err := c.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"})
	if !IsKind(err, Unavailable) || !errors.Is(err, syscall.ECONNREFUSED) || len(clock.sleeps) != 4 {
		t.Errorf("%s after %v: %v", KindOf(err), clock.sleeps, err)
	}
	if !strings.HasPrefix(err.Error(), "create VM 100 on node pve1: ") {
		t.Errorf("got %q", err)
	}
}

func TestUnknownHostAndCertificateAreNotTriedAgain(t *testing.T) {
	s := newServer(t, constant(`{}`))
	cfg := s.config()
	cfg.CACertificate = ""
	_, err := newClient(t, cfg).Node("pve1").Version(t.Context())
	if !IsKind(err, Unavailable) || !strings.Contains(err.Error(), "certificate signed by unknown authority") || len(s.clock.sleeps) != 0 {
		t.Errorf("unknown authority: %v, pauses %v", err, s.clock.sleeps)
	}
	cfg.Insecure = true
	if _, err := newClient(t, cfg).Node("pve1").Version(t.Context()); err != nil {
		t.Errorf("insecure: %v", err)
	}
	cfg.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "pve", IsNotFound: true}}
	}
	if _, err := newClient(t, cfg).Node("pve1").Version(t.Context()); !IsKind(err, Unavailable) || len(s.clock.sleeps) != 0 {
		t.Errorf("unknown host: %v, pauses %v", err, s.clock.sleeps)
	}
}

// A server that reads the request and hangs up on a connection that served another request before: net/http would
// repeat that for a GET, and must not for a write.
func TestNoWriteIsReplayedOnAReusedConnection(t *testing.T) {
	var writes atomic.Int64
	s := newServer(t, func(w http.ResponseWriter, r seen, _ int) {
		if r.method == http.MethodGet {
			data(w, `{"version":"8.4.1"}`)
			return
		}
		writes.Add(1)
		cut(w)
	})
	c := s.client(t)
	sends := []func() error{
		func() error { _, err := c.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"}); return err },
		func() error { return c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "x"}) },
		func() error { _, err := c.QEMU("pve1", 100).Destroy(t.Context(), false); return err },
		func() error { _, err := c.QEMU("pve1", 100).Start(t.Context(), nil); return err }, // without a body
	}
	for i, send := range sends {
		if _, err := c.Node("pve1").Version(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := send(); !IsKind(err, Ambiguous) {
			t.Errorf("write %d: %s: %v", i, KindOf(err), err)
		}
		if n := writes.Load(); n != int64(i+1) {
			t.Fatalf("write %d was sent %d times", i, n-int64(i))
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var other atomic.Int64
	elsewhere := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { other.Add(1); data(w, `null`) })
	s := newServer(t, func(w http.ResponseWriter, r seen, _ int) {
		w.Header().Set("Location", elsewhere.URL+"/api2/json"+r.path)
		w.WriteHeader(http.StatusPermanentRedirect)
	})
	err := s.client(t).QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "x"})
	if err == nil || !strings.Contains(err.Error(), "redirects to "+elsewhere.URL) || other.Load() != 0 {
		t.Errorf("got %v, %d requests elsewhere", err, other.Load())
	}
}

func TestCancelledWrite(t *testing.T) {
	arrived := make(chan struct{})
	release := make(chan struct{})
	s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) {
		close(arrived)
		<-release
		data(w, `"`+createUPID+`"`)
	})
	defer close(release)
	c := s.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := c.Node("pve1").CreateVM(ctx, Params{"vmid": "100"})
	if !IsKind(err, Ambiguous) || !errors.Is(err, context.Canceled) {
		t.Errorf("sent: %s: %v", KindOf(err), err)
	}
	_, err = c.Node("pve1").CreateVM(ctx, Params{"vmid": "101"})
	if !IsKind(err, Unknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("not sent: %s: %v", KindOf(err), err)
	}
	if _, err = c.Cluster().Resources(ctx); !IsKind(err, Unknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("read: %s: %v", KindOf(err), err)
	}
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestRequestTimeout(t *testing.T) {
	release := make(chan struct{})
	s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { <-release; cut(w) })
	defer close(release)
	cfg := s.config()
	cfg.RequestTimeout = 300 * time.Millisecond // enough for a busy machine to take the request
	c := newClient(t, cfg)
	_, err := c.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"})
	if !IsKind(err, Ambiguous) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 300ms") {
		t.Errorf("write: %s: %v", KindOf(err), err)
	}
	before := len(s.requests())
	_, err = c.Node("pve1").Version(t.Context())
	if n := len(s.requests()) - before; !IsKind(err, Unavailable) || n != 2 {
		t.Errorf("read: %s after %d requests: %v", KindOf(err), n, err)
	}
}

func TestNoPauseBeyondTheDeadline(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { reply(w, 595, "No route to host", "") })
	ctx, cancel := context.WithTimeout(t.Context(), backoff.AfterFailure.Pause(1, 0)/2)
	defer cancel()
	_, err := s.client(t).Node("pve1").Version(ctx)
	if len(s.clock.sleeps) != 0 || err == nil {
		t.Errorf("pauses %v, error %v", s.clock.sleeps, err)
	}
}

// PVE closes a connection after some idle time, at worst just as the next request is on its way.
func TestIdleCloseIsSurvived(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r seen, _ int) {
		if r.method == http.MethodGet {
			data(w, `{"version":"8.4.1"}`)
			return
		}
		data(w, `"`+createUPID+`"`)
	})
	c := s.client(t)
	for i := range 20 {
		if _, err := c.Node("pve1").Version(t.Context()); err != nil {
			t.Fatalf("read %d: %v", i, err)
		}
		s.CloseClientConnections()
		if _, err := c.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"}); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	if n := len(s.requests()); n != 40 {
		t.Errorf("%d requests", n)
	}
}

// TestLimitOfWritesAtANode: six at once, which block neither a read of the node nor a write to another one.
func TestLimitOfWritesAtANode(t *testing.T) {
	const nodeWrites = 6 // that the transport lets through
	arrived, answer := make(chan string, 100), make(chan struct{})
	s := newServer(t, func(w http.ResponseWriter, r seen, _ int) {
		arrived <- r.method + " " + r.path
		if r.path == "/nodes/a/qemu/100/config" && r.method == http.MethodPut {
			<-answer
		}
		data(w, "null")
	})
	cfg := s.config()
	cfg.MaxInFlight = nodeWrites + 1 // those who wait take none of it
	c := newClient(t, cfg)
	const all = 3 * nodeWrites
	done := make(chan error)
	for range all {
		go func() { done <- c.change(t.Context(), "write", http.MethodPut, "/nodes/a/qemu/100/config", nil) }()
	}
	for range nodeWrites {
		<-arrived
	}
	for _, other := range [][2]string{{http.MethodGet, "/nodes/a/qemu/100/config"}, {http.MethodPut, "/nodes/b/qemu/100/config"}, {http.MethodPut, "/pools"}} {
		if err := c.change(t.Context(), "other", other[0], other[1], nil); err != nil {
			t.Error(err)
		}
		if got := <-arrived; got != other[0]+" "+other[1] {
			t.Errorf("%s came before %s", got, other)
		}
	}
	close(answer)
	for range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := len(arrived); got != all-nodeWrites {
		t.Errorf("%d more writes, want %d", got, all-nodeWrites)
	}
}

func TestLimitOfRequestsUnderWay(t *testing.T) {
	var now, most atomic.Int64
	s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-time.After(5 * time.Millisecond)
		now.Add(-1)
		data(w, `{"version":"8.4.1"}`)
	})
	cfg := s.config()
	cfg.MaxInFlight = 3
	c := newClient(t, cfg)
	done := make(chan error)
	for range 12 {
		go func() { _, err := c.Node("pve1").Version(t.Context()); done <- err }()
	}
	for range 12 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := most.Load(); n != 3 {
		t.Errorf("%d at once, want 3", n)
	}
}

// TestForeignAnswersToReads: an answer of something in front of PVE is called so, and is neither a refusal of PVE nor a
// proof of absence. The read is repeated where that may pass.
func TestForeignAnswersToReads(t *testing.T) {
	const html = "<html><body><h1>Sorry</h1></body></html>"
	for name, c := range map[string]struct {
		status    int
		body      string
		isForeign bool
		kind      Kind
		tries     int
	}{
		"401 of a proxy":         {401, html, true, Unavailable, 1},
		"403 of a firewall":      {403, html, true, Unavailable, 1},
		"400 of a load balancer": {400, html, true, Unavailable, 1},
		"404 of a web server":    {404, "", true, Unavailable, 1},
		"429 of a limiter":       {429, "slow down", true, Unavailable, 3},
		"500 of a proxy":         {500, html, true, Unavailable, 3},
		"500 with words of PVE":  {500, `{"message":"Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist"}`, true, Unavailable, 3},
		"501 of a proxy":         {501, html, true, Unavailable, 3},
		"502":                    {502, "", true, Unavailable, 3},
		"504":                    {504, html, true, Unavailable, 3},
		"a redirect":             {302, "", true, Unknown, 1},
		"a login page":           {200, html, true, Unknown, 1},
		"401 of PVE":             {401, "", false, Denied, 1},
		"401 of PVE's login":     {401, `{"data":null,"message":"authentication failure\n"}`, false, Denied, 1},
		"403 of PVE":             {403, `{"data":null,"message":"Permission check failed\n"}`, false, Denied, 1},
		"501 of PVE":             {501, `{"data":null,"message":"Method 'GET /x' not implemented"}`, false, Unsupported, 1},
		"595 of pveproxy":        {595, "", false, Unavailable, 3},
		"596 of pveproxy":        {596, "", false, Ambiguous, 3},
	} {
		s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { reply(w, c.status, http.StatusText(c.status), c.body) })
		_, err := s.client(t).QEMU("pve1", 100).Config(t.Context())
		var answer *Error
		if !errors.As(err, &answer) || answer.Foreign != c.isForeign || answer.IsPVEs() == c.isForeign || answer.Kind != c.kind ||
			len(s.requests()) != c.tries {
			t.Errorf("%s: %d requests, %+v", name, len(s.requests()), answer)
		}
	}
}

// TestAnswersThatAreNotPVEsAreAmbiguous: what something in front of PVE answers to a write does not tell whether PVE has
// seen it.
func TestAnswersThatAreNotPVEsAreAmbiguous(t *testing.T) {
	const html = "<html><body><h1>Sorry</h1></body></html>"
	for name, c := range map[string]struct {
		status int
		body   string
		want   Kind
	}{
		"503 of a proxy":        {503, html, Ambiguous},
		"503 without a body":    {503, "", Ambiguous},
		"429 of a limiter":      {429, "slow down", Ambiguous},
		"502":                   {502, html, Ambiguous},
		"500 with HTML":         {500, html, Ambiguous},
		"400 with HTML":         {400, html, Ambiguous},
		"404 with HTML":         {404, html, Ambiguous},
		"403 of a firewall":     {403, html, Ambiguous},
		"500 with another JSON": {500, `{"error":"upstream"}`, Ambiguous},
		"500 of PVE":            {500, `{"data":null,"message":"something new\n"}`, Unknown},
		"500 of an older PVE":   {500, `{"data":null}`, Unknown},
		"403 of PVE":            {403, `{"data":null,"message":"Permission check failed\n"}`, Denied},
		"401 of PVE":            {401, "", Denied},
		"401 of a proxy":        {401, html, Ambiguous},
		"501 of PVE":            {501, "", Unsupported},
		"501 of a proxy":        {501, html, Ambiguous},
		"595 of pveproxy":       {595, "", Unavailable},
	} {
		s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { reply(w, c.status, http.StatusText(c.status), c.body) })
		client := s.client(t)
		if _, err := client.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"}); KindOf(err) != c.want || len(s.requests()) != 1 {
			t.Errorf("%s: %d requests, %s, want %s: %v", name, len(s.requests()), KindOf(err), c.want, err)
		}
	}
}
