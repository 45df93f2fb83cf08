package vm

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/otherstate"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/vm/model"
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
	stamped.Spec.Description = new(markOfACreate)
	for what, c := range map[string]struct {
		theirs model.Moved
		is     guest.Guest
		says   string
	}{
		"all the same":                  {model.Moved{Name: "web", MACs: []string{"BC:24:11:00:00:01"}}, web, ""},
		"another device":                {model.Moved{Name: "web", MACs: []string{"BC:24:11:00:00:02"}}, web, ""},
		"another name":                  {model.Moved{Name: "db", MACs: []string{"BC:24:11:00:00:02", "BC:24:11:00:00:01"}}, web, ""},
		"another name, no known device": {model.Moved{Name: "db"}, web, "was called \"db\""},
		"the name, no known device":     {model.Moved{Name: "web"}, web, ""},
		"no name, no known device":      {model.Moved{}, web, ""},
		"another name, another device":  {model.Moved{Name: "db", MACs: []string{"BC:24:11:00:00:02"}}, web, `called "web"`},
		"no names, another device":      {model.Moved{MACs: []string{"BC:24:11:00:00:02"}}, nameless, "[BC:24:11:00:00:01]"},
		"half made":                     {model.Moved{Name: "web"}, locked, "half made"},
		"in the middle of a create":     {model.Moved{Name: "web"}, stamped, "half made"},
	} {
		if got := c.theirs.Differs(c.is, false); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: said %q", what, got)
		}
	}
	if got := (&model.Moved{Name: "db"}).Differs(web, true); got != "" {
		t.Errorf("another name, the same uuid: said %q", got)
	}
}

func TestMoveStateTakesInWhatIsNamed(t *testing.T) {
	all := func() model.Model {
		return model.Model{Disks: map[string]model.Disk{"scsi0": {}, "scsi1": {}}, Networks: map[string]model.NIC{"net0": {}},
			Serial: map[string]model.Port{"serial0": {}}, NUMANodes: map[string]vm.NUMANode{"numa0": {}}}
	}
	some := (&model.Moved{Slots: []string{"scsi1"}}).Named(all())
	if slots := slices.Collect(maps.Keys(some.Disks)); !slices.Equal(slots, []string{"scsi1"}) || some.Networks != nil || some.Serial != nil ||
		len(some.NUMANodes) != 1 {
		t.Errorf("%+v", some)
	}
	for what, m := range map[string]*model.Moved{"not moved": nil, "not known": {}} {
		if got := m.Named(all()); len(got.Disks) != 2 || len(got.Serial) != 1 {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestMoveStateIsOurModel(t *testing.T) {
	v := model.SchemaValues()
	raw := rawOf(t, v, fromForeign(otherstate.VM{VMID: 101, Node: "pve1", Stopped: true, NoReboot: true, Images: map[string]string{"scsi0": "local:import/a.qcow2"},
		Clone: &otherstate.Clone{VMID: 9000, Source: 9000, Full: true}, OnDestroy: otherstate.OnDestroy{Force: true, Timeout: 90 * time.Second, KeepReferences: true},
		Timeouts: otherstate.Timeouts{Create: "10m"}}))
	m, diags := v.Model(t.Context(), raw)
	if diags.HasError() || model.Value(m.ID) != "101" || model.Value(m.VMID) != 101 || model.Value(m.PowerState) != "stopped" || model.Value(m.RebootPolicy) != "never" ||
		model.Value(m.Disks["scsi0"].ImportFrom) != "local:import/a.qcow2" || model.Value(m.Clone.VMID) != 9000 || !model.Value(m.Clone.Full) || m.Clone.Name != nil ||
		model.Value(m.OnDestroy.PowerOff) != "force" || model.Value(m.OnDestroy.Timeout) != "1m30s" || model.Value(m.OnDestroy.Purge) || model.Value(m.Timeouts.Create) != "10m" {
		t.Errorf("%v, %+v", diags, m)
	}
	for a, want := range map[string]bool{"90s": true, "1m30s": true, "91s": false, "x": false} {
		if model.SameDuration(model.Text(a), model.Text("1m30s")) != want {
			t.Errorf("%s is the same: %t", a, !want)
		}
	}
}

// markOfACreate is the description of a VM that a create has not committed.
const markOfACreate = "Terraform is creating this VM. Do not touch it.\n\ncluster: c\nvmid: 100\ntransaction: 0123456789abcdef\n" +
	"key: 0123456789abcdef0123456789abcdef\nuser: u@pve\nby: qmcreate\nrenewed: 0\nsignature: " +
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
