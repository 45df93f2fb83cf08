package adoption_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// othersWorld has a VM with a snapshot, a snippet and an HA rule of a third party.
func othersWorld(t *testing.T) *rig.World {
	t.Helper()
	w := rig.NewWorld(t, pvesim.Options{Profile: "9.2"})
	w.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "snippets/theirs.yaml", Content: "snippets", Format: "snippet", Size: 15, Data: "#cloud-config\n#\n"[:15]})
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-800-disk-0", Content: "images", VMID: 800, Format: "raw", Size: 1 << 30, Data: "x", Snaps: []string{"theirs"}})
		world.Guests[800] = &state.Guest{VMID: 800, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "n", "memory": "512", "parent": "theirs",
			"smbios1": "uuid=5b36be59-a375-4aa3-915e-e299d1600800", "scsi0": "local-zfs:vm-800-disk-0,size=1G"},
			Snaps: map[string]map[string]string{"theirs": {"snaptime": "1700000000", "scsi0": "local-zfs:vm-800-disk-0,size=1G"}}}
		world.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored"}
		world.HARules = map[string]map[string]string{"theirs": {"type": "node-affinity", "resources": "vm:8000", "nodes": "pve1"}}
	})
	w.Sim.Advance(20e9)
	return w
}

// TestPlanRefusesToReplaceWhatWasJustImported: the id of an import is a slip, so the configuration is of another object. The plan would
// destroy the imported one, and says so in an error, until an apply has changed the object. A tainted one is replaced.
func TestPlanRefusesToReplaceWhatWasJustImported(t *testing.T) {
	t.Parallel()
	const vm = "node = \"pve1\"\nname = \"n\"\npower_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }\n"
	const snippet = "node = \"pve1\"\nstorage = \"local\"\ncontent = \"#cloud-config\\n\"\n"
	const rule = "type = \"node-affinity\"\nresources = [\"vm:8000\"]\nnodes = { pve1 = 0 }\n"
	for typ, c := range map[string]struct {
		as                  rig.Identity
		id, wrong, says     string
		changed, thenReplac string // a change in place of the imported object, and a replacement after that
	}{
		"proxmox_vm":          {rig.TokenNoSSH, "800", "vmid = 400\n" + vm, "VM 400", "vmid = 800\ncpu = { cores = 2 }\n" + vm, "vmid = 400\n" + vm},
		"proxmox_vm_snapshot": {rig.TokenNoSSH, "800/theirs", "vmid = 800\nname = \"mine\"\n", "snapshot mine", "vmid = 800\nname = \"theirs\"\ndescription = \"a\"\n", "vmid = 800\nname = \"mine\"\n"},
		"proxmox_snippet": {rig.TokenSSH, "pve1/local:snippets/theirs.yaml", "name = \"mine.yaml\"\n" + snippet, "mine.yaml",
			"name = \"theirs.yaml\"\n" + snippet, "name = \"mine.yaml\"\n" + snippet},
		"proxmox_ha_rule": {rig.RootTicket, "theirs", "rule = \"mine\"\n" + rule, "HA rule mine", "rule = \"theirs\"\ncomment = \"a\"\n" + rule, "rule = \"mine\"\n" + rule},
	} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			block := func(body string) string { return fmt.Sprintf("resource %q \"x\" {\n%s}\n", typ, body) }
			w := othersWorld(t)
			s := w.Session(t, c.as, block(c.wrong))
			rig.Must(t, s.Import(t.Context(), typ+".x", c.id))
			_, err := s.Plan(t.Context())
			if said := fmt.Sprint(s.Diagnostics()); err == nil || !strings.Contains(said, "was imported, and would be replaced") || !strings.Contains(said, c.says) {
				t.Errorf("%v; it says %s", err, said)
			}
			s.Taint(typ+".x", true)
			if pl, err := s.Plan(t.Context()); err != nil || pl.Empty() {
				t.Errorf("tainted: %v; %v", err, pl)
			}
			s.Taint(typ+".x", false)
			for range 3 { // an apply stores what was refreshed, also where it changes nothing
				rig.Must(t, s.Refresh(t.Context()))
			}
			if pl, err := s.Plan(t.Context()); err != nil || pl.Empty() {
				t.Errorf("after some applies: %v; %v", err, pl)
			}
			w.Reconfigure(t, s, c.as, block(c.changed))
			rig.Must(t, s.Run(t.Context()))
			w.Reconfigure(t, s, c.as, block(c.thenReplac))
			if pl, err := s.Plan(t.Context()); err != nil || pl.Empty() {
				t.Errorf("after an apply: %v; %v", err, pl)
			}
		})
	}
}
