package oplog

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
)

// Step records the beginning of a step of a saga. The caller must call the returned function with the error of the
// step. A step that succeeded without any request is not counted.
func Step(ctx context.Context, name string) (context.Context, func(error)) {
	return step(ctx, name, false)
}

// Undo records the beginning of the undo of a step, as Step does.
func Undo(ctx context.Context, name string) (context.Context, func(error)) {
	return step(ctx, name, true)
}

func step(ctx context.Context, name string, undo bool) (context.Context, func(error)) {
	o := From(ctx)
	if o == nil {
		return ctx, func(error) {}
	}
	shown, verb := name, "step"
	if undo {
		shown, verb = "undo of "+name, "undo"
	}
	began, before := o.config.Now(), o.asked()
	o.note(func() { o.steps = append(o.steps, shown) })
	inner, span := o.span(ctx, shown)
	return inner, func(err error) {
		idle := err == nil && o.asked() == before
		o.note(func() {
			if i := slices.Index(o.steps, shown); i >= 0 {
				o.steps = slices.Delete(o.steps, i, i+1)
			}
			switch {
			case idle:
			case undo:
				o.sum.StepsUndone++
			case err == nil:
				o.sum.StepsDone++
			}
		})
		if idle {
			return // a span that never ends is never reported
		}
		fields := map[string]string{"operation_id": o.id, "step": name,
			"duration_ms": strconv.FormatInt(o.config.Now().Sub(began).Milliseconds(), 10)}
		level, message, failed := slog.LevelDebug, "Transaction "+verb+" done", ""
		if err != nil {
			level, message, failed = slog.LevelInfo, "Transaction "+verb+" failed", "failed"
			fields["error"] = err.Error()
		}
		o.log(ctx, TX, level, message, fields)
		finish(span, failed)
	}
}
