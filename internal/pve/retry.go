package pve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
)

const (
	readTries  = 3
	writeTries = 5
)

// withRetry repeats what may be repeated and turns every failure into an *Error. A write is repeated only if no connection
// was made. One that was refused for somebody's lock is the caller's to repeat (see Contended): he knows how long to wait.
func (c *Client) withRetry(next handler) handler {
	return func(ctx context.Context, r *request) (*response, error) {
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
				"request": r.id, "operation": r.op, "method": r.method, "path": r.path, "error": failure.Error(),
				"try": strconv.Itoa(try), "pause": pause.String(),
			})
			if c.pause(ctx, r, pause) != nil {
				return resp, failure
			}
		}
	}
}

// pause lets the time before another try of a request pass.
func (c *Client) pause(ctx context.Context, r *request, pause time.Duration) error {
	ctx, over := account.Wait(ctx, account.Retry, "another try of "+r.method+" "+r.path)
	defer over()
	if err := c.clock.Sleep(ctx, pause); err != nil {
		return err
	}
	account.From(ctx).Retry()
	return nil
}

// noteUnreached notes that a node could not be reached until the end, so that the next requests for it are not tried again each.
func (c *Client) noteUnreached(r *request, e *Error) {
	if e.Status == statusNoNode && r.node() != "" && !r.once && !r.isWrite() {
		c.endpoints.noteOffline(r.node(), c.clock.Now())
	}
}

// retryPause says whether a failure may be tried again, and after how long.
func (c *Client) retryPause(r *request, e *Error, try int) (time.Duration, bool) {
	tries := readTries
	switch {
	case r.once, e.Status == statusNoNode && c.endpoints.isOffline(r.node(), c.clock.Now()):
		return 0, false
	case r.isWrite():
		if !e.unsent || e.Kind != Unavailable || !isTransient(e.Err) {
			return 0, false
		}
		tries = writeTries
	case e.Status == 596: // to a read there is nothing ambiguous about it
	case e.Kind == Unavailable && isTransient(e.Err):
	case e.Kind == Unknown && e.Status >= 500:
	default:
		return 0, false
	}
	if isTimeout(e.Err) {
		tries = 2 // each has cost its whole timeout already
	}
	if try >= tries {
		return 0, false
	}
	return AfterFailure.Pause(try, c.chance()), true
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
	return certificateHint(err) == ""
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// certificateHint says what to do about a server whose certificate was refused, and is empty for every other error.
func certificateHint(err error) string {
	var verification *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record):
		return " (the server does not speak TLS on this port)"
	case errors.As(err, &hostname):
		return " (use a name that stands in the certificate as the endpoint)"
	case errors.As(err, &unknown), errors.As(err, &verification), errors.As(err, &invalid):
		return " (give the CA certificate of the cluster, /etc/pve/pve-root-ca.pem, or switch the verification off)"
	}
	return ""
}
