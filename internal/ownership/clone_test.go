package ownership

import (
	"testing"
	"time"
)

// TestOwnershipUseBeforeALaterClone: the clone that made the guest has left the task lists, and a later clone of the same source, for another
// VM, is the last that they have. Another user has worked with the guest in between: on the same node or on the other one, since the run of its
// create began. The tasks of an earlier guest of the id are no use of this one.
func TestOwnershipUseBeforeALaterClone(t *testing.T) {
	for name, c := range map[string]struct {
		node             string
		used, begun, end time.Duration // ago; end: of an earlier guest
		want             Owner
	}{
		"on the other node":              {"pve2", 10 * time.Hour, 20 * time.Hour, 0, Unknown},
		"on the same node":               {"pve1", 10 * time.Hour, 20 * time.Hour, 0, Unknown},
		"after an earlier guest":         {"pve1", 10 * time.Hour, 20 * time.Hour, 21 * time.Hour, Unknown},
		"an earlier guest":               {"pve1", 10 * time.Hour, 9 * time.Hour, 9*time.Hour + time.Minute, Ours},
		"one that ended after its begin": {"pve2", 10 * time.Hour, 20 * time.Hour, 9 * time.Hour, Ours},
	} {
		for _, kind := range []string{"qm", "vz"} {
			f := factsOf(making{by: "qmclone"})
			f.Mark.Begun = int(f.Clocks["pve1"] - int64(c.begun/time.Second))
			f.add("qmstart", theVM, neighbor, c.node, c.used)
			if c.end > 0 {
				f.add(kind+"create", theVM, neighbor, c.node, 22*time.Hour)
				f.add(kind+"destroy", theVM, neighbor, c.node, c.end)
			}
			f.Mark = f.Mark.Sign(theKey())
			if v := f.judged(); v.Owner != c.want {
				t.Errorf("%s (%s): %+v", name, kind, v)
			}
		}
	}
}

// TestOwnershipAfterAnEarlierContainer: tasks of a container that had the id before are no use of the VM, though a clone of the same source, for
// another VM, was begun while it was there.
func TestOwnershipAfterAnEarlierContainer(t *testing.T) {
	for _, kind := range []string{"qm", "vz"} {
		f := factsOf(making{by: "qmclone"})
		f.add(kind+"create", theVM, neighbor, "pve1", 10*time.Hour)
		f.add("qmclone", source, me, "pve1", 5*time.Hour)
		f.add(kind+"start", theVM, neighbor, "pve1", 4*time.Hour)
		f.add(kind+"destroy", theVM, neighbor, "pve1", 3*time.Hour)
		f.Mark = f.Mark.Sign(theKey())
		if v := f.judged(); v.Owner != Ours {
			t.Errorf("%s: %+v", kind, v)
		}
	}
}

// TestOwnershipDestroyBeforeALaterClone: a destroy of the guest was begun and did not end well, and then its source was cloned for another VM.
// The guest is not whole; if it was started since, a user may work with it.
func TestOwnershipDestroyBeforeALaterClone(t *testing.T) {
	for _, isStarted := range []bool{false, true} {
		f := factsOf(making{by: "qmclone"})
		f.add("qmclone", source, me, "pve1", 5*time.Hour)
		f.add("qmdestroy", theVM, me, "pve1", 3*time.Hour).Well = false
		want := Ours
		if isStarted {
			f.add("qmstart", theVM, me, "pve1", 2*time.Hour)
			want = Unknown
		}
		f.Mark = f.Mark.Sign(theKey())
		if v := f.judged(); v.Owner != want || v.Whole {
			t.Errorf("started %t: %+v", isStarted, v)
		}
	}
}
