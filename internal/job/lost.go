package job

import (
	"errors"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// Lost is a first request whose answer was lost and whose task was not found at once.
type Lost struct {
	Request  Request
	Since    time.Time
	Patience int // lookups until it counts as never done
}

// Patience is how long to go on looking for what a lost request did. A line that broke leaves a request that PVE either
// has or has not; behind a timeout its handler may be at work for minutes (596 comes after 30 s, pve-http-server
// AnyEvent.pm proxy_request).
func Patience(err error) int {
	var answer *pve.Error
	if errors.As(err, &answer) && answer.Status == 0 && answer.Err != nil && !isTimeout(answer.Err) {
		return 8 // about 15 s
	}
	return 45 // about two minutes
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
