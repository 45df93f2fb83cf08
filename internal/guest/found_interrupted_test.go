package guest

import (
	"context"
	"errors"
	"testing"
)

// interrupted is a context that has ended when it is asked after an answer has come.
type interrupted struct {
	context.Context
	answered func() bool
}

func (i interrupted) Err() error {
	if i.answered() {
		return context.Canceled
	}
	return nil
}

// TestFoundInterruptAfterTheListing: an interrupt right after the answer to a listing gave no fence and no error, and the create that
// asked for it died of that.
func TestFoundInterruptAfterTheListing(t *testing.T) {
	w := newWorld(t, nil)
	resources, before := w.resources(), w.sim.LastOp()
	answered := func() bool {
		ops := w.sim.OpsAfter(before)
		return len(ops) > 0 && ops[0].Status != 0
	}
	f, err := w.s.NewFence(interrupted{t.Context(), answered}, resources, "pve1", theVM, []string{"local-zfs"})
	if !answered() {
		t.Fatal("nothing was asked")
	}
	if f != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("the fence is %v, and the error %v", f, err)
	}
}
