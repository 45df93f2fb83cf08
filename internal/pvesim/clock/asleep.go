package clock

import (
	"time"
	"unsafe"
)

// Asleep is what a clock that showed t shows after the machine has slept for d: the wall clock has moved on, and the
// monotonic one has stood still. Package time makes no such reading by itself, so the test changes its second word.
func Asleep(t time.Time, d time.Duration) time.Time {
	t = t.Add(d)
	if t.Round(0) == t { // it has no monotonic reading
		return t
	}
	reading := (*struct { // as package time has it
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&t))
	reading.ext -= int64(d)
	return t
}
