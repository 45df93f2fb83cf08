//go:build !unix

package pvesim_test

import "time"

// processorTime is the time on the wall where the system does not tell what a process has used.
func processorTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
