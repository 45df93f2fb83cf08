package orphan

import (
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/shell"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/printed"
)

// listed is the name of a file as a listing has it: its bytes are encoded once more.
func listed(volid string) string {
	var b strings.Builder
	for _, c := range []byte(volid) {
		b.WriteRune(rune(c))
	}
	return b.String()
}

// TestLawCommandsOfOrphans: names that third parties choose come into no command that a shell would take apart: a volume of
// any VMID takes Datastore.AllocateSpace only, and a realm with autocreate takes names of users from elsewhere.
func TestLawCommandsOfOrphans(t *testing.T) {
	r := newRig(t)
	unusual := []string{"vm-777-x;id>${PWD}PWNED;#.raw", "vm-777-$(id).raw", "vm-777-`id`.raw", "vm-777-'.raw", `vm-777-".raw`, `vm-777-\.raw`,
		"vm-777-ü.raw", "vm-777-\x1b[2J.raw", "vm-777-\u202e.raw", "vm-777-&id&.raw", "vm-777-*.raw"}
	var volumes []string
	for _, name := range unusual {
		volid := r.volume("local", "777/"+name, 777)
		volumes = append(volumes, volid, listed(volid))
	}
	good := r.volume("local", "777/vm-777-disk-0.raw", 777)
	r.change(func(w *state.World) {
		for _, user := range []string{"a'b@pve", "a;id@pve", "$(id)@pve", "-x@pve", "auditor@pve", "auditor@pve!ro"} {
			w.ACL = append(w.ACL, state.ACLEntry{Path: "/vms/302", Subject: user, Role: "PVEAuditor"})
		}
	})
	r.later(2 * fresh)
	commands, byHand, foreign := 0, 0, 0
	for _, i := range r.find().Items {
		switch {
		case strings.Contains(i.Reason, shell.ByHand):
			if byHand++; i.Command != "" || i.Certainty == Unknown {
				t.Errorf("%q is %s, and has the command %q", i.ID, i.Certainty, i.Command)
			}
		case slices.Contains(volumes, i.ID): // PVE gives no such name
			if foreign++; i.Command != "" || i.Certainty != Unknown {
				t.Errorf("%q is %s: said %s, command %q", i.ID, i.Certainty, i.Reason, i.Command)
			}
		default:
			words, err := printed.Words(i.Command)
			is := len(words) == 1 && slices.Contains([]string{"pvesm free " + good, "pveum acl delete /vms/302 --users auditor@pve --roles PVEAuditor",
				"pveum acl delete /vms/302 --tokens auditor@pve!ro --roles PVEAuditor"}, strings.Join(words[0], " "))
			if commands++; err != nil || !is {
				t.Errorf("%q: the command %q has the words %q, %v", i.ID, i.Command, words, err)
			}
		}
	}
	if commands != 3 || byHand != 4 || foreign != len(unusual) {
		t.Errorf("%d items have a command, %d have none since their names are unusual, %d names are not PVE's", commands, byHand, foreign)
	}
}
