package terraformtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

const sampleConfig = `
provider "sample" { endpoint = "http://${var.host}" }
variable "host" { default = "here" }
locals { prefix = "thing" }
resource "sample_thing" "a" {
  name   = "${local.prefix}-a"
  secret = "hush"
  disks  = { scsi0 = { size = "1G" } }
}
data "sample_length" "l" { of = sample_thing.a.id }
resource "sample_thing" "b" {
  name  = "b-${sample_thing.a.id}-${data.sample_length.l.length}"
  count = 2
}
output "names" { value = sample_thing.b[*].name }
`

func newSample() *sample { return &sample{things: map[string]sampleThing{}} }

// start makes a session with a configuration.
func start(t *testing.T, factory Factory, hcl string) *Session {
	t.Helper()
	s := NewSession(factory)
	must(t, s.Configure(hcl))
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	ctx, sample := context.Background(), newSample()
	s := start(t, sample.factory(), sampleConfig)
	pl, err := s.Plan(ctx)
	must(t, err)
	if c := pl.Change("sample_thing.b[1]"); c == nil || c.Action != Create || c.Planned.GetAttr("name").IsKnown() {
		t.Errorf("b depends on a new object and its name is not unknown: %v", pl)
	}
	if c := pl.Change("sample_thing.a"); !c.Planned.GetAttr("secret").IsNull() {
		t.Error("the write-only attribute is in the plan")
	}
	must(t, s.Apply(ctx, pl))
	if got, want := objchange.ShowValue(s.Output("names")), `["b-1-1","b-1-1"]`; got != want {
		t.Errorf("output %s, want %s", got, want)
	}
	if sample.things["1"].secret != "hush" {
		t.Error("the write-only value has not reached the provider")
	}
	i, err := s.Instance("sample_thing.a")
	must(t, err)
	if !strings.Contains(string(i.Private), "serial") || !i.Value.GetAttr("secret").IsNull() {
		t.Errorf("private %q, secret %s", i.Private, objchange.ShowValue(i.Value.GetAttr("secret")))
	}
	if got := objchange.ShowValue(s.Attr("sample_thing.a", "disks.scsi0.volume")); got != `"vm-1-scsi0"` {
		t.Errorf("volume %s", got)
	}
	pl, err = s.Plan(ctx)
	must(t, err)
	if !pl.Empty() {
		t.Errorf("plan after the apply: %s", pl)
	}
	// A new slot: the other keeps its computed volume.
	must(t, s.Configure(strings.Replace(sampleConfig, `scsi0 = { size = "1G" }`, `scsi0 = { size = "1G" }, scsi1 = {}`, 1)))
	pl, err = s.Plan(ctx)
	must(t, err)
	c := pl.Change("sample_thing.a")
	volume := objchange.ShowValue(At(c.Planned, "disks.scsi0.volume"))
	if c.Action != Update || volume != `"vm-1-scsi0"` || At(c.Planned, "disks.scsi1.volume").IsKnown() {
		t.Errorf("plan: %s", pl)
	}
	must(t, s.Converge(ctx))
	must(t, s.Destroy(ctx))
	if len(s.Addresses()) != 0 || len(sample.things) != 0 {
		t.Errorf("left after destroy: %v %v", s.Addresses(), sample.things)
	}
	if !slices.Contains(sample.configured, `"http://here"`) {
		t.Errorf("configured with %v", sample.configured)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	ctx, sample := context.Background(), newSample()
	s := start(t, sample.factory(), `resource "sample_thing" "a" {
  name = "a"
  kind = "x"
}`)
	must(t, s.Converge(ctx))
	must(t, s.Configure(`resource "sample_thing" "a" {
  name = "a"
  kind = "y"
}`))
	pl, err := s.Plan(ctx)
	must(t, err)
	c := pl.Change("sample_thing.a")
	if c.Action != Replace || !slices.Equal(c.RequiresReplace, []string{"kind"}) || c.Planned.GetAttr("id").IsKnown() {
		t.Errorf("%s, because of %v, id %s", c.Action, c.RequiresReplace, objchange.ShowValue(c.Planned.GetAttr("id")))
	}
	must(t, s.Apply(ctx, pl))
	if _, still := sample.things["1"]; still || len(sample.things) != 1 {
		t.Errorf("things: %v", sample.things)
	}
}

func TestHoldsTheProviderToTheRules(t *testing.T) {
	t.Parallel()
	const config = `resource "sample_thing" "a" { name = "a" }`
	for misbehave, want := range map[string]string{
		"unknown":      "Provider returned invalid result object after apply",
		"inconsistent": "Provider produced inconsistent result after apply",
		"plan":         "Provider produced invalid plan",
	} {
		t.Run(misbehave, func(t *testing.T) {
			sample := newSample()
			sample.misbehave = misbehave
			err := start(t, sample.factory(), config).Run(context.Background())
			var e *Error
			if !errors.As(err, &e) || len(e.Diagnostics) != 1 || e.Diagnostics[0].Summary != want {
				t.Fatalf("got %v, want %q", err, want)
			}
			// The framework itself notices unknown values after apply; everything else is for the driver to notice.
			if !e.Diagnostics[0].Violation && misbehave != "unknown" {
				t.Errorf("no violation: %v", e)
			}
		})
	}
	t.Run("drift", func(t *testing.T) {
		ctx, sample := context.Background(), newSample()
		s := start(t, sample.factory(), config)
		must(t, s.Converge(ctx))
		sample.misbehave = "drift"
		must(t, s.Configure(`resource "sample_thing" "a" { name = "b" }`))
		err := s.Converge(ctx)
		for _, text := range []string{"not empty", `name: "a" -> "b"`, `name was planned as cty.StringVal("b") and is cty.StringVal("a")`} {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v, want %s", err, text)
			}
		}
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	ctx, sample := context.Background(), newSample()
	s := start(t, sample.factory(), `resource "sample_thing" "a" {
  name  = "a"
  disks = { scsi0 = {} }
}`)
	sample.misbehave = "fail"
	if err := s.Run(ctx); err == nil || len(s.Addresses()) != 0 {
		t.Fatalf("error %v, state %v", err, s.Addresses())
	}
	sample.misbehave = "fail-tainted"
	err := s.Run(ctx)
	var e *Error
	if !errors.As(err, &e) || e.Diagnostics[0].Attribute != `disks["scsi0"].size` {
		t.Fatalf("got %v", err)
	}
	if i, err := s.Instance("sample_thing.a"); err != nil || !i.Tainted {
		t.Fatalf("not tainted: %v %v", i, err)
	}
	sample.misbehave = ""
	pl, err := s.Plan(ctx)
	must(t, err)
	if pl.Change("sample_thing.a").Action != Replace {
		t.Fatalf("a tainted object is not replaced: %s", pl)
	}
	must(t, s.Apply(ctx, pl))
	if i, _ := s.Instance("sample_thing.a"); i.Tainted || len(sample.things) != 1 {
		t.Errorf("tainted %v, things %v", i.Tainted, sample.things)
	}
	sample.misbehave = "fail"
	if err := s.Destroy(ctx); err == nil || len(s.Addresses()) != 1 {
		t.Errorf("a failed destroy: error %v, state %v", err, s.Addresses())
	}
	sample.misbehave = ""
	clear(sample.things)
	must(t, s.Refresh(ctx))
	if len(s.Addresses()) != 0 {
		t.Errorf("a vanished object is still in state: %v", s.Addresses())
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	ctx, sample := context.Background(), newSample()
	sample.things["7"] = sampleThing{name: "seven"}
	s := start(t, sample.factory(), `resource "sample_thing" "a" { name = "seven" }`)
	must(t, s.Import(ctx, "sample_thing.a", "7"))
	pl, err := s.Plan(ctx)
	must(t, err)
	if !pl.Empty() {
		t.Errorf("plan after import: %s", pl)
	}
	if err := s.Import(ctx, "sample_thing.a", "7"); err == nil {
		t.Error("imported twice")
	}
	s.Forget("sample_thing.a")
	if err := s.Import(ctx, "sample_thing.a", "8"); err == nil || !strings.Contains(err.Error(), "non-existent") || len(s.Addresses()) != 0 {
		t.Errorf("imported nothing: %v", err)
	}
}

func TestDataSourceAndValues(t *testing.T) {
	t.Parallel()
	ctx, sample := context.Background(), newSample()
	s := start(t, sample.factory(), ``)
	v, err := s.ReadDataSource(ctx, "sample_length", `of = "four"`)
	must(t, err)
	if objchange.ShowValue(v) != `{"length":4,"of":"four"}` {
		t.Errorf("read %s", objchange.ShowValue(v))
	}
	must(t, s.SetResource("sample_thing.v", map[string]cty.Value{"name": cty.StringVal("v")}))
	must(t, s.Converge(ctx))
	if objchange.ShowValue(s.Attr("sample_thing.v", "name")) != `"v"` {
		t.Error("a resource of plain values was not applied")
	}
}

func TestRefusesBadConfigurations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ config, want string }{
		"stray name":        {`resource "sample_thing" "a" { nome = "a" }`, "Unsupported argument"},
		"stray nested name": {"resource \"sample_thing\" \"a\" {\n name = \"a\"\n disks = { scsi0 = { sice = \"1G\" } }\n}", "sice"},
		"missing":           {`resource "sample_thing" "a" {}`, "Missing required argument"},
		"read-only":         {"resource \"sample_thing\" \"a\" {\n name = \"a\"\n id = \"7\"\n}", "read-only"},
		"wrong type":        {`resource "sample_thing" "a" { name = ["a"] }`, "string required"},
		"no such type":      {`resource "sample_thong" "a" { name = "a" }`, "No such type"},
	} {
		t.Run(name, func(t *testing.T) {
			err := start(t, newSample().factory(), c.config).Run(context.Background())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if err := NewSession(newSample().factory()).Configure(`resource "sample_thing" "a" { name = sample_thing.b.name }
resource "sample_thing" "b" { name = sample_thing.a.name }`); err == nil {
		t.Error("a circle was accepted")
	}
}
