package handle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRecordedErrors holds what a PVE 8.4.21 answered; "tf" is root@pam!tf, "sep" a separated token without entries.
func TestRecordedErrors(t *testing.T) {
	const (
		tf, sep, auditor = "root@pam!tf", "root@pam!sep", "auditor@pve!ro"
		invalid          = "Parameter verification failed."
		missing          = "property is missing and it is not optional"
		ghost            = "/nodes/pve1/tasks/UPID:pve1:00000001:00000001:6B000000:qmstart:100:root@pam:"
	)
	rows := []struct {
		as, method, path, params string
		status                   int
		reason                   string
		errors                   map[string]string
	}{
		{"none", "GET", "/version", "", 401, "No ticket", nil},
		{"none", "POST", "/nodes/pve1/qemu", "vmid=100", 401, "No ticket", nil},
		{"none", "GET", "/nope", "", 401, "No ticket", nil},
		{"none", "POST", "/access/ticket", "username=root@pam&password=wrong", 401, "authentication failure", nil},
		{"none", "POST", "/access/ticket", "username=ghost@pve&password=wrong", 401, "authentication failure", nil},
		{"none", "POST", "/access/ticket", "username=root@nope&password=wrong", 401, "authentication failure", nil},
		{"none", "POST", "/access/ticket", "username=root&password=wrong", 401, "authentication failure", nil},
		{"none", "POST", "/access/ticket", "username=disabled@pve&password=pw", 401, "authentication failure", nil},
		{"none", "POST", "/access/ticket", "", 400, invalid, map[string]string{"username": missing, "password": missing}},
		{tf, "GET", "/nope", "", 501, "Method 'GET /nope' not implemented", nil},
		{tf, "GET", "/nodes/pve1/nope", "", 501, "Method 'GET /nodes/pve1/nope' not implemented", nil},
		{tf, "PUT", "/version", "", 501, "Method 'PUT /version' not implemented", nil},
		{tf, "POST", "/nodes/pve1/qemu/101/importdisk", "", 501, "Method 'POST /nodes/pve1/qemu/101/importdisk' not implemented", nil},
		{sep, "GET", "/nodes/pve1/qemu/999/config", "", 403, "Permission check failed (/vms/999, VM.Audit)", nil},
		{auditor, "DELETE", "/nodes/pve1/qemu/100", "", 403, "Permission check failed (/vms/100, VM.Allocate)", nil},
		{auditor, "PUT", "/nodes/pve1/qemu/100/config", "memory=128", 403, "Permission check failed (/vms/100, VM.Config.Disk|" +
			"VM.Config.CDROM|VM.Config.CPU|VM.Config.Memory|VM.Config.Network|VM.Config.HWType|VM.Config.Options|VM.Config.Cloudinit)", nil},
		{auditor, "POST", "/cluster/ha/resources", "sid=vm:810", 403, "Permission check failed (/, Sys.Console)", nil},
		{tf, "GET", "/nodes/nonode/status", "", 500, "hostname lookup 'nonode' failed - failed to get address info for: nonode: Name or service not known", nil},
		{tf, "GET", "/cluster/nextid", "vmid=9000", 400, invalid, map[string]string{"vmid": "VM 9000 already exists"}},
		{tf, "GET", "/cluster/nextid", "vmid=8100", 400, invalid, map[string]string{"vmid": "CT 8100 already exists"}},
		{tf, "GET", "/cluster/nextid", "vmid=5", 400, invalid, map[string]string{"vmid": "invalid format - value does not look like a valid VM ID\n"}},
		{tf, "GET", "/cluster/log", "limit=3", 400, invalid, map[string]string{"limit": "property is not defined in schema and the schema does not allow additional properties"}},
		{tf, "GET", ghost + "/status", "", 400, invalid, map[string]string{"upid": "no such task"}},
		{tf, "GET", "/nodes/pve1/tasks/UPID:xyz/status", "", 400, invalid, map[string]string{"upid": "unable to parse worker upid"}},
		{sep, "GET", ghost + "/status", "", 403, "Permission check failed (/nodes/pve1, Sys.Audit)", nil},
		{tf, "POST", "/pools", "poolid=web", 500, "create pool failed: pool 'web' already exists", nil},
		{tf, "GET", "/pools/nopool", "", 500, "pool 'nopool' does not exist", nil},
		{tf, "DELETE", "/pools/nopool", "", 500, "delete pool failed: pool 'nopool' does not exist", nil},
		{tf, "POST", "/access/users", "userid=auditor@pve", 500, "create user failed: user 'auditor@pve' already exists", nil},
		{tf, "GET", "/access/users/ghost@pve", "", 500, "no such user ('ghost@pve')", nil},
		{"root", "POST", "/access/users/auditor@pve/token/ro", "privsep=0", 400, invalid, map[string]string{"tokenid": "Token already exists."}},
		{"root", "GET", "/access/users/auditor@pve/token/none", "", 500, "no such token 'none' for user 'auditor@pve'", nil},
		{"root", "GET", "/access/roles/NoRole", "", 500, "role 'NoRole' does not exist", nil},
		{tf, "GET", "/cluster/ha/resources/vm:303", "", 500, "no such resource 'vm:303'", nil},
		{tf, "PUT", "/access/password", "userid=root@pam&password=12345678", 403,
			"Permission check failed (URI '/access/password' not available with API token, need proper ticket.)", nil},
		{tf, "POST", "/access/ticket", "username=root@pam&password=x", 403,
			"Permission check failed (URI '/access/ticket' not available with API token, need proper ticket.)", nil},
	}
	g := newRig(t, nil)
	for _, row := range rows {
		name := row.as + " " + row.method + " " + row.path + " " + row.params
		t.Run(name, func(t *testing.T) {
			r := g.do(row.as, row.method, row.path, row.params)
			if r.status != row.status || r.reason != row.reason {
				t.Fatalf("got %d %q, want %d %q", r.status, r.reason, row.status, row.reason)
			}
			if diff := cmp.Diff(row.errors, r.body.Errors); diff != "" {
				t.Error(diff)
			}
			isLogin := row.path == "/access/ticket"
			want := row.reason + "\n"
			switch {
			case row.status == 401 && !isLogin:
				want = "" // the authentication stage says it in the reason phrase only
			case row.status == 501:
				want = row.reason
			}
			if r.body.Message != want {
				t.Errorf("message %q, want %q", r.body.Message, want)
			}
			if !r.closes {
				t.Error("an error must close the connection")
			}
		})
	}
}

func TestRecordedShapes(t *testing.T) {
	g := newRig(t, nil)
	for path, want := range map[string]string{
		"/cluster/nextid":                      `{"data":"100"}`,
		"/cluster/nextid?vmid=4711":            `{"data":"4711"}`,
		"/cluster/ha/resources":                `{"data":[]}`,
		"/cluster/ha/groups":                   `{"data":[]}`,
		"/access/tfa":                          `{"data":[]}`,
		"/pools":                               `{"data":[{"comment":"web servers","poolid":"web"}]}`,
		"/nodes/pve1/version":                  `{"data":{"release":"8.4","repoid":"5117000000000000","version":"8.4.21"}}`,
		"/nodes/pve1/config":                   `{"data":{}}`,
		"/cluster/sdn/zones":                   `{"data":[]}`,
		"/access/permissions?path=/":           "",
		"/nodes/pve1/network":                  "",
		"/":                                    `{"data":[{"subdir":"version"},{"subdir":"cluster"},{"subdir":"nodes"},{"subdir":"storage"},{"subdir":"access"},{"subdir":"pools"}]}`,
		"/nodes/pve1/tasks?source=all&limit=3": `{"data":[],"total":0}`,
	} {
		r := g.do("root@pam!tf", "GET", path, "")
		if r.status != 200 || want != "" && r.text != want {
			t.Errorf("GET %s: %d %s", path, r.status, r.text)
		}
	}
	if r := g.do("none", "GET", "/access/ticket", ""); r.text != `{"data":null}` {
		t.Errorf("GET /access/ticket: %s", r.text)
	}
	upid := "/nodes/pve1/tasks/UPID:pve1:00000001:00000001:6B000000:qmstart:100:root@pam:/log"
	if r := g.do("root@pam!tf", "GET", upid, ""); r.text != `{"data":[{"n":1,"t":"unable to open file - No such file or directory"}],"total":1}` {
		t.Errorf("log of an unknown task: %s", r.text)
	}
}
