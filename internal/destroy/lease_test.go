package destroy

import (
	"testing"
	"time"
)

// TestLeaseWithSkewedClocks: the server that answers may be hours ahead of the one whose clock the lease was counted
// by. While this machine's clock says that a create may live, it is not taken for dead.
func TestLeaseWithSkewedClocks(t *testing.T) {
	r := newRig(t, asToken)
	if _, err := r.s.api.Cluster().Resources(t.Context()); err != nil { // tells the server's time
		t.Fatal(err)
	}
	deadline := r.s.guests.Deadline(0)
	r.sim.Advance(3 * time.Hour)
	for _, behind := range []time.Duration{3 * time.Hour, 2*time.Hour + 45*time.Minute} {
		r.behind = behind
		if _, err := r.s.api.Cluster().Resources(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := r.s.guests.Now(); now.After(deadline) {
			t.Errorf("this machine is %s behind: it is %s, the create may take until %s", behind, now, deadline)
		}
	}
	if r.behind = 0; !r.s.guests.Now().After(deadline) {
		t.Error("both clocks say that it is over, and it is not taken to be")
	}
}

// TestLeaseWithoutServerTime: without the server's clock the lease of a create is counted from this machine's.
func TestLeaseWithoutServerTime(t *testing.T) {
	r := newRig(t, asToken) // has asked nothing yet, as if no answer had said the time
	if !r.s.api.ServerTime().IsZero() {
		t.Fatal("the server's time is known already")
	}
	if left := r.s.guests.Deadline(0).Sub(r.s.clock.Now()); left <= 0 {
		t.Errorf("the lease of a create that begins now is over since %s", -left)
	}
}
