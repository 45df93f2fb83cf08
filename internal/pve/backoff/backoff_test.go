package backoff

import (
	"testing"
	"time"
)

// TestBackoff: every policy begins with its first pause, never shrinks, and stays at its last one.
func TestBackoff(t *testing.T) {
	for policy := ForEffect; policy <= ForGuest; policy++ {
		p := policy.pauses()
		if p.first <= 0 || p.last < p.first || p.spread < 0 || p.spread > 1 {
			t.Errorf("policy %d: %+v", policy, p)
		}
		was := time.Duration(0)
		for try := 1; try < 100; try++ {
			pause := policy.Pause(try, 0.5)
			if try == 1 && pause != p.first || pause < was || pause > p.last || try > 40 && pause != p.last {
				t.Errorf("policy %d, try %d: %s after %s", policy, try, pause, was)
			}
			low, high := policy.Pause(try, 0), policy.Pause(try, 0.999)
			if low > pause || high < pause || low <= 0 || p.spread > 0 && low == high {
				t.Errorf("policy %d, try %d: from %s to %s", policy, try, low, high)
			}
			was = pause
		}
	}
}
