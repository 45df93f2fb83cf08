package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

const twinVM = `
resource "proxmox_vm" "it" {
  vmid     = 500
  node     = "pve1"
  name     = "it"
  tags     = ["Web", "prod"]
  memory   = { size = 1024 }
  cpu      = { cores = 2, limit = 0.1 }
  agent    = { enabled = true }
  disks    = { scsi0 = { storage = "local-zfs", size = "1G" } }
  networks = { net0 = { bridge = "vmbr0" } }
  vga      = { type = "std" }
  timeouts = { read = "1m" }
}
`

// TestFastPathFollowsTheFramework: after every kind of change to a VM, the fast path and the framework give the same answer. `make
// test` plays one in three.
func TestFastPathFollowsTheFramework(t *testing.T) {
	t.Parallel()
	guest := func(change func(*state.Guest)) func(*rig.World, *terraformtest.Session) {
		return func(w *rig.World, _ *terraformtest.Session) {
			w.Change(func(world *state.World) { change(world.Guests[500]) })
		}
	}
	cases := map[string]func(*rig.World, *terraformtest.Session){
		"nothing":           func(*rig.World, *terraformtest.Session) {},
		"changed by hand":   guest(func(g *state.Guest) { g.Config["memory"], g.Config["vga"] = "512", "qxl" }),
		"a pending change":  guest(func(g *state.Guest) { g.Pending = map[string]string{"memory": "2048"} }),
		"a pending removal": guest(func(g *state.Guest) { g.Deletes = map[string]int{"vga": 1} }),
		"stopped by hand":   guest(func(g *state.Guest) { g.Running = nil }),
		"paused":            guest(func(g *state.Guest) { g.Running.QMPStatus = "paused" }),
		"another device":    guest(func(g *state.Guest) { g.Config["net1"] = "virtio=BC:24:11:00:00:01,bridge=vmbr0" }),
		"a silent agent":    guest(func(g *state.Guest) { g.Agent = &state.Agent{Silent: true} }),
		"another VM":        guest(func(g *state.Guest) { g.Config["smbios1"] = "uuid=11111111-2222-3333-4444-555555555555" }),
		"gone": func(w *rig.World, _ *terraformtest.Session) {
			w.Change(func(world *state.World) { forget(world, 500) })
		},
		"half destroyed": guest(func(g *state.Guest) { g.Config["lock"], g.LockCause = "destroyed", "state" }),
		"tainted":        func(_ *rig.World, s *terraformtest.Session) { s.Taint("proxmox_vm.it", true) },
		"node offline": func(w *rig.World, _ *terraformtest.Session) {
			w.Change(func(world *state.World) { world.Nodes["pve1"].Online = false })
		},
		"migrated": func(w *rig.World, _ *terraformtest.Session) { rig.MigrateByHand(t, w, 500, "pve2") },
	}
	for what, happens := range share.Rows(cases, 3) {
		t.Run(what, func(t *testing.T) {
			w := rig.NewWorld(t, pvesim.Options{Nodes: []string{"pve1", "pve2"}})
			w.ExpectPowerOffs(state.PowerShutdown, state.PowerReboot)
			found := newComparison(t)
			w.Serve = found.serve
			s := w.Session(t, rig.RootTicket, twinVM)
			if err := s.Converge(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Refresh(t.Context()); err != nil { // the addresses
				t.Fatal(err)
			}
			happens(w, s)
			before := s.SaveState()
			for _, o := range [][]terraformtest.PlanOption{nil, {terraformtest.WithoutRefresh()}} {
				_, planError := s.Plan(t.Context(), o...)
				s.RestoreState(before)
				t.Logf("plan %d: %v", len(o), planError)
			}
			t.Logf("refresh: %v", s.Refresh(t.Context()))
			s.RestoreState(before)
			w.Reconfigure(t, s, rig.RootTicket, twinVM+"\noutput \"name\" { value = proxmox_vm.it.name }\n")
			t.Logf("apply: %v", s.Run(t.Context()))
			t.Logf("destroy: %v", s.Destroy(t.Context()))
			found.agree(t)
		})
	}
}

// requested keeps what Terraform last asked.
type requested struct {
	tfprotov6.ProviderServer
	upgrade  *tfprotov6.UpgradeResourceStateRequest
	validate *tfprotov6.ValidateResourceConfigRequest
	read     *tfprotov6.ReadResourceRequest
	plan     *tfprotov6.PlanResourceChangeRequest
}

func (r *requested) UpgradeResourceState(ctx context.Context, req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	r.upgrade = req
	return r.ProviderServer.UpgradeResourceState(ctx, req)
}

func (r *requested) ValidateResourceConfig(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	r.validate = req
	return r.ProviderServer.ValidateResourceConfig(ctx, req)
}

func (r *requested) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	r.read = req
	return r.ProviderServer.ReadResource(ctx, req)
}

func (r *requested) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	r.plan = req
	return r.ProviderServer.PlanResourceChange(ctx, req)
}

// hostile are values in the place of a good one, and private states.
type hostile struct {
	t     *testing.T
	typ   tftypes.Type
	value tftypes.Value
}

// with is the value with other attributes.
func (h hostile) with(attributes map[string]tftypes.Value) *tfprotov6.DynamicValue {
	h.t.Helper()
	values := map[string]tftypes.Value{}
	if err := h.value.As(&values); err != nil {
		h.t.Fatal(err)
	}
	for name, v := range attributes {
		values[name] = v
	}
	return h.pack(tftypes.NewValue(h.typ, values))
}

func (h hostile) pack(v tftypes.Value) *tfprotov6.DynamicValue {
	h.t.Helper()
	packed, err := tfprotov6.NewDynamicValue(h.typ, v)
	if err != nil {
		h.t.Fatal(err)
	}
	return &packed
}

func (h hostile) values() map[string]*tfprotov6.DynamicValue {
	text, number := func(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }, func(f float64) tftypes.Value { return tftypes.NewValue(tftypes.Number, f) }
	tags := tftypes.Set{ElementType: tftypes.String}
	type attributes = map[string]tftypes.Value
	return map[string]*tfprotov6.DynamicValue{
		"null":             h.pack(tftypes.NewValue(h.typ, nil)),
		"unknown":          h.pack(tftypes.NewValue(h.typ, tftypes.UnknownValue)),
		"an unknown":       h.with(attributes{"name": tftypes.NewValue(tftypes.String, tftypes.UnknownValue)}),
		"no name":          h.with(attributes{"name": tftypes.NewValue(tftypes.String, nil)}),
		"a wrong name":     h.with(attributes{"name": text("no_dns_name")}),
		"a VMID too small": h.with(attributes{"vmid": number(5)}),
		"another VMID":     h.with(attributes{"vmid": number(501)}),
		"a computed one":   h.with(attributes{"status": text("running"), "uuid": text("x")}),
		"a password":       h.with(attributes{"cloud_init_password_wo": text("secret")}),
		"tags twice":       h.with(attributes{"tags": tftypes.NewValue(tags, []tftypes.Value{text("a"), text("a")})}),
		"tags in capitals": h.with(attributes{"tags": tftypes.NewValue(tags, []tftypes.Value{text("PROD"), text("web")})}),
		"no tags":          h.with(attributes{"tags": tftypes.NewValue(tags, []tftypes.Value{})}),
		"no bytes":         {},
		"JSON":             {JSON: []byte(`{"name":"it"}`)},
		"an empty object":  {MsgPack: []byte{0x80}},
		"a text":           {MsgPack: []byte{0xa1, 'x'}},
		"half":             {MsgPack: h.pack(h.value).MsgPack[:40]},
		"more":             {MsgPack: append(bytes.Clone(h.pack(h.value).MsgPack), 0xc0)},
	}
}

func privates(good []byte) map[string][]byte {
	return map[string][]byte{
		"none": nil, "empty": {}, "no object": []byte(`[]`), "an empty object": []byte(`{}`), "null": []byte(`null`), "no JSON": []byte(`{`),
		"spaces":         bytes.ReplaceAll(good, []byte(`,`), []byte(` , `)),
		"no base64":      []byte(`{"managed":"!"}`),
		"of an SDK":      []byte(`{"schema_version":1}`),
		"no JSON inside": []byte(`{"managed":"eA=="}`),
		"empty inside":   []byte(`{"managed":""}`),
		"damaged":        []byte(`{"managed":"e30="}`), // {}
		"the framework's": func() []byte {
			all := map[string][]byte{}
			if err := json.Unmarshal(good, &all); err != nil {
				panic(err)
			}
			all[".import_before_read"] = []byte("true")
			raw, err := json.Marshal(all)
			if err != nil {
				panic(err)
			}
			return raw
		}(),
		"gone":            []byte(`{"gone":"dHJ1ZQ=="}`),
		"nothing managed": []byte(`{"managed":"W10="}`),
	}
}

// TestFastPathAndHostileRequests: the fast path answers as the framework does, both to requests that no Terraform sends and to those
// that a state edited by hand makes it send. `make test` plays one in three.
func TestFastPathAndHostileRequests(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	found, asked := newComparison(t), &requested{}
	w.Serve = func(newProvider func() provider.Provider) tfprotov6.ProviderServer {
		asked.ProviderServer = found.serve(newProvider)
		return asked
	}
	s := w.Session(t, rig.RootTicket, twinVM)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Refresh(t.Context()); err != nil { // the addresses
		t.Fatal(err)
	}
	if _, err := s.Plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, twin := t.Context(), asked.ProviderServer
	failed := 0
	send := func(what string, err error) {
		if err != nil {
			failed++
			t.Logf("%s: %v", what, err)
		}
	}
	upgrade, validate, read, plan := *asked.upgrade, *asked.validate, *asked.read, *asked.plan
	unpack := func(v *tfprotov6.DynamicValue) hostile {
		value, err := v.Unmarshal(found.typ)
		if err != nil {
			t.Fatal(err)
		}
		return hostile{t: t, typ: found.typ, value: value}
	}
	for what, config := range share.Rows(unpack(validate.Config).values(), 3) {
		for _, allowed := range []*tfprotov6.ValidateResourceConfigClientCapabilities{nil, {WriteOnlyAttributesAllowed: true}} {
			req := validate
			req.Config, req.ClientCapabilities = config, allowed
			_, err := twin.ValidateResourceConfig(ctx, &req)
			send("validate "+what, err)
		}
		req := plan
		req.Config = config
		_, err := twin.PlanResourceChange(ctx, &req)
		send("plan of the configuration "+what, err)
	}
	for what, state := range share.Rows(unpack(read.CurrentState).values(), 3) {
		req := read
		req.CurrentState = state
		_, err := twin.ReadResource(ctx, &req)
		send("read "+what, err)
		change := plan
		change.PriorState, change.ProposedNewState = state, state
		_, err = twin.PlanResourceChange(ctx, &change)
		send("plan of the state "+what, err)
		change = plan
		change.ProposedNewState = state
		_, err = twin.PlanResourceChange(ctx, &change)
		send("plan of the proposal "+what, err)
	}
	for what, private := range share.Rows(privates(read.Private), 3) {
		req, change := read, plan
		req.Private, change.PriorPrivate = private, private
		_, err := twin.ReadResource(ctx, &req)
		send("read with private state "+what, err)
		_, err = twin.PlanResourceChange(ctx, &change)
		send("plan with private state "+what, err)
	}
	for what, stored := range share.Rows(storedStates(t, upgrade.RawState.JSON), 3) {
		for version := range int64(2) {
			req := upgrade
			req.Version, req.RawState = version, &tfprotov6.RawState{JSON: stored}
			_, err := twin.UpgradeResourceState(ctx, &req)
			send(fmt.Sprintf("upgrade %s of version %d", what, version), err)
		}
	}
	if failed > 0 {
		t.Errorf("%d requests were not answered by one of the two", failed)
	}
	found.agree(t)
}

// storedStates are states as files may have them.
func storedStates(t *testing.T, good []byte) map[string][]byte {
	t.Helper()
	edited := func(edit func(map[string]json.RawMessage)) []byte {
		all := map[string]json.RawMessage{}
		if err := json.Unmarshal(good, &all); err != nil {
			t.Fatal(err)
		}
		edit(all)
		raw, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	return map[string][]byte{
		"as it is":          good,
		"of an older one":   edited(func(s map[string]json.RawMessage) { delete(s, "vga"); delete(s, "hotplug") }),
		"of a newer one":    edited(func(s map[string]json.RawMessage) { s["unheard_of"] = json.RawMessage(`{"a":[1]}`) }),
		"a number as text":  edited(func(s map[string]json.RawMessage) { s["vmid"] = json.RawMessage(`"500"`) }),
		"a text as number":  edited(func(s map[string]json.RawMessage) { s["name"] = json.RawMessage(`7`) }),
		"an object as text": edited(func(s map[string]json.RawMessage) { s["cpu"] = json.RawMessage(`"x"`) }),
		"indented":          edited(func(s map[string]json.RawMessage) { s["name"] = json.RawMessage(" \"it\"\n") }),
		"null":              []byte("null"), "nothing": []byte(""), "half": good[:len(good)/2], "no object": []byte(`[]`), "empty": []byte(`{}`),
	}
}
