package server

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestURLMetadata(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/images/disk.qcow2":
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Length", "196624")
		case "/latest":
			w.Header().Set("Content-Disposition", `attachment; filename="debian 12.qcow2"`)
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		default:
			http.NotFound(w, q)
		}
		if q.Method != http.MethodHead {
			t.Errorf("%s %s: only the head is asked for", q.Method, q.URL)
		}
	}))
	t.Cleanup(web.Close)
	g := newRig(t, nil)
	ask := func(as, address string) reply {
		return g.do(as, "GET", "/nodes/pve1/query-url-metadata", "url="+url.QueryEscape(address))
	}
	for address, want := range map[string]map[string]any{
		web.URL + "/images/disk.qcow2?a=/b": {"filename": "disk.qcow2", "size": 196624.0,
			"mimetype": "application/octet-stream"},
		web.URL + "/latest": {"filename": "debian 12.qcow2", "mimetype": "text/html"},
	} {
		if diff := cmp.Diff(want, ask("terraform@pve!prov", address).object(t)); diff != "" {
			t.Errorf("%s: %s", address, diff)
		}
	}
	for _, row := range []struct{ as, address, reason string }{
		{"terraform@pve!prov", web.URL + "/none", "invalid server response: '404 Not Found'"},
		{"terraform@pve!prov", "http://127.0.0.1:1/a",
			"invalid server response: '500 Can't connect to 127.0.0.1:1 (Connection refused)'"},
		{"terraform@pve!prov", "http://example.invalid/a",
			"invalid server response: '500 Can't connect to example.invalid:80 (Network is unreachable)'"},
		{"terraform@pve!prov", "ftp://127.0.0.1/a", "Parameter verification failed."},
		{"auditor@pve!ro", web.URL + "/latest", "Permission check failed"},
	} {
		if r := ask(row.as, row.address); r.reason != row.reason {
			t.Errorf("%s asks for %s: %q", row.as, row.address, r.reason)
		}
	}
}

func TestNameServiceOfANode(t *testing.T) {
	g := newRig(t, nil)
	dns := g.do("auditor@pve!ro", "GET", "/nodes/pve1/dns", "").object(t)
	if diff := cmp.Diff(map[string]any{"search": "example.com", "dns1": "192.0.2.1"}, dns); diff != "" {
		t.Error(diff)
	}
	hosts := g.do("auditor@pve!ro", "GET", "/nodes/pve1/hosts", "").object(t)
	const want = "127.0.0.1 localhost.localdomain localhost\n192.0.2.11 pve1.example.com pve1\n"
	if hosts["data"] != want || len(hosts["digest"].(string)) != 40 {
		t.Errorf("%q", hosts)
	}
}
