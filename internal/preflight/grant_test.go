package preflight

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// texts are the refusals of a plan, each with its summary.
func (w *world) texts(r Request) string {
	var all strings.Builder
	for _, refused := range w.Check(w.t.Context(), r).Refused {
		all.WriteString(refused.Summary + ": " + refused.Detail + "\n\n")
	}
	return all.String()
}

func mustHave(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func mustLack(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, word := range all {
		if strings.Contains(text, word) {
			t.Errorf("%q in:\n%s", word, text)
		}
	}
}

// startup takes Sys.Modify on /.
func startup() vm.Spec { return vm.Spec{Startup: vm.Startup{Order: new(int64(7))}} }

// TestGrantOnTheRoot: each command is an indented line, so that it can be pasted. Privileges that an entry of the same identity
// on the path grants are not repeated: PVE adds up the two. Those of a group there are, since an entry of the user
// replaces them.
func TestGrantOnTheRoot(t *testing.T) {
	for name, byGroup := range map[string]bool{"an entry of its own": false, "an entry of a group": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			token, _, _ := strings.Cut(w.sim.Credentials().Token, "=")
			user, _, _ := strings.Cut(token, "!")
			w.change(func(all *state.World) {
				if !byGroup {
					return
				}
				all.ACL = slices.DeleteFunc(all.ACL, func(e state.ACLEntry) bool { return e.Subject == user || e.Subject == token })
				all.Groups = map[string]*state.Group{"team": {ID: "team"}}
				all.Users[user].Groups, all.Tokens[token].Separated = []string{"team"}, false
				all.ACL = append(all.ACL, state.ACLEntry{Path: "/", Subject: "@team", Role: "TerraformProvider",
					Propagate: true})
			})
			text := w.texts(Request{Creating: true, Node: "pve1", ID: 500, VMID: 500, Planned: startup()})
			mustHave(t, text, "As root:\n  pveum role add terraform-root --privs ", " --roles terraform-root --propagate 0\n")
			mustLack(t, text, "`")
			if !byGroup {
				mustHave(t, text, "--privs Sys.Modify\n", "\nThen plan again")
				return
			}
			mustHave(t, text, ",Sys.Modify,", "\nThe role has what is held there too")
		})
	}
}

// TestGrantWhereItIsMissing: the commands grant a privilege on the path that the error names, and on that of all VMs only
// for a VM whose VMID PVE chooses.
func TestGrantWhereItIsMissing(t *testing.T) {
	spec := vm.Spec{}
	for path, c := range map[string]struct {
		loses   string
		request Request
	}{
		"/vms/9000": {"VM.Clone", Request{Creating: true, Node: "pve1", Clone: &guest.Clone{VMID: 9000}}},
		"/vms/8000": {"VM.PowerMgmt", Request{ID: 8000, Node: "pve1", Started: true}},
		"/vms/500":  {"VM.Allocate", Request{Creating: true, Node: "pve1", VMID: 500, ID: 500, Planned: spec}},
		"/pool/web": {"VM.Allocate", Request{Creating: true, Node: "pve1", VMID: 500, ID: 500, Pool: "web", Planned: spec}},
		"/vms":      {"VM.Allocate", Request{Creating: true, Node: "pve1", Planned: spec}},
	} {
		w := newWorld(t)
		w.change(func(all *state.World) { lose(all, c.loses) })
		text := w.texts(c.request)
		mustHave(t, text, "  pveum acl modify "+path+" --")
		if isNew := path == "/vms/500"; strings.Contains(text, "removes the entry together with the VM") != isNew {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// TestGrantIsToldOnce: an error that has no commands names the one that has them, by its VM if that is another one.
func TestGrantIsToldOnce(t *testing.T) {
	w := newWorld(t)
	w.change(func(all *state.World) { lose(all, "VM.PowerMgmt"); lose(all, "VM.Config.Options") })
	r := Request{Creating: true, Node: "pve1", Started: true, Who: "pve1 a"}
	first := w.texts(r)
	mustHave(t, first, "  pveum acl modify /vms --", `The commands of the error "No permission to mark the VM, by its description" grant it`)

	r.Who, r.Started = " b", false
	second := w.texts(r)
	mustHave(t, second, `The commands of the error "No permission to mark the VM, by its description" for a on pve1 grant it`)
	mustLack(t, second, "As root")

	r.Who, r.Started = " c", true
	third := w.texts(r)
	mustHave(t, third, "Privileges are missing: The same 2 privileges are missing as for a on pve1, whose errors name them. "+
		`The commands of the error "No permission to mark the VM, by its description" for a on pve1 grant it`)
	mustLack(t, third, "As root")

	r.ID, r.VMID, r.Who = 502, 502, "VM 502" // on a path of its own
	fourth := w.texts(r)
	mustHave(t, fourth, "Privileges are missing: The same 2 privileges are missing as for a on pve1, whose errors name them. "+
		"As root:\n", "  pveum acl modify /vms/502 --")
	if strings.Count(fourth, "\n\n") != 1 {
		t.Errorf("more than one error:\n%s", fourth)
	}

	w = newWorld(t)
	w.change(func(all *state.World) { lose(all, "VM.PowerMgmt"); lose(all, "VM.Config.Options") })
	for _, who := range []string{" d", " e"} { // the node is not chosen yet
		r.ID, r.VMID, r.Who = 0, 0, who
		text := w.texts(r)
		mustLack(t, text, " on ,", " on .", "for  ")
	}
}

// TestGrantOfABridge: the error about an unlisted bridge goes on in small letters.
func TestGrantOfABridge(t *testing.T) {
	w := newWorld(t)
	w.change(func(all *state.World) { lose(all, "SDN.Use") })
	text := w.texts(Request{Creating: true, Node: "pve1", Bridges: map[string]string{"networks.net0.bridge": "vmbr9"}})
	mustHave(t, text, "If it has this one: it takes SDN.Use on /sdn/zones/localnetwork/vmbr9")
}
