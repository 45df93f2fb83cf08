package volumeuse

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestRemedyTakesNoRoleFromOthers: the next step towards a hidden guest shows it, and is a role more: the members of a
// group keep theirs.
func TestRemedyTakesNoRoleFromOthers(t *testing.T) {
	for name, c := range map[string]struct {
		subject, role, says string
		then                state.ACLEntry // which the next step asks for
	}{
		"a role of a group": {"@ops", "Operators", "`pveum acl modify /vms/666 --groups ops --roles PVEAuditor`",
			state.ACLEntry{Subject: "@ops", Role: "PVEAuditor"}},
		"a role of the user": {"terraform@pve", "Operators", "`pveum acl modify /vms/666 --users terraform@pve --roles PVEAuditor`",
			state.ACLEntry{Subject: "terraform@pve", Role: "PVEAuditor"}},
		"a ban of a group": {"@ops", noAccess, "give the user a role with VM.Audit of its own on /vms/666",
			state.ACLEntry{Subject: "terraform@pve", Role: "PVEAuditor"}},
		"a ban of the user": {"terraform@pve", noAccess, "`pveum acl delete /vms/666 --users terraform@pve --roles NoAccess`",
			state.ACLEntry{}},
	} {
		t.Run(name, func(t *testing.T) {
			sim, err := pvesim.New(pvesim.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(sim.Close)
			w := sim.World()
			entry := state.ACLEntry{Path: "/vms/666", Subject: c.subject, Role: c.role, Propagate: true}
			w.Lock()
			w.Roles["Operators"] = []string{"VM.PowerMgmt", "VM.Console"}
			w.Groups = map[string]*state.Group{"ops": {ID: "ops"}}
			w.Users["terraform@pve"].Groups = []string{"ops"}
			w.ACL = append(w.ACL, entry)
			w.Unlock()
			api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), APIToken: sim.Credentials().Token,
				CACertificate: sim.CAPEM(), DialContext: sim.DialContext})
			if err != nil {
				t.Fatal(err)
			}
			defer api.Close()
			held := map[string]map[string]bool{"/vms": {"VM.Audit": true}, "/access": {"Sys.Audit": true}}
			unseen, err := hidden(t.Context(), api.Reader(), held)
			if err != nil || unseen == nil || !strings.Contains(unseen.Error(), c.says) {
				t.Fatalf("%v, %v, want %s", unseen, err, c.says)
			}
			if took := "acl delete /vms/666 --groups"; strings.Contains(unseen.Error(), took) {
				t.Error(unseen)
			}
			w.Lock()
			if c.then.Role == "" {
				w.ACL = slices.DeleteFunc(w.ACL, func(e state.ACLEntry) bool { return e == entry })
			} else {
				c.then.Path, c.then.Propagate = entry.Path, true
				w.ACL = append(w.ACL, c.then)
			}
			w.Unlock()
			if unseen, err := hidden(t.Context(), api.Reader(), held); unseen != nil || err != nil {
				t.Errorf("after the next step: %v, %v", unseen, err)
			}
		})
	}
}
