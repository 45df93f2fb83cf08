//go:build !unix

package main

import (
	"os"
	"time"
)

// usageOf is what a process that has ended used. Its memory is not known here.
func usageOf(p *os.ProcessState) usage { return usage{CPU: p.UserTime() + p.SystemTime()} }

// ownCPU is not known here; it is some milliseconds.
func ownCPU() time.Duration { return 0 }
