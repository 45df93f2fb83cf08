package guest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ownership"
)

// TestUsesThatWereNamed: of the many tasks of weeks the state keeps the latest of each node, and a warning names a few. A later task, and one of a
// node that had none, were not named.
func TestUsesThatWereNamed(t *testing.T) {
	task := func(node string, start int64, worker int) ownership.Task {
		return ownership.Task{UPID: fmt.Sprintf("UPID:%s:%08X:00000001:%08X:qmsnapshot:150:other@pve:", node, worker, start),
			Type: "qmsnapshot", ID: "150", User: "other@pve", Node: node, Start: start}
	}
	var all []ownership.Task
	for i := range 700 {
		all = append(all, task("pve1", int64(1_800_000_000+i/2), i), task("pve2", int64(1_900_000_000-i/2), i))
	}
	earlier := task("pve1", 1_700_000_000, 1).UPID
	p := (&Proof{Used: []string{earlier}}).NoteUses(all)
	if len(p.Used) != 4 || slices.Contains(p.Used, earlier) || !slices.ContainsFunc(all, p.hasNamed) {
		t.Errorf("the state keeps %q", p.Used)
	}
	for _, is := range all {
		if !p.hasNamed(is) {
			t.Errorf("%s was named", is.UPID)
		}
	}
	for _, later := range []ownership.Task{task("pve1", 1_800_000_349, 1000), task("pve1", 1_800_000_350, 1), task("pve3", 1, 1)} {
		if p.hasNamed(later) {
			t.Errorf("%s was not named", later.UPID)
		}
	}
	if said := NameUses(all); strings.Count(said, "UPID:") != 6 || !strings.Contains(said, "; 1394 more tasks; ") {
		t.Error(said)
	}
	if said := NameUses(all[:7]); strings.Count(said, "UPID:") != 7 {
		t.Error(said)
	}
}

// TestNamedUsesBeforeAStartThatNoListShows: such a start stands for no task before it on its node, whether they are named together or it is
// named later.
func TestNamedUsesBeforeAStartThatNoListShows(t *testing.T) {
	snapshot := ownership.Task{UPID: "UPID:pve1:00000001:00000001:6B49D200:qmsnapshot:150:other@pve:", Node: "pve1", Start: 0x6B49D200}
	rollback := ownership.Task{UPID: "UPID:pve1:00000002:00000001:6B49D210:qmrollback:150:other@pve:", Node: "pve1", Start: 0x6B49D210}
	start := ownership.Task{UPID: "no task that can be seen shows it, but its guest runs: process 1000 on node pve1", Start: 0x6B49D215}
	for name, p := range map[string]*Proof{
		"together": (&Proof{}).NoteUses([]ownership.Task{snapshot, rollback, start}),
		"later":    (&Proof{}).NoteUses([]ownership.Task{snapshot, rollback}).NoteUses([]ownership.Task{start}),
	} {
		for _, is := range []ownership.Task{snapshot, rollback, start} {
			if !p.hasNamed(is) {
				t.Errorf("%s: %s was named: %q", name, is.UPID, p.Used)
			}
		}
	}
}

// TestNoDestroyIsAwaitedThatHasNotBegun: with -parallelism=1 Terraform begins no destroy while a create is at work, so
// a create that awaited one would wait for ever. Each destroy at work holds a place of its own.
func TestNoDestroyIsAwaitedThatHasNotBegun(t *testing.T) {
	var d Departures
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // whatever is awaited fails
	for want := range 3 {
		if begun, err := d.Await(ctx, 400); err != nil && want == 0 || begun > want {
			t.Errorf("after %d destroys: %d, %v", want, begun, err)
		}
		if begun, err := d.Await(t.Context(), 400); err != nil || begun != want {
			t.Errorf("after %d destroys: %d, %v", want, begun, err)
		}
		d.Begin(400)()
	}
}
