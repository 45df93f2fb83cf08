package server

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// eachProfile runs f on a default world of every release.
func eachProfile(t *testing.T, f func(t *testing.T, profile string, g *rig)) {
	for _, profile := range schema.Versions() {
		t.Run(profile, func(t *testing.T) {
			f(t, profile, newRig(t, func(c *engine.Config) {
				c.World.Profile, c.Schema = profile, schema.LoadVersion(profile)
				c.World.Adapt()
			}))
		})
	}
}

// TestProfileHTTP: the different answers of the releases, beside the parameters that they take (schema's TestVersions).
func TestProfileHTTP(t *testing.T) {
	eachProfile(t, func(t *testing.T, profile string, g *rig) {
		if v := g.do("root@pam!tf", "GET", "/version", "").object(t); v["release"] != profile ||
			!strings.HasPrefix(fmt.Sprint(v["version"]), profile+".") {
			t.Errorf("version %v", v)
		}
		// The text of an error stands in the body since http-server 5.2.0.
		r := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/4711/config", "")
		text := "Configuration file 'nodes/pve1/qemu-server/4711.conf' does not exist"
		if r.status != 500 || r.reason != text || (r.body.Message == text+"\n") != (profile >= "8.4") {
			t.Errorf("missing VM: %d %q, message %q", r.status, r.reason, r.body.Message)
		}
		// The HTTP layer's own errors have a body, and a broken JSON body is a 500, since the same version.
		for path, want := range map[string]string{"/api2/none/x": "501 no formatter", "/nothing": "501 no such uri"} {
			r := g.plain("GET", path, "", "")
			if !strings.HasPrefix(fmt.Sprint(r.status, " ", r.reason), want) || (r.text != "") != (profile >= "8.4") {
				t.Errorf("%s: %d %q, body %q", path, r.status, r.reason, r.text)
			}
		}
		if r := g.plain("POST", "/api2/json/pools", "application/json", "{"); (r.status == 500) != (profile >= "8.4") {
			t.Errorf("broken JSON: %d %s", r.status, r.reason)
		}
		limit := 64 << 10
		if profile >= "8.4" {
			limit = 512 << 10
		}
		for extra, tooLarge := range map[int]bool{0: false, 1: true} {
			body := "poolid=a&comment=" + strings.Repeat("x", limit+extra-len("poolid=a&comment="))
			line := g.raw(fmt.Sprintf("POST /api2/json/pools HTTP/1.1\r\nAuthorization: "+
				"PVEAPIToken=root@pam!tf=%s\r\nContent-Length: %d\r\n\r\n%s",
				g.w.Tokens["root@pam!tf"].Secret, len(body), body))
			if (line == "HTTP/1.1 501 for data too large") != tooLarge {
				t.Errorf("body of %d bytes: %q", len(body), line)
			}
		}
		// Since early 2026 the reason why a token is refused is not told.
		g.w.Tokens["absent@pve!x"] = &state.Token{ID: "absent@pve!x", Secret: "s"}
		want := map[string]string{"8.4": "Authentication failed!", "9.2": "Authentication failed!"}[profile]
		if want == "" {
			want = "no such user ('absent@pve')"
		}
		if r := g.do("absent@pve!x", "GET", "/version", ""); r.status != 401 || r.reason != want {
			t.Errorf("unknown user: %d %q, want %q", r.status, r.reason, want)
		}
	})
}

// TestProfileGuests: the differences in what the releases store and answer of a VM.
func TestProfileGuests(t *testing.T) {
	eachProfile(t, func(t *testing.T, profile string, g *rig) {
		if r := g.do("root@pam!tf", "POST", "/nodes/pve1/qemu",
			"vmid=100&memory=1024&tags=B%3Ba%3BB&net0=virtio%2Cbridge=vmbr0"); r.status != 200 {
			t.Fatalf("create: %d %s %v", r.status, r.reason, r.body.Errors)
		}
		conf := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/100/config", "").object(t)
		if _, number := conf["memory"].(float64); number != (profile < "8.1") {
			t.Errorf("memory is %T", conf["memory"])
		}
		if tags := map[bool]string{true: "a;b", false: "B;a;B"}[profile >= "9.2"]; conf["tags"] != tags {
			t.Errorf("tags %v, want %s", conf["tags"], tags)
		}
		if mac := fmt.Sprint(conf["net0"]); strings.HasPrefix(mac, "virtio=BC:24:11:") != (profile >= "8.1") {
			t.Errorf("net0 %s", mac)
		}
		g.do("root@pam!tf", "PUT", "/nodes/pve1/qemu/100/config", "tags=B%3Ba%3BB")
		if tags := g.do("root@pam!tf", "GET", "/nodes/pve1/qemu/100/config", "").object(t)["tags"]; tags != "a;b" {
			t.Errorf("tags after a change: %v", tags)
		}
		status := g.do("root@pam!tf", "GET", "/nodes/pve1/status", "").object(t)
		memory, _ := status["memory"].(map[string]any)
		if _, has := memory["available"]; has != (profile >= "9") {
			t.Errorf("memory %v", memory)
		}
		if _, has := status["current-kernel"]; has != (profile >= "8.1") {
			t.Errorf("status %v", status)
		}
		local := g.do("root@pam!tf", "GET", "/nodes/pve1/storage/local/status", "").object(t)
		if strings.Contains(fmt.Sprint(local["content"]), "import") != (profile >= "8.3") {
			t.Errorf("content of local: %v", local["content"])
		}
	})
}

// TestProfileDestroy: a volume that cannot be freed is a warning in the log, which counts since 9.2.
func TestProfileDestroy(t *testing.T) {
	eachProfile(t, func(t *testing.T, profile string, g *rig) {
		g.s.Do(func(w *state.World) { w.Volume("pve1", "local-lvm:vm-8000-disk-0").Busy = "Logical volume in use" })
		upid := fmt.Sprint(g.do("root@pam!tf", "DELETE", "/nodes/pve1/qemu/8000", "").body.Data)
		want := map[bool]string{true: "WARNINGS: 1", false: "OK"}[profile >= "9.2"]
		if task := g.do("root@pam!tf", "GET", "/nodes/pve1/tasks/"+upid+"/status", "").object(t); task["exitstatus"] != want {
			t.Errorf("destroy ended %v, want %s", task["exitstatus"], want)
		}
	})
}

// TestProfileAgent: 9.0 split the privilege for the guest agent; the role of the provider's token has both.
func TestProfileAgent(t *testing.T) {
	eachProfile(t, func(t *testing.T, profile string, g *rig) {
		const agent = "/nodes/pve1/qemu/8000/agent/network-get-interfaces"
		g.s.Do(func(w *state.World) {
			w.Roles["Old"], w.Roles["New"] = []string{"VM.Monitor"}, []string{"VM.GuestAgent.Audit"}
			for _, role := range []string{"Old", "New"} {
				id := "root@pam!" + role
				w.Tokens[id] = &state.Token{ID: id, Secret: "s", Separated: true}
				w.ACL = append(w.ACL, state.ACLEntry{Path: "/", Subject: id, Role: role, Propagate: true})
			}
		})
		for token, allowed := range map[string]bool{"root@pam!Old": profile < "9", "root@pam!New": profile >= "9",
			"terraform@pve!prov": true} {
			if r := g.do(token, "GET", agent, ""); (r.status != 403) != allowed {
				t.Errorf("%s: %d %s", token, r.status, r.reason)
			}
		}
	})
}

// plain sends a request as root with its own content type and path.
func (g *rig) plain(method, path, kind, body string) reply {
	g.t.Helper()
	q := g.request("root@pam!tf", "GET", "", nil)
	q.Method, q.URL.Path = method, path
	if body != "" {
		q.Body, q.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		q.Header.Set("Content-Type", kind)
	}
	return g.send(q)
}
