package clock

import (
	"testing"
	"time"
)

// TestAsleep: the wall clock moves, and the monotonic one does not.
func TestAsleep(t *testing.T) {
	before := time.Now()
	after := Asleep(before, time.Hour)
	if after.Sub(before) != 0 || after.Round(0).Sub(before.Round(0)) != time.Hour {
		t.Errorf("from %v to %v: %v monotonic, %v on the wall", before, after, after.Sub(before), after.Round(0).Sub(before.Round(0)))
	}
	bare := before.Round(0)
	if got := Asleep(bare, time.Hour).Sub(bare); got != time.Hour {
		t.Errorf("without a monotonic reading: %v", got)
	}
}
