package datasource

import (
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/service"
)

// world is a cluster of two nodes with guests of all sorts.
func world(t *testing.T) *pvesim.Sim {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	change(sim, func(w *state.World) {
		for vmid, config := range map[int]map[string]string{
			100: {"name": "web-1", "tags": "prod;web"}, 101: {"name": "web-2", "tags": "Web"}, 102: {"name": "db-1",
				"tags": "prod"}, 103: {"name": "db-1"},
		} {
			config["smbios1"], config["memory"] = fmt.Sprintf("uuid=11111111-2222-3333-4444-%012d", vmid), "512"
			w.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: map[bool]string{true: "pve1",
				false: "pve2"}[vmid%2 == 0], Config: config}
		}
		w.Guests[8000].Config["cipassword"] = "hush"
		w.Pools["web"].Guests = []int{100}
	})
	sim.Advance(time.Minute) // until the listing knows them
	return sim
}

func change(sim *pvesim.Sim, f func(*state.World)) {
	w := sim.World()
	w.Lock()
	defer w.Unlock()
	f(w)
}

// session is that of an identity, in a process of its own.
func session(t *testing.T, sim *pvesim.Sim, token string) *kit.Session {
	t.Helper()
	here := clock.Client{Cluster: sim.World().Clock}
	api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(),
		DialTLSContext: sim.DialTLSContext, Clock: here, APIToken: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return &kit.Session{API: api.Reader(), VMs: service.New(api, nil, here)}
}

func text(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }
func number(n int) tftypes.Value  { return tftypes.NewValue(tftypes.Number, n) }
func truth(is bool) tftypes.Value { return tftypes.NewValue(tftypes.Bool, is) }
func texts(all ...string) tftypes.Value {
	var list []tftypes.Value
	for _, s := range all {
		list = append(list, text(s))
	}
	return tftypes.NewValue(tftypes.Set{ElementType: tftypes.String}, list)
}

type config map[string]tftypes.Value

// read runs a data source.
func read(t *testing.T, construct func() datasource.DataSource, s *kit.Session, configured config) (tfsdk.State,
	diag.Diagnostics) {
	t.Helper()
	ctx := t.Context()
	d, ok := construct().(datasource.DataSourceWithConfigure)
	if !ok {
		t.Fatal("it cannot be configured")
	}
	d.Configure(ctx, datasource.ConfigureRequest{ProviderData: s}, &datasource.ConfigureResponse{})
	var shape datasource.SchemaResponse
	d.Schema(ctx, datasource.SchemaRequest{}, &shape)
	typ, _ := shape.Schema.Type().TerraformType(ctx).(tftypes.Object)
	values := map[string]tftypes.Value{}
	for attribute, at := range typ.AttributeTypes {
		values[attribute] = tftypes.NewValue(at, nil)
	}
	maps.Copy(values, configured)
	resp := datasource.ReadResponse{State: tfsdk.State{Schema: shape.Schema, Raw: tftypes.NewValue(typ, nil)}}
	d.Read(ctx, datasource.ReadRequest{Config: tfsdk.Config{Schema: shape.Schema, Raw: tftypes.NewValue(typ, values)}},
		&resp)
	return resp.State, resp.Diagnostics
}

// show prints a value much as Terraform does, objects and maps by their sorted keys.
func show(t *testing.T, v tftypes.Value) string {
	t.Helper()
	if v.IsNull() {
		return "null"
	}
	var err error
	var out string
	switch typ := v.Type(); {
	case typ.Is(tftypes.String):
		err = v.As(&out)
	case typ.Is(tftypes.Bool):
		var is bool
		err = v.As(&is)
		out = fmt.Sprint(is)
	case typ.Is(tftypes.Number):
		n := new(big.Float)
		err = v.As(n)
		out = n.Text('f', -1)
	case typ.Is(tftypes.Object{}) || typ.Is(tftypes.Map{}):
		all := map[string]tftypes.Value{}
		err = v.As(&all)
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			parts = append(parts, name+"="+show(t, all[name]))
		}
		out = "{" + strings.Join(parts, " ") + "}"
	default:
		var all []tftypes.Value
		err = v.As(&all)
		var parts []string
		for _, each := range all {
			parts = append(parts, show(t, each))
		}
		out = "[" + strings.Join(parts, " ") + "]"
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// attributeOf prints an attribute of a state, or the error.
func attributeOf(t *testing.T, s tfsdk.State, diags diag.Diagnostics, name string) string {
	t.Helper()
	if diags.HasError() {
		return "error: " + diags.Errors()[0].Summary() + ": " + diags.Errors()[0].Detail()
	}
	all := map[string]tftypes.Value{}
	if err := s.Raw.As(&all); err != nil {
		t.Fatal(err)
	}
	if v, ok := all[name]; ok {
		return show(t, v)
	}
	t.Fatalf("there is no attribute %s", name)
	return ""
}

// mustShow compares an attribute, or wants the error with some words.
func mustShow(t *testing.T, what, got, want string) {
	t.Helper()
	if words, isError := strings.CutPrefix(want, "error: "); isError && strings.HasPrefix(got, "error: ") &&
		strings.Contains(got, words) {
		return
	}
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// TestVMs: filters, order, one request.
func TestVMs(t *testing.T) {
	t.Parallel()
	sim := world(t)
	for _, c := range []struct {
		config config
		want   string
	}{
		{nil, "[100 101 102 103 8000 9000]"},
		{config{"name": text("web-1")}, "[100]"},
		{config{"name": text("*-1")}, "[100 102 103]"},
		{config{"name": text("web-?")}, "[100 101]"},
		{config{"name": text("web")}, "[]"},
		{config{"node": text("pve2")}, "[101 103]"},
		{config{"pool": text("web")}, "[100]"},
		{config{"tag": text("web")}, "[100 101]"},
		{config{"tag": text("prod")}, "[100 102]"},
		{config{"template": truth(true)}, "[9000]"},
		{config{"template": truth(false), "node": text("pve1")}, "[100 102 8000]"},
		{config{"status": text("running")}, "[]"},
		{config{"status": text("stopped"), "name": text("db-*")}, "[102 103]"},
	} {
		s := session(t, sim, sim.Credentials().Token)
		sim.ResetOps()
		state, diags := read(t, NewVMs, s, c.config)
		mustShow(t, fmt.Sprint(c.config), attributeOf(t, state, diags, "vmids"), c.want)
		var asked []string
		for _, op := range sim.Ops() {
			asked = append(asked, op.Method+" "+op.Path)
		}
		want := []string{http.MethodGet + " /cluster/resources"}
		if tag, ok := c.config["tag"]; ok && show(t, tag) == "web" { // and Web: it makes a difference
			want = append(want, "GET /cluster/options")
		}
		if !slices.Equal(asked, want) {
			t.Errorf("%v asks %v, want %v", c.config, asked, want)
		}
	}
	change(sim, func(w *state.World) { w.CaseSensitiveTags = true })
	state, diags := read(t, NewVMs, session(t, sim, sim.Credentials().Token), config{"tag": text("web")})
	mustShow(t, "where case counts", attributeOf(t, state, diags, "vmids"), "[100]")
	mustShow(t, "where case counts", attributeOf(t, state, diags, "vms"), "[{ha_state=null lock=null maxcpu=1 "+
		"maxdisk=null "+
		"maxmem=536870912 name=web-1 "+
		"node=pve1 pool=web status=stopped tags=[prod web] template=false vmid=100}]")
}

// TestVM: by id and by name, with what the node says now.
func TestVM(t *testing.T) {
	t.Parallel()
	sim := world(t)
	s := session(t, sim, sim.Credentials().Token)
	for _, c := range []struct {
		config          config
		attribute, want string
	}{
		{config{"vmid": number(101)}, "config", "{memory=512 name=web-2 smbios1=uuid=11111111-2222-3333-4444-000000000101 " +
			"tags=Web}"},
		{config{"vmid": number(8000)}, "name", "existing"},
		{config{"vmid": number(8000)}, "id", "8000"},
		{config{"vmid": number(100)}, "pool", "web"},
		{config{"name": text("template")}, "vmid", "9000"},
		{config{"name": text("template")}, "template", "true"},
		{config{"name": text("web-2")}, "node", "pve2"},
		{config{"name": text("web-2")}, "uuid", "11111111-2222-3333-4444-000000000101"},
		{config{"name": text("web-2")}, "tags", "[Web]"},
		{config{"name": text("web-2")}, "status", "stopped"},
		{config{"name": text("web-2")}, "ipv4_address", "null"},
		{config{"name": text("db-1"), "node": text("pve2")}, "vmid", "103"},
		{config{"name": text("db-1")}, "vmid", "error: 2 VMs have the name db-1: "},
		{config{"name": text("missing")}, "vmid", "error: there is no VM missing in the cluster"},
		{config{"vmid": number(100), "node": text("pve2")}, "vmid", "error: there is no VM 100 on node pve2 in the cluster"},
		{config{"vmid": number(8100)}, "vmid", "error: Container 8100 (container) on node pve1 is no virtual machine"},
	} {
		state, diags := read(t, NewVM, s, c.config)
		mustShow(t, fmt.Sprint(c.config, c.attribute), attributeOf(t, state, diags, c.attribute), c.want)
	}
	state, diags := read(t, NewVM, s, config{"vmid": number(8000)})
	if got := attributeOf(t, state, diags, "config"); strings.Contains(got, "cipassword") || !strings.Contains(got,
		"scsi0=local-lvm:vm-8000-disk-0,size=4G") {
		t.Error(got)
	}
}

// TestVMThatRuns: its agent is asked for addresses.
func TestVMThatRuns(t *testing.T) {
	t.Parallel()
	sim := world(t)
	change(sim, func(w *state.World) {
		g := w.Guests[8000]
		g.Config["agent"] = "1"
		g.Config["net0"] = "virtio=BC:24:11:00:00:01,bridge=vmbr0"
		g.Agent = &state.Agent{Interfaces: []state.AgentInterface{{Name: "eth0", MAC: "bc:24:11:00:00:01",
			Addresses: []string{"10.0.0.5/24", "fe80::1/64"}}}}
		g.Running = &state.Running{QMPStatus: "running", StartedAt: w.Clock.Now().Add(-time.Hour),
			Booted: maps.Clone(g.Config), PID: 4000}
	})
	s := session(t, sim, sim.Credentials().Token)
	state, diags := read(t, NewVM, s, config{"vmid": number(8000)})
	mustShow(t, "status", attributeOf(t, state, diags, "status"), "running")
	mustShow(t, "address", attributeOf(t, state, diags, "ipv4_address"), "10.0.0.5")
	mustShow(t, "addresses", attributeOf(t, state, diags, "addresses"), "{net0={ipv4=[10.0.0.5] ipv6=[] "+
		"mac=BC:24:11:00:00:01}}")
}

// TestStoragesAndFiles: storages and what is on them.
func TestStoragesAndFiles(t *testing.T) {
	t.Parallel()
	sim := world(t)
	s := session(t, sim, sim.Credentials().Token)
	on := func(storage, node string, more config) config {
		c := config{"storage": text(storage)}
		if node != "" {
			c["node"] = text(node)
		}
		maps.Copy(c, more)
		return c
	}
	for _, c := range []struct {
		construct       func() datasource.DataSource
		config          config
		attribute, want string
	}{
		{NewStorages, config{"content": text("iso")}, "ids", "[local shared-nfs]"},
		{NewStorages, config{"type": text("zfspool")}, "ids", "[local-zfs]"},
		{NewStorages, config{"node": text("pve2")}, "ids", "[local local-lvm local-zfs local2 shared-nfs]"},
		{NewFiles, on("local", "pve1", config{"content": text("iso")}), "volumes", "[local:iso/debian.iso]"},
		{NewFiles, on("local-zfs", "pve1", nil), "volumes", "[local-zfs:base-9000-disk-0 local-zfs:subvol-8100-disk-0 " +
			"local-zfs:vm-9000-cloudinit]"},
		{NewFiles, on("local-zfs", "pve1", config{"vmid": number(8100)}), "files", "[{content=rootdir created=null " +
			"format=subvol name=subvol-8100-disk-0 parent=null size=8589934592 vmid=8100 volume=local-zfs:subvol-8100-disk-0}]"},
		{NewFiles, on("local", "pve1", config{"vmid": number(8100)}), "volumes", "[]"},
		{NewFiles, on("shared-nfs", "", nil), "node", "pve1"},
		{NewFiles, on("local", "", nil), "node", "error: storage local is not shared, and several nodes have one: set node " +
			"to one of pve1, pve2"},
		{NewFiles, on("nope", "", nil), "node", "error: there is no storage nope"},
		{NewFiles, on("local", "pve9", nil), "node", "error: Unknown node"},
		{NewFiles, on("local", "pve1", nil), "unchecked", "[]"},
	} {
		state, diags := read(t, c.construct, s, c.config)
		if len(diags.Warnings()) > 0 {
			t.Errorf("%v: %v", c.config, diags)
		}
		mustShow(t, fmt.Sprint(c.config, c.attribute), attributeOf(t, state, diags, c.attribute), c.want)
	}
	state, diags := read(t, NewStorages, s, config{"type": text("nfs")})
	if got := attributeOf(t, state, diags, "storages"); strings.Count(got, "available=true content=[images iso] "+
		"id=shared-nfs") != 2 || !strings.Contains(got, "node=pve2") {
		t.Error(got)
	}
}

// TestWhatIsNotSeen: a list from which PVE leaves something out says so.
func TestWhatIsNotSeen(t *testing.T) {
	t.Parallel()
	sim := world(t)
	s := session(t, sim, sim.Credentials().TokenNoAllocate)
	for kind, want := range map[string]string{
		"": "[snippets on storage local: needs Datastore.Allocate on the storage backups on storage local: needs " +
			"Datastore.Allocate on the storage, or Datastore.AllocateSpace there and VM.Backup on /vms]",
		"iso":      "[]",
		"images":   "[]",
		"snippets": "[snippets on storage local: needs Datastore.Allocate on the storage]",
	} {
		c := config{"storage": text("local"), "node": text("pve1")}
		if kind != "" {
			c["content"] = text(kind)
		}
		state, diags := read(t, NewFiles, s, c)
		mustShow(t, kind, attributeOf(t, state, diags, "unchecked"), want)
		if warned := len(diags.Warnings()) == 1; warned != (want != "[]") {
			t.Errorf("%s: %v", kind, diags)
		}
	}
	change(sim, func(w *state.World) {
		w.Put(&state.Volume{Storage: "shared-nfs", Name: "300/vm-300-disk-0.raw", VMID: 300, Content: "images", Format: "raw",
			Size: 1 << 30})
	})
	sim.Advance(time.Hour)
	state, diags := read(t, NewOrphans, s, nil)
	mustShow(t, "unchecked", attributeOf(t, state, diags, "unchecked"), "[]")
	if got := attributeOf(t, state, diags, "orphans"); !strings.Contains(got, "certainty=unknown command=null "+
		"id=shared-nfs:300/vm-300-disk-0.raw kind=volume") {
		t.Error(got)
	}
	state, diags = read(t, NewOrphans, s, config{"exclusive_storages": texts("shared-nfs")})
	if got := attributeOf(t, state, diags, "orphans"); !strings.Contains(got, "certainty=certain command=pvesm free "+
		"shared-nfs:300/vm-300-disk-0.raw id=") ||
		!strings.Contains(got, "size=1073741824") {
		t.Error(got)
	}
	sim.SetNode("pve2", false)
	sim.Advance(time.Minute)
	state, diags = read(t, NewOrphans, s, config{"exclusive_storages": texts("shared-nfs")})
	if got := attributeOf(t, state, diags, "orphans"); !strings.Contains(got, "certainty=unknown command=null") {
		t.Error(got)
	}
	if got := attributeOf(t, state, diags, "unchecked"); !strings.Contains(got, "node pve2: it is not "+
		"online") || len(diags.Warnings()) != 1 {
		t.Error(got, diags)
	}
}

// TestWithoutServer: while the provider's configuration is unknown, no data source invents an answer.
func TestWithoutServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		construct func() datasource.DataSource
		config    config
	}{
		{NewVM, nil}, {NewVMs, nil}, {NewStorages, nil}, {NewOrphans, nil}, {NewNodes, nil}, {NewVersion, nil},
		{NewNode, config{"name": text("pve1")}},
		{NewFiles, config{"storage": text("local")}},
		{NewImportMetadata, config{"volume": text(machines + "web/web.vmx")}},
	} {
		if _, diags := read(t, c.construct, &kit.Session{}, c.config); !diags.HasError() {
			t.Errorf("%T answers without a server", c.construct())
		}
	}
}
