package pve

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestRefusedTokenIsRemembered: two refusals in a row stand for the next requests, reads and writes, with the server's
// words. After ten seconds the server is asked again, since an administrator may have extended the token.
func TestRefusedTokenIsRemembered(t *testing.T) {
	var refuses atomic.Bool
	refuses.Store(true)
	s := newServer(t, func(w http.ResponseWriter, _ seen, _ int) {
		if refuses.Load() {
			reply(w, 401, "token 'tf' access expired", "")
			return
		}
		data(w, `{"version":"8.4.1"}`)
	})
	c := s.client(t)
	ask := func(sent int, want string) {
		t.Helper()
		before := len(s.requests())
		_, err := c.Node("pve1").Version(t.Context())
		if got := len(s.requests()) - before; got != sent {
			t.Errorf("%d requests, want %d", got, sent)
		}
		if want == "" && err == nil {
			return
		}
		if err == nil || !IsKind(err, Denied) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	const refused = "read the version of node pve1: token 'tf' access expired"
	ask(1, refused)
	ask(1, refused)
	for range 50 {
		ask(0, refused)
	}
	before := len(s.requests())
	_, err := c.Node("pve1").CreateVM(t.Context(), Params{"vmid": "100"})
	if len(s.requests()) != before || !IsKind(err, Denied) || IsKind(err, Ambiguous) ||
		!strings.HasPrefix(err.Error(), "create VM 100 on node pve1: token") {
		t.Errorf("a write: %v", err)
	}
	s.clock.advance(9 * time.Second)
	ask(0, refused)
	s.clock.advance(time.Second)
	ask(1, refused)
	ask(0, refused)
	refuses.Store(false)
	s.clock.advance(10 * time.Second)
	ask(1, "")
	ask(1, "")
}

// TestOneRefusalIsNotBelieved: a 401 between other answers, as of a node whose clock is wrong, keeps no request back, and
// neither does any number of those of a proxy.
func TestOneRefusalIsNotBelieved(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, int){
		"every second": func(w http.ResponseWriter, n int) {
			if n%2 == 0 {
				reply(w, 401, "Authentication failed!", "")
				return
			}
			data(w, `{"version":"8.4.1"}`)
		},
		"a proxy's": func(w http.ResponseWriter, _ int) { reply(w, 401, "Unauthorized", "<html>") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(w http.ResponseWriter, _ seen, n int) { answer(w, n) })
			c := s.client(t)
			for range 20 {
				_, _ = c.Node("pve1").Version(t.Context())
			}
			if n := len(s.requests()); n != 20 {
				t.Errorf("%d requests were sent of 20", n)
			}
		})
	}
}

// TestRefusedLoginIsNotRepeated: a wrong password or code is sent once, and again after ten minutes: a directory locks an
// account after a few. A ticket that PVE refuses although it has just given it is no wrong password.
func TestRefusedLoginIsNotRepeated(t *testing.T) {
	ts := newTicketServer(t)
	c := ts.userClient(t, func(cfg *Config) { cfg.Password = "swordfish" })
	for _, step := range []struct {
		pause  time.Duration
		logins int
	}{{0, 1}, {time.Minute, 1}, {9*time.Minute - time.Second, 1}, {time.Second, 2}, {time.Second, 2}} {
		ts.clock.advance(step.pause)
		_, err := c.Node("pve1").Version(t.Context())
		if want := "read the version of node pve1: log in as root@pam: authentication failure"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if n := len(ts.requests()); n != step.logins {
			t.Errorf("after %s: %d logins, want %d", step.pause, n, step.logins)
		}
	}
}
