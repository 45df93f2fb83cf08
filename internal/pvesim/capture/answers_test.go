package capture_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/capture"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// recorded serves the answers of testdata, which a PVE 8.4.21 gave. For a guest whose configuration alone was
// recorded it makes the list of pending changes, key by key. All else is forbidden.
func recorded(t *testing.T) (capture.Config, map[string]json.RawMessage) {
	t.Helper()
	text, err := os.ReadFile("testdata/answers.json")
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &answers); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, q *http.Request) {
		path := strings.TrimPrefix(q.URL.Path, "/api2/json")
		data := answers[path]
		if guest, ok := strings.CutSuffix(path, "/pending"); ok && data == nil && answers[guest+"/config"] != nil {
			data = pendingOf(answers[guest+"/config"])
		}
		if q.Method != http.MethodGet || data == nil {
			http.Error(out, "not recorded", http.StatusForbidden)
			return
		}
		_, _ = fmt.Fprintf(out, `{"data":%s}`, data)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return capture.Config{Endpoint: server.URL, Token: "root@pam!tf=x", CACertificate: string(ca), Texts: true}, answers
}

func pendingOf(config json.RawMessage) json.RawMessage {
	var values map[string]any
	if err := json.Unmarshal(config, &values); err != nil {
		panic(err)
	}
	list := []any{}
	for key, value := range values {
		list = append(list, map[string]any{"key": key, "value": value})
	}
	out, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return out
}

// TestRecordedAnswers: everything in the answers of a real server finds its place, and the world that comes of it can
// be served.
func TestRecordedAnswers(t *testing.T) {
	config, answers := recorded(t)
	f, err := capture.Run(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if f.Profile != "8.4" || f.Captured.Release != "8.4.21" || len(f.Nodes) != 1 || f.Nodes[0].Name != "pve1" ||
		f.Nodes[0].CPUs != 2 {
		t.Errorf("profile %s, release %s, nodes %+v", f.Profile, f.Captured.Release, f.Nodes)
	}
	var guests, storages []map[string]any
	for path, list := range map[string]*[]map[string]any{"/cluster/resources": &guests, "/storage": &storages} {
		if err := json.Unmarshal(answers[path], list); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.Guests) != len(guests) || len(f.Storages) != len(storages) || len(guests) < 10 {
		t.Errorf("%d guests of %d, %d storages of %d", len(f.Guests), len(guests), len(f.Storages), len(storages))
	}
	for _, path := range []string{"/nodes/pve1/storage/local/content", "/nodes/pve1/storage/local-zfs/content",
		"/nodes/pve1/storage/local-lvm/content"} {
		var list []map[string]any
		if err := json.Unmarshal(answers[path], &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list {
			if !slices.ContainsFunc(f.Volumes, func(v state.FileVolume) bool {
				return v.Volume == item["volid"] &&
					v.Node == "pve1"
			}) {
				t.Errorf("%s has no volume %v", path, item["volid"])
			}
		}
	}
	guestsOf(t, f, answers)
	for _, note := range f.Captured.NotSeen {
		if !strings.HasSuffix(note, ": 403 Forbidden") {
			t.Errorf("not seen: %s", note)
		}
	}
	world, err := state.Read([]byte(document(t, f)))
	if err != nil {
		t.Fatal(err)
	}
	sim, again := start(t, pvesim.Options{World: world})
	again.Token = rootsPassword(sim, &again)
	if second, err := capture.Run(t.Context(), again); err != nil || len(second.Guests) != len(f.Guests) ||
		len(second.Volumes) != len(f.Volumes) {
		t.Errorf("served and looked at again: %v", err)
	}
}

// rootsPassword is for a world without a token: root logs in.
func rootsPassword(sim *pvesim.Sim, c *capture.Config) (token string) {
	c.Username, c.Password = sim.Credentials().RootUsername, sim.Credentials().RootPassword
	return ""
}

// guestsOf compares some guests with their recorded answers.
func guestsOf(t *testing.T, f *state.File, answers map[string]json.RawMessage) {
	t.Helper()
	guest := func(vmid int) state.FileGuest {
		return f.Guests[slices.IndexFunc(f.Guests, func(g state.FileGuest) bool { return g.VMID == vmid })]
	}
	compared := 0
	for _, g := range f.Guests {
		var config map[string]any
		if raw := answers[fmt.Sprintf("/nodes/pve1/%s/%d/config", g.Type, g.VMID)]; raw == nil ||
			json.Unmarshal(raw, &config) != nil ||
			answers[fmt.Sprintf("/nodes/pve1/%s/%d/pending", g.Type, g.VMID)] != nil {
			continue
		}
		for key, value := range config {
			if n, ok := value.(float64); ok {
				value = fmt.Sprint(int64(n))
			}
			if key != "digest" && key != "cipassword" && g.Config[key] != value {
				t.Errorf("guest %d: %s is %q, was recorded as %q", g.VMID, key, g.Config[key], value)
			}
			compared++
		}
	}
	if compared < 50 {
		t.Errorf("only %d options were compared", compared)
	}
	if got := guest(303).Pending["boot"]; got != "order=ide2;net0" {
		t.Errorf("what waits for 303: %q", guest(303).Pending)
	}
	if s := guest(960).Snapshots["s1"]; s["name"] == "" && s["scsi0"] == "" {
		t.Errorf("the snapshot of 960: %v", s)
	}
}

// TestRefused: what an identity may not see is noted, and the world of the rest stands; who may see nothing gets no
// world.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		world func(*state.World)
		token func(pvesim.Credentials) string
		notes []string // each is contained in one
		fails string
	}{
		{"auditor", nil, func(c pvesim.Credentials) string { return c.ReadOnlyToken }, nil, ""},
		{"no rights", func(w *state.World) { w.ACL = nil }, func(c pvesim.Credentials) string { return c.Token },
			[]string{"/cluster/status: 403 "}, ""},
		{"wrong token", nil, func(pvesim.Credentials) string { return "root@pam!tf=00000000-0000-0000-0000-000000000000" },
			nil, "401 "},
		{"node off", func(w *state.World) { w.Nodes["pve1"].Online = false },
			func(c pvesim.Credentials) string { return c.RootToken },
			[]string{"guest 8000: its node pve1 is offline"}, ""},
		{"storage off", func(w *state.World) { w.Storages["local-lvm"].Offline = true },
			func(c pvesim.Credentials) string { return c.RootToken }, nil, ""},
		{"no storage listed", func(w *state.World) {
			w.ACL = append(w.ACL, state.ACLEntry{Path: "/storage", Subject: "auditor@pve!ro", Role: "NoAccess", Propagate: true})
		}, func(c pvesim.Credentials) string { return c.ReadOnlyToken }, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := state.Default([]string{"pve1", "pve2"})
			if c.world != nil {
				c.world(w)
			}
			sim, config := start(t, pvesim.Options{World: w})
			config.Token = c.token(sim.Credentials())
			f, err := capture.Run(t.Context(), config)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("%v, want %s", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.notes {
				if !slices.ContainsFunc(f.Captured.NotSeen, func(note string) bool { return strings.Contains(note, want) }) {
					t.Errorf("no note has %q: %q", want, f.Captured.NotSeen)
				}
			}
			read, err := state.Read([]byte(document(t, f)))
			if err != nil {
				t.Fatalf("%v\n%s", err, document(t, f))
			}
			if err := read.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOddEndpoints: what cannot be a cluster's address, or is none, is said at once.
func TestOddEndpoints(t *testing.T) {
	_, good := start(t, pvesim.Options{})
	for name, change := range map[string]func(*capture.Config){
		"http":        func(c *capture.Config) { c.Endpoint = "http://pve1:8006" },
		"no address":  func(c *capture.Config) { c.Endpoint = "pve1" },
		"no identity": func(c *capture.Config) { c.Token = "" },
		"no CA":       func(c *capture.Config) { c.CACertificate = "-----" },
		"other CA":    func(c *capture.Config) { other, _ := recorded(t); c.CACertificate = other.CACertificate },
		"no password": func(c *capture.Config) { c.Token, c.Username, c.Password = "", "root@pam", "wrong" },
	} {
		c := good
		change(&c)
		if f, err := capture.Run(t.Context(), c); err == nil {
			t.Errorf("%s: a world of %d nodes", name, len(f.Nodes))
		}
	}
}

// TestEndpointWithAPasswordIsNotRepeated: the error about an endpoint has nothing of it, since it may hold a password.
func TestEndpointWithAPasswordIsNotRepeated(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		_, err := capture.Run(t.Context(), capture.Config{Endpoint: scheme + "://root%40pam:hunter2@127.0.0.1:1", Token: "a@pve!b=c"})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "the endpoint is not") {
			t.Errorf("%v", err)
		}
	}
}
