package create

import (
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// asked counts requests of a kind since the last ResetOps.
func (b bench) asked(method, path string, vmid int) (n int) {
	for _, op := range b.sim.Ops() {
		if op.Method == method && op.Path == path && (vmid == 0 || op.VMID == vmid) {
			n++
		}
	}
	return n
}

// TestFindUsesWhatThePlanHasRead: the listing and the source's configuration of a moment ago are not asked for again.
func TestFindUsesWhatThePlanHasRead(t *testing.T) {
	b := newBench(t, token)
	if _, _, err := b.api.Listing().Recent(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.guests.SourceConfig(t.Context(), "pve1", 9000); err != nil {
		t.Fatal(err)
	}
	b.sim.ResetOps()
	if _, err := b.Create(t.Context(), ofTemplate()); err != nil {
		t.Fatal(err)
	}
	if n := b.asked("GET", "/cluster/resources", 0) + b.asked("GET", "/nodes/{node}/qemu/{vmid}/config", 9000); n != 0 {
		t.Errorf("%d requests for known facts", n)
	}
}

// TestFindLooksAgain: what the plan's listing lacks, or what was changed since by this process, is looked for again.
func TestFindLooksAgain(t *testing.T) {
	b := newBench(t, ticket)
	if _, _, err := b.api.Listing().Recent(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.change(func(w *state.World) {
		w.Guests[9100] = &state.Guest{VMID: 9100, Type: "qemu", Node: "pve1", Config: maps.Clone(w.Guests[9000].Config)}
	})
	full := true
	if _, err := b.Create(t.Context(), Request{Clone: &guest.Clone{VMID: 9100, Full: &full}}); err != nil {
		t.Errorf("a source that was made a moment ago: %v", err)
	}

	if _, err := b.guests.SourceConfig(t.Context(), "pve1", 9000); err != nil {
		t.Fatal(err)
	}
	if err := b.api.QEMU("pve1", 9000).UpdateConfig(t.Context(), pve.Params{"description": "changed since"}); err != nil {
		t.Fatal(err)
	}
	created, err := b.Create(t.Context(), ofTemplate())
	if d := created.Guest.Spec.Description; err != nil || d == nil || *d != "changed since" {
		t.Errorf("the clone has not the description of its source as it is now: %v, %v", created.Guest.Spec, err)
	}
}

// TestFindReadsASourceThatHasNoNameYet: PVE lists a VM without its name for some seconds after its create. A clone by
// name or tag reads the few such VMs where no other is meant, and none where one is.
func TestFindReadsASourceThatHasNoNameYet(t *testing.T) {
	for name, c := range map[string]struct {
		clone guest.Clone
		away  bool
		reads int
		fails string
	}{
		"by name":                {clone: guest.Clone{Name: "fresh"}, reads: 3},
		"by tag":                 {clone: guest.Clone{Tags: []string{"fresh"}}, reads: 2}, // the other lacks the tag
		"on its node":            {clone: guest.Clone{Name: "fresh", Node: "pve1"}, reads: 3},
		"on another node":        {clone: guest.Clone{Name: "fresh", Node: "pve2"}, fails: "VM named \"fresh\" on node pve2"},
		"none of them":           {clone: guest.Clone{Name: "missing"}, reads: 2, fails: "There is no VM named \"missing\""},
		"its node is silent":     {clone: guest.Clone{Name: "fresh"}, away: true, fails: "Or it is one of these"},
		"another is meant":       {clone: guest.Clone{Name: "template"}, reads: 1},
		"another is meant by id": {clone: guest.Clone{VMID: 9000}, reads: 1},
	} {
		b := newBench(t, ticket)
		b.change(func(w *state.World) {
			for vmid, name := range map[int]string{9100: "fresh", 9101: "other"} {
				config := maps.Clone(w.Guests[9000].Config)
				config["name"], config["tags"] = name, name
				w.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: "pve1", Config: config}
			}
			w.Nodes["pve1"].Silent = c.away
		})
		b.sim.ResetOps()
		c.clone.Full = new(true)
		_, err := b.Create(t.Context(), Request{VMID: 500, Clone: &c.clone})
		if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s: %v", name, err)
		}
		if c.fails != "" && !c.away && strings.Contains(err.Error(), "Or it is one of these") {
			t.Errorf("%s: VMs that were read may be it: %v", name, err)
		}
		reads := 0
		for _, vmid := range []int{9000, 9100, 9101} {
			reads += b.asked("GET", "/nodes/{node}/qemu/{vmid}/config", vmid)
		}
		if reads != c.reads {
			t.Errorf("%s: %d reads of sources, want %d", name, reads, c.reads)
		}
	}
}

// TestFindWaitsForALockedSource: a lock that was read a moment ago is looked at again, and one that came since makes
// the create start again.
func TestFindWaitsForALockedSource(t *testing.T) {
	for name, before := range map[string]bool{"known": true, "not known": false} {
		b := newBench(t, ticket)
		lock := func() { b.sim.HoldLock(9000, "backup", 20*time.Second, "root@pam") }
		if before {
			lock()
		}
		if _, err := b.guests.SourceConfig(t.Context(), "pve1", 9000); err != nil {
			t.Fatal(err)
		}
		if !before {
			lock()
		}
		if created, err := b.Create(t.Context(), ofTemplate()); err != nil || created.Guest.VMID != 100 {
			t.Errorf("%s: %+v, %v", name, created, err)
		}
	}
}

// TestFindRefuses: what is not there is refused for the argument that names it, by a listing that was asked for just
// now.
func TestFindRefuses(t *testing.T) {
	b := newBench(t, token)
	for path, r := range map[string]Request{
		"clone.vmid": {Clone: &guest.Clone{VMID: 4711}},
		"clone.name": {Clone: &guest.Clone{Name: "missing"}},
		"node":       {Node: "pve9"},
		"nodes":      {Nodes: []string{"pve8", "pve9"}},
		"vmid":       {Node: "pve1", VMID: 8000},
	} {
		b.sim.ResetOps()
		created, err := b.Create(t.Context(), r)
		var field *guest.FieldError
		if !errors.As(err, &field) || field.Path != path || created.Guest.VMID != 0 {
			t.Errorf("%s: %+v, %v", path, created, err)
		}
		if b.asked("GET", "/cluster/resources", 0) == 0 {
			t.Errorf("%s was refused by an old listing", path)
		}
		for _, op := range b.sim.Ops() {
			if op.Method != http.MethodGet && !strings.HasPrefix(op.Path, "/access") {
				t.Errorf("%s: %s %s", path, op.Method, op.Path)
			}
		}
	}
}
