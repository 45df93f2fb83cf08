package datasource

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

func TestCapabilities(t *testing.T) {
	at := func(major, minor int, name string) bool {
		value, ok := capabilitiesOf(pve.Version{Version: "x", Major: major, Minor: minor}).Attributes()[name].(types.Bool)
		if !ok {
			t.Fatalf("no capability %s", name)
		}
		return value.ValueBool()
	}
	for _, c := range capabilities() {
		if !at(c.major, c.minor, c.name) || !at(c.major+1, 0, c.name) || at(c.major-1, 9, c.name) {
			t.Errorf("%s does not begin with %d.%d", c.name, c.major, c.minor)
		}
	}
	if !capabilitiesOf(pve.Version{}).IsNull() {
		t.Error("an unknown version has capabilities")
	}
}

// answers is a server that knows some paths. It refuses other paths as PVE does.
type answers map[string]string

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, ok := a[strings.TrimPrefix(r.URL.Path, "/api2/json")]
	if !ok {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"data":null,"message":"Permission check failed\n"}`)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]json.RawMessage{"data": json.RawMessage(body)})
}

func sessionTo(t *testing.T, a answers) *kit.Session {
	t.Helper()
	server := httptest.NewTLSServer(a)
	t.Cleanup(server.Close)
	api, err := pve.New(pve.Config{Endpoint: server.URL, APIToken: "a@pve!t=11111111-1111-1111-1111-111111111111",
		Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return &kit.Session{API: api.Reader()}
}

const (
	nodesJSON  = `[{"node":"pve2","status":"offline","type":"node"},{"node":"pve1","status":"online","type":"node","cpu":0.1,"maxcpu":2,"mem":10,"maxmem":20,"disk":1,"maxdisk":2,"uptime":60}]`
	statusJSON = `{"uptime":3594,"cpu":0.25,"wait":0,"idle":0,"loadavg":["0.18","0.66","0.61"],"kversion":"Linux 6.8","pveversion":"pve-manager/8.4.21/x",
"current-kernel":{"sysname":"Linux","release":"6.8.12-9-pve","version":"#1","machine":"x86_64"},"boot-info":{"mode":"legacy-bios"},
"cpuinfo":{"model":"Xeon","sockets":1,"cores":2,"cpus":2,"mhz":"2300.000","flags":"fpu vme","hvm":"1","user_hz":100},
"memory":{"used":1,"total":3,"free":2},"swap":{"used":0,"total":0,"free":0},"ksm":{"shared":0},"rootfs":{"free":4,"avail":3,"total":9,"used":5}}`
)

func nodeState(t *testing.T, state tfsdk.State) nodeModel {
	t.Helper()
	var m nodeModel
	if diags := state.Get(t.Context(), &m); diags.HasError() {
		t.Fatal(diags)
	}
	return m
}

func TestNode(t *testing.T) {
	s := sessionTo(t, answers{"/nodes": nodesJSON, "/nodes/pve1/status": statusJSON,
		"/nodes/pve1/version": `{"version":"8.4.21","release":"8.4","repoid":"abc"}`})
	state, diags := read(t, NewNode, s, config{"name": text("pve1")})
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	m := nodeState(t, state)
	if !*m.Online || *m.Version != "8.4.21" || *m.Uptime != 3594 || *m.CPUInfo.MHz != 2300 || *m.Memory.Free != 2 ||
		*m.RootFS.Available != 3 ||
		*m.Kernel.Release != "6.8.12-9-pve" || *m.BootMode != "legacy-bios" || *m.SecureBoot || *m.CPU != 0.25 ||
		!*m.CPUInfo.HVM {
		t.Errorf("%+v", m)
	}
	if diff := cmp.Diff([]float64{0.18, 0.66, 0.61}, m.LoadAverage) + cmp.Diff([]string{"fpu", "vme"},
		m.CPUInfo.Flags); diff != "" {
		t.Error(diff)
	}
	if m.Memory.Available != nil {
		t.Error("a number that the server did not send is not null")
	}
	if v, _ := m.Capabilities.Attributes()["import_content"].(types.Bool); !v.ValueBool() {
		t.Error("8.4 cannot import")
	}
}

func TestNodeThatIsOffline(t *testing.T) {
	state, diags := read(t, NewNode, sessionTo(t, answers{"/nodes": nodesJSON}), config{"name": text("pve2")})
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	if m := nodeState(t, state); *m.Online || *m.Status != "offline" || m.Uptime != nil || !m.Capabilities.IsNull() {
		t.Errorf("%+v", m)
	}
}

func TestNodeWithoutPermission(t *testing.T) {
	state, diags := read(t, NewNode, sessionTo(t, answers{"/nodes": nodesJSON,
		"/nodes/pve1/version": `{"version":"9.0.1","release":"9.0"}`}),
		config{"name": text("pve1")})
	if diags.HasError() || len(diags) != 1 || !strings.Contains(diags[0].Detail(), "Sys.Audit on /nodes/pve1") {
		t.Fatal(diags)
	}
	if m := nodeState(t, state); *m.Version != "9.0.1" || m.Memory != nil {
		t.Errorf("%+v", m)
	}
}

func TestNodeThatIsNone(t *testing.T) {
	_, diags := read(t, NewNode, sessionTo(t, answers{"/nodes": nodesJSON}), config{"name": text("pve9")})
	if len(diags) != 1 || !strings.Contains(diags[0].Summary(), "pve9") || !strings.Contains(diags[0].Detail(),
		"pve2, pve1") {
		t.Fatal(diags)
	}
}

func TestNodes(t *testing.T) {
	state, diags := read(t, NewNodes, sessionTo(t, answers{"/nodes": nodesJSON}), nil)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	var m nodesModel
	if diags := state.Get(t.Context(), &m); diags.HasError() {
		t.Fatal(diags)
	}
	if diff := cmp.Diff([]string{"pve1", "pve2"}, m.Names); diff != "" {
		t.Error(diff)
	}
	if one, two := m.Nodes[0], m.Nodes[1]; *one.MaxMem != 20 || *one.Uptime != 60 || two.MaxMem != nil || *two.Online {
		t.Errorf("%+v", m.Nodes)
	}
}

func TestVersion(t *testing.T) {
	state, diags := read(t, NewVersion, sessionTo(t,
		answers{"/version": `{"version":"9.0.1","release":"9.0","repoid":"abc"}`}), nil)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	var m versionModel
	if diags := state.Get(t.Context(), &m); diags.HasError() {
		t.Fatal(diags)
	}
	if *m.Version != "9.0.1" || *m.Release != "9.0" || *m.RepoID != "abc" || *m.Major != 9 || *m.Minor != 0 {
		t.Errorf("%+v", m)
	}
	if v, _ := m.Capabilities.Attributes()["ha_rules"].(types.Bool); !v.ValueBool() {
		t.Error("9.0 has no HA rules")
	}
	if _, diags = read(t, NewVersion, sessionTo(t, answers{}), nil); !diags.HasError() {
		t.Error("it knows the version of a server that does not tell")
	}
}
