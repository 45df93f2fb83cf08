package provision

import (
	"testing"
	"time"
)

// TestWhatIsKeptIsNeverTakenBack: a later create with the same name takes back what a dead one left, but not what the
// user wanted kept.
func TestWhatIsKeptIsNeverTakenBack(t *testing.T) {
	end := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if got := (CreateRequest{OnFailure: Keep}).until(end); got.Before(end.AddDate(100, 0, 0)) {
		t.Errorf("what is kept may be taken back from %s on", got)
	}
	if got := (CreateRequest{UndoTimeout: time.Minute}).until(end); got != end.Add(time.Minute) {
		t.Errorf("the lease of a create and its undo ends %s", got)
	}
	s := newStamp("pve1", 100, (CreateRequest{OnFailure: Keep}).until(end))
	if back, ok := parseStamp(s.String()); !ok || back != s {
		t.Errorf("the stamp does not survive: %v", back)
	}
}
