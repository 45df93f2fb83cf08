package request

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

var (
	errChanged     = &pve.Error{Status: 500, Kind: pve.DigestMismatch, Message: "checksum mismatch"}
	errUnavailable = &pve.Error{Kind: pve.Unavailable, Message: "connection refused"}
	errDenied      = &pve.Error{Status: 403, Kind: pve.Denied, Message: "Permission check failed"}
)

// TestRetry: each policy ends with a success, an error that it does not repeat, its number of tries or its time, and
// the error is that of the last try.
func TestRetry(t *testing.T) {
	for name, c := range map[string]struct {
		policy Policy
		errs   []error // of the tries; the last one is that of all further tries
		tries  int
		want   error
	}{
		"at once":       {Conflict(), []error{nil}, 1, nil},
		"second":        {Conflict(), []error{errChanged, nil}, 2, nil},
		"too many":      {Conflict(), []error{errChanged}, conflictTries, errChanged},
		"other error":   {Conflict(), []error{errChanged, errDenied}, 2, errDenied},
		"lost answer":   {LostAnswer(), []error{errLocked}, 1, errLocked},
		"every error":   {Policy{Tries: 4}, []error{errDenied}, 4, errDenied},
		"time":          {Policy{Within: time.Second}, []error{errUnavailable}, 4, errUnavailable}, // 0, 200, 600 and 1400 ms
		"time and kind": {Policy{Within: time.Hour, Again: Kinds(pve.Unavailable)}, []error{errUnavailable, errDenied}, 2, errDenied},
	} {
		r, clock := contending(func() float64 { return 0.5 })
		tries := 0
		err := r.Retry(t.Context(), c.policy, func(context.Context) error {
			tries++
			return c.errs[min(tries, len(c.errs))-1]
		})
		if !errors.Is(err, c.want) || tries != c.tries || len(clock.sleeps) != tries-1 {
			t.Errorf("%s: %v after %d tries and pauses %s", name, err, tries, clock.sleeps)
		}
	}
	r, clock := contending(func() float64 { return 0.5 })
	ctx, cancel := context.WithCancel(t.Context())
	clock.cancel = cancel
	if err := r.Retry(ctx, Policy{}, func(context.Context) error { return errChanged }); !errors.Is(err, errChanged) || len(clock.sleeps) != 3 {
		t.Errorf("interrupted: %v after %s", err, clock.sleeps)
	}
}

// TestPoll: a look that was not answered is repeated, one that failed is not, and time that is over is no error.
func TestPoll(t *testing.T) {
	type look struct {
		done bool
		err  error
	}
	for name, c := range map[string]struct {
		policy Policy
		looks  []look
		tries  int
		done   bool
		want   error
	}{
		"at once":      {Policy{}, []look{{true, nil}}, 1, true, nil},
		"not reached":  {Policy{}, []look{{false, errUnavailable}, {false, nil}, {true, nil}}, 3, true, nil},
		"failed":       {Policy{}, []look{{false, nil}, {false, errDenied}}, 2, false, errDenied},
		"done, failed": {Policy{}, []look{{true, errDenied}}, 1, false, errDenied},
		"tries":        {Policy{Tries: 3}, []look{{false, nil}}, 3, false, nil},
		"time":         {Policy{Within: time.Second}, []look{{false, errUnavailable}}, 4, false, nil},
		"any failure":  {Policy{Again: func(error) bool { return true }}, []look{{false, errDenied}, {true, nil}}, 2, true, nil},
	} {
		r, clock := contending(func() float64 { return 0.5 })
		tries := 0
		done, err := r.Poll(t.Context(), c.policy, func(context.Context) (bool, error) {
			tries++
			l := c.looks[min(tries, len(c.looks))-1]
			return l.done, l.err
		})
		if done != c.done || !errors.Is(err, c.want) || tries != c.tries || len(clock.sleeps) != tries-1 {
			t.Errorf("%s: %t, %v after %d looks and pauses %s", name, done, err, tries, clock.sleeps)
		}
	}
	r, clock := contending(func() float64 { return 0.5 })
	ctx, cancel := context.WithCancel(t.Context())
	clock.cancel = cancel
	never := func(context.Context) (bool, error) { return false, nil }
	if done, err := r.Poll(ctx, Policy{}, never); done || !errors.Is(err, context.Canceled) || len(clock.sleeps) != 3 {
		t.Errorf("interrupted: %t, %v after %s", done, err, clock.sleeps)
	}
}
