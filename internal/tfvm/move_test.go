package tfvm

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/foreign"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

func TestMoveStateKnowsItsVM(t *testing.T) {
	nic := func(mac string) map[string]vm.NIC {
		return map[string]vm.NIC{"net0": {NICOptions: vm.NICOptions{MACAddr: &mac}}}
	}
	web := guest.Guest{Spec: vm.Spec{Options: vm.Options{Name: new("web")}, Networks: nic("BC:24:11:00:00:01")}}
	nameless, locked := web, web
	nameless.Spec.Name, locked.Lock = nil, "clone"
	stamped := web
	stamped.Spec.Description = new(guest.Stamp{Cluster: "c", VMID: 100, TX: "t", Deadline: time.Unix(0, 0).UTC()}.String())
	for what, c := range map[string]struct {
		theirs moved
		is     guest.Guest
		says   string
	}{
		"all the same":                  {moved{Name: "web", MACs: []string{"BC:24:11:00:00:01"}}, web, ""},
		"another device":                {moved{Name: "web", MACs: []string{"BC:24:11:00:00:02"}}, web, ""},
		"another name":                  {moved{Name: "db", MACs: []string{"BC:24:11:00:00:02", "BC:24:11:00:00:01"}}, web, ""},
		"another name, no known device": {moved{Name: "db"}, web, ""},
		"another name, another device":  {moved{Name: "db", MACs: []string{"BC:24:11:00:00:02"}}, web, `called "web"`},
		"no names, another device":      {moved{MACs: []string{"BC:24:11:00:00:02"}}, nameless, "[BC:24:11:00:00:01]"},
		"half made":                     {moved{Name: "web"}, locked, "half made"},
		"in the middle of a create":     {moved{Name: "web"}, stamped, "half made"},
	} {
		if got := c.theirs.differs(c.is); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: said %q", what, got)
		}
	}
}

func TestMoveStateTakesInWhatIsNamed(t *testing.T) {
	all := func() model {
		return model{Disks: map[string]diskModel{"scsi0": {}, "scsi1": {}}, Networks: map[string]nicModel{"net0": {}},
			Serial: map[string]portModel{"serial0": {}}, NUMANodes: map[string]vm.NUMANode{"numa0": {}}}
	}
	some := (&moved{Slots: []string{"scsi1"}}).named(all())
	if slots := slices.Collect(maps.Keys(some.Disks)); !slices.Equal(slots, []string{"scsi1"}) || some.Networks != nil || some.Serial != nil ||
		len(some.NUMANodes) != 1 {
		t.Errorf("%+v", some)
	}
	for what, m := range map[string]*moved{"not moved": nil, "not known": {}} {
		if got := m.named(all()); len(got.Disks) != 2 || len(got.Serial) != 1 {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestMoveStateIsOurModel(t *testing.T) {
	v := newValues(t.Context())
	raw := rawOf(t, v, fromForeign(foreign.VM{VMID: 101, Node: "pve1", Stopped: true, NoReboot: true, Images: map[string]string{"scsi0": "local:import/a.qcow2"},
		Clone: &foreign.Clone{VMID: 9000, Source: 9000, Full: true}, OnDestroy: foreign.OnDestroy{Force: true, Timeout: 90 * time.Second, KeepReferences: true},
		Timeouts: foreign.Timeouts{Create: "10m"}}))
	m, diags := v.model(t.Context(), raw)
	if diags.HasError() || value(m.ID) != "101" || value(m.VMID) != 101 || value(m.PowerState) != "stopped" || value(m.RebootPolicy) != "never" ||
		value(m.Disks["scsi0"].ImportFrom) != "local:import/a.qcow2" || value(m.Clone.VMID) != 9000 || !value(m.Clone.Full) || m.Clone.Name != nil ||
		value(m.OnDestroy.PowerOff) != "force" || value(m.OnDestroy.Timeout) != "1m30s" || value(m.OnDestroy.Purge) || value(m.Timeouts.Create) != "10m" {
		t.Errorf("%v, %+v", diags, m)
	}
	for a, want := range map[string]bool{"90s": true, "1m30s": true, "91s": false, "x": false} {
		if sameDuration(text(a), text("1m30s")) != want {
			t.Errorf("%s is the same: %t", a, !want)
		}
	}
}
