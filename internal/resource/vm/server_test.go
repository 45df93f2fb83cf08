package vm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/create"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/fastpath"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/preflight"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/run"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/update"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/volumeuse"
)

// fake is a cluster whose answers a test chooses. A nil function fails the test when it is called.
type fake struct {
	t      *testing.T
	create func(create.Request) (create.Created, error)
	read   func(guest.Ref) (guest.Guest, guest.Presence, error)
	left   func([]saga.Residue) ([]saga.Residue, error)
	update func(update.Request) (guest.Guest, []guest.Warning, error)
	remove func(destroy.Request) ([]saga.Residue, []guest.Warning, error)
	adopt  func(string, int) (guest.Guest, error)
	check  func(preflight.Request) preflight.Findings
}

func (f *fake) missing(what string) {
	f.t.Helper()
	f.t.Errorf("%s was called", what)
}

func (f *fake) Create(_ context.Context, r create.Request) (create.Created, error) {
	if f.create == nil {
		f.missing("create")
		return create.Created{}, nil
	}
	return f.create(r)
}

func (f *fake) Read(_ context.Context, ref guest.Ref) (guest.Guest, guest.Presence, error) {
	if f.read == nil {
		f.missing("read")
		return guest.Guest{}, guest.Unknown, nil
	}
	return f.read(ref)
}

func (f *fake) UsesOf(context.Context, *guest.Proof, string) ([]ownership.Task, error) {
	return nil, nil
}

func (f *fake) SnapshotsOf(context.Context, guest.Ref) (map[string]int64, error) { return nil, nil }

func (f *fake) Recheck(_ context.Context, _ guest.Ref, left []saga.Residue) ([]saga.Residue, error) {
	if f.left == nil {
		f.missing("recheck")
		return left, nil
	}
	return f.left(left)
}

func (f *fake) Update(_ context.Context, r update.Request) (guest.Guest, []guest.Warning, error) {
	if f.update == nil {
		f.missing("update")
		return guest.Guest{}, nil, nil
	}
	return f.update(r)
}

func (f *fake) Delete(_ context.Context, r destroy.Request) ([]saga.Residue, []guest.Warning, error) {
	if f.remove == nil {
		f.missing("delete")
		return nil, nil, nil
	}
	return f.remove(r)
}

func (f *fake) Adopt(_ context.Context, node string, vmid int) (guest.Guest, error) {
	if f.adopt == nil {
		f.missing("adopt")
		return guest.Guest{}, nil
	}
	return f.adopt(node, vmid)
}

func (f *fake) AdoptListed(_ context.Context, listed pve.Resource) (guest.Guest, error) {
	return f.Adopt(context.Background(), listed.Node, listed.VMID)
}

func (*fake) CutOff(context.Context, string, int) pve.Task { return pve.Task{} }

func (*fake) Place(context.Context, []string) string { return "" }

func (*fake) OffNodes(context.Context, []string) ([]string, bool) { return nil, true }

func (*fake) BackupLost(context.Context, string, string) string { return "" }

// CloneSource is one that cannot be read.
func (*fake) CloneSource(context.Context, *guest.Clone) (guest.Source, error) {
	return guest.Source{}, errors.New("not now")
}

func (*fake) ReadFirewall(context.Context, string, int) (*firewall.Settings, error) {
	return &firewall.Settings{}, nil
}

func (*fake) LinkedClones(context.Context, string, []string) ([]destroy.LinkedClone, error) {
	return nil, nil
}

func (*fake) TakesAlong(context.Context, destroy.Request) destroy.Along { return destroy.Along{} }

func (*fake) IsHeld(context.Context, string, int, string) error { return volumeuse.ErrNotHeld }

func (f *fake) InForce(context.Context, string, int, bool) (preflight.InForce, error) {
	return preflight.InForce{}, errors.New("not asked")
}

func (*fake) HoldingsListed(context.Context, int, string, []string) (guest.Holdings, bool, error) {
	return guest.Holdings{}, false, nil
}

func (*fake) Places(context.Context) (volumeuse.Places, error) { return volumeuse.Places{}, nil }

func (*fake) CheckAlias(context.Context, string, int, string, guest.Holdings) error { return nil }

func (*fake) Holdings(context.Context, guest.Ref, []string, []string) (guest.Holdings, error) {
	return guest.Holdings{}, nil
}

func (f *fake) Check(_ context.Context, r preflight.Request) preflight.Findings {
	if f.check == nil {
		return preflight.Findings{}
	}
	return f.check(r)
}

// onlyVM is a provider with the resource alone.
type onlyVM struct{ machines Machines }

func (o onlyVM) Metadata(_ context.Context, _ provider.MetadataRequest, r *provider.MetadataResponse) {
	r.TypeName = "proxmox"
}
func (o onlyVM) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse)          {}
func (o onlyVM) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}
func (o onlyVM) DataSources(context.Context) []func() datasource.DataSource                        { return nil }
func (o onlyVM) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &onlyMachines{Resource{machines: o.machines, run: run.New()}} }}
}

// onlyMachines is the resource with a session that knows no server.
type onlyMachines struct{ Resource }

func (o *onlyMachines) Configure(_ context.Context, _ resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	o.Session = &kit.Session{}
}

// session is a resource as Terraform has it between calls.
type session struct {
	t       *testing.T
	v       model.Values
	server  tfprotov6.ProviderServer
	state   tftypes.Value
	private []byte
	diags   []*tfprotov6.Diagnostic

	replaces []*tftypes.AttributePath // of the last plan
}

func newSession(t *testing.T, m Machines) *session {
	t.Helper()
	v, none := model.SchemaValues(), tftypes.NewValue(tftypes.Object{}, map[string]tftypes.Value{})
	server := fastpath.New(onlyVM{m}, new(fastpath.Types), providerserver.NewProtocol6) // a tenth of the framework's time
	config, err := tfprotov6.NewDynamicValue(none.Type(), none)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{Config: &config}); err != nil || len(resp.Diagnostics) > 0 {
		t.Fatal(err, resp)
	}
	return &session{t: t, v: v, server: server,
		state: tftypes.NewValue(v.Schema.Type().TerraformType(context.Background()), nil)}
}

func (s *session) pack(v tftypes.Value) *tfprotov6.DynamicValue {
	s.t.Helper()
	packed, err := tfprotov6.NewDynamicValue(v.Type(), v)
	if err != nil {
		s.t.Fatal(err)
	}
	return &packed
}

func (s *session) unpack(v *tfprotov6.DynamicValue) tftypes.Value {
	s.t.Helper()
	raw, err := v.Unmarshal(s.v.Schema.Type().TerraformType(context.Background()))
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}

// plan gives the planned value and its private state.
func (s *session) plan(config tftypes.Value) (tftypes.Value, []byte) {
	s.t.Helper()
	resp, err := s.server.PlanResourceChange(s.t.Context(), &tfprotov6.PlanResourceChangeRequest{TypeName: "proxmox_vm",
		Config:     s.pack(config),
		PriorState: s.pack(s.state), ProposedNewState: s.pack(config), PriorPrivate: s.private})
	if err != nil {
		s.t.Fatal(err)
	}
	s.diags, s.replaces = resp.Diagnostics, resp.RequiresReplace
	return s.unpack(resp.PlannedState), resp.PlannedPrivate
}

// apply plans and applies, and takes the new state over.
func (s *session) apply(config model.Model) {
	s.t.Helper()
	raw := rawOf(s.t, s.v, config)
	planned, private := s.plan(raw)
	if s.failed() {
		return
	}
	s.change(raw, planned, private)
}

// destroy removes the resource.
func (s *session) destroy() {
	s.t.Helper()
	s.change(null(s.state), null(s.state), s.private)
}

func null(like tftypes.Value) tftypes.Value { return tftypes.NewValue(like.Type(), nil) }

func (s *session) change(config, planned tftypes.Value, private []byte) {
	s.t.Helper()
	resp, err := s.server.ApplyResourceChange(s.t.Context(), &tfprotov6.ApplyResourceChangeRequest{TypeName: "proxmox_vm",
		Config:     s.pack(config),
		PriorState: s.pack(s.state), PlannedState: s.pack(planned), PlannedPrivate: private})
	if err != nil {
		s.t.Fatal(err)
	}
	s.diags, s.state, s.private = resp.Diagnostics, s.unpack(resp.NewState), resp.Private
	if !s.state.IsFullyKnown() {
		s.t.Errorf("unknown values in state: %s", s.state)
	}
}

func (s *session) refresh() {
	s.t.Helper()
	resp, err := s.server.ReadResource(s.t.Context(), &tfprotov6.ReadResourceRequest{TypeName: "proxmox_vm", CurrentState: s.pack(s.state),
		Private: s.private})
	if err != nil {
		s.t.Fatal(err)
	}
	s.diags, s.state, s.private = resp.Diagnostics, s.unpack(resp.NewState), resp.Private
}

func (s *session) adopt(id string) {
	s.t.Helper()
	resp, err := s.server.ImportResourceState(s.t.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: "proxmox_vm", ID: id})
	if err != nil {
		s.t.Fatal(err)
	}
	s.diags = resp.Diagnostics
	if len(resp.ImportedResources) == 1 {
		s.state, s.private = s.unpack(resp.ImportedResources[0].State), resp.ImportedResources[0].Private
	}
}

func (s *session) model() model.Model {
	s.t.Helper()
	return modelOf(s.t, s.v, s.state)
}

func (s *session) failed() bool {
	for _, d := range s.diags {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			return true
		}
	}
	return false
}

// says wants a diagnostic of a severity with all the words.
func (s *session) says(severity tfprotov6.DiagnosticSeverity, words ...string) {
	s.t.Helper()
	for _, d := range s.diags {
		text, all := d.Summary+"\n"+d.Detail, d.Severity == severity
		for _, word := range words {
			all = all && strings.Contains(text, word)
		}
		if all {
			return
		}
	}
	s.t.Errorf("no %s says %q: %v", severity, words, s.diags)
}

// quiet wants no diagnostic at all.
func (s *session) quiet() {
	s.t.Helper()
	for _, d := range s.diags {
		s.t.Errorf("%s: %s\n%s", d.Severity, d.Summary, d.Detail)
	}
}
