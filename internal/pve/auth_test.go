package pve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// ticketServer knows one user with a password. Tickets are numbered; only the latest is taken.
type ticketServer struct {
	*server
	mu       sync.Mutex
	issued   int
	logins   []url.Values
	needTOTP bool
	refuse   bool // every ticket
	outrun   int  // how many tickets run out on their way, as where the client's machine sleeps
}

func newTicketServer(t *testing.T) *ticketServer {
	ts := &ticketServer{}
	ts.server = newServer(t, ts.answer)
	return ts
}

func (ts *ticketServer) answer(w http.ResponseWriter, s seen, _ int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if s.path == "/access/ticket" {
		ts.logins = append(ts.logins, s.form)
		ts.ticket(w, s.form)
		return
	}
	cookie, _ := url.QueryUnescape(strings.TrimPrefix(s.header.Get("Cookie"), "PVEAuthCookie="))
	switch {
	case ts.outrun > 0:
		ts.outrun--
		ts.clock.advance(3 * time.Hour)
		reply(w, 401, "permission denied - invalid PVE ticket", "")
	case ts.refuse || cookie != ts.current():
		reply(w, 401, "permission denied - invalid PVE ticket", "")
	case s.method != http.MethodGet && s.header.Get("CSRFPreventionToken") != fmt.Sprintf("csrf+%d", ts.issued):
		reply(w, 401, "Permission denied - invalid csrf token", "")
	default:
		data(w, `{"version":"8.4.1"}`)
	}
}

func (ts *ticketServer) current() string { return fmt.Sprintf("PVE:root@pam:ticket+%d==", ts.issued) }

func (ts *ticketServer) ticket(w http.ResponseWriter, form url.Values) {
	password := form.Get("password")
	switch {
	case strings.HasPrefix(password, "totp:") && form.Get("tfa-challenge") == "PVE:!tfa!challenge":
	case ts.issued > 0 && password == ts.current():
	case password != "hunter22":
		reply(w, 401, "authentication failure", `{"data":null,"message":"authentication failure\n"}`)
		return
	case ts.needTOTP:
		data(w, `{"username":"root@pam","NeedTFA":1,"ticket":"PVE:!tfa!challenge","CSRFPreventionToken":"x"}`)
		return
	}
	ts.issued++
	data(w, fmt.Sprintf(`{"username":"root@pam","ticket":%q,"CSRFPreventionToken":"csrf+%d"}`, ts.current(), ts.issued))
}

func (ts *ticketServer) userClient(t *testing.T, change func(*Config)) *Client {
	cfg := ts.config()
	cfg.APIToken, cfg.Username, cfg.Password = "", "root@pam", "hunter22"
	if change != nil {
		change(&cfg)
	}
	return newClient(t, cfg)
}

func TestTokenHeader(t *testing.T) {
	s := newServer(t, constant(`null`))
	c := s.client(t)
	if err := c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "x"}); err != nil {
		t.Fatal(err)
	}
	h := s.requests()[0].header
	if h.Get("Authorization") != "PVEAPIToken="+testToken || h.Get("Cookie") != "" || h.Get("CSRFPreventionToken") != "" {
		t.Errorf("headers %v", h)
	}
}

func TestTokenIsNotTriedTwice(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { reply(w, 401, "Authentication failed!", "") })
	_, err := s.client(t).Cluster().Version(t.Context())
	if !IsKind(err, Denied) || len(s.requests()) != 1 {
		t.Fatalf("%v after %d requests", err, len(s.requests()))
	}
	if want := "read the server's version: Authentication failed!"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestLoginIsLazyAndShared(t *testing.T) {
	ts := newTicketServer(t)
	c := ts.userClient(t, nil)
	if n := len(ts.requests()); n != 0 {
		t.Fatalf("New made %d requests", n)
	}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if err := c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "x"}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(ts.logins) != 1 {
		t.Errorf("%d logins", len(ts.logins))
	}
}

func TestCSRFOnlyOnWrites(t *testing.T) {
	ts := newTicketServer(t)
	c := ts.userClient(t, nil)
	if _, err := c.Node("pve1").Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "x"}); err != nil {
		t.Fatal(err)
	}
	all := ts.requests()
	if h := all[1].header; h.Get("CSRFPreventionToken") != "" || h.Get("Authorization") != "" {
		t.Errorf("read: %v", h)
	}
	if h := all[2].header; h.Get("CSRFPreventionToken") == "" {
		t.Errorf("write: %v", h)
	}
}

func TestTicketIsRenewedWithItself(t *testing.T) {
	ts := newTicketServer(t)
	c := ts.userClient(t, nil)
	for _, step := range []struct {
		pause  time.Duration
		logins int
	}{{0, 1}, {89 * time.Minute, 1}, {2 * time.Minute, 2}, {time.Hour, 2}, {3 * time.Hour, 3}} {
		ts.clock.advance(step.pause)
		if _, err := c.Node("pve1").Version(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(ts.logins) != step.logins {
			t.Fatalf("after %s: %d logins, want %d", step.pause, len(ts.logins), step.logins)
		}
	}
	if got := ts.logins[1].Get("password"); got != "PVE:root@pam:ticket+1==" {
		t.Errorf("renewed with %q", got)
	}
	if got := ts.logins[2].Get("password"); got != "hunter22" {
		t.Errorf("an expired ticket was replaced with %q", got)
	}
}

func TestRefusedTicketMeansOneFreshLogin(t *testing.T) {
	ts := newTicketServer(t)
	c := ts.userClient(t, nil)
	if _, err := c.Node("pve1").Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	ts.mu.Lock()
	ts.issued++ // the server forgets the ticket that we have
	ts.mu.Unlock()
	if err := c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "x"}); err != nil {
		t.Fatal(err)
	}
	if len(ts.logins) != 2 {
		t.Errorf("%d logins", len(ts.logins))
	}
	ts.mu.Lock()
	ts.refuse = true
	ts.mu.Unlock()
	before := len(ts.requests())
	_, err := c.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"})
	if !IsKind(err, Denied) || !strings.Contains(err.Error(), "create VM 100 on node pve1: permission denied - invalid PVE ticket") {
		t.Errorf("got %v", err)
	}
	if n := len(ts.requests()) - before; n != 3 {
		t.Errorf("%d requests: wanted the write, one login, the write", n)
	}
}

// TestTicketsThatRunOutOnTheirWay: however often a ticket has run out by the time that PVE looks at it, the request goes
// on. A ticket that is refused young is replaced once.
func TestTicketsThatRunOutOnTheirWay(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		for refuse, logins := range map[bool]int{false: 5, true: 6} {
			ts := newTicketServer(t)
			ts.outrun, ts.refuse = 4, refuse
			c := ts.userClient(t, nil)
			var err error
			if method == http.MethodGet {
				_, err = c.Cluster().Version(t.Context())
			} else {
				err = c.QEMU("pve1", 100).UpdateConfig(t.Context(), Params{"name": "x"})
			}
			if (err != nil) != refuse || refuse && !IsKind(err, Denied) || len(ts.logins) != logins {
				t.Errorf("%s, then refused young %t: %d logins, want %d: %v", method, refuse, len(ts.logins), logins, err)
			}
		}
	}
}

func TestWrongPassword(t *testing.T) {
	ts := newTicketServer(t)
	c := ts.userClient(t, func(cfg *Config) { cfg.Password = "swordfish" })
	_, err := c.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"})
	if !IsKind(err, Denied) {
		t.Errorf("kind %s: %v", KindOf(err), err)
	}
	if want := "create VM 100 on node pve1: log in as root@pam: authentication failure"; err == nil || err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if n := len(ts.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestLostLoginIsNotAmbiguous(t *testing.T) {
	n := 0
	s := newServer(t, func(w http.ResponseWriter, r seen, _ int) {
		if r.path != "/access/ticket" {
			data(w, `"UPID:pve1:00005366:00057C72:6B00502E:qmcreate:100:root@pam:"`)
			return
		}
		if n++; n < 3 {
			cut(w)
			return
		}
		data(w, `{"ticket":"PVE:x","CSRFPreventionToken":"y"}`)
	})
	cfg := s.config()
	cfg.APIToken, cfg.Username, cfg.Password = "", "root@pam", "hunter22"
	c := newClient(t, cfg)
	if _, err := c.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"}); err != nil {
		t.Errorf("a login that had to be repeated: %v", err)
	}
}

func TestSecondFactor(t *testing.T) {
	ts := newTicketServer(t)
	ts.needTOTP = true
	c := ts.userClient(t, func(cfg *Config) { cfg.TOTPSecret = "jbsw y3dp ehpk 3pxp" })
	for range 2 {
		if _, err := c.Node("pve1").Version(t.Context()); err != nil {
			t.Fatal(err)
		}
		ts.mu.Lock()
		ts.issued++ // so that the next one logs in again, within the same 30 s
		ts.mu.Unlock()
	}
	if len(ts.logins) != 4 {
		t.Fatalf("%d logins", len(ts.logins))
	}
	first, second := ts.logins[1].Get("password"), ts.logins[3].Get("password")
	if len(first) != len("totp:123456") || first == second {
		t.Errorf("codes %q and %q: PVE takes each once", first, second)
	}
	if ts.logins[1].Get("tfa-challenge") != "PVE:!tfa!challenge" || ts.logins[1].Get("username") != "root@pam" {
		t.Errorf("answer to the challenge: %v", ts.logins[1])
	}
}

// totpServer takes each code of a second factor once, over all processes, and knows the codes that are wrong.
func totpServer(t *testing.T, wrong bool) (s *server, sent *[]string) {
	used, codes := map[string]bool{}, []string{}
	return newServer(t, func(w http.ResponseWriter, r seen, _ int) {
		if r.path != "/access/ticket" {
			data(w, `{"version":"8.4.1"}`)
			return
		}
		switch p := r.form.Get("password"); {
		case strings.HasPrefix(p, "totp:") && (wrong || used[p]):
			codes = append(codes, p)
			reply(w, 401, "authentication failure", `{"data":null,"message":"authentication failure\n"}`)
		case strings.HasPrefix(p, "totp:"):
			used[p], codes = true, append(codes, p)
			data(w, `{"username":"root@pam","ticket":"PVE:root@pam:t","CSRFPreventionToken":"csrf"}`)
		default:
			data(w, `{"username":"root@pam","NeedTFA":1,"ticket":"PVE:!tfa!challenge","CSRFPreventionToken":"x"}`)
		}
	}), &codes
}

// TestSecondProcessWithinATOTPStep: Terraform starts the provider for the plan and again for the apply, within 30 s mostly.
func TestSecondProcessWithinATOTPStep(t *testing.T) {
	s, sent := totpServer(t, false)
	for _, walk := range []string{"plan", "apply", "another run"} {
		cfg := s.config()
		cfg.APIToken, cfg.Username, cfg.Password, cfg.TOTPSecret = "", "root@pam", "hunter22", "jbsw y3dp ehpk 3pxp"
		if _, err := newClient(t, cfg).Node("pve1").Version(t.Context()); err != nil {
			t.Errorf("%s: %v", walk, err)
		}
	}
	if want := 1 + 2 + 3; len(*sent) != want {
		t.Errorf("%d codes sent, want %d: %v", len(*sent), want, *sent)
	}
}

// TestWrongTOTPSecretLocksNoAccount: PVE locks the factor after too many refusals.
func TestWrongTOTPSecretLocksNoAccount(t *testing.T) {
	s, sent := totpServer(t, true)
	cfg := s.config()
	cfg.APIToken, cfg.Username, cfg.Password, cfg.TOTPSecret = "", "root@pam", "hunter22", "jbsw y3dp ehpk 3pxp"
	c := newClient(t, cfg)
	for range 3 {
		_, err := c.Node("pve1").Version(t.Context())
		if !IsKind(err, Denied) || !strings.Contains(err.Error(), "authentication failure") || !strings.Contains(err.Error(), "API token") {
			t.Errorf("got %v", err)
		}
	}
	if len(*sent) != 3 {
		t.Errorf("%d codes sent: %v", len(*sent), *sent)
	}
}

func TestOneTimeCodeServesOnce(t *testing.T) {
	ts := newTicketServer(t)
	ts.needTOTP = true
	c := ts.userClient(t, func(cfg *Config) { cfg.OTP = "123456" })
	if _, err := c.Node("pve1").Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ts.logins[1].Get("password"); got != "totp:123456" {
		t.Errorf("sent %q", got)
	}
	ts.clock.advance(3 * time.Hour)
	if _, err := c.Node("pve1").Version(t.Context()); !IsKind(err, Denied) || !strings.Contains(err.Error(), "used by an earlier login") {
		t.Errorf("got %v", err)
	}
	none := ts.userClient(t, nil)
	if _, err := none.Node("pve1").Version(t.Context()); !IsKind(err, Denied) || !strings.Contains(err.Error(), "second factor") {
		t.Errorf("got %v", err)
	}
}

func TestRenewalThatFailsKeepsAGoodTicket(t *testing.T) {
	broken := false
	var logins int
	s := newServer(t, func(w http.ResponseWriter, r seen, _ int) {
		switch {
		case r.path != "/access/ticket":
			data(w, `{"version":"8.4.1"}`)
		case broken:
			cut(w)
		default:
			logins++
			data(w, `{"ticket":"PVE:x","CSRFPreventionToken":"y"}`)
		}
	})
	cfg := s.config()
	cfg.APIToken, cfg.Username, cfg.Password = "", "root@pam", "hunter22"
	c := newClient(t, cfg)
	ctx := context.Background()
	if _, err := c.Node("pve1").Version(ctx); err != nil {
		t.Fatal(err)
	}
	broken = true
	s.clock.advance(100 * time.Minute)
	if _, err := c.Node("pve1").Version(ctx); err != nil || logins != 1 {
		t.Errorf("%v after %d logins", err, logins)
	}
	s.clock.advance(time.Hour)
	if _, err := c.Node("pve1").Version(ctx); !IsKind(err, Unavailable) {
		t.Errorf("with an expired ticket: %v", err)
	}
}

func TestCancelledLogin(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) { cancel(); <-release; cut(w) })
	defer close(release)
	cfg := s.config()
	cfg.APIToken, cfg.Username, cfg.Password = "", "root@pam", "hunter22"
	_, err := newClient(t, cfg).Node("pve1").CreateVM(ctx, Params{"vmid": "100"})
	if KindOf(err) != Unknown || !errors.Is(err, context.Canceled) {
		t.Errorf("the write was never sent, yet it is %s: %v", KindOf(err), err)
	}
}
