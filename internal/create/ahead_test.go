package create

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm/firewall"
)

// TestCopyNamesTheFirewallThatItReplaces: a clone and a restore put the firewall of their source in the place of one that
// an administrator has set for a configured id ahead of its VM (pve-firewall Firewall/Helpers.pm clone_vmfw_conf). That
// is said, unless the configuration has all of it.
func TestCopyNamesTheFirewallThatItReplaces(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		vmid  int
		set   bool
		wants *firewall.Settings
		says  bool
	}{
		"set ahead":              {vmid: 150, set: true, says: true},
		"nothing set":            {vmid: 150},
		"set, and configured":    {vmid: 150, set: true, wants: &firewall.Settings{Enabled: &yes}},
		"an id that PVE chooses": {},
	} {
		b := newBench(t, ticket)
		if c.set {
			b.change(func(w *state.World) {
				w.Firewall[c.vmid] = &state.FirewallFile{Options: map[string]string{"enable": "1", "policy_in": "DROP"}}
			})
		}
		r := ofTemplate()
		r.VMID, r.Firewall = c.vmid, c.wants
		created, err := b.Create(t.Context(), r)
		said := fmt.Sprint(created.Warnings)
		if err != nil || strings.Contains(said, "Firewall of VM 150") != c.says {
			t.Errorf("%s: said %s: %v", name, said, err)
		}
	}
}

// TestRestoreNamesTheFirewallThatItReplaces: a backup brings the firewall of its VM, if that had one (qemu-server
// QemuServer.pm, restore_vma_archive copies fw.conf where the archive has it). Only then the restore replaces another.
func TestRestoreNamesTheFirewallThatItReplaces(t *testing.T) {
	ahead := &state.FirewallFile{Options: map[string]string{"enable": "1", "policy_in": "DROP"}}
	for name, c := range map[string]struct{ set, backedUp *state.FirewallFile }{
		"set, and in the backup":     {set: ahead, backedUp: &state.FirewallFile{Options: map[string]string{"enable": "1"}}},
		"set, and not in the backup": {set: ahead},
		"in the backup alone":        {backedUp: ahead},
	} {
		b := newBench(t, ticket)
		b.backedUp(nil)
		b.change(func(w *state.World) {
			for _, v := range w.Volumes {
				if v.Volid() == theArchive {
					v.Backup.Firewall = c.backedUp
				}
			}
			if c.set != nil {
				w.Firewall[150] = c.set.Clone()
			}
		})
		r := aRestore()
		r.VMID = 150
		created, err := b.Create(t.Context(), r)
		said, replaced := fmt.Sprint(created.Warnings), c.set != nil && c.backedUp != nil
		if err != nil || strings.Contains(said, "PVE has put those of the source in their place") != replaced {
			t.Errorf("%s: said %s: %v", name, said, err)
		}
	}
}

// TestCreateNamesRulesSetAhead: an administrator has set rules for a configured id ahead of its VM. A create that sets the
// firewall removes them, and names those that the configuration does not have.
func TestCreateNamesRulesSetAhead(t *testing.T) {
	theirs := map[string]string{"type": "in", "action": "DROP", "source": "10.0.0.0/8", "enable": "1"}
	for name, c := range map[string]struct {
		r    Request
		want firewall.Settings
		says bool
	}{
		"scratch":             {r: onZFS(), says: true},
		"scratch, other ones": {r: onZFS(), want: firewall.Settings{Rules: []firewall.Rule{}}, says: true},
		"scratch, the same":   {r: onZFS(), want: firewall.Settings{Rules: []firewall.Rule{{Type: to("in"), Action: to("DROP"), Source: to("10.0.0.0/8")}}}},
		"clone":               {r: ofTemplate(), says: true},
		"clone, other ones":   {r: ofTemplate(), want: firewall.Settings{Rules: []firewall.Rule{}}, says: true},
	} {
		b := newBench(t, token)
		b.change(func(w *state.World) {
			w.Firewall[150] = &state.FirewallFile{Options: map[string]string{"enable": "1"}, Rules: []map[string]string{theirs}}
		})
		c.want.Enabled = to(true)
		c.r.VMID, c.r.Firewall = 150, &c.want
		created, err := b.Create(t.Context(), c.r)
		if said := fmt.Sprint(created.Warnings); err != nil || strings.Contains(said, "in DROP source=10.0.0.0/8") != c.says {
			t.Errorf("%s: said %s: %v", name, said, err)
		}
	}
}

// TestFailedCloneNamesTheFirewallThatWentWithIt: PVE removes the firewall of the id where a clone fails (qemu-server
// API2/Qemu.pm clone_vm, remove_vmfw_conf), and puts none in its place.
func TestFailedCloneNamesTheFirewallThatWentWithIt(t *testing.T) {
	for _, firewall := range []*firewall.Settings{nil, {Enabled: to(true)}} {
		b := newBench(t, token)
		b.change(func(w *state.World) {
			w.Firewall[150] = &state.FirewallFile{Options: map[string]string{"enable": "1", "policy_out": "DROP"}}
		})
		b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/clone"},
			Phase: fault.Task, Reason: "clone failed: no space"}})
		r := ofTemplate()
		r.VMID, r.Firewall = 150, firewall
		created, err := b.Create(t.Context(), r)
		said := fmt.Sprint(created.Warnings)
		if err == nil || !strings.Contains(said, "PVE has removed them with the copy that failed") {
			t.Errorf("with %v: said %s: %v", firewall, said, err)
		}
	}
}

// TestCopySaysThatTheFirewallCouldNotBeRead: where the firewall cannot be read after a clone, nothing is said of what PVE has put there.
func TestCopySaysThatTheFirewallCouldNotBeRead(t *testing.T) {
	b := newBench(t, ticket)
	b.change(func(w *state.World) {
		w.Firewall[150] = &state.FirewallFile{Options: map[string]string{"enable": "1", "policy_in": "DROP"}}
	})
	b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/firewall/options", Nth: 3},
		Phase: fault.Before, Times: -1, Status: 403, Reason: "no"}})
	r := ofTemplate()
	r.VMID = 150
	created, err := b.Create(t.Context(), r)
	said := fmt.Sprint(created.Warnings)
	if err != nil || !strings.Contains(said, "is not known") || strings.Contains(said, ". PVE has put those of the source in their place") {
		t.Errorf("said %s: %v", said, err)
	}
}

// TestUndoNamesWhatWasSetAhead: an administrator has given a permission on an id, and firewall rules, an IP set and an
// alias, ahead of its guest. PVE removes all with the VM that a failed create takes back, and the create says so, also
// of a VM in a pool. Without them it says nothing.
func TestUndoNamesWhatWasSetAhead(t *testing.T) {
	permission, rules, sets := "/vms/150", "firewall options or rules", "office"
	for name, c := range map[string]struct {
		pool     string
		firewall *firewall.Settings
		set      bool
		says     []string
	}{"nothing": {}, "nothing, in a pool": {pool: "web"}, "set": {set: true, says: []string{permission, rules, sets, "gate"}},
		"in a pool":            {pool: "web", set: true, says: []string{permission, rules, sets}},
		"rules are configured": {firewall: &firewall.Settings{Enabled: to(true)}, set: true, says: []string{permission, sets}}} {
		b := benchOf(t, pvesim.Options{}, token)
		if c.set {
			b.change(func(w *state.World) {
				w.ACL = append(w.ACL, state.ACLEntry{Path: "/vms/150", Role: "PVEVMUser", Subject: "alice@pve", Propagate: true})
				w.Firewall[150] = &state.FirewallFile{Options: map[string]string{},
					IPSets:  map[string]*state.IPSet{"office": {Entries: []map[string]string{{"cidr": "192.0.2.0/24"}}}},
					Aliases: map[string]map[string]string{"gate": {"name": "gate", "cidr": "192.0.2.1"}}}
			})
			rule := pve.Params{"type": "in", "action": "ACCEPT", "proto": "tcp", "dport": "22", "enable": "1"}
			if err := b.api.Firewall("pve1", 150).AddRule(t.Context(), rule); err != nil {
				t.Fatal(err)
			}
		}
		b.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost, Path: "/nodes/{node}/qemu/{vmid}/status/start"},
			Phase: fault.Before, Status: 500, Reason: "no such bridge"}})
		r := onZFS()
		r.VMID, r.Start, r.Pool, r.Firewall = 150, true, c.pool, c.firewall
		created, err := b.Create(t.Context(), r)
		said, left := fmt.Sprint(created.Warnings), false
		b.change(func(w *state.World) {
			for _, e := range w.ACL {
				left = left || e.Path == "/vms/150"
			}
			left = left || w.Firewall[150] != nil
		})
		named := len(c.says) > 0 || said == "[]"
		for _, one := range c.says {
			named = named && strings.Contains(said, one)
		}
		if err == nil || left || !named || created.Doubt {
			t.Errorf("%s: %v, left %t, said %s", name, err, left, said)
		}
	}
}
