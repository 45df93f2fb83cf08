package adoption_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// ofBPG is a state of bpg/proxmox of the simulator's VM 8000, changed by edits of its attributes.
func ofBPG(t *testing.T, edits map[string]string) terraformtest.Foreign {
	t.Helper()
	attributes := map[string]json.RawMessage{}
	for name, value := range map[string]string{"id": `"8000"`, "vm_id": "8000", "node_name": `"pve1"`, "name": `"existing"`, "started": "true",
		"disk": `[{"interface": "scsi0"}]`, "network_device": "[{}]"} {
		attributes[name] = json.RawMessage(value)
	}
	for name, value := range edits {
		attributes[name] = json.RawMessage(value)
	}
	raw, err := json.Marshal(attributes)
	rig.Must(t, err)
	return terraformtest.Foreign{Provider: "registry.terraform.io/bpg/proxmox", Type: "proxmox_virtual_environment_vm", JSON: raw}
}

const existing = `
resource "proxmox_vm" "it" {
  vmid     = 8000
  node     = "pve1"
  name     = "existing"
  disks    = { scsi0 = { storage = "local-lvm", size = "4G" } }
  networks = { net0 = { bridge = "vmbr0" } }
}
`

// TestMoveStateRefusals: the provider verifies a state that another provider wrote before it relies on it. Nothing is written, nothing
// is destroyed, and the moved resource stays in state.
func TestMoveStateRefusals(t *testing.T) {
	t.Parallel()
	const address = "proxmox_vm.it"
	stranger := map[string]string{"name": `"web"`, "mac_addresses": `["BC:24:11:12:34:56"]`}
	for name, c := range map[string]struct {
		edits map[string]string
		world func(*rig.World)
		says  string // "": it is taken over
	}{
		"as it was":                       {},
		"renamed, same device":            {edits: map[string]string{"name": `"web"`, "mac_addresses": "MAC"}},
		"same name, other devices":        {edits: map[string]string{"mac_addresses": `["BC:24:11:12:34:56"]`}},
		"same uuid":                       {edits: map[string]string{"smbios": `[{"uuid": UUID}]`}},
		"another name and another device": {edits: stranger, says: "it is another one"},
		"another uuid": {edits: map[string]string{"smbios": `[{"uuid": "11111111-1111-4111-8111-111111111111"}]`},
			says: "is not the VM in state"},
		"half made":   {world: func(w *rig.World) { w.Sim.StaleLock(8000, "clone", "root@pam") }, says: "half made"},
		"a container": {edits: map[string]string{"vm_id": "8100", "id": `"8100"`}, says: "8100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			if c.world != nil {
				c.world(w)
			}
			var mac, uuid string
			w.Change(func(world *state.World) {
				config := world.Guests[8000].Config
				mac = strings.TrimPrefix(strings.Split(config["net0"], ",")[0], "virtio=")
				uuid = strings.TrimPrefix(config["smbios1"], "uuid=")
			})
			w.Mark()
			edits := map[string]string{}
			for attribute, value := range c.edits {
				value = strings.ReplaceAll(value, "UUID", fmt.Sprintf("%q", strings.ToUpper(uuid)))
				edits[attribute] = strings.ReplaceAll(value, "MAC", fmt.Sprintf("[%q]", strings.ToLower(mac)))
			}
			vmid := "8000"
			if id, other := edits["vm_id"]; other {
				vmid = id
			}
			s := w.Session(t, rig.RootTicket, strings.ReplaceAll(existing, "8000", vmid))
			rig.Must(t, s.Move(t.Context(), address, ofBPG(t, edits)))
			pl, err := s.Plan(t.Context())
			switch {
			case c.says == "" && (err != nil || !pl.Empty()):
				t.Errorf("%v, %v", err, pl)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("said %v", err)
			}
			if c.says != "" {
				if err := s.Destroy(t.Context()); err == nil {
					t.Error("it is destroyed")
				}
			}
			if len(s.Addresses()) != 1 || len(writes(w)) > 0 {
				t.Errorf("in state %v, written %v", s.Addresses(), writes(w))
			}
			w.MustBeClean(t)
		})
	}
}

// TestMoveStateUnread: before the server was asked about it nothing is planned for a VM that was moved, and it is not destroyed.
func TestMoveStateUnread(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, existing)
	rig.Must(t, s.Move(t.Context(), "proxmox_vm.it", ofBPG(t, nil)))
	for _, options := range [][]terraformtest.PlanOption{{terraformtest.WithoutRefresh()}, {terraformtest.WithoutRefresh(), terraformtest.ToDestroy()}} {
		if _, err := s.Plan(t.Context(), options...); err == nil || !strings.Contains(err.Error(), "moved here from a proxmox_virtual_environment_vm") {
			t.Errorf("said %v", err)
		}
	}
	rig.Must(t, s.Refresh(t.Context()))
	pl, err := s.Plan(t.Context(), terraformtest.WithoutRefresh())
	rig.Must(t, err)
	if !pl.Empty() {
		t.Errorf("%s", pl)
	}
	w.MustBeClean(t)
}

// TestMoveStateWithoutAMove: a state of bpg's proxmox_vm that was handed over as it is, by state replace-provider, is refused by everything. A
// move takes it over, and our own state from another address is kept as it is.
func TestMoveStateWithoutAMove(t *testing.T) {
	t.Parallel()
	const address = "proxmox_vm.it"
	theirs := []byte(`{"id": 8000, "node_name": "pve1", "name": "existing", "description": null, "tags": ["a"], "template": false,
		"cpu": {"cores": 2, "type": "host", "architecture": null}, "cdrom": null, "vga": null, "rng": null, "stop_on_destroy": true,
		"purge_on_destroy": true, "delete_unreferenced_disks_on_destroy": false, "timeouts": null}`)
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, existing)
	s.Put(address, theirs, nil)
	plan := func() error { _, err := s.Plan(t.Context()); return err }
	blind := func() error { _, err := s.Plan(t.Context(), terraformtest.WithoutRefresh()); return err }
	end := func() error { return s.Destroy(t.Context()) }
	for name, do := range map[string]func() error{"plan": plan, "plan without a refresh": blind, "destroy": end} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "The state is another provider's") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Forget(address)
	rig.Must(t, s.Move(t.Context(), address, terraformtest.Foreign{Provider: "registry.terraform.io/bpg/proxmox", Type: "proxmox_vm", JSON: theirs}))
	rig.Must(t, s.Converge(t.Context())) // the devices that bpg does not know are new in state, and there
	before, err := s.Instance(address)
	rig.Must(t, err)
	raw, private := s.Raw(address)
	s.Forget(address)
	for _, source := range []string{"registry.opentofu.org/terraform-proxmox/proxmox", "proxmox"} {
		rig.Must(t, s.Move(t.Context(), address, terraformtest.Foreign{Provider: source, Type: "proxmox_vm", JSON: raw, Private: private}))
		after, err := s.Instance(address)
		rig.Must(t, err)
		if d := terraformtest.Differences(before.Value, after.Value); len(d) > 0 || !bytes.Equal(after.Private, before.Private) {
			t.Errorf("%s: %v, private state %s, was %s", source, d, after.Private, before.Private)
		}
		identity, err := s.Identity(t.Context(), address)
		rig.Must(t, err)
		if is := terraformtest.ShowValue(terraformtest.At(identity, "vmid")); is != "8000" {
			t.Errorf("%s: the identity is %s", source, is)
		}
		s.Forget(address)
	}
	if wrote := writes(w); len(wrote) > 0 {
		t.Errorf("written: %v", wrote)
	}
	w.MustBeClean(t)
}

// TestMoveStateNeverReplaces: another source in the configuration than in the state of the other provider is recorded; once an apply of
// ours has written it, it counts as ever.
func TestMoveStateNeverReplaces(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	cloned := strings.Replace(existing, "name     =", "clone    = { vmid = 9000, full = true }\n  name     =", 1)
	s := w.Session(t, rig.RootTicket, cloned)
	rig.Must(t, s.Move(t.Context(), "proxmox_vm.it", ofBPG(t, map[string]string{"clone": `[{"vm_id": 9001, "full": true}]`,
		"disk": `[{"interface": "scsi0", "import_from": "local:import/a.qcow2"}]`})))
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	if c := pl.Change("proxmox_vm.it"); c == nil || c.Action != terraformtest.Update {
		t.Fatalf("planned: %s", pl)
	}
	rig.Must(t, s.Apply(t.Context(), pl))
	if wrote := writes(w); len(wrote) > 0 {
		t.Errorf("written: %v", wrote)
	}
	w.MustBeClean(t)
	linked := strings.Replace(strings.Replace(cloned, "full = true", "full = false", 1), `storage = "local-lvm", `, "", 1)
	w.Reconfigure(t, s, rig.RootTicket, linked)
	if pl, err = s.Plan(t.Context()); pl == nil || !strings.Contains(pl.String(), "replace proxmox_vm.it") {
		t.Errorf("%v, %v", pl, err)
	}
}

// TestMoveStateTellsWhatIsLeftOut: what only the former state knew is in the plan or in a warning where the
// configuration leaves it out, as the guides promise. An attribute that no state knows is added once, without a request.
func TestMoveStateTellsWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	const late = "  wait_for = { timeout = \"1m\" }\n  shutdown_timeout = \"1m\"\n  removed_disks = \"destroy\"\n}\n"
	added := strings.TrimSuffix(existing, "}\n") + late
	for name, c := range map[string]struct {
		edits  map[string]string
		config string
		warns  bool // instead of a line in the plan
	}{
		"by default":          {nil, existing, false},
		"started":             {map[string]string{"started": "false"}, existing, true},
		"stop_on_destroy":     {map[string]string{"stop_on_destroy": "true"}, existing, false},
		"purge_on_destroy":    {map[string]string{"purge_on_destroy": "false"}, existing, false},
		"timeout_shutdown_vm": {map[string]string{"timeout_shutdown_vm": "60"}, existing, false},
		"reboot_after_update": {map[string]string{"reboot_after_update": "false"}, existing, false},
		"timeout_create":      {map[string]string{"timeout_create": "60"}, existing, false},
		"timeout_migrate":     {map[string]string{"timeout_migrate": "60"}, existing, false},
		"no state has it":     {map[string]string{"agent": `[{"timeout": "1m"}]`}, added, false},
	} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.RootTicket, c.config)
		rig.Must(t, s.Move(t.Context(), "proxmox_vm.it", ofBPG(t, c.edits)))
		pl, err := s.Plan(t.Context())
		rig.Must(t, err)
		said := fmt.Sprint(s.Diagnostics())
		if told := strings.Contains(said, "started = false, here power_state"); told != c.warns || !c.warns && len(s.Diagnostics()) > 0 {
			t.Errorf("%s: said %s", name, said)
		}
		if shows := !pl.Empty(); shows != (len(c.edits) > 0 && !c.warns) {
			t.Errorf("%s: planned %s", name, pl)
		}
		rig.Must(t, s.Apply(t.Context(), pl))
		rig.Must(t, s.Converge(t.Context()))
		if wrote := writes(w); len(wrote) > 0 {
			t.Errorf("%s: written %v", name, wrote)
		}
	}
}

// TestForgottenDiskIsNoUnusedVolume: a disk that the configuration does not name leaves the state and stays on the VM, so
// the plan does not show unused_volumes as if it were detached.
func TestForgottenDiskIsNoUnusedVolume(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	s := w.Session(t, rig.RootTicket, strings.Replace(existing, `disks    = { scsi0 = { storage = "local-lvm", size = "4G" } }`, "", 1))
	rig.Must(t, s.Move(t.Context(), "proxmox_vm.it", ofBPG(t, nil)))
	pl, err := s.Plan(t.Context())
	rig.Must(t, err)
	c := pl.Change("proxmox_vm.it")
	if !terraformtest.At(c.Planned, "disks").IsNull() || !terraformtest.At(c.Planned, "unused_volumes").IsKnown() {
		t.Errorf("planned %s", pl)
	}
	rig.Must(t, s.Apply(t.Context(), pl))
	rig.Must(t, s.Converge(t.Context()))
	if wrote := writes(w); len(wrote) > 0 {
		t.Errorf("written: %v", wrote)
	}
}

// TestMoveWithoutDevicesToCompare: ids are used again. A state without network devices and uuid knows its VM by the name
// alone, and does not take another one over.
func TestMoveWithoutDevicesToCompare(t *testing.T) {
	t.Parallel()
	for name, takes := range map[string]bool{"existing": true, "mine": false} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.RootTicket, existing)
		rig.Must(t, s.Move(t.Context(), "proxmox_vm.it", ofBPG(t, map[string]string{"name": strconv.Quote(name), "network_device": "[]"})))
		_, err := s.Plan(t.Context())
		if took := err == nil; took != takes || !takes && !strings.Contains(err.Error(), `was called "mine"`) {
			t.Errorf("%s: the plan said %v", name, err)
		}
		if err := s.Destroy(t.Context()); (err == nil) != takes {
			t.Errorf("%s: the destroy said %v", name, err)
		}
		w.Change(func(world *state.World) {
			if gone := world.Guests[8000] == nil; gone != takes {
				t.Errorf("%s: VM 8000 is gone: %v", name, gone)
			}
		})
	}
}

// TestDestroyNamesDisksThatAMoveLeft: the configuration does not have a disk of the VM, whether the other provider's
// state had it or not. It goes with the VM, and the plan of the destroy names it, after a move as after an import.
func TestDestroyNamesDisksThatAMoveLeft(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"move", "move of a state that has it", "import"} {
		w := rig.NewWorld(t)
		w.Change(func(world *state.World) {
			g := world.Guests[8000]
			world.Put(&state.Volume{Storage: "local-zfs", Node: g.Node, Name: "vm-8000-disk-7", Content: "images", VMID: 8000, Format: "raw", Size: 1 << 30})
			g.Config["scsi1"] = "local-zfs:vm-8000-disk-7,size=1G"
		})
		s := w.Session(t, rig.RootTicket, existing)
		switch how {
		case "import":
			rig.Must(t, s.Import(t.Context(), "proxmox_vm.it", "8000"))
		case "move":
			rig.Must(t, s.Move(t.Context(), "proxmox_vm.it", ofBPG(t, nil)))
		default:
			disks := map[string]string{"disk": `[{"interface": "scsi0"}, {"interface": "scsi1"}]`}
			rig.Must(t, s.Move(t.Context(), "proxmox_vm.it", ofBPG(t, disks)))
		}
		for range 2 {
			planned, err := s.Plan(t.Context())
			rig.Must(t, err)
			rig.Must(t, s.Apply(t.Context(), planned))
			_, err = s.Plan(t.Context(), terraformtest.ToDestroy())
			rig.Must(t, err)
			if said := s.Diagnostics().String(); !strings.Contains(said, "scsi1: local-zfs:vm-8000-disk-7") {
				t.Errorf("%s: the plan of the destroy said %q", how, said)
			}
		}
	}
}
