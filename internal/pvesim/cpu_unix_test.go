//go:build unix

package pvesim_test

import (
	"syscall"
	"time"
)

// processorTime is what this process has used so far, in user and system time.
func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // the arguments are constants
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
