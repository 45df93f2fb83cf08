package pve

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFirewall: the keys that PVE adds to a rule in a listing are no properties of the rule.
func TestFirewall(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		if strings.HasSuffix(s.path, "/options") {
			data(w, `{"enable":1,"policy_in":"DROP","macfilter":"0","digest":"f1"}`)
			return
		}
		data(w, `[{"pos":0,"type":"in","action":"ACCEPT","enable":1,"proto":"tcp","dport":22,"ipversion":4,"digest":"f2"},
			{"pos":1,"type":"group","action":"web","enable":0,"digest":"f2"},
			{"pos":2,"type":"in","action":"DROP","source":"+gone","digest":"f2","errors":{"source":"no such ipset 'gone'"}}]`)
	})
	c := s.client(t)
	options, err := c.Firewall("pve1", 100).Options(t.Context())
	want := FirewallOptions{Values: map[string]string{"enable": "1", "policy_in": "DROP", "macfilter": "0"}, Digest: "f1"}
	if err != nil || !cmp.Equal(options, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, options))
	}
	rules, err := c.Firewall("pve1", 100).Rules(t.Context())
	wantRules := FirewallRules{Digest: "f2", Rules: []map[string]string{
		{"type": "in", "action": "ACCEPT", "enable": "1", "proto": "tcp", "dport": "22"},
		{"type": "group", "action": "web", "enable": "0"},
		{"type": "in", "action": "DROP", "source": "+gone"},
	}, Problems: []string{"rule 2, source: no such ipset 'gone'"}}
	if err != nil || !cmp.Equal(rules, wantRules) {
		t.Errorf("%v %s", err, cmp.Diff(wantRules, rules))
	}
}

// TestHAResourcesWithErrors: PVE says of an entry that its group is gone, in an object (pve-ha-manager
// API2/HA/Resources.pm index).
func TestHAResourcesWithErrors(t *testing.T) {
	s := newServer(t, constant(`[{"sid":"vm:100","type":"vm"},
		{"sid":"ct:101","group":"x","errors":{"group":"group 'x' does not exist"}}]`))
	sids, err := s.client(t).HA().Resources(t.Context())
	if want := []string{"vm:100", "ct:101"}; err != nil || !cmp.Equal(sids, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, sids))
	}
}

func TestHAResource(t *testing.T) {
	s := newServer(t, constant(`{"sid":"vm:100","type":"vm","state":"started","max_restart":"0","digest":"h1"}`))
	entry, err := s.client(t).HA().Resource(t.Context(), 100)
	want := HAResource{Options: map[string]string{"state": "started", "max_restart": "0"}, Digest: "h1"}
	if err != nil || !cmp.Equal(entry, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, entry))
	}
}
