package story_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// turn is a command under way, and all that the oracle wants to know of it.
type turn struct {
	dir     *workdir
	cue     cue
	trouble trouble
	edits   []string
	only    []string // names of machines, of a target
	plan    *terraformtest.Plan
	said    terraformtest.Diagnostics
	err     error
	ops     []pvesim.Op
	began   moment
	chain   []link        // the acts of third parties
	hurts   []int         // guests whose contents a third party, or a roll-back, has changed
	later   time.Duration // between plan and apply
	vmid    int           // that the third party's act is about
	drained int           // how many reports of third parties were taken
	// rolledBack is the guest that the user has rolled back.
	rolledBack int
	did
}

// did are the turns that a command has taken.
type did struct {
	ran, applied, troubled bool
	cued, ordered          bool // the third party's act has come, or waits for its request
	acted, amidDone        bool // a third party has acted since the plan
	dead                   bool // the provider was killed
	refused                bool // the last plan ended with an error
	partial                bool // the apply is not about everything, or not by a fresh look
	ends                   bool // it destroys everything
}

// link is an act of a third party, and what belongs to third parties before and after it.
type link struct {
	seq     int
	was, is []byte
	act     thirdparty.Act
	about   int
}

func (a *turn) hurt(vmid int) { a.hurts = append(a.hurts, vmid) }

// gone tells whether a guest is in no state.
func (a *turn) gone(vmid int, s *story) bool {
	for _, d := range s.dirs {
		for _, m := range d.vms {
			if m.vmid == vmid && slices.Contains(d.session.Addresses(), m.address()) {
				return false
			}
		}
		if vmid == 300 && d.disk != nil && slices.Contains(d.session.Addresses(), rig.DiskAddress) {
			return false
		}
	}
	return true
}

// names tells whether the plan names the end of a volume: that of its guest, or of its slot, or in a message.
func (a *turn) names(volid string) bool {
	if a.plan == nil {
		return false
	}
	for _, c := range a.plan.Changes {
		switch c.Action {
		case terraformtest.Delete, terraformtest.Replace:
			if strings.Contains(terraformtest.ShowValue(c.Prior), volid) {
				return true
			}
		case terraformtest.Update:
			lines := terraformtest.Differences(c.Prior, c.Planned)
			if terraformtest.Text(c.Planned, "removed_disks") == "destroy" &&
				slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, volid) }) {
				return true
			}
		}
	}
	return strings.Contains(a.plan.Diagnostics.String(), volid)
}

// asksFor tells whether a request of the command switches a guest off. The requests of the HA manager are made by root, too.
func (a *turn) asksFor(vmid int) bool {
	return slices.ContainsFunc(a.ops, func(op pvesim.Op) bool {
		return op.VMID == vmid && (op.Method == http.MethodDelete || strings.Contains(op.Path, "/status/") && op.Method == http.MethodPost)
	})
}

// tooLate tells whether an act between two requests came after the last look that would have shown it. PVE has
// no request that looks and acts at once, so nothing could be done.
func (a *turn) tooLate() bool {
	return slices.ContainsFunc(a.chain, func(l link) bool {
		if l.seq == 0 {
			return false
		}
		n := slices.IndexFunc(a.ops, func(op pvesim.Op) bool {
			return op.Seq >= l.seq && op.Method != http.MethodGet && op.Status == 200
		})
		if n < 0 {
			return true
		}
		for _, op := range slices.Backward(a.ops[:n]) {
			about := op.VMID == l.about && (strings.HasSuffix(op.Path, "/config") || strings.HasSuffix(op.Path, "/pending"))
			switch {
			case op.Status != 200:
			case about || l.act == thirdparty.Attach && op.Path == "/cluster/resources":
				return op.Seq < l.seq
			case op.Method != http.MethodGet:
				return false
			}
		}
		return false
	})
}

// theirVolume is a volume in the export of third parties' objects.
type theirVolume struct {
	Volid, On, Data string
	Gone, Shared    bool
	VMID            int
}

func volumesOf(export []byte) (all map[string]theirVolume) {
	var doc struct{ Volumes []theirVolume }
	_ = json.Unmarshal(export, &doc) // the simulator's own
	all = map[string]theirVolume{}
	for _, v := range doc.Volumes {
		all[v.Volid+" on "+v.On] = v
	}
	return all
}

// attachedSize is the size of a disk of ours, as the configuration of a guest has it to which a third party has
// attached it: it grows with the disk.
var attachedSize = regexp.MustCompile(`(vm-(?:300|40\d|500)-disk-\d+[^," \n]*),size=\w+`)

// differences are those between two exports that no act of a third party's explains.
func differences(w *state.World, a *turn, was, is []byte) (wrong []string) {
	was, is = attachedSize.ReplaceAll(was, []byte("$1")), attachedSize.ReplaceAll(is, []byte("$1"))
	if bytes.Equal(was, is) {
		return nil
	}
	before, after := volumesOf(was), volumesOf(is)
	for name, v := range before {
		now, ok := after[name]
		switch {
		case v.Gone: // another may come under the name that a configuration still has
		case !ok && v.Shared && holdsData(w, v.Data):
		case !ok && (movedAlong(w, v) || a.names(v.Volid)):
		case !ok:
			wrong = append(wrong, fmt.Sprintf("a third party's volume %s is gone", name))
		case now.Gone != v.Gone || now.Data != v.Data:
			wrong = append(wrong, fmt.Sprintf("a third party's volume %s holds %q, was %q", name, now.Data, v.Data))
		}
	}
	for _, line := range rig.SnapshotDiff(was, is) {
		if _, rest, _ := strings.Cut(line, ": "); !strings.HasPrefix(rest, "volume") {
			wrong = append(wrong, "a third party's "+line)
		}
	}
	slices.Sort(wrong)
	return wrong
}

// holdsData tells whether some volume has a content.
func holdsData(w *state.World, data string) bool {
	for _, v := range w.Volumes {
		if v.Data == data {
			return true
		}
	}
	return false
}

// movedAlong finds a third party's volume that has moved with our guest, which still names it, and marks it as
// theirs.
func movedAlong(w *state.World, was theirVolume) bool {
	for _, v := range w.Volumes {
		if v.Data != was.Data {
			continue
		}
		for _, g := range w.Guests {
			if g.Node == v.Node || v.Node == "" {
				if slices.Contains(g.Volids(), v.Volid()) && !w.ThirdParties.Guests[g] {
					w.ThirdParties.Volumes[v] = true
					return true
				}
			}
		}
	}
	return false
}
