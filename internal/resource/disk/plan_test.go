package disk

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/disk"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

func text(s string) types.String { return types.StringValue(s) }

// existing is a disk in state.
func existing() model {
	return model{VMID: types.Int64Value(120), Node: text("pve1"), Storage: text("local-zfs"), Size: text("10G"),
		Format: text("raw"),
		Name:   text("data"), Volume: text("local-zfs:vm-120-disk-0"), UUID: text("u")}
}

func altered(alter func(*model)) model {
	m := existing()
	alter(&m)
	return m
}

// TestPlanOfAChange: a disk is never replaced. A change that PVE cannot make is refused on its attribute. A move makes
// the volume unknown, and growth keeps it.
func TestPlanOfAChange(t *testing.T) {
	for name, c := range map[string]struct {
		alter, was func(*model)
		moves      bool
		refused    string
	}{
		"nothing":          {},
		"growth":           {alter: func(m *model) { m.Size = text("20G") }},
		"shrinking":        {alter: func(m *model) { m.Size = text("9G") }, refused: "size"},
		"the same size":    {alter: func(m *model) { m.Size = text("10240M") }},
		"unknown size":     {alter: func(m *model) { m.Size = types.StringUnknown() }},
		"unknown id":       {alter: func(m *model) { m.VMID = types.Int64Unknown() }},
		"unknown node":     {alter: func(m *model) { m.Node = types.StringUnknown() }, moves: true},
		"unknown format":   {alter: func(m *model) { m.Format = types.StringUnknown() }, moves: true},
		"another id":       {alter: func(m *model) { m.VMID = types.Int64Value(121) }, refused: "vmid"},
		"another node":     {alter: func(m *model) { m.Node = text("pve2") }, moves: true},
		"another storage":  {alter: func(m *model) { m.Storage = text("nfs") }, moves: true},
		"another format":   {alter: func(m *model) { m.Format = text("qcow2") }, moves: true},
		"a detached disk":  {was: func(m *model) { m.Volume = types.StringNull() }, refused: "storage"},
		"another name":     {alter: func(m *model) { m.Name = text("other") }},
		"an added comment": {alter: func(m *model) { m.Description = text("x") }},
	} {
		plan, state := existing(), existing()
		if c.alter != nil {
			c.alter(&plan)
		}
		if c.was != nil {
			c.was(&state)
		}
		moves, diags := planChange(&plan, state)
		at := ""
		for _, d := range diags {
			at = d.(diag.DiagnosticWithPath).Path().String()
		}
		if moves != c.moves || at != c.refused || len(diags) > 1 {
			t.Errorf("%s: moves %t, refused %v", name, moves, diags)
		}
		if plan.Volume.IsUnknown() != c.moves || !plan.UUID.Equal(state.UUID) {
			t.Errorf("%s: planned volume %s, uuid %s", name, plan.Volume, plan.UUID)
		}
	}
}

// TestUnconfiguredAttributesStay: node, id and format without configuration stay; another storage chooses its own
// format. A configured value that is not known yet stays unknown.
func TestUnconfiguredAttributesStay(t *testing.T) {
	open := func(m *model) {
		m.VMID, m.Node, m.Format = types.Int64Unknown(), types.StringUnknown(), types.StringUnknown()
	}
	plan := altered(open)
	if keepUnconfigured(&plan, existing(), model{}); plan != existing() {
		t.Errorf("%+v", plan)
	}
	plan = altered(func(m *model) { open(m); m.Storage = text("nfs") })
	if keepUnconfigured(&plan, existing(), model{}); !plan.Format.IsUnknown() || plan.VMID.IsUnknown() ||
		plan.Node.IsUnknown() {
		t.Errorf("on another storage: %+v", plan)
	}
	plan = altered(open)
	if keepUnconfigured(&plan, existing(), altered(open)); plan != altered(open) {
		t.Errorf("not known yet: %+v", plan)
	}
}

// private is a resource's private state.
type private map[string][]byte

func (p private) reader() privateReader { return privateReader{p} }

// TestGrownDisk: a disk that a third party has grown does not stop plans with the old size. A new size in the
// configuration counts again, and shrinking stays refused.
func TestGrownDisk(t *testing.T) {
	ctx := t.Context()
	p := private{}
	if diags := noteGrown(ctx, p.reader(), p.reader(), text("10G"), text("10G")); len(diags) > 0 || len(p) > 0 {
		t.Errorf("a disk that has not grown: %v %v", diags, p)
	}
	if diags := noteGrown(ctx, p.reader(), p.reader(), text("10G"), text("12G")); len(diags) > 0 {
		t.Fatal(diags)
	}
	_ = noteGrown(ctx, p.reader(), p.reader(), text("12G"), text("14G")) // the configured size is still the first
	state := altered(func(m *model) { m.Size = text("14G") })
	plan := existing()
	diags := keepGrown(ctx, p.reader(), p.reader(), &plan, state)
	if len(diags) != 1 || diags.HasError() || plan.Size.ValueString() != "14G" {
		t.Errorf("the old size: %s, %v", plan.Size, diags)
	}
	plan = altered(func(m *model) { m.Size = text("11G") })
	if diags := keepGrown(ctx, p.reader(), p.reader(), &plan, state); len(diags) > 0 || plan.Size.ValueString() != "11G" {
		t.Errorf("another size: %s, %v", plan.Size, diags)
	}
	plan = existing()
	if diags := keepGrown(ctx, p.reader(), p.reader(), &plan, state); len(diags) > 0 || plan.Size.ValueString() != "10G" {
		t.Errorf("the old size once more, after another: %s, %v", plan.Size, diags)
	}
}

type privateReader struct{ of private }

func (p privateReader) GetKey(_ context.Context, key string) ([]byte, diag.Diagnostics) {
	return p.of[key], nil
}
func (p privateReader) SetKey(_ context.Context, key string, value []byte) diag.Diagnostics {
	p.of[key] = value
	return nil
}

// TestRequestOfAPlan: the server is asked about changes only.
func TestRequestOfAPlan(t *testing.T) {
	m := existing()
	if q := m.request(existing()); len(q.Storages)+len(q.Formats)+len(q.Takes)+len(q.Pool) > 0 || q.Creating {
		t.Errorf("an unchanged disk: %+v", q)
	}
	if q := m.request(model{}); !q.Creating || q.Storages["storage"] != "local-zfs" || len(q.Formats) != 1 ||
		*q.Planned.Disks["scsi0"].Size != 10<<30 || q.ID != 120 {
		t.Errorf("a new disk: %+v", q)
	}
	m = altered(func(m *model) { m.Size, m.Pool = text("13G"), text("web") })
	if q := m.request(existing()); *q.Prior.Disks["scsi0"].Size != 10<<30 || *q.Planned.Disks["scsi0"].Size != 13<<30 ||
		len(q.Takes) != 2 || q.Pool != "web" ||
		len(q.Storages) > 0 {
		t.Errorf("a larger disk: %+v", q)
	}
	m = altered(func(m *model) { m.Node = text("pve2") })
	if q := m.request(existing()); q.Storages["storage"] != "local-zfs" || q.Node != "pve2" || q.Moving == nil {
		t.Errorf("on another node: %+v", q)
	}
}

// TestDiskOfTheServer: the notation of the configuration stays while the size is the same, and a detached disk has no
// size.
func TestDiskOfTheServer(t *testing.T) {
	m := altered(func(m *model) { m.Size = text("10240M") })
	d := disk.Disk{VMID: 120, Node: "pve1", Volume: "local-zfs:vm-120-disk-0", Size: 10 << 30, Format: "raw", Marked: true}
	if m.set(d); m.Size.ValueString() != "10240M" || m.Storage.ValueString() != "local-zfs" ||
		m.UUID.ValueString() != "u" {
		t.Errorf("%+v", m)
	}
	d.Size, d.Marked = 11<<30, false
	if m.set(d); m.Size.ValueString() != "11G" || m.known().Marked || m.Description.IsNull() {
		t.Errorf("%+v", m)
	}
	if m.set(disk.Disk{VMID: 120, Node: "pve1", Marked: true}); !m.Size.IsNull() || !m.Volume.IsNull() {
		t.Errorf("detached: %+v", m)
	}
}

// TestDiskSchema: the model fits the schema, and each attribute that the locator returns exists.
func TestDiskSchema(t *testing.T) {
	s := diskSchema(t.Context())
	empty := tfsdk.State{Schema: s, Raw: tftypes.NewValue(s.Type().TerraformType(t.Context()), nil)}
	if diags := empty.Set(t.Context(), &model{}); diags.HasError() {
		t.Error(diags)
	}
	for dotted, want := range map[string]string{"node": "node", "pool": "pool", "disks." + vm.HolderSlot + ".size": "size",
		"disks." + vm.HolderSlot + ".storage": "storage", "disks.scsi9.size": "", "memory": ""} {
		at, ok := locator{}.Attribute(dotted)
		if ok != (want != "") || ok && (!at.Equal(path.Root(want)) || s.Attributes[want] == nil) {
			t.Errorf("%s: %s, %t", dotted, at, ok)
		}
	}
	if at, ok := (locator{}).Parameter(vm.HolderSlot); !ok || !at.Equal(path.Root("storage")) {
		t.Errorf("the drive: %s, %t", at, ok)
	}
	for value, want := range map[string]bool{"": false, "a ": false, "a\n": false, "a\nb": true, " a": true} {
		var resp validator.StringResponse
		trimmed().ValidateString(t.Context(), validator.StringRequest{ConfigValue: text(value)}, &resp)
		if resp.Diagnostics.HasError() == want {
			t.Errorf("description %q: %v", value, resp.Diagnostics)
		}
	}
}
