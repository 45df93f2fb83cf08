package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/backoff"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/fault"
)

const (
	readTries  = 3
	writeTries = 5
)

// withRetry repeats what may be repeated and turns every failure into an *Error. A write is repeated only if no
// connection was made. One that a lock stood in the way of is the caller's to repeat (see fault.Contended): it knows
// how long to wait.
func (c *Conn) withRetry(next handler) handler {
	return func(ctx context.Context, r *Request) (*response, error) {
		for try := 1; ; try++ {
			resp, err := next(ctx, r)
			failure := c.judge(r, resp, err)
			if failure == nil {
				return resp, nil
			}
			pause, again := c.retryPause(r, failure, try)
			if !again || ctx.Err() != nil || !leavesTime(ctx, pause) {
				c.noteUnreached(r, failure)
				return resp, failure
			}
			c.log(ctx, "PVE request failed, trying again", map[string]string{
				"request": r.id, "operation": r.Op, "method": r.Method, "path": r.Path, "error": failure.Error(),
				"try": strconv.Itoa(try), "pause": pause.String(),
			})
			if c.pause(ctx, r, pause) != nil {
				return resp, failure
			}
		}
	}
}

// pause lets the time before another try of a request pass.
func (c *Conn) pause(ctx context.Context, r *Request, pause time.Duration) error {
	ctx, over := oplog.Wait(ctx, oplog.Retry, "another try of "+r.Method+" "+r.Path)
	defer over()
	if err := c.clock.Sleep(ctx, pause); err != nil {
		return err
	}
	oplog.From(ctx).Retry()
	return nil
}

// noteUnreached notes that a node could not be reached until the end, so that the next requests for it are not tried
// again each.
func (c *Conn) noteUnreached(r *Request, e *fault.Error) {
	if e.Status == statusNoNode && r.node() != "" && !r.Once && !r.IsWrite() {
		c.endpoints.noteOffline(r.node(), c.clock.Now())
	}
}

// retryPause says whether a failure may be tried again, and after how long.
func (c *Conn) retryPause(r *Request, e *fault.Error, try int) (time.Duration, bool) {
	tries := readTries
	switch {
	case e.Foreign && e.Status < 500 && e.Status != http.StatusTooManyRequests: // it would say the same
		return 0, false
	case r.Once, e.Status == statusNoNode && c.endpoints.isOffline(r.node(), c.clock.Now()):
		return 0, false
	case r.IsWrite():
		if !e.Unsent || e.Kind != fault.Unavailable || !isTransient(e.Err) {
			return 0, false
		}
		tries = writeTries
	case e.Status == 596: // to a read there is nothing ambiguous about it
	case e.Kind == fault.Unavailable && isTransient(e.Err):
	case e.Kind == fault.Unknown && e.Status >= 500:
	default:
		return 0, false
	}
	if isTimeout(e.Err) {
		tries = 2 // each has cost its whole timeout already
	}
	if try >= tries {
		return 0, false
	}
	return backoff.AfterFailure.Pause(try, c.chance()), true
}

// leavesTime tells whether a pause ends before the caller's deadline. Deadlines are in real time, whatever the Clock.
func leavesTime(ctx context.Context, pause time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > pause
}

// isTransient tells whether a failed connection may work the next time: not with a name that does not exist or a
// certificate that is refused.
func isTransient(err error) bool {
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return false
	}
	return !isRefused(err)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// isRefused tells whether the server spoke no TLS, or its certificate was refused.
func isRefused(err error) bool {
	var verification *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	return errors.As(err, &record) || errors.As(err, &hostname) || errors.As(err, &unknown) ||
		errors.As(err, &verification) || errors.As(err, &invalid)
}
