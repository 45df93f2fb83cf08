package server

import (
	"encoding/base32"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/access"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func TestTicketLife(t *testing.T) {
	g := newRig(t, nil)
	g.login()
	if r := g.do("root", "POST", "/pools", "poolid=a"); r.status != 200 {
		t.Fatalf("fresh ticket: %d %s", r.status, r.reason)
	}
	g.clock.Advance(2*time.Hour - time.Minute)
	if r := g.do("root", "GET", "/version", ""); r.status != 200 {
		t.Errorf("just before the end: %d", r.status)
	}
	r := g.do("none", "POST", "/access/ticket", url.Values{"username": {"root@pam"}, "password": {g.ticket}}.Encode())
	renewed := r.object(t)
	g.clock.Advance(2 * time.Minute)
	if r := g.do("root", "GET", "/version", ""); r.status != 401 || r.reason != "Authentication failed!" {
		t.Errorf("expired: %d %s", r.status, r.reason)
	}
	g.ticket, _ = renewed["ticket"].(string)
	g.csrf, _ = renewed["CSRFPreventionToken"].(string)
	if r := g.do("root", "POST", "/pools", "poolid=b"); r.status != 200 {
		t.Errorf("renewed: %d %s", r.status, r.reason)
	}
	r = g.do("none", "POST", "/access/ticket", url.Values{"username": {"terraform@pve"}, "password": {g.ticket}}.Encode())
	if r.status != 200 || r.object(t)["username"] != "terraform@pve" {
		t.Errorf("root's ticket for another user: %d %s", r.status, r.reason)
	}
	other, _ := r.object(t)["ticket"].(string)
	r = g.do("none", "POST", "/access/ticket", url.Values{"username": {"root@pam"}, "password": {other}}.Encode())
	if r.status != 401 {
		t.Errorf("another user's ticket for root: %d", r.status)
	}
}

func TestTicketTransport(t *testing.T) {
	g := newRig(t, nil)
	g.login()
	for name, row := range map[string]struct {
		method, cookie, authorization, csrf, want string
	}{
		"header":       {"GET", "", "PVEAuthCookie=" + url.QueryEscape(g.ticket), "", "OK"},
		"GET, no CSRF": {"GET", "PVEAuthCookie=" + url.QueryEscape(g.ticket), "", "", "OK"},
		"PUT, no CSRF": {"PUT", "PVEAuthCookie=" + url.QueryEscape(g.ticket), "", "",
			"Permission denied - invalid csrf token"},
		"PUT, bad CSRF": {"PUT", "PVEAuthCookie=" + url.QueryEscape(g.ticket), "", strings.ToLower(g.csrf),
			"Permission denied - invalid csrf token"},
		"PUT, CSRF": {"PUT", "PVEAuthCookie=" + url.QueryEscape(g.ticket), "", g.csrf,
			"Method 'PUT /version' not implemented"},
		"forged": {"GET", "PVEAuthCookie=PVE:root@pam:00000000::AAAA", "", "", "Authentication failed!"},
		"cookie wins": {"GET", "PVEAuthCookie=rubbish", "PVEAPIToken=root@pam!tf=" + g.w.Tokens["root@pam!tf"].Secret, "",
			"Authentication failed!"},
		"token, a space": {"GET", "", "PVEAPIToken root@pam!tf=" + g.w.Tokens["root@pam!tf"].Secret, "", "OK"},
		"token, no id":   {"GET", "", "PVEAPIToken=root@pam", "", "Authentication failed!"},
		"foreign scheme": {"GET", "", "Bearer x", "", "No ticket"},
	} {
		q := g.request("none", row.method, "/version", nil)
		if row.cookie != "" {
			q.Header.Set("Cookie", row.cookie)
		}
		if row.authorization != "" {
			q.Header.Set("Authorization", row.authorization)
		}
		q.Header.Set("CSRFPreventionToken", row.csrf)
		if r := g.send(q); r.reason != row.want {
			t.Errorf("%s: got %q, want %q", name, r.reason, row.want)
		}
	}
}

func TestSecondFactor(t *testing.T) {
	g := newRig(t, nil)
	key := []byte("12345678901234567890")
	g.w.Users["auditor@pve"].TOTPSecret = base32.StdEncoding.EncodeToString(key)
	login := func(password, challenge string) reply {
		v := url.Values{"username": {"auditor@pve"}, "password": {password}}
		if challenge != "" {
			v.Set("tfa-challenge", challenge)
		}
		return g.do("none", "POST", "/access/ticket", v.Encode())
	}
	first := login(g.w.Users["auditor@pve"].Password, "").object(t)
	challenge, _ := first["ticket"].(string)
	if first["NeedTFA"] != 1.0 || !strings.HasPrefix(challenge, "PVE:!tfa!") {
		t.Fatalf("first answer %v", first)
	}
	q := g.request("none", "GET", "/version", nil)
	q.Header.Set("Cookie", "PVEAuthCookie="+url.QueryEscape(challenge))
	if r := g.send(q); r.reason != "No ticket" {
		t.Errorf("challenge as a ticket: %d %s", r.status, r.reason)
	}
	if r := login("totp:000000", challenge); r.status != 401 {
		t.Errorf("wrong code: %d", r.status)
	}
	r := login("totp:"+access.TOTP(key, g.clock.Now()), challenge)
	if ticket, _ := r.object(t)["ticket"].(string); r.status != 200 || !strings.HasPrefix(ticket, "PVE:auditor@pve:") {
		t.Errorf("right code: %d %s", r.status, r.text)
	}
	for _, row := range []struct {
		what string
		step time.Duration
		want int
	}{{"the same code again", 0, 401}, {"an earlier code", -30 * time.Second, 401}, {"the next code", 30 * time.Second, 200},
		{"the code after a later one", 0, 401}} {
		if r := login("totp:"+access.TOTP(key, g.clock.Now().Add(row.step)), challenge); r.status != row.want {
			t.Errorf("%s: %d %s", row.what, r.status, r.text)
		}
	}
}

// TestTOTP has the SHA-1 rows of RFC 6238, appendix B, cut to six digits.
func TestTOTP(t *testing.T) {
	for at, want := range map[int64]string{59: "287082", 1111111109: "081804", 1234567890: "005924",
		20000000000: "353130"} {
		if got := access.TOTP([]byte("12345678901234567890"), time.Unix(at, 0)); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
	}
}

func TestTokenExpires(t *testing.T) {
	g := newRig(t, nil)
	g.w.Tokens["terraform@pve!prov"].Expire = g.clock.Now().Add(time.Minute).Unix()
	if r := g.do("terraform@pve!prov", "GET", "/version", ""); r.status != 200 {
		t.Errorf("before: %d", r.status)
	}
	g.clock.Advance(2 * time.Minute)
	if r := g.do("terraform@pve!prov", "GET", "/version", ""); r.status != 401 {
		t.Errorf("after: %d", r.status)
	}
	g.w.Users["auditor@pve"].Disabled = true
	if r := g.do("auditor@pve!ro", "GET", "/version", ""); r.status != 401 {
		t.Errorf("disabled user: %d", r.status)
	}
}

func TestEffectivePermissions(t *testing.T) {
	g := newRig(t, nil)
	g.w.Roles["Two"] = []string{"VM.Audit", "VM.Clone"}
	g.w.Roles["One"] = []string{"VM.Audit"}
	g.w.Users["u@pve"] = &state.User{ID: "u@pve"}
	g.w.Tokens["u@pve!sep"] = &state.Token{ID: "u@pve!sep", Secret: "s", Separated: true}
	g.w.Tokens["u@pve!all"] = &state.Token{ID: "u@pve!all", Secret: "s"}
	g.w.Pools["p"] = &state.Pool{ID: "p", Guests: []int{500}, Storages: []string{"local"}}
	g.w.ACL = []state.ACLEntry{
		{Path: "/vms", Subject: "u@pve", Role: "Two", Propagate: true},
		{Path: "/vms/200", Subject: "u@pve", Role: "One", Propagate: true}, // replaces what is inherited
		{Path: "/vms/300", Subject: "u@pve", Role: "NoAccess", Propagate: true},
		{Path: "/nodes", Subject: "u@pve", Role: "PVEAuditor"},
		{Path: "/pool/p", Subject: "u@pve", Role: "PVEDatastoreUser", Propagate: true},
		{Path: "/vms/100", Subject: "u@pve!sep", Role: "PVEVMAdmin", Propagate: true},
	}
	user, sep, all := auth.Identity{ID: "u@pve", User: "u@pve"}, auth.Identity{ID: "u@pve!sep", User: "u@pve",
		IsToken: true}, auth.Identity{ID: "u@pve!all", User: "u@pve", IsToken: true}
	two := map[string]bool{"VM.Audit": true, "VM.Clone": true}
	for _, row := range []struct {
		who  auth.Identity
		path string
		want map[string]bool
	}{
		{user, "/vms/100", two}, {user, "//vms/100/", two}, {all, "/vms/100", two},
		{user, "/vms/200", map[string]bool{"VM.Audit": true}},
		{user, "/vms/300", map[string]bool{}},
		{user, "/nodes/pve1", map[string]bool{}},
		{user, "/vms/500", map[string]bool{"VM.Audit": true, "VM.Clone": true, "Datastore.AllocateSpace": false,
			"Datastore.Audit": false}},
		{user, "/storage/local", map[string]bool{"Datastore.AllocateSpace": false, "Datastore.Audit": false}},
		{sep, "/vms/100", two}, {sep, "/vms/101", map[string]bool{}},
		{user, "/nodes", map[string]bool{"Datastore.Audit": false, "Mapping.Audit": false, "Pool.Audit": false,
			"SDN.Audit": false, "Sys.Audit": false, "VM.Audit": false}},
	} {
		if diff := cmp.Diff(row.want, auth.Permissions(g.w, row.who, row.path)); diff != "" {
			t.Errorf("%s on %s: %s", row.who.ID, row.path, diff)
		}
	}
	root := auth.Identity{ID: "root@pam!tf", User: "root@pam", IsToken: true}
	if root.IsRoot() || !auth.Has(g.w, root, "/vms/300", "VM.Allocate") {
		t.Error("a token of root@pam has every privilege, but is not root")
	}
}

func TestPermissionsEndpoint(t *testing.T) {
	g := newRig(t, nil)
	data := g.do("terraform@pve!prov", "GET", "/access/permissions", "path=/vms").object(t)
	vms, _ := data["/vms"].(map[string]any)
	if vms["VM.Clone"] != 1.0 || vms["Datastore.Allocate"] != 1.0 || vms["Permissions.Modify"] != nil {
		t.Errorf("of the provider's token: %v", data)
	}
	if data := g.do("root@pam!sep", "GET", "/access/permissions", "").object(t); len(data) != 0 {
		t.Errorf("of a separated token without entries: %v", data)
	}
	if r := g.do("root@pam!sep", "GET", "/access/permissions", "userid=auditor@pve"); r.status != 403 {
		t.Errorf("of another user: %d", r.status)
	}
}

func TestACLUpdate(t *testing.T) {
	g := newRig(t, nil)
	if r := g.do("root@pam!tf", "PUT", "/access/acl",
		"path=/vms/8000&roles=PVEVMUser&users=auditor@pve"); r.status != 200 {
		t.Fatalf("%d %s %v", r.status, r.reason, r.body.Errors)
	}
	if !auth.Has(g.w, auth.Identity{ID: "auditor@pve", User: "auditor@pve"}, "/vms/8000", "VM.PowerMgmt") {
		t.Error("the entry has no effect")
	}
	if r := g.do("auditor@pve!ro", "PUT", "/access/acl",
		"path=/vms/8000&roles=PVEVMUser&users=auditor@pve"); r.reason != "Permission check failed (/vms/8000, "+
		"Permissions.Modify|VM.Allocate)" {
		t.Errorf("auditor: %s", r.reason)
	}
	before := len(g.w.ACL)
	if r := g.do("root@pam!tf", "PUT", "/access/acl",
		"path=/vms/8000&roles=PVEVMUser&users=auditor@pve&delete=1"); r.status != 200 || len(g.w.ACL) != before-1 {
		t.Errorf("delete: %d, %d entries", r.status, len(g.w.ACL))
	}
	if list := g.do("root@pam!tf", "GET", "/access/acl", "").list(); len(list) != len(g.w.ACL) {
		t.Errorf("listed %d of %d", len(list), len(g.w.ACL))
	}
}

func TestNewTokenWorks(t *testing.T) {
	g := newRig(t, nil)
	r := g.do("root", "POST", "/access/users/auditor@pve/token/new", "privsep=0")
	data := r.object(t)
	if data["full-tokenid"] != "auditor@pve!new" || fmt.Sprint(data["info"]) != "map[privsep:0]" {
		t.Errorf("%v", data)
	}
	if r := g.do("auditor@pve!new", "GET", "/nodes/pve1/status", ""); r.status != 200 {
		t.Errorf("use: %d %s", r.status, r.reason)
	}
	if r := g.do("root", "DELETE", "/access/users/auditor@pve/token/new", ""); r.status != 200 ||
		g.w.Tokens["auditor@pve!new"] != nil {
		t.Errorf("delete: %d", r.status)
	}
}

// TestDeleteOfContentTakes: one privilege for each content type but the backup of a guest, for which it is neither
// enough nor needed (pve-storage API2/Storage/Content.pm delete).
func TestDeleteOfContentTakes(t *testing.T) {
	const allocate, backup = "Datastore.Allocate", "Datastore.AllocateSpace VM.Backup"
	for name, takes := range map[string]string{"iso/a.iso": allocate, "import/a.qcow2": allocate,
		"snippets/a.yaml":       allocate,
		"777/vm-777-disk-0.raw": allocate, "backup/vzdump-qemu-777-2026_01_01-00_00_00.vma.zst": backup} {
		for _, has := range []string{allocate, backup, "Datastore.AllocateSpace",
			"Datastore.Audit Datastore.AllocateSpace Datastore.AllocateTemplate"} {
			g := newRig(t, nil)
			g.w.Roles["R"] = strings.Fields(has)
			g.w.Users["u@pve"] = &state.User{ID: "u@pve"}
			g.w.Tokens["u@pve!t"] = &state.Token{ID: "u@pve!t", Secret: "secret"}
			g.w.ACL = []state.ACLEntry{{Path: "/", Subject: "u@pve", Role: "R", Propagate: true}}
			r := g.do("u@pve!t", "DELETE", "/nodes/pve1/storage/local/content/local:"+name, "")
			if want := map[bool]int{true: 200, false: 403}[has == takes]; r.status != want {
				t.Errorf("%s with %s: %d %s", name, has, r.status, r.text)
			}
		}
	}
}
