package handle

import (
	"strings"
	"testing"
)

// TestRefusalsOfConfigurations: what PVE refuses of access lists, HA resources and storages, in its words.
func TestRefusalsOfConfigurations(t *testing.T) {
	g := newRig(t, nil)
	const acl, vm = "/access/acl", "/cluster/ha/resources/vm:8000"
	g.do("root@pam!tf", "POST", "/cluster/ha/resources", "sid=vm:8000")
	before := string(g.s.Snapshot())
	for _, c := range []struct{ method, path, params, want string }{
		{"PUT", acl, "path=/&roles=PVEAuditor", "either 'users', 'groups' or 'tokens' is required."},
		{"PUT", acl, "path=/nosuch&roles=PVEAuditor&users=root@pam", "invalid ACL path '/nosuch'"},
		{"PUT", acl, "path=/&roles=Nobody&users=root@pam", "ACL update failed: role 'Nobody' does not exist"},
		{"PUT", acl, "path=/&roles=PVEAuditor&users=x@pve", "ACL update failed: user 'x@pve' does not exist"},
		{"PUT", acl, "path=/&roles=PVEAuditor&groups=admins", "ACL update failed: group 'admins' does not exist"},
		{"PUT", acl, "path=/&roles=PVEAuditor&tokens=terraform@pve!other", "ACL update failed: no such token 'other' for user 'terraform@pve'"},
		{"PUT", acl, "path=/&roles=PVEAuditor&tokens=x@pve!other", "ACL update failed: no such user ('x@pve')"},
		{"PUT", vm, "group=nosuch", "HA group 'nosuch' does not exist"},
		{"PUT", vm, "delete=foo", "update resources config failed: no such option 'foo'"},
		{"POST", "/storage", "storage=new&type=dir&path=/srv&pool=rpool", "unexpected property 'pool'"},
		{"POST", "/storage", "storage=new&type=dir", "missing value for required option 'path'"},
	} {
		r := g.do("root@pam!tf", c.method, c.path, c.params)
		said := r.reason + " " + r.text
		if r.status < 400 || !strings.Contains(said, c.want) {
			t.Errorf("%s %s %s: %d %s, want %s", c.method, c.path, c.params, r.status, said, c.want)
		}
	}
	if after := string(g.s.Snapshot()); after != before {
		t.Errorf("a refusal changed something:\n%s\n%s", before, after)
	}
	if ha := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/8000/status/current", "").object(t)["ha"].(map[string]any); len(ha) != 3 || ha["group"] != nil {
		t.Errorf("ha: %v", ha)
	}
}
