package pve

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReferences: what names guests elsewhere.
func TestReferences(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
		switch s.path {
		case "/cluster/ha/resources":
			data(w, `[{"sid":"vm:100","state":"started","digest":"abc","type":"vm","max_restart":1},{"sid":"ct:101","type":"ct","state":"ignored"}]`)
		case "/pools":
			data(w, `[{"poolid":"web"},{"poolid":"prod/db","comment":"x"}]`)
		case "/access/acl":
			data(w, `[{"path":"/vms/100","type":"token","ugid":"a@pve!b","roleid":"PVEVMUser","propagate":1}]`)
		}
	})
	c := s.client(t)
	sids, err := c.HA().Resources(t.Context())
	if diff := cmp.Diff([]string{"vm:100", "ct:101"}, sids); err != nil || diff != "" {
		t.Error(err, diff)
	}
	pools, err := c.Pools().List(t.Context())
	if diff := cmp.Diff([]string{"web", "prod/db"}, pools); err != nil || diff != "" {
		t.Error(err, diff)
	}
	entries, err := c.Access().ACL(t.Context())
	want := []ACLEntry{{Path: "/vms/100", Type: "token", Subject: "a@pve!b", Role: "PVEVMUser", Propagate: true}}
	if diff := cmp.Diff(want, entries); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// TestHidden: the content that a listing of a storage leaves out, by content type and privilege.
func TestHidden(t *testing.T) {
	const disks, snippets, backups = "disks on storage x: needs Datastore.Allocate on the storage, or Datastore.Audit there and VM.Config.Disk on /vms",
		"snippets on storage x: needs Datastore.Allocate on the storage",
		"backups on storage x: needs Datastore.Allocate on the storage, or Datastore.AllocateSpace there and VM.Backup on /vms"
	for _, c := range []struct {
		storage, guests string // privileges
		content         []string
		want            []string
	}{
		{`{}`, `{}`, []string{"images", "iso", "snippets", "backup"}, []string{disks, snippets, backups}},
		{`{"Datastore.Allocate":0}`, `{}`, []string{"images", "snippets", "backup"}, nil},
		{`{"Datastore.Audit":1}`, `{"VM.Config.Disk":1}`, []string{"images", "rootdir", "backup"}, []string{backups}},
		{`{"Datastore.AllocateSpace":1}`, `{"VM.Config.Disk":1,"VM.Backup":1}`, []string{"rootdir", "backup"}, []string{disks}},
		{`{}`, `{}`, []string{"iso", "import", "vztmpl"}, nil},
	} {
		s := newServer(t, func(w http.ResponseWriter, s seen, _ int) {
			if path := s.form.Get("path"); path == "/vms" {
				data(w, `{"/vms":`+c.guests+`}`)
			} else {
				data(w, `{"`+path+`":`+c.storage+`}`)
			}
		})
		got, err := s.client(t).Access().Hidden(t.Context(), "x", c.content)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s %s: %v %s", c.storage, c.guests, err, diff)
		}
	}
}

// TestHARule: options that PVE leaves out of a rule are read as not set, and the reasons why HA passes over it are kept.
func TestHARule(t *testing.T) {
	s := newServer(t, constant(`{"type":"node-affinity","rule":"r","resources":"vm:200,vm:100","nodes":"b:2,a","disable":1,"order":1,"digest":"d",`+
		`"errors":{"resources":["one","two"]}}`))
	got, digest, err := s.client(t).HA().Rule(t.Context(), "r")
	want := HARule{ID: "r", Type: "node-affinity", Resources: []string{"vm:100", "vm:200"}, Nodes: map[string]int64{"a": 0, "b": 2}, Disabled: true,
		Problems: []string{"resources: one", "resources: two"}}
	if diff := cmp.Diff(want, got); err != nil || digest != "d" || diff != "" {
		t.Errorf("%v, digest %s (-want +got):\n%s", err, digest, diff)
	}
	s = newServer(t, func(w http.ResponseWriter, _ seen, _ int) { die(w, "no such ha rule 'r'") })
	if _, _, err := s.client(t).HA().Rule(t.Context(), "r"); !IsKind(err, NotFound) {
		t.Errorf("a rule that is not there: %v", err)
	}
}
