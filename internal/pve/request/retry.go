package request

import (
	"context"
	"slices"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/backoff"
)

// Policy says when a try is followed by another one, and how often. The zero value repeats after every error, for as
// long as the context lasts.
type Policy struct {
	// Tries is how many there are in all, the first included; 0 is no limit.
	Tries int
	// Within is the time, on the Runner's clock, after which no further try begins; 0 is no limit.
	Within time.Duration
	// Again tells whether another try may follow an error; nil is yes to every error.
	Again func(error) bool
	// Backoff gives the pauses between tries; the zero value is for a look whether something has come about.
	Backoff backoff.Reason
}

const (
	// conflictTries is how often a write is tried that a third party's change comes before.
	conflictTries = 5
	// lostTries is how often a request is sent whose answer gets lost.
	lostTries = 3
)

// Conflict is the policy of a write that bears the digest of the config read just before it, as part of the same try: a
// third party may change the configuration between the two.
func Conflict() Policy { return Policy{Tries: conflictTries, Again: Kinds(pve.DigestMismatch)} }

// LostAnswer is the policy of a request that does no harm when it is carried out twice, or that a look comes before
// in each try.
func LostAnswer() Policy { return Policy{Tries: lostTries, Again: Kinds(pve.Ambiguous)} }

// Kinds is a value for Policy.Again: yes to errors of these kinds.
func Kinds(kinds ...pve.Kind) func(error) bool {
	return func(err error) bool { return slices.Contains(kinds, pve.KindOf(err)) }
}

// Retry does something until it succeeds or the policy allows no further try. It returns the error of the last try,
// also where the context ends during a pause. The first try is made at once.
func (r *Runner) Retry(ctx context.Context, p Policy, do func(context.Context) error) error {
	began := r.Clock.Now()
	for try := 1; ; try++ {
		err := do(ctx)
		if err == nil || p.Again != nil && !p.Again(err) || p.isOver(try, r.Clock.Now().Sub(began)) {
			return err
		}
		if r.pause(ctx, p.Backoff, try) != nil {
			return err
		}
	}
}

// Poll looks until what is waited for has come about. It gives false without an error where the policy allows no
// further look. A look that fails is followed by another one where Again says so; with Again nil, that is where the
// server was not reached. The error is that of the look, or of the context.
func (r *Runner) Poll(ctx context.Context, p Policy, look func(context.Context) (bool, error)) (bool, error) {
	if p.Again == nil {
		p.Again = Kinds(pve.Unavailable)
	}
	began := r.Clock.Now()
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		done, err := look(ctx)
		switch {
		case err != nil && !p.Again(err):
			return false, err
		case err == nil && done:
			return true, nil
		case p.isOver(try, r.Clock.Now().Sub(began)):
			return false, nil
		}
		if err := r.pause(ctx, p.Backoff, try); err != nil {
			return false, err
		}
	}
}

// isOver reports whether no further try follows the one with this number.
func (p Policy) isOver(try int, passed time.Duration) bool {
	return try == p.Tries || p.Within > 0 && passed >= p.Within
}

// Pause waits longer before each further attempt, and not at all before the first, which is number 0.
func (r *Runner) Pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return ctx.Err()
	}
	return r.pause(ctx, backoff.ForEffect, attempt)
}

func (r *Runner) pause(ctx context.Context, b backoff.Reason, try int) error {
	ctx, over := oplog.Wait(ctx, oplog.Pause, "the moment to look again")
	defer over()
	return r.Clock.Sleep(ctx, b.Pause(try, r.chance()))
}
