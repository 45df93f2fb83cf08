//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// usageOf is what a process that has ended used, with the children that it waited for.
func usageOf(p *os.ProcessState) usage {
	u := usage{CPU: p.UserTime() + p.SystemTime()}
	if r, ok := p.SysUsage().(*syscall.Rusage); ok {
		u.RSS = int64(r.Maxrss)       //nolint:unconvert // it has 32 bits on some systems
		if runtime.GOOS != "darwin" { // KiB elsewhere
			u.RSS <<= 10
		}
	}
	return u
}

// ownCPU is what this process has used itself.
func ownCPU() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
