package server

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
		{"PUT", acl, "path=/&roles=Absent&users=root@pam", "ACL update failed: role 'Absent' does not exist"},
		{"PUT", acl, "path=/&roles=PVEAuditor&users=x@pve", "ACL update failed: user 'x@pve' does not exist"},
		{"PUT", acl, "path=/&roles=PVEAuditor&groups=admins", "ACL update failed: group 'admins' does not exist"},
		{"PUT", acl, "path=/&roles=PVEAuditor&tokens=terraform@pve!other",
			"ACL update failed: no such token 'other' for user 'terraform@pve'"},
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
	if ha := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/8000/status/current",
		"").object(t)["ha"].(map[string]any); len(ha) != 3 || ha["group"] != nil {
		t.Errorf("ha: %v", ha)
	}
}

// TestRolesAndStoragesChange: roles are made, changed and deleted, and storages changed, as access-control's
// API2/Role.pm and pve-storage's API2/Storage/Config.pm do it.
func TestRolesAndStoragesChange(t *testing.T) {
	g := newRig(t, nil)
	const roles, local2 = "/access/roles", "/storage/local2"
	digest := g.do("root@pam!tf", "GET", local2, "").object(t)["digest"].(string)
	for _, c := range []struct{ method, path, params, want string }{
		{"POST", roles, "roleid=PveMine&privs=VM.Audit",
			"cannot use role ID starting with the (case-insensitive) 'PVE' namespace"},
		{"POST", roles, "roleid=Mine&privs=VM.Audit,VM.PowerMgmt", "OK"},
		{"POST", roles, "roleid=Mine&privs=VM.Audit", "create role failed: role 'Mine' already exists"},
		{"PUT", roles + "/Mine", "privs=Sys.Audit&append=1", "OK"},
		{"PUT", roles + "/Other", "privs=Sys.Audit", "update role failed: role 'Other' does not exist"},
		{"PUT", roles + "/PVEAuditor", "privs=VM.Allocate", "auto-generated role 'PVEAuditor' cannot be modified"},
		{"DELETE", roles + "/Administrator", "", "auto-generated role 'Administrator' cannot be deleted"},
		{"DELETE", roles + "/Other", "", "delete role failed: role 'Other' does not exist"},
		{"PUT", "/access/acl", "path=/vms/8000&roles=Mine&users=auditor@pve", "OK"},
		{"PUT", "/storage/nosuch", "disable=1", "update storage failed: storage 'nosuch' does not exist"},
		{"PUT", local2, "path=/srv", "property is not defined in schema and the schema does not allow additional properties"},
		{"PUT", local2, "krbd=1", "update storage failed: unexpected property 'krbd'"},
		{"PUT", local2, "delete=foo", "update storage failed: no such option 'foo'"},
		{"PUT", local2, "disable=1&delete=disable",
			"update storage failed: cannot set and delete property 'disable' at the same time!"},
		{"PUT", local2, "content=images,iso&nodes=pve1&disable=1&digest=" + digest, "OK"},
		{"PUT", local2, "disable=0&digest=" + digest,
			"update storage failed: detected modified configuration - file changed by other user? Try again."},
	} {
		r := g.do("root@pam!tf", c.method, c.path, c.params)
		if said := r.reason + " " + r.text; !strings.Contains(said, c.want) || (c.want == "OK") != (r.status == 200) {
			t.Errorf("%s %s %s: %d %s, want %s", c.method, c.path, c.params, r.status, said, c.want)
		}
	}
	if has := g.do("root@pam!tf", "GET", roles+"/Mine", "").object(t); len(has) != 3 || has["Sys.Audit"] != 1.0 ||
		has["VM.PowerMgmt"] != 1.0 {
		t.Errorf("the role has %v", has)
	}
	s := g.do("root@pam!tf", "GET", local2, "").object(t)
	if s["content"] != "images,iso" || s["nodes"] != "pve1" || s["disable"] != 1.0 {
		t.Errorf("the storage is %v", s)
	}
	g.steps([]step{{"", "GET", "/storage/local2/content", "", "storage 'local2' is disabled"}})
	if r := g.do("terraform@pve!prov", "POST", roles, "roleid=Own&privs=VM.Audit"); r.status != 403 {
		t.Errorf("without Sys.Modify on /access: %d %s", r.status, r.reason)
	}
	g.check()
}
