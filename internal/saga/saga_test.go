package saga_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// world is what the steps of a test change: things that are there.
type world map[string]bool

var errFault = errors.New("fault")

// steps builds three steps on w. Step fail fails, before its effect or after it.
func (w world) steps(fail int, after bool, undos *[]string) []saga.Step {
	steps := make([]saga.Step, 3)
	for i := range steps {
		name := fmt.Sprint("step", i)
		steps[i] = saga.Step{
			Name: name,
			Do: func(context.Context) error {
				if i == fail && !after {
					return errFault
				}
				w[name] = true
				if i == fail {
					return errFault
				}
				return nil
			},
			Undo: func(context.Context) error {
				*undos = append(*undos, name)
				delete(w, name)
				return nil
			},
		}
	}
	return steps
}

func TestRunUndoesTheFailedStepAndThoseBeforeIt(t *testing.T) {
	for fail := range 3 {
		for _, after := range []bool{false, true} {
			w, undos := world{}, []string{}
			err := saga.Run(t.Context(), time.Minute, w.steps(fail, after, &undos)...)
			var failed *saga.Error
			if !errors.As(err, &failed) || failed.Step != fmt.Sprint("step", fail) || !errors.Is(err, errFault) {
				t.Fatalf("fail=%d after=%t: got %v", fail, after, err)
			}
			if !saga.RolledBack(err) || len(w) != 0 {
				t.Errorf("fail=%d after=%t: left %v, %v", fail, after, w, err)
			}
			want := []string{"step2", "step1", "step0"}[2-fail:]
			if !slices.Equal(undos, want) {
				t.Errorf("fail=%d: undone %v, want %v", fail, undos, want)
			}
			for _, step := range w.steps(-1, false, &undos) {
				if err := step.Undo(t.Context()); err != nil || len(w) != 0 {
					t.Errorf("a second undo of %s changed something: %v %v", step.Name, w, err)
				}
			}
		}
	}
}

func TestRunWithoutFailureKeepsEverything(t *testing.T) {
	w, undos := world{}, []string{}
	if err := saga.Run(t.Context(), time.Minute, w.steps(-1, false, &undos)...); err != nil {
		t.Fatal(err)
	}
	if len(w) != 3 || len(undos) != 0 {
		t.Errorf("world %v, undone %v", w, undos)
	}
}

func TestRunGoesOnAfterAFailedUndoAndNamesWhatIsLeft(t *testing.T) {
	w, undos := world{}, []string{}
	steps := w.steps(2, true, &undos)
	steps[1].Undo = func(context.Context) error {
		return fmt.Errorf("wrapped: %w", &saga.LeftError{Left: []saga.Residue{{Kind: "volume", What: "volume x",
			Command: "rm x"}}})
	}
	steps[2].Undo = func(context.Context) error { return errors.New("undo broke") }
	err := saga.Run(t.Context(), time.Minute, steps...)
	var failed *saga.Error
	if !errors.As(err, &failed) || saga.RolledBack(err) {
		t.Fatalf("got %v", err)
	}
	if len(failed.Left) != 1 || failed.Left[0].What != "volume x" || len(failed.Undo) != 1 {
		t.Errorf("left %v, undo errors %v", failed.Left, failed.Undo)
	}
	if !slices.Equal(undos, []string{"step0"}) || w["step0"] {
		t.Errorf("step0 was not undone: %v", undos)
	}
}

func TestCancelIsAFailedStepAndDoesNotReachTheUndo(t *testing.T) {
	for at := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		w, undos := world{}, []string{}
		steps := w.steps(-1, false, &undos)
		do := steps[at].Do
		steps[at].Do = func(ctx context.Context) error {
			err := do(ctx)
			cancel()
			return err
		}
		undo := steps[0].Undo
		steps[0].Undo = func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Errorf("at=%d: the undo got a dead context", at)
			}
			if _, ok := ctx.Deadline(); !ok {
				t.Errorf("at=%d: the undo has no deadline", at)
			}
			return undo(ctx)
		}
		err := saga.Run(ctx, time.Minute, steps...)
		if at == 2 {
			if err != nil || len(w) != 3 {
				t.Errorf("a cancel after the last step undid it: %v %v", err, w)
			}
			continue
		}
		if !errors.Is(err, context.Canceled) || len(w) != 0 {
			t.Errorf("at=%d: %v, left %v", at, err, w)
		}
		if text := err.Error(); text != fmt.Sprintf("Interrupted before the step: step%d", at+1) {
			t.Errorf("at=%d: it says %q of a step that was not begun", at, text)
		}
	}
}

func TestCancelBeforeTheFirstStepUndoesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w, undos := world{}, []string{}
	err := saga.Run(ctx, time.Minute, w.steps(-1, false, &undos)...)
	if !errors.Is(err, context.Canceled) || len(undos) != 0 || len(w) != 0 {
		t.Errorf("%v, undone %v, world %v", err, undos, w)
	}
}

func TestErrorSaysWhatIsLeft(t *testing.T) {
	err := &saga.Error{Step: "create VM 100", Err: errFault, Left: []saga.Residue{{What: "volume a"}},
		Undo: []error{errors.New("undo of x: y")}}
	want := "create VM 100: fault; not everything could be undone; undo of x: y; left: volume a"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err.Error(), want)
	}
}

// TestRegardlessOfAnInterrupt: a step that is done regardless is done after the context has ended, as long as an undo is, and
// nothing is undone. Any other step is not, and all is undone.
func TestRegardlessOfAnInterrupt(t *testing.T) {
	for _, regardless := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		w, undos := world{}, []string{}
		steps := w.steps(-1, false, &undos)
		before := steps[1].Do
		steps[1].Do = func(ctx context.Context) error {
			defer cancel()
			return before(ctx)
		}
		last := steps[2].Do
		steps[2].Regardless = regardless
		steps[2].Do = func(ctx context.Context) error {
			if at, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(at) > time.Minute {
				t.Errorf("the last step got a context that ends at %s, %v", at, ctx.Err())
			}
			return last(ctx)
		}
		err := saga.Run(ctx, time.Minute, steps...)
		if regardless && (err != nil || len(w) != 3 || len(undos) != 0) {
			t.Errorf("done regardless: %v, left %v, undone %v", err, w, undos)
		}
		if !regardless && (!errors.Is(err, context.Canceled) || len(w) != 0 || !slices.Equal(undos, []string{"step1", "step0"})) {
			t.Errorf("not regardless: %v, left %v, undone %v", err, w, undos)
		}
	}
}
