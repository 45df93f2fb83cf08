package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/proxy"
)

// TestWireFormat has what the HTTP layer itself says, before or beside the API.
func TestWireFormat(t *testing.T) {
	g := newRig(t, nil)
	auth := "Authorization: PVEAPIToken=root@pam!tf=" + g.w.Tokens["root@pam!tf"].Secret + "\r\n"
	form := "Content-Type: application/x-www-form-urlencoded\r\n"
	for name, row := range map[string]struct{ text, want string }{
		"method":    {"PATCH /api2/json/version HTTP/1.1\r\n" + auth + "\r\n", "501 method 'PATCH' not available"},
		"head":      {"HEAD /api2/json/version HTTP/1.1\r\n" + auth + "\r\n", "501 method 'HEAD' not available"},
		"version":   {"GET /api2/json/version HTTP/2.0\r\n" + auth + "\r\n", "506 http protocol version 2.0 not supported"},
		"no header": {"GET /api2/json/version HTTP/1.1\r\nrubbish\r\n\r\n", "506 unable to parse request header"},
		"chunked": {"POST /api2/json/pools HTTP/1.1\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			"501 chunked transfer encoding not supported"},
		"DELETE body": {"DELETE /api2/json/pools/web HTTP/1.1\r\n" + auth + form + "Content-Length: 3\r\n\r\na=b",
			"501 Unexpected content for method 'DELETE'"},
		"too large": {fmt.Sprintf("POST /api2/json/pools HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n", auth, form,
			proxy.BodyLimit+1), "501 for data too large"},
		"type": {"POST /api2/json/pools HTTP/1.1\r\n" + auth + "Content-Type: text/xml\r\nContent-Length: 1\r\n\r\nx",
			"506 upload 'Content-Type 'text/xml' not implemented"},
		"upload": {"POST /api2/json/nodes/pve1/storage/local/upload HTTP/1.1\r\n" + auth +
			"Content-Type: text/xml\r\nContent-Length: 1\r\n\r\nx",
			"500 upload 'Content-Type 'text/xml' not implemented"},
		"bad JSON": {"POST /api2/json/pools HTTP/1.1\r\n" + auth +
			"Content-Type: application/json\r\nContent-Length: 1\r\n\r\n{", "500 malformed JSON string: unexpected EOF"},
		"no format": {"GET /api2 HTTP/1.1\r\n" + auth + "\r\n", "501 no such uri"},
		"formatter": {"GET /api2/xml/version HTTP/1.1\r\n" + auth + "\r\n", "501 no formatter for uri /api2/xml/version"},
		"url":       {"GET user@host/api2 HTTP/1.1\r\n\r\n", "400 invalid url"},
		"escaped":   {"GET /api2/json/%6eodes HTTP/1.1\r\n" + auth + "\r\n", "200 OK"},
		"HTTP 1.0":  {"GET /api2/json/version HTTP/1.0\r\n" + auth + "\r\n", "200 OK"},
		"header size": {"GET /api2/json/version HTTP/1.1\r\nX: " + strings.Repeat("x", proxy.MaxHeaderBytes) + "\r\n\r\n",
			""},
		"header rows": {"GET /api2/json/version HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", proxy.MaxHeaderLines+1) + "\r\n",
			""},
	} {
		got := g.raw(row.text)
		want := row.want
		if want != "" {
			want = "HTTP/1.1 " + want
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestFormDecoding(t *testing.T) {
	for form, want := range map[string]map[string]string{
		"a=b;c=d&e":       {"a": "b", "c": "d", "e": ""},
		"a=b=c":           {"a": "b"}, // a second = truncates
		"a=b%3Dc%3Bd%26e": {"a": "b=c;d&e"},
		"a=x+y%2Bz":       {"a": "x y+z"},
		"a=1&a=2":         {"a": "1\x002"},
		"_dc=5&a=%C3%A4":  {"a": "ä"},
		"a=%zz":           {"a": "%zz"},
	} {
		got := map[string]string{}
		proxy.DecodeForm(got, form)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %q, want %q", form, got, want)
		}
	}
}

func TestQueryWinsAndConflictsAreRefused(t *testing.T) {
	g := newRig(t, nil)
	q := g.request("root@pam!tf", "POST", "/pools?poolid=fromquery", url.Values{"poolid": {"frombody"}})
	if r := g.send(q); r.status != 200 || g.w.Pools["fromquery"] == nil || g.w.Pools["frombody"] != nil {
		t.Errorf("%d %s, pools %v", r.status, r.reason, g.w.Pools)
	}
	r := g.do("root@pam!tf", "PUT", "/pools/web", "poolid=other")
	if r.body.Errors["poolid"] != "duplicate parameter (already defined in URI) with conflicting values!" {
		t.Errorf("conflict: %d %v", r.status, r.body.Errors)
	}
	if r := g.do("root@pam!tf", "PUT", "/pools/web", "poolid=web&comment=x"); r.status != 200 {
		t.Errorf("same value: %d %s", r.status, r.reason)
	}
}

func TestJSONBody(t *testing.T) {
	g := newRig(t, nil)
	q := g.request("root@pam!tf", "PUT", "/pools/web", nil)
	q.Body = io.NopCloser(strings.NewReader(`{"vms":[8000,"9000"],"allow-move":true,"comment":null}`))
	q.ContentLength = int64(len(`{"vms":[8000,"9000"],"allow-move":true,"comment":null}`))
	q.Header.Set("Content-Type", "application/json")
	if r := g.send(q); r.status != 200 || fmt.Sprint(g.w.Pools["web"].Guests) != "[8000 9000]" {
		t.Errorf("%d %s %v %v", r.status, r.reason, r.body.Errors, g.w.Pools["web"].Guests)
	}
	if r := g.do("root@pam!tf", "PUT", "/pools/web",
		"allow-move=true"); r.body.Errors["allow-move"] != "type check ('boolean') failed - got 'true'" {
		t.Errorf("strict boolean: %v", r.body.Errors)
	}
}

func TestProfiles(t *testing.T) {
	for _, row := range []struct {
		profile, message, token string
		limit                   int
	}{
		{"8.0", "", "invalid token value!", proxy.OldBodyLimit},
		{"8.4", "pool 'none' does not exist\n", "Authentication failed!", proxy.BodyLimit},
		{"9.0", "pool 'none' does not exist\n", "invalid token value!", proxy.BodyLimit},
		{"9.2", "pool 'none' does not exist\n", "Authentication failed!", proxy.BodyLimit},
	} {
		t.Run(row.profile, func(t *testing.T) {
			g := newRig(t, func(c *engine.Config) { c.World.Profile = row.profile })
			r := g.do("root@pam!tf", "GET", "/pools/none", "")
			if r.body.Message != row.message || r.reason != "pool 'none' does not exist" {
				t.Errorf("message %q, reason %q", r.body.Message, r.reason)
			}
			q := g.request("none", "GET", "/version", nil)
			q.Header.Set("Authorization", "PVEAPIToken=root@pam!tf=wrong")
			if r := g.send(q); r.reason != row.token || r.status != 401 {
				t.Errorf("bad token: %d %s", r.status, r.reason)
			}
			if r := g.do("root@pam!tf", "POST", "/pools", "poolid=p&comment="+strings.Repeat("x",
				row.limit-17)); r.status != 200 {
				t.Errorf("largest body: %d %s", r.status, r.reason)
			}
			if r := g.do("root@pam!tf", "GET", "/version", ""); r.object(t)["release"] != row.profile {
				t.Errorf("version %s", r.text)
			}
		})
	}
}

func TestUnauthorizedIsDelayedOnTheClustersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		before, start := g.clock.Now(), time.Now()
		g.do("none", "GET", "/version", "")
		if d := g.clock.Now().Sub(before); d != 3*time.Second {
			t.Errorf("cluster's clock moved by %v", d)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("took %v of the machine's time", d)
		}
	})
}

// TestIdleConnectionEnds: on the machine's clock a silent connection is cut, on a virtual one it is not.
func TestIdleConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *engine.Config) { c.World.Clock = clock.Real{} })
		c := g.dial()
		defer func() { _ = c.Close() }()
		start := time.Now()
		_, err := c.Read(make([]byte, 1))
		if d := time.Since(start); err == nil || d != proxy.IdleTimeout {
			t.Errorf("ended after %v: %v", d, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil)
		c := g.dial()
		defer func() { _ = c.Close() }()
		time.Sleep(2 * proxy.IdleTimeout)
		if err := c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("on a virtual clock: %v", err)
		}
	})
}

func TestOfflineNode(t *testing.T) {
	g := newRig(t, nil)
	g.w.Nodes["pve2"].Online = false
	r := g.do("root@pam!tf", "GET", "/nodes/pve2/status", "")
	if r.status != 595 || r.reason != "No route to host" || r.text != "" {
		t.Errorf("%d %s %q", r.status, r.reason, r.text)
	}
	if r := g.do("root@pam!tf", "GET", "/nodes/localhost/status", ""); r.status != 200 {
		t.Errorf("localhost: %d %s", r.status, r.reason)
	}
	for _, row := range g.do("root@pam!tf", "GET", "/nodes", "").list() {
		want := map[any]string{"pve1": "online", "pve2": "offline"}[row["node"]]
		if row["status"] != want {
			t.Errorf("node %v is %v", row["node"], row["status"])
		}
	}
}

func TestUnsimulatedRouteNamesItself(t *testing.T) {
	g := newRig(t, nil)
	r := g.do("root@pam!tf", "GET", "/nodes/pve1/ceph/status", "")
	if r.status != 501 || r.reason != "Method 'GET /nodes/{node}/ceph/status' not simulated" {
		t.Errorf("%d %s", r.status, r.reason)
	}
}

func TestRequestFaults(t *testing.T) {
	g := newRig(t, nil)
	g.faults(
		fault.Rule{Match: fault.Match{Method: "POST", Path: "/pools", Nth: 2}, Phase: fault.Before, Status: 596,
			Reason: "Connection timed out"},
		fault.Rule{Match: fault.Match{Path: "/pools", Nth: 3}, Phase: fault.After},
		fault.Rule{Match: fault.Match{Path: "/version"}, Phase: fault.Before, Times: 2},
	)
	if r := g.do("root@pam!tf", "POST", "/pools", "poolid=a"); r.status != 200 {
		t.Errorf("first: %d", r.status)
	}
	if r := g.do("root@pam!tf", "POST", "/pools", "poolid=b"); r.status != 596 || r.reason != "Connection timed out" ||
		g.w.Pools["b"] != nil {
		t.Errorf("second: %d %s", r.status, r.reason)
	}
	if _, err := g.try(g.request("root@pam!tf", "POST", "/pools", url.Values{"poolid": {"c"}})); err == nil ||
		g.w.Pools["c"] == nil {
		t.Errorf("third: must be done, and its answer lost: %v", err)
	}
	statuses := []int{}
	for range 3 {
		statuses = append(statuses, g.do("root@pam!tf", "GET", "/version", "").status)
	}
	if fmt.Sprint(statuses) != "[500 500 200]" || g.s.Faults().Effective() != 4 {
		t.Errorf("statuses %v, effective %d", statuses, g.s.Faults().Effective())
	}
	var seen []string
	for _, op := range g.s.Ops() {
		seen = append(seen, fmt.Sprintf("%d %s %s %d", op.Seq, op.Method, op.Path, op.Status))
	}
	want := "[1 POST /pools 200 2 POST /pools 596 3 POST /pools 200 4 GET /version 500 5 GET /version 500 6 GET " +
		"/version 200]"
	if fmt.Sprint(seen) != want {
		t.Errorf("operations %v", seen)
	}
}

func TestControlPlane(t *testing.T) {
	g := newRig(t, nil)
	control := func(method, path, body string) (int, string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, "http://sim/_sim"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r := g.send(q)
		return r.status, r.text
	}
	_, before := control("GET", "/snapshot", "")
	g.do("root@pam!tf", "POST", "/pools", "poolid=extra")
	_, changed := control("GET", "/snapshot", "")
	if changed == before {
		t.Fatal("the snapshot does not show a pool")
	}
	if status, text := control("POST", "/state", changed); status != 200 {
		t.Fatalf("state: %d %s", status, text)
	}
	if _, again := control("GET", "/snapshot", ""); again != changed {
		t.Error("post then get differs")
	}
	for _, bad := range []string{"{", `{"unknown":1}`, `[]`} {
		if status, _ := control("POST", "/state", bad); status != 400 {
			t.Errorf("state %s: %d", bad, status)
		}
	}
	if status, _ := control("PUT", "/faults", `[{"match":{"path":"/version"},"phase":"never"}]`); status != 400 {
		t.Errorf("unknown phase: %d", status)
	}
	rule := `[{"match":{"seq":7,"method":"GET","path":"/version","vmid":100,"nth":1},"phase":"after","times":1,"status":500,"reason":"x","delay_ms":0}]`
	if status, text := control("PUT", "/faults", rule); status != 200 {
		t.Errorf("faults: %d %s", status, text)
	}
	if status, _ := control("DELETE", "/faults", ""); status != 200 || len(g.s.Faults().List()) != 0 {
		t.Error("faults remain")
	}
	if status, _ := control("POST", "/reset", ""); status != 200 {
		t.Error("reset refused")
	}
	if _, after := control("GET", "/snapshot", ""); after != before {
		t.Error("reset does not lead back")
	}
	if _, ops := control("GET", "/ops", ""); ops != "[]" {
		t.Errorf("operations after reset: %s", ops)
	}
}
